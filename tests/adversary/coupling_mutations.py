"""Changes to the numbers of a coupling's model, to its target, and to what its file states."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from exactformer.couplings.interpolant import Interval
from exactformer.errors import InputError
from exactformer.targets import Coupling
from tests.adversary.coupling_bases import BASES, Draft, honest_draft

Mutation = Callable[[random.Random, Draft], None]

SMALL = (1e-12, 1e-6, 1e-3, 0.03, 0.3)
HUGE = (1e4, 1e10, 1e39, 1e100, 1e155, 1e300, 1.7e308)
TINY = (5e-324, 1e-310, 1e-300, 1e-46, 1e-20)
FACTORS = (0.0, -1.0, 0.5, 0.999, 1.001, 2.0, 10.0)


class NotApplicableError(Exception):
    """A change that a draft has no place for."""


def mutate(rng: random.Random, draft: Draft, count: int) -> None:
    """Make changes, each noted under its name; those that leave numbers without a shape come last."""
    names, shares = list(MUTATIONS), [share for share, _ in MUTATIONS.values()]
    # Numbers that are huge by intent overflow by the way.
    with np.errstate(all="ignore"):
        _make(rng, draft, rng.choices(names, shares, k=count))
    if rng.random() < 0.03:
        _misshapen(rng, draft)
        draft.kinds.append("misshapen")


def _make(rng: random.Random, draft: Draft, names: list[str]) -> None:
    for name in names:
        try:
            MUTATIONS[name][1](rng, draft)
        except (NotApplicableError, InputError):  # the latter of a target that cannot be
            continue
        draft.kinds.append(name)


@dataclass(frozen=True)
class Times:
    """A function times a number, plus another."""

    function: Callable[..., Any]
    factor: float
    summand: float = 0.0

    def __call__(self, *args: Any) -> Any:
        return self.factor * self.function(*args) + self.summand


@dataclass(frozen=True)
class After:
    """A function of what is moved first."""

    function: Callable[..., Any]
    shift: float

    def __call__(self, *args: Any) -> Any:
        return self.function(*(a + self.shift for a in args))


def _require(condition: bool) -> None:
    if not condition:
        raise NotApplicableError


def _table(rng: random.Random, draft: Draft) -> Any:
    return draft.values if rng.random() < 0.7 else draft.outer_values


def _column(rng: random.Random, draft: Draft) -> Any:
    table = _table(rng, draft)
    return table[:, rng.randrange(table.shape[1])]


def _entry(rng: random.Random, draft: Draft) -> None:
    column = _column(rng, draft)
    column[rng.randrange(len(column))] += rng.choice((-1, 1)) * rng.choice(SMALL)


def _extreme(rng: random.Random, draft: Draft) -> None:
    column = _column(rng, draft)
    value = rng.choice((-1, 1)) * rng.choice(HUGE + TINY)
    where: Any = rng.randrange(len(column)) if rng.random() < 0.5 else slice(None)
    column[where] = value


def _not_finite(rng: random.Random, draft: Draft) -> None:
    column = _column(rng, draft)
    column[rng.randrange(len(column))] = rng.choice((np.nan, np.inf, -np.inf))


def _scale(rng: random.Random, draft: Draft) -> None:
    column = _column(rng, draft)
    column *= rng.choice((*FACTORS, 1e-160, 1e-30, 1e30))


def _shift(rng: random.Random, draft: Draft) -> None:
    column = _column(rng, draft)
    column += rng.choice((-1, 1)) * rng.choice(SMALL)


def _shift_values(rng: random.Random, draft: Draft) -> None:
    """All values, or F̂, are off by the same: the bound has nothing to spare."""
    amount = rng.choice((-1, 1)) * rng.choice(SMALL)
    if rng.random() < 0.5:
        draft.values[:, 2 * draft.head_dim :] += amount
    else:
        draft.outer_values += amount


def _noise(rng: random.Random, draft: Draft) -> None:
    table = _table(rng, draft)
    table += np.random.default_rng(rng.getrandbits(32)).normal(size=table.shape) * rng.choice(SMALL)


def _anything(rng: random.Random, draft: Draft) -> None:
    table = _table(rng, draft)
    table[:] = np.random.default_rng(rng.getrandbits(32)).normal(size=table.shape)


def _flip_pair(rng: random.Random, draft: Draft) -> None:
    m, k = draft.head_dim, rng.randrange(draft.head_dim)
    draft.values[:, [k, m + k]] *= -1


def _flip_half_a_pair(rng: random.Random, draft: Draft) -> None:
    draft.values[:, rng.randrange(2 * draft.head_dim)] *= -1


def _rebalance_pair(rng: random.Random, draft: Draft) -> None:
    """φ_k is multiplied and ψ_k divided by the same number: scores stay, their bound does not."""
    m, k, factor = draft.head_dim, rng.randrange(draft.head_dim), rng.choice((2.0, 1e3, 1e-6))
    draft.values[:, k] *= factor
    draft.values[:, m + k] /= factor


def _exchange_pairs(rng: random.Random, draft: Draft) -> None:
    m = draft.head_dim
    _require(m > 1)
    j, k = rng.sample(range(m), 2)
    order = np.arange(draft.values.shape[1])
    order[[j, k, m + j, m + k]] = [k, j, m + k, m + j]
    draft.values = draft.values[:, order]


def _exchange_sides(rng: random.Random, draft: Draft) -> None:
    m = draft.head_dim
    order = np.arange(draft.values.shape[1])
    order[:m], order[m : 2 * m] = order[m : 2 * m].copy(), order[:m].copy()
    draft.values = draft.values[:, order]


def _exchange_rows(rng: random.Random, draft: Draft) -> None:
    j, k = rng.sample(range(draft.values.shape[1]), 2)
    draft.values[:, [j, k]] = draft.values[:, [k, j]]


def _rotate(rng: random.Random, draft: Draft) -> None:
    m = draft.head_dim
    generator = np.random.default_rng(rng.getrandbits(32))
    turn, _ = np.linalg.qr(generator.normal(size=(m, m)))
    other = turn if rng.random() < 0.7 else turn * 1.01
    draft.values[:, :m] = draft.values[:, :m] @ turn
    draft.values[:, m : 2 * m] = draft.values[:, m : 2 * m] @ other


def _exchange_knots(rng: random.Random, draft: Draft) -> None:
    table = _table(rng, draft)
    j, k = rng.sample(range(len(table)), 2)
    table[[j, k]] = table[[k, j]]


def _reverse_knots(rng: random.Random, draft: Draft) -> None:
    table = _table(rng, draft)
    table[:] = table[::-1].copy()


def _head_dim(rng: random.Random, draft: Draft) -> None:
    head_dim = draft.head_dim + rng.choice((-1, 1))
    _require(0 < 2 * head_dim < draft.values.shape[1])
    draft.head_dim = head_dim


def _drop_pair(rng: random.Random, draft: Draft) -> None:
    m = draft.head_dim
    _require(m > 1)
    k = rng.randrange(m)
    draft.values = np.delete(draft.values, [k, m + k], axis=1)
    draft.head_dim -= 1


def _add_pair(rng: random.Random, draft: Draft) -> None:
    m, n = draft.head_dim, len(draft.values)
    generator = np.random.default_rng(rng.getrandbits(32))
    size = rng.choice((0.0, 1e-6, 0.1, 1.0))
    rows = generator.normal(size=(n, 2)) * size
    if rng.random() < 0.3:
        rows[:, 0] = 1.0  # which adds the same number to all scores of a key
    parts = [draft.values[:, :m], rows[:, :1], draft.values[:, m : 2 * m], rows[:, 1:]]
    draft.values = np.concatenate([*parts, draft.values[:, 2 * m :]], axis=1)
    draft.head_dim += 1


def _pieces(rng: random.Random, draft: Draft) -> None:
    """Other pieces than the values are for."""
    if rng.random() < 0.5:
        draft.pieces = max(1, draft.pieces + rng.choice((-1, 1)))
    else:
        draft.outer_pieces = max(0, draft.outer_pieces + rng.choice((-1, 1)))


def _coarsen(rng: random.Random, draft: Draft) -> None:
    """Every second knot goes, of all intervals."""
    _require(draft.pieces % 2 == 0)
    _require(len(draft.values) == len(draft.intervals) * (draft.pieces + 1))
    rows = draft.values.shape[1]
    kept = draft.values.reshape(len(draft.intervals), draft.pieces + 1, rows)[:, ::2]
    draft.values, draft.pieces = np.ascontiguousarray(kept.reshape(-1, rows)), draft.pieces // 2


def _interval(rng: random.Random, draft: Draft) -> None:
    k = rng.randrange(len(draft.intervals))
    moved = list(draft.intervals)
    moved[k] = _other_interval(rng, moved[k])
    draft.intervals = tuple(moved)


def _box(rng: random.Random, draft: Draft) -> None:
    """F̂ is given on another box than means of f lie in."""
    k = rng.randrange(len(draft.box))
    moved = list(draft.box)
    moved[k] = _other_interval(rng, moved[k])
    draft.box = tuple(moved)


def _thin_box(rng: random.Random, draft: Draft) -> None:
    k = rng.randrange(len(draft.box))
    moved = list(draft.box)
    low = moved[k][0]
    moved[k] = (low, low + Fraction(rng.choice((1e-3, 1e-8, 1e-30, 1e-200))))
    draft.box = tuple(moved)


def _other_interval(rng: random.Random, interval: Interval) -> Interval:
    low, high = interval
    length = high - low
    return rng.choice(
        (
            (low + length / 4, high),
            (low, high - length / 4),
            (low - length, high + length),
            (low + length / 8, high + length / 8),
            (low + 10 * length, high + 10 * length),
            (high, low),
            (low, low),
            (low, low + length / 1000),
        )
    )


def _token_count(rng: random.Random, draft: Draft) -> None:
    draft.tau = max(0, draft.tau + rng.choice((-1, 1)))


def _token_count_of_both(rng: random.Random, draft: Draft) -> None:
    _require(draft.positions is None)
    draft.tau = rng.choice((1, 2, 3, 7, 12))
    draft.target = replace(draft.target, tau=draft.tau)


def _domain(rng: random.Random, draft: Draft) -> None:
    draft.domain = _other_interval(rng, draft.domain)


def _domain_of_intervals(rng: random.Random, draft: Draft) -> None:
    """The blueprint fits its own domain, which is not the target's."""
    draft.domain = _other_interval(rng, draft.domain)
    low, high = draft.domain
    draft.intervals = tuple((low + e, high + e) for e in draft.positions or (Fraction(0),))


def _domain_of_both(rng: random.Random, draft: Draft) -> None:
    """Target and model move to another domain; weights and decomposition stay those of the old one."""
    low, high = draft.domain
    _require(low < high)
    length = high - low
    moved = rng.choice(
        ((low + length / 4, high), (low, high - length / 2), (low + length / 8, high + length / 8))
    )
    draft.domain = Fraction(float(moved[0])), Fraction(float(moved[1]))
    low, high = draft.domain
    offsets = draft.positions or (Fraction(0),)
    draft.intervals = tuple((low + e, high + e) for e in offsets)
    draft.target = _retargeted(draft.target, domain=(float(low), float(high)))


def _positions(rng: random.Random, draft: Draft) -> None:
    if draft.positions is None:
        draft.positions = tuple(Fraction(10 * t) for t in range(draft.tau))
        return
    places = list(draft.positions)
    k = rng.randrange(len(places))
    change = rng.choice(("forget", "move", "exchange", "drop"))
    if change == "forget":
        draft.positions = None
        return
    if change == "move":
        places[k] += Fraction(rng.choice((-1, 1)), 64)
    elif change == "exchange":
        places[k], places[-1 - k] = places[-1 - k], places[k]
    else:
        places.pop()
    draft.positions = tuple(places)


def _positions_of_both(rng: random.Random, draft: Draft) -> None:
    """Places are exchanged, or moved, in target and model; the tables stay where they are."""
    _require(draft.positions is not None)
    places = list(draft.positions or ())
    _require(len(places) == draft.target.tau and draft.domain[0] < draft.domain[1])
    if rng.random() < 0.5:
        rng.shuffle(places)
    else:
        length = draft.domain[1] - draft.domain[0]
        k = max(range(len(places)), key=places.__getitem__)
        places[k] = Fraction(float(places[k] + length * rng.choice((1, 5))))
    draft.positions = tuple(places)
    low, high = draft.domain
    draft.intervals = tuple((low + e, high + e) for e in places)
    offsets = np.array([float(e) for e in places])
    draft.target = _retargeted(draft.target, positions=offsets)


def _exchange_segments(rng: random.Random, draft: Draft) -> None:
    """The tables of two places are exchanged, or the places themselves."""
    _require(len(draft.intervals) > 1)
    j, k = rng.sample(range(len(draft.intervals)), 2)
    if rng.random() < 0.5:
        places = list(draft.intervals)
        places[j], places[k] = places[k], places[j]
        draft.intervals = tuple(places)
        return
    each = draft.pieces + 1
    _require(len(draft.values) == each * len(draft.intervals))
    tables = draft.values.reshape(len(draft.intervals), each, -1).copy()
    tables[[j, k]] = tables[[k, j]]
    draft.values = tables.reshape(draft.values.shape)


def _scaled_target(rng: random.Random, draft: Draft) -> None:
    target, factor = draft.target, rng.choice((0.0, -1.0, 0.5, 1.001, 3.0, 30.0))
    part = rng.choice(("rho", "f", "F"))
    draft.target = replace(target, **{part: Times(getattr(target, part), factor)})
    if part == "rho" and factor > 0 and rng.random() < 0.7:
        sigma = draft.decomposition.singular_values * factor
        draft.decomposition = replace(
            draft.decomposition, singular_values=sigma, kernel=draft.target.rho
        )


def _moved_target(rng: random.Random, draft: Draft) -> None:
    target, part = draft.target, rng.choice(("rho", "f", "F"))
    amount = rng.choice((1e-6, 0.01, 0.5, 100.0))
    if part == "F" or rng.random() < 0.5:
        draft.target = replace(target, **{part: Times(getattr(target, part), 1.0, amount)})
    else:
        draft.target = replace(target, **{part: After(getattr(target, part), amount)})


def _other_target(rng: random.Random, draft: Draft) -> None:
    """The functions of another base on the tokens of this one."""
    other = honest_draft(rng.randrange(BASES))
    target, part = draft.target, rng.choice(("rho", "f and F"))
    if part == "rho":
        draft.target = replace(target, rho=other.target.rho, name=other.target.name)
        if rng.random() < 0.5:
            draft.decomposition = other.decomposition
    else:
        _require(other.value_dim == draft.value_dim or rng.random() < 0.2)
        draft.target = replace(target, f=other.target.f, F=other.target.F)


def _other_decomposition(rng: random.Random, draft: Draft) -> None:
    """A decomposition that is none of ρ: it is ρ_m for the bound, whatever it is."""
    parts = draft.decomposition
    if rng.random() < 0.5:
        draft.decomposition = replace(parts, singular_values=parts.singular_values * 1.5)
    else:
        draft.decomposition = replace(
            parts, left_values=parts.left_values[:, ::-1], right_values=-parts.right_values
        )


def _retargeted(target: Coupling, **changes: Any) -> Coupling:
    return replace(target, **changes)


def _stated(rng: random.Random, draft: Draft) -> None:
    """The bound that the file states is forged."""
    _require("forged bound" not in draft.kinds and "labels" not in draft.kinds)
    bound = json.loads(draft.metadata["bound"])
    name = rng.choice([name for name in bound if name not in ("root_sums", "source", "kind")])
    change = rng.choice(("scale", "value", "roots", "all", "drop", "source"))
    if change == "scale":
        bound[name] *= rng.choice((0.0, 0.5, 0.99, 1 + 1e-7, 1.01, 2.0))
    elif change == "value":
        bound[name] = rng.choice((float("nan"), -1.0, 0.0, 1e308, float("inf"), "0", None, [1]))
    elif change == "roots":
        roots = bound["root_sums"]
        bound["root_sums"] = rng.choice(
            ([r / 2 for r in roots], roots[1:], [*roots, 0.0], [], [0.0] * len(roots), None)
        )
    elif change == "all":
        for part in ("tail", "diagonal", "coupling_error", "value_error", "outer_error"):
            bound[part] = 0.0
        bound["root_sums"] = [0.0] * len(bound["root_sums"])
    elif change == "drop":
        del bound[name]
    else:
        bound["source"] = rng.choice(("computed", "", "proven", 3))
        bound["kind"] = "proven"
    draft.metadata["bound"] = json.dumps(bound)


def _labels(rng: random.Random, draft: Draft) -> None:
    change = rng.choice(("target", "no bound", "text", "kind"))
    if change == "target":
        draft.metadata["target"] = "another"
    elif change == "no bound":
        draft.metadata.pop("bound", None)
    elif change == "text":
        draft.metadata["bound"] = rng.choice(("", "{", "[]", "null", "1e999", '{"tail": 0}'))
    else:
        draft.metadata |= {"kind": "proven", "source": "computed", "construction": "theorem"}


def _misshapen(rng: random.Random, draft: Draft) -> None:
    if rng.random() < 0.5:
        draft.values = rng.choice((draft.values[1:], draft.values[:, 1:], draft.values[:, 0]))
        draft.head_dim = rng.choice((0, draft.head_dim, 2 * draft.head_dim))
    else:
        draft.outer_values = np.concatenate([draft.outer_values] * 2, axis=rng.randrange(2))


MUTATIONS: dict[str, tuple[float, Mutation]] = {
    "entry": (3, _entry),
    "extreme": (2, _extreme),
    "not finite": (0.4, _not_finite),
    "scale a column": (3, _scale),
    "shift a column": (2, _shift),
    "shift all values": (3, _shift_values),
    "noise": (3, _noise),
    "random table": (1, _anything),
    "flip a pair": (1.5, _flip_pair),
    "flip half a pair": (1, _flip_half_a_pair),
    "rebalance a pair": (1, _rebalance_pair),
    "exchange pairs": (1.5, _exchange_pairs),
    "exchange phi and psi": (1, _exchange_sides),
    "exchange rows": (1.5, _exchange_rows),
    "rotate": (2, _rotate),
    "exchange knots": (1, _exchange_knots),
    "reverse knots": (0.5, _reverse_knots),
    "head_dim": (0.6, _head_dim),
    "drop a pair": (1.5, _drop_pair),
    "add a pair": (1.5, _add_pair),
    "pieces": (0.6, _pieces),
    "every second knot": (1.5, _coarsen),
    "interval": (0.6, _interval),
    "box of F": (2, _box),
    "thin box of F": (0.7, _thin_box),
    "tokens": (0.4, _token_count),
    "tokens of both": (1, _token_count_of_both),
    "domain": (0.4, _domain),
    "domain and intervals": (0.4, _domain_of_intervals),
    "domain of both": (2, _domain_of_both),
    "positions": (0.5, _positions),
    "positions of both": (2, _positions_of_both),
    "exchange segments": (1.5, _exchange_segments),
    "scaled target": (2, _scaled_target),
    "moved target": (2, _moved_target),
    "other target": (2, _other_target),
    "other decomposition": (1.5, _other_decomposition),
    "forged bound": (1.5, _stated),
    "labels": (0.7, _labels),
}
"""Changes by name, each with how often it is made."""
