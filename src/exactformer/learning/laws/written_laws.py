"""Fitted laws to read: formulas, tables, pictures, one page, a certified model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from exactformer.core.options import choose
from exactformer.errors import InputError
from exactformer.learning.laws import formula, path
from exactformer.learning.laws.functions import Dictionary
from exactformer.learning.laws.law import Law, RidgeLaw, plain_powers

if TYPE_CHECKING:
    import pandas as pd
    import sympy
    from matplotlib.figure import Figure

    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel

_Made = TypeVar("_Made")


class WrittenLaws:
    """What a fitted estimator writes down of its laws, one for each output.

    A property or method returns one thing for a single output, given as a vector, and else a list.
    """

    confidence: float
    directions: Any
    model_tolerance: float | None
    solver: str
    n_features_in_: int
    box_: NDArray[np.float64]
    degree_: int
    r2_: Any
    noise_: Any
    unused_: dict[str, str]
    notes_: list[str]
    _laws: list[Law]
    _paths: list[list[path.Step]]
    _dictionary: Dictionary
    _names: list[str]
    _outputs: list[str]
    _single: bool
    _compiled: Any

    @property
    def formula_(self) -> str | list[str]:
        """The law as text, each coefficient to two digits of its standard error."""
        return self._each(lambda law: _rounded(law, formula.text, self._symbols))

    @property
    def coef_table_(self) -> pd.DataFrame:
        """One row for each term: coefficient, standard error, confidence interval, p-value."""
        check_is_fitted(self)
        return self._joined([self._table(law) for law in self._laws])

    @property
    def path_(self) -> pd.DataFrame:
        """Models from few terms to many: terms, formula's terms, R² and R² of rows left out."""
        self._check_path()
        return self._joined([path.table(steps, self._symbols) for steps in self._paths])

    def plot_path(self) -> Figure:
        """Draw ``path_``: R² against the number of terms, on the training data and held out."""
        self._check_path()
        return path.figure(self._paths)

    def _check_path(self) -> None:
        check_is_fitted(self)
        if self.solver != "sparse":
            raise InputError(
                f"solver={self.solver!r} fits one model, not a path; use solver='sparse'"
            )
        if not self._paths:
            raise InputError(
                "data in blocks are fitted without a path; fit a part of the rows as an array"
            )

    @property
    def polynomial_(self) -> Polynomial | list[Polynomial]:
        """The law as an exact polynomial: the coefficients are the floats, taken as rationals."""
        from exactformer.algebra import Polynomial

        def exact(law: Law) -> Polynomial:
            terms = plain_powers(law, self.n_features_in_)
            if terms is None:
                raise InputError(
                    "the law has functions besides powers, so it is not a polynomial; to_sympy() has "
                    "it exactly, and model_.target is the polynomial that stands for it"
                )
            return Polynomial.from_terms(terms, self.variables_)

        return self._each(exact)

    @property
    def model_(self) -> Any:
        """The certified transformer of all outputs, compiled on first use for the data's box.

        Calling it evaluates its proven closed form: laws of many variables have many tokens.
        """
        check_is_fitted(self)
        if self._compiled is None:
            self._compiled = self._compile().named(self._names, self._outputs)
        return self._compiled

    def _compile(self) -> PolynomialModel:
        from exactformer.learning.laws.compilation import compile_ridges, data_box
        from exactformer.learning.laws.function_compilation import compile_functions
        from exactformer.polynomials.compile import compile

        family = self.directions if isinstance(self.directions, str) else "auto"
        box, vector, outputs = data_box(self.box_), not self._single, range(len(self._laws))
        ridges = [law for law in self._laws if isinstance(law, RidgeLaw)]
        if ridges and not self._dictionary.features:
            return compile_ridges(ridges, self.variables_, box, vector)
        if not (self._dictionary.features and any(self.uses_functions(k) for k in outputs)):
            return compile(self.polynomial_, domain=box, directions=family, executor="fused")
        least = max(law.data_range.size for law in self._laws)
        tolerance = self.model_tolerance or max(float(np.max(self.noise_)) / 100, 1e-9 * least)
        where = self._laws, self.variables_, self._dictionary, box
        return compile_functions(*where, family, vector, tolerance)

    @property
    def variables_(self) -> list[str]:
        """The names a formula uses: the columns' own where they are plain words, else an alias."""
        check_is_fitted(self)
        return formula.variable_names(self._names)

    @property
    def renamed_(self) -> dict[str, str]:
        """The columns behind those names in a formula that are not the columns' own."""
        pairs = zip(self.variables_, self._names, strict=True)
        return {variable: name for variable, name in pairs if variable != name}

    def with_intervals(self, form: str = "text") -> Any:
        """Return the formula with an interval for each coefficient: "text", "latex" or "sympy".

        A list for several outputs. The intervals are those of ``coef_table_``.
        """
        from exactformer.learning.laws import intervals

        choose("form", form, ("text", "latex", "sympy"))
        if form == "text":
            return self._each(lambda law: intervals.text(self._table(law)))
        write: Callable[..., Any] = intervals.latex if form == "latex" else intervals.to_sympy
        symbols = self._latex_symbols() if form == "latex" else self._sympy_symbols()
        named = dict(zip(self._symbols, symbols, strict=True))
        return self._each(lambda law: write(self._table(law), named))

    def to_sympy(self) -> sympy.Expr | list[sympy.Expr]:
        """Return the law with exact rational coefficients."""
        return self._each(lambda law: formula.to_sympy(law.powers(), self._sympy_symbols()))

    def latex(self) -> str | list[str]:
        """Return the formula as LaTeX."""
        return self._each(lambda law: _rounded(law, formula.latex, self._latex_symbols()))

    def save_report(self, path: str | Path, X: ArrayLike, y: ArrayLike) -> None:
        """Write one HTML page about the law on these data: formula, intervals, pictures, ranges."""
        import pandas as pd

        from exactformer.learning.laws.report import law_page
        from exactformer.learning.laws.tables import Table

        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        values = np.asarray(y, dtype=np.float64).reshape(len(rows), -1)
        targets = pd.DataFrame(values, columns=self._outputs or ["y"])
        table = Table(pd.DataFrame(rows, columns=self._names), targets)
        Path(path).write_text(law_page(self, table, self.notes_), encoding="utf-8")

    def evaluate(self, rows: NDArray[np.float64], output: int = 0) -> NDArray[np.float64]:
        """Return one output's values at rows (n, d), without a check of them."""
        return self._laws[output].values(self._dictionary.extend(rows))

    def depends_on(self, column: int, output: int = 0) -> bool:
        """Return whether the law of an output has a term with this column."""
        features = enumerate(self._dictionary.features, start=self.n_features_in_)
        places = [column, *(j for j, feature in features if feature.column == column)]
        return any(alpha[j] for alpha in self._laws[output].powers() for j in places)

    def uses_functions(self, output: int = 0) -> bool:
        """Return whether the law of an output has functions besides powers."""
        return plain_powers(self._laws[output], self.n_features_in_) is None

    def stability(
        self, X: ArrayLike, y: ArrayLike, *, resamples: int = 50, seed: int = 0
    ) -> pd.DataFrame:
        """Fit random halves of the data; return how often each term was found, most often first.

        A column for the term (and the output, if there are several), the share of halves that have
        it, and whether the law has it. A half has
        less to go by than the whole, so a share well below one is no verdict; terms of the law that
        are found less often than others outside it are.
        """
        from exactformer.learning.laws.stability import stability

        check_is_fitted(self)
        return stability(self, X, y, resamples, seed)

    @property
    def _symbols(self) -> list[str]:
        """Names for all columns of the dictionary."""
        return self._dictionary.names(self.variables_)

    def _latex_symbols(self) -> list[str]:
        own = [formula.latex_name(name) for name in self.variables_]
        return self._dictionary.names(own, latex=True)

    def _sympy_symbols(self) -> list[sympy.Expr]:
        import sympy

        own = [sympy.Symbol(name) for name in self.variables_]
        return [*own, *(f.to_sympy(own[f.column]) for f in self._dictionary.features)]

    def _table(self, law: Law) -> pd.DataFrame:
        return formula.table(
            law.powers(), law.errors(), self._symbols, law.freedom, self.confidence
        )

    def _each(self, make: Callable[[Law], _Made]) -> _Made | list[_Made]:
        check_is_fitted(self)
        made = [make(law) for law in self._laws]
        return made[0] if self._single else made

    def _joined(self, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return the table of a single output, or those of several with a column for the output."""
        import pandas as pd

        if self._single:
            return tables[0]
        for output, table in enumerate(tables):
            table.insert(0, "output", self._outputs[output])
        return pd.concat(tables, ignore_index=True)


def _rounded(law: Law, write: Callable[..., str], symbols: list[str]) -> str:
    """Return a law written with no more digits than its errors and the noise are worth."""
    powers, noise = law.powers(), np.sqrt(law.variance) if law.variance > 0 else 0.0
    # Noise below the rounding of y would ask for digits nobody has.
    noise = max(float(noise), 1e-11 * law.data_range.size)
    digits = formula.digits_needed(powers, law.errors(), law.data_range.reach.tolist(), noise)
    return write(powers, digits, symbols)
