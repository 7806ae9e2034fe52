"""The Coq file of a sequence map's model: weights and table as data, and the theorem that they agree.

No label of the blueprint is written, only numbers and a digest.
"""

from __future__ import annotations

from collections.abc import Iterable

from exactformer.coq.hard_layers import IMPORTS, attention, bias, feed_forward
from exactformer.coq.text import LAST, listed, matrix, rational, title
from exactformer.core.layers import Attention, Layer, Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, SizeError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.files import sequence_digest
from exactformer.sequences.grid import Grid, GridTable

PROOF = "Proof. by_cells. Qed."

_ABOUT = """\
A transformer, a table on a grid, and the theorem that the transformer has the table's values at
    every rational point of the support: over the rational numbers, without axioms."""


def sequence_law(blueprint: SequenceBlueprint, table: GridTable) -> str:
    """Return the file that states and proves that the model has the values of its table."""
    parts = [
        title(_ABOUT, sequence_digest(blueprint, table)),
        IMPORTS.format(files="HardAttention Grids Cells"),
        sequence_definitions(blueprint, table),
        sequence_statement(table.grid),
        PROOF,
        "",
        LAST,
    ]
    return "\n".join(parts)


def sequence_statement(grid: Grid) -> str:
    """Return the theorem in plain notation."""
    low, high = map(rational, grid.support)
    return f"""\
Theorem law : forall x : list vector,
  length x = {grid.tokens}%nat -> (forall t, In t x -> length t = {grid.dim}%nat) ->
  (forall t q, In t x -> In q t -> {low} <= q < {high}) ->
  equals (run model x) (listed domain values (numbers domain x))."""


def sequence_definitions(blueprint: SequenceBlueprint, table: GridTable) -> str:
    """Return the transformer, its grid and its table as data."""
    grid = table.grid
    low, high = grid.support
    side = rational((high - low) / grid.cells)
    ordered = str(grid.positional).lower()
    region = f"Grid {rational(low)} {side} {grid.cells} {grid.dim} {ordered}"
    zero = {(0,) * grid.dim}
    lines = [
        f"({listed(map(str, ids))}%nat, {listed(listed(map(rational, c)) for c in columns)})"
        for ids, columns in table.values.items()
        if set(columns) != zero
    ]
    return "\n\n".join(
        [
            sequence_model(blueprint),
            f"Definition domain : grid := {region}.",
            f"Definition values : table :=\n {listed(lines, 1, lines=True)}.",
            "",
        ]
    )


def sequence_model(blueprint: SequenceBlueprint) -> str:
    """Return the transformer as data; a run of layers is written layer by layer."""
    embedding = blueprint.embedding
    features = embedding.features
    places = Matrix.of(
        blueprint.tokens, blueprint.width, {(i, r): v for r, i, v in embedding.positions}
    )
    layers = [_layer(layer) for _, layer in blueprint.layers()]
    return "\n".join(
        [
            "Definition model : transformer := {|",
            f"  features := {matrix(features, 3)};",
            f"  constant := {bias(embedding.constant)};",
            f"  places := map dense {matrix(places, 3)};",
            f"  layers :=\n   {listed(layers, 3, lines=True)};",
            f"  readout := {matrix(blueprint.readout, 3, whole=True)}",
            "|}.",
        ]
    )


def _layer(layer: Layer) -> str:
    if not isinstance(layer, Attention):
        return feed_forward(layer, 4)
    if layer.selection.rule is not Rule.HARD_MAX:
        raise CertificationError(f"attention by {layer.selection.rule} has no theorem of this kind")
    return attention(layer.heads, [None] * len(layer.heads), 4)


MOST_WORK = 20_000_000
"""Products that Coq multiplies out in reasonable time."""


def check_grid(blueprint: SequenceBlueprint, grid: Grid) -> None:
    """Refuse a grid with more sequences of cells than Coq would go through in reasonable time."""
    if (found := work(blueprint, grid)) > MOST_WORK:
        raise SizeError(
            f"to go through all sequences of cells Coq would multiply out about {found:.2g} products; "
            f"the limit is {MOST_WORK:,}. Use a larger delta or fewer tokens"
        )


def work(blueprint: SequenceBlueprint, grid: Grid) -> int:
    """Return how many products Coq multiplies out to go through all sequences of cells, about."""
    return _power(grid.points, grid.tokens) * grid.tokens * sum(_weights(blueprint))


def _weights(blueprint: SequenceBlueprint) -> Iterable[int]:
    return (matrix.nonzeros + 1 for matrix in blueprint.matrices())


def _power(base: int, exponent: int) -> int:
    """Return a power, cut off where it is beyond all limits."""
    found = 1
    for _ in range(exponent):
        found = min(found * base, 10**30)
    return found
