"""Learn a polynomial law from noisy data: a scikit-learn estimator whose model is a transformer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from exactformer.core.options import choose
from exactformer.errors import InputError
from exactformer.learning.laws import formula
from exactformer.learning.laws.dense.directions import checked_directions, unit_directions
from exactformer.learning.laws.dense.solvers import Solved, solve_least_squares, solve_sparse
from exactformer.learning.laws.law import Law
from exactformer.learning.laws.sample import (
    DependentColumnsWarning,
    RowLabelsWarning,
    Sample,
    take_sample,
)
from exactformer.learning.laws.streamed.blocks import Blocks, DaskBlocks, is_dask
from exactformer.learning.laws.tables import counts_rows
from exactformer.progress import progress

if TYPE_CHECKING:
    import pandas as pd
    import sympy

    from exactformer.algebra import Polynomial

_Made = TypeVar("_Made")
_SOLVERS = ("sparse", "least-squares", "sgd")
# Names that pandas gives to a column of row labels, and that people do.
_LABELS = {"Unnamed: 0", "__index_level_0__", "index", "level_0", "id", "ID"}
_FAMILIES = ("auto", "fewest", "lattice", "spread", "tailored")


class PolynomialAttentionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit y = Q(x) + noise for a polynomial Q; hand back Q as a formula and as a transformer.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(1000, 2))
    >>> y = x[:, 0] ** 2 - 3 * x[:, 0] * x[:, 1]
    >>> PolynomialAttentionRegressor(degree=2).fit(x, y).formula_
    'x1^2 - 3 x1 x2'

    Parameters
    ----------
    degree : int or "auto"
        Total degree of the dictionary. "auto" takes the highest with no more terms than
        observations (at most 4000 terms and degree 8) for ``solver="sparse"``, where surplus terms
        cost nothing but a stricter test, and the best by leave-one-out error for the others.
    directions : "auto", "fewest", "lattice", "spread", "tailored", int or array (n, d)
        Words choose the directions of the compiled model. A number or an array gives the directions
        themselves: those along which ``"least-squares"`` takes powers, those from which ``"sgd"``
        starts ("auto": C(d+q+1, q) random unit vectors, as in the paper).
    solver : "sparse", "least-squares" or "sgd"
        Find the terms that are there and refit them; fit all terms; or train F, β and b.
    significance : float
        For "sparse": the probability of keeping any term that is not there, all terms together.
    confidence : float
        Coverage of each interval in ``coef_table_``.
    epochs, batch_size, learning_rate, clip, momentum, tolerance
        For "sgd": one cycle of the rate between the two of ``learning_rate``, gradients clipped at
        ``clip``, ``momentum`` constant or "cycled" with the rate; ``tolerance`` stops early.
    rescale : bool
        For "sgd": divide columns and target by their size first.
    device, checkpoint, verbose
        For "sgd": where to train, a file to go on from, and whether to show progress.
    memory_limit : int
        Bytes beyond which a fit is refused before it starts.
    random_state : int, RandomState or None
        Seeds "sgd"; the other solvers draw nothing.

    Attributes
    ----------
    formula_, coef_table_, polynomial_, model_
        The law as text, as a table with confidence intervals, as an exact
        :class:`exactformer.algebra.Polynomial`, and as a certified model (compiled on first use).
        For several outputs ``formula_`` and ``polynomial_`` are lists, ``coef_table_`` has a column
        ``output``, and ``model_`` is one model whose values are vectors.
    variables_, renamed_ : list, dict
        The names that formulas use, one per column, and {name: column} for those that are not the
        column's own, because a formula could not hold it. Files of ``model_`` keep the columns'.
    intercept_, r2_, noise_ : float or array
        Q(0); R² on the training data; standard deviation of the residual.
    degree_ : int
        Degree of the dictionary.
    box_ : array (d, 2)
        Range of each column of the training data: beyond it is extrapolation. ``model_`` is certified
        on this box, rounded outwards to hundredths.
    unused_ : dict
        Columns left out, and why: constant, or a linear function of others.
    aliases_ : list of lists
        Terms that the training data cannot distinguish from those in the formula.

    Notes
    -----
    A ``sample_weight`` counts repetitions, so the sum of the weights is the number of observations.
    """

    def __init__(
        self,
        degree: int | Literal["auto"] = "auto",
        *,
        directions: Any = "auto",
        solver: str = "sparse",
        significance: float = 0.01,
        confidence: float = 0.95,
        epochs: int = 2000,
        batch_size: int = 25_000,
        learning_rate: tuple[float, float] = (1e-4, 1e-3),
        clip: float | None = 10.0,
        momentum: float | Literal["cycled"] = "cycled",
        tolerance: float | None = None,
        rescale: bool = True,
        device: str = "cpu",
        checkpoint: str | None = None,
        verbose: bool = False,
        memory_limit: int = 4 * 2**30,
        random_state: Any = None,
    ) -> None:
        self.degree = degree
        self.directions = directions
        self.solver = solver
        self.significance = significance
        self.confidence = confidence
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip = clip
        self.momentum = momentum
        self.tolerance = tolerance
        self.rescale = rescale
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.memory_limit = memory_limit
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows ``X`` (N, d) and targets ``y`` (N,) or (N, outputs).

        Dask arrays and data frames are not brought into memory: blocks of their rows are worked on
        where they are, by the current Dask client if there is one. The law is the same.
        """
        self._check_parameters()
        self._outputs = _output_names(y)
        if is_dask(X) or is_dask(y):
            if sample_weight is not None:
                raise InputError("sample_weight is for data in memory, not for Dask collections")
            single = getattr(y, "ndim", 1) == 1
            return self.fit_blocks(DaskBlocks(X, y, self.verbose), _column_names(X), single)
        rows, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        y = np.asarray(y, dtype=np.float64)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, rows)
        self._single = y.ndim == 1
        numbered = [f"x{i + 1}" for i in range(self.n_features_in_)]
        self._names = [str(name) for name in getattr(self, "feature_names_in_", numbered)]
        sample = take_sample(rows, y.reshape(len(y), -1), weight, self._names)
        solved = self._solve(sample)
        self._laws: list[Law] = solved.laws
        self._compiled: Any = None
        self._record(rows if weight is None else rows[weight > 0], sample, solved)
        self._warn(rows)
        return self

    def fit_blocks(self, blocks: Blocks, names: list[str] | None, single: bool) -> Self:
        """Fit to blocks of rows, columns named or not, by passes over them; for "sparse" only."""
        from exactformer.learning.laws.streamed.solver import solve_streamed

        self._check_parameters()
        if self.solver != "sparse" or not isinstance(self.directions, str):
            raise InputError(
                "data larger than memory are fitted by solver='sparse' with directions by name"
            )
        self.n_features_in_ = blocks.columns
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._names = names or [f"x{i + 1}" for i in range(blocks.columns)]
        self._single = single
        found = solve_streamed(
            blocks, self.degree, self.significance, self.memory_limit, self._names
        )
        self._laws, self._compiled = found.solved.laws, None
        d, total = blocks.columns, found.moments
        spread = total.comoments.diagonal()[d:] / total.count
        self._state(found.squares / total.count, spread, found.solved, found.unused)
        self.box_ = np.column_stack([total.low[:d], total.high[:d]])
        self._warn(np.zeros((0, d)))
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return Q(x) for every row; anywhere, though beyond ``box_`` it is extrapolation."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        values = [law.values(rows) for law in self._laws]
        return values[0] if self._single else np.column_stack(values)

    @property
    def formula_(self) -> str | list[str]:
        """The law as text, each coefficient to two digits of its standard error."""
        return self._each(lambda law: self._written(law, formula.text))

    @property
    def coef_table_(self) -> pd.DataFrame:
        """One row for each term: coefficient, standard error, confidence interval, p-value."""
        import pandas as pd

        check_is_fitted(self)
        tables = [
            formula.table(law.powers(), law.errors(), self.variables_, law.freedom, self.confidence)
            for law in self._laws
        ]
        if self._single:
            return tables[0]
        for output, table in enumerate(tables):
            table.insert(0, "output", self._outputs[output] if self._outputs else output)
        return pd.concat(tables, ignore_index=True)

    @property
    def polynomial_(self) -> Polynomial | list[Polynomial]:
        """The law as an exact polynomial: the coefficients are the floats, taken as rationals."""
        from exactformer.algebra import Polynomial

        return self._each(lambda law: Polynomial.from_terms(law.powers(), self.variables_))

    @property
    def model_(self) -> Any:
        """The certified transformer of all outputs, compiled on first use for the data's box."""
        from exactformer.learning.laws.compilation import compile_laws, data_box

        check_is_fitted(self)
        if self._compiled is None:
            family = self.directions if isinstance(self.directions, str) else "auto"
            box, vector = data_box(self.box_), not self._single
            model = compile_laws(self._laws, self.variables_, box, family, vector)
            self._compiled = model.named(self._names, self._outputs)
        return self._compiled

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

        writers = {"text": intervals.text, "latex": intervals.latex, "sympy": intervals.to_sympy}
        choose("form", form, tuple(writers))
        return self._each(
            lambda law: writers[form](
                formula.table(
                    law.powers(), law.errors(), self.variables_, law.freedom, self.confidence
                )
            )
        )

    def save_report(self, path: str | Path, X: ArrayLike, y: ArrayLike) -> None:
        """Write one HTML page about the law on these data: formula, intervals, pictures, ranges."""
        import pandas as pd

        from exactformer.learning.laws.report import law_page
        from exactformer.learning.laws.tables import Table

        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        values = np.asarray(y, dtype=np.float64).reshape(len(rows), -1)
        names = self._outputs or (
            ["y"] if self._single else [f"y{k + 1}" for k in range(values.shape[1])]
        )
        table = Table(pd.DataFrame(rows, columns=self._names), pd.DataFrame(values, columns=names))
        Path(path).write_text(law_page(self, table, len(rows), []), encoding="utf-8")

    def evaluate(self, rows: NDArray[np.float64], output: int = 0) -> NDArray[np.float64]:
        """Return one output's values at rows (n, d), without a check of them."""
        return self._laws[output].values(rows)

    def depends_on(self, column: int, output: int = 0) -> bool:
        """Return whether the law of an output has a term with this column."""
        return any(alpha[column] for alpha in self._laws[output].powers())

    def to_sympy(self) -> sympy.Expr | list[sympy.Expr]:
        """Return the law with exact rational coefficients."""
        return self._each(lambda law: formula.to_sympy(law.powers(), self.variables_))

    def latex(self) -> str | list[str]:
        """Return the formula as LaTeX."""
        return self._each(lambda law: self._written(law, formula.latex))

    def _written(self, law: Law, write: Any) -> str:
        powers, noise = law.powers(), np.sqrt(law.variance) if law.variance > 0 else 0.0
        # Noise below the rounding of y would ask for digits nobody has.
        noise = max(float(noise), 1e-11 * law.data_range.size)
        digits = formula.digits_needed(powers, law.errors(), law.data_range.reach.tolist(), noise)
        return str(write(powers, digits, self.variables_))

    def _each(self, make: Callable[[Law], _Made]) -> _Made | list[_Made]:
        check_is_fitted(self)
        made = [make(law) for law in self._laws]
        return made[0] if self._single else made

    def _solve(self, sample: Sample) -> Solved:
        d, limit = self.n_features_in_, self.memory_limit
        directions = self._given_directions(sample)
        if self.solver == "sparse":
            return solve_sparse(sample, d, self.degree, self.significance, limit)
        if self.solver == "least-squares":
            if isinstance(directions, int):
                generator = np.random.default_rng(self._seed())
                directions = unit_directions(directions, sample.X.shape[1], generator)
            return solve_least_squares(sample, d, self.degree, directions, limit)
        from exactformer.learning.laws.trained.descent import Setting, solve_descent
        from exactformer.learning.laws.trained.training import Progress, TrainingProtocol

        cycled = self.momentum == "cycled"
        protocol = TrainingProtocol(
            self.epochs,
            self.batch_size,
            *self.learning_rate,
            clip=self.clip,
            momentum=0.0 if cycled else float(self.momentum),
            cycled=cycled,
            tolerance=self.tolerance,
        )
        where = self._seed(), self.device, self.rescale, self.checkpoint
        with progress(
            "training", self.epochs, self.verbose, unit="epochs", patience=0, lines=True
        ) as update:

            def report(now: Progress) -> None:
                update(now.epoch, f"train MSE {now.train_mse:.4g}")

            setting = Setting(protocol, *where, report)
            return solve_descent(sample, d, self.degree, directions, setting, limit)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _given_directions(self, sample: Sample) -> NDArray[np.float64] | int | None:
        if isinstance(self.directions, str):
            return None
        if self.solver == "sparse":
            raise InputError(
                "solver='sparse' takes its directions from the terms it finds; give directions as "
                f"one of {', '.join(_FAMILIES)}, or use solver='least-squares' or 'sgd'"
            )
        if isinstance(self.directions, int | np.integer):
            if self.directions < 1:
                raise InputError(f"directions={self.directions}: at least one is needed")
            return int(self.directions)
        return checked_directions(self.directions, self.n_features_in_)[:, sample.used]

    def _record(self, X: NDArray[np.float64], sample: Sample, solved: Solved) -> None:
        fitted = np.column_stack([law.values(X) for law in self._laws])
        square = np.average((sample.Y - fitted) ** 2, axis=0, weights=sample.weight)
        centred = sample.Y - np.average(sample.Y, axis=0, weights=sample.weight)
        spread = np.average(centred**2, axis=0, weights=sample.weight)
        self._state(square, spread, solved, sample.unused)
        self.box_ = np.column_stack([X.min(axis=0), X.max(axis=0)])

    def _state(
        self,
        square: NDArray[np.float64],
        spread: NDArray[np.float64],
        solved: Solved,
        unused: dict[int, str],
    ) -> None:
        """Record the laws, given the mean squares of residuals and of centred targets."""
        # A constant target is explained in full or not at all; 0/0 would say neither.
        score = np.where(spread > 0, 1 - square / np.where(spread > 0, spread, 1), square == 0)
        start = np.array([law.intercept() for law in self._laws])
        self.r2_, self.noise_, self.intercept_ = (
            (float(v[0]) if self._single else v) for v in (score, np.sqrt(square), start)
        )
        self.degree_ = solved.degree
        names = formula.variable_names(self._names)
        self.aliases_ = [[formula.monomial(a, names) for a in terms] for terms in solved.aliases]
        self.unused_ = {self._names[j]: why for j, why in unused.items()}

    def _warn(self, X: NDArray[np.float64]) -> None:
        labels = [
            n for n, x in zip(self._names, X.T, strict=True) if n in _LABELS and counts_rows(x)
        ]
        if labels:
            warnings.warn(
                f"column {labels[0]!r} counts the rows; it looks like an index, of which no law "
                "should be made. Leave it out with X.drop(columns=…)",
                RowLabelsWarning,
                stacklevel=3,
            )
        relations = [f"{n} ({why})" for n, why in self.unused_.items() if why != "constant"]
        if relations:
            warnings.warn(
                f"not used: {', '.join(relations)}. The data cannot tell these columns from the "
                "others, in which the law is written",
                DependentColumnsWarning,
                stacklevel=3,
            )
        if hidden := sorted({term for terms in self.aliases_ for term in terms}):
            shown = ", ".join(hidden[:5]) + (", …" if len(hidden) > 5 else "")
            warnings.warn(
                f"on these data {shown} cannot be told from combinations of the terms in the "
                "formula; other formulas fit exactly as well",
                DependentColumnsWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        if self.solver not in _SOLVERS:
            raise InputError(f"solver={self.solver!r}: choose one of {', '.join(_SOLVERS)}")
        if isinstance(self.directions, str) and self.directions not in _FAMILIES:
            raise InputError(
                f"directions={self.directions!r}: choose one of {', '.join(_FAMILIES)}, or give a "
                "number or an array (n, d)"
            )
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if self.degree != "auto" and not (whole and self.degree >= 1):
            raise InputError(f"degree={self.degree!r}: give a whole number from 1, or 'auto'")
        for name in ("significance", "confidence"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)!r}: must lie between 0 and 1")
        if self.momentum != "cycled" and not 0 <= float(self.momentum) < 1:
            raise InputError(f"momentum={self.momentum!r}: give a number in [0, 1), or 'cycled'")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # The compiled model is made again on first use; a pickle carries the law alone.
        return super().__getstate__() | ({"_compiled": None} if "_compiled" in vars(self) else {})  # type: ignore[no-any-return]


def _output_names(y: Any) -> list[str]:
    """Return the names of the columns of a DataFrame, or of a Series, if it has any."""
    if hasattr(type(y), "columns"):
        return [str(name) for name in y.columns]
    name = getattr(y, "name", None) if hasattr(type(y), "loc") else None
    return [] if name is None else [str(name)]


def _column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a data frame, where they are texts."""
    names = list(getattr(X, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None
