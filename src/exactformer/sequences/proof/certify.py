"""What is proven about a sequence blueprint, from its weights alone.

Three facts, one a stage; every number below is an integer count of cells, or rational.

* **Cells.** On a cell a coordinate goes through affine pieces only, and ends at one number: the
  layers are followed with the coordinate as a symbol. So does each of the two sides outside.
* **Codes.** What the quantiser leaves of any sequence is one of finitely many streams. All streams of
  inside columns, equal columns included, are taken through the attention layers in integers.
* **Values.** The value layers fire at their keys only and never at each other's values, so their sum is
  a look-up; it is compared with the table for every class, and with nothing for every other stream.

The lemma of the paper (which integers the codes are) is not assumed; keys are compared with its formula
in the tests. Small models are also run from end to end in exact arithmetic, layer by layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import comb
from typing import Any

from exactformer.core.formats import FORMATS
from exactformer.core.layers import Attention
from exactformer.errors import IdentityError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.files import sequence_digest
from exactformer.sequences.grid import Class, GridTable
from exactformer.sequences.proof.lookups import check_by_keys, every_class
from exactformer.sequences.proof.softness import Softness, check_softened
from exactformer.sequences.run.exact import run_sequences

EXHAUSTIVE_WORK = 20_000
"""Units and heads times inputs up to which every input class is run through every layer."""


@dataclass(frozen=True)
class SequenceCertificate:
    """What has been proven about one sequence blueprint and one table on a grid."""

    form: str
    realisation: str
    tokens: int
    dim: int
    cells: int
    support: str
    positional: bool
    layers: Mapping[str, int]
    classes: int
    """Classes of the grid whose values have been compared, every one."""
    rejected: int
    """Classes of inside columns without a value (equal columns), shown to go to 0."""
    outside: bool
    """Whether inputs with a coordinate outside the support are proven to go to 0 in the layers."""
    method: str
    """``exhaustive``: every class through every layer as well; ``keys``: by the algebra of the keys."""
    smallest_key: int
    largest_key: int
    key_bits: int
    error: Mapping[str, Any] | None
    """A bound on d_p and its parts, by name, where it was asked for."""
    blueprint_digest: str
    plain_floats: bool
    """Whether float64 carries out all layers after the quantiser without rounding: every number in
    them, scores and partial sums included, is shown to be a multiple of a binary unit that fits.
    """
    softness: Softness | None = None
    """How far a softened blueprint may be from the hard limit that all the rest is about."""

    @property
    def zero_error(self) -> bool:
        """Whether the table is reproduced; without it, nothing but a softened model is certified."""
        soft = self.softness
        if soft is None:
            return True
        return soft.selects and soft.stream_error == 0 and soft.ramp_mass < 1

    @property
    def float_exact(self) -> Mapping[str, bool]:
        """Whether the keys are exact in a float format, also added up over equal tokens."""
        return {
            name: fits(self.tokens, self._longest_key, number_format.precision)
            for name, number_format in FORMATS.items()
        }

    @property
    def _longest_key(self) -> int:
        return max(-self.smallest_key, self.largest_key)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON holds without loss."""
        return {
            **asdict(self),
            "zero_error": self.zero_error,
            "float_exact": dict(self.float_exact),
        }

    def __str__(self) -> str:
        layers = ", ".join(f"{name} {count:,}" for name, count in self.layers.items())
        positions = " with positions" if self.positional else ", permutation equivariant"
        by = {
            "exhaustive": "every class through every layer, in exact arithmetic",
            "keys": "by the algebra of the keys",
        }[self.method]
        rest = f"{self.rejected:,} classes with equal columns go to 0; " if self.rejected else ""
        rest += (
            "whatever lies outside the support goes to 0"
            if self.outside
            else "outside the support, layers alone may take a token for one at another position"
        )
        exact = ", ".join(name for name, holds in self.float_exact.items() if holds) or "none"
        lines = [
            f"Certificate of a sequence map on {self.support}^({self.dim} × {self.tokens}), "
            f"{self.cells} cells a side{positions}",
            f"  model       {self.form}, {self.realisation}: {sum(self.layers.values()):,} layers "
            f"({layers})",
            f"  table       proven: all {self.classes:,} classes have their values, error zero ({by})",
            f"  rest        proven: {rest}",
            f"  keys        integers from {self.smallest_key:,} to {self.largest_key:,}, "
            f"{self.key_bits} bits; exact in: {exact}",
        ]
        if self.softness is not None:
            lines[2:4] = [line.replace("proven:", "hard limit, proven:") for line in lines[2:4]]
            lines += [f"  {name:<10}  {text}" for name, text in self.softness.lines().items()]
        for name, value in (self.error or {}).items():
            lines.append(f"  {name:<10}  {value}")
        return "\n".join(lines)


def fits(tokens: int, largest_key: int, precision: int) -> bool:
    """Whether the sum of n largest keys is exact with so many significant bits."""
    return tokens * largest_key < 1 << precision


def certify_sequence(
    blueprint: SequenceBlueprint, table: GridTable, exhaustive_work: int = EXHAUSTIVE_WORK
) -> SequenceCertificate:
    """Prove that a hard blueprint reproduces a table on every class; raise if it does not."""
    found = check_by_keys(blueprint, table)
    grid = table.grid
    D, n = grid.points, grid.tokens
    inputs = grid.size if grid.positional else comb(D + n - 1, n)
    exhaustive = inputs * _units(blueprint) <= exhaustive_work
    if exhaustive:
        _run_everything(blueprint, table)
    low, high = blueprint.support
    return SequenceCertificate(
        form=blueprint.form,
        realisation=blueprint.realisation,
        tokens=n,
        dim=grid.dim,
        cells=grid.cells,
        support=f"[{low}, {high})",
        positional=grid.positional,
        layers=blueprint.counts().layers,
        classes=grid.size,
        rejected=found.rejected,
        outside=found.outside,
        method="exhaustive" if exhaustive else "keys",
        smallest_key=found.smallest_key,
        largest_key=found.largest_key,
        key_bits=max(-found.smallest_key, found.largest_key).bit_length(),
        error=None,
        blueprint_digest=sequence_digest(blueprint, table),
        plain_floats=found.float_exact,
    )


def certify_softened(
    soft: SequenceBlueprint, limit: SequenceBlueprint, table: GridTable
) -> SequenceCertificate:
    """Prove the hard limit against a table, and how far a softened blueprint may be from it."""
    return replace(
        certify_sequence(limit, table),
        softness=check_softened(soft, limit, table),  # before anything is counted
        realisation=soft.realisation,
        layers=soft.counts().layers,
        blueprint_digest=sequence_digest(soft, table),
    )


def _units(blueprint: SequenceBlueprint) -> int:
    layers = [part for stage in blueprint.stages for part in stage.parts]
    return sum(len(x.heads) if isinstance(x, Attention) else x.w1.rows for x in layers)


def _run_everything(blueprint: SequenceBlueprint, table: GridTable) -> None:
    """Run one input of every class through every layer; other orders follow by equivariance."""
    grid = table.grid
    zeros = ((Fraction(0),) * grid.dim,) * grid.tokens
    every = [tuple(ids) for ids in every_class(grid).tolist()]
    outputs = run_sequences(blueprint, [[grid.centre(k) for k in ids] for ids in every])
    for ids, output in zip(every, outputs, strict=True):
        expected = table.values.get(ids, zeros)
        if tuple(map(tuple, output)) != expected:
            raise IdentityError(_difference(ids, output, expected))


def _difference(ids: Class, output: Any, expected: Any) -> str:
    j = next(j for j, column in enumerate(expected) if tuple(output[j]) != column)
    got, wanted = ([float(v) for v in column[j]] for column in (output, expected))
    return f"class {ids}: token {j + 1} comes out as {got}, the table has {wanted}"
