"""Rules for claims about selectors: disjoint terms, and how many positions each selects."""

from __future__ import annotations

import numpy as np

from exactformer.programs.program import NotNode, OrNode, SelectNode
from exactformer.programs.proof.claims.differences import check_difference
from exactformer.programs.proof.claims.selection import Selections
from exactformer.programs.proof.facts import Facts, UnprovenError
from exactformer.programs.witness import Flags, Integers, Literal, TermClaim

MOST_BRANCHES = 20_000
"""Assignments of truth to selects that are followed for one selector."""

Bounds = tuple[Integers, Integers]


def check_selector(facts: Facts, selections: Selections, selector: int) -> None:
    """Raise unless the claim about a selector follows from those about what it compares."""
    claim, name = facts.witness.selectors.get(selector), facts.program.selector_names[selector]
    if claim is None:
        raise UnprovenError("terms", name, "nothing is claimed of it")
    _Terms(facts, selector).check()
    bounds = [_term_bounds(facts, selections, term) for term in claim.terms]
    for term, found in zip(claim.terms, bounds, strict=True):
        _compare(name, term.low, term.high, found)
    if len(bounds) == 1:
        _compare(name, claim.low, claim.high, bounds[0])
        return
    low, high = np.zeros(facts.cells, np.int64), np.zeros(facts.cells, np.int64)
    for cells, may, must in selections.of_selector(selector):
        low[cells], high[cells] = must.sum(1), may.sum(1)
    least, most = np.zeros_like(low), np.zeros_like(high)  # terms are disjoint: widths add up
    for one in bounds:
        least, most = least + one[0], most + one[1]
    _compare(name, claim.low, claim.high, (np.maximum(low, least), np.minimum(high, most)))


def _compare(name: str, low: Integers, high: Integers, found: Bounds) -> None:
    for claimed, right in ((low, found[0]), (high, found[1])):
        if claimed.shape != right.shape or (claimed != right).any():
            raise UnprovenError("widths", name, "it is claimed to select another number")


def _term_bounds(facts: Facts, selections: Selections, term: TermClaim) -> Bounds:
    """Return bounds, for every cell, of how many positions a conjunction selects."""
    low, high = np.zeros(facts.cells, np.int64), np.zeros(facts.cells, np.int64)
    for cells, may, must in selections.of_term(term.literals):
        low[cells], high[cells] = must.sum(1), may.sum(1)
    keys = tuple(dict.fromkeys(facts.select(lit.select).keys for lit in term.literals))
    if keys in facts.witness.differences:
        check_difference(facts, keys)
        high = np.minimum(high, _different_keys(facts, term))
        if len(term.literals) == 1 and not facts.program.causal:
            least, most = _each_once(facts, term.literals[0])
            low, high = np.maximum(low, least), np.minimum(high, most)
    return low, np.maximum(low, high)


def _different_keys(facts: Facts, term: TermClaim) -> Integers:
    """Return how many different keys the literals accept: no two positions have the same ones."""
    most = np.ones(facts.cells)
    for literal in term.literals:
        query = facts.known[facts.select(literal.select).queries]
        root = facts.known[query.root]
        count = facts.predicate(literal).sum(0)[query.image]
        by_set = (root.sets * count).max(1)
        most = np.minimum(most * by_set[root.cells], facts.max_length)
    return most.astype(np.int64)


def _each_once(facts: Facts, literal: Literal) -> Bounds:
    """Return bounds where all values that a key has at a length are as many as the positions.

    Then each occurs exactly once, and a query selects as many positions as it accepts values.
    """
    node, accepts = facts.select(literal.select), facts.predicate(literal)
    key, query = facts.known[node.keys], facts.known[node.queries]
    low, high = np.zeros(facts.cells, np.int64), np.full(facts.cells, facts.max_length)
    for size, cells in facts.lengths():
        occurring = key.sets[np.unique(key.cells[cells])].any(0)
        if occurring.sum() == size:
            count = accepts[occurring].sum(0)
            sets = query.sets[query.cells[cells]]
            low[cells] = np.where(sets, count, size).min(1)
            high[cells] = np.where(sets, count, 0).max(1)
    return low, high


class _Terms:
    """Whether a selector is the disjoint union of its claimed terms, by cases of what selects hold.

    In a case in which all is decided, one term must hold where the selector does, and none elsewhere;
    unless no key and query make the case.
    """

    def __init__(self, facts: Facts, selector: int) -> None:
        self.facts, self.selector, self.branches = facts, selector, 0
        self.name = facts.program.selector_names[selector]
        self.selects = list(dict.fromkeys(self._read(selector)))

    def check(self) -> None:
        terms = [term.literals for term in self.facts.witness.selectors[self.selector].terms]
        if any(literal.select not in self.selects for term in terms for literal in term):
            raise UnprovenError("terms", self.name, "a term names what it is not made of")
        self._walk({}, [tuple(dict.fromkeys(term)) for term in terms])

    def _read(self, selector: int) -> list[int]:
        node = self.facts.selectors[selector]
        if isinstance(node, SelectNode):
            return [selector]
        if isinstance(node, NotNode):
            return self._read(node.inner)
        return [*self._read(node.first), *self._read(node.second)]

    def _walk(self, case: dict[int, bool], terms: list[tuple[Literal, ...]]) -> None:
        """Check a case; terms that it excludes are left out of those that it is given."""
        self.branches += 1
        if self.branches > MOST_BRANCHES:
            raise UnprovenError("terms", self.name, "it has too many cases")
        holds = self._holds(self.selector, case)
        waiting = [lit.select for term in terms for lit in term if lit.select not in case]
        if not waiting and holds is None:
            waiting = [select for select in self.selects if select not in case]
        if not waiting:
            if len(terms) != int(bool(holds)) and not self._is_impossible(case):
                raise UnprovenError("terms", self.name, "it is not the disjoint union of its terms")
            return
        for value in (True, False):
            kept = [term for term in terms if Literal(waiting[0], value) not in term]
            self._walk({**case, waiting[0]: value}, kept)

    def _holds(self, selector: int, case: dict[int, bool]) -> bool | None:
        """Whether a selector holds in a case; None where that is not decided."""
        node = self.facts.selectors[selector]
        if isinstance(node, SelectNode):
            return case.get(selector)
        if isinstance(node, NotNode):
            inner = self._holds(node.inner, case)
            return None if inner is None else not inner
        both = {self._holds(node.first, case), self._holds(node.second, case)}
        decisive = isinstance(node, OrNode)
        if decisive in both:
            return decisive
        return None if None in both else not decisive

    def _is_impossible(self, case: dict[int, bool]) -> bool:
        """Whether no values of a key's and a query's root satisfy what a case says of them."""
        together: dict[tuple[int, int], Flags] = {}
        for select, value in case.items():
            literal = Literal(select, not value)
            roots, accepts = self.facts.roots(literal), self.facts.accepted(literal)
            together[roots] = together[roots] & accepts if roots in together else accepts
        return any(not accepts.any() for accepts in together.values())
