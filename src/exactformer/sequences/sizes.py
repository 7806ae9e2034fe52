"""What a sequence model will need, known before any of it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

from exactformer.core.options import FLOAT
from exactformer.errors import SizeError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions.bose_chowla import prime_power
from exactformer.sequences.constructions.keys import largest_key
from exactformer.sequences.grid import Grid
from exactformer.sequences.proof.certify import fits

FORMS = ("compact", "paper", "four-layer")
MAX_KEYS = 500_000
"""Value layers, each with exact weights; more would take gigabytes and minutes."""
MAX_SHIFTS = 20_000
"""Attention layers, each with exact weights."""
MAX_FIELD = 2**29
"""Numbers in the table of a finite field, 4 GiB."""
PRECISION = 53
"""Significant bits of float64."""


@dataclass(frozen=True)
class SequenceSize:
    """Layers by stage, classes, keys and key bits of a form on a grid."""

    form: str
    layers: dict[str, int]
    classes: int
    keys: int
    largest_key: int
    """An upper bound in the four-layer form and with positions."""
    field: int = 0
    """Numbers in the table of the finite field that tells multisets of columns apart."""

    @property
    def key_bits(self) -> int:
        """Bits of the largest key."""
        return self.largest_key.bit_length()

    @property
    def depth(self) -> int:
        """Layers of all stages."""
        return sum(self.layers.values())

    def problem(self, tokens: int, exact_only: bool) -> str | None:
        """Say what is too large, or nothing."""
        if self.keys > MAX_KEYS:
            return f"{_figure(self.keys)} keys, and the limit is {MAX_KEYS:,}"
        if self.layers["contextual mapping"] > MAX_SHIFTS:
            shifts = self.layers["contextual mapping"]
            return f"{_figure(shifts)} attention layers, and the limit is {MAX_SHIFTS:,}"
        if self.field > MAX_FIELD:
            return (
                f"a finite field whose table has {_figure(self.field)} numbers, and the limit is "
                f"{MAX_FIELD:,}"
            )
        if not exact_only and not fits(tokens, self.largest_key, PRECISION):
            needed = (tokens * self.largest_key).bit_length()
            return (
                f"keys of {self.key_bits} bits, {needed} when those of {tokens} equal tokens are "
                f"added up, and float64 has {PRECISION}"
            )
        return None


def predict_size(grid: Grid, form: str) -> SequenceSize:
    """Return what a form needs on a grid."""
    n, d, N, D = grid.tokens, grid.dim, grid.cells, grid.points
    if form == "four-layer":
        keys = n * D**n if grid.positional else D * comb(D + n - 2, n - 1)
        p, m = (D, 1) if grid.positional or D > MAX_KEYS else prime_power(D)
        largest = n * D ** (n + 1) if grid.positional else D * (1 + n * p ** (m * n))
        field = 0 if grid.positional or n == 1 else m * n * p ** (m * n)
        layers = {"quantise": 1, "contextual mapping": 2, "values": 1}
        return SequenceSize(form, layers, grid.size, keys, largest, field)
    keys = n * (D**n if grid.positional else comb(D, n))
    stacked = grid.positional and form == "paper"
    ids = n * N * sum(N**r for r in range(d)) if stacked else D * (n if grid.positional else 1)
    layers = {
        "quantise": d * (N * (n if stacked else 1) + 1),
        "contextual mapping": ids + 1,
        **({"reject": d + 1} if form == "paper" else {}),
        "values": keys,
    }
    return SequenceSize(form, layers, grid.size, keys, largest_key(n, ids, ids ** (n + 1)))


def check_sequence_size(grid: Grid, form: str, exact_only: bool = False) -> SequenceSize:
    """Refuse what is not feasible, with the figures and the nearest that is."""
    size = predict_size(grid, form)
    problem = size.problem(grid.tokens, exact_only)
    if problem is None:
        return size
    raise SizeError(
        f"form={form!r} with n = {grid.tokens} tokens of dimension {grid.dim} and delta = "
        f"1/{grid.cells} needs {_figure(size.depth)} layers and {problem}. "
        f"{_way_out(grid, form, exact_only)}"
    )


def check_stored_sequence_size(blueprint: SequenceBlueprint, grid: Grid, memory_limit: int) -> None:
    """Refuse a blueprint, as its own shapes state it, whose proof or module would not fit."""
    n, w = blueprint.tokens, blueprint.width
    # Equal columns are followed as well, whether or not the table has values for them.
    inside = replace(grid, repeats=True).size_up_to(memory_limit)
    streams = None if inside is None else inside * n * w * FLOAT
    if streams is None or streams > memory_limit:
        count = "more" if inside is None else f"{inside:,}"
        raise SizeError(
            f"{n:,} tokens on {grid.cells:,} cells per side have {count} classes, equal columns "
            f"included; with {w:,} rows each they do not fit into {memory_limit / 2**30:.1f} GiB. "
            "If this is your own model, raise memory_limit="
        )
    weights = sum(m.rows * m.columns for m in blueprint.matrices()) * FLOAT
    if weights > memory_limit:
        raise SizeError(
            f"all matrices together take {weights / 2**30:,.1f} GiB as dense tables; the limit is "
            f"{memory_limit / 2**30:.1f} GiB. If this is your own model, raise memory_limit="
        )


def _way_out(grid: Grid, form: str, exact_only: bool) -> str:
    def feasible(cells: int, other: str) -> bool:
        changed = Grid(grid.tokens, grid.dim, cells, grid.positional, other == "four-layer")
        return predict_size(changed, other).problem(grid.tokens, exact_only) is None

    def finest(other: str) -> int:
        low, high = 1, grid.cells  # feasibility only falls with the number of cells; one is no grid
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if feasible(middle, other) else (low, middle)
        return low

    others = [other for other in FORMS if other != form]
    ways = [f"form={other!r}" for other in others if feasible(grid.cells, other)]
    if (cells := finest(form)) > 1:
        ways.append(f"delta=Fraction(1, {cells})")
    ways = ways or [
        f"form={other!r} with delta=Fraction(1, {cells})"
        for other in others
        if (cells := finest(other)) > 1
    ]
    if not exact_only and predict_size(grid, form).problem(grid.tokens, True) is None:
        ways.append("executor='exact' for exact arithmetic")
    if not ways:
        return "No form fits at any delta: use fewer tokens or dimensions"
    return f"Feasible: {', or '.join(ways)}"


def _figure(value: int) -> str:
    return f"{value:,}" if value < 10**9 else f"{float(value):.2g}" if value < 10**300 else "1e300+"
