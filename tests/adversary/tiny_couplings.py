"""Models of couplings with numbers that may be taken for zero, bounded and run with and without that.

Target and model are scaled together, so that bounds have something to be about: what is small in one
place is large in another, or the whole target is small.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.rounding import rounding_bound
from exactformer.errors import InputError, RoundingError
from tests.adversary.coupling_bases import BASES, Draft, honest_draft
from tests.adversary.coupling_mutations import Times, mutate
from tests.adversary.coupling_runs import DTYPES, EXECUTORS
from tests.adversary.couplings import Bounded, Couplings
from tests.adversary.engine import Candidate
from tests.adversary.tiny_numbers import flushed, tiny_number

FLUSHED = "proof: flushed"


@dataclass(frozen=True)
class Of:
    """A function of numbers that are divided first."""

    function: Callable[..., Any]
    divisor: float

    def __call__(self, *args: Any) -> Any:
        return self.function(*(a / self.divisor for a in args))


def _power(rng: random.Random) -> float:
    """Return a tiny number that float64 holds."""
    return float(max(tiny_number(rng), Fraction(1, 2**1074)))


def _tiny_scores(rng: random.Random, draft: Draft) -> None:
    """Queries are so much smaller, and keys larger unless scores vanish."""
    m, scale = draft.head_dim, max(_power(rng), 2.0**-1000)
    sides = [slice(m), slice(m, 2 * m)]
    rng.shuffle(sides)
    draft.values[:, sides[0]] *= scale
    if rng.random() < 0.8:
        draft.values[:, sides[1]] /= scale


def _tiny_pairs(rng: random.Random, draft: Draft) -> None:
    """ρ is zero, of rank none, and scores are products of tiny and huge numbers."""
    m, bits = draft.head_dim, rng.choice((300, 500, 540, 600, 1000))
    generator = np.random.default_rng(rng.getrandbits(32))
    sizes = [2.0**-bits, 2.0 ** (bits - rng.choice((0, 10, 30)))]
    rng.shuffle(sizes)
    for side, size in zip((slice(m), slice(m, 2 * m)), sizes, strict=True):
        draft.values[:, side] = generator.normal(size=(len(draft.values), m)) * size
    rho = Times(draft.target.rho, 0.0)
    draft.target = replace(draft.target, rho=rho)
    parts = draft.decomposition
    draft.decomposition = replace(
        parts,
        kernel=rho,
        singular_values=parts.singular_values[:0],
        left_values=parts.left_values[:, :0],
        right_values=parts.right_values[:, :0],
    )


def _tiny_values(rng: random.Random, draft: Draft) -> None:
    """f, f̂ and the box are so much smaller; F and F̂ take what they took."""
    scale = _power(rng)
    exact = Fraction(scale)
    draft.values[:, 2 * draft.head_dim :] *= scale
    draft.box = tuple((low * exact, high * exact) for low, high in draft.box)
    target = draft.target
    draft.target = replace(target, f=Times(target.f, scale), F=Of(target.F, scale))


def _tiny_outputs(rng: random.Random, draft: Draft) -> None:
    scale = _power(rng)
    draft.outer_values *= scale
    draft.target = replace(draft.target, F=Times(draft.target.F, scale))


def _tiny_tokens(rng: random.Random, draft: Draft) -> None:
    """Domain and positions are so much smaller."""
    scale = _power(rng)
    exact = Fraction(scale)
    draft.domain = draft.domain[0] * exact, draft.domain[1] * exact
    draft.intervals = tuple((low * exact, high * exact) for low, high in draft.intervals)
    target, places = draft.target, draft.target.positions
    if draft.positions is not None:
        draft.positions = tuple(e * exact for e in draft.positions)
    rho = Of(target.rho, scale)
    low, high = target.domain
    draft.target = replace(
        target,
        rho=rho,
        f=Of(target.f, scale),
        domain=(low * scale, high * scale),
        positions=None if places is None else places * scale,
    )
    parts = draft.decomposition
    draft.decomposition = replace(
        parts,
        kernel=rho,
        u=replace(parts.u, nodes=parts.u.nodes * scale),
        v=replace(parts.v, nodes=parts.v.nodes * scale),
    )


def _tiny_steps(rng: random.Random, draft: Draft) -> None:
    """All values of a table differ by tiny numbers, if at all."""
    table = draft.values if rng.random() < 0.5 else draft.outer_values
    noise = np.random.default_rng(rng.getrandbits(32)).integers(-3, 4, table.shape)
    table[:] = table[:1] * rng.choice((0.0, 2.0**-1020)) + noise * _power(rng)


def _tiny_entries(rng: random.Random, draft: Draft) -> None:
    """A column, or an entry, is so much smaller than it was."""
    table = draft.values if rng.random() < 0.7 else draft.outer_values
    column = table[:, rng.randrange(table.shape[1])]
    where: Any = rng.randrange(len(column)) if rng.random() < 0.5 else slice(None)
    column[where] *= _power(rng)


MUTATIONS: dict[str, Callable[[random.Random, Draft], None]] = {
    "tiny scores": _tiny_scores,
    "tiny pairs": _tiny_pairs,
    "tiny values": _tiny_values,
    "tiny outputs": _tiny_outputs,
    "tiny tokens": _tiny_tokens,
    "tiny steps": _tiny_steps,
    "tiny entries": _tiny_entries,
}


class TinyCouplings(Couplings):
    """Numbers of small models, some of them tiny."""

    run_share = 1.0

    def candidate(self, seed: int) -> Candidate:
        """Return tiny numbers, and sometimes another change."""
        rng = random.Random(f"tiny couplings {seed}")
        draft = honest_draft(rng.randrange(BASES))
        for name in rng.sample(list(MUTATIONS), rng.choice((1, 1, 2))):
            # Tokens that float64 does not tell apart make no target.
            with np.errstate(all="ignore"), suppress(InputError):
                MUTATIONS[name](rng, draft)
            draft.kinds.append(name)
        if rng.random() < 0.2:
            mutate(rng, draft, 1)
        way = "stated" if rng.random() < 0.1 else "direct"
        proof = (FLUSHED,) if rng.random() < 0.5 else ()
        return Candidate((draft, way), (*draft.kinds, f"bound: {way}", *proof))

    def certify(self, candidate: Candidate) -> Bounded | CouplingModel:
        """Compute a bound, half of them while tiny numbers are taken for zero.

        So are then those of all roundings, which are kept until modules are held against them.
        """
        with np.errstate(all="ignore"), flushed(FLUSHED in candidate.kinds):
            found = super().certify(candidate)
            for dtype, executor in product(DTYPES, EXECUTORS):
                with suppress(RoundingError):
                    rounding_bound(found.blueprint, dtype, executor)
        return found


FAMILY = TinyCouplings()
