"""A polynomial to a transformer: the request, read within limits, and the model it stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import hypot
from typing import TYPE_CHECKING, Any

from exactformer.errors import InputError, ParseError, SizeError
from exactformer.studio.playground.refusals import check_choices, plain

if TYPE_CHECKING:
    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel

LONGEST_TEXT = 2000
"""Characters of a polynomial."""
LONGEST_NUMBER = 60
"""Characters of a radius or a coordinate."""
MOST_VARIABLES = 24
MOST_TERMS = 500
MOST_DEGREE = 60
PARSE_WORK = 200_000
"""Coefficient multiplications for multiplying out: a few milliseconds."""
MEMORY = 32 * 2**20
"""Bytes of dense weights."""
CONSTRUCTIONS = ("scaled", "paper", "doubling", "chebyshev", "softmax")
DIRECTIONS = ("auto", "fewest", "lattice", "spread", "tailored")
DTYPES = ("float64", "float32", "bfloat16", "float16")
KEPT_MODELS = 8


@dataclass(frozen=True)
class PolynomialRequest:
    """What to compile, in the words of :func:`exactformer.compile`."""

    polynomial: str = "x^3 - 3 x y^2"
    radius: str = "1"
    construction: str = "scaled"
    directions: str = "auto"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if len(self.radius) > LONGEST_NUMBER:
            raise SizeError(f"the radius has more than {LONGEST_NUMBER} characters")
        check_choices(self, CHOICES)


CHOICES = {"construction": CONSTRUCTIONS, "directions": DIRECTIONS, "dtype": DTYPES}
EXPLAINED = {
    "construction": {
        "scaled": "One block per degree, features scaled to the ball: the least rounding.",
        "paper": "Theorem 3.5 matrix for matrix, as printed.",
        "doubling": "Parallel heads double the degree in every block: few blocks.",
        "chebyshev": "Chebyshev polynomials in place of powers: stable at high degree.",
        "softmax": "Ordinary softmax attention: not exact, within a proven error.",
    },
    "directions": {
        "auto": "The directions with the fewest tokens among those below.",
        "fewest": "As few directions as can be found exactly.",
        "lattice": "Points of a lattice, as in Lemma 3.3: always enough.",
        "spread": "Directions spread evenly, more than are needed.",
        "tailored": "Made for the monomials at hand: few, if those are few.",
    },
    "dtype": {
        "float64": "16 digits.",
        "float32": "7 digits.",
        "bfloat16": "2 digits and a wide range.",
        "float16": "3 digits and a narrow range.",
    },
}
"""A line about every choice."""
EXAMPLES = {
    "Monkey saddle": PolynomialRequest("x^3 - 3 x y^2", "1"),
    "A parabola": PolynomialRequest("x^2", "2"),
    "Theorem 3.5 as printed": PolynomialRequest("x^2 + x y", "1", "paper", "lattice"),
    "Fang's Table 1": PolynomialRequest(
        "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9", "4"
    ),
    "Ordinary softmax": PolynomialRequest("x^2 - y^2", "1", "softmax"),
    "Degree 12, four blocks": PolynomialRequest("(x^2 + y^2)^6", "1", "doubling"),
}


def read(text: str) -> Polynomial:
    """Return the polynomial, refusing early what is too large for the playground."""
    from exactformer.algebra import Polynomial

    if len(text) > LONGEST_TEXT:
        raise SizeError(
            f"the polynomial has {len(text):,} characters; the playground's limit is "
            f"{LONGEST_TEXT:,}"
        )
    found = Polynomial.parse(text, work=PARSE_WORK)
    for name, size, most in (
        ("variables", found.dimension, MOST_VARIABLES),
        ("terms", len(found), MOST_TERMS),
        ("degree", found.degree, MOST_DEGREE),
    ):
        if size > most:
            raise SizeError(f"{name}: {size:,}; the playground's limit is {most:,}")
    return found


def parse(text: str) -> dict[str, Any]:
    """Say what a polynomial is, or where its text stops being one. Quick; a problem is an answer."""
    try:
        return {"ok": True, **about(read(text))}
    except ParseError as error:
        return {"ok": False, **refused(error, text)}
    except (InputError, SizeError) as error:
        return {"ok": False, "problem": plain(str(error)), "column": None, "remedy": None}


def refused(error: ParseError, text: str) -> dict[str, Any]:
    """Say why a text is not a polynomial, and what to write instead where that is known."""
    found, column = _PRODUCT.match(error.problem), error.column
    if found is None:
        return {"problem": plain(error.problem), "column": column, "remedy": None}
    name, factors = found["name"], found["factors"]
    remedy = None
    if text[column - 1 :].startswith(name):
        mended = f"{text[: column - 1]}{factors}{text[column - 1 + len(name) :]}"
        remedy = {"label": f"Write {factors}", "set": {"p": mended}}
    problem = f"{name!r} may be one variable or a product; for a product write {factors}"
    return {"problem": problem, "column": column, "remedy": remedy}


_PRODUCT = re.compile(
    r"'(?P<name>\w+)' may be a variable or a product; write (?P<factors>[^(]+?) \(or "
)


def about(target: Polynomial) -> dict[str, Any]:
    """Return a polynomial in words that people and pages read."""
    return {
        "text": str(target),
        "latex": target.latex(),
        "variables": list(target.variables),
        "degree": target.degree,
        "terms": len(target),
    }


def telling_point(dimension: int, radius: Fraction) -> str:
    """Return a point at which something happens: inside the ball, no coordinate is 0."""
    pattern = [
        (-1) ** (k // 2) * (0.6 - 0.2 * (k % 3 % 2)) / (1 + k // 3) for k in range(dimension)
    ]
    size = hypot(*pattern) if pattern else 1.0
    scale = float(radius) * min(1.0, 0.75 / size)
    return ",".join(f"{float(f'{scale * c:.2g}'):g}" for c in pattern)


@lru_cache(maxsize=KEPT_MODELS)
def compiled(request: PolynomialRequest) -> PolynomialModel:
    """Return the model, from memory if it was among the last ones."""
    import torch

    import exactformer as ef

    return ef.compile(
        read(request.polynomial),
        radius=request.radius,
        construction=request.construction,
        directions=request.directions,
        dtype=getattr(torch, request.dtype),
        memory_limit=MEMORY,
    )
