"""The GPU's kernel against exact arithmetic, there or in Triton's interpreter."""

from __future__ import annotations

import os
from contextlib import nullcontext
from fractions import Fraction
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

from exactformer.polynomials.run.closed_form import RUN, TILE, Basis
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from tests.polynomials.run.test_closed_form_module import (
    BASES,
    DTYPES,
    bound_of,
    exactly,
    fused_form,
    points_of,
    weights_of,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if find_spec("triton") is None or (DEVICE == "cpu" and not os.environ.get("TRITON_INTERPRET")):
    pytest.skip("needs Triton, and a GPU or TRITON_INTERPRET=1", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(  # the interpreter's own
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning"
)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The kernel's module, with blocks of 32 points."""
    if DEVICE == "cpu":
        monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    from exactformer.polynomials.run import closed_form_gpu as fused_kernel

    monkeypatch.setattr(fused_kernel, "_WARPS", 1)
    return fused_kernel


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(
    ("n", "d", "q", "m", "centred"),
    [(1, 1, 1, 1, True), (11, 3, 5, 2, False), (TILE * RUN * RUN + 3, 2, 2, 5, True)],
)
def test_values_keep_to_the_bound(
    kernel: ModuleType,
    n: int,
    d: int,
    q: int,
    m: int,
    centred: bool,
    basis: Basis,
    dtype: torch.dtype,
) -> None:
    form = fused_form(n, d, q, m, basis, centred)
    wide = torch.promote_types(dtype, torch.float32)
    centre, *weights, _ = weights_of(FusedTransformer(form, dtype).to(DEVICE))
    x = points_of(form, 45, dtype).to(DEVICE)
    x = x.T.contiguous().T  # any strides
    centre = None if centre is None else centre.to(wide)
    computed = kernel.evaluate(x, centre, *(w.to(wide) for w in weights), basis, dtype)
    assert computed.shape == (m, 45)
    assert computed.dtype == dtype
    bound = bound_of(form, dtype)
    for point, values in list(zip(x.tolist(), computed.T.tolist(), strict=True))[::6]:
        for value, exact in zip(values, exactly(form, point), strict=True):
            assert abs(Fraction(value) - exact) <= bound


def test_points_too_long_for_the_registers_are_left_to_the_formula(kernel: ModuleType) -> None:
    assert kernel.fits(10, torch.float64)
    assert kernel.fits(100, torch.float32)
    assert not kernel.fits(100, torch.float64)
