"""The GPU's kernel against torch in float64, there or in Triton's interpreter."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

from exactformer.spectra.caching import token_attention_gpu as kernel
from exactformer.spectra.caching.calibration import outline
from exactformer.spectra.caching.rotary import Sizes, rotary_layers
from exactformer.spectra.caching.token_attention import Held, attend, refusal
from tests.spectra.caching.models import build, llama

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    pytest.mark.skipif(
        DEVICE == "cpu" and not os.environ.get("TRITON_INTERPRET"),
        reason="needs a GPU, or TRITON_INTERPRET=1",
    ),
    pytest.mark.filterwarnings(  # the interpreter's own
        "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
    ),
]
SHARED = kernel.gpu(0)[0] if DEVICE == "cuda" else 227 * 1024
SIZES = {
    "three queries share a key": Sizes(9, 3, 64, 64, 0.125),
    "planes are no power of two": Sizes(4, 2, 80, 80, 0.1),
    "one head": Sizes(1, 1, 16, 16, 0.3),
}
ROUNDING = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
"""Relative to the largest output: a few units of each format."""
if DEVICE == "cpu":
    del ROUNDING[torch.bfloat16]  # the interpreter multiplies its bits


def example(
    sizes: Sizes, rank: int, length: int, dtype: torch.dtype, uneven: bool
) -> tuple[Any, ...]:
    """Return three texts, two of them padded; what lies behind the newest token is large."""
    torch.manual_seed(rank + length)
    places = torch.tensor([0, min(5, length - 1), length - 1])
    room = torch.full((3, rank, (length + 64) // 16 * 16), 1e4)
    room[:, :, :length] = torch.randn(3, rank, length)
    held = Held(
        [room.to(DEVICE, dtype)[:, :, :length]],
        (torch.randn(sizes.state, rank) / rank**0.5).to(DEVICE, dtype),
        torch.randn(sizes.state).to(DEVICE, dtype),
        torch.randn(3, sizes.state).to(DEVICE, dtype),
        places.to(DEVICE),
    )
    positions = (torch.arange(length) - places[:, None]).clamp(min=0)
    if uneven:
        positions[:, length // 2 :] += 100
    angles = positions[..., None] * torch.rand(sizes.head_dim // 2)
    turns = [torch.cat([t, t], dim=-1).to(DEVICE, dtype) for t in (angles.cos(), angles.sin())]
    seen = (torch.arange(length) >= places[:, None]).to(DEVICE)
    query = torch.randn(3, sizes.heads, sizes.head_dim).to(DEVICE, dtype)
    return query, held, seen, *turns


def exact(
    query: torch.Tensor, held: Held, seen: Any, cos: torch.Tensor, sin: torch.Tensor, sizes: Sizes
) -> torch.Tensor:
    """Return what torch computes from the same numbers in float64."""
    half = sizes.head_dim // 2
    wide = Held(
        [x.double() for x in held.latents],
        held.weight.double(),
        held.bias.double(),
        held.first.double(),
        held.places,
    )
    turns = (x[..., :half].double().mT for x in (cos, sin))
    return attend(query.double(), wide, seen, *turns, sizes)


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    ("rank", "length", "uneven"),
    [(1, 1, False), (16, 15, False), (96, 16, True), (97, 17, False), (131, 200, True)],
)
def test_the_kernel_gives_what_torch_gives(
    name: str, rank: int, length: int, uneven: bool, dtype: torch.dtype
) -> None:
    sizes = SIZES[name]
    made = example(sizes, rank, length, dtype, uneven)
    if kernel.chosen(sizes, rank, dtype.itemsize, SHARED) is None:
        with pytest.raises(ValueError, match="too large"):
            kernel.attend(*made, sizes)
        return
    for seen in (made[2], None):
        truth = exact(*made[:2], seen, *made[3:], sizes)
        ours = kernel.attend(*made[:2], seen, *made[3:], sizes)
        assert (ours.double() - truth).abs().max() <= ROUNDING[dtype] * truth.abs().max()


@pytest.mark.parametrize(
    "form", [kernel.Form(3, 64, 2), kernel.Form(1, 128, 2, warps=8), kernel.Form(1, 32, 2)], ids=str
)
@pytest.mark.parametrize("programs", [1, 3, 1056])
def test_however_the_work_is_cut(form: kernel.Form, programs: int) -> None:
    sizes = SIZES["three queries share a key"]
    made = example(sizes, 40, 300, torch.float16, uneven=True)
    truth = exact(*made, sizes)
    ours = kernel.attend(*made, sizes, form, programs)
    assert (ours.double() - truth).abs().max() <= ROUNDING[torch.float16] * truth.abs().max()


@pytest.mark.parametrize("rank", [160, 256, 512])
def test_large_maps(rank: int) -> None:
    sizes = SIZES["three queries share a key"]
    made = example(sizes, rank, 100, torch.float16, uneven=False)
    truth = exact(*made, sizes)
    ours = kernel.attend(*made, sizes)
    assert (ours.double() - truth).abs().max() <= ROUNDING[torch.float16] * truth.abs().max()


def test_the_work_is_cut_by_what_fits() -> None:
    large, small = 227 * 1024, 99 * 1024  # of an H200 and of a GeForce
    wide, narrow = Sizes(32, 8, 128, 128, 0.1), Sizes(9, 3, 64, 64, 0.125)
    assert kernel.chosen(narrow, 96, 2, large) == kernel.Form(3, 64, 3)
    assert kernel.chosen(narrow, 192, 2, large) == kernel.Form(3, 128, 2, warps=8)
    assert kernel.chosen(wide, 128, 2, large) == kernel.Form(2, 128, 2, warps=8)
    assert kernel.chosen(wide, 512, 2, large) == kernel.Form(1, 32, 2)
    for sizes, rank, itemsize, shared in (
        (wide, 1024, 2, large),
        (wide, 512, 4, large),
        (wide, 512, 2, small),
    ):
        assert kernel.chosen(sizes, rank, itemsize, shared) is None
    form = kernel.chosen(narrow, 192, 2, small)
    assert form is not None
    assert form.memory(narrow, 192, 2) <= small


def test_a_model_writes_the_same_tokens_with_and_without_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from exactformer.spectra.caching import attention

    torch.manual_seed(0)
    original = build(llama).to(DEVICE)
    small = outline(original, [(7,) for _ in rotary_layers(original)], 0, "joint").to(DEVICE)
    for parameter in small.parameters():
        parameter.data.normal_(std=0.2)
    tokens = torch.randint(3, 40, (3, 20), device=DEVICE)
    mask = torch.ones_like(tokens)
    mask[1, :6] = 0
    asked: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "attention_mask": mask}
    asked |= {"return_dict_in_generate": True, "output_logits": True, "pad_token_id": 0}
    calls = []
    attend_once = kernel.attend
    monkeypatch.setattr(kernel, "attend", lambda *a: (calls.append(1), attend_once(*a))[1])
    monkeypatch.setattr(attention, "refusal", lambda *_: None)  # in the interpreter, too
    by_kernel = small.generate(tokens, **asked)
    assert calls
    monkeypatch.setattr(attention, "refusal", lambda *_: "not now")
    by_torch = small.generate(tokens, **asked)
    assert torch.equal(by_kernel.sequences, by_torch.sequences)
    torch.testing.assert_close(by_kernel.logits[-1], by_torch.logits[-1], rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(DEVICE == "cpu", reason="on a processor the device is refused first")
def test_what_the_kernel_does_not_do_is_refused() -> None:
    sizes = SIZES["three queries share a key"]
    query, held, *_ = example(sizes, 16, 20, torch.float32, uneven=False)
    assert refusal(query, held, sizes) is None
    several = Held([*held.latents, *held.latents], held.weight, held.bias, held.first, held.places)
    assert "several layers" in str(refusal(query, several, sizes))
    assert "not turned" in str(refusal(query, held, Sizes(9, 3, 64, 32, 0.125)))
    assert "one format" in str(refusal(query.half(), held, sizes))
    assert "gradient" in str(refusal(query.requires_grad_(), held, sizes))
