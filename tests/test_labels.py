"""A proof reads weights, never labels: no text in a blueprint strengthens its certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.core.matrix import Matrix
from exactformer.couplings.proof.bound import bound_coupling
from exactformer.errors import ExactformerError
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.programs.library import make_reverse
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.proof.certify import certify_sequence, certify_softened
from exactformer.targets import sine_family
from exactformer.theory import pod
from tests.cases.programs import certify
from tests.cases.sequences import grid, random_table
from tests.examples import examples


@dataclass(frozen=True)
class Subject:
    """A blueprint and what proves it."""

    blueprint: Any
    prove: Callable[[Any], Any]


def polynomial(text: str, **options: Any) -> Subject:
    model = ef.compile(text, **options)
    target = model.target
    return Subject(model.blueprint, lambda blueprint: certify_blueprint(blueprint, target))


def sequence(form: str) -> Subject:
    table = random_table(grid((1, 2, 3), form))
    blueprint = SEQUENCE_FORMS[form](table)
    return Subject(blueprint, lambda relabelled: certify_sequence(relabelled, table))


def softened() -> Subject:
    def centred(x: Any) -> Any:
        return x - x.mean()

    options = {"tokens": 2, "dim": 1, "delta": Fraction(1, 3)}
    hard = ef.compile_sequence(centred, **options)
    soft, limit = hard.softened(), hard.blueprint
    return Subject(soft.blueprint, lambda found: certify_softened(found, limit, soft.table))


def coupling() -> Subject:
    target = sine_family([1.0, 0.5], tau=3)
    found = pod(target.rho, target.intervals, measure="probability")
    blueprint = ef.compile_coupling(target, 1, 16, decomposition=found).blueprint
    return Subject(blueprint, lambda other: bound_coupling(other, target, found))


def program() -> Subject:
    model = ef.compile_program(make_reverse(), vocabulary="ab", max_length=3, realisation="softmax")
    target = model.program
    return Subject(model.blueprint, lambda blueprint: certify(blueprint, target))


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "paper": lambda: polynomial("x^2 y + 1/3", radius=1, construction="paper"),
    "scaled": lambda: polynomial("x^2 + 3 x y", radius=2),
    "chebyshev": lambda: polynomial("x^3 + y", radius=1, construction="chebyshev"),
    "softmax": lambda: polynomial("x^2", radius=1, construction="softmax", tolerance=1e-4),
    "vector": lambda: polynomial("x^2; x - y", domain=[(0, 1), (-1, 2)]),
    "compact": lambda: sequence("compact"),
    "paper sequence": lambda: sequence("paper"),
    "four-layer": lambda: sequence("four-layer"),
    "softened": softened,
    "coupling": coupling,
    "program": program,
}


@cache
def subject(name: str) -> tuple[Subject, list[Any]]:
    """Return a subject, and what is proven of it as it is."""
    made = SUBJECTS[name]()
    return made, list(facts(made.prove(made.blueprint).to_dict()))


def facts(data: Any) -> Iterator[Any]:
    """Yield every number and flag of a certificate, in order."""
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, list | tuple):
        for item in data:
            yield from facts(item)
    elif not isinstance(data, str):
        yield data


def relabelled(value: Any, name: Callable[[str], str]) -> Any:
    """Return a blueprint with every text of it replaced by what ``name`` makes of it."""
    if isinstance(value, Enum | Matrix | np.ndarray):
        return value
    if isinstance(value, str):
        return name(value)
    if isinstance(value, tuple):
        return tuple(relabelled(item, name) for item in value)
    if isinstance(value, Mapping):
        return {name(key): name(text) for key, text in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: relabelled(getattr(value, f.name), name) for f in fields(value)}
        changed = {key: part for key, part in parts.items() if part is not getattr(value, key)}
        return replace(value, **changed)
    return value


def texts(blueprint: Any) -> list[str]:
    found: list[str] = []

    def see(text: str) -> str:
        found.append(text)
        return text

    relabelled(blueprint, see)
    return found


WORDS = (
    *("paper", "scaled", "chebyshev", "softmax", "compact", "four-layer", "hard", "softmax-relu"),
    *("quantise", "contextual mapping", "reject", "values", "one", "position", "output", "bound"),
    *("target", "heads", "span", "sharpness", "ramp", "outside", "form", "proven", "computed"),
    *("0", "1", "64", "1e300", "1/1000000", "True", "", "x", "y", '{"total": 0}'),
)


@pytest.mark.parametrize("name", sorted(SUBJECTS))
@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_no_text_of_a_blueprint_strengthens_its_certificate(name: str, data: st.DataObject) -> None:
    """A blueprint with other names is refused, or exactly the same is proven of it."""
    made, proven = subject(name)
    known = texts(made.blueprint)
    words = st.sampled_from((*WORDS, *known)) | st.text(max_size=8)
    places = st.integers(0, len(known) - 1)
    changes = data.draw(st.dictionaries(places, words, min_size=1, max_size=4))
    turn = iter(range(len(known)))
    other = relabelled(made.blueprint, lambda text: changes.get(next(turn), text))
    try:
        certificate = made.prove(other)
    except ExactformerError:
        return
    assert list(facts(certificate.to_dict())) == proven


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_every_single_text_may_be_another(name: str) -> None:
    """One text at a time, each once: the same holds, and some of them change nothing."""
    made, proven = subject(name)
    unnoticed = 0
    for place in range(len(texts(made.blueprint))):
        turn = iter(range(10**6))
        change = lambda text: "another" if next(turn) == place else text  # noqa: B023, E731
        try:
            certificate = made.prove(relabelled(made.blueprint, change))
        except ExactformerError:
            continue
        assert list(facts(certificate.to_dict())) == proven
        unnoticed += 1
    assert unnoticed
