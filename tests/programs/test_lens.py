"""Programs in TransformerLens: logits within the certified error, on every input."""

import itertools

import pytest
import torch

import exactformer as ef
from exactformer.errors import ExecutionError, OutsideDomainError
from exactformer.programs import library

PROGRAMS = {
    "reverse": (library.make_reverse, False),
    "hist": (library.make_hist, False),
    "length": (library.make_length, False),
    "induction": (library.make_induction, True),
    "copy": (library.make_copy, False),
}


@pytest.fixture(autouse=True)
def _lens_is_installed():
    """Not where tests are collected: the import takes seconds, and one worker needs it."""
    pytest.importorskip("transformer_lens", reason="pip install exactformer[interpretability]")


@pytest.mark.spread(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_logits_are_the_programs_values_within_the_certified_error(name, dtype):
    make, causal = PROGRAMS[name]
    model = ef.compile_program(
        make(), vocabulary="abc", max_length=4, causal=causal, realisation="softmax", dtype=dtype
    )
    lens = model.to_transformer_lens()
    bound = float(model.certificate.bound(dtype))
    for size in range(1, 5):
        ids = torch.tensor(list(itertools.product(range(3), repeat=size)))
        logits = lens(model.stock_ids(ids))[:, int(model.blueprint.beginning) :]
        wanted = [model.program([model.vocabulary[k] for k in row]) for row in ids.tolist()]
        assert model.decode_output(logits) == wanted
        if not model.program.numerical:
            places = torch.tensor([[model.values.index(v) for v in row] for row in wanted])
            ideal = torch.nn.functional.one_hot(places, len(model.values))
            assert (logits - ideal).abs().max() <= bound


def test_the_pattern_of_a_head_is_the_one_that_the_model_shows():
    model = ef.compile_program(
        library.make_induction(),
        vocabulary="abc",
        max_length=4,
        causal=True,
        realisation="softmax",
        dtype=torch.float64,
    )
    lens = model.to_transformer_lens()
    _, cache = lens.run_with_cache(model.stock_ids([0, 1, 0, 2]))
    trace = model.trace([0, 1, 0, 2])
    for layer, head in model.circuit().heads:
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0, head]
        assert torch.allclose(
            pattern, trace[f"layer {layer} pattern"][head], rtol=1e-12, atol=1e-15
        )
        stream = cache[f"blocks.{layer}.hook_resid_post"][0]
        assert torch.allclose(stream, trace[f"layer {layer} output"], rtol=1e-12, atol=1e-12)


def test_a_hard_maximum_is_refused_and_so_is_what_is_not_an_input():
    hard = ef.compile_program(library.make_reverse(), vocabulary="ab", max_length=3)
    with pytest.raises(ExecutionError, match="realisation='softmax'"):
        hard.to_transformer_lens()
    for wrong in ([0, 2], [0, 1, 0, 1], [[0, 1], [0, -1]]):
        with pytest.raises(OutsideDomainError):
            hard.stock_ids(wrong)
