"""A fused form as a ``torch.nn.Module``: one matrix product, one pass over the degrees, one sum.

The formula is written here in plain torch, which can be traced, batched, exported and
differentiated, on any device. On the CPU values alone come quicker from the same arithmetic in blocks
that stay in the cache, compiled where numba is installed; their gradient is the formula's, a few
points at a time. Where a plan for the terms of the proven polynomial is given, the CPU
evaluates these (:mod:`exactformer.polynomials.run.horner_plan`, or without numba
:mod:`exactformer.polynomials.run.monomial_plan`), as long as the weights are the proven ones.

Weights and values are in the module's format. So is the arithmetic, but never below float32: in the
half formats products and sums are taken in float32, and the value is rounded once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from exactformer.core.matrix import Matrix
from exactformer.core.precision import full_precision
from exactformer.core.weights import dense
from exactformer.polynomials.run import closed_form_cpu as fused_blocks
from exactformer.polynomials.run import compiled_run
from exactformer.polynomials.run.closed_form import GROUP, SHORT, Basis, FusedForm
from exactformer.polynomials.run.compiled_run import CompiledTerms, Surface
from exactformer.polynomials.run.horner_plan import Scheme
from exactformer.polynomials.run.monomial_plan import Expansion
from exactformer.polynomials.run.monomial_run import Expanded

_ENTRIES = 2**20  # tokens times points of which a gradient keeps every step
_PLAIN = (Tensor, nn.Parameter)


class FusedTransformer(nn.Module):
    """Points ``(N, d)`` to values ``(N,)``: b + Σ_i P_i(t_i), t = F·(x − c); ``(N, m)`` for a vector.

    Parameters are frozen until ``requires_grad_()``; weights are the exact ones, rounded once.
    """

    def __init__(
        self,
        form: FusedForm,
        dtype: torch.dtype = torch.float64,
        expansion: Expansion | Scheme | None = None,
        terms_bound: float | None = None,
        steps: Scheme | None = None,
    ) -> None:
        """Take a plan for the terms; their bound, if it is claimed; and then steps that keep it too."""
        super().__init__()
        self.terms_bound = terms_bound
        self.basis, self.vector = form.basis, form.vector
        self.register_parameter("centre", None)
        self._proven = fused_weights(form, dtype)
        for name, tensor in self._proven.items():
            self.register_parameter(name, nn.Parameter(tensor.clone(), requires_grad=False))
        wide = torch.promote_types(dtype, torch.float32)
        self._expanded: Expanded | CompiledTerms | None = None
        if isinstance(expansion, Expansion):
            self._expanded = Expanded(expansion, wide)
        elif expansion is not None:
            self._expanded = CompiledTerms(expansion, wide)
        self._stepwise = None if steps is None else CompiledTerms(steps, wide)

    @property
    def evaluates_terms(self) -> bool:
        """Whether points in memory are evaluated by terms, while the weights are the proven ones."""
        here = self.features
        return (
            self._expanded is not None
            and here.device.type == "cpu"
            and here.dtype == self._proven["features"].dtype
        )

    features: Tensor
    centre: Tensor | None
    coefficients: Tensor
    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at points in the module's format or a narrower one."""
        plain = is_plain(x)
        quick = self.values(x) if plain else None
        if quick is not None:
            return quick
        weights = (self.centre, self.features, self.coefficients, self.bias)
        with full_precision(x.device):
            values: Tensor
            if plain:
                values = _Evaluation.apply(x, *weights, self.basis, self._terms(x))  # type: ignore[no-untyped-call]
            elif self._stepwise is not None and self._is_eager(x):
                values = self._stepwise.stepwise(x, self.features.dtype)
            else:
                values = formula(x, *weights, self.basis)
        return values.T if self.vector else values[0]

    def _is_eager(self, x: Tensor) -> bool:
        """Whether points, plain or not, are evaluated now, and by the proven weights as constants."""
        weights = tuple(getattr(self, name) for name in self._proven)
        return (
            bool(x.numel())
            and x.device.type == "cpu"
            and not _is_traced(x)
            and _are_values(*weights)
            and not any(map(_is_wrapped, weights))
            and _are_proven(weights, self._proven)
        )

    def values(self, x: Tensor, surface: Surface | None = None) -> Tensor | None:
        """Return what ``forward`` does, at plain points, where there is a quicker way to that alone.

        None is returned where there is not, where a gradient is wanted, and unless all points are
        clearly inside a surface. Terms are evaluated as long as the weights are the proven ones.
        """
        own = self._parameters  # quicker than attributes, which are much of a small call
        features, coefficients, bias = own.get("features"), own.get("coefficients"), own.get("bias")
        if features is None or coefficients is None or bias is None or "centre" not in own:
            return None
        centre, dtype = own["centre"], features.dtype
        weights = (features, coefficients, bias, *(() if centre is None else (centre,)))
        if not (_are_values(x, *weights) and x.numel() and coefficients.numel()):
            return None
        terms = self._expanded
        if terms is not None and _are_proven(weights, self._proven):
            values = terms(x, dtype, surface)
        elif compiled_run.kernels() is not None:
            values = compiled_run.tokens(
                x, centre, features, coefficients, bias, self.basis, dtype, surface
            )
        else:
            return None
        if values is None:
            return None
        if self.vector:
            return values.view(-1, len(x)).T
        return values if values.dim() == 1 else values.view(-1)

    def _terms(self, x: Tensor) -> Expanded | CompiledTerms | None:
        """Return what evaluates terms in place of tokens, where the weights are the proven ones."""
        if self._expanded is None or x.device.type != "cpu" or not len(x):
            return None
        same = all(_same(getattr(self, name), own) for name, own in self._proven.items())
        return self._expanded if same else None


def formula(
    x: Tensor,
    centre: Tensor | None,
    features: Tensor,
    coefficients: Tensor,
    bias: Tensor,
    basis: Basis,
) -> Tensor:
    """Return the values ``(m, N)``, one operation after the other."""
    dtype = features.dtype
    wide = torch.promote_types(dtype, torch.float32)
    points = x.to(wide) if centre is None else x.to(wide) - centre.to(wide)
    run = _horner if basis is Basis.POWER else _clenshaw
    total: Tensor | None = None
    for F, c in zip(
        torch.split(features, GROUP), torch.split(coefficients, GROUP, dim=2), strict=True
    ):
        t = F.to(wide) @ points.T
        terms = torch.stack([run(t, own) for own in c.to(wide)])
        total = terms if total is None else total + terms
    assert total is not None  # there is a token
    return (total + bias.to(wide).unsqueeze(-1)).to(dtype)


def _horner(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_i Σ_s c_is t_i^s over a group; ``t`` is (tokens, N), ``coefficients`` (q, tokens)."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return t.new_zeros(t.shape[1])
    value = columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        value = torch.addcmul(columns[s], value, t)
    return halving_sum(value * t)


def _clenshaw(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_i Σ_s c_is T_s(t_i): b_s = c_s + 2t b_{s+1} − b_{s+2}, and at the end t b_1 − b_2."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return t.new_zeros(t.shape[1])
    twice, above, current = t + t, torch.zeros_like(t), columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        above, current = current, torch.addcmul(columns[s] - above, twice, current)
    return halving_sum(t * current - above)


def halving_sum(terms: Tensor) -> Tensor:
    """Sum the first axis: halves are added until few rows are left, which go in any order."""
    while (size := len(terms)) > SHORT:
        half = size // 2
        pairs = terms[:half] + terms[size - half :]
        terms = pairs if size == 2 * half else torch.cat([pairs, terms[half : size - half]])
    return terms.sum(dim=0)


class _Evaluation(torch.autograd.Function):
    """The formula, quickly; its gradient goes through the formula again, which keeps memory small."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        centre: Tensor | None,
        features: Tensor,
        coefficients: Tensor,
        bias: Tensor,
        basis: Basis,
        terms: Expanded | CompiledTerms | None = None,
    ) -> Tensor:
        ctx.basis = basis
        ctx.save_for_backward(x, centre, features, coefficients, bias)
        if terms is not None:
            values = terms(x, features.dtype)
            assert values is not None  # nothing was tested
            return values.view(len(bias), -1)
        return _evaluate(x, centre, features, coefficients, bias, basis)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, centre, features, coefficients, bias = ctx.saved_tensors
        again = torch.is_grad_enabled()  # a derivative of this derivative is wanted
        size = max(1, _ENTRIES // len(features))
        weights = (centre, features, coefficients, bias)
        needed = dict(enumerate(ctx.needs_input_grad[1:5]))
        wanted = [weight for k, weight in enumerate(weights) if needed[k]]
        by_point: list[Tensor] = []
        totals: list[Tensor] = []
        with torch.enable_grad(), full_precision(x.device):
            for points, own in zip(
                torch.split(x, size), torch.split(gradients[0], size, dim=1), strict=True
            ):
                values = formula(points, centre, features, coefficients, bias, ctx.basis)
                inputs = [*wanted, points] if ctx.needs_input_grad[0] else wanted
                found = torch.autograd.grad(values, inputs, own, create_graph=again)
                by_point += found[len(wanted) :]
                sums = found[: len(wanted)]
                totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else [*sums]
        left = iter(totals)
        return (
            torch.cat(by_point) if by_point else None,
            *(next(left) if needed[k] else None for k in range(4)),
            None,
            None,
        )


def _evaluate(
    x: Tensor,
    centre: Tensor | None,
    features: Tensor,
    coefficients: Tensor,
    bias: Tensor,
    basis: Basis,
) -> Tensor:
    """Return the formula's values in the quickest way there is for these tensors."""
    dtype = features.dtype
    wide = torch.promote_types(dtype, torch.float32)
    if 0 in x.shape or coefficients.shape[1] == 0:
        return formula(x, centre, features, coefficients, bias, basis)
    weights = (features, coefficients, bias)
    given = weights if centre is None else (*weights, centre)
    if compiled_run.kernels() is not None and _are_values(x, *given):
        values = compiled_run.tokens(x, centre, *weights, basis, dtype)
        assert values is not None  # nothing was tested
        return values.view(len(bias), -1)
    if x.device.type != "cpu":
        pieces = torch.split(x, max(1, 64 * _ENTRIES // len(features)))
        return torch.cat([formula(p, centre, *weights, basis) for p in pieces], dim=1)
    centre = None if centre is None else centre.to(wide)
    wide_weights = features.to(wide), coefficients.to(wide), bias.to(wide)
    return fused_blocks.evaluate(x, centre, *wide_weights, basis, dtype)


def _are_proven(weights: tuple[Tensor, ...], known: Mapping[str, Tensor]) -> bool:
    """Whether weights in memory are the known ones, in their order, to the last bit."""
    if compiled_run.kernels() is not None:
        if compiled_run.same(weights, known):
            return True
        if all(w.is_contiguous() for w in weights):
            return False
    return len(weights) == len(known) and all(map(_same, weights, known.values()))


def _are_values(*tensors: Tensor) -> bool:
    """Whether the numbers of all are in this machine's memory, as they are, and nobody derives them."""
    differentiable = torch.is_grad_enabled()
    for t in tensors:
        if (
            type(t) not in _PLAIN
            or not t.is_cpu
            or t.is_neg()
            or t.layout is not torch.strided
            or (differentiable and t.requires_grad)
        ):
            return False
    return True


def is_plain(x: Tensor) -> bool:
    """Whether only values and ordinary gradients are wanted: nobody traces or batches ``x``."""
    return (
        type(x) in _PLAIN
        and not x.is_nested
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
        and forward_ad._current_level < 0
    )


def _is_traced(x: Tensor) -> bool:
    """Whether operations are recorded, or only their shapes wanted, instead of values."""
    if torch.compiler.is_compiling():  # first: the compiler cannot follow what comes after
        return True
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return (
        torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        or (proxies is not None and proxies.get_proxy_mode() is not None)
        or (fakes is not None and isinstance(x, fakes.FakeTensor))
        or (fakes is not None and any(isinstance(mode, fakes.FakeTensorMode) for mode in modes))
    )


def _is_wrapped(weight: Tensor) -> bool:
    """Whether somebody batches or differentiates a weight."""
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(weight)
    if wrapped or forward_ad._current_level < 0:
        return wrapped
    return forward_ad.unpack_dual(weight).tangent is not None  # type: ignore[no-untyped-call]


def _same(here: Tensor, there: Tensor) -> bool:
    return here.dtype == there.dtype and here.device == there.device and torch.equal(here, there)


def fused_weights(form: FusedForm, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return F, c, the coefficients (m, q, n), so that a step over degrees reads a row, and b."""
    tables = [
        dense(c, dtype, lambda i, j: f"β, token {i + 1}, {form.basis} {j + 1}").T
        for c in form.coefficients
    ]
    weights = {
        "features": dense(form.features, dtype, lambda i, j: f"F, token {i + 1}"),
        "coefficients": torch.stack(tables).contiguous(),
        "bias": _vector(form.biases, dtype, "b"),
    }
    if form.centre:
        weights["centre"] = _vector(form.centre, dtype, "the domain's centre")
    return weights


def _vector(values: tuple[Fraction, ...], dtype: torch.dtype, name: str) -> Tensor:
    row = Matrix.of(1, len(values), {(0, j): value for j, value in enumerate(values)})
    return dense(row, dtype, lambda i, j: name)[0]
