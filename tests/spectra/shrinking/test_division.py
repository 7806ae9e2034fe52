"""Inputs kept back from a fit: which they are, and what is said where there are none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import exactformer as ef
from exactformer.errors import InputError
from exactformer.spectra.shrinking.division import Division, divided
from tests.spectra import families


def encoder(tokens_first: bool = False) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=not tokens_first)
    return layer.eval().requires_grad_(False)


def entries(division: Division) -> tuple[list[float], list[float]]:
    """The first number of every input, fitted and held out."""
    both = (division.fitted, division.held_out)
    fitted, held_out = ([float(x[0, 0]) for b in part for x in b.args[0]] for part in both)
    return fitted, held_out


def numbered(*shape: int) -> Tensor:
    """Random inputs (inputs, τ, 16) whose first number is their place."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    x[:, 0, 0] = torch.arange(len(x))
    return x


def test_every_fourth_input_is_kept_back_across_batches() -> None:
    x = numbered(20, 5, 16)
    for inputs in (x, [x[:3], x[3:13], x[13:]], list(x.split(1))):
        fitted, held_out = entries(divided(encoder(), inputs, None, None, 16))
        assert held_out == [3, 7, 11, 15, 19]
        assert fitted == [i for i in range(20) if i % 4 != 3]


def test_equal_inputs_stay_on_one_side() -> None:
    x = numbered(10, 5, 16)
    fitted, held_out = entries(divided(encoder(), x.repeat_interleave(3, dim=0), None, None, 16))
    assert set(held_out) == {3, 7}
    assert not set(held_out) & set(fitted)


def test_a_mask_that_all_inputs_share_is_not_divided() -> None:
    x, mask = numbered(9, 5, 16), nn.Transformer.generate_square_subsequent_mask(5)
    division = divided(encoder(), [{"src": x, "src_mask": mask}], None, None, 16)
    assert [len(b.kwargs["src"]) for b in (*division.fitted, *division.held_out)] == [7, 2]
    assert all(b.kwargs["src_mask"].shape == (5, 5) for b in (*division.fitted, *division.held_out))


def test_a_tensor_that_is_given_twice_stays_one() -> None:
    """Otherwise a module that attends to its own tokens would count as one that attends to others."""
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), numbered(9, 5, 16)
    division = divided(attention, (x, x, x), None, None, 16)
    assert [len(b.args[0]) for b in (*division.fitted, *division.held_out)] == [7, 2]
    for batch in (*division.fitted, *division.held_out):
        assert batch.args[0] is batch.args[1] is batch.args[2]


def test_tokens_are_not_taken_for_inputs() -> None:
    """(tokens, inputs, width): a part of the tokens sees less, and gives other outputs."""
    x = torch.randn(12, 3, 16)
    division = divided(encoder(tokens_first=True), x, None, None, 16)
    assert not division.held_out
    assert "too few" in division.note
    many = [torch.randn(12, 3, 16) for _ in range(8)]
    division = divided(encoder(tokens_first=True), many, None, None, 16)
    assert (len(division.fitted), len(division.held_out)) == (6, 2)


def test_seven_inputs_are_too_few_and_that_is_said() -> None:
    x = numbered(7, 5, 16)
    report = ef.shrink_heads(encoder(), x, head_dim=4).report
    assert report.held_out is None
    assert report.fitted.inputs == 7
    assert "7 inputs are too few to keep some back" in str(report)
    with pytest.raises(
        InputError, match=r"max_loss .* 7 inputs none can be kept back.* at least 8"
    ):
        ef.shrink_heads(encoder(), x, max_loss=0.1)
    copies = x.repeat(2, 1, 1)  # fourteen, of which seven are different
    report = ef.shrink_heads(encoder(), copies, head_dim=4).report
    assert report.held_out is None
    assert "give at least 8 different ones" in str(report)


def test_a_metric_of_ones_own_needs_no_inputs_kept_back() -> None:
    report = ef.shrink_heads(
        encoder(), numbered(3, 5, 16), max_loss=1.0, metric=lambda m: 0.0
    ).report
    assert report.dims == (1,)


def test_inputs_of_ones_own_are_measured_on_and_all_others_fitted_to() -> None:
    x = numbered(12, 5, 16)
    report = ef.shrink_heads(encoder(), x[:8], head_dim=2, held_out=x[8:]).report
    assert report.held_out is not None
    assert (report.fitted.inputs, report.held_out.inputs) == (8, 4)
    assert "only 4 inputs held out" in str(report)
    assert "fitted to" not in " ".join(report.notes)
    report = ef.shrink_heads(encoder(), x[:8], head_dim=2, held_out=x[6:]).report
    assert "2 of 6 held-out inputs are among those fitted to" in report.notes


def test_errors_held_out_are_those_of_inputs_the_fit_has_not_seen() -> None:
    """A few inputs of a large space: the fit knows them well, and others not."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(64, 2, 16, batch_first=True).eval().requires_grad_(False)
    model.self_attn.in_proj_weight *= 3
    x, others = torch.randn(8, 6, 64), torch.randn(200, 6, 64)
    report = ef.shrink_heads(model, x, head_dim=12).report
    assert report.held_out is not None
    assert report.held_out.score_error > 1.3 * report.fitted.score_error
    true = ef.shrink_heads(model, x[[0, 1, 2, 4, 5, 6]], head_dim=12, held_out=others).report
    assert true.held_out is not None
    assert true.fitted == report.fitted
    assert report.held_out.score_error == pytest.approx(true.held_out.score_error, rel=0.2)


def test_texts_are_divided_before_they_are_padded(monkeypatch: Any) -> None:
    pytest.importorskip("transformers")
    from exactformer.spectra.shrinking import division

    asked: list[list[str]] = []

    def tokenized(texts: list[str], tokenizer: Any, model: Any, size: int) -> Any:
        asked.append(texts)
        return [families.tokens()]

    monkeypatch.setattr(division, "tokenized", tokenized)
    model, _ = families.build(families.bert)
    texts = [f"text {i % 9}" for i in range(18)]
    divided(model, texts, None, None, 16)
    assert asked[1] == ["text 3", "text 7"]
    assert asked[0] == [text for text in texts if text not in asked[1]]
