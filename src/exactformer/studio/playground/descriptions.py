"""What was compiled, matrix by matrix; its counts beside the theorem's; what is proven about it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from exactformer.studio.playground.panels import exact_text, matrix_panel
from exactformer.studio.playground.polynomial import (
    PolynomialRequest,
    about,
    compiled,
    read,
    telling_point,
)
from exactformer.studio.playground.scripts import polynomial_script

if TYPE_CHECKING:
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.polynomials.model import PolynomialModel

MOST_MATRICES = 120
COST_NOTES = {
    "scaled": "The scaled construction saves the first block and four entries in each of the others.",
    "paper": "The paper's own construction has exactly the counts of the theorem.",
    "doubling": "Doubling needs one block per doubling of the degree, and a head for each product.",
    "chebyshev": "Chebyshev polynomials also double from block to block; a head makes each of them.",
    "softmax": "Softmax attention needs more heads and units, because it selects only nearly.",
}
"""What a construction costs beside the theorem's, in a sentence."""


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
