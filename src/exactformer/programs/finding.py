"""From an analysis to a witness: what was found, with the reasons, for a proof to check."""

from __future__ import annotations

from exactformer.programs.aggregates import sharing
from exactformer.programs.analysis import Analysis
from exactformer.programs.program import AggregateNode, Program, WidthNode
from exactformer.programs.witness import SelectorClaim, TermClaim, Witness


def find_witness(program: Program) -> Witness:
    """Analyse a program and return what was found.

    Raises:
        ExactformerError: where a table lacks a value that can occur, or there is too much to find.
    """
    return witness_of(Analysis.of(program))


def witness_of(analysis: Analysis) -> Witness:
    """Return what an analysis has found of the nodes that were added to it."""
    named = {n.selector for n in analysis.nodes if isinstance(n, WidthNode | AggregateNode)}
    return Witness(
        tuple(analysis.known),
        {selector: _selector(analysis, selector) for selector in sorted(named)},
        {
            number: sharing(analysis, node)
            for number, node in enumerate(analysis.nodes)
            if isinstance(node, AggregateNode)
        },
        {nodes: claim for nodes, claim in analysis.differences.items() if claim is not None},
    )


def _selector(analysis: Analysis, selector: int) -> SelectorClaim:
    terms = tuple(
        TermClaim(tuple(literals), *analysis.term_bounds(selector, k))
        for k, literals in enumerate(analysis.terms(selector))
    )
    return SelectorClaim(terms, *analysis.widths(selector))
