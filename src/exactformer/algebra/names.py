"""Names of variables in text: which runs of letters are one name, and which may be a product.

``2xy`` is 2·x·y to whoever writes it, and a name to a grammar that reads words. So letters side by side
are one name only where nobody could mean a product: a single letter, with digits or not (``x``,
``x12``, ``x_1``); letters behind an underscore (``x_max``); a Greek letter by name (``alpha``); or what
looks like a word (``temp``, ``bmi``). They are a product where the text itself shows it: in one way
only, and with a factor that stands by itself elsewhere, as x does in ``x^2 + 3xy``. Everything else has
to be declared, and is otherwise refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from unicodedata import normalize

from exactformer.algebra.ring import natural_order

FUNCTIONS = frozenset(
    "abs acos arccos arcsin arctan asin atan cbrt ceil cos cosh cot csc erf exp floor ln log log10 "
    "log2 max min mod relu round sec sign sin sinh softmax sqrt tan tanh".split()
)
GREEK = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "omicron rho varrho sigma varsigma tau upsilon phi varphi chi psi omega".split()
)
_CIRCLE = ("pi", "π")
_LONGEST_PRODUCT = 30
"""Characters; nobody writes a longer product without a space."""


def misreading(name: str, names: Collection[str]) -> str | None:
    """Return why an undeclared name is refused, with the ways out; None if it is clearly one name.

    >>> print(misreading("xy", ["x", "y", "xy"]))
    'xy' may be a variable or a product; write x y (or x*y), or declare it with variables=
    >>> [name for name in ("x1", "alpha", "temp", "x_max", "ax") if misreading(name, [])]
    ['ax']
    """
    if name in FUNCTIONS:
        return function_problem(name)
    if called := _call(name, names):
        return (
            f"{name!r} may be a variable or {called[0]}({called[1]}), and text holds polynomials only; "
            "declare it with variables="
        )
    if name in _CIRCLE:
        return (
            f"{name} is not a rational number; write its decimals, or declare a variable {name!r}"
        )
    if len(name) <= _LONGEST_PRODUCT and (factors := product_of(name, names) or _letters(name)):
        return (
            f"{name!r} may be a variable or a product; write {' '.join(factors)} "
            f"(or {'*'.join(factors)}), or declare it with variables="
        )
    return None


def products(names: Collection[str]) -> dict[str, list[str]]:
    """Return those of a text's names that are read as products, with their factors.

    Each is made of other names of the text in one way only, or of single letters of which one at least
    is a name of the text. What may also be a function of one of them is not among these.

    >>> products(["x", "xy"]), products(["ax", "bx", "c"])
    ({'xy': ['x', 'y']}, {})
    """
    apart = [name for name in names if not (_letters(name) or product_of(name, names))]
    found = {}
    for name in names:
        if name in apart or name in FUNCTIONS or name in _CIRCLE or _call(name, names):
            continue
        letters = _letters(name)
        if ways := _splittings(name, apart):
            if ways == 1:
                found[name] = product_of(name, apart)
        elif len(name) <= _LONGEST_PRODUCT and any(letter in apart for letter in letters):
            found[name] = letters
    return found


def _splittings(name: str, names: Collection[str]) -> int:
    """Return in how many ways other names make up this one."""
    ways = [1]
    for end in range(1, min(len(name), _LONGEST_PRODUCT) + 1):
        pieces = (name[start:end] for start in range(end))
        ways.append(sum(ways[i] for i, piece in enumerate(pieces) if piece in names))
    return ways[-1] if len(name) <= _LONGEST_PRODUCT else 0


def function_problem(name: str) -> str:
    """Return why the name of a function is refused."""
    return (
        f"{name} is a function, and text holds polynomials only; in Python, ef.compile takes functions "
        f"(SymPy's, NumPy's, your own) with a box and a tolerance. A variable {name!r} must be declared"
    )


def twins(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that differ only by underscores, which LaTeX prints alike, or in the font of
    their letters (x and 𝑥, the two signs µ and μ); None if none do.
    """
    seen: dict[str, str] = {}
    for name in sorted(names, key=natural_order):
        other = seen.setdefault(normalize("NFKC", name).replace("_", ""), name)
        if other != name:
            return other, name
    return None


def product_of(name: str, names: Collection[str]) -> list[str]:
    """Return other names in use that make up this one, written side by side; none if there are none."""
    others = {other for other in names if len(other) < len(name) <= _LONGEST_PRODUCT}
    if not others:
        return []
    ends: list[list[str] | None] = [[]]
    for end in range(1, len(name) + 1):
        splits = ((ends[start], name[start:end]) for start in range(end))
        ends.append(
            next(([*f, piece] for f, piece in splits if f is not None and piece in others), None)
        )
    return ends[-1] or []


def _call(name: str, names: Collection[str]) -> tuple[str, str] | None:
    """Return the function and the variable that a name is made of: ``sinx``, ``logt`` next to ``t``."""
    parts = ((name[:k], name[k:]) for k in range(2, len(name)))
    return next(
        ((f, x) for f, x in parts if f in FUNCTIONS and (x in names or x in ("x", "y", "z"))), None
    )


def _letters(name: str) -> list[str]:
    """Return the factors of what does not look like one name."""
    plain = re.sub("_(?=[0-9])", "", name)  # x_1 is x1; x_max and _w are nobody's products
    stem = plain.rstrip("0123456789")
    if "_" in plain or not stem or (stem.isalpha() and (len(stem) == 1 or _is_word(stem))):
        return []
    return re.findall("[^0-9_]_?[0-9]*", name)


def _is_word(letters: str) -> bool:
    """Whether several letters look like a word: Greek, with vowels, or of another script."""
    plain = "".join(c for c in normalize("NFKD", letters.lower()) if c.isalpha())
    if plain in GREEK:
        return True
    if any("α" <= c <= "ω" for c in plain):
        return False
    if not plain.isascii():
        return True
    if len(plain) < 4:
        return len(plain) == 3 and any(c in "eio" for c in plain)
    consecutive = all(ord(b) - ord(a) == 1 for a, b in pairwise(plain))
    return any(c in "aeiou" for c in plain) and not consecutive
