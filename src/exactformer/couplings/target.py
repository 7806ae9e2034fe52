"""Couplings: sequence relationships in the form of Jiang and Li, equation (8),

    H_t(x) = F( Σ_s softmax[ρ(x(t), x(·))](s) · f(x(s)) ).

ρ(u, v) says how much the token v matters to the token u, f what a token contributes, F what is made of
the mean. Tokens are scalars of an interval or vectors of a box. With *positions* e(t) the token at
place t is seen as x(t) + e(t), so that ρ and f live on the intervals I_t = domain + e(t), which must be
disjoint (section 4.1) and may treat every place differently.

A :class:`ProductKernel` ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v) is evaluated by its features: the scores of a
sequence are a matrix product. :func:`sine_family` prescribes the σ_k of section 5.1 exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import pi, sqrt
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.arrays import as_array, fresh, like, namespace, reals, softmax
from exactformer.errors import InputError

Array = NDArray[np.float64]
Interval = tuple[float, float]


def identity(values: Any) -> Any:
    """Return what is given: the F and f of section 5.1."""
    return values


@dataclass(frozen=True, eq=False)
class ProductKernel:
    """ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v), with features φ, ψ: (…) → (…, r)."""

    sigma: Array
    phi: Callable[[Any], Any]
    psi: Callable[[Any], Any]

    def __call__(self, u: Any, v: Any) -> Any:
        """Evaluate elementwise; u and v broadcast."""
        left, right = self.phi(as_array(u)), self.psi(as_array(v))
        return (left * like(self.sigma, left) * right).sum(-1)

    def matrix(self, u: Any, v: Any) -> Any:
        """Return ρ(u_i, v_j) for tokens u (…, a[, d]) and v (…, b[, d]), a product: (…, a, b)."""
        left, right = self.phi(as_array(u)), self.psi(as_array(v))
        return (left * like(self.sigma, left)) @ right.swapaxes(-1, -2)

    def truncate(self, terms: int) -> ProductKernel:
        """Keep the first ``terms`` of the sum."""
        phi, psi = First(self.phi, terms), First(self.psi, terms)
        return ProductKernel(self.sigma[:terms], phi, psi)


@dataclass(frozen=True)
class First:
    """The first ``terms`` of some features."""

    features: Callable[[Any], Any]
    terms: int

    def __call__(self, u: Any) -> Any:
        """Evaluate at points (…): (…, terms)."""
        return self.features(u)[..., : self.terms]


@dataclass(frozen=True)
class Sines:
    """√2 sin 2πku for k = 1 … terms: orthonormal on [0, 1]."""

    terms: int

    def __call__(self, u: Any) -> Any:
        """Evaluate at points (…): (…, terms)."""
        turns = u[..., None] * like(np.arange(1, self.terms + 1), u)
        return sqrt(2) * namespace(u).sin(2 * pi * (turns - turns.round()))


@dataclass(frozen=True, eq=False)
class Coupling:
    """H_t(x) = F(Σ_s softmax[ρ(x(t), x(·))](s) f(x(s))) for sequences of τ tokens."""

    F: Callable[[Any], Any]
    """(…) or (…, n') → (…)."""
    f: Callable[[Any], Any]
    """Tokens (…) or (…, d) → (…) or (…, n')."""
    rho: Callable[[Any, Any], Any]
    """Pairs of tokens, broadcast, → numbers; a ``matrix(u, v)`` of its own is used where it has one."""
    tau: int
    domain: Interval | Sequence[Interval] = (0.0, 1.0)
    """An interval for scalar tokens, a list of d intervals for vectors."""
    positions: Array | None = field(default=None)
    """τ offsets e(t) with disjoint I_t = domain + e(t), for scalar tokens."""
    name: str = ""

    def __post_init__(self) -> None:
        try:
            box = np.asarray(self.domain, dtype=np.float64)
        except (TypeError, ValueError):
            box = np.empty(0)
        if box.shape[-1:] != (2,) or box.ndim not in (1, 2) or not np.isfinite(box).all():
            raise InputError(f"a domain is an interval or a list of them, not {self.domain!r}")
        if (box[..., 0] >= box[..., 1]).any():
            raise InputError(f"an interval must have its lower end first: {self.domain!r}")
        if not isinstance(self.tau, Integral) or self.tau < 1:
            raise InputError(f"a sequence has at least one token, not {self.tau!r}")
        for name in ("F", "f", "rho"):
            if not callable(getattr(self, name)):
                raise InputError(f"{name} must be a function, not {getattr(self, name)!r}")
        if self.positions is not None:
            object.__setattr__(self, "positions", _offsets(self.positions, self.tau, box))

    @property
    def dim(self) -> int | None:
        """The dimension d of vector tokens; None for scalars."""
        return None if np.ndim(self.domain) == 1 else len(self.domain)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Where encoded scalar tokens live: I_1 … I_τ with positions, else the one domain."""
        low, high = self._scalar_domain()
        offsets = (0.0,) if self.positions is None else self.positions
        return tuple((float(low + e), float(high + e)) for e in offsets)

    def encoded(self, x: Any) -> Any:
        """Return the tokens as ρ and f see them: x(t) + e(t)."""
        tokens = as_array(x)
        expected = (self.tau,) if self.dim is None else (self.tau, self.dim)
        if tuple(tokens.shape[-len(expected) :]) != expected:
            raise InputError(
                f"this target takes sequences (…, {', '.join(map(str, expected))}), "
                f"not {tuple(tokens.shape)}"
            )
        return tokens if self.positions is None else tokens + like(self.positions, tokens)

    def scores(self, x: Any) -> Any:
        """Return ρ(x(t), x(s)) as (…, τ, τ), a row for every query t."""
        return self._scores(self.encoded(x))

    def attention(self, x: Any) -> Any:
        """Return the softmax weights (…, τ, τ), a row for every query t."""
        return softmax(self.scores(x))

    def __call__(self, x: Any) -> Any:
        """Return H(x): (…, τ)."""
        tokens = self.encoded(x)
        weights, values = softmax(self._scores(tokens)), self.f(fresh(tokens))
        if values.ndim == weights.ndim:
            return self.F(weights @ values)
        return self.F((weights @ values[..., None])[..., 0])

    def sample(self, count: int, seed: int = 0) -> Array:
        """Return ``count`` sequences of independent uniform tokens: (count, τ[, d])."""
        box = np.asarray(self.domain, dtype=np.float64)
        shape = (count, self.tau, *box.shape[:-1])
        return np.random.default_rng(seed).uniform(box[..., 0], box[..., 1], shape)

    def with_kernel(self, rho: Callable[[Any, Any], Any]) -> Coupling:
        """Return the same relationship with another ρ."""
        return replace(self, rho=rho)

    def _scores(self, tokens: Any) -> Any:
        if hasattr(self.rho, "matrix"):
            return self.rho.matrix(tokens, tokens)
        vector = self.dim is not None
        u, v = (
            (tokens[..., :, None, :], tokens[..., None, :, :])
            if vector
            else (tokens[..., :, None], tokens[..., None, :])
        )
        shape = (*tokens.shape[: -2 if vector else -1], self.tau, self.tau)
        return namespace(tokens).broadcast_to(like(self.rho(fresh(u), fresh(v)), tokens), shape)

    def _scalar_domain(self) -> Interval:
        if self.dim is not None:
            raise InputError("vector tokens live in a box, not on intervals")
        low, high = self.domain
        return float(low), float(high)  # type: ignore[arg-type]


def sine_family(singular_values: Any, tau: int = 16, name: str = "sines") -> Coupling:
    """Return the target of section 5.1 with ρ = Σ σ_k √2 sin 2πku · √2 sin 2πkv and F = f = id.

    >>> target = sine_family([1.0, 0.25], tau=4)
    >>> target(target.sample(3)).shape
    (3, 4)
    """
    sigma = np.atleast_1d(reals(singular_values, "singular values"))
    if sigma.ndim != 1 or not np.isfinite(sigma).all():
        raise InputError("singular values are a list of finite numbers")
    kernel = ProductKernel(sigma, Sines(len(sigma)), Sines(len(sigma)))
    return Coupling(identity, identity, kernel, tau, name=name)


def _offsets(positions: Any, tau: int, box: Array) -> Array:
    offsets = np.asarray(positions, dtype=np.float64)
    if box.ndim != 1:
        raise InputError(
            "positions shift scalar tokens; vector tokens carry theirs in a coordinate"
        )
    if offsets.shape != (tau,) or not np.isfinite(offsets).all():
        raise InputError(f"{tau} tokens need {tau} finite positions, not {offsets.shape}")
    gaps, length = np.diff(np.sort(offsets)), box[1] - box[0]
    if len(gaps) and gaps.min() <= length:
        raise InputError(
            f"the intervals domain + e(t) must be disjoint: of length {length:g}, they need "
            f"positions further apart than {gaps.min():g}"
        )
    return offsets
