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

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import comb, inf, isinf
from typing import Any

from exactformer.algebra.rational import to_float
from exactformer.core.certificate import Bound, Certificate, Claim
from exactformer.core.formats import FORMATS, float_format
from exactformer.core.layers import Attention
from exactformer.core.options import choose
from exactformer.core.upper import Upper, float_above
from exactformer.core.words import at_most
from exactformer.errors import CertificationError, IdentityError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.files import sequence_digest
from exactformer.sequences.grid import Class, GridTable
from exactformer.sequences.proof.error import SequenceErrorBound, stated_error
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from exactformer.sequences.proof.lookups import check_by_keys, every_class
from exactformer.sequences.proof.softness import Softness, check_softened
from exactformer.sequences.run.exact import run_sequences

EXHAUSTIVE_WORK = 20_000
"""Units and heads times inputs up to which every input class is run through every layer."""


@dataclass(frozen=True, kw_only=True)
class SequenceCertificate(Certificate):
    """What is known of one sequence blueprint and one table on a grid."""

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
    error: SequenceErrorBound | None
    """A bound on d_p between the map and the model, where a modulus of continuity is stated."""
    plain_floats: bool
    """Whether float64 carries out all layers after the quantiser without rounding: every number in
    them, scores and partial sums included, is shown to be a multiple of a binary unit that fits.
    """
    rounding: Mapping[str, float]
    """How far float64 may take a value of the hard blueprint from the table's, by executor. There is
    no ``literal`` where rounding could change what a layer decides.
    """
    softness: Softness | None = None
    """How far a softened blueprint may be from the hard limit that all the rest is about."""

    @property
    def depth(self) -> int:
        """Layers of all stages."""
        return sum(self.layers.values())

    @property
    def zero_error(self) -> bool:
        """Whether the table is reproduced; without it, nothing but a softened model is certified."""
        soft = self.softness
        if soft is None:
            return True
        return soft.selects and soft.stream_error == 0 and soft.ramp_mass < 1

    def bound(self, dtype: object = None, executor: str | None = None) -> Bound:
        """Return how far the model can be from its map f, in d_p.

        The bound takes the modulus of continuity for granted, as well as the values of f that the
        table holds. Of a softened model it is about softmax and ReLUs in exact arithmetic.

        Raises:
            CertificationError: if no modulus of continuity is known, or for a format but float64.
        """
        if float_format(dtype or self.dtype).name != "float64":
            raise CertificationError(
                f"sequence models compute in float64, not {dtype or self.dtype}"
            )
        if self.error is None:
            known = "the table is reproduced" if self.zero_error else "the hard limit is the table"
            raise CertificationError(
                f"on the grid {known}, but between its points nothing is known of the map; state its "
                "modulus of continuity, model.bounded(modulus)"
            )
        return self._bound(self.error, executor)

    def _bound(self, error: SequenceErrorBound, executor: str | None = None) -> Bound:
        entries = self.tokens * self.dim
        if self.softness is not None:
            return error.bound(entries, words=", in exact arithmetic")
        chosen = executor or self.executor
        if chosen is None:
            return error.bound(entries, max(self.rounding.values()))
        choose("executor", chosen, tuple(self.rounding))
        return error.bound(entries, self.rounding[chosen])

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What is known, sentence by sentence: table, rest, keys, softness, distance."""
        by = {
            "exhaustive": "every class through every layer, in exact arithmetic",
            "keys": "by the algebra of the keys",
        }[self.method]
        limit = "" if self.softness is None else "in the hard limit "
        rest = f"{self.rejected:,} classes with equal columns go to 0; " if self.rejected else ""
        rest += (
            "whatever lies outside the support goes to 0"
            if self.outside
            else "outside the support, layers alone may take a token for one at another position"
        )
        formats = ", ".join(name for name, holds in self.float_exact.items() if holds) or "none"
        keys = (
            f"integers from {self.smallest_key:,} to {self.largest_key:,}, {self.key_bits} bits; "
            f"exact in: {formats}"
        )
        claims = [
            Claim(
                "table", f"{limit}all {self.classes:,} classes have their values, error zero ({by})"
            ),
            Claim("rest", limit + rest),
            Claim("keys", keys),
        ]
        if self.softness is not None:
            claims += [Claim(name, text) for name, text in self.softness.lines().items()]
        if self.error is not None:
            claims.append(self._distance(self.error))
        return (*claims, *self.checks)

    def _distance(self, error: SequenceErrorBound) -> Claim:
        bound = self._bound(error)
        parts = ", ".join(f"{name} {at_most(value, 4)}" for name, value in bound.parts.items())
        total = at_most(bound.total, 4) + (f" ({parts})" if len(bound.parts) > 1 else "")
        text = f"{bound.norm} ≤ {total}"
        if error.estimated:
            text = f"{bound.norm} about {total}; the modulus was estimated, so this is no bound"
        return Claim("distance", text, bound.kind)

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
            "error": None if self.error is None else self._bound(self.error).to_dict(),
            "zero_error": self.zero_error,
            "float_exact": dict(self.float_exact),
            "claims": [asdict(claim) for claim in self.claims],
        }

    def __str__(self) -> str:
        layers = ", ".join(f"{name} {count:,}" for name, count in self.layers.items())
        positions = " with positions" if self.positional else ", permutation equivariant"
        lines = [
            f"Certificate of a sequence map on {self.support}^({self.tokens} × {self.dim}), "
            f"{self.cells} cells per side{positions}",
            f"  model       {self.form}, {self.realisation}: {self.depth:,} layers ({layers})",
        ]
        return "\n".join([*lines, *(f"  {claim.name:<10}  {claim}" for claim in self.claims)])


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
        error=stated_error(blueprint, table),
        blueprint_digest=sequence_digest(blueprint, table),
        plain_floats=found.float_exact,
        rounding=_rounding(blueprint, table, found.float_exact),
    )


def certify_softened(
    soft: SequenceBlueprint, limit: SequenceBlueprint, table: GridTable
) -> SequenceCertificate:
    """Prove the hard limit against a table, and how far a softened blueprint may be from it."""
    certificate = certify_sequence(limit, table)
    softness = check_softened(soft, limit, table)  # before anything is counted
    return replace(
        certificate,
        softness=softness,
        error=stated_error(soft, table, softness),
        realisation=soft.realisation,
        layers=soft.counts().layers,
        blueprint_digest=sequence_digest(soft, table),
    )


def _rounding(
    blueprint: SequenceBlueprint, table: GridTable, plain_floats: bool
) -> Mapping[str, float]:
    """Return how far off values may be: rounded once, and where layers round too, by as much more."""
    values = {v for columns in table.values.values() for column in columns for v in column}
    once = inf if isinf(to_float(table.largest)) else float_above(_rounded_once(values))
    known = {"fused": once, "literal": once, "exact": once}
    if plain_floats or isinf(once):
        return known
    try:
        known["literal"] = float(Upper(once) + literal_rounding_of(blueprint, table))
    except CertificationError:
        del known["literal"]
    return known


def _rounded_once(values: Iterable[Fraction]) -> Fraction:
    """Return what float64 loses of values; those below its normal numbers may be taken for zero."""
    tiny = Fraction(FORMATS["float64"].tiny)
    nearest = {v: Fraction(to_float(v)) for v in values}
    return max(
        (abs(v - x if abs(x) >= tiny else v) for v, x in nearest.items()), default=Fraction(0)
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
