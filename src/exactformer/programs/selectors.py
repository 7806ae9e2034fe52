"""Selectors of a program: comparisons as tables, and disjoint unions of conjunctions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exactformer.errors import InputError, SizeError
from exactformer.programs.language import COMPARISONS
from exactformer.programs.program import AndNode, NotNode, SelectNode, SelectorNode
from exactformer.programs.values import Value, is_number
from exactformer.programs.witness import Flags, Literal

MOST_TERMS = 64
"""Conjunctions that a selector may be a disjoint union of."""


def compared(comparison: str, keys: Sequence[Value], queries: Sequence[Value]) -> Flags:
    """Return (keys, queries): which pairs a comparison holds of."""
    if comparison in ("True", "False"):
        return np.full((len(keys), len(queries)), comparison == "True")
    order: dict[Value, int]
    if comparison in ("==", "!="):
        order = {v: k for k, v in enumerate(dict.fromkeys([*keys, *queries]))}
    else:
        both = [*keys, *queries]
        if not (all(map(is_number, both)) or all(isinstance(v, str) for v in both)):
            strange = next(
                (a, b) for a in keys for b in queries if not is_number(a) or not is_number(b)
            )
            raise InputError(
                f"{strange[0]!r} {comparison} {strange[1]!r} has no meaning, and the program may "
                "compare them; give the expression a default, or select with == or !="
            )
        order = {v: k for k, v in enumerate(sorted(set(both)))}
    a = np.array([order[v] for v in keys])[:, None]
    b = np.array([order[v] for v in queries])[None, :]
    return np.asarray(COMPARISONS[comparison](a, b))


def selects_of(selectors: Sequence[SelectorNode], selector: int) -> list[int]:
    """Return the selects that a selector is made of, each once."""
    node = selectors[selector]
    if isinstance(node, SelectNode):
        return [selector]
    if isinstance(node, NotNode):
        return selects_of(selectors, node.inner)
    parts = [selects_of(selectors, part) for part in (node.first, node.second)]
    return list(dict.fromkeys([*parts[0], *parts[1]]))


def disjoint(selectors: Sequence[SelectorNode], selector: int) -> list[list[Literal]]:
    """Return conjunctions of literals of which a selector is the disjoint union.

    ``a or b`` is ``a``, and ``b`` without ``a``. A conjunction of a literal and its negation is left
    out; the empty list is a selector that selects nothing.
    """

    def union(number: int, negated: bool) -> list[list[Literal]]:
        node = selectors[number]
        if isinstance(node, SelectNode):
            return [[Literal(number, negated)]]
        if isinstance(node, NotNode):
            return union(node.inner, not negated)
        if isinstance(node, AndNode) != negated:
            return product(union(node.first, negated), union(node.second, negated))
        without = product(union(node.first, not negated), union(node.second, negated))
        return union(node.first, negated) + without

    def product(first: list[list[Literal]], second: list[list[Literal]]) -> list[list[Literal]]:
        both = [list(dict.fromkeys([*a, *b])) for a in first for b in second]
        kept = [
            term
            for term in both
            if not any(Literal(lit.select, not lit.negated) in term for lit in term)
        ]
        if len(kept) > MOST_TERMS:
            raise SizeError(
                f"a selector is a disjoint union of {len(kept)} or more conjunctions; the limit is "
                f"{MOST_TERMS}"
            )
        return kept

    return union(selector, False)
