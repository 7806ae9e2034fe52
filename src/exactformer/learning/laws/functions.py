"""Functions besides powers: each is applied to every column and makes a column of its own.

The dictionary then has all products of columns and functions up to the degree: a ratio is x · (1/y),
a modulated wave x · sin(y). Names are looked up in a table, never evaluated as code. A function that
is not continuous on the whole range of a column (log of negative numbers, 1/x across 0) is left out
for that column, since no transformer could be certified there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.core.pointwise import check_pointwise
from exactformer.errors import InputError
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.sample import Sample

if TYPE_CHECKING:
    import sympy

_PROBES = 1001


def _everywhere(low: float, high: float) -> bool:
    return True


def _positive(low: float, high: float) -> bool:
    return low > 0


def _away_from_zero(low: float, high: float) -> bool:
    return low > 0 or high < 0


@dataclass(frozen=True)
class Named:
    """A function by name: NumPy's, how it is written (``{}`` is the column), where it is continuous."""

    call: Callable[[Array], Array]
    text: str
    latex: str
    continuous: Callable[[float, float], bool] = _everywhere
    highest: int = 100
    """The largest power worth having: the square of a root or of an absolute value is a power of x."""


NAMED: dict[str, Named] = {
    "sin": Named(np.sin, "sin({})", r"\sin({})"),
    "cos": Named(np.cos, "cos({})", r"\cos({})"),
    "exp": Named(np.exp, "exp({})", r"\exp({})"),
    "tanh": Named(np.tanh, "tanh({})", r"\tanh({})"),
    "atan": Named(np.arctan, "atan({})", r"\arctan({})"),
    "log": Named(np.log, "log({})", r"\log({})", _positive),
    "sqrt": Named(np.sqrt, "sqrt({})", r"\sqrt{{{}}}", _positive, 1),
    "1/x": Named(np.reciprocal, "(1/{})", r"\frac{{1}}{{{}}}", _away_from_zero),
    "abs": Named(np.abs, "abs({})", r"\left|{}\right|", highest=1),
}


@dataclass(frozen=True)
class Feature:
    """One function of one column."""

    name: str
    function: Named
    column: int

    def values(self, X: Array) -> Array:
        """Return the values (N,) at rows of the table's own columns."""
        return np.asarray(self.function.call(X[:, self.column].copy()), dtype=np.float64)

    def to_sympy(self, argument: sympy.Symbol) -> sympy.Expr:
        """Return the function of a symbol; a user's own function stays undefined."""
        import sympy

        if self.name == "1/x":
            return 1 / argument
        known = "Abs" if self.name == "abs" else self.name
        return (getattr(sympy, known) if self.name in NAMED else sympy.Function(self.name))(
            argument
        )


@dataclass(frozen=True)
class Dictionary:
    """The columns of a table followed by the functions of them; ``left_out`` has name and reason."""

    columns: int
    features: tuple[Feature, ...] = ()
    left_out: tuple[str, ...] = ()

    def extend(self, X: Array) -> Array:
        """Return the table with a column for each function.

        Raises:
            InputError: if a function has no finite value at a row.
        """
        if not self.features:
            return X
        with np.errstate(all="ignore"):
            more = np.column_stack([feature.values(X) for feature in self.features])
        wrong = np.argwhere(~np.isfinite(more))
        if len(wrong):
            row, place = wrong[0]
            feature = self.features[place]
            raise InputError(
                f"{feature.name} is not a finite number at row {row}, where its column has "
                f"{X[row, feature.column]!r}; the data of the fit had none of these"
            )
        return np.column_stack([X, more])

    def identities(self, sample: Sample) -> Sample:
        """Return a sample of the extended table that knows which products and powers are no news."""
        place = {int(j): i for i, j in enumerate(sample.used)}
        highest = np.full(len(place), np.iinfo(np.int64).max)
        apart = []
        by_column = {(f.name, f.column) for f in self.features}
        for j, feature in enumerate(self.features, start=self.columns):
            if j not in place:
                continue
            highest[place[j]] = feature.function.highest
            if feature.name == "cos" and ("sin", feature.column) in by_column:
                highest[place[j]] = 1
            if feature.name == "1/x" and feature.column in place:
                apart.append((place[feature.column], place[j]))
        return replace(sample, apart=tuple(apart), highest=highest) if self.features else sample

    def names(self, columns: Sequence[str], latex: bool = False) -> list[str]:
        """Return names for all columns, functions written with those of the table's own."""
        own = [
            (f.function.latex if latex else f.function.text).format(columns[f.column])
            for f in self.features
        ]
        return [*columns, *own]


def build_dictionary(features: Sequence[Any] | None, X: Array, names: Sequence[str]) -> Dictionary:
    """Return the dictionary of named functions and callables on the columns of ``X``."""
    functions = [_named(given, place) for place, given in enumerate(features or (), start=1)]
    repeated = {n for n, _ in functions if [m for m, _ in functions].count(n) > 1}
    if repeated:
        raise InputError(f"features: {', '.join(sorted(repeated))} is given more than once")
    able, left_out = [], []
    for j, column in enumerate(X.T):
        low, high = float(column.min()), float(column.max())
        for name, function in functions if low < high else ():
            if reason := _discontinuous(function, low, high):
                left_out.append(f"{function.text.format(names[j])} ({reason})")
            else:
                able.append(Feature(name, function, j))
    return Dictionary(X.shape[1], tuple(able), tuple(left_out))


def _named(given: Any, place: int) -> tuple[str, Named]:
    if isinstance(given, str):
        if given not in NAMED:
            raise InputError(
                f"features: {given!r} is not known; choose from {', '.join(NAMED)}, or give a function"
            )
        return given, NAMED[given]
    if not callable(given):
        raise InputError(f"features: give names or functions of one array, not {given!r}")
    name = str(getattr(given, "__name__", ""))
    name = name if name.isidentifier() and name not in NAMED else f"f{place}"
    upright = r"\mathrm{{" + name.replace("_", r"\_") + r"}}({})"
    return name, Named(given, name + "({})", upright)


def _discontinuous(function: Named, low: float, high: float) -> str:
    """Return why a function is not continuous on a range; nothing where it may be."""
    across = f"not continuous from {low:.4g} to {high:.4g}"
    if not function.continuous(low, high):
        return across
    places = np.linspace(low, high, _PROBES)
    with np.errstate(all="ignore"):
        values = np.asarray(function.call(places.copy()), dtype=np.float64)
    if values.shape != (_PROBES,):
        raise InputError(
            f"features: {function.text.format('x')} returns shape {values.shape} for {_PROBES} "
            "numbers; it should return one value for each"
        )
    if not np.isfinite(values).all():
        return across
    name = f"features: {function.text.format('x')}"
    check_pointwise(values, lambda k: function.call(places[k : k + 1].copy()), name)
    return ""
