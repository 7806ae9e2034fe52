"""What is checked in float64 before a sequence model is handed out, and what a file may hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, InputError, SizeError
from exactformer.sequences import compile as sequences
from exactformer.sequences import floats
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.files import save_sequence
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from exactformer.sequences.proof.lookups import every_class
from exactformer.sequences.run.literal import LiteralSequence
from tests.cases.sequences import FORMS, grid, random_table, softened


def identity(x: Any) -> Any:
    return x


def compiled(form: str = "compact", **options: Any) -> Any:
    arguments = {"tokens": 2, "dim": 1, "delta": Fraction(1, 3), "form": form, **options}
    make = softened if arguments.pop("soft", False) else ef.compile_sequence
    return make(arguments.pop("f", identity), **arguments)


class Spy:
    """Takes the place of a comparison and keeps its tolerances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tolerances: list[float] = []
        monkeypatch.setattr(floats, "_compare", self.compare)

    def compare(self, model: Any, classes: Any, run: Any, tolerance: float) -> None:
        assert len(classes) == len(every_class(model.table.grid))
        assert (run is model) == bool(self.tolerances)
        assert (run is model.sweeps) == (not self.tolerances)
        self.tolerances.append(tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_layers_may_be_off_by_their_roundings(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(form, executor="literal")
    spy = Spy(monkeypatch)
    unknown = SimpleNamespace(plain_floats=False, softness=None)
    parts = {name: getattr(model, name) for name in ("sweeps", "table", "blueprint", "executor")}
    floats.check_floats(SimpleNamespace(certificate=unknown, **parts))  # type: ignore[arg-type]
    rounding = literal_rounding_of(model.blueprint, model.table)
    assert (rounding > 0) == (form == "paper")
    assert spy.tolerances == [0.0, rounding]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({"executor": "literal", "form": "paper"}, True),
        ({"executor": "literal", "form": "paper", "delta": "1/4"}, True),
        ({"executor": "fused", "form": "paper"}, False),
        ({"executor": "literal", "form": "compact"}, False),
        ({"executor": "literal", "soft": True, "form": "paper"}, False),
    ],
)
def test_classes_are_run_where_layers_are_not_known_to_be_exact(
    options: dict[str, Any], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = compiled(**options)
    work = len(every_class(model.table.grid)) * model.blueprint.counts().depth
    for most in (work, work - 1):
        monkeypatch.setattr(floats, "MOST_RUNS", most if runs else 0)
        if runs and most < work:
            with pytest.raises(SizeError, match=f"{work:,} in all"):
                compiled(**options)
        else:
            compiled(**options)


def test_up_to_two_to_the_twenty_seven_layers_and_classes_are_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixteen classes, 2^23 layers each, are the most."""
    unknown = SimpleNamespace(plain_floats=False, softness=None)
    table = SimpleNamespace(grid=Grid(2, 1, 4, positional=True))
    monkeypatch.setattr(floats, "_compare", lambda *arguments: None)
    for name in ("literal_rounding_of", "_check_quantiser"):
        monkeypatch.setattr(floats, name, lambda *arguments: 0.0)
    for more in (0, 1):
        model: Any = SimpleNamespace(
            sweeps=identity,
            table=table,
            executor="literal",
            certificate=unknown,
            blueprint=SimpleNamespace(stages=[range(2**22), range(2**22 + more)]),
        )
        if more:
            with pytest.raises(SizeError, match="134,217,744 in all; the limit is 134,217,728"):
                floats.check_floats(model)
        else:
            floats.check_floats(model)


@pytest.mark.parametrize("plain_floats", [False, True])
def test_the_layers_of_a_softened_model_are_not_compared_with_its_limit(
    plain_floats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    monkeypatch.setattr(floats, "_check_quantiser", None)
    model: Any = SimpleNamespace(
        sweeps=identity,
        table=SimpleNamespace(grid=grid((1, 2, 4), "compact")),
        executor="literal",
        certificate=SimpleNamespace(plain_floats=plain_floats, softness="some"),
        blueprint=SimpleNamespace(stages=[]),
    )
    floats.check_floats(model)
    assert spy.tolerances == [0.0]


@pytest.mark.parametrize("wrong", [1e-9, float("nan"), -1e-9])
def test_one_wrong_entry_of_one_class_is_named(wrong: float) -> None:
    model = ef.compile_sequence(identity, tokens=3, dim=2, delta="1/2", form="compact")
    classes = every_class(model.table.grid)
    for place in ((5, 0, 1), (17, 2, 0), (11, 1, 1)):

        def run(x: torch.Tensor, place: tuple[int, ...] = place) -> torch.Tensor:
            values = model.sweeps(x)
            values[place] += wrong
            return values

        named = str(tuple(classes[place[0]].tolist()))
        for tolerance in (0.0, 5e-10):
            with pytest.raises(CertificationError) as caught:
                floats._compare(model, classes, run, tolerance)
            assert f"the class {named} does" in str(caught.value)
            cause = "all roundings of its layers add up to 5e-10" if tolerance else "too narrow"
            assert cause in str(caught.value)
    floats._compare(model, classes, model.sweeps, 0.0)
    with pytest.raises(CertificationError):
        floats._compare(model, classes, lambda x: model.sweeps(x) + 2.0**-20, 2.0**-21)
    floats._compare(model, classes, lambda x: model.sweeps(x) + 2.0**-20, 2.0**-20)


@pytest.mark.spread(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("delta", ["1/2", "1/3"])
def test_a_quantiser_rounds_once_in_every_row_that_is_read(
    form: str, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ef.compile_sequence(identity, tokens=2, dim=2, delta=delta, form=form)
    floats._check_quantiser(model)
    changed: list[tuple[int, int, int]] = []

    class Changed(LiteralSequence):
        def forward(self, x: torch.Tensor, record: Any = None) -> torch.Tensor:
            def keep(name: str, stream: torch.Tensor) -> None:
                if name == f"quantise {len(model.blueprint.stages[0])}":
                    for place in changed:
                        stream[place] += 2.0**-40
                record(name, stream)

            return super().forward(x, keep)

    monkeypatch.setattr(floats, "LiteralSequence", Changed)
    floats._check_quantiser(model)
    # Four layers leave the coordinates as they were, and read them no more.
    free = {0, 1} if form == "four-layer" else set()
    for row in range(model.blueprint.width):
        changed[:] = [(3, 1, row)]
        if row in free:
            floats._check_quantiser(model)
            continue
        with pytest.raises(CertificationError, match="its number"):
            floats._check_quantiser(model)


@pytest.mark.parametrize("form", FORMS)
def test_layers_need_their_quantiser_even_where_they_are_exact_beyond_it(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = compiled(form, executor="literal")
    assert model.certificate.plain_floats == (form != "paper")
    floats.check_floats(model)

    def refuse(checked: Any) -> None:
        assert checked is model
        raise CertificationError("the quantiser")

    monkeypatch.setattr(floats, "_check_quantiser", refuse)
    with pytest.raises(CertificationError, match="the quantiser"):
        floats.check_floats(model)


def test_a_model_without_floats_is_not_compared_in_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    table = SimpleNamespace(grid=grid((1, 2, 4), "compact"))
    floats.check_floats(SimpleNamespace(sweeps=None, table=table))  # type: ignore[arg-type]
    assert spy.tolerances == []


def stored(path: Path, soft: bool = False, **changes: Any) -> Path:
    """Write a file of two tokens on four cells, with some names in it changed."""
    table = random_table(grid((1, 2, 4), "compact"))
    blueprint = SEQUENCE_FORMS["compact"](table)
    if soft:
        blueprint = soften(blueprint, table, Fraction(10**4), 4)
    save_sequence(replace(blueprint, **changes), table, path / "file.safetensors")
    return path / "file.safetensors"


@pytest.mark.parametrize("soft", [False, True])
def test_files_of_unknown_kinds_are_refused(soft: bool, tmp_path: Path) -> None:
    ef.load(stored(tmp_path, soft))
    with pytest.raises(InputError, match="form='short'; choose"):
        ef.load(stored(tmp_path, soft, form="short"))
    with pytest.raises(InputError, match="realisation='tanh'; choose"):
        ef.load(stored(tmp_path, soft, realisation="tanh"))


@pytest.mark.parametrize("soft", [False, True])
def test_what_to_do_outside_is_checked_before_a_file_is_proven(
    soft: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(tmp_path, soft)
    monkeypatch.setattr(sequences, "certify_sequence", None)
    monkeypatch.setattr(sequences, "prove_softened", None)
    with pytest.raises(InputError, match="outside='clip'; choose"):
        sequences.load_sequence_model(path, outside="clip")


@pytest.mark.parametrize("soft", [False, True])
def test_files_that_do_not_fit_are_refused_before_anything_is_built(
    soft: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(tmp_path, soft)
    monkeypatch.setattr(sequences, "certify_sequence", None)
    monkeypatch.setattr(sequences, "prove_softened", None)
    with pytest.raises(SizeError, match="memory_limit"):
        sequences.load_sequence_model(path, memory_limit=1000)


@pytest.mark.parametrize("executor", [None, "fused", "literal", "exact"])
def test_the_sizes_of_a_file_are_those_of_its_executor(
    executor: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(where: Grid, form: str, exact_only: bool) -> None:
        assert (where, form, exact_only) == (Grid(2, 1, 4), "compact", executor == "exact")
        raise SizeError("too large")

    monkeypatch.setattr(sequences, "check_sequence_size", refuse)
    with pytest.raises(SizeError, match="too large"):
        ef.load(stored(tmp_path), executor=executor)


@pytest.mark.parametrize("soft", [False, True])
def test_files_whose_cells_floats_cannot_tell_apart_are_refused(soft: bool, tmp_path: Path) -> None:
    """Half the cells of [10^16, 10^16 + 4) begin at odd numbers, which are no floats."""
    where = replace(grid((1, 2, 4), "compact"), support=(Fraction(10**16), Fraction(10**16 + 4)))
    table = random_table(where)
    blueprint = SEQUENCE_FORMS["compact"](table)
    if soft:
        blueprint = soften(blueprint, table, Fraction(10**4), 4)
    path = tmp_path / "far.safetensors"
    save_sequence(blueprint, table, path)
    with pytest.raises(CertificationError, match="in float64"):
        ef.load(path)


@pytest.mark.parametrize("soft", [False, True])
def test_models_go_to_the_device_that_is_asked_for(soft: bool, tmp_path: Path) -> None:
    path = stored(tmp_path, soft)
    for device, kind in ((None, "cpu"), ("meta", "meta")):
        for model in (compiled(device=device), ef.load(path, device=device)):
            assert {b.device.type for b in model.buffers()} == {kind}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "quick"}, "executor='quick'; choose"),
        ({"tokens": 2.0}, "tokens must be a positive integer"),
        ({"delta": 0}, "1/N"),
        ({"delta": "-1/3"}, "1/N"),
        ({"f": None}, "a function or a table, not NoneType"),
        ({"outside": "allow"}, "outside='zero'"),
        ({"outside": "clip"}, "outside='clip'; choose"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        compiled(**options)


def test_an_unknown_executor_of_a_softened_model_is_refused() -> None:
    with pytest.raises(InputError, match="executor='quick'; choose"):
        compiled().softened(executor="quick")


@contextmanager
def flushed(flush: bool) -> Iterator[None]:
    """Let numbers below the normal ones be taken for zero."""
    if not torch.set_flush_denormal(flush) and flush:
        pytest.skip("this processor cannot flush")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


POWERS = (-1100, -1074, -1023, -1022, -1021, -600, -290, 290, 600, 1021, 1022, 1023)


@pytest.mark.parametrize("executor", ["fused", "literal", "exact"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scaled", ["values", "support"])
@pytest.mark.parametrize("proven", [False, True])
def test_models_are_what_they_are_certified_to_be_where_numbers_are_flushed(
    scaled: str, form: str, executor: str, proven: bool
) -> None:
    """Values, or the side of the support, are powers of two; two cells, whose edges are too."""
    handed_out = set()
    for power in POWERS:
        size = Fraction(2) ** power
        value, side = (size, Fraction(1)) if scaled == "values" else (Fraction(1), size)
        support = (Fraction(0), side)
        where = Grid(2, 1, 2, False, repeats=form == "four-layer", support=support)
        values = {ids: [[value * (k % 2)] for k in ids] for ids in where.classes()}
        table = GridTable.of(where, values)
        x = [[float(side / 4)], [float(side * 3 / 4)]]
        try:
            with flushed(proven):
                model = sequences.prove_sequence(SEQUENCE_FORMS[form](table), table, executor)
        except (CertificationError, SizeError):
            continue
        handed_out.add(power)
        allowed = Fraction(model.certificate.rounding[executor])
        for run in (False, True):
            with flushed(run):
                found = model(x).flatten().tolist()
            for got, wanted in zip(found, (0, value), strict=True):
                assert abs(Fraction(got) - wanted) <= allowed
    fits = {power for power in POWERS if scaled == "values" or power >= -1021}
    if form == "paper" and scaled == "values":
        fits = {power for power in fits if power < 0}  # keys are larger than values
    if executor != "literal":
        assert handed_out >= fits
    else:
        assert handed_out >= fits & {-290, 290}


@pytest.mark.parametrize("low", [Fraction(1, 2**1023), -Fraction(1, 2**1074), Fraction(1, 2**1100)])
@pytest.mark.parametrize("executor", ["fused", "exact"])
def test_an_edge_that_may_be_read_as_zero_is_refused(low: Fraction, executor: str) -> None:
    options = {"tokens": 1, "dim": 1, "delta": "1/2", "executor": executor}
    with pytest.raises(CertificationError, match="an edge of a cell is below the normal numbers"):
        ef.compile_sequence(lambda X: 0 * X, support=(low, 1), **options)
    for good in (Fraction(0), Fraction(1, 2**1022), -Fraction(1, 2**1022)):
        ef.compile_sequence(lambda X: 0 * X, support=(good, 1), **options)


@pytest.mark.parametrize("name", ["w1", "b1", "w2", "breaks", "features", "constant", "positions"])
@pytest.mark.parametrize("bits", [300, 301, 1000])
def test_numbers_of_a_quantiser_that_may_underflow_are_refused(name: str, bits: int) -> None:
    model = compiled("four-layer", delta="1/4", executor="literal")
    blueprint, small = model.blueprint, Fraction(1, 2**bits)
    layer = blueprint.stages[0].parts[0]
    if name == "breaks":
        activation = replace(layer.activation, breaks=(-small,))
        layer = replace(layer, activation=activation)
    elif name in ("w1", "b1", "w2"):
        matrix = getattr(layer, name)
        changed = Matrix.of(*matrix.shape, {**matrix.entries, (matrix.rows - 1, 0): small})
        layer = replace(layer, **{name: changed})
    else:
        matrix = getattr(blueprint.embedding, name)
        row = 0 if name == "features" else matrix.rows - 1
        changed = Matrix.of(*matrix.shape, {**matrix.entries, (row, 0): small})
        embedding = replace(blueprint.embedding, **{name: changed})
        blueprint = replace(blueprint, embedding=embedding)
    first = replace(blueprint.stages[0], parts=(layer,))
    altered: Any = SimpleNamespace(
        blueprint=replace(blueprint, stages=(first, *blueprint.stages[1:])), table=model.table
    )
    if bits == 300 and name != "features":  # a coordinate times this is smaller
        floats._check_sizes(altered)
    else:
        with pytest.raises(CertificationError, match=r"numbers of the quantiser below 2.-300"):
            floats._check_sizes(altered)


def test_centres_that_may_underflow_are_refused() -> None:
    model = compiled("four-layer", delta="1/4", executor="literal")
    for end, good in ((Fraction(1, 2**297), True), (Fraction(1, 2**298), False)):
        where = replace(model.table.grid, support=(Fraction(0), end))
        altered: Any = SimpleNamespace(
            blueprint=model.blueprint, table=SimpleNamespace(grid=where, values={})
        )
        if good:  # the first centre is an eighth of the support
            floats._check_sizes(altered)
        else:
            with pytest.raises(CertificationError, match=r"numbers of the quantiser below 2.-300"):
                floats._check_sizes(altered)


def test_what_a_unit_reads_halfway_through_a_cell_may_not_underflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3·(1 + 2)/2 − 9/2 is 0 and may be, but nothing that is nearly so."""
    model = compiled("four-layer", delta="1/4", executor="literal")
    for rest, good in ((0, True), (Fraction(1, 2**300), True), (Fraction(1, 2**301), False)):
        line = Fraction(3), rest - Fraction(9, 2)
        visit = SimpleNamespace(line=line, low=Fraction(1), high=Fraction(2))
        monkeypatch.setattr(floats, "visits", lambda _, visit=visit: [visit])
        if good:
            floats._check_sizes(model)
        else:
            with pytest.raises(CertificationError, match=r"numbers of the quantiser below 2.-300"):
                floats._check_sizes(model)


@pytest.mark.parametrize("form", FORMS)
def test_layers_on_a_support_that_may_underflow_are_refused(form: str) -> None:
    """Each centre would come out as its number, as long as nothing is taken for zero."""
    options: Any = {"tokens": 2, "dim": 1, "delta": "1/2", "form": form, "executor": "literal"}
    ef.compile_sequence({}, support=(0, Fraction(1, 2**290)), **options)
    with pytest.raises(CertificationError, match=r"numbers of the quantiser below 2.-300"):
        ef.compile_sequence({}, support=(0, Fraction(1, 2**310)), **options)


def test_numbers_beyond_floats_are_errors_of_the_package() -> None:
    far = Fraction(10) ** 400
    options: Any = {"tokens": 1, "dim": 1, "delta": "1/2"}
    for executor in ("fused", "literal", "exact"):
        with pytest.raises(CertificationError, match="beyond float64"):
            ef.compile_sequence({(0,): [[far]]}, executor=executor, **options)
    for support in ((0, far), (-far, 0)):
        with pytest.raises(InputError, match="support must lie between numbers of float64"):
            ef.compile_sequence(lambda X: X, support=support, **options)
    model = compiled("four-layer")
    layer = model.blueprint.stages[0].parts[0]
    for activation in (
        replace(layer.activation, breaks=(far,)),
        replace(layer.activation, pieces=((Fraction(0), Fraction(0)), (far, Fraction(0)))),
    ):
        first = replace(model.blueprint.stages[0], parts=(replace(layer, activation=activation),))
        with pytest.raises(CertificationError, match=r"quantise: .* is beyond float64"):
            LiteralSequence(replace(model.blueprint, stages=(first, *model.blueprint.stages[1:])))
