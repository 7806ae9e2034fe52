"""Learn a polynomial law from noisy data: a scikit-learn estimator whose model is a transformer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from exactformer.errors import InputError
from exactformer.learning.laws import formula
from exactformer.learning.laws.dense.directions import checked_directions, unit_directions
from exactformer.learning.laws.dense.solvers import Solved, solve_least_squares, solve_sparse
from exactformer.learning.laws.diagnosis import Finding, far_rows
from exactformer.learning.laws.functions import build_dictionary
from exactformer.learning.laws.inputs import check_inputs, check_labels
from exactformer.learning.laws.kind import APPROXIMATION, Kind, kinds
from exactformer.learning.laws.notices import (
    about_the_search,
    account,
    warn_of_dependence,
    warn_of_findings,
    warn_of_row_labels,
)
from exactformer.learning.laws.parameters import FAMILIES, check_parameters
from exactformer.learning.laws.robust import solve_robustly
from exactformer.learning.laws.sample import Sample, counted_rows, take_sample
from exactformer.learning.laws.sparse.selection import Rules
from exactformer.learning.laws.written_laws import WrittenLaws
from exactformer.learning.threads import one_blas_thread
from exactformer.progress import progress


class PolynomialAttentionRegressor(WrittenLaws, RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
    directions : "auto", "lattice", "spread", "tailored", int or array (n, d)
        Words choose the directions of the compiled model. A number or an array gives the directions
        themselves: those along which ``"least-squares"`` takes powers, those from which ``"sgd"``
        starts ("auto": C(d+q+1, q) random unit vectors, as in the paper).
    features : list of str or callables, optional
        Functions to apply to every column besides powers: names ("sin", "cos", "exp", "log", "sqrt",
        "tanh", "atan", "abs", "1/x") or functions of one array. The dictionary has their products.
    loss : "squared", "huber" or "trimmed"
        Take all residuals as they are, draw far ones in, or leave their rows out.
    solver : "sparse", "least-squares" or "sgd"
        Find the terms that are there and refit them; fit all terms; or train F, β and b.
    significance : float
        For "sparse": the level at which terms are tested, all together. Far from zero the search may
        keep wrong terms all the same; ``kind_`` says so.
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
        Seeds "sgd"; the others draw nothing.

    Attributes
    ----------
    formula_, coef_table_, polynomial_, model_
        The law as text, as a table with confidence intervals, as an exact
        :class:`exactformer.algebra.Polynomial`, and as a certified model (compiled on first use).
        For several outputs ``formula_`` and ``polynomial_`` are lists, tables have a column ``output``
        with names (y1, y2, … for an array), and ``model_`` is one model whose values are vectors.
    variables_, renamed_ : list, dict
        The names that formulas use, one per column, and {name: column} for those that are not the
        column's own, because a formula could not hold it. Files of ``model_`` keep the columns'.
    kind_, kind_reason_ : str, or list of them
        ``"law"`` where residuals, rivals and fits of parts of the rows allow the word, else
        ``"approximation"``, with the reason. Standard errors of an approximation are those of its
        terms, and say nothing of whether these are in the law.
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
        """Fit to rows ``X`` (N, d) and targets ``y`` (N,) or (N, outputs)."""
        check_parameters(self)
        check_inputs(X, y=y, sample_weight=sample_weight)
        outputs = _output_names(y)
        self._labels = list(X.columns) if hasattr(X, "columns") else None
        rows, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        y = np.asarray(y, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, rows)
        counted = counted_rows(weight)
        if len(counted) < len(rows):
            rows, y, weight = rows[counted], y[counted], weight[counted]
        self._name_outputs(outputs, 0 if y.ndim == 1 else y.shape[1])
        numbered = [f"x{i + 1}" for i in range(self.n_features_in_)]
        self._names = [str(name) for name in getattr(self, "feature_names_in_", numbered)]
        self._dictionary = build_dictionary(self.features, rows, self._names)
        # A robust loss, folds and the diagnosis are made of as small products as the search.
        with one_blas_thread() if self.solver == "sparse" else nullcontext():
            names = self._dictionary.names(self._names)
            sample = take_sample(
                self._dictionary.extend(rows), y.reshape(len(y), -1), weight, names
            )
            sample = self._dictionary.identities(sample)
            solved, far, unsettled = self._solve_by_loss(sample)
            fitted = np.column_stack([law.inner_values(sample.X) for law in solved.laws])
            residual = sample.Y - fitted
            spread = sample.mean((sample.Y - sample.mean(sample.Y)) ** 2)
            box = np.column_stack([rows.min(axis=0), rows.max(axis=0)])
            self._record(solved, sample.mean(residual**2), spread, box, sample.unused)
            findings = [*unsettled, *self._account(sample, solved, fitted, far)]
            self._tell(findings, solved)
            self._name_kind(sample, solved, findings)
            warn_of_row_labels(self._names, rows)
            if far is None:
                far = np.any([far_rows(r, sample.weight) for r in residual.T], axis=0)
            self.outliers_ = counted[far]
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the law's value at every row; beyond ``box_`` it is extrapolation."""
        check_is_fitted(self)
        check_inputs(X)
        labels = getattr(self, "_labels", None)
        if labels is not None and not hasattr(self, "feature_names_in_"):
            check_labels(labels, X)
        rows = self._dictionary.extend(validate_data(self, X, dtype=np.float64, reset=False))
        values = [law.values(rows) for law in self._laws]
        return values[0] if self._single else np.column_stack(values)

    def _solve_by_loss(
        self, sample: Sample
    ) -> tuple[Solved, NDArray[np.bool_] | None, list[Finding]]:
        """Solve; for a robust loss return the far rows as well, and whether they did not settle."""
        if self.loss == "squared":
            return self._solve(sample), None, []
        found = solve_robustly(sample, self.loss, self._solve)
        unsettled = Finding(
            f"loss={self.loss!r} did not settle: the rows it draws in or leaves out kept changing. "
            "Another degree= or loss= may",
            True,
        )
        return found.solved, found.far, [] if found.settled else [unsettled]

    def _solve(self, sample: Sample) -> Solved:
        limit, directions = self.memory_limit, self._given_directions(sample)
        if self.solver == "sparse":
            return solve_sparse(sample, self.degree, self._rules(), limit)
        if self.solver == "least-squares":
            if isinstance(directions, int):
                generator = np.random.default_rng(self._seed())
                directions = unit_directions(directions, sample.X.shape[1], generator)
            return solve_least_squares(sample, self.degree, directions, limit)
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
            return solve_descent(sample, self.degree, directions, setting, limit)

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
                f"one of {', '.join(FAMILIES)}, or use solver='least-squares' or 'sgd'"
            )
        if isinstance(self.directions, int | np.integer):
            if self.directions < 1:
                raise InputError(f"directions={self.directions}: at least one is needed")
            return int(self.directions)
        return checked_directions(self.directions, sample.dimension)[:, sample.used]

    def _record(
        self,
        solved: Solved,
        square: NDArray[np.float64],
        spread: NDArray[np.float64],
        box: NDArray[np.float64],
        unused: dict[int, str],
    ) -> None:
        """Record the laws, given the mean squares of residuals and of centred targets."""
        self._laws, self._paths, self._compiled = solved.laws, solved.paths, None
        self.box_, self.degree_ = box, solved.degree
        # A constant target is explained in full or not at all; 0/0 would say neither.
        score = np.where(spread > 0, 1 - square / np.where(spread > 0, spread, 1), square == 0)
        start = np.array([law.intercept() for law in self._laws])
        self.r2_, self.noise_, self.intercept_ = (
            (float(v[0]) if self._single else v) for v in (score, np.sqrt(square), start)
        )
        symbols = self._symbols
        self.aliases_ = [[formula.monomial(a, symbols) for a in terms] for terms in solved.aliases]
        names = self._dictionary.names(self._names)
        self.unused_ = {names[j]: why for j, why in unused.items()}

    def _account(
        self,
        sample: Sample,
        solved: Solved,
        fitted: NDArray[np.float64],
        set_aside: NDArray[np.bool_] | None,
    ) -> list[Finding]:
        """Return what residuals and tests of the sparse solver give to say about each law."""
        if self.solver != "sparse":
            return []
        how = self._symbols, self.significance, set_aside
        return self._by_output(
            account(sample, output, solved, values, *how) for output, values in enumerate(fitted.T)
        )

    def _name_outputs(self, names: Sequence[str], several: int) -> None:
        """Take the names of outputs, y1, y2, … for several without; a single one may have none."""
        self._single = not several
        self._outputs = list(names) or [f"y{k + 1}" for k in range(several)]

    def _by_output(self, findings: Iterable[list[Finding]]) -> list[Finding]:
        """Return the findings of all outputs; where there are several, each begins with its own."""
        return [
            Finding(("" if self._single else f"{self._outputs[output]}: ") + f.text, f.serious)
            for output, found in enumerate(findings)
            for f in found
        ]

    def _name_kind(self, sample: Sample, solved: Solved, findings: list[Finding]) -> None:
        """Set ``kind_`` and ``kind_reason_``; only the sparse solver looks for a law."""
        count = len(solved.laws)
        found = [Kind(APPROXIMATION, f"solver={self.solver!r} fits, and looks for no law")] * count
        if self.solver == "sparse" and self.loss == "squared":
            found = kinds(sample, solved, findings, self._outputs, self._solve)
        elif self.solver == "sparse":
            found = [Kind(APPROXIMATION, f"loss={self.loss!r} sets rows aside")] * count
        words, reasons = [one.word for one in found], [one.why for one in found]
        self.kind_ = words[0] if self._single else words
        self.kind_reason_ = reasons[0] if self._single else reasons

    def _tell(self, findings: list[Finding], solved: Solved) -> None:
        """Set ``notes_``, and warn of what may make the law wrong."""
        findings = [*findings, *about_the_search(solved, self._dictionary)]
        self.notes_ = [finding.text for finding in findings]
        warn_of_findings(findings)
        warn_of_dependence(self.unused_, self.aliases_)

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
