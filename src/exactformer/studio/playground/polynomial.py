"""A polynomial to a transformer: the request, read within limits, and the model it stands for.

The model is described matrix by matrix, with its counts beside the theorem's and what is proven.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from math import hypot
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from exactformer.errors import InputError, ParseError, SizeError
from exactformer.studio.playground.panels import exact_text, matrix_panel
from exactformer.studio.playground.refusals import check_choices, plain
from exactformer.studio.playground.scripts import polynomial_script

if TYPE_CHECKING:
    from exactformer.algebra import Polynomial
    from exactformer.polynomials.blueprint import Blueprint
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
Construction = Literal["scaled", "paper", "doubling", "chebyshev", "softmax"]
Directions = Literal["auto", "lattice", "spread", "tailored"]
Dtype = Literal["float64", "float32", "bfloat16", "float16"]
CHOICES = {
    "construction": get_args(Construction),
    "directions": get_args(Directions),
    "dtype": get_args(Dtype),
}
KEPT_MODELS = 8
MOST_MATRICES = 120
COST_NOTES = {
    "scaled": "The scaled construction saves the first block and four entries in each of the others.",
    "paper": "The paper's own construction has exactly the counts of the theorem.",
    "doubling": "Doubling needs one block per doubling of the degree, and a head for each product.",
    "chebyshev": "Chebyshev polynomials also double from block to block; a head makes each of them.",
    "softmax": "Softmax attention needs more heads and units, because it selects only nearly.",
}
"""What a construction costs beside the theorem's, in a sentence."""


@dataclass(frozen=True)
class PolynomialRequest:
    """What to compile, in the words of :func:`exactformer.compile`."""

    polynomial: Annotated[str, Field(max_length=LONGEST_TEXT)] = "x^3 - 3 x y^2"
    radius: Annotated[str, Field(max_length=LONGEST_NUMBER)] = "1"
    construction: Construction = "scaled"
    directions: Directions = "auto"
    dtype: Dtype = "float64"

    def __post_init__(self) -> None:
        if len(self.radius) > LONGEST_NUMBER:
            raise SizeError(f"the radius has more than {LONGEST_NUMBER} characters")
        check_choices(self, CHOICES)


EXPLAINED = {
    "construction": {
        "scaled": "One block per degree, features scaled to the ball: the least rounding.",
        "paper": "Theorem 3.5 matrix for matrix, as printed.",
        "doubling": "Parallel heads double the degree in every block: few blocks.",
        "chebyshev": "Chebyshev polynomials in place of powers: stable at high degree.",
        "softmax": "Ordinary softmax attention: not exact, within a proven error.",
    },
    "directions": {
        "auto": "The narrower of lattice and tailored, in the variables that are needed.",
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


def describe(request: PolynomialRequest) -> dict[str, Any]:
    """Return everything about the compiled model that does not depend on a point."""
    model = compiled(request)
    blueprint = model.blueprint
    filled = [(path, m) for path, m in blueprint.matrices() if m.rows * m.columns]
    return {
        "request": asdict(request),
        "target": about(read(request.polynomial)),
        "domain": str(blueprint.domain),
        "radius": exact_text(blueprint.radius),
        "construction": blueprint.construction,
        "directions": blueprint.metadata["directions"],
        "variables": list(blueprint.variables),
        "dimensions": list(blueprint.dimensions),
        "executor": model.executor,
        "blocks": _blocks(blueprint),
        "matrices": [matrix_panel(blueprint, path, m) for path, m in filled[:MOST_MATRICES]],
        "matrices_left_out": max(0, len(filled) - MOST_MATRICES),
        "tokens": blueprint.tokens,
        "start": telling_point(len(blueprint.variables), blueprint.radius),
        "counts": counts(blueprint),
        "cost_note": COST_NOTES[request.construction],
        "certificate": certificate(model),
        "digest": model.certificate.blueprint_digest,
        "script": polynomial_script(request, blueprint),
    }


def model_file(request: PolynomialRequest) -> dict[str, str]:
    """Return the bytes of the saved model, in base 64."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        compiled(request).save(path)
        return {"file": b64encode(path.read_bytes()).decode()}


def law_file(request: PolynomialRequest) -> dict[str, str]:
    """Return the model's law as a theorem for Coq."""
    from exactformer.coq.prove import law_of

    return {"law": law_of(compiled(request)).text}


def counts(blueprint: Blueprint) -> list[dict[str, Any]]:
    """Return what the model has, what the theorem's formula gives, and its bound, row by row."""
    from exactformer.polynomials.constructions.paper import TheoremCounts

    here = blueprint.counts()
    theorem = TheoremCounts(here.tokens, len(blueprint.variables), blueprint.degree)
    per_block = sorted(set(here.per_block))
    return [
        _row("tokens n", here.tokens, None, theorem.lemma_width),
        _row("width of a token", here.width, here.tokens + blueprint.degree + 2, None),
        _row("blocks", here.depth, blueprint.degree, None),
        _row(
            "non-zeros per block",
            " to ".join(f"{count:,}" for count in dict.fromkeys(per_block[:1] + per_block[-1:])),
            theorem.per_block,
            None,
        ),
        _row("free parameters", here.free, theorem.free, theorem.free_bound),
        _row("non-zeros in all", here.total, theorem.total, theorem.total_bound),
    ]  # fmt: skip


def certificate(model: PolynomialModel) -> dict[str, Any]:
    """Return the certificate in words, and as numbers."""
    found = model.certificate
    return {
        "text": str(found),
        "zero_error": found.zero_error,
        "proofs": [{"name": claim.name, "claim": claim.text} for claim in found.claims],
        "formats": [{"name": name, "guarantee": found.describe(name)} for name in found.rounding],
        "bound": found.bound(model.dtype, model.executor),
        "numbers": found.to_dict(),
    }


def _row(name: str, here: int | str, formula: int | None, bound: int | None) -> dict[str, Any]:
    return {
        "name": name,
        "model": _figure(here),
        "formula": _figure(formula),
        "bound": _figure(bound),
    }


def _figure(count: int | str | None) -> str | None:
    """Return a count for people; one of more digits than anybody reads by its size."""
    if not isinstance(count, int):
        return count
    return f"{count:,}" if count < 10**15 else f"about 10^{len(str(count)) - 1}"


def _blocks(blueprint: Blueprint) -> list[dict[str, Any]]:
    return [
        {
            "name": f"block {b}",
            "heads": len(block.attention.heads),
            "rule": block.attention.selection.rule.value,
            "units": block.feed_forward.w1.rows,
            "activation": block.feed_forward.activation.name,
            "nonzeros": sum(
                m.nonzeros for path, m in blueprint.matrices() if path.startswith(f"blocks.{b - 1}.")
            ),
            "writes": _written(blueprint, b - 1),
        }
        for b, block in enumerate(blueprint.blocks, start=1)
    ]  # fmt: skip


def _written(blueprint: Blueprint, b: int) -> list[str]:
    """Return the dimensions that a block adds to."""
    block = blueprint.blocks[b]
    rows = {i for head in block.attention.heads for i, _, _ in head.value}
    rows |= {i for i, _, _ in block.feed_forward.w2} | {i for i, _, _ in block.feed_forward.b2}
    return [blueprint.dimensions[i] for i in sorted(rows)]
