"""Polynomials in several variables with rational coefficients, exact throughout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import fmpq, fmpq_mpoly
from numpy.typing import ArrayLike, NDArray

from exactformer.algebra import numpy_polynomials, printing
from exactformer.algebra.limits import (
    MAX_WORK,
    Work,
    check_coefficient,
    check_degree,
    check_power,
    check_product,
    check_sum,
    check_terms,
    check_variables,
    most_terms,
    shifted_terms,
)
from exactformer.algebra.parsing import parse
from exactformer.algebra.rational import bits, to_float, to_fmpq, to_fraction
from exactformer.algebra.ring import Exponents, default_names, is_name, natural_order, ring
from exactformer.algebra.sympy_trees import check_expansion, is_sympy, polynomial_of, unwrapped
from exactformer.errors import InputError, NotPolynomialError

if TYPE_CHECKING:
    import sympy


class Polynomial:
    """A sparse polynomial over the rationals in named, ordered variables. Immutable.

    >>> p = Polynomial.parse("0.5 (x + y)^2")
    >>> print(p)
    1/2 x^2 + x y + 1/2 y^2
    >>> p.at([1, 2])
    Fraction(9, 2)
    """

    __slots__ = ("_flint", "_variables")

    def __init__(self, variables: Sequence[str], polynomial: fmpq_mpoly) -> None:
        self._variables = _checked(variables)
        self._flint = polynomial

    @classmethod
    def parse(
        cls, text: str, variables: Sequence[str] | None = None, work: int = MAX_WORK
    ) -> Polynomial:
        """Read a polynomial from text; see :mod:`exactformer.algebra.parsing` for the grammar."""
        return cls._parsed(text, variables, Work(work))

    @classmethod
    def _parsed(cls, text: str, variables: Sequence[str] | None, work: Work | None) -> Polynomial:
        names, polynomial = parse(text, None if variables is None else _checked(variables), work)
        return cls(names, polynomial)

    @classmethod
    def from_terms(
        cls, terms: Mapping[Exponents, Any], variables: Sequence[str] | None = None
    ) -> Polynomial:
        """Build from ``{exponents: coefficient}``; floats are taken as the binary numbers they are.

        Exponents of one variable may be plain numbers. Variables are ``x``, or ``x1``, ``x2``, …,
        unless they are named.

        >>> print(Polynomial.from_terms({(2, 0): 1, (0, 1): "1/3"}, ["x", "y"]))
        Traceback (most recent call last):
        exactformer.errors.InputError: '1/3' is not a finite number; exact arithmetic needs one
        """
        if variables is None:
            if not terms:
                raise InputError("a dict without terms has no variables; name them: variables=[…]")
            variables = default_names(len(_tuple(next(iter(terms)))))
        dimension = len(variables)
        check_variables(dimension)
        check_terms(len(terms), dimension, 0)
        exact: dict[Exponents, fmpq] = {}
        for exponents, coefficient in terms.items():
            key = tuple(_index(e) for e in _tuple(exponents))
            if len(key) != dimension or min(key, default=0) < 0:
                raise InputError(
                    f"exponents {key} do not fit {dimension} variables "
                    f"({', '.join(variables)}); give one non-negative integer for each"
                )
            check_degree(sum(key))
            exact[key] = to_fmpq(coefficient)
            check_coefficient(bits(exact[key]))
        return cls(variables, ring(dimension).from_dict(exact))

    @classmethod
    def from_array(
        cls, coefficients: ArrayLike, variables: Sequence[str] | None = None
    ) -> Polynomial:
        """Build from a dense array: ``coefficients[i, j]`` multiplies ``x1^i x2^j``, as in NumPy.

        Along every axis the constant comes first, as in ``np.polynomial``; ``np.polyfit`` and
        ``np.poly1d`` have it last.
        """
        array = np.asarray(coefficients)
        names = default_names(array.ndim) if variables is None else variables
        if len(names) != array.ndim:
            raise InputError(f"a {array.ndim}-dimensional array needs {array.ndim} variables")
        keys = np.argwhere(array != 0)
        check_terms(len(keys), array.ndim, max(array.shape, default=0))
        return cls.from_terms({key: array[key] for key in map(tuple, keys.tolist())}, names)

    @classmethod
    def from_numpy(cls, polynomial: Any, variables: Sequence[str] | None = None) -> Polynomial:
        """Build from ``np.poly1d`` or a class of ``np.polynomial``, its domain and window included.

        >>> print(Polynomial.from_numpy(np.polynomial.Legendre([0, 0, 1], domain=[0, 1])))
        6 x^2 - 6 x + 1
        """
        symbol, coefficients = numpy_polynomials.powers(polynomial)
        if symbol == "x" and variables is not None and len(variables) == 1:
            symbol = variables[0]  # NumPy calls every variable x that was not named
        terms: dict[Exponents, fmpq] = {(power,): c for power, c in enumerate(coefficients) if c}
        found = cls.from_terms(terms, [symbol])
        return found if variables is None else found.on(variables)

    @classmethod
    def from_sympy(
        cls, expression: sympy.Expr | sympy.Poly, variables: Sequence[str] | None = None
    ) -> Polynomial:
        """Build from a SymPy expression, ``Poly`` or ``Lambda``; the last two keep their order.

        Floats are the binary numbers they are.
        """
        import sympy

        plain, symbols = unwrapped(expression)
        names = _checked([str(s) for s in symbols] if variables is None else variables)
        try:
            generators = [sympy.Symbol(n) for n in names] or [sympy.Symbol("x")]
            plain = plain.xreplace({s: sympy.Symbol(str(s)) for s in _distinct(symbols)})
            read = polynomial_of(plain, {name: place for place, name in enumerate(names)})
            if read is not None and names:
                return cls.from_terms(read.to_dict(), names)
            check_expansion(plain)
            exact = plain.xreplace({f: sympy.Rational(f) for f in plain.atoms(sympy.Float)})
            poly = sympy.Poly(exact, *generators, domain="QQ")
        except (sympy.PolynomialError, sympy.CoercionFailed):
            raise NotPolynomialError(
                f"{expression} is not a polynomial in {', '.join(names)} with rational coefficients"
            ) from None
        if not names:
            return cls.from_terms({(): Fraction(*_ratio(poly.nth(0)))}, [])
        terms = {exponents: Fraction(*_ratio(c)) for exponents, c in poly.terms()}
        return cls.from_terms(terms, names)

    @classmethod
    def coerce(
        cls, target: object, variables: Sequence[str] | None = None, work: Work | None = None
    ) -> Polynomial:
        """Return a polynomial from whatever people have it in, exactly.

        That is text, SymPy (expression, ``Poly``, ``Lambda``), NumPy (``poly1d``, ``np.polynomial``), a
        dict ``{exponents: coefficient}``, an array of coefficients in several variables, a number, or a
        polynomial (on wider variables if given). Texts that belong together share one ``work``.
        """
        if isinstance(target, Polynomial):
            return target if variables is None else target.on(variables)
        if isinstance(target, str):
            return cls._parsed(target, variables, work)
        if is_sympy(target):
            return cls.from_sympy(target, variables)
        if isinstance(target, numpy_polynomials.KINDS):
            return cls.from_numpy(target, variables)
        if isinstance(target, Mapping):
            return cls.from_terms(target, variables)
        if isinstance(target, np.ndarray) and target.ndim:
            check_coefficients(target)
            return cls.from_array(target, variables)
        if is_number(target):
            number = target.item() if isinstance(target, np.ndarray) else target
            constant = cls.from_terms({(): number}, [])
            return constant if variables is None else constant.on(variables)
        raise InputError(
            "expected a polynomial as text, SymPy or NumPy object, dict {exponents: coefficient}, "
            "array of coefficients (np.array, in several variables) or Polynomial, "
            f"not {type(target).__name__}"
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables' names, in the order of a point's coordinates."""
        return self._variables

    @property
    def flint(self) -> fmpq_mpoly:
        """The polynomial as FLINT holds it, in variables x0, x1, …"""
        return self._flint

    @property
    def dimension(self) -> int:
        """How many variables there are, used or not."""
        return len(self._variables)

    @property
    def degree(self) -> int:
        """The total degree; 0 for constants, zero included."""
        return max(0, int(self._flint.total_degree()))

    @property
    def constant(self) -> Fraction:
        """The value at the origin, Q(0)."""
        return self.coefficient((0,) * self.dimension)

    def coefficient(self, exponents: Exponents) -> Fraction:
        """Return the coefficient of one monomial."""
        key = tuple(_index(e) for e in exponents)
        if len(key) != self.dimension:
            raise InputError(f"a monomial has {self.dimension} exponents, not {len(key)}")
        return to_fraction(self._flint[key]) if key else self._only()

    def _only(self) -> Fraction:
        return to_fraction(fmpq(self._flint.to_dict().get((), 0)))

    def terms(self) -> dict[Exponents, Fraction]:
        """Return ``{exponents: coefficient}`` of the terms present, highest degree first."""
        items = sorted(
            self._flint.to_dict().items(), key=lambda t: (-sum(t[0]), [-e for e in t[0]])
        )
        return {tuple(int(e) for e in k): to_fraction(c) for k, c in items}

    def homogeneous(self, degree: int) -> Polynomial:
        """Return the part of exactly this degree."""
        part = {k: c for k, c in self._flint.to_dict().items() if sum(k) == degree}
        return Polynomial(self._variables, ring(self.dimension).from_dict(part))

    def on(self, variables: Sequence[str]) -> Polynomial:
        """Return the same polynomial on other variables: more of them, or in another order."""
        names = _checked(variables)
        used = {
            v for k in self._flint.to_dict() for v, e in zip(self._variables, k, strict=True) if e
        }
        if missing := sorted(used - set(names), key=natural_order):
            raise InputError(f"the polynomial uses {', '.join(missing)}; variables= leaves it out")
        place = [self._variables.index(n) if n in self._variables else None for n in names]
        terms = {
            tuple(0 if p is None else k[p] for p in place): c
            for k, c in self._flint.to_dict().items()
        }
        return Polynomial(names, ring(len(names)).from_dict(terms))

    def composed(self, centre: Sequence[Any], units: Sequence[Any]) -> Polynomial:
        """Return Q(c + h·u) as a polynomial in u, exactly.

        >>> print(Polynomial.parse("x^2").composed([1], [2]))
        4 x^2 + 4 x + 1
        """
        shifts, scales = [to_fmpq(c) for c in centre], [to_fmpq(h) for h in units]
        if not any(shifts) and all(h == 1 for h in scales):
            return self
        check_terms(
            most_terms(
                shifted_terms(self._flint.monoms(), [c != 0 for c in shifts]),
                [int(degree) for degree in self._flint.degrees()],
                self.degree,
            ),
            self.dimension,
            self.degree,
            ", written around the centre of its domain,",
        )
        inner = [
            generator * h + c
            for generator, h, c in zip(ring(self.dimension).gens(), scales, shifts, strict=True)
        ]
        return Polynomial(self._variables, self._flint.compose(*inner))

    def at(self, point: Iterable[Any]) -> Fraction:
        """Evaluate exactly; coordinates may be integers, fractions, decimals or floats."""
        exact = [to_fmpq(c) for c in point]
        if len(exact) != self.dimension:
            raise InputError(f"a point has {self.dimension} coordinates, not {len(exact)}")
        return to_fraction(fmpq(self._flint(*exact))) if exact else self._only()

    def evaluate(self, points: ArrayLike) -> NDArray[Any]:
        """Evaluate in floating point: an array ``(..., d)`` of points gives ``(...)`` values.

        The array's own float type is kept (``longdouble`` included); integers become float64.
        """
        array = np.asarray(points)
        if not np.issubdtype(array.dtype, np.floating):
            array = array.astype(np.float64)
        if array.ndim == 0 or array.shape[-1] != self.dimension:
            raise InputError(
                f"points must have {self.dimension} coordinates "
                f"({', '.join(self._variables)}) on the last axis; the shape is {array.shape}"
            )
        result = np.zeros(array.shape[:-1], dtype=array.dtype)
        for exponents, coefficient in self._flint.to_dict().items():
            term = np.full_like(result, _rounded(fmpq(coefficient), array.dtype))
            for i, exponent in enumerate(exponents):
                if exponent:
                    term *= array[..., i] ** int(exponent)
            result += term
        return result

    def to_sympy(self) -> sympy.Expr:
        """Return a SymPy expression with rational coefficients."""
        return printing.to_sympy(self.terms(), self._variables)

    def latex(self) -> str:
        """Return LaTeX, highest degree first."""
        return printing.latex(self.terms(), self._variables)

    def __str__(self) -> str:
        return printing.text(self.terms(), self._variables)

    def __repr__(self) -> str:
        return f"Polynomial({str(self)!r}, variables={list(self._variables)})"

    def __len__(self) -> int:
        return len(self._flint)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polynomial):
            return NotImplemented
        return self._variables == other._variables and bool(self._flint == other._flint)

    def __hash__(self) -> int:
        return hash((self._variables, frozenset(self.terms().items())))

    def __add__(self, other: object) -> Polynomial:
        return self._combine(other, lambda a, b: a + b, check_sum)

    def __sub__(self, other: object) -> Polynomial:
        return self._combine(other, lambda a, b: a - b, check_sum)

    def __mul__(self, other: object) -> Polynomial:
        return self._combine(other, lambda a, b: a * b, check_product)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: object) -> Polynomial:
        return -self + other

    def __neg__(self) -> Polynomial:
        return Polynomial(self._variables, -self._flint)

    def __pow__(self, exponent: int) -> Polynomial:
        if not isinstance(exponent, int) or exponent < 0:
            raise InputError(f"a power of a polynomial is a whole number ≥ 0, not {exponent!r}")
        check_power(self._flint, exponent)
        return Polynomial(self._variables, self._flint**exponent)

    def _combine(self, other: object, operation: Any, check: Any) -> Polynomial:
        if isinstance(other, Polynomial):
            if other._variables != self._variables:
                raise InputError(
                    f"the polynomials have variables {self._variables} and {other._variables}; "
                    "bring them to common ones with .on([...])"
                )
            check(self._flint, other._flint)
            return Polynomial(self._variables, operation(self._flint, other._flint))
        constant = ring(self.dimension).from_dict({(0,) * self.dimension: to_fmpq(other)})
        return Polynomial(self._variables, operation(self._flint, constant))


def is_number(value: object) -> bool:
    """Whether a value is a plain number, a NumPy one or an array of one included."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)


def check_coefficients(array: NDArray[Any]) -> None:
    """Refuse an array of coefficients that people read in two ways."""
    if array.ndim == 1:
        raise InputError(
            f"an array of {len(array)} coefficients does not say which comes first: give "
            "np.polynomial.Polynomial(c) if c[0] is the constant term, np.poly1d(c) if c[-1] is (as "
            "np.polyfit returns it)"
        )
    if 1 in array.shape:
        raise InputError(
            f"an array of shape {array.shape} has an axis of length 1, a variable that does not occur; "
            "if it is meant so, give Polynomial.from_array(c): c[i, j] multiplies x1^i x2^j"
        )


def _checked(variables: Sequence[str]) -> tuple[str, ...]:
    if isinstance(variables, str):
        raise InputError(f"variables must be a list of names, not the text {variables!r}")
    check_variables(len(variables))
    names = tuple(str(v) for v in variables)
    if len(set(names)) != len(names):
        repeated = sorted({n for n in names if names.count(n) > 1})
        raise InputError(f"each variable may be named once; repeated: {', '.join(repeated)}")
    if odd := [n for n in names if not is_name(n)]:
        raise InputError(
            f"{odd[0]!r} cannot name a variable: letters, digits and underscores may, and no digit "
            "at the beginning"
        )
    return names


def _distinct(symbols: Sequence[Any]) -> Sequence[Any]:
    _checked([str(s) for s in symbols])  # x and a positive x are two symbols of one name
    return symbols


def _tuple(exponents: Any) -> tuple[Any, ...]:
    return tuple(exponents) if isinstance(exponents, Iterable) else (exponents,)


def _index(exponent: Any) -> int:
    try:
        return index(exponent)
    except TypeError:
        raise InputError(f"{exponent!r} is no exponent; exponents are whole numbers") from None


def _ratio(value: Any) -> tuple[int, int]:
    return int(value.p), int(value.q)


def _rounded(value: fmpq, dtype: np.dtype[Any]) -> Any:
    if dtype.itemsize <= 8:
        return to_float(value)
    # More precision than float64: divide there, which is exact to one rounding of each part.
    return dtype.type(str(value.p)) / dtype.type(str(value.q))
