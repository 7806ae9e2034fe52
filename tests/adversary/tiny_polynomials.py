"""Polynomial models with numbers that may be taken for zero, proven and run with and without that.

Most changes leave what is computed as it is: numbers are small in one place and large in another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from exactformer.core.domain import Ball, Box
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from tests.adversary.engine import Candidate
from tests.adversary.polynomial_mutations import mutated
from tests.adversary.polynomials import Polynomials
from tests.adversary.tiny_numbers import flushed, tiny_number
from tests.cases.blueprints import with_matrix

FLUSHED = "proof: flushed"
_LARGEST = Fraction(2) ** 1015
"""Nothing is larger, so that the search itself can run a candidate in float64."""


def _by_path(blueprint: Blueprint, change: Callable[[str, Matrix], Matrix]) -> Blueprint:
    """Change matrices by their paths; those of outputs are changed by hand."""
    for path, matrix in list(blueprint.matrices()):
        if not path.startswith("readouts"):
            blueprint = with_matrix(blueprint, path, change(path, matrix))
    return blueprint


def _times(
    matrix: Matrix, scale: Fraction, row: int | None = None, column: int | None = None
) -> Matrix:
    """Multiply the entries of a row, of a column, or all."""
    return Matrix.of(
        *matrix.shape,
        {
            (i, j): v * scale if row in (None, i) and column in (None, j) else v
            for i, j, v in matrix
        },
    )


def _scale_dimension(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Let one dimension of the stream be so much smaller, or larger."""
    d, scale = rng.randrange(blueprint.width), tiny_number(rng) ** rng.choice((1, -1))

    def change(path: str, matrix: Matrix) -> Matrix:
        name = path.rpartition(".")[2]
        if name == "features":
            return _times(matrix, scale) if blueprint.embedding.dimension == d else matrix
        if name == "constant":
            return _times(matrix, scale, column=d)
        if name in ("query", "key", "w1", "value"):
            matrix = _times(matrix, 1 / scale, column=d)
        return _times(matrix, scale, row=d) if name in ("value", "w2", "b2") else matrix

    readouts = [replace(r, beta=_times(r.beta, 1 / scale, column=d)) for r in blueprint.readouts]
    return replace(_by_path(blueprint, change), readouts=tuple(readouts))


def _scale_units(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Let a unit of a layer, or all, read so much less and write so much more."""
    scale = tiny_number(rng) ** rng.choice((1, -1))
    places = [b for b, block in enumerate(blueprint.blocks) if block.feed_forward.w1.rows]
    if not places:
        return None
    b = rng.choice(places)
    unit = rng.choice((None, rng.randrange(blueprint.blocks[b].feed_forward.w1.rows)))

    def change(path: str, matrix: Matrix) -> Matrix:
        name = path.rpartition(".")[2]
        if not path.startswith(f"blocks.{b}.") or name not in ("w1", "b1", "w2"):
            return matrix
        if name == "w2":
            return _times(matrix, 1 / scale, column=unit)
        return _times(matrix, scale, row=unit)

    return _by_path(blueprint, change)


def _scale_scores(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Let a head's queries be so much smaller, and its keys larger unless all its scores are scaled."""
    scale = tiny_number(rng) ** rng.choice((1, 1, -1))
    heads = [path for path, _ in blueprint.matrices() if path.endswith(".query")]
    if not heads:
        return None
    chosen, same = rng.choice(heads).removesuffix("query"), rng.random() < 0.7

    def change(path: str, matrix: Matrix) -> Matrix:
        if path == chosen + "query":
            return _times(matrix, scale)
        return _times(matrix, 1 / scale) if path == chosen + "key" and same else matrix

    return _by_path(blueprint, change)


def _scale_outputs(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Let all outputs be so much smaller; their target is found anew."""
    scale = tiny_number(rng)
    readouts = [
        replace(r, beta=_times(r.beta, scale), bias=r.bias * rng.choice((scale, scale, 1)))
        for r in blueprint.readouts
    ]
    return replace(blueprint, readouts=tuple(readouts))


def _scale_domain(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Let coordinates be so much smaller, and features as they were unless all of them are smaller."""
    scale, where = tiny_number(rng), blueprint.domain
    centre = tuple(where.offset(j) * scale for j in range(len(blueprint.variables)))
    if isinstance(where, Box):
        domain: Ball | Box = Box(centre, tuple(length * scale for length in where.half_widths))
    else:
        domain = Ball(where.radius * scale, centre if where.centre else ())
    features = blueprint.embedding.features
    if rng.random() < 0.7:
        features = _times(features, 1 / scale)
    embedding = replace(blueprint.embedding, features=features)
    return replace(blueprint, domain=domain, embedding=embedding)


def _move_centre(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Let the domain lie so little beside where it did."""
    scale, where = tiny_number(rng), blueprint.domain
    centre = tuple(where.offset(j) + scale for j in range(len(blueprint.variables)))
    return replace(blueprint, domain=replace(where, centre=centre))


def _change_entry(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Multiply an entry by a tiny number, or add one."""
    places = [
        (path, matrix)
        for path, matrix in blueprint.matrices()
        if matrix.rows and matrix.columns and not path.startswith("readouts")
    ]
    path, matrix = rng.choice(places)
    place = rng.randrange(matrix.rows), rng.randrange(matrix.columns)
    if matrix.entries and rng.random() < 0.6:
        place = rng.choice(list(matrix.entries))
    scale = tiny_number(rng) * rng.choice((1, -1))
    value = matrix[place] * scale if rng.random() < 0.4 else matrix[place] + scale
    return with_matrix(blueprint, path, Matrix.of(*matrix.shape, {**matrix.entries, place: value}))


MUTATIONS: dict[str, Callable[[random.Random, Blueprint], Blueprint | None]] = {
    "tiny dimension": _scale_dimension,
    "tiny units": _scale_units,
    "tiny scores": _scale_scores,
    "tiny outputs": _scale_outputs,
    "tiny domain": _scale_domain,
    "tiny shift": _move_centre,
    "tiny entry": _change_entry,
}


class TinyPolynomials(Polynomials):
    """Blueprints of small polynomial models with tiny numbers."""

    name = "tiny polynomials"

    def changed(
        self, rng: random.Random, blueprint: Blueprint, origin: str
    ) -> tuple[Blueprint, list[str]]:
        """Make one or two numbers tiny, sometimes after another change."""
        kinds = [FLUSHED] if rng.random() < 0.5 else []
        for _ in range(3 if origin == "grown" else rng.choice((0, 0, 0, 1))):
            blueprint, kind = mutated(rng, blueprint)
            kinds.append(kind)
        wanted = rng.choice((1, 1, 2))
        while wanted:
            name = rng.choice(list(MUTATIONS))
            found = MUTATIONS[name](rng, blueprint)
            if found is not None and _is_moderate(found):
                blueprint, wanted = found, wanted - 1
                kinds.append(name)
        return blueprint, kinds

    def certify(self, candidate: Candidate) -> PolynomialCertificate:
        """Prove what can be proven, half of it while tiny numbers are taken for zero."""
        with flushed(FLUSHED in candidate.kinds):
            return super().certify(candidate)


def _is_moderate(blueprint: Blueprint) -> bool:
    return all(abs(v) < _LARGEST for _, matrix in blueprint.matrices() for _, _, v in matrix)


FAMILY = TinyPolynomials()
