"""Rounding bounds against the worst arithmetic that the standard model allows.

Each model is made so that one step of the analysis causes nearly all of the error, at a point where
all sizes are attained. The bound covers the worst arithmetic, and is not much larger.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from exactformer.core.domain import Box
from exactformer.core.formats import FORMATS
from exactformer.core.layers import IDENTITY, RELU, Block, PiecewiseLinear, Rule
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.literal_rounding import RoundingBound, rounding_bound
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.exact import run_exact
from tests.cases.blueprints import Entries, attention_block, hand_made
from tests.cases.worst_rounding import run_in, worst

THIRD = Fraction(1, 3)
ONE, EDGE = Fraction(1), Fraction(3)
WIDTH = 4  # feature, two more dimensions, one
Point = list[Fraction]
Head = tuple[int, Entries, Entries, Entries]


def bound(blueprint: Blueprint, name: str) -> RoundingBound:
    run = run_symbolic(blueprint, blueprint.domain)
    return rounding_bound(run, prove_selection(run).margins, FORMATS[name])


def single(*blocks: Block, beta: Entries, bias: Fraction | int = 0) -> Blueprint:
    """One token t = x on |x| ≤ 3 with a constant 1; products with 3 are rounded."""
    return hand_made({(0, 0): 1}, 1, 1, WIDTH, {(0, 3): 1}, blocks, beta, bias, radius=3)


def layer(activation: PiecewiseLinear = IDENTITY, **matrices: Entries) -> Block:
    places = [*matrices.get("w1", ()), *matrices.get("b1", ())]
    units = 1 + max((unit for unit, _ in places), default=-1)
    return attention_block(WIDTH, [], units=units, activation=activation, **matrices)  # type: ignore[arg-type]


def head(query: Entries, key: Entries, value: Entries, rows: int = 1) -> Head:
    return (rows, query, key, value)


def boxed(blueprint: Blueprint, centre: Point, half: Point) -> Blueprint:
    return replace(blueprint, domain=Box(tuple(centre), tuple(half)))


def embeddings() -> dict[str, tuple[Blueprint, Point]]:
    """Errors that arise between the point and the stream."""
    plain = {(0, 0): 1}
    row = {(0, j): v for j, v in enumerate([Fraction(5, 3), THIRD / 8, THIRD / 64, THIRD / 512])}
    wide = hand_made(row, 1, 4, 1, {}, [], plain)
    return {
        "a weight of a feature": (
            hand_made({(0, 0): THIRD}, 1, 1, 1, {}, [], plain, radius=3),
            [EDGE],
        ),
        "two features": (
            hand_made({(0, 0): Fraction(9, 7), (0, 1): Fraction(12, 7)}, 1, 2, 1, {}, [], plain),
            [Fraction(3, 5), Fraction(4, 5)],
        ),
        "features on a box": (boxed(wide, [Fraction(0)] * 4, [ONE] * 4), [ONE] * 4),
        "features on a box far out": (
            boxed(wide, [Fraction(10**6)] * 4, [ONE] * 4),
            [Fraction(10**6 + 1)] * 4,
        ),
        "a feature with a power of two": (
            boxed(
                hand_made({(0, 0): 3, (0, 1): Fraction(1, 4096)}, 1, 2, 1, {}, [], plain),
                [Fraction(0)] * 2,
                [EDGE] * 2,
            ),
            [EDGE] * 2,
        ),
        "a constant": (hand_made({}, 1, 1, 2, {(0, 1): THIRD}, [], {(0, 1): 1}), [ONE]),
        "a constant with the feature": (
            hand_made({(0, 0): Fraction(1, 1024)}, 1, 1, 1, {(0, 0): 3}, [], plain),
            [ONE],
        ),
    }


def layers() -> dict[str, tuple[Blueprint, Point]]:
    """Errors that arise in feed-forward layers, and those that they carry on."""
    rest = {(0, 1): THIRD / 8, (0, 2): THIRD / 64, (0, 3): THIRD / 512}
    fill = layer(b2={(1, 0): 1, (2, 0): 1})
    identity = {(0, 0): 1}
    models = {
        "one weight": single(layer(w1={(0, 0): THIRD}, w2={(1, 0): 1}), beta={(0, 1): 1}),
        "one weight behind": single(layer(w1=identity, w2={(1, 0): THIRD}), beta={(0, 1): 1}),
        "a sum of products": single(
            fill, layer(w1={(0, 0): Fraction(5, 3)} | rest, w2={(1, 0): 1024}), beta={(0, 1): 1}
        ),
        "a sum of powers of two": single(
            fill,
            layer(
                w1={(0, 0): 4, (0, 1): Fraction(1, 64), (0, 2): Fraction(1, 64)}, w2={(1, 0): 64}
            ),
            beta={(0, 1): 1},
        ),
        "a bias within": single(
            layer(w1={(0, 0): Fraction(1, 4096)}, b1={(0, 0): THIRD}, w2={(1, 0): 64}),
            beta={(0, 1): 1},
        ),
        "a bias alone": single(layer(b1={(0, 0): THIRD}, w2={(1, 0): 1}), beta={(0, 1): 1}),
        "a bias behind": single(layer(b2={(1, 0): THIRD}), beta={(0, 1): 1}),
        "a bias behind on the feature": single(layer(b2={(0, 0): THIRD / 64}), beta={(0, 0): 1}),
        "several units": single(
            layer(
                w1={(u, 0): 1 for u in range(4)},
                w2={(1, u): THIRD / 8**u for u in range(4)},
                b2={(1, 0): THIRD / 4096},
            ),
            beta={(0, 1): 1},
        ),
        "errors of the stream": single(
            layer(w1={(0, 0): THIRD}, w2={(1, 0): 1}),
            layer(w1={(0, 1): 1024}, w2={(2, 0): 1024}),
            beta={(0, 2): 1},
        ),
        "errors in several dimensions": single(
            layer(w1={(0, 0): THIRD}, w2={(1, 0): 1, (2, 0): 1}),
            layer(w1={(0, 1): 256, (0, 2): 1024}, w2={(1, 0): 1024}),
            beta={(0, 1): 1},
        ),
        "an error that stays": single(
            layer(w1={(0, 0): 1024 * THIRD}, w2={(1, 0): 1}),
            layer(w1={(0, 3): 1}, w2={(1, 0): Fraction(1, 8)}),
            beta={(0, 1): 1},
        ),
        "a ReLU that is open": single(
            layer(RELU, w1={(0, 0): THIRD}, b1={(0, 0): 2}, w2={(1, 0): 64}),
            layer(RELU, w1={(0, 1): 64}, b1={(0, 0): 1}, w2={(2, 0): 64}),
            beta={(0, 2): 1},
        ),
        "a ReLU that is barely shut": single(
            layer(
                RELU,
                w1={(0, 0): THIRD},
                b1={(0, 0): -1 - Fraction(1, 2**56)},
                w2={(1, 0): 64},
            ),
            beta={(0, 1): 1},
        ),
        "a ReLU that is barely open": single(
            layer(RELU, w1={(0, 0): THIRD}, b1={(0, 0): 1}, w2={(1, 0): 64}),
            layer(RELU, w1={(0, 1): 64}, w2={(2, 0): 64}),
            beta={(0, 2): 1},
        ),
    }
    return {name: (blueprint, [EDGE]) for name, blueprint in models.items()} | {
        "a ReLU at its edge": (models["a ReLU that is barely open"], [-EDGE]),
    }


def attentions() -> dict[str, tuple[Blueprint, Point]]:
    """Errors that arise in attention, and those that it carries on."""
    one = {(0, 3): 1}

    def of(*heads: Head, before: tuple[Block, ...] = ()) -> Blueprint:
        block = attention_block(WIDTH, heads)
        return single(*before, block, beta={(0, 1): 1})

    inexact = layer(w1={(0, 0): THIRD}, w2={(2, 0): 1})
    rows = {(0, 3): Fraction(5, 3), (1, 3): THIRD / 8, (2, 3): THIRD / 64}
    ones = {(r, 3): 1 for r in range(3)}
    errs, large = {(0, 2): 1024}, {(0, 3): 1024}
    models = {
        "a value": of(head(one, one, {(1, 0): THIRD})),
        "a query": of(head({(0, 3): THIRD}, one, {(1, 3): 1})),
        "a key": of(head(one, {(0, 3): THIRD}, {(1, 3): 1})),
        "a product of query and key": of(head({(0, 3): 3}, {(0, 3): 5}, {(1, 3): 1})),
        "a product of score and value": of(head({(0, 3): 3}, one, {(1, 3): 5})),
        "a score of many rows": of(head(rows, ones, {(1, 3): 1}, 3)),
        "an error in the query": of(head(errs, large, {(1, 3): 1}), before=(inexact,)),
        "an error in the key": of(head(large, errs, {(1, 3): 1}), before=(inexact,)),
        "an error in a sum of queries": of(
            head({(0, 2): 1024, (0, 3): 1}, large, {(1, 3): 1}), before=(inexact,)
        ),
        "an error in a sum of values": of(
            head(large, one, {(1, 2): 1024, (1, 3): 1}), before=(inexact,)
        ),
        "weights that are rounded in a sum": of(
            head({(0, 3): 1000 * THIRD, (0, 0): 1000 * THIRD}, large, {(1, 3): 1})
        ),
        "an error in the value": of(head({(0, 3): 1024}, one, {(1, 2): 1024}), before=(inexact,)),
        "an error in the score": of(head({(0, 2): 1024}, one, {(1, 3): 1024}), before=(inexact,)),
        "an addition": of(
            head(one, one, {(1, 3): Fraction(1, 4096)}), before=(layer(b2={(1, 0): 3}),)
        ),
        "an error that attention leaves alone": of(
            head(one, one, {(1, 3): Fraction(1, 8)}),
            before=(layer(w1={(0, 0): 1024 * THIRD}, w2={(1, 0): 1}),),
        ),
        "many heads": of(
            *(head(one, one, {(1, 3): Fraction(1, 8**k)}) for k in range(2, 6)),
            before=(layer(b2={(1, 0): 3}),),
        ),
        "the hard maximum": single(
            attention_block(WIDTH, [head({(0, 3): 3}, one, {(1, 0): THIRD})], Rule.HARD_MAX),
            beta={(0, 1): 1},
        ),
    }  # fmt: skip
    return {name: (blueprint, [EDGE]) for name, blueprint in models.items()}


def readouts() -> dict[str, tuple[Blueprint, Point]]:
    """Errors that arise in the readout."""
    n = 9
    column = [(i, 0) for i in range(n)]
    same, falling = dict.fromkeys(column, 1), {(i, 0): THIRD / 8**i for i in range(n)}
    fall = {(i, 0): Fraction(1, 8**i) for i in range(n)}
    return {
        "a weight read": (single(beta={(0, 0): THIRD}), [EDGE]),
        "a weight read of what errs": (
            single(layer(w1={(0, 0): THIRD}, w2={(1, 0): 1}), beta={(0, 1): 5}),
            [EDGE],
        ),
        "a bias": (single(beta={}, bias=THIRD), [EDGE]),
        "a bias and a term": (single(beta={(0, 0): Fraction(1, 4096)}, bias=THIRD), [EDGE]),
        "a bias behind a larger term": (single(beta={(0, 0): 3}, bias=Fraction(1, 4096)), [EDGE]),
        "tokens": (hand_made(same, n, 1, 1, {}, [], falling, radius=3), [EDGE]),
        "tokens and a bias": (hand_made(same, n, 1, 1, {}, [], fall, bias=Fraction(1, 2**40)), [ONE]),
        "dimensions": (single(beta={(0, 0): 1, (0, 3): Fraction(1, 64)}), [EDGE]),
    }  # fmt: skip


def underflows() -> dict[str, tuple[Blueprint, Point]]:
    """Errors of numbers that are flushed to zero, the only errors there are."""
    tiny = Fraction(FORMATS["float32"].tiny)
    half = tiny / 2
    edge = [half]
    large = Fraction(2) ** 100

    def on_little(
        *blocks: Block, weight: Fraction | int = 1, beta: Entries | None = None
    ) -> Blueprint:
        """One token t = weight·x on |x| ≤ tiny/2."""
        read = {(0, 1): 1} if beta is None else beta
        return hand_made({(0, 0): weight}, 1, 1, WIDTH, {(0, 3): 1}, blocks, read, radius=half)

    one = {(0, 3): 1}
    models = {
        "a point": on_little(weight=large, beta={(0, 0): 1}),
        "a small point": on_little(beta={(0, 0): 1}),
        "a product": on_little(layer(w1={(0, 0): 1}, w2={(1, 0): large})),
        "a small product": single(layer(w1={(0, 0): half}, w2={(1, 0): 1}), beta={(0, 1): large}),
        "a value": on_little(attention_block(WIDTH, [head({(0, 3): large}, one, {(1, 0): 1})])),
        "a query": on_little(
            attention_block(WIDTH, [head({(0, 0): large}, {(0, 3): large}, {(1, 3): 1})])
        ),
        "a product read": on_little(beta={(0, 0): large}),
    }
    return {
        f"{name} that is flushed": (blueprint, edge if "small product" not in name else [EDGE])
        for name, blueprint in models.items()
    }


MODELS = embeddings() | layers() | attentions() | readouts()


@pytest.mark.spread(64)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", MODELS)
def test_no_arithmetic_of_the_standard_model_exceeds_the_bound(name: str, format: str) -> None:
    blueprint, x = MODELS[name]
    claimed, exact = bound(blueprint, format), run_exact(blueprint, x)
    if claimed.value is not None:
        found = worst(partial(run_in, blueprint=blueprint, x=x), exact, FORMATS[format])
        assert found <= Fraction(claimed.value), float(found) / claimed.value


LOOSE = {
    "two features": Fraction(4, 5),
    "features on a box": Fraction(3, 4),
    "several units": Fraction(3, 5),
    "a ReLU that is barely shut": Fraction(1, 8),
    "a ReLU at its edge": Fraction(2, 5),
    "a value": Fraction(59, 100),
    "an error in the value": Fraction(59, 100),
    "an error in a sum of values": Fraction(2, 5),
    "the hard maximum": Fraction(59, 100),
}
"""How much of its bound a model attains where several terms cannot be as large as can be together."""

HALF = FORMATS["float16"].largest / 2
NEAR = HALF * Fraction(999, 1000)
TOO_LARGE = {
    "a constant": lambda v: hand_made({(0, 0): 1}, 1, 1, 2, {(0, 1): v}, [], {(0, 0): 1}),
    "a feature": lambda v: hand_made({(0, 0): v}, 1, 1, 1, {}, [], {(0, 0): Fraction(1, 64)}),
    "a feature and a constant": lambda v: hand_made(
        {(0, 0): v / 2}, 1, 1, 1, {(0, 0): -v / 2}, [], {(0, 0): Fraction(1, 64)}
    ),
    "a unit": lambda v: single(layer(w1={(0, 3): v}, w2={(1, 0): Fraction(1, 64)}), beta={(0, 1): 1}),
    "a unit that adds up": lambda v: single(
        layer(w1={(0, 3): v / 2}, b1={(0, 0): -v / 2}, w2={(1, 0): 1}), beta={(0, 1): 1}
    ),
    "a sum behind": lambda v: single(
        layer(w1={(0, 3): 1}, w2={(1, 0): v / 2}, b2={(1, 0): -v / 2}), beta={(0, 1): 1}
    ),
    "a score": lambda v: single(
        attention_block(
            WIDTH,
            [head({(0, 3): v / 2, (1, 3): v / 2}, {(0, 3): 1, (1, 3): -1}, {(1, 3): 1}, 2)],
        ),
        beta={(0, 1): 1},
    ),
    "a sum of values": lambda v: single(
        attention_block(WIDTH, [head({(0, 3): 1}, {(0, 3): 1}, {(1, 3): s * v / 2}) for s in (1, -1)]),
        beta={(0, 1): 1},
    ),
    "an output": lambda v: single(beta={(0, 3): v / 2}, bias=-v / 2),
}  # fmt: skip


def test_exact_numbers_that_meet_no_other_cost_underflow_only() -> None:
    """3·1 and 3·4 are exact, as is a sum with zero: nothing is rounded, and nothing is claimed."""
    one = {(0, 3): 1}
    for query, key in (({(0, 3): 4}, one), (one, {(0, 3): 4}), (one, one)):
        block = attention_block(WIDTH, [head(query, key, {(1, 3): 4}), head(one, one, {(2, 3): 1})])
        claimed = bound(single(block, beta={(0, 1): 1}), "float64").value
        assert claimed is not None
        assert claimed < 1000 * FORMATS["float64"].tiny


@pytest.mark.parametrize("name", TOO_LARGE)
def test_terms_that_add_up_to_half_the_largest_number_have_no_bound(name: str) -> None:
    """Even where they cancel: some order of summation could overflow."""
    make = TOO_LARGE[name]
    assert bound(make(NEAR), "float16").value is not None
    assert bound(make(HALF), "float16").value is None
    assert bound(make(HALF), "float32").value is not None


@pytest.mark.parametrize("name", underflows())
def test_no_flush_to_zero_exceeds_the_bound(name: str) -> None:
    blueprint, x = underflows()[name]
    claimed, exact = bound(blueprint, "float32").value, run_exact(blueprint, x)
    assert claimed is not None
    found = worst(partial(run_in, blueprint=blueprint, x=x), exact, FORMATS["float32"])
    assert Fraction(claimed) / 100 <= found <= Fraction(claimed)


@pytest.mark.parametrize("name", MODELS)
def test_bounds_are_nearly_attained(name: str) -> None:
    blueprint, x = MODELS[name]
    claimed, exact = bound(blueprint, "float64").value, run_exact(blueprint, x)
    found = worst(partial(run_in, blueprint=blueprint, x=x), exact, FORMATS["float64"])
    assert claimed is not None
    assert found >= Fraction(claimed) * LOOSE.get(name, Fraction(97, 100))
