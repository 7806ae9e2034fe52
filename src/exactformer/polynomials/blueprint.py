"""A transformer as data: exact weights, named dimensions, nothing that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from exactformer.core.domain import Domain
from exactformer.core.layers import Block, Embedding, Readout
from exactformer.core.matrix import Matrix
from exactformer.core.words import plural
from exactformer.errors import InputError


@dataclass(frozen=True)
class Counts:
    """What a blueprint costs.

    ``free`` counts places as Theorem 3.5 does: all of F, the q places a token has in β, and b (these
    for every output).
    ``fixed`` counts the non-zero entries of the encoder blocks; ``total`` is their sum.
    """

    tokens: int
    width: int
    depth: int
    free: int
    fixed: int
    per_block: tuple[int, ...]

    @property
    def total(self) -> int:
        """Non-zero entries of the whole model, free places counted as non-zero."""
        return self.free + self.fixed


@dataclass(frozen=True)
class Blueprint:
    """Embedding, encoder blocks and readouts over named dimensions of the residual stream."""

    variables: tuple[str, ...]
    dimensions: tuple[str, ...]
    embedding: Embedding
    blocks: tuple[Block, ...]
    readouts: tuple[Readout, ...]
    """One for every output."""
    domain: Domain
    """Where the construction promises anything."""
    degree: int
    construction: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    vector: bool = False
    """Whether the outputs form a vector; a scalar model has exactly one."""

    @property
    def tokens(self) -> int:
        """The number n of tokens."""
        return self.embedding.features.rows

    @property
    def radius(self) -> Fraction:
        """The radius of the domain, a ball, or of the ball round it."""
        return self.domain.radius

    @property
    def width(self) -> int:
        """The number w of dimensions of a token."""
        return len(self.dimensions)

    @property
    def depth(self) -> int:
        """The number of encoder blocks."""
        return len(self.blocks)

    def matrices(self) -> Iterator[tuple[str, Matrix]]:
        """Yield every matrix with its path, e.g. ``blocks.2.heads.0.query``, in order of use."""
        yield "embedding.features", self.embedding.features
        yield "embedding.constant", self.embedding.constant
        for b, block in enumerate(self.blocks):
            for h, head in enumerate(block.attention.heads):
                for name in ("query", "key", "value"):
                    yield f"blocks.{b}.heads.{h}.{name}", getattr(head, name)
            for name in ("w1", "b1", "w2", "b2"):
                yield f"blocks.{b}.feed_forward.{name}", getattr(block.feed_forward, name)
        for k, readout in enumerate(self.readouts):
            yield f"readouts.{k}.beta", readout.beta
            yield f"readouts.{k}.bias", Matrix.of(1, 1, {(0, 0): readout.bias})

    def counts(self) -> Counts:
        """Count as the theorem does."""
        n, d = self.embedding.features.shape
        per_block = tuple(
            sum(m.nonzeros for path, m in self.matrices() if path.startswith(f"blocks.{b}."))
            for b in range(self.depth)
        )
        free = n * d + (n * self.degree + 1) * len(self.readouts)
        return Counts(n, self.width, self.depth, free, sum(per_block), per_block)

    def place(self, path: str, row: int, column: int) -> str:
        """Name an entry of a matrix in words, 1-based, e.g. ``block 3, key, row 2, position 7``."""
        parts = path.split(".")
        if parts[0] == "embedding":
            inside = parts[1] == "features"
            where = _named(self.variables if inside else self.dimensions, column)
            return f"{'F' if inside else 'embedding'}, token {row + 1}, {where}"
        if parts[0] == "readouts":
            which = f" {int(parts[1]) + 1}" if self.vector else ""
            if parts[2] == "bias":
                return f"readout{which} bias b"
            return f"readout{which} β, token {row + 1}, {_named(self.dimensions, column)}"
        block = f"block {int(parts[1]) + 1}"
        if parts[2] == "heads":
            head = f" (head {int(parts[3]) + 1})" if self._has_several_heads(int(parts[1])) else ""
            output = _named(self.dimensions, row) if parts[4] == "value" else f"row {row + 1}"
            return f"{block}, {parts[4]} matrix{head}, {output} ← {_named(self.dimensions, column)}"
        return (
            f"{block}, feed-forward {parts[3]}, {self._feed_forward_place(parts[3], row, column)}"
        )

    def _has_several_heads(self, block: int) -> bool:
        return len(self.blocks[block].attention.heads) > 1

    def _feed_forward_place(self, name: str, row: int, column: int) -> str:
        if name == "w1":
            return f"unit {row + 1} ← {_named(self.dimensions, column)}"
        if name == "b1":
            return f"unit {row + 1}"
        if name == "w2":
            return f"{_named(self.dimensions, row)} ← unit {column + 1}"
        return _named(self.dimensions, row)

    def facts(self) -> dict[str, Any]:
        """Return what a model of it is, as plain data."""
        counts = self.counts()
        return {
            "target": self.metadata.get("target"),
            "variables": list(self.variables),
            "columns": list(table_names(self, "columns") or self.variables),
            "domain": str(self.domain),
            "radius": str(self.radius),
            "outputs": len(self.readouts),
            "degree": self.degree,
            "construction": self.construction,
            "directions": self.metadata.get("directions"),
            "tokens": counts.tokens,
            "width": counts.width,
            "depth": counts.depth,
            "free_parameters": counts.free,
            "nonzeros_per_block": list(counts.per_block),
            "nonzeros": counts.total,
        }

    def rows(self) -> dict[str, str]:
        """Return what a model of it is in words, a line for every name."""
        from exactformer.algebra.printing import name_list

        counts = self.counts()
        how = self.construction
        if "directions" in self.metadata:
            how = f"{how} construction, {self.metadata['directions']} directions"
        variables = plural(len(self.variables), "variable")
        columns = table_names(self, "columns")
        return {
            "polynomial": self.metadata.get("target", "not named"),
            "domain": f"{self.domain} in {variables} ({name_list(self.variables) or 'none'})",
            **({"columns": name_list(columns)} if columns else {}),
            "transformer": f"{plural(counts.tokens, 'token')} of width {counts.width}, "
            f"{plural(counts.depth, 'block')} ({how})",
            "parameters": f"{counts.free:,} free, {counts.total:,} non-zeros in all",
        }


def named_as(
    blueprint: Blueprint, columns: Sequence[str], outputs: Sequence[str] = ()
) -> Blueprint:
    """Return a blueprint that carries what a table calls its variables and its outputs."""
    given = {"columns": tuple(columns), "outputs": tuple(outputs)}
    names = {k: json.dumps(v) for k, v in given.items() if v and v != blueprint.variables}
    kept = {k: v for k, v in blueprint.metadata.items() if k not in given}
    named = replace(blueprint, metadata=kept | names)
    for what in names:
        table_names(named, what)
    return named


def table_names(blueprint: Blueprint, what: str) -> tuple[str, ...]:
    """Return what a table calls the variables (``columns``) or the ``outputs``; empty if not known.

    Raises:
        InputError: where that is not a list of as many different names that can be printed, or gives
            the name of a variable to another one.
    """
    if (text := blueprint.metadata.get(what)) is None:
        return ()
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    count = len(blueprint.variables if what == "columns" else blueprint.readouts)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} are not a list of names")
    if len(names) != count or len(set(names)) != count:
        raise InputError(f"{what} has {len(set(names))} different names for {count}")
    if strange := [name for name in names if not name.isprintable()]:
        raise InputError(f"{what} has a name that is not one line of text: {strange[0][:40]!r}")
    if what == "columns":
        for name, variable in zip(names, blueprint.variables, strict=True):
            if name != variable and name in blueprint.variables:
                raise InputError(
                    f"columns calls the variable {variable[:40]!r} {name[:40]!r}, which is another "
                    "variable's name; a column with the name of a variable is that variable"
                )
    return tuple(names)


def _named(names: tuple[str, ...], index: int) -> str:
    """Return a name, or the number where a matrix is larger than its names: errors name such places."""
    return names[index] if index < len(names) else f"number {index + 1}"


_SYMBOLS = {
    "query": "W_Q",
    "key": "W_K",
    "value": "W_V",
    "w1": "W_1",
    "b1": "b_1",
    "w2": "W_2",
    "b2": "b_2",
}


def title(blueprint: Blueprint, path: str) -> str:
    """Return the paper's symbol of a matrix and where it stands."""
    parts = path.split(".")
    if parts[0] == "embedding":
        return "embedding F" if parts[1] == "features" else "embedding E, positions and ones"
    if parts[0] == "readouts":
        which = f" {int(parts[1]) + 1}" if blueprint.vector else ""
        return f"readout{which} β" if parts[2] == "beta" else f"readout{which} b"
    several = len(blueprint.blocks[int(parts[1])].attention.heads) > 1
    head = f", head {int(parts[3]) + 1}" if parts[2] == "heads" and several else ""
    return f"block {int(parts[1]) + 1}{head}, {_SYMBOLS[parts[-1]]}"


def labels(blueprint: Blueprint, path: str) -> tuple[list[str], list[str]]:
    """Return the names of a matrix's rows and columns."""
    dimensions, name = list(blueprint.dimensions), path.rsplit(".", 1)[1]
    tokens = [f"token {i + 1}" for i in range(blueprint.tokens)]
    matrix = dict(blueprint.matrices())[path]
    numbered = [f"row {i + 1}" for i in range(matrix.rows)]
    units = [f"unit {i + 1}" for i in range(max(matrix.shape))]
    match name:
        case "features":
            return tokens, list(blueprint.variables)
        case "constant" | "beta":
            return tokens, dimensions
        case "query" | "key":
            return numbered, dimensions
        case "value":
            return dimensions, dimensions
        case "w1":
            return units[: matrix.rows], dimensions
        case "b1":
            return units[: matrix.rows], [""]
        case "w2":
            return dimensions, units[: matrix.columns]
        case "b2":
            return dimensions, [""]
        case _:
            return [""], [""]
