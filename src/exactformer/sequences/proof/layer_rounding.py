"""What float64 makes of a hard sequence blueprint whose layers are carried out one after another.

Numbers are counted in cells, errors in u = 2^(−53) of a cell. By the standard model every operation
rounds its result x once, by at most u|x|. The exact streams are integers below 2^53, scores and partial
sums included, or the layers are refused. Where a cell is a binary number nothing is rounded then before
the values. Elsewhere a cell is δ, weights are integers, and errors e follow the streams class by class:

* **quantiser**: the layer of the edge kδ takes x − fl(kδ) from a coordinate x, which is exact
  (Sterbenz), and leaves fl(kδ): one rounding of every entry. A module is compared with this for every
  cell (:func:`exactformer.sequences.floats.check_floats`);
* **reading**: Σ_r w_r z_r of k terms has the error Σ|w_r|e_r and k roundings of Σ|w_r z_r|, one of each
  product and k − 1 of sums, in whatever order;
* **head**: the answer has the error of the column that is chosen, which has to be a single one. The
  stream takes one rounding more, of z_i + a;
* **two heads with weights ±W that choose the same column** add â and −â, since rounding is symmetric
  and two products of the same shape are added up in the same order. (z + â) − â is z, with one rounding
  of z + â and one of z; that of z + â is larger by u times the error of â. Every layer of the theorem
  does this to all columns but its own. As a is K times the largest code, each of the K layers may cost
  K + 2 roundings of that code, and the global shift turns these into as many of the largest key: the
  number of roundings depends on the grid;
* **values**: the weight v − z is rounded, and the sum. A value in a row of its own is added to 0, and
  has been rounded once already.

All this holds while every layer decides as it does on exact numbers: signs of queries, the largest key,
and the units that fire. Each of these is shown, or the layers are refused.

Nothing underflows. Weights are normal numbers, or the layers are refused; a cell is 2^(−400) or more,
and what is left where such numbers cancel is 0 or has a bit of them. A value in a row of its own is not
computed but read.

A number x̂ is rounded by u|x̂|, not u|x|, so that each rounding enlarges the error that x̂ has by a factor
of 1 + u. All errors add up; so after m roundings they are at most (1 + u)^m times as large as these
rules state, and as much again for the arithmetic of errors in floats. A blueprint that fits into memory
has m < 2^30; 1 + 2^(−20) is more than both factors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.algebra.rational import to_float
from exactformer.core.layers import Attention, Layer
from exactformer.core.matrix import Matrix
from exactformer.core.upper import float_above
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.cells import quantised
from exactformer.sequences.proof.integers import (
    FLOAT_INTEGERS,
    Integers,
    SmallHead,
    Streams,
    attended,
    combined,
    looked_up,
    read_off,
    whole,
)
from exactformer.sequences.proof.lookups import (
    PLAIN_UNITS,
    Lookup,
    cell_unit,
    check_weights,
    quantised_streams,
    read_lookup,
    reads_values_only,
)

Errors = NDArray[np.float64]
ROUNDOFF = 2.0**-53 * (1 + 2.0**-20)
"""u, enlarged for products of errors and for the arithmetic of errors in floats."""


def literal_rounding_of(blueprint: SequenceBlueprint, table: GridTable) -> float:
    """Return how far layers in float64 may take an output from its value, which is rounded already.

    The blueprint is one that :func:`~exactformer.sequences.proof.lookups.check_by_keys` has passed.

    Raises:
        CertificationError: where rounding could change what a layer decides.
    """
    check_weights(blueprint)
    unit = cell_unit(blueprint)
    if unit not in PLAIN_UNITS and unit != blueprint.delta:
        raise CertificationError(f"nothing is known of rounding where a cell measures {unit}")
    if not reads_values_only(blueprint):
        raise CertificationError(
            "nothing is known of rounding in float64 where outputs are sums of rows"
        )
    classes = np.array(list(table.values), dtype=np.int64).reshape(-1, table.grid.tokens)
    streams = quantised_streams(table.grid, quantised(blueprint, unit), classes)
    analysis = _Analysis(blueprint, unit)
    state = _Rounded(streams, analysis.lost(streams.entries))
    for part in blueprint.stages[1].parts:
        if isinstance(part, Attention):
            state = analysis.attended(state, part)
        else:
            state = analysis.numbered(state, read_lookup(part, unit))
    for stage in blueprint.stages[2:-1]:
        for layer in stage.layers():
            analysis.kept(state, layer)
    most = analysis.given(state, read_lookup(blueprint.stages[-1].parts[0], unit))
    return float_above(most * Fraction(ROUNDOFF) * unit)


@dataclass(frozen=True)
class _Rounded:
    """Streams, and how far float64 may be from every entry, (classes, n, w)."""

    streams: Streams
    errors: Errors


@dataclass(frozen=True)
class _Analysis:
    """The layers of one blueprint, each applied to streams with errors."""

    blueprint: SequenceBlueprint
    unit: Fraction

    @property
    def binary(self) -> bool:
        """Whether float64 holds integer numbers of cells."""
        return self.unit in PLAIN_UNITS

    def lost(self, numbers: Any) -> Errors:
        """Return what one rounding of integers costs."""
        sizes = np.abs(np.asarray(numbers)).astype(np.float64)
        return np.zeros_like(sizes) if self.binary else sizes

    def held(self, largest: int) -> None:
        """Raise unless float64 holds integers of this size."""
        if largest >= FLOAT_INTEGERS:
            raise self._refusal("integers of more than 53 bits", to_float(Fraction(largest)))

    def decided(self, what: str, error: Any, distance: Any) -> None:
        """Raise unless every error that there is is less than the distance from another decision."""
        if np.any((error > 0) & (ROUNDOFF * error >= distance)):
            raise self._refusal(what, float(np.max(error)))

    def read(self, state: _Rounded, weights: Mapping[int, int]) -> tuple[Integers, Errors]:
        """Return Σ_r weight_r·z_r for every token, and its error."""
        entries = state.streams.entries
        row = Matrix.of(1, entries.shape[-1], {(0, r): weight for r, weight in weights.items()})
        found, most = read_off(state.streams, row)
        self.held(most)
        sizes = {r: abs(weight) for r, weight in weights.items()}
        roundings = len(weights) * self.lost(combined(np.abs(entries), sizes))
        return found, combined(state.errors, sizes) + roundings

    def attended(self, state: _Rounded, layer: Attention) -> _Rounded:
        """Add the answers of all heads to the stream, one after another."""
        after = attended(state.streams, layer, self.unit)
        self.held(after.largest)
        heads = [SmallHead.of(head, self.unit) for head in layer.heads]
        choices = [self._chosen(state, head) for head in heads]
        opposite = len(heads) == 2 and heads[1].value == _negative(heads[0].value)
        cancels = opposite and (choices[0] == choices[1]).all(axis=-1)
        partial, errors = state.streams.entries.copy(), state.errors.copy()
        for head, chosen in zip(heads, choices, strict=True):
            for row, weights in head.value.items():
                value, error = self.read(state, weights)
                partial[..., row] += (chosen * value[:, None, :]).sum(axis=-1)
                answer = (chosen * error[:, None, :]).sum(axis=-1)
                # What cancels is rounded once, together with its error.
                added = np.where(cancels, ROUNDOFF * answer, answer)
                errors[..., row] += added + self.lost(partial[..., row])
        return _Rounded(after, errors)

    def _chosen(self, state: _Rounded, head: SmallHead) -> NDArray[np.bool_]:
        """Return the columns that a head chooses for every token, (…, n, n), once that is certain.

        Where anything is rounded it is one column; otherwise nothing depends on how many there are.
        """
        query, unsure = self.read(state, head.query)
        query = query + head.bias
        unsure = unsure + self.lost(head.bias) + self.lost(query)
        self.decided("the sign of a query", unsure, np.abs(query))
        key, vague = self.read(state, head.key)
        scores = np.sign(query)[..., None] * key[:, None, :]
        gap = scores.max(axis=-1, keepdims=True) - scores
        chosen: NDArray[np.bool_] = gap == 0
        # Of two keys, and of their scores.
        noise = 2 * (vague + self.lost(key)).max(axis=1)
        self.decided("the largest key", noise[:, None, None] * ~chosen, gap)
        self.decided("one of equal keys", self.lost(chosen.sum(axis=-1) - 1), 0)
        return chosen

    def numbered(self, state: _Rounded, lookup: Lookup) -> _Rounded:
        """Look up the number of every id, on binary cells: an integer, as all that it is added to."""
        if not self.binary:
            raise CertificationError("nothing is known of rounding where numbers are looked up")
        self._codes(state, lookup)
        after = looked_up(state.streams, lookup.read, lookup.columns, lookup.rest)
        self.held(after.largest)
        return replace(state, streams=after)

    def kept(self, state: _Rounded, layer: Layer) -> None:
        """Show that a layer leaves all these columns as they are, for sure."""
        name = f"a unit of the stage {self.blueprint.stages[2].name!r}"
        unknown = CertificationError(f"nothing is known of rounding in {name}")
        if isinstance(layer, Attention) or layer.b1.nonzeros or layer.b2.nonzeros:
            raise unknown
        breaks = [b / self.unit for b in layer.activation.breaks]
        for m in range(layer.w1.rows):
            read = {r: whole(v) for r, v in layer.w1.by_row.get(m, ())}
            found, error = self.read(state, read)
            for t, e in {*zip(found.ravel().tolist(), error.ravel().tolist(), strict=True)}:
                if any(layer.activation.pieces[bisect_right(breaks, t)]):
                    raise unknown
                for end in breaks:  # a weight, which is rounded too
                    self.decided(name, e + abs(to_float(end)), abs(t - end))

    def given(self, state: _Rounded, lookup: Lookup) -> Fraction:
        """Return the largest error of a value, after the last stage."""
        codes = self._codes(state, lookup)
        most = Fraction(0)
        for columns, named, errors in zip(
            state.streams.entries.tolist(), codes.tolist(), state.errors.tolist(), strict=True
        ):
            for column, code, error in zip(columns, named, errors, strict=True):
                result, off = [*map(Fraction, column)], [*map(Fraction, error)]
                for row, value in lookup.columns[code].items():
                    result[row] += value
                    if column[row] or error[row]:
                        off[row] += abs(value) + abs(result[row])
                most = max(most, *(off[row] for _, row in self.blueprint.readout.entries))
                if lookup.in_turn:
                    self._stays_silent(lookup, result, off)
        return most

    def _stays_silent(self, lookup: Lookup, result: list[Fraction], off: list[Fraction]) -> None:
        """Show that no later unit takes a value for a key.

        It is enough for the smallest: any other is farther away, and rounded by little more.
        """
        smallest = min(lookup.columns)
        distance = smallest + lookup.low / self.unit
        # Of the key, of the sum with it (and Σ|v·result|, below), of the end.
        noise = Fraction(2 * abs(smallest) + 1)
        for _, r, v in lookup.read:
            distance -= v * result[r]
            noise += abs(v) * (off[r] + (lookup.read.nonzeros + 1) * abs(result[r]))
        self.decided("whether a value is a key", to_float(noise), distance)

    def _codes(self, state: _Rounded, lookup: Lookup) -> Integers:
        """Return the codes that are looked up, once they are shown to be told apart."""
        codes, error = self.read(state, {r: whole(v) for _, r, v in lookup.read})
        low, high = lookup.low / self.unit, lookup.high / self.unit
        # Of the code, of the key, of their difference (1 at least), of the ends (1 at most).
        noise = error.max() + self.lost([*lookup.columns]).max() + 2
        self.decided("the key of a token", noise, min(-low, high, 1 + low, 1 - high))
        return codes

    def _refusal(self, what: str, noise: float) -> CertificationError:
        form = self.blueprint
        return CertificationError(
            f"executor='literal': in float64 layers on a grid of delta = {form.delta}, with keys of "
            f"{form.key_bits} bits, may be off by {noise * ROUNDOFF:.2g} cells, which could change "
            f"{what}; less than half a cell is needed. Use executor='fused' or 'exact', delta = "
            "1/2^m, or another form"
        )


def _negative(value: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    return {row: {r: -v for r, v in weights.items()} for row, weights in value.items()}
