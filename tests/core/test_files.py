"""One file format: what is read equals what was written, and nothing else is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import exactformer as ef
from exactformer.core.codec import Schema
from exactformer.core.domain import Ball, Box
from exactformer.core.files import FileKind, kind_of
from exactformer.core.layers import BiasedHead, Head, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.couplings import files as couplings
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction import draw_coupling
from exactformer.errors import AlteredFileError, FileFormatError
from exactformer.polynomials import files as polynomials
from exactformer.polynomials.blueprint import Blueprint
from exactformer.sequences import files as sequences
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.files import SequenceFile
from tests.cases.forged import File
from tests.cases.sequences import grid, random_table
from tests.examples import examples

quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
words = st.text(st.characters().filter(str.isprintable), max_size=4)
numbers = st.fractions() | st.fractions(-3, 3, max_denominator=4)
positive = st.fractions(min_value=Fraction(1, 10**6))


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    rows, columns = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    places = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    return Matrix.of(rows, columns, draw(st.dictionaries(places, numbers, max_size=4)))


@st.composite
def activations(draw: st.DrawFn) -> PiecewiseLinear:
    breaks = sorted(draw(st.sets(numbers, max_size=3)))
    lines = st.lists(
        st.tuples(numbers, numbers), min_size=len(breaks) + 1, max_size=len(breaks) + 1
    )
    return PiecewiseLinear(tuple(breaks), tuple(draw(lines)))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    sides = draw(st.lists(st.tuples(numbers, positive), min_size=1, max_size=3))
    return Box(tuple(c for c, _ in sides), tuple(h for _, h in sides))


SPECIAL: dict[Any, st.SearchStrategy[Any]] = {
    str: words,
    int: st.integers(0, 2**31 - 1),
    bool: st.booleans(),
    NoneType: st.none(),
    Fraction: numbers,
    Matrix: matrices(),
    Mapping[str, str]: st.dictionaries(words, words, max_size=2),
    PiecewiseLinear: activations(),
    Ball: st.builds(Ball, positive, st.lists(numbers, max_size=2).map(tuple)),
    Box: boxes(),
}


def values(hint: Any, heads: tuple[type, ...] = (Head,)) -> st.SearchStrategy[Any]:
    """Return values of a type, as its declaration allows them."""
    if hint in SPECIAL:
        return SPECIAL[hint]
    arguments = [values(a, heads) for a in get_args(hint) if a is not Ellipsis]
    if get_origin(hint) is tuple and Ellipsis in get_args(hint):
        return st.lists(arguments[0], max_size=2).map(tuple)
    if get_origin(hint) is tuple:
        return st.tuples(*arguments)
    if arguments:
        return st.one_of(*arguments)
    if issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    return st.one_of(*(declared(kind, heads) for kind in (heads if hint is Head else (hint,))))


def declared(kind: type, heads: tuple[type, ...] = (Head,)) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{f.name: values(hints[f.name], heads) for f in fields(kind)})


@st.composite
def coupling_blueprints(draw: st.DrawFn) -> CouplingBlueprint:
    plane, width, head = draw(st.tuples(st.booleans(), st.integers(4, 9), st.integers(1, 3)))
    found = draw_coupling(
        *(lambda u: np.stack([np.sin(u + k) for k in range(head)], -1),) * 2,
        (lambda u: np.stack([u, u**2], -1)) if plane else np.exp,
        (lambda h: h[..., 0] * h[..., 1]) if plane else np.tanh,
        tau=3,
        head_dim=head,
        ff_width=width,
        domain=(0.1, draw(st.floats(0.2, 9))),
        positions=draw(st.none() | st.just((0.0, 20.0, 10.5))),
    )
    return replace(found, metadata=draw(values(Mapping[str, str])))


FAMILIES: dict[str, tuple[FileKind[Any], st.SearchStrategy[Any]]] = {
    "polynomial": (polynomials.FILE, declared(Blueprint)),
    "sequence": (sequences.FILE, declared(SequenceFile, (Head, BiasedHead))),
    "coupling": (couplings.FILE, coupling_blueprints()),
}


def same(here: Any, there: Any) -> bool:
    """Whether two values are equal, tables bit by bit."""
    if type(here) is not type(there):
        return False
    if isinstance(here, np.ndarray):
        return here.dtype == there.dtype and here.tobytes() == there.tobytes()
    if is_dataclass(here) and not isinstance(here, Matrix):
        return all(same(getattr(here, f.name), getattr(there, f.name)) for f in fields(here))
    if isinstance(here, tuple):
        return len(here) == len(there) and all(map(same, here, there))
    return bool(here == there)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(data=st.data())
@settings(quick, max_examples=examples(40))
def test_what_is_read_is_what_was_written(
    family: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the declared types allow comes back, and its digest with it."""
    kind, blueprints = FAMILIES[family]
    blueprint = data.draw(blueprints)
    path = tmp_path_factory.mktemp("files") / "model"
    kind.save(blueprint, path)
    read = kind.load(path, lambda value: value)
    assert kind_of(path) == family
    assert same(read, blueprint)
    assert kind.digest(read) == kind.digest(blueprint)


@given(first=declared(Blueprint), second=declared(Blueprint))
@settings(quick, max_examples=examples(20))
def test_digests_are_equal_for_equal_blueprints_only(first: Blueprint, second: Blueprint) -> None:
    kind = polynomials.FILE
    assert (kind.digest(first) == kind.digest(second)) == (first == second)
    changed = replace(first, construction=first.construction + "'")
    assert kind.digest(changed) != kind.digest(first)


def small_sequence() -> tuple[Any, Any]:
    table = random_table(grid((1, 2, 3), "compact"))
    return SEQUENCE_FORMS["compact"](table), table


def saved(family: str, path: Path) -> Callable[[Path], Any]:
    """Save a model of a family; return what reads it."""
    if family == "polynomial":
        ef.compile("x^2 y + 1/3", radius=1).save(path)
        return polynomials.load_blueprint
    if family == "sequence":
        sequences.save_sequence(*small_sequence(), path)
        return sequences.load_sequence
    ef.compile_coupling(ef.targets.sine_family([1.0], tau=3), 1, 8).save(path)
    return couplings.load_coupling


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, bytes, Callable[[Path], Any]]:
    path = tmp_path_factory.mktemp("stored") / "model"
    read = saved(request.param, path)
    return request.param, path.read_bytes(), read


@given(data=st.data())
@settings(quick, max_examples=examples(150))
def test_a_flipped_bit_is_noticed_or_without_meaning(
    stored: tuple[str, bytes, Callable[[Path], Any]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    _, content, read = stored
    path = tmp_path_factory.mktemp("flipped") / "model"
    path.write_bytes(content)
    honest = read(path)
    altered = bytearray(content)
    altered[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(altered)
    try:
        found = read(path)
    except FileFormatError:
        return
    assert same(found, honest)


def test_every_damaged_matrix_is_named(tmp_path: Path) -> None:
    sequences.save_sequence(*small_sequence(), tmp_path / "model")
    file = File.read(tmp_path / "model")
    for place in ("blueprint.readout", "blueprint.stages.0.parts.0.w1", "values"):
        file.damaged(tmp_path / "other", {place: b"7" * len(file.values(place))})
        with pytest.raises(AlteredFileError, match=rf"weights {place} are not those"):
            sequences.load_sequence(tmp_path / "other")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_equal_matrices_are_stored_once(family: str, tmp_path: Path) -> None:
    saved(family, tmp_path / "model")
    matrices = [tuple(span) for span in File.read(tmp_path / "model").content["matrices"]]
    assert len(set(matrices)) == len(matrices)


def test_the_order_of_entries_has_no_meaning() -> None:
    blueprint = ef.compile("x^2 + 3 x y", radius=2).blueprint
    features = blueprint.embedding.features
    turned = Matrix(*features.shape, dict(reversed(features.entries.items())))
    other = replace(blueprint, embedding=replace(blueprint.embedding, features=turned))
    assert other == blueprint
    assert polynomials.digest(other) == polynomials.digest(blueprint)


@pytest.mark.parametrize("format", ["exactformer-0", "exactformer-2", "exactformer-blueprint-2"])
def test_files_of_other_versions_are_refused_as_such(format: str, tmp_path: Path) -> None:
    path = tmp_path / "old.safetensors"
    save_file({"x": np.zeros(1)}, path, metadata={"format": format, "blueprint": "{}", "seal": ""})
    for read in (ef.load, ef.certify, sequences.load_sequence, couplings.load_coupling):
        with pytest.raises(
            FileFormatError, match=r"another version of exactformer.*Compile the model"
        ):
            read(path)


def test_a_file_of_another_kind_is_refused_by_its_kind(tmp_path: Path) -> None:
    saved("sequence", tmp_path / "model")
    with pytest.raises(FileFormatError, match="of the kind 'sequence', not a polynomial"):
        polynomials.load_blueprint(tmp_path / "model")
    with pytest.raises(FileFormatError, match="of the kind 'sequence', not a coupling"):
        couplings.load_coupling(tmp_path / "model")


def test_matrices_that_nothing_uses_are_refused(tmp_path: Path) -> None:
    saved("polynomial", tmp_path / "model")
    file = File.read(tmp_path / "model")
    spans = [*file.content["matrices"], [1, 1, 0, 0, ""]]
    replace(file, content={**file.content, "matrices": spans}).written(tmp_path / "model")
    with pytest.raises(FileFormatError, match="belong to no part of the model"):
        polynomials.load_blueprint(tmp_path / "model")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("degree", Fraction(2)),
        ("degree", -1),
        ("degree", np.int64(2)),
        ("vector", 1),
        ("construction", "\ud800"),
        ("variables", ["x", "y"]),
        ("domain", None),
        ("metadata", {1: ""}),
    ],
    ids=str,
)
def test_what_its_type_does_not_allow_is_not_written(
    field: str, value: Any, tmp_path: Path
) -> None:
    blueprint = replace(ef.compile("x y", radius=1).blueprint, **{field: value})
    with pytest.raises(FileFormatError, match=field):
        polynomials.save_blueprint(blueprint, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Plain:
    text: str
    maybe: tuple[int, Fraction] | None = None


@dataclass(frozen=True)
class Listed:
    items: list[int]


@dataclass(frozen=True)
class Real:
    number: float


@dataclass(frozen=True)
class Unclear:
    either: str | Fraction


@dataclass(frozen=True)
class Endless:
    inner: Endless | None


@dataclass(frozen=True)
class Deep:
    inner: tuple[Real, ...]


@pytest.mark.parametrize("kind", [Listed, Real, Unclear, Endless, Deep, object, dict[str, str]])
def test_types_that_files_do_not_hold_are_refused_when_they_are_declared(kind: Any) -> None:
    with pytest.raises(TypeError, match="files"):
        FileKind("strange", kind)


def test_a_new_field_needs_no_new_code(tmp_path: Path) -> None:
    kind = FileKind("plain", Plain)
    for value in (Plain("a"), Plain("", (3, Fraction(-1, 7)))):
        kind.save(value, tmp_path / "plain")
        assert kind.load(tmp_path / "plain", lambda read: read) == value
    assert Schema().codec(Plain) is not None


def test_a_table_of_zeros_that_memory_would_have_to_hold_is_refused(tmp_path: Path) -> None:
    """A small file that claims 2^24 classes, all of which go to zero."""
    blueprint, table = small_sequence()
    file = sequences._file(blueprint, table)
    wide = replace(file.grid, tokens=1, cells=2**24)
    zeros = replace(file, grid=wide, values=Matrix(2**24, 1, {}))
    with pytest.raises(FileFormatError, match="16,777,216 zeros"):
        sequences._table(zeros.grid, zeros.values)
