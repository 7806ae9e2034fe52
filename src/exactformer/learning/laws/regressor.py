"""Learn a polynomial law from noisy data: a scikit-learn estimator whose model is a transformer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from exactformer.core.options import choose
from exactformer.errors import InputError
from exactformer.learning.laws import formula, path
from exactformer.learning.laws.account import Account, account, balance
from exactformer.learning.laws.dense.directions import checked_directions, unit_directions
from exactformer.learning.laws.dense.solvers import Solved, solve_least_squares, solve_sparse
from exactformer.learning.laws.diagnosis import Finding, LawWarning, far_rows
from exactformer.learning.laws.functions import Dictionary, build_dictionary
from exactformer.learning.laws.law import Law, plain_powers
from exactformer.learning.laws.robust import LOSSES, solve_robustly
from exactformer.learning.laws.sample import (
    DependentColumnsWarning,
    RowLabelsWarning,
    Sample,
    take_sample,
)
from exactformer.learning.laws.sparse.selection import Rules
from exactformer.learning.laws.streamed.blocks import Blocks, DaskBlocks, is_dask
from exactformer.learning.laws.tables import counts_rows
from exactformer.progress import progress

if TYPE_CHECKING:
    import pandas as pd
    import sympy
    from matplotlib.figure import Figure

    from exactformer.algebra import Polynomial
    from exactformer.core.domain import Box

_Made = TypeVar("_Made")
_SOLVERS = ("sparse", "least-squares", "sgd")
_PURPOSES = ("discovery", "prediction")
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
        Total degree of the dictionary. For ``solver="sparse"``, where surplus terms cost nothing but
        a stricter test, "auto" begins with the highest up to 8 that has no more terms than
        observations (and at most 4000) and goes on while higher ones explain more; ``notes_`` has
        the reason why it stopped. For the others it takes the best up to 8 by leave-one-out error.
    directions : "auto", "fewest", "lattice", "spread", "tailored", int or array (n, d)
        Words choose the directions of the compiled model. A number or an array gives the directions
        themselves: those along which ``"least-squares"`` takes powers, those from which ``"sgd"``
        starts ("auto": C(d+q+1, q) random unit vectors, as in the paper).
    purpose : "discovery" or "prediction"
        For "sparse": few terms, each significant, with intervals; or the least held-out error by five
        folds, where coefficients may be shrunk and then have no intervals.
    features : list of str or callables, optional
        Functions to apply to every column besides powers: names ("sin", "cos", "exp", "log", "sqrt",
        "tanh", "atan", "abs", "1/x") or functions of one array. The dictionary has their products.
    loss : "squared", "huber" or "trimmed"
        Take all residuals as they are, draw far ones in, or leave their rows out.
    solver : "sparse", "least-squares" or "sgd"
        Find the terms that are there and refit them; fit all terms; or train F, β and b.
    significance : float
        For "sparse": the probability of keeping any term that is not there, all terms together.
    relevance : float
        For "sparse": leave out a term without which the residual grows by less than this share of
        the spread of y. Nearly exact data make the smallest systematic error significant. A law that
        is exact up to rounding keeps every term.
    confidence : float
        Coverage of each interval in ``coef_table_``.
    epochs, batch_size, learning_rate, clip, momentum, tolerance
        For "sgd": one cycle of the rate between the two of ``learning_rate``, gradients clipped at
        ``clip``, ``momentum`` constant or "cycled" with the rate; ``tolerance`` stops early.
    rescale : bool
        For "sgd": divide columns and target by their size first.
    device, checkpoint, verbose
        For "sgd": where to train, a file to go on from, and whether to show progress.
    model_tolerance : float, optional
        The largest distance accepted between ``model_`` and a law with functions, which it holds as
        polynomials; a hundredth of ``noise_`` by default, but no less than 1e-9 of the largest |y|.
    memory_limit : int
        Bytes beyond which a fit is refused before it starts.
    random_state : int, RandomState or None
        Seeds "sgd" and the folds of "prediction" (None is 0 there); the others draw nothing.

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
    outliers_ : array of int
        Rows of the training data that are far from the law, as a robust loss counts them.
    unused_ : dict
        Columns left out, and why: constant, or a linear function of others.
    aliases_ : list of lists
        Terms that the training data cannot distinguish from those in the formula.
    path_ : DataFrame
        For "sparse": models from few terms to many, each with R² on the training data and R² of rows
        left out; ``chosen`` marks the law. :meth:`plot_path` draws it.
    notes_ : list of str
        What the fit noticed: where the degree stopped, outliers, structure in the residuals, terms
        kept or left out on balance. What may make the law wrong is also a :class:`LawWarning`.

    Notes
    -----
    A ``sample_weight`` counts repetitions, so the sum of the weights is the number of observations.
    """

    def __init__(
        self,
        degree: int | Literal["auto"] = "auto",
        *,
        purpose: str = "discovery",
        features: Any = None,
        loss: str = "squared",
        directions: Any = "auto",
        solver: str = "sparse",
        significance: float = 0.01,
        relevance: float = 1e-3,
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
        model_tolerance: float | None = None,
        memory_limit: int = 4 * 2**30,
        random_state: Any = None,
    ) -> None:
        self.degree = degree
        self.purpose = purpose
        self.features = features
        self.loss = loss
        self.directions = directions
        self.solver = solver
        self.significance = significance
        self.relevance = relevance
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
        self.model_tolerance = model_tolerance
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
        counted = np.arange(len(rows))
        if weight is not None and weight.any():
            counted = np.flatnonzero(weight)
            rows, y, weight = rows[counted], y[counted], weight[counted]
        self._single = y.ndim == 1
        numbered = [f"x{i + 1}" for i in range(self.n_features_in_)]
        self._names = [str(name) for name in getattr(self, "feature_names_in_", numbered)]
        self._dictionary = build_dictionary(self.features, rows, self._names)
        names = self._dictionary.names(self._names)
        sample = take_sample(self._dictionary.extend(rows), y.reshape(len(y), -1), weight, names)
        sample = self._dictionary.identities(sample)
        solved, far, notes = self._solve_by_loss(sample)
        self._laws: list[Law] = solved.laws
        self._paths = solved.paths
        self._compiled: Any = None
        fitted = self._record(rows, sample, solved)
        self._warn(rows, [*notes, *self._notice(sample, solved, fitted, far)])
        if far is None:
            residual = sample.Y - fitted
            far = np.any([far_rows(r, sample.weight) for r in residual.T], axis=0)
        self.outliers_ = counted[far]
        return self

    def fit_blocks(self, blocks: Blocks, names: list[str] | None, single: bool) -> Self:
        """Fit to blocks of rows, columns named or not, by passes over them.

        The law is the one that memory gives. Passes keep no residuals by row, so there are no
        ``path_`` and ``outliers_``, and ``notes_`` says nothing about residuals.
        """
        from exactformer.learning.laws.streamed.solver import solve_streamed

        self._check_parameters()
        self._check_streamed()
        self.n_features_in_ = blocks.columns
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._names = names or [f"x{i + 1}" for i in range(blocks.columns)]
        self._dictionary = Dictionary(blocks.columns)
        self._single = single
        found = solve_streamed(blocks, self.degree, self._rules(), self.memory_limit, self._names)
        self._laws, self._compiled, self._paths = found.solved.laws, None, []
        d, total = blocks.columns, found.moments
        spread = total.comoments.diagonal()[d:] / total.count
        self._state(found.squares / total.count, spread, found.solved, found.unused)
        self.box_ = np.column_stack([total.low[:d], total.high[:d]])
        if hasattr(self, "outliers_"):
            del self.outliers_
        findings = []
        for k in range(len(self._laws)):
            findings += self._about(k, balance(found.solved, k, self._symbols))
        unseen = "the data are in blocks: residuals were not looked at for outliers and structure"
        self._note([*findings, Finding(unseen, False)], found.solved)
        self._warn(np.zeros((0, d)), [])
        return self

    def _check_streamed(self) -> None:
        """Refuse what passes over blocks cannot do."""
        needed = {"solver": "sparse", "purpose": "discovery", "loss": "squared", "features": None}
        for name, value in needed.items():
            given = getattr(self, name)
            if not (given is value or (isinstance(given, str) and given == value)):
                raise InputError(
                    f"{name}={given!r} needs all rows in memory, and these come in "
                    f"blocks. Leave {name}={value!r}, or fit a part of the rows as an array"
                )
        if not isinstance(self.directions, str):
            raise InputError(
                "directions given as numbers need all rows in memory, and these come in blocks. "
                f"Give one of {', '.join(_FAMILIES)}, or fit a part of the rows as an array"
            )

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the law's value at every row; beyond ``box_`` it is extrapolation."""
        check_is_fitted(self)
        rows = self._dictionary.extend(validate_data(self, X, dtype=np.float64, reset=False))
        values = [law.values(rows) for law in self._laws]
        return values[0] if self._single else np.column_stack(values)

    @property
    def formula_(self) -> str | list[str]:
        """The law as text, each coefficient to two digits of its standard error."""
        check_is_fitted(self)
        return self._each(lambda law: self._written(law, formula.text, self._symbols))

    @property
    def coef_table_(self) -> pd.DataFrame:
        """One row for each term: coefficient, standard error, confidence interval, p-value."""
        import pandas as pd

        check_is_fitted(self)
        tables = [
            formula.table(law.powers(), law.errors(), self._symbols, law.freedom, self.confidence)
            for law in self._laws
        ]
        if self._single:
            return tables[0]
        for output, table in enumerate(tables):
            table.insert(0, "output", self._outputs[output] if self._outputs else output)
        return pd.concat(tables, ignore_index=True)

    @property
    def path_(self) -> pd.DataFrame:
        """Models from few terms to many: terms, formula's terms, R² and R² of rows left out."""
        import pandas as pd

        self._check_path()
        tables = [path.table(steps, self._symbols) for steps in self._paths]
        if self._single:
            return tables[0]
        for output, table in enumerate(tables):
            table.insert(0, "output", output)
        return pd.concat(tables, ignore_index=True)

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
        """The certified transformer of all outputs, compiled on first use for the data's box."""
        from exactformer.learning.laws.compilation import compile_laws, data_box

        check_is_fitted(self)
        if self._compiled is None:
            family = self.directions if isinstance(self.directions, str) else "auto"
            box, vector = data_box(self.box_), not self._single
            if not self._dictionary.features:
                model = compile_laws(self._laws, self.variables_, box, family, vector)
            else:
                model = self._compile_functions(box, family, vector)
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

        choose("form", form, ("text", "latex", "sympy"))
        names = self._symbols
        if form == "text":
            write: Callable[[Any], Any] = intervals.text
        elif form == "latex":
            symbols = dict(zip(names, self._latex_symbols(), strict=True))
            write = partial(intervals.latex, symbols=symbols)
        else:
            write = partial(
                intervals.to_sympy, symbols=dict(zip(names, self._sympy_symbols(), strict=True))
            )
        return self._each(
            lambda law: write(
                formula.table(law.powers(), law.errors(), names, law.freedom, self.confidence)
            )
        )

    def _latex_symbols(self) -> list[str]:
        own = [formula.latex_name(name) for name in self.variables_]
        return self._dictionary.names(own, latex=True)

    def _sympy_symbols(self) -> list[sympy.Expr]:
        import sympy

        own = [sympy.Symbol(name) for name in self.variables_]
        return [*own, *(f.to_sympy(own[f.column]) for f in self._dictionary.features)]

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
        return self._laws[output].values(self._dictionary.extend(rows))

    def depends_on(self, column: int, output: int = 0) -> bool:
        """Return whether the law of an output has a term with this column."""
        features = enumerate(self._dictionary.features, start=self.n_features_in_)
        places = [column, *(j for j, feature in features if feature.column == column)]
        return any(alpha[j] for alpha in self._laws[output].powers() for j in places)

    def to_sympy(self) -> sympy.Expr | list[sympy.Expr]:
        """Return the law with exact rational coefficients."""
        check_is_fitted(self)
        symbols = self._sympy_symbols()
        return self._each(lambda law: formula.to_sympy(law.powers(), symbols))

    def latex(self) -> str | list[str]:
        """Return the formula as LaTeX."""
        check_is_fitted(self)
        symbols = self._latex_symbols()
        return self._each(lambda law: self._written(law, formula.latex, symbols))

    def stability(
        self, X: ArrayLike, y: ArrayLike, *, resamples: int = 50, seed: int = 0
    ) -> pd.DataFrame:
        """Fit random halves of the data; return how often each term was found, most often first.

        A column for the term, the share of halves that have it, and whether the law has it. A half has
        less to go by than the whole, so a share well below one is no verdict; terms of the law that
        are found less often than others outside it are.
        """
        from exactformer.learning.laws.stability import stability

        check_is_fitted(self)
        return stability(self, X, np.asarray(y), resamples, seed)

    def _compile_functions(self, box: Box, family: str, vector: bool) -> Any:
        from exactformer.learning.laws.function_compilation import compile_functions

        least = max(law.data_range.size for law in self._laws)
        tolerance = self.model_tolerance or max(float(np.max(self.noise_)) / 100, 1e-9 * least)
        where = self._laws, self.variables_, self._dictionary, box
        return compile_functions(*where, family, vector, tolerance)

    @property
    def _symbols(self) -> list[str]:
        """Names for all columns of the dictionary."""
        return self._dictionary.names(self.variables_)

    def _written(self, law: Law, write: Any, symbols: list[str]) -> str:
        powers, noise = law.powers(), np.sqrt(law.variance) if law.variance > 0 else 0.0
        # Noise below the rounding of y would ask for digits nobody has.
        noise = max(float(noise), 1e-11 * law.data_range.size)
        digits = formula.digits_needed(powers, law.errors(), law.data_range.reach.tolist(), noise)
        return str(write(powers, digits, symbols))

    def _each(self, make: Callable[[Law], _Made]) -> _Made | list[_Made]:
        check_is_fitted(self)
        made = [make(law) for law in self._laws]
        return made[0] if self._single else made

    def _solve_by_loss(self, sample: Sample) -> tuple[Solved, NDArray[np.bool_] | None, list[str]]:
        """Solve; for a robust loss return the far rows as well, and a note if they did not settle."""
        if self.loss == "squared":
            return self._solve(sample), None, []

        def values(solved: Solved) -> NDArray[np.float64]:
            table = np.zeros((len(sample.X), len(sample.used) + len(sample.unused)))
            table[:, sample.used] = sample.X
            return np.column_stack([law.values(table) for law in solved.laws])

        found = solve_robustly(sample, self.loss, self._solve, values)
        unsettled = (
            []
            if found.settled
            else [
                f"loss={self.loss!r} did not settle: the rows it draws in or leaves out kept changing. "
                "Another degree= or loss= may"
            ]
        )
        return found.solved, found.far, unsettled

    def _solve(self, sample: Sample) -> Solved:
        d, limit = len(sample.used) + len(sample.unused), self.memory_limit
        directions = self._given_directions(sample)
        if self.solver == "sparse" and self.purpose == "prediction":
            from exactformer.learning.laws.held_out.prediction import solve_prediction

            seed = 0 if self.random_state is None else self._seed()
            return solve_prediction(sample, d, self.degree, self._rules(), limit, seed)
        if self.solver == "sparse":
            return solve_sparse(sample, d, self.degree, self._rules(), limit)
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

    def _rules(self) -> Rules:
        return Rules(self.significance, self.relevance)

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
        columns = len(sample.used) + len(sample.unused)
        return checked_directions(self.directions, columns)[:, sample.used]

    def _record(
        self, X: NDArray[np.float64], sample: Sample, solved: Solved
    ) -> NDArray[np.float64]:
        """Set what the data say about the laws; return the fitted values (N, outputs)."""
        table = self._dictionary.extend(X)
        fitted = np.column_stack([law.values(table) for law in self._laws])
        square = np.average((sample.Y - fitted) ** 2, axis=0, weights=sample.weight)
        centred = sample.Y - np.average(sample.Y, axis=0, weights=sample.weight)
        spread = np.average(centred**2, axis=0, weights=sample.weight)
        self._state(square, spread, solved, sample.unused)
        self.box_ = np.column_stack([X.min(axis=0), X.max(axis=0)])
        return fitted

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
        symbols = self._symbols
        self.aliases_ = [[formula.monomial(a, symbols) for a in terms] for terms in solved.aliases]
        names = self._dictionary.names(self._names)
        self.unused_ = {names[j]: why for j, why in unused.items()}

    def _notice(
        self,
        sample: Sample,
        solved: Solved,
        fitted: NDArray[np.float64],
        set_aside: NDArray[np.bool_] | None,
    ) -> list[str]:
        """Set ``notes_``; return those that call for a warning."""
        findings = []
        if self.solver == "sparse":
            level = self.significance if self.purpose == "discovery" else None
            rules = Account(self._symbols, level, set_aside)
            for output, values in enumerate(fitted.T):
                found = account(sample, output, solved, values, rules)
                findings += self._about(output, found)
        return self._note(findings, solved)

    def _about(self, output: int, findings: list[Finding]) -> list[Finding]:
        about = "" if self._single else f"output {output}: "
        return [Finding(about + f.text, f.serious) for f in findings]

    def _note(self, findings: list[Finding], solved: Solved) -> list[str]:
        if solved.stopped:
            findings = [*findings, Finding(f"degree {solved.degree}: {solved.stopped}", False)]
        if skipped := self._dictionary.left_out:
            findings = [*findings, Finding(f"functions left out: {', '.join(skipped)}", False)]
        self.notes_ = [f.text for f in findings]
        return [f.text for f in findings if f.serious]

    def _warn(self, X: NDArray[np.float64], serious: list[str]) -> None:
        for text in serious:
            warnings.warn(text, LawWarning, stacklevel=3)
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
        for name, able in (("purpose", _PURPOSES), ("loss", LOSSES)):
            if getattr(self, name) not in able:
                raise InputError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(able)}")
        if self.solver != "sparse" and self.purpose != "discovery":
            raise InputError("purpose='prediction' chooses its own solver; leave solver='sparse'")
        if self.solver == "sgd" and (self.features is not None or self.loss != "squared"):
            raise InputError("features= and loss= are for solver='sparse' and 'least-squares'")
        if isinstance(self.directions, str) and self.directions not in _FAMILIES:
            raise InputError(
                f"directions={self.directions!r}: choose one of {', '.join(_FAMILIES)}, or give a "
                "number or an array (n, d)"
            )
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if self.degree != "auto" and not (whole and self.degree >= 1):
            raise InputError(f"degree={self.degree!r}: give a whole number from 1, or 'auto'")
        if self.model_tolerance is not None and not self.model_tolerance > 0:
            raise InputError(f"model_tolerance={self.model_tolerance!r}: give a positive number")
        if not self.relevance >= 0:
            raise InputError(f"relevance={self.relevance!r}: give a share from 0, such as 0.001")
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
