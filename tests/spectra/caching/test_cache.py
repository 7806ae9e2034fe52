"""The smaller cache: at full rank it changes nothing; it generates, pads, saves, loads and counts."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")

import exactformer as ef
from exactformer.errors import InputError
from exactformer.spectra.caching import LatentCache, UnfamiliarTextWarning
from exactformer.spectra.caching.evaluation import losses
from tests.spectra.caching.models import FAMILIES, build, llama, tokens, written


@pytest.fixture(scope="module")
def original() -> Any:
    return build(llama)


@pytest.fixture(scope="module")
def half(original: Any) -> Any:
    return ef.shrink_cache(original, tokens(), cache=0.5)


def logits(model: Any, ids: torch.Tensor, **more: Any) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(input_ids=ids, **more).logits
    return result


@pytest.mark.spread(3)
@pytest.mark.parametrize("make", FAMILIES)
def test_at_full_rank_the_model_is_the_original_saved_loaded_and_generating(
    make: Any, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    model, ids = build(make), tokens()
    shrunk = ef.shrink_cache(model, ids, cache=1.0)
    torch.testing.assert_close(logits(shrunk.model, ids), logits(model, ids), atol=1e-5, rtol=0)
    shrunk.save(tmp_path)
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1  # weights can be read by whoever can read the rest
    for loaded in (ef.load_shrunk(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)):
        assert torch.equal(logits(loaded, ids), logits(shrunk.model, ids))
    kind = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    mask = torch.ones_like(ids[:2])
    mask[1, :7] = 0  # a shorter text, padded on the left
    for beams in (1, 2):
        asked = {"attention_mask": mask, "num_beams": beams, **kind}
        assert torch.equal(loaded.generate(ids[:2], **asked), model.generate(ids[:2], **asked))


@pytest.mark.spread(3)
@pytest.mark.parametrize("make", FAMILIES)
def test_writing_token_by_token_is_reading_all_at_once(make: Any) -> None:
    ids = tokens()
    model = ef.shrink_cache(build(make), ids, cache=0.5).model
    at_once, cache = logits(model, ids[:2]), None
    with torch.no_grad():
        for part in ids[:2].split([9, 1, 1, 13], dim=1):
            out = model(input_ids=part, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
    torch.testing.assert_close(out.logits, at_once[:, -13:], atol=1e-4, rtol=1e-4)


def test_attention_written_out_gives_the_same(half: Any) -> None:
    eager, ids = copy.deepcopy(half.model), tokens(2)
    eager.set_attn_implementation("eager")
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    same = logits(eager, ids, attention_mask=mask), logits(half.model, ids, attention_mask=mask)
    torch.testing.assert_close(*(x[mask.bool()] for x in same), atol=1e-4, rtol=1e-4)


def test_padding_changes_nothing(half: Any) -> None:
    ids = tokens(2)
    for keep in (slice(5, None), slice(None, -5)):
        mask = torch.zeros_like(ids)
        mask[:, keep] = 1
        padded = logits(half.model, ids, attention_mask=mask)[:, keep]
        torch.testing.assert_close(padded, logits(half.model, ids[:, keep]), atol=1e-4, rtol=1e-4)
    mixed = torch.ones_like(ids)
    mixed[1, :5] = 0
    kind = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    both = half.model.generate(ids, attention_mask=mixed, **kind)
    alone = half.model.generate(ids[1:, 5:], **kind)
    assert torch.equal(both[1:, 5:], alone)


def test_the_first_token_is_kept_exactly_whatever_the_rank(original: Any) -> None:
    small = ef.shrink_cache(original, tokens(), cache=0.1, method="grouped").model
    with torch.no_grad():  # output projections are refitted for the tokens behind the first
        for new, old in zip(small.network.model.layers, original.model.layers, strict=True):
            new.self_attn.o_proj.weight.copy_(old.self_attn.o_proj.weight)
    ids = tokens(2)[:, :6]
    one = logits(original, ids[:, -1:])
    torch.testing.assert_close(logits(small, ids[:, -1:]), one, atol=1e-5, rtol=0)
    padding = torch.tensor([[0, 0, 0, 0, 0, 1]] * 2)
    alone = logits(small, ids, attention_mask=padding)[:, -1:]
    torch.testing.assert_close(alone, one, atol=1e-5, rtol=0)
    two = logits(small, ids[:, -2:])[:, 1] - logits(original, ids[:, -2:])[:, 1]
    assert float(two.abs().max()) > 1e-3  # the second token pays


def test_the_cache_holds_what_the_report_says(half: Any, original: Any) -> None:
    report, ids = half.report, tokens(3)
    state = 2 * 2 * 8 * 3
    assert report.bytes_per_token.before == 4 * state
    assert report.bytes_per_token.after == 4 * sum(half.model.config.ranks) + 4 <= 2 * state
    with torch.no_grad():
        cache = half.model(input_ids=ids, use_cache=True).past_key_values
    assert isinstance(cache, LatentCache)
    first = 3 * 4 * state + 3 * 8  # each text's first token as it is, and where it stands
    assert cache.nbytes == first + ids.numel() * report.bytes_per_token.after
    layer = cache.layers[0]
    assert layer.keys is None
    assert layer.values is None


def test_errors_are_held_out(half: Any, original: Any) -> None:
    ids = tokens()
    assert half.report.measured == 2 * 23
    assert half.report.calibrated == 8 * 24
    assert half.report.loss.after == pytest.approx(float(losses(half.model, ids[[4, 9]]).mean()))
    given = ef.shrink_cache(original, ids, cache=0.5, held_out=tokens(3, seed=5)).report
    assert given.calibrated == ids.numel()
    assert given.measured == 3 * 23


def test_max_loss_finds_the_smallest_cache(original: Any) -> None:
    ids = written(original)
    exact = ef.shrink_cache(original, ids, max_loss=0.002)
    rough = ef.shrink_cache(original, ids, max_loss=0.2)
    assert exact.report.perplexity_rise <= 0.002
    assert rough.report.perplexity_rise <= 0.2
    assert rough.report.bytes_per_token.after < exact.report.bytes_per_token.after


def test_the_original_is_left_as_it_was(original: Any) -> None:
    before, config = copy.deepcopy(original.state_dict()), original.config.to_dict()
    ef.shrink_cache(original, tokens(), cache=0.3)
    assert all(torch.equal(x, before[name]) for name, x in original.state_dict().items())
    assert original.config.to_dict() == config
    assert original.config._attn_implementation == "sdpa"
    assert all(p.requires_grad and p.grad is None for p in original.parameters())


def test_bfloat16_comes_back_as_it_came(original: Any) -> None:
    model = copy.deepcopy(original).bfloat16()
    small, report = ef.shrink_cache(model, tokens(), cache=0.5)
    assert small.dtype == torch.bfloat16
    assert report.bytes_per_token.before == 2 * 96
    assert report.bytes_per_token.after == 2 * sum(small.config.ranks) + 4 <= 96
    out = small.generate(tokens(1), max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert out.shape == (1, 28)
    near = ef.shrink_cache(original, tokens(), cache=0.5).model
    torch.testing.assert_close(
        logits(small, tokens(1)).float(), logits(near, tokens(1)), atol=0.3, rtol=0.1
    )


def test_a_cache_is_cropped_and_reordered_like_any_other(half: Any) -> None:
    ids = tokens(2)
    with torch.no_grad():
        cache = half.model(input_ids=ids, use_cache=True).past_key_values
        cache.crop(-4)
        cache.batch_repeat_interleave(2)
        cache.reorder_cache(torch.tensor([2, 3, 0, 1]))
        cache.batch_select_indices(torch.tensor([0, 2]))
        again = half.model(input_ids=ids[[1, 0], -4:], past_key_values=cache).logits
    torch.testing.assert_close(again, logits(half.model, ids)[[1, 0], -4:], atol=1e-4, rtol=1e-4)
    cache.reset()
    assert cache.nbytes == 0


def test_attention_that_would_not_be_returned_is_refused(half: Any) -> None:
    with pytest.raises(InputError, match="output_attentions"):
        half.model(input_ids=tokens(1), output_attentions=True)


def test_other_caches_are_refused(half: Any) -> None:
    from transformers import DynamicCache

    with pytest.raises(InputError, match="DynamicCache"):
        half.model(input_ids=tokens(1), past_key_values=DynamicCache())
    with pytest.raises(InputError, match="cache_implementation = 'static'"):
        half.model.generate(tokens(1), max_new_tokens=2, cache_implementation="static")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({}, "give one of cache and max_loss"),
        ({"cache": 0.5, "max_loss": 0.1}, "give one of cache and max_loss"),
        ({"cache": 1.5}, "cache = 1.5: give the share"),
        ({"max_loss": -1}, "max_loss = -1"),
        ({"cache": 0.5, "method": "magic"}, "method = 'magic'"),
        ({"cache": 0.5, "method": "keys", "lookback": 2}, "lookback = 2"),
        ({"cache": 0.01}, "at least one in each"),
    ],
)
def test_impossible_requests_are_refused(original: Any, asked: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        ef.shrink_cache(original, tokens(), **asked)


def test_too_little_text_is_refused(original: Any) -> None:
    with pytest.raises(InputError, match="at least two are needed"):
        ef.shrink_cache(original, tokens(1), cache=0.5)
    with pytest.raises(InputError, match="tokenizer="):
        ef.shrink_cache(original, ["some text"], cache=0.5)


def test_text_of_another_kind_is_noticed_and_text_of_the_same_kind_is_not(original: Any) -> None:
    def text(low: int, high: int, rows: int, seed: int) -> torch.Tensor:
        random = torch.Generator().manual_seed(seed)
        return torch.randint(low, high, (rows, 80), generator=random)

    small = ef.shrink_cache(original, text(3, 12, 20, 1), cache=0.4).model
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfamiliarTextWarning)
        logits(small, text(3, 12, 4, 2))
    with pytest.warns(UnfamiliarTextWarning, match="times what it lost in calibration"):
        logits(small, text(30, 50, 1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfamiliarTextWarning)
        logits(small, text(30, 50, 1, 4))  # once is enough


def test_positions_need_not_begin_at_zero_nor_go_on_between_calls(original: Any) -> None:
    full, ids = ef.shrink_cache(original, tokens(), cache=1.0).model, tokens(2)
    parts, starts = ids[:, :15].split([10, 1, 3, 1], dim=1), (7, 3, 50, 60)
    ends = []
    for model in (full, original):
        cache = None
        for part, start in zip(parts, starts, strict=True):
            places = start + torch.arange(part.shape[1])[None]
            with torch.no_grad():
                out = model(input_ids=part, position_ids=places, past_key_values=cache)
            cache = out.past_key_values
        ends.append(out.logits)
    torch.testing.assert_close(*ends, atol=1e-5, rtol=0)


def test_several_texts_in_a_row_are_refused_and_padded_positions_are_not(half: Any) -> None:
    ids = tokens(2)
    packed = torch.cat([torch.arange(12), torch.arange(12)])[None]
    with pytest.raises(InputError, match="several texts in a row"):
        half.model(input_ids=ids, position_ids=packed)
    with pytest.raises(InputError, match=r"attention_mask \(4 dimensions\)"):
        half.model(input_ids=ids, attention_mask=torch.ones(2, 1, 24, 24, dtype=torch.bool))
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    places = (mask.cumsum(1) - 1).clamp(min=0)
    seen = mask.bool()
    given = logits(half.model, ids, attention_mask=mask, position_ids=places)[seen]
    left_out = logits(half.model, ids, attention_mask=mask)[seen]
    torch.testing.assert_close(given, left_out, atol=1e-4, rtol=1e-4)


def test_a_cache_of_other_texts_is_refused(half: Any) -> None:
    with torch.no_grad():
        cache = half.model(input_ids=tokens(2), use_cache=True).past_key_values
    with pytest.raises(InputError, match="1 texts for a cache of 2"):
        half.model(input_ids=tokens(1), past_key_values=cache)


def refused(model: Any, cache: Any) -> None:
    ids = tokens(2)
    with pytest.raises(InputError, match="filled by another model"):
        model(input_ids=ids[:, -4:], past_key_values=cache)
    with pytest.raises(InputError, match="filled by another model"):
        model.generate(ids.repeat(1, 2), past_key_values=cache, max_new_tokens=2, pad_token_id=0)


def filled(model: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=tokens(2), use_cache=True).past_key_values


def test_a_cache_of_another_model_is_refused_whatever_happened_to_it(half: Any) -> None:
    head, norms = copy.deepcopy(half.model), copy.deepcopy(half.model)
    with torch.no_grad():
        head.network.lm_head.weight[0, 0] += 1e-4
    norms.config.text_config.rms_norm_eps *= 2
    cache = filled(half.model)
    for other in (head, norms, copy.deepcopy(half.model).double()):
        assert other.config.ranks == half.model.config.ranks
        refused(other, cache)
    cache = copy.deepcopy(cache)
    for change in (
        lambda: cache.crop(-4),
        lambda: cache.batch_repeat_interleave(2),
        lambda: cache.reorder_cache(torch.tensor([2, 3, 0, 1])),
        lambda: cache.batch_select_indices(torch.tensor([0, 2])),
    ):
        change()
        refused(head, cache)


def test_at_full_rank_all_maps_are_alike_and_models_are_not(original: Any) -> None:
    with torch.no_grad():
        other = copy.deepcopy(original)
        other.model.layers[0].self_attn.k_proj.weight.mul_(2)
    one, two = (ef.shrink_cache(model, tokens(), cache=1.0).model for model in (original, other))
    for mine, theirs in zip(one.attentions(), two.attentions(), strict=True):
        assert torch.equal(mine.encode.weight, theirs.encode.weight)
        assert torch.equal(mine.decode.weight, theirs.decode.weight)
    refused(two, filled(one))


def test_a_model_whose_weights_were_changed_does_not_go_on_with_its_cache(half: Any) -> None:
    model = copy.deepcopy(half.model)
    cache = filled(model)
    model.load_state_dict(model.state_dict())  # the same ones, but who can tell
    refused(model, cache)
    refused(half.model, cache)
    cache = filled(model)
    model.network.lm_head.requires_grad_(True)
    optimiser = torch.optim.SGD(model.network.lm_head.parameters(), lr=0.1)
    assert cache.claim(model)
    model(input_ids=tokens(2), labels=tokens(2)).loss.backward()
    optimiser.step()
    refused(model, cache)


def test_a_cache_goes_on_in_a_copy_and_in_the_model_loaded_again(half: Any, tmp_path: Path) -> None:
    ids, whole = tokens(2), logits(half.model, tokens(2))[:, -4:]
    half.save(tmp_path)
    for model in (half.model, copy.deepcopy(half.model), ef.load_shrunk(tmp_path)):
        with torch.no_grad():
            cache = half.model(input_ids=ids[:, :-4], use_cache=True).past_key_values
        for one in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache)), cache):
            again = logits(model, ids[:, -4:], past_key_values=one)
            torch.testing.assert_close(again, whole, atol=1e-4, rtol=1e-4)
            assert one.claim(model)


def test_a_cache_of_a_model_that_is_gone_is_refused_and_an_empty_one_is_not(half: Any) -> None:
    ids, gone = tokens(2), copy.deepcopy(half.model)
    with torch.no_grad():
        cache = gone(input_ids=ids).past_key_values
    del gone
    gc.collect()
    with pytest.raises(InputError, match="or by one that was changed or no longer exists"):
        half.model(input_ids=ids[:, -1:], past_key_values=cache)
    by_hand = LatentCache(3)
    by_hand.begin(torch.arange(2)[None], 1, None)
    for layer, rank in zip(by_hand.layers, half.model.config.ranks, strict=True):
        layer.append(torch.ones(1, 2, rank))
    with pytest.raises(InputError, match="filled by another model"):
        half.model(input_ids=ids[:1, -1:], past_key_values=by_hand)
    emptied = copy.deepcopy(cache)
    emptied.crop(-24)
    cache.reset()
    for empty in (cache, emptied, LatentCache(3)):
        same = logits(half.model, ids, past_key_values=empty)
        assert torch.equal(same, logits(half.model, ids))


def test_no_weight_is_read_as_long_as_one_model_writes(
    half: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: Any) -> str:
        raise AssertionError("weights were read")

    monkeypatch.setattr("exactformer.spectra.caching.identity.digest_of", no)
    for kind in ({"num_beams": 2}, {"do_sample": True}, {"prompt_lookup_num_tokens": 3}):
        said = half.model.generate(
            tokens(1), max_new_tokens=4, pad_token_id=0, return_dict_in_generate=True, **kind
        )
    copied = copy.deepcopy(said.past_key_values)
    half.model(input_ids=tokens(1, 1), past_key_values=copied)


def test_a_cropped_cache_reads_another_text_as_a_new_one_does(half: Any) -> None:
    ids, mask = tokens(2), torch.ones(2, 24, dtype=torch.long)
    mask[1, :5] = 0  # the second text begins elsewhere than the one that was cropped
    with torch.no_grad():
        cache = half.model(input_ids=ids, use_cache=True).past_key_values
        cache.crop(-24)
        out = half.model(input_ids=ids, attention_mask=mask, past_key_values=cache).logits
        cache.crop(20)  # the length to keep, as releases of transformers before 5.20 say it
        assert cache.get_seq_length() == 20
    whole = logits(half.model, ids, attention_mask=mask)
    torch.testing.assert_close(out[mask.bool()], whole[mask.bool()], atol=1e-5, rtol=0)


def test_a_talk_goes_on_with_its_cache_and_assistants_change_no_word(
    half: Any, original: Any
) -> None:
    ids = tokens(1)
    kind = {"do_sample": False, "pad_token_id": 0, "max_new_tokens": 6}
    said = half.model.generate(ids, return_dict_in_generate=True, **kind)
    more = torch.cat([said.sequences, tokens(1, 4, seed=3)], dim=1)
    goes_on = half.model.generate(more, past_key_values=said.past_key_values, **kind)
    assert torch.equal(goes_on, half.model.generate(more, **kind))
    guessed = half.model.generate(ids, prompt_lookup_num_tokens=3, **kind)
    assert torch.equal(guessed, said.sequences)
    assert torch.equal(half.model.generate(ids, assistant_model=original, **kind), said.sequences)
    assert torch.equal(half.model.generate(ids, prefill_chunk_size=7, **kind), said.sequences)


def test_a_text_padded_on_the_right_goes_on_where_it_ended(half: Any) -> None:
    ids, mask = tokens(2), torch.ones(2, 25, dtype=torch.long)
    mask[1, 20:24] = 0
    new = tokens(2, 1, seed=4)
    with torch.no_grad():
        cache = half.model(input_ids=ids, attention_mask=mask[:, :24]).past_key_values
        places = (mask.cumsum(1) - 1)[:, -1:]
        asked = {"attention_mask": mask, "position_ids": places, "past_key_values": cache}
        out = half.model(input_ids=new, **asked).logits[1, 0]
    alone = logits(half.model, torch.cat([ids[1:, :20], new[1:]], dim=1))[0, -1]
    torch.testing.assert_close(out, alone, atol=1e-4, rtol=1e-4)


def test_bfloat16_is_saved_and_loaded_as_it_is(half: Any, tmp_path: Path) -> None:
    model = copy.deepcopy(half.model).bfloat16()
    model.save_pretrained(tmp_path)
    loaded = ef.load_shrunk(tmp_path)
    assert loaded.dtype == torch.bfloat16
    assert torch.equal(logits(loaded, tokens(1)), logits(model, tokens(1)))


def test_half_precision_does_not_round_the_frequencies_of_rotation(
    original: Any, tmp_path: Path
) -> None:
    original.save_pretrained(tmp_path)
    model = type(original).from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    small = ef.shrink_cache(model, tokens(), cache=0.5).model
    exact = original.model.rotary_emb.inv_freq
    assert small.dtype == torch.bfloat16
    for one in (small, copy.deepcopy(small).half(), copy.deepcopy(small).double()):
        assert torch.equal(one.network.model.rotary_emb.inv_freq, exact)
