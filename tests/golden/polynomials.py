"""Models of polynomials: constructions, targets, directions, domains, formats, numbers of tokens.

Directions are named wherever there is more than one variable, because the search for few directions
decides what the model is. Cases that depend on that search are called "ridge search, …".
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import torch

import exactformer as ef
from exactformer.core.domain import Ball
from exactformer.polynomials.model import PolynomialModel, proven_model
from exactformer.polynomials.proof.certify import prove
from tests.adversary.polynomial_bases import base
from tests.golden.case import Case

BOTH = ("fused", "literal")
EXACT = ("scaled", "doubling", "chebyshev", "paper")
TARGETS = {
    "x^2 + 3 x y - 1/2": 2, "x^5 - x": 3, "x^9": 1, "5": 1, "1/3 x^3 y - 7 y^2 + z": 4,
    "x^2 + y^2; x y": 2, "0.1 a^3 - 2 (a + b)^2": 1, "x^4 - y^4": 10,
}  # fmt: skip
SEARCHED = {
    "x^2 + 3 x y": 2, "x^4 + 2 x^2 y^2 - y": 1, "(x + 2 y - z)^6": 1, "x^7 y + y^8": 1,
    "x^2 y z; x + y + z": 1, "x^3 - 3 x y^2": 3, "x1 x2 + x3 x4": 1,
}  # fmt: skip
SQUARES = (3, 4, 5, 6, 16)
"""Numbers of variables whose lattice of degree 2 has 6, 10, 15, 21 and 136 tokens."""
POWERS = (7, 8, 16)
"""Degrees whose lattice in two variables has 8, 9 and 17 tokens."""
BASES = (1, 4, 7, 10, 11, 13, 15, 17, 18, 23, 25, 27, 31, 38)
"""Bases of the adversary whose directions are neither searched for nor spread by LAPACK."""
SEARCHED_BASES = (0, 2, 5, 8, 16)


def cases() -> Iterator[Case]:
    """Yield honest models of polynomials."""
    for construction, (text, radius) in product(EXACT, TARGETS.items()):
        yield _case(text, construction=construction, radius=radius)
    yield from _long_sums()
    yield from _domains_and_formats()
    yield from _softmax()
    for text, radius in SEARCHED.items():
        yield _case(text, radius=radius, directions="auto")
    for index in (*BASES, *SEARCHED_BASES):
        named = "" if index in BASES else "ridge search, "
        yield Case(f"{named}base {index} of the adversary", partial(_of_base, index), BOTH)
    for text in ("sin(x)", "exp(-x^2)"):
        make = partial(_function, text)
        yield Case(f"function, {text}", make, BOTH, stored=False)


def _long_sums() -> Iterator[Case]:
    for count in SQUARES:
        names = [f"x{i + 1}" for i in range(count)]
        text = " + ".join(f"{i + 1}/7 {name}^2" for i, name in enumerate(names))
        for construction in EXACT if count in (4, 6) else EXACT[:1]:
            yield _case(
                text, f"squares of {count}", construction=construction, directions="lattice"
            )
    for degree in POWERS:
        yield _case(f"(x - 2/3 y)^{degree}", construction="scaled", directions="lattice")
    for degree in (4, 9):  # spread directions come from LAPACK
        text = f"(x - 2/3 y)^{degree}"
        yield _case(text, construction="scaled", directions="spread", stored=False)
    for factors in (6, 9):  # 32 and 256 tokens
        text = " ".join(f"x{i + 1}" for i in range(factors))
        yield _case(text, construction="scaled", slow=factors == 9)


def _domains_and_formats() -> Iterator[Case]:
    for text, domain in (
        ("x^2 + y^2; x y", [("0", "1"), ("-1/2", "3")]),
        ("x^3 - x", [("0", "1")]),
        ("x y - y^3", Ball(Fraction(1, 3), (Fraction(50), Fraction(1000, 3)))),
    ):
        yield _case(text, construction="scaled", domain=domain)
    for dtype, construction in zip(("float32", "bfloat16", "float16"), EXACT, strict=False):
        more = {"construction": construction, "dtype": getattr(torch, dtype)}
        yield _case("x^2 + 3 x y - 1/2", dtypes=(dtype,), tolerance=float("inf"), **more)


def _softmax() -> Iterator[Case]:
    for text in ("x^2 + y^2; x y", "x^3", "x y"):
        yield _case(text, construction="softmax", executors=("literal",))
    for tolerance in (0.1, 1e-9):
        more = {"construction": "softmax", "tolerance": tolerance}
        yield _case("x^2 - x", executors=("literal",), **more)


def _case(
    text: str,
    called: str = "",
    executors: tuple[str, ...] = BOTH,
    dtypes: tuple[str, ...] = ("float64", "float32"),
    stored: bool = True,
    slow: bool = False,
    **options: Any,
) -> Case:
    options = {"directions": "tailored", **options}
    searched = ["ridge search"] * (options["directions"] == "auto")
    name = ", ".join([*searched, called or text, *map(_shown, options, options.values())])
    make = partial(ef.compile, text, executor=executors[0], **options)
    return Case(name, make, executors, dtypes, stored, slow=slow)


def _shown(option: str, value: Any) -> str:
    plain = option in ("construction", "directions", "dtype")
    return str(value).removeprefix("torch.") if plain else f"{option} {value}"


def _function(text: str, **options: Any) -> PolynomialModel:
    import sympy

    domain = [(-1, 1)]
    return ef.compile(sympy.sympify(text), domain=domain, tolerance=1e-6, **options)


def _of_base(
    index: int, executor: str | None = None, dtype: torch.dtype = torch.float64
) -> PolynomialModel:
    blueprint, target, _ = base(index)
    assert target is not None
    proof = prove(blueprint, target)
    return proven_model(
        blueprint, proof, dtype, executor=executor or proof.certificate.executors[-1]
    )
