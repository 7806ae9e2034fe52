"""Why couplings are enough: appendix A.2 of Jiang & Li, from a superposition to F, f and ρ, exactly.

Theorem A.3 writes any continuous H̃ on disjoint intervals I_1 … I_τ in the form of equation (8). Its
first step, the superposition of Kolmogorov and Ostrand,

    H̃_t(x) = Σ_q g_q^(t)( Σ_s ψ_{q,s}(x_s) ),                                                       (24)

exists but has no cheap construction. It is *given* here: by hand, or for polynomials from ridge forms,
where ψ_{q,s}(x) = ξ_{q,s} x. All that follows in the proof is carried out:

    ρ(u, v) = ln 2 where u and v lie in the same interval, else 0: a token weighs itself 2/(τ + 1), any
              other 1/(τ + 1), and equation (8) reads F of the mean of f(x(t)), f(x(1)), …, f(x(τ)).
    f(x(s)) = ψ_{1,s}(x(s)), ψ_{2,s}(x(s)), … in the slots of s, zeros in those of others; and b_s = s.
    F       reads t from the last slot, halves the slots of t, adds up over s, applies g_q^(t); between
            the values that the last slot can have it passes from one t to the next, continuously.

The text of the proof is looser than its theorem. (26) adds up the ψ_{q,s} of all s in *one* slot
for each q, and (28) then subtracts ψ_{q,t}(x_t), which F cannot see: the sum over s with that of t
counted twice does not determine the sum itself. With a slot for each q and s, τ(2τd + 1) + 1 in all,
which is the n that the theorem states, F sees every ψ_{q,s}(x_s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from exactformer.core.arrays import like, namespace
from exactformer.couplings.target import Coupling
from exactformer.errors import InputError

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Superposition:
    """H_t(x) = Σ_q outer[t][q](Σ_s inner[q][s](x_s)); functions work elementwise."""

    inner: tuple[tuple[Function, ...], ...]
    """[q][s]."""
    outer: tuple[tuple[Function, ...], ...]
    """[t][q]."""

    def __post_init__(self) -> None:
        terms, tau = len(self.inner), len(self.outer)
        if not terms or any(len(row) != tau for row in self.inner):
            raise InputError(
                f"each of the {terms} terms needs an inner function for all {tau} tokens"
            )
        if any(len(row) != terms for row in self.outer):
            raise InputError(f"each of the {tau} outputs needs {terms} outer functions")

    @property
    def tau(self) -> int:
        """The number of tokens."""
        return len(self.outer)

    def __call__(self, x: Any) -> Any:
        """Evaluate: (…, τ) to (…, τ)."""
        sums = [sum(g(x[..., s]) for s, g in enumerate(row)) for row in self.inner]
        outputs = [sum(g(z) for g, z in zip(row, sums, strict=True)) for row in self.outer]
        return namespace(x).stack(outputs, -1)


@dataclass(frozen=True)
class _Places:
    """Intervals of one length: the s-th is [low + 2s·length, low + (2s + 1)·length], s = 0, 1, …"""

    low: float
    length: float

    def index(self, encoded: Any) -> Any:
        return namespace(encoded).floor((encoded - self.low) / (2 * self.length) + 0.25)

    def token(self, encoded: Any) -> Any:
        return encoded - 2 * self.length * self.index(encoded)


@dataclass(frozen=True)
class _SameInterval:
    places: _Places

    def __call__(self, u: Any, v: Any) -> Any:
        same = self.places.index(u) == self.places.index(v)
        return log(2) * (same + 0.0 * u)


@dataclass(frozen=True)
class _Slots:
    places: _Places
    superposition: Superposition

    def __call__(self, u: Any) -> Any:
        place, token = self.places.index(u), self.places.token(u)
        slots = [
            g(token) * (place == s) for row in self.superposition.inner for s, g in enumerate(row)
        ]
        return namespace(u).stack([*slots, place + 1.0], -1)


@dataclass(frozen=True)
class _ReadSlots:
    superposition: Superposition

    def __call__(self, h: Any) -> Any:
        tau, terms = self.superposition.tau, len(self.superposition.inner)
        u = (tau + 1) * h
        t = u[..., -1:] - tau * (tau + 1) / 2 - 1  # b_t + Σ b_s is shown, b_s = s
        near = (1.5 - 2 * abs(t - like(np.arange(tau), u))).clip(0, 1)
        slots = u[..., :-1].reshape(*u.shape[:-1], terms, tau)
        sums = (slots / (1 + near[..., None, :])).sum(-1)
        outputs = [
            near[..., place] * sum(g(sums[..., q]) for q, g in enumerate(row))
            for place, row in enumerate(self.superposition.outer)
        ]
        return sum(outputs)


def density_coupling(
    superposition: Superposition, domain: tuple[float, float] = (0.0, 1.0)
) -> Coupling:
    """Return the coupling that Theorem A.3 makes of a superposition: equal to it, on any input.

    Tokens of place t = 1 … τ are moved by 2(t − 1) lengths of the domain, which makes the intervals
    disjoint.
    """
    low, high = (float(end) for end in domain)
    places = _Places(low, high - low)
    return Coupling(
        F=_ReadSlots(superposition),
        f=_Slots(places, superposition),
        rho=_SameInterval(places),
        tau=superposition.tau,
        domain=(low, high),
        positions=2 * (high - low) * np.arange(superposition.tau, dtype=np.float64),
        name="density",
    )


def ridge_superposition(polynomials: Sequence[str]) -> Superposition:
    """Return the superposition of τ polynomials in x1 … xτ, by their ridge forms.

    >>> product = ridge_superposition(["x1 x2", "x1 - x2"])
    >>> float(product(np.array([0.5, 0.25]))[0])
    0.125
    """
    from exactformer.algebra.ridge import ridge_forms
    from exactformer.algebra.target import Target

    variables = [f"x{s}" for s in range(1, len(polynomials) + 1)]
    forms = ridge_forms(Target.coerce(list(polynomials), variables).polynomials)
    directions = [[float(c) for c in direction] for direction in forms[0].directions]
    inner = tuple(tuple(_Power((0.0, c)) for c in direction) for direction in directions)
    outer = tuple(
        tuple(
            _Power((float(form.constant) if q == 0 else 0.0, *(float(b) for b in row)))
            for q, row in enumerate(form.beta)
        )
        for form in forms
    )
    return Superposition(inner, outer)


@dataclass(frozen=True)
class _Power:
    """c_0 + c_1 z + c_2 z² + …"""

    coefficients: tuple[float, ...]

    def __call__(self, z: Any) -> Any:
        total = self.coefficients[-1] + 0.0 * z
        for c in self.coefficients[-2::-1]:
            total = total * z + c
        return total
