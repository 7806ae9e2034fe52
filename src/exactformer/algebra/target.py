"""What a model computes: one polynomial, or a vector of them in common variables.

In text the components stand between semicolons, ``x^2 + y^2; x y``; a vector of one has a semicolon
at its end, as a tuple of one has a comma.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from exactformer.algebra.limits import Work
from exactformer.algebra.parsing import check_names, check_text
from exactformer.algebra.polynomial import Polynomial, is_number
from exactformer.algebra.ring import natural_order
from exactformer.algebra.sympy_trees import is_sympy
from exactformer.errors import InputError

MAX_OUTPUTS = 1000


@dataclass(frozen=True)
class Target:
    """Polynomials in the same variables; ``vector`` tells a vector of one from a scalar."""

    polynomials: tuple[Polynomial, ...]
    vector: bool

    @classmethod
    def coerce(cls, target: object, variables: Sequence[str] | None = None) -> Target:
        """Return a target from whatever :meth:`Polynomial.coerce` takes, or a vector of it.

        Vectors are lists, tuples, a row or column of SymPy's ``Matrix``, or text with semicolons.

        >>> print(Target.coerce(["x^2", "x y"]))
        x^2; x y
        """
        if isinstance(target, Target):
            if not variables or tuple(variables) == target.variables:
                return target
            return cls(tuple(p.on(variables) for p in target), target.vector)
        parts = components(target)
        if parts is None:
            return cls((Polynomial.coerce(target, variables),), False)
        if not 0 < len(parts) <= MAX_OUTPUTS:
            raise InputError(f"a vector has 1 to {MAX_OUTPUTS:,} components, not {len(parts)}")
        work = Work()
        found = [Polynomial.coerce(part, variables, work) for part in parts]
        if variables is None:
            variables = common_variables(parts, [polynomial.variables for polynomial in found])
        return cls(tuple(polynomial.on(variables) for polynomial in found), True)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables' names, in the order of a point's coordinates."""
        return self.polynomials[0].variables

    @property
    def dimension(self) -> int:
        """How many variables there are, used or not."""
        return len(self.variables)

    @property
    def degree(self) -> int:
        """The highest degree of a component."""
        return max(polynomial.degree for polynomial in self)

    def __iter__(self) -> Iterator[Polynomial]:
        return iter(self.polynomials)

    def __len__(self) -> int:
        return len(self.polynomials)

    @cached_property
    def _text(self) -> str:
        return "; ".join(map(str, self)) + (";" if self.vector and len(self) == 1 else "")

    def __str__(self) -> str:
        return self._text


def components(target: object) -> list[object] | None:
    """Return the components of a vector; None for what is not one.

    Raises:
        InputError: for a list of numbers, which may be a vector or the coefficients of one polynomial.
    """
    if isinstance(target, str) and ";" in target:
        check_text(target)
        return list(target.removesuffix(";").split(";"))
    if isinstance(target, np.ndarray) and target.ndim == 1 and target.dtype.kind in "OUT":
        target = target.tolist()
    if is_sympy(target):
        import sympy

        if isinstance(target, sympy.MatrixBase):
            if 1 not in target.shape:
                rows, columns = target.shape
                raise InputError(
                    f"a {rows} × {columns} matrix is not a vector; give a row or column of it, or "
                    "list(matrix) for its entries row by row"
                )
            return list(target)
        return list(target) if isinstance(target, sympy.Tuple) else None
    if not isinstance(target, list | tuple):
        return None
    if target and all(is_number(part) for part in target):
        raise InputError(
            f"a list of {len(target)} numbers may be the coefficients of a polynomial or a constant "
            "vector; give np.polynomial.Polynomial(c) if c[0] is the constant term, np.poly1d(c) if "
            "c[-1] is, or text ('1; 2; 3') for the vector"
        )
    return list(target)


def common_variables(parts: Sequence[object], orders: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the variables of all components: in natural order, unless all have the same order.

    Raises:
        ParseError: if a name in a text may be a product of others.
        InputError: if components that name no variables stand next to others.
    """
    names = sorted({name for order in orders for name in order}, key=natural_order)
    for part, order in zip(parts, orders, strict=True):
        if isinstance(part, str):
            check_names(part, names)
        elif isinstance(part, Mapping | np.ndarray) and set(order) != set(names):
            raise InputError(
                f"dicts and arrays name no variables, and other components have {', '.join(names)}; "
                "say which are meant: variables=[…]"
            )
    return orders[0] if all(order == orders[0] for order in orders) else names
