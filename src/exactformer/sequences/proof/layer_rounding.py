"""What float64 makes of a hard sequence blueprint whose layers are carried out one after another.

Numbers are counted in cells, errors in u = 2^(−53) of a cell. By the standard model every operation
rounds its result x once, by at most u|x|; where a cell is a binary number, integers below 2^53 are not
rounded at all. The exact streams are integers, so that errors e follow them class by class:

* **quantiser**: the layer of the edge kδ takes x − fl(kδ) from a coordinate x, which is exact
  (Sterbenz), and leaves fl(kδ): one rounding of every entry. A module is compared with this for every
  cell (:func:`exactformer.sequences.floats.check_floats`);
* **head**: a = Wz_j has the error |W|e_j, one rounding per weight that is not a power of two, and one
  per sum. The stream takes one more, of z_i + a;
* **two heads with weights ±W that choose the same column** add â and −â, whatever order W is added up
  in, since rounding is symmetric. (z + â) − â is z, with one rounding of z + a and one of z. Every
  layer of the theorem does this to all columns but its own. As a is K times the largest code, each of
  the K layers may cost K + 2 roundings of that code, and the global shift turns these into as many of
  the largest key: the number of roundings depends on the grid;
* **values**: the weight v − z is rounded, and the sum. A value in a row of its own is added to 0, and
  has been rounded once already.

All this holds while every layer decides as it does on exact numbers: signs of queries, the largest key,
and the units that fire. Each of these is shown, or the layers are refused. Products of errors are
smaller than the factor by which the result is enlarged.
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
from exactformer.core.layers import Attention, FeedForward, Layer
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
    whole,
)
from exactformer.sequences.proof.lookups import (
    PLAIN_UNITS,
    Lookup,
    cell_unit,
    quantised_streams,
    read_lookup,
    reads_values_only,
)

Errors = NDArray[np.float64]
ROUNDOFF = 2.0**-53
SLACK = 1 + Fraction(1, 2**20)
"""For products of errors, and for the arithmetic of errors in floats."""


def literal_rounding_of(blueprint: SequenceBlueprint, table: GridTable) -> float:
    """Return how far layers in float64 may take an output from its value, which is rounded already.

    The blueprint is one that :func:`~exactformer.sequences.proof.lookups.check_by_keys` has passed.

    Raises:
        CertificationError: where rounding could change what a layer decides.
    """
    unit = cell_unit(blueprint)
    classes = np.array(list(table.values), dtype=np.int64).reshape(-1, table.grid.tokens)
    streams = quantised_streams(table.grid, quantised(blueprint, unit), classes)
    analysis = _Analysis(blueprint, unit)
    state = _Rounded(streams, analysis.lost(streams.entries))
    for part in blueprint.stages[1].parts:
        state = (analysis.attended if isinstance(part, Attention) else analysis.numbered)(
            state,
            part,  # type: ignore[arg-type]
        )
    for stage in blueprint.stages[2:-1]:
        for layer in stage.layers():
            analysis.kept(state, layer)
    most = analysis.given(state, blueprint.stages[-1].parts[0], table)
    return float_above(Fraction(most) * Fraction(ROUNDOFF) * unit * SLACK)


@dataclass(frozen=True)
class _Rounded:
    """Streams, and how far float64 may be from every entry, (classes, n, w)."""

    streams: Streams
    errors: Errors

    def read(self, weights: Mapping[int, int], binary: bool) -> tuple[Integers, Errors]:
        """Return Σ_r weight_r·z_r for every token, and its error; the entries must have room."""
        entries, errors = self.streams.entries, self.errors
        total, error = np.zeros(entries.shape[:-1]), np.zeros(entries.shape[:-1])
        for r, weight in weights.items():
            product = _sizes(weight * entries[..., r])
            error = error + abs(weight) * errors[..., r] + _steps(weight) * _lost(product, binary)
            total = total + product
        error = error + max(0, len(weights) - 1) * _lost(total, binary)
        return combined(entries, weights), error


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
        return _lost(_sizes(numbers), self.binary)

    def attended(self, state: _Rounded, layer: Attention) -> _Rounded:
        """Add the answers of all heads to the stream, one after another."""
        after = attended(state.streams, layer, self.unit)
        # Now in a type with room for every number of this layer.
        state = replace(state, streams=state.streams.with_room(after.largest))
        entries = state.streams.entries
        heads = [SmallHead.of(head, self.unit) for head in layer.heads]
        answers = [self._answer(state, head) for head in heads]
        cancels = np.zeros(entries.shape[:-1], dtype=bool)
        if len(heads) == 2 and heads[1].value == _negative(heads[0].value):
            (_, first), (_, second) = answers
            cancels = (first == second).all(axis=-1) & (first.sum(axis=-1) == 1)
        errors, partial = state.errors.copy(), entries
        for head, own, (error, _) in zip(heads, layer.heads, answers, strict=True):
            alone = attended(state.streams, replace(layer, heads=(own,)), self.unit).entries
            partial = partial + (alone - entries)
            for row in head.value:
                errors[..., row] += np.where(cancels, 0, error[row]) + self.lost(partial[..., row])
        return _Rounded(after, errors)

    def _answer(
        self, state: _Rounded, head: SmallHead
    ) -> tuple[dict[int, Errors], NDArray[np.bool_]]:
        """Return the error of a head's answer for each row, and the columns it chooses, (…, n, n)."""
        binary = self.binary and head.is_binary
        query, unsure = state.read(head.query, binary)
        query = query + head.bias
        offset = _sizes(head.bias)
        unsure = unsure + _lost(offset, binary) + _lost(_sizes(query), binary)
        key, vague = state.read(head.key, self.binary)
        if np.any((ROUNDOFF * unsure >= _sizes(query)) & ((query != 0) | (unsure > 0))):
            raise self._refusal("the sign of a query", float((unsure / head.scale).max()))
        best = np.where(query > 0, key.max(axis=1, keepdims=True), key.min(axis=1, keepdims=True))
        gap = _sizes(key[:, None, :] - best[..., None])
        chosen = (gap == 0) | (query == 0)[..., None]
        noise = 2 * vague.max(axis=1) + 2 * _sizes(key).max(axis=1)
        count = chosen.sum(axis=-1)
        tied = (count > 1) & (query != 0) & (vague > 0).any(axis=1, keepdims=True)
        if np.any(~chosen & (ROUNDOFF * noise[:, None, None] >= gap)) or tied.any():
            raise self._refusal("the largest key", float(noise.max()))
        errors = {}
        for row, weights in head.value.items():
            value, error = state.read(weights, self.binary)
            total = (chosen * _sizes(value)[:, None, :]).sum(axis=-1)
            mean = (chosen * error[:, None, :]).sum(axis=-1) / count
            errors[row] = mean + np.where(count > 1, _lost(total, self.binary), 0)
        return errors, chosen

    def numbered(self, state: _Rounded, units: FeedForward) -> _Rounded:
        """Look up the number of every id."""
        lookup = read_lookup(units, self.unit)
        after = looked_up(state.streams, lookup.read, lookup.columns, lookup.rest)
        state = replace(state, streams=state.streams.with_room(after.largest))
        self._fires_alike(state, lookup, units)
        before, errors = state.streams.entries, state.errors.copy()
        for row in {
            row for column in lookup.columns.values() for row in column
        } | lookup.rest.keys():
            rest = abs(whole(lookup.rest.get(row, Fraction(0))))
            sizes = _sizes(before[..., row]) + _sizes(after.entries[..., row]) + rest
            errors[..., row] += 4 * _lost(sizes, self.binary)  # of weights, and of two sums
        return _Rounded(after, errors)

    def kept(self, state: _Rounded, layer: Layer) -> None:
        """Show that a layer leaves all these columns as they are, for sure."""
        assert isinstance(layer, FeedForward)
        shaky = f"a unit of the stage {self.blueprint.stages[2].name!r}"
        activation = layer.activation
        breaks = [b / self.unit for b in activation.breaks]
        for m in range(layer.w1.rows):
            reads = dict(layer.w1.by_row.get(m, ()))
            if (
                any(v.denominator != 1 for v in reads.values())
                or layer.b1[m, 0]
                or layer.b2.nonzeros
            ):
                raise CertificationError(f"nothing is known of rounding in {shaky}")
            found, error = state.read({r: whole(v) for r, v in reads.items()}, self.binary)
            for t, e in {*zip(found.ravel().tolist(), error.ravel().tolist(), strict=True)}:
                piece = bisect_right(breaks, t)
                for end in breaks[max(0, piece - 1) : piece + 1]:
                    noise = e + self._misplaced(end)
                    if noise and abs(t - end) <= Fraction(noise) * Fraction(ROUNDOFF):
                        raise self._refusal(shaky, noise)
                if any(activation.pieces[piece]):
                    raise CertificationError(f"nothing is known of rounding in {shaky}")

    def _misplaced(self, end: Fraction) -> float:
        """Return the error of a break, which is a weight."""
        exact = Fraction(to_float(end * self.unit)) == end * self.unit
        return 0.0 if exact else abs(float(end))

    def given(self, state: _Rounded, units: Layer, table: GridTable) -> float:
        """Return the largest error of a value, after the last stage."""
        assert isinstance(units, FeedForward)
        if not reads_values_only(self.blueprint):
            raise CertificationError("nothing is known of rounding where outputs are sums of rows")
        lookup = read_lookup(units, self.unit)
        codes = self._fires_alike(state, lookup, units)
        silent = min(lookup.columns) * self.unit + lookup.low
        most = 0.0
        for columns, named, errors in zip(
            state.streams.entries.tolist(), codes.tolist(), state.errors.tolist(), strict=True
        ):
            for column, code, error in zip(columns, named, errors, strict=True):
                added = lookup.columns[code]
                result = [z + added.get(row, 0) for row, z in enumerate(column)]
                off = [
                    e + float(abs(added[row]) + abs(result[row]))
                    if row in added and (z or e)
                    else e
                    for row, (z, e) in enumerate(zip(column, error, strict=True))
                ]
                most = max(most, *(off[row] for _, row in self.blueprint.readout.entries))
                if lookup.in_turn:
                    self._stays_silent(lookup, silent / self.unit, result, off)
        return most

    def _stays_silent(
        self, lookup: Lookup, silent: Fraction, result: list[Fraction], off: list[float]
    ) -> None:
        """Show that no later unit takes a value for a key."""
        reads = {r: int(v) for _, r, v in lookup.read}
        m = len(reads) + 2
        noise = sum(abs(v) * (off[r] + m * float(abs(result[r]))) for r, v in reads.items())
        noise += 2 * abs(float(silent)) + max(map(abs, map(float, lookup.columns)))
        found = sum(v * result[r] for r, v in reads.items())
        if silent - found <= Fraction(noise) * Fraction(ROUNDOFF):
            raise self._refusal("whether a value is a key", noise)

    def _fires_alike(self, state: _Rounded, lookup: Lookup, units: FeedForward) -> Integers:
        """Return the codes that are looked up, once they are shown to be told apart."""
        codes, error = state.read({r: whole(v) for _, r, v in lookup.read}, self.binary)
        low, high = (float(end / self.unit) for end in units.activation.breaks)
        # Of the key, of the sum, and of the ends.
        noise = float((error + 3 * self.lost(np.abs(codes) + 1)).max(initial=0))
        if noise and ROUNDOFF * noise >= min(-low, high, 1 + low, 1 - high):
            raise self._refusal("the key of a token", noise)
        return codes

    def _refusal(self, what: str, noise: float) -> CertificationError:
        form = self.blueprint
        return CertificationError(
            f"executor='literal': in float64 layers on a grid of delta = {form.delta}, with keys of "
            f"{form.key_bits} bits, may be off by {noise * ROUNDOFF:.2g} cells, which could change "
            f"{what}; less than half a cell is needed. Use executor='fused' or 'exact', delta = "
            "1/2^m, or another form"
        )


def _sizes(numbers: Any) -> Errors:
    return np.asarray(np.abs(numbers), dtype=np.float64)


def _lost(sizes: Errors, binary: bool) -> Errors:
    return np.where(sizes < FLOAT_INTEGERS, 0.0, sizes) if binary else sizes


def _steps(weight: int) -> int:
    """How often a product with a weight is rounded, and the weight itself."""
    size = abs(weight)
    return int(size & (size - 1) != 0) + int(Fraction(float(weight)) != weight)


def _negative(value: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    return {row: {r: -v for r, v in weights.items()} for row, weights in value.items()}
