"""Files that somebody hands in: a model that is proven, or an error of this package; nothing else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import exactformer as ef
from exactformer.core.layers import RELU, Attention, Block, FeedForward, Head, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import (
    CertificationError,
    ExactformerError,
    FileFormatError,
    InputError,
    SizeError,
)
from exactformer.polynomials.files import load_blueprint, save_blueprint
from exactformer.programs.library import make_hist, make_reverse
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.files import load_sequence, save_sequence
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.shapes import check_sequence_shapes
from exactformer.targets import Coupling, sine_family
from tests.cases.forged import File, forged
from tests.examples import examples


def mean_taken_out(X: Any) -> Any:
    return X - X.mean()


def sequence(form: str, positional: bool = False, **options: Any) -> Any:
    return ef.compile_sequence(
        mean_taken_out,
        tokens=2,
        dim=1,
        delta=Fraction(1, 3),
        form=form,
        positional=positional,
        **options,
    )


MODELS: dict[str, Callable[[], Any]] = {
    "paper": lambda: ef.compile("x^2 y + 1/3", radius=1, construction="paper"),
    "scaled": lambda: ef.compile("x^2 + 3 x y", radius=2),
    "chebyshev": lambda: ef.compile("x^3 + y", radius=1, construction="chebyshev"),
    "softmax": lambda: ef.compile("x^2 + y", radius=1, construction="softmax"),
    "vector": lambda: ef.compile(["x^2", "x - y"], domain=[(0, 1), (-1, 2)]),
    "compact": lambda: sequence("compact"),
    "positional": lambda: sequence("compact", positional=True),
    "paper sequence": lambda: sequence("paper"),
    "four-layer": lambda: sequence("four-layer"),
    "softened": lambda: sequence("compact").softened(),
    "sines": lambda: ef.compile_coupling(sine_family([1.0, 0.5], tau=4), 2, 8),
    "places": lambda: ef.compile_coupling(
        Coupling(np.tanh, np.cos, lambda u, v: u * v, 3, positions=np.array([0.0, 2, 5])), 1, 9
    ),
    "plane": lambda: ef.compile_coupling(
        Coupling(
            lambda h: h[..., 1] - h[..., 0] ** 2,
            lambda u: np.stack([u, u**2], -1),
            lambda u, v: 2 * u * v,
            3,
        ),
        1,
        16,
    ),
    "reverse": lambda: ef.compile_program(make_reverse(), vocabulary="ab", max_length=3),
    "counts": lambda: ef.compile_program(
        make_hist(), vocabulary="ab", max_length=3, realisation="softmax"
    ),
}


class Saved:
    """Files of all models, read when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, make in MODELS.items():
            make().save(folder / name)

    def __getitem__(self, name: str) -> File:
        return File.read(self.folder / name)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return Saved(tmp_path_factory.mktemp("saved"))


@given(st.sampled_from(sorted(MODELS)), st.integers(0, 10**9), st.sampled_from([None, "literal"]))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_forged_file_is_a_proven_model_or_an_error_of_this_package(
    saved: Saved,
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    seed: int,
    executor: str | None,
) -> None:
    path = tmp_path_factory.mktemp("forged") / "model"
    forged(saved[name], random.Random(seed)).written(path)
    try:
        model = ef.load(path) if executor is None else ef.load(path, executor=executor)
    except ExactformerError:
        return
    if hasattr(model, "certificate"):
        assert "proven" in str(model.certificate)
    else:
        assert any(words in str(model) for words in ("stated by the file", "no bound holds"))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_file_sealed_again_without_a_change_loads(
    saved: Saved, tmp_path: Path, name: str
) -> None:
    saved[name].written(tmp_path / "model")
    assert type(ef.load(tmp_path / "model")) is type(MODELS[name]())


def altered(file: File, *place: Any, to: Any) -> File:
    """Return the file with one value of its model replaced."""
    content = json.loads(json.dumps(file.content))
    holder = content["model"]
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = to
    return replace(file, content=content)


ROWS = 3 * 10**8
CLAIMS = {
    "query and key": {
        "blocks.0.attention.heads.0.query": (ROWS, None),
        "blocks.0.attention.heads.0.key": (ROWS, None),
    },
    "units": {
        "blocks.0.feed_forward.w1": (ROWS, None),
        "blocks.0.feed_forward.b1": (ROWS, None),
        "blocks.0.feed_forward.w2": (None, ROWS),
    },
    "tokens": {"embedding.features": (ROWS, None), "embedding.constant": (ROWS, None)},
}


def claiming(file: File, shapes: dict[str, tuple[int | None, int | None]]) -> File:
    content = json.loads(json.dumps(file.content))
    for name, (rows, columns) in shapes.items():
        span = content["matrices"][file.number(name)]
        span[:2] = rows or span[0], columns or span[1]
    return replace(file, content=content)


@pytest.mark.parametrize("claim", sorted(CLAIMS))
@pytest.mark.parametrize("read", [load_blueprint, ef.load, ef.certify])
def test_rows_that_no_entry_supports_are_refused_by_name(
    saved: Saved, tmp_path: Path, claim: str, read: Callable[[Path], object]
) -> None:
    claiming(saved["paper"], CLAIMS[claim]).written(tmp_path / "model")
    with pytest.raises(FileFormatError, match=r"has 300,000,000 rows, of which"):
        read(tmp_path / "model")


def test_a_small_file_cannot_make_much_memory_be_allocated(saved: Saved, tmp_path: Path) -> None:
    """With a gigabyte on top of what importing takes, each of them is refused, none runs out."""
    files = []
    for number, claim in enumerate(CLAIMS.values()):
        claiming(saved["paper"], claim).written(tmp_path / f"claim{number}")
        files.append(str(tmp_path / f"claim{number}"))
    for number, (name, place, value) in enumerate(
        [
            ("compact", ("blueprint", "dim"), 2**70),
            ("compact", ("blueprint", "dim"), 2**30),
            ("compact", ("blueprint", "tokens"), 2**30),
            ("compact", ("grid", "cells"), 2**30),
            ("compact", ("blueprint", "delta"), "1/40000000"),
            ("sines", ("tau",), 2**31 - 1),
            ("sines", ("features", "knots", "pieces"), 2**62),
            ("plane", ("outer", "pieces"), 2**31 - 1),
            ("plane", ("outer", "box"), [["0/1", "1/1"]] * 10**5),
        ]
    ):
        altered(saved[name], *place, to=value).written(tmp_path / f"count{number}")
        files.append(str(tmp_path / f"count{number}"))
    code = (
        "import resource, sys, exactformer as ef, torch\n"
        "ef.compile('x^2', radius=1), ef.compile_sequence, ef.compile_coupling\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + 2**30\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
        "for path in sys.argv[1:]:\n"
        "    try: ef.load(path); print('loaded', path)\n"
        "    except ef.ExactformerError: print('refused')\n"
    )
    if not sys.platform.startswith("linux"):
        pytest.skip("limits on memory are read and set as on Linux")
    output = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == ["refused"] * len(files)


def test_tables_that_entries_support_are_refused_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "model"
    ef.compile("x^3 + y^2 x", radius=1, construction="paper").save(path)
    for read in (ef.load, ef.certify):
        with pytest.raises(SizeError, match=r"the limit is .* memory_limit="):
            read(path, memory_limit=2000)
        read(path, memory_limit=20_000)


def test_dense_weights_count_where_a_module_holds_them(tmp_path: Path) -> None:
    path, model = tmp_path / "model", ef.compile("x^2 + y^2", radius=1, construction="softmax")
    model.save(path)
    size = 8 * sum(matrix.rows * matrix.columns for _, matrix in model.blueprint.matrices())
    with pytest.raises(SizeError, match=r"all matrices together.* memory_limit="):
        ef.load(path, memory_limit=size - 1)
    ef.load(path, memory_limit=size)
    ef.certify(path, memory_limit=size - 1)


def test_blocks_that_square_what_they_squared_are_refused(tmp_path: Path) -> None:
    """Sixty blocks z += z² are a small file, and a polynomial of degree 2^60."""
    blueprint = ef.compile("x", radius=1).blueprint
    w, t = blueprint.width, blueprint.embedding.dimension
    one = Matrix.of(1, w, {(0, t): 1})
    square = Block(
        Attention((Head(one, one, Matrix.of(w, w, {(t, t): 1})),), Selection(Rule.ONE_HOT_MAX)),
        FeedForward(Matrix(0, w, {}), Matrix(0, 1, {}), Matrix(w, 0, {}), Matrix(w, 1, {}), RELU),
    )
    save_blueprint(replace(blueprint, blocks=(square,) * 60), tmp_path / "model")
    for read in (ef.load, ef.certify):
        with pytest.raises(SizeError, match="degree"):
            read(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("scaled", ("metadata",), "target"),
        ("scaled", ("metadata", "heads"), "1" + "0" * 12),
        ("softmax", ("metadata", "heads"), "1" + "0" * 8),
        ("softmax", ("metadata", "span"), "1e999999999"),
        ("scaled", ("readouts",), []),
        ("scaled", ("readouts",), 3),
        ("scaled", ("vector",), 1),
        ("scaled", ("is",), "Block"),
        ("scaled", ("is",), []),
        ("scaled", ("domain", "is"), "Circle"),
        ("scaled", ("other",), 1),
        ("scaled", ("blocks", 0, "attention", "selection", "rule"), "none"),
        ("scaled", ("blocks", 0, "attention", "selection", "temperature"), "0/1"),
        ("scaled", ("blocks", 0, "feed_forward", "w1"), 10**9),
        ("scaled", ("blocks", 0, "feed_forward", "w1"), True),
        ("scaled", ("embedding", "dimension"), 10**6),
        ("scaled", ("degree",), 1.0),
        ("scaled", ("degree",), -1),
        ("scaled", ("degree",), 2**31),
        ("scaled", ("degree",), "1"),
        ("scaled", ("variables",), ["x", "x"]),
        ("scaled", ("variables",), ["x", "\ud800"]),
        ("scaled", ("dimensions",), []),
        ("scaled", ("domain", "radius"), "0/1"),
        ("scaled", ("domain", "radius"), "f" * 100_000 + "/1"),
        ("compact", ("blueprint", "dim"), 2**70),
        ("compact", ("blueprint", "tokens"), 2.0),
        ("compact", ("blueprint", "tokens"), "2"),
        ("compact", ("blueprint", "delta"), "0/1"),
        ("compact", ("blueprint", "delta"), "1/10000000000"),
        ("compact", ("grid", "cells"), 2**40),
        ("compact", ("grid", "dim"), 2),
        ("compact", ("blueprint", "positional"), "false"),
        ("compact", ("blueprint", "positional"), 0),
        ("compact", ("grid", "repeats"), None),
        ("compact", ("grid", "repeats"), True),
        ("compact", ("blueprint", "support"), ["1/1", "0/1"]),
        ("compact", ("blueprint", "support"), ["0/1"]),
        ("compact", ("blueprint", "stages"), []),
        ("compact", ("blueprint", "stages", 0, "parts"), []),
        ("compact", ("blueprint", "stages", 0, "name"), "values"),
        ("compact", ("blueprint", "readout"), -1),
        ("compact", ("blueprint", "largest_key"), "x"),
        ("compact", ("blueprint", "largest_key"), "f" * 100_000),
        ("compact", ("blueprint", "form"), "other"),
        ("softened", ("blueprint", "metadata", "sharpness"), "1e999999999"),
        ("softened", ("blueprint", "metadata", "sharpness"), "0"),
        ("softened", ("blueprint", "metadata", "ramp"), "9" * 4000),
        ("sines", ("tau",), 0),
        ("sines", ("tau",), 2**70),
        ("sines", ("head_dim",), 0),
        ("sines", ("features", "knots", "pieces"), 2**70),
        ("sines", ("features", "knots", "intervals"), [["1/1", "0/1"]]),
        ("sines", ("features", "knots", "intervals"), [["0/1", "2/1"]]),
        ("sines", ("features", "values"), 1),
        ("sines", ("domain",), ["0/1", "1" + "0" * 1000 + "/1"]),
        ("sines", ("outer", "knots", "intervals"), [["0/1", "0/1"]]),
        ("places", ("positions",), ["0/1"] * 3),
        ("plane", ("outer", "box"), [["0/1", "1/1"]] * 9),
        ("sines", ("metadata", "bound"), "{"),
        ("sines", ("metadata", "bound"), "[" * 100_000),
    ],
    ids=str,
)
def test_what_is_out_of_type_or_range_is_refused_on_reading(
    saved: Saved, tmp_path: Path, name: str, place: tuple[Any, ...], value: Any
) -> None:
    altered(saved[name], *place, to=value).written(tmp_path / "model")
    with pytest.raises((FileFormatError, InputError)):
        ef.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["scaled", "compact", "sines"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": NaN}', '{"a": 1, "a": 1}', "nul", "1e400", "9" * 5000, ""]
)
def test_headers_that_are_not_plain_json_are_refused(
    saved: Saved, tmp_path: Path, name: str, text: str
) -> None:
    saved[name].written(tmp_path / "model", text)
    with pytest.raises(FileFormatError):
        ef.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["scaled", "compact", "sines"])
@pytest.mark.parametrize("field", ["seal", "content"])
def test_headers_without_a_field_are_refused(
    saved: Saved, tmp_path: Path, name: str, field: str
) -> None:
    header = {key: text for key, text in saved[name].header().items() if key != field}
    (tmp_path / "model").write_bytes(save(saved[name].tensors, metadata=header))
    with pytest.raises(FileFormatError, match="damaged header"):
        ef.load(tmp_path / "model")


def test_classes_are_counted_without_writing_out_their_number() -> None:
    for n in range(1, 5):
        for d in range(1, 4):
            for cells in range(1, 5):
                for positional in (False, True):
                    for repeats in (False, True):
                        grid = Grid(n, d, cells, positional, repeats)
                        assert grid.size_up_to(10**9) == (None if grid.size > 10**9 else grid.size)
                        if grid.size:
                            assert grid.size_up_to(grid.size) == grid.size
                            assert grid.size_up_to(grid.size - 1) is None
    assert Grid(2**60, 2**60, 2**60).size_up_to(10**9) is None
    assert Grid(2**60, 2**60, 1, positional=True).size_up_to(10**9) == 1


def test_one_class_of_many_equal_columns_is_refused_by_its_size(tmp_path: Path) -> None:
    """40 tokens on 40 cells are one class of different columns, and 10^23 with equal ones."""
    table = {tuple(range(40)): [[0]] * 40}
    grid = Grid(40, 1, 40)
    assert grid.size == 1
    target = GridTable.of(grid, table)
    save_sequence(SEQUENCE_FORMS["compact"](target), target, tmp_path / "model")
    with pytest.raises(SizeError, match="classes, equal columns included"):
        ef.load(tmp_path / "model", executor="exact")


@pytest.mark.parametrize("name", ["compact", "positional", "paper sequence", "four-layer"])
def test_every_shape_of_a_sequence_blueprint_is_checked(
    saved: Saved, tmp_path: Path, name: str
) -> None:
    saved[name].written(tmp_path / "model")
    blueprint, _ = load_sequence(tmp_path / "model")
    check_sequence_shapes(blueprint)
    wrong = Matrix(blueprint.width + 1, blueprint.width + 2, {})
    candidates = [
        replace(blueprint, readout=wrong),
        replace(blueprint, code=wrong),
        replace(blueprint, code=Matrix(1, blueprint.width, {})),
        replace(blueprint, stages=()),
        replace(blueprint, stages=blueprint.stages * 2),
        replace(blueprint, largest_key=-1),
        replace(blueprint, tokens=0),
        replace(blueprint, delta=Fraction(2, 3)),
        replace(blueprint, support=(Fraction(1), Fraction(0))),
        *(
            replace(blueprint, embedding=replace(blueprint.embedding, **{part: wrong}))
            for part in ("features", "constant", "positions")
        ),
    ]
    for s, stage in enumerate(blueprint.stages):
        for p, part in enumerate(stage.parts):
            for changed in _wrong_parts(part, wrong):
                parts = (*stage.parts[:p], changed, *stage.parts[p + 1 :])
                stages = (*blueprint.stages[:s], replace(stage, parts=parts))
                candidates.append(replace(blueprint, stages=stages + blueprint.stages[s + 1 :]))
    assert len(candidates) > 20
    for candidate in candidates:
        with pytest.raises(CertificationError):
            check_sequence_shapes(candidate)


def _wrong_parts(part: Any, wrong: Matrix) -> list[Any]:
    if isinstance(part, Attention):
        head, rest = part.heads[0], part.heads[1:]
        names = [n for n in ("query", "key", "value", "bias") if hasattr(head, n)]
        heads = [replace(part, heads=(replace(head, **{n: wrong}), *rest)) for n in names]
        cold = replace(part, selection=replace(part.selection, temperature=Fraction(0)))
        return [*heads, replace(part, heads=()), cold]
    units = [replace(part, **{name: wrong}) for name in ("w1", "b1", "w2", "b2")]
    return [*units, replace(part, successive=0), replace(part, successive=part.w1.rows + 1)]


def test_positions_in_a_model_without_positions_are_refused(saved: Saved, tmp_path: Path) -> None:
    saved["positional"].written(tmp_path / "model")
    blueprint, _ = load_sequence(tmp_path / "model")
    with pytest.raises(CertificationError, match="is not positional"):
        check_sequence_shapes(replace(blueprint, positional=False))


def test_values_that_overflow_have_no_bound(saved: Saved, tmp_path: Path) -> None:
    """Steps from −10^308 to 10^308 are infinite; the slope of F̂ is no number then, and no bound."""
    for name in ("sines", "plane"):
        file = saved[name]
        for tensor in ("table.0", "table.1"):
            values = file.tensors[tensor].copy()
            values[1], values[2] = -1e308, 1e308
            forged = replace(file, tensors={**file.tensors, tensor: values})
            forged.written(tmp_path / "model")
            with pytest.raises(CertificationError):
                ef.load(tmp_path / "model")


def test_weights_beyond_the_names_of_their_columns_are_named_by_number(
    saved: Saved, tmp_path: Path
) -> None:
    file = altered(saved["scaled"], "variables", to=["x"])
    altered(file, "domain", to={"is": "Ball", "centre": [], "radius": "2/1"}).written(
        tmp_path / "model"
    )
    with pytest.raises(CertificationError, match=r"embedding\.features is"):
        ef.certify(tmp_path / "model", "x^2")
    assert load_blueprint(tmp_path / "model").place("embedding.features", 0, 1).endswith("number 2")
