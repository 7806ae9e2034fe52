"""What a user meets when something is wrong: what it was, the limit, and the way out.

Every error of this package derives from :class:`ExactformerError`; the command line prints its
message and leaves with exit code 1 (the answer is no) or 2 (misuse).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ExactformerError(Exception):
    """The family's root. Catch this to catch all of them."""


class ParseError(ExactformerError, ValueError):
    """A text is not a polynomial or a program. ``column`` (from 1) is where it stops being one.

    Where there are several lines, ``line`` (from 1) is the number of the one that ``text`` has.
    """

    def __init__(self, problem: str, text: str, column: int, line: int | None = None) -> None:
        self.problem, self.text, self.column, self.line = problem, text, column, line
        place = f"column {column}" if line is None else f"line {line}, column {column}"
        super().__init__(f"{problem} ({place})\n{pointer(text, column)}")


class UnknownVariableError(ParseError):
    """A text uses a variable that ``variables=`` does not name."""


class InputError(ExactformerError, ValueError):
    """An argument or a point has the wrong type, shape or value."""


class NotPolynomialError(InputError):
    """A SymPy expression is not a polynomial with rational coefficients."""


class NotEquivariantError(InputError):
    """A sequence map declared equivariant is not: two orders of the same tokens show it."""

    def __init__(self, x: Any, y: Any, moved_x: Any, moved_y: Any) -> None:
        self.inputs, self.outputs = (x, moved_x), (y, moved_y)
        super().__init__(
            "the function is not permutation equivariant: it takes the tokens "
            f"{x.tolist()} to {y.tolist()}, but {moved_x.tolist()} to {moved_y.tolist()}; "
            "use positional=True"
        )


class ToleranceError(ExactformerError):
    """A function was not approximated to the tolerance asked for; holds the best that was found."""

    def __init__(
        self, message: str, error: float, degree: int, needed: float | None = None
    ) -> None:
        super().__init__(message)
        self.error, self.degree, self.needed = error, degree, needed


class OutsideDomainError(InputError):
    """A point lies outside the domain on which the model is certified."""


class SizeError(ExactformerError):
    """A request would not fit; the message says how large it is, the limit, and what to change."""


class FileFormatError(ExactformerError):
    """A file is missing, truncated, altered or not one of ours."""


class AlteredFileError(FileFormatError):
    """Weights in a file are not those that were saved; the message names the matrix."""


class CertificationError(ExactformerError):
    """A claim could not be proven. Nothing that raises this is handed out as certified."""


class SelectionError(CertificationError):
    """Some token cannot be shown to select itself everywhere on the ball."""


class IdentityError(CertificationError):
    """The blueprint does not compute the target polynomial."""


class RoundingError(CertificationError):
    """No finite rounding bound holds for the requested number format."""


class WeightMismatchError(CertificationError):
    """A module's or a file's weights are not those of its blueprint; the message names the place."""


class ExecutionError(ExactformerError):
    """A way of running a blueprint cannot carry out one of its layers."""


class ExperimentError(ExactformerError):
    """An experiment is unknown or ill defined, or cells of it failed."""


class DriftError(ExperimentError):
    """A new run disagrees with the stored result by more than chance allows."""


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Import packages of an extra; where one is missing, name it and the way to install it."""
    try:
        yield
    except ImportError as missing:
        name = (missing.name or extra).partition(".")[0]
        raise InputError(f'{what} needs {name}: pip install "exactformer[{extra}]"') from None


def pointer(text: str, column: int, width: int = 72) -> str:
    """Return the part of ``text`` around ``column`` with a caret below it.

    >>> print(pointer("x1 + * x2", 6))
      x1 + * x2
           ^
    """
    start = max(0, min(column - 1 - width // 2, len(text) - width))
    window = text[start : start + width]
    printable = "".join(c if c.isprintable() else "·" for c in window)
    return f"  {printable}\n  {' ' * (column - 1 - start)}^"
