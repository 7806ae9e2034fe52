"""What a model computes: one polynomial, or a vector of them in common variables.

In text the components stand between semicolons, ``x^2 + y^2; x y``; a vector of one has a semicolon
at its end, as a tuple of one has a comma.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from exactformer.algebra.limits import Work
from exactformer.algebra.parsing import check_text
from exactformer.algebra.polynomial import Polynomial
from exactformer.algebra.ring import natural_order
from exactformer.errors import InputError

MAX_OUTPUTS = 1000


@dataclass(frozen=True)
class Target:
    """Polynomials in the same variables; ``vector`` tells a vector of one from a scalar."""

    polynomials: tuple[Polynomial, ...]
    vector: bool

    @classmethod
    def coerce(cls, target: object, variables: Sequence[str] | None = None) -> Target:
        """Return a target from text, SymPy, a polynomial, or a list of these.

        >>> print(Target.coerce(["x^2", "x y"]))
        x^2; x y
        """
        if isinstance(target, Target):
            if not variables or tuple(variables) == target.variables:
                return target
            return cls(tuple(p.on(variables) for p in target), target.vector)
        if isinstance(target, str) and ";" in target:
            check_text(target)
            parts: Sequence[object] = target.removesuffix(";").split(";")
        elif isinstance(target, list | tuple):
            parts = target
        else:
            return cls((Polynomial.coerce(target, variables),), False)
        if not 0 < len(parts) <= MAX_OUTPUTS:
            raise InputError(f"a vector has 1 to {MAX_OUTPUTS:,} components, not {len(parts)}")
        work = Work()
        found = [Polynomial.coerce(part, variables, work) for part in parts]
        if variables is None:
            names = {name for polynomial in found for name in polynomial.variables}
            variables = sorted(names, key=natural_order)
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
