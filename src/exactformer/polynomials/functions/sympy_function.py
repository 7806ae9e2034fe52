"""SymPy expressions as functions of NumPy arrays, node by node: no code is generated or run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.numpy_polynomials import KINDS
from exactformer.algebra.ring import natural_order
from exactformer.algebra.sympy_trees import is_sympy, unwrapped
from exactformer.algebra.target import common_variables, components
from exactformer.core.arrays import Array
from exactformer.errors import InputError, NotPolynomialError

_NAMES = (
    "sin cos tan sinh cosh tanh exp log floor sign asin:arcsin acos:arccos atan:arctan asinh:arcsinh "
    "acosh:arccosh atanh:arctanh Abs:abs ceiling:ceil"
)
"""Functions of SymPy, with their names in NumPy where those differ."""
_JOINING = "Max:maximum Min:minimum atan2:arctan2"
"""The same for functions of several arguments."""
_LONGEST_NAME = 60


def given_target(
    target: Any, variables: Sequence[str] | None, as_function: bool = True
) -> tuple[Target | Callable[..., Any], Sequence[str] | None]:
    """Return polynomials, read exactly, or a function, and the variables as far as they have names.

    A SymPy expression that is not a polynomial is a function if ``as_function`` allows it.
    """
    if is_function(target):
        return target, variables
    try:
        polynomials = Target.coerce(target, variables)
    except NotPolynomialError as refusal:
        if not as_function:
            raise NotPolynomialError(
                f"{refusal}. As a continuous function it needs a box and a tolerance: "
                "domain=[(lower, upper), …], tolerance=1e-8"
            ) from None
        function = SympyFunction(target, variables)
        return function, function.variables
    return polynomials, polynomials.variables


def is_function(target: object) -> bool:
    """Whether a target can only be called: SymPy's and NumPy's polynomials can be read as well."""
    return callable(target) and not (is_sympy(target) or isinstance(target, KINDS))


class SympyFunction:
    """An expression, or a vector of them, evaluated at points with the coordinates on the last axis."""

    def __init__(self, target: Any, variables: Sequence[str] | None = None) -> None:
        parts = components(target)
        self._vector = parts is not None
        parts = [target] if parts is None else parts
        plain = [
            unwrapped(part if is_sympy(part) else Polynomial.coerce(part, variables).to_sympy())
            for part in parts
        ]
        self._expressions = [expression for expression, _ in plain]
        orders = [[str(symbol) for symbol in symbols] for _, symbols in plain]
        for expression, order in zip(self._expressions, orders, strict=True):
            if len(set(order)) < len(order):
                raise InputError(f"{expression} has two symbols of one name; rename one of them")
        self.variables = tuple(common_variables(parts, orders) if variables is None else variables)
        """The order of the coordinates."""
        used = {name for order in orders for name in order}
        if missing := sorted(used - set(self.variables), key=natural_order):
            raise InputError(f"the function uses {', '.join(missing)}; variables= leaves it out")
        text = str(target)
        self.__name__ = text if len(text) <= _LONGEST_NAME else "the SymPy function"
        try:
            self(np.zeros(len(self.variables) if len(self.variables) > 1 else ()))
        except (RecursionError, OverflowError):
            raise InputError(
                f"{self.__name__} nests too deeply or has numbers beyond float64; simplify it"
            ) from None

    def __call__(self, points: Array) -> Array:
        """Return values (...) or (..., m); NaN where an expression has no real value."""
        x = points if len(self.variables) > 1 else points[..., None]
        columns = {name: x[..., j] for j, name in enumerate(self.variables)}
        with np.errstate(all="ignore"):
            values = [
                np.broadcast_to(np.asarray(_value(e, columns), dtype=np.float64), x.shape[:-1])
                for e in self._expressions
            ]
        return np.stack(values, axis=-1) if self._vector else values[0]


def _value(node: Any, columns: Mapping[str, Array]) -> Any:
    """Return the value of a node where the symbols have the values of their columns."""
    if node.is_Symbol:
        return columns[str(node)]
    if node.is_Number or node.is_NumberSymbol:
        return np.float64(float(node))
    arguments = [_value(argument, columns) for argument in node.args]
    if node.is_Add:
        return reduce(np.add, arguments)
    if node.is_Mul:
        return reduce(np.multiply, arguments)
    if node.is_Pow:
        return np.power(*arguments)
    plain, joining = _functions()
    if type(node) in joining:
        return reduce(joining[type(node)], arguments)
    if type(node) not in plain or len(arguments) != 1:
        known = ", ".join(sorted(f.__name__ for f in (*plain, *joining)))
        raise InputError(
            f"{node} is not evaluated here; known are sums, products, powers and {known}. Give a "
            "Python function instead"
        )
    return plain[type(node)](arguments[0])


@cache
def _functions() -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return NumPy's functions by SymPy's: those of one argument, and those that join several."""
    import sympy
    from scipy.special import erf

    plain, joining = (
        {getattr(sympy, name): getattr(np, other or name) for name, _, other in pairs}
        for pairs in ([p.partition(":") for p in text.split()] for text in (_NAMES, _JOINING))
    )
    return plain | {sympy.erf: erf}, joining
