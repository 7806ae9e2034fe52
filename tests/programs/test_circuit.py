"""A circuit is ground truth: unique names, and edges that are products of weights, not zero."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import exactformer as ef
from exactformer import rasp
from exactformer.programs import library

PROGRAMS = {
    "sort": (library.make_sort(rasp.tokens, rasp.tokens, max_seq_len=5, min_key=1), [0, 1, 2], 5),
    "sort by frequency": (library.make_sort_freq(max_seq_len=4), "abc", 4),
    "reverse": (library.make_reverse(), "ab", 4),
    "histogram": (library.make_hist(), "abc", 4),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def model(request: pytest.FixtureRequest) -> Any:
    program, vocabulary, length = PROGRAMS[request.param]
    return ef.compile_program(program, vocabulary=vocabulary, max_length=length)


def read_by(model: Any, target: str, through: str) -> list[dict[int, Fraction]]:
    """The rows that a part reads with, by direction."""
    if target == "output":
        matrix, rows = model.blueprint.readout, None
    else:
        (part,) = [c for c in model.circuit().components if c.name == target]
        layer = model.blueprint.layers[part.layer]
        if part.kind == "head":
            matrix, rows = getattr(layer.heads[part.index], through), None
        else:
            matrix, rows = layer.feed_forward.w1, set(part.units)
    found: dict[int, dict[int, Fraction]] = {}
    for (i, j), value in matrix.entries.items():
        if rows is None or i in rows:
            found.setdefault(i, {})[j] = value
    return [*found.values()]


def written_by(model: Any, part: Any) -> list[dict[int, Fraction]]:
    """What a part writes, by direction, one column after the other."""
    blueprint = model.blueprint
    if part.kind == "embedding":
        entries = [
            ((j, (k, i)), v)
            for k, m in enumerate((blueprint.tokens, blueprint.positions))
            for (i, j), v in m.entries.items()
        ]
    elif part.kind == "head":
        entries = [*blueprint.layers[part.layer].heads[part.index].output.entries.items()]
    else:
        w2 = blueprint.layers[part.layer].feed_forward.w2
        entries = [((i, u), v) for (i, u), v in w2.entries.items() if u in part.units]
    found: dict[Any, dict[int, Fraction]] = {}
    for (direction, column), value in entries:
        found.setdefault(column, {})[direction] = value
    return [*found.values()]


def meets(reads: list[dict[int, Fraction]], writes: list[dict[int, Fraction]]) -> bool:
    pairs = product(reads, writes)
    return any(sum(v * w.get(j, Fraction(0)) for j, v in r.items()) for r, w in pairs)


def test_every_part_has_a_name_of_its_own(model: Any) -> None:
    names = [part.name for part in model.circuit().components]
    assert len(set(names)) == len(names)


def test_every_edge_is_a_product_of_weights_that_is_not_zero(model: Any) -> None:
    circuit = model.circuit()
    parts = {part.name: part for part in circuit.components}
    for edge in circuit.edges:
        writes = written_by(model, parts[edge.source])
        assert meets(read_by(model, edge.target, edge.through), writes), edge


def test_no_part_is_read_without_an_edge(model: Any) -> None:
    """The embedding apart, which also writes constants; these are no expressions."""
    circuit = model.circuit()
    known = {(edge.source, edge.target, edge.through) for edge in circuit.edges}
    parts = [part for part in circuit.components if part.kind != "embedding"]
    order = {part.name: (part.layer, part.kind == "units") for part in parts}
    for target in parts:
        ways = {"head": ("query", "key", "value"), "units": ("input",)}.get(target.kind, ())
        for source in parts:
            if not source.computes or order[source.name] >= order[target.name]:
                continue
            for through in ways:
                if meets(read_by(model, target.name, through), written_by(model, source)):
                    assert (source.name, target.name, through) in known


def test_the_groups_of_a_sort_read_one_head_each() -> None:
    """Two groups of ReLUs compute one expression; a dictionary by name used to lose one of them."""
    program, vocabulary, length = PROGRAMS["sort"]
    circuit = ef.compile_program(program, vocabulary=vocabulary, max_length=length).circuit()
    groups = [part for part in circuit.components if part.kind == "units" and part.layer == 0]
    assert len(groups) == 2
    for group in groups:
        heads = {e.source for e in circuit.edges if e.target == group.name and "head" in e.source}
        assert len(heads) == 1
