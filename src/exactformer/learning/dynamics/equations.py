"""Differential equations that were found: formulas with intervals, a simulation, a certified model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.core.arrays import Array, reals
from exactformer.errors import ExecutionError, InputError
from exactformer.learning.dynamics.regression import Solution, unbiased_powers
from exactformer.learning.laws import formula
from exactformer.learning.laws.dictionary.terms import Exponents

if TYPE_CHECKING:
    import pandas as pd
    import sympy

    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel


@dataclass(frozen=True)
class Equations:
    """x' = f(x), one polynomial for each state.

    >>> import numpy as np, exactformer as ef
    >>> t = np.linspace(0, 10, 200)
    >>> law = ef.fit_dynamics(t, np.exp(-t / 4)[:, None].round(2))
    >>> law.formulas
    ['-0.25025 x1']
    """

    names: list[str]
    """What the states are called."""
    terms: list[Exponents]
    """The dictionary: exponents of every term that was considered."""
    solutions: list[Solution]
    noise: Array
    """The standard deviation of each state's noise, as estimated."""
    box: Array
    """The range of each state, (d, 2): beyond it the law is extrapolated."""
    method: str

    @property
    def variables(self) -> list[str]:
        """The names that formulas use: the states' own, or an alias where one cannot be written."""
        return formula.variable_names(self.names)

    @property
    def formulas(self) -> list[str]:
        """The right sides as text, each coefficient to two digits of its standard error."""
        return [
            formula.text(terms, self._digits(terms, errors), self.variables)
            for terms, errors in self._each()
        ]

    @property
    def explained(self) -> Array:
        """For each state the share of the squares of its (integrated) slope that the law explains."""
        return np.array([solution.explained for solution in self.solutions])

    @property
    def misfit(self) -> Array:
        """For each state the residual in units of the noise: about one where terms hold the law."""
        return np.array([solution.misfit for solution in self.solutions])

    @property
    def polynomials(self) -> list[Polynomial]:
        """The right sides as exact polynomials: the coefficients are the floats, as rationals."""
        from exactformer.algebra import Polynomial

        return [Polynomial.from_terms(terms, self.variables) for terms, _ in self._each()]

    def table(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return one row per term: state, coefficient, standard error, interval, p-value."""
        import pandas as pd

        if not 0 < confidence < 1:
            raise InputError(f"confidence={confidence!r}: must lie between 0 and 1")
        tables = []
        for name, solution, (terms, errors) in zip(
            self.names, self.solutions, self._each(), strict=True
        ):
            one = formula.table(terms, errors, self.variables, solution.freedom, confidence)
            one.insert(0, "state", name)
            tables.append(one)
        return pd.concat(tables, ignore_index=True)

    def latex(self) -> str:
        """Return the equations as LaTeX, aligned at their equals signs."""
        symbols = [formula.latex_name(name) for name in self.variables]
        lines = [
            rf"\dot{{{symbol}}} &= " + formula.latex(terms, self._digits(terms, errors), symbols)
            for symbol, (terms, errors) in zip(symbols, self._each(), strict=True)
        ]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def to_sympy(self) -> list[sympy.Expr]:
        """Return the right sides with exact rational coefficients."""
        import sympy

        symbols = [sympy.Symbol(name) for name in self.variables]
        return [formula.to_sympy(terms, symbols) for terms, _ in self._each()]

    def slopes(self, X: Any) -> Array:
        """Return f at states (..., d), given in the order of ``names``."""
        states = reals(_by_name(X, self.names), "states")
        if states.shape[-1:] != (len(self.names),):
            raise InputError(f"states need {len(self.names)} columns; the shape is {states.shape}")
        flat = states.reshape(-1, len(self.names))
        coefficients = np.column_stack([s.coefficients for s in self.solutions])
        values = unbiased_powers(self.terms, flat, np.zeros_like(flat)) @ coefficients
        return np.asarray(values.reshape(states.shape))

    def simulate(self, start: Any, t: Any) -> Array:
        """Integrate the law from the states ``start`` at t[0]; return the states at times ``t``.

        Raises:
            ExecutionError: where the solution cannot be followed to the last time.
        """
        from scipy.integrate import solve_ivp

        times = reals(t, "t")
        first = reals(_by_name(start, self.names), "start")
        found: Any = solve_ivp(  # type: ignore[call-overload]
            lambda _, x: self.slopes(x),
            times[[0, -1]],
            first,
            "LSODA",
            times,
            rtol=1e-9,
            atol=1e-12,
        )
        if not found.success:
            raise ExecutionError(
                f"the law could not be followed to t = {times[-1]:g}: {found.message}"
            )
        return np.asarray(found.y.T)

    def model(self) -> PolynomialModel:
        """Compile the right sides into one certified model, run in closed form, on the data's box."""
        from exactformer.learning.laws.compilation import data_box
        from exactformer.polynomials.compile import compile

        model = compile(self.polynomials, domain=data_box(self.box), executor="fused")
        return model.named(self.names, [f"{name}'" for name in self.names])

    def __str__(self) -> str:
        lines = [f"{v}' = {f}" for v, f in zip(self.variables, self.formulas, strict=True)]
        pairs = zip(self.variables, self.names, strict=True)
        aliases = [f"{v} is {n!r}" for v, n in pairs if v != n]
        return "\n".join([*lines, *(["where " + ", ".join(aliases)] if aliases else [])])

    def _each(self) -> list[tuple[dict[Exponents, Fraction], dict[Exponents, float]]]:
        """Return the terms of each state, highest degree first, and their standard errors."""
        found = []
        for solution in self.solutions:
            errors = np.sqrt(solution.covariance.diagonal())
            order = sorted(
                solution.active, key=lambda j: (-sum(self.terms[j]), [-k for k in self.terms[j]])
            )
            terms = {self.terms[j]: Fraction(float(solution.coefficients[j])) for j in order}
            found.append((terms, {self.terms[j]: float(errors[j]) for j in order}))
        return found

    def _digits(
        self, terms: Mapping[Exponents, Fraction], errors: Mapping[Exponents, float]
    ) -> dict[Exponents, int]:
        return formula.digits_needed(terms, errors, np.abs(self.box).max(axis=1).tolist(), 0.0)


def _by_name(X: Any, names: list[str]) -> Any:
    from exactformer.core.inputs import by_name

    return by_name(X, names)
