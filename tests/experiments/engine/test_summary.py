import pytest

from exactformer.errors import ExperimentError
from exactformer.experiments import Cell, Experiment, Quantity, Scale
from exactformer.experiments.engine.reproduce import tasks_of
from exactformer.experiments.engine.summary import summarise
from tests.experiments import toy


def cells(values, **parameters):
    return [
        Cell({"seed": seed, **parameters}, {"error": value}, 1.0, "a processor")
        for seed, value in enumerate(values)
    ]


def summary_of(*quantities, of):
    experiment = Experiment("one", "", "", "", lambda scale: [], toy.run, quantities)
    return summarise(experiment, Scale.FULL, of)


def test_mean_and_spread_are_over_seeds():
    row = summary_of(Quantity("e", "error", {}, expected=4.0), of=cells([1.0, 2.0, 3.0])).row("e")
    assert (row.mean, row.spread, row.ratio) == (2.0, 1.0, 0.5)


def test_a_cell_may_hold_several_seeds():
    of = cells([[1.0, 2.0, 6.0]])
    row = summary_of(Quantity("error", "error", {}), of=of).row("error")
    assert row.values == (1.0, 2.0, 6.0)
    assert row.mean == 3.0
    doubled = Quantity("twice", lambda c: [2 * v for v in c[0].metrics["error"]], {})
    assert summary_of(doubled, of=of).row("twice").values == (2.0, 4.0, 12.0)


def test_one_seed_shows_no_spread():
    assert summary_of(Quantity("e", "error", {}), of=cells([1.0])).row("e").spread is None


def test_a_metric_may_be_a_function_of_a_seeds_cells():
    sweep = cells([1.0, 2.0], size=1) + cells([10.0, 20.0], size=2)
    growth = Quantity(
        "growth", lambda of_seed: of_seed[1].metrics["error"] / of_seed[0].metrics["error"], {}
    )
    assert summary_of(growth, of=sweep).row("growth").values == (10.0, 10.0)


def test_cells_are_selected_by_their_parameters():
    summary = summary_of(
        Quantity("a", "error", {"model": "a", "layers": (2, 3)}),
        of=cells([1.0], model="a", layers=[2, 3]) + cells([5.0], model="b", layers=[2, 3]),
    )
    assert summary["a"] == 1.0
    assert [cell.metrics["error"] for cell in summary.select(model="b")] == [5.0]


def test_one_cell_is_exactly_one():
    summary = summary_of(of=cells([1.0, 2.0], model="a") + cells([5.0], model="b"))
    assert summary.cell(model="b").metrics["error"] == 5.0
    for model in ("a", "c"):
        with pytest.raises(ValueError, match="values to unpack"):
            summary.cell(model=model)


LEAST = 1.5


def test_what_holds_of_every_cell_holds_of_one_at_least():
    summary = summary_of(of=cells([1.0, 2.0], model="a") + cells([5.0], model="b"))
    assert summary.every("", "error >= 1")
    assert summary.every("model == 'b'", "error > @LEAST")
    assert not summary.every("model == 'a'", "error > @LEAST")
    assert not summary.every("model == 'c'", "error > @LEAST")


@pytest.mark.parametrize(
    ("quantities", "complaint"),
    [
        ([Quantity("e", "error", {"model": "c"})], "selects no cell"),
        ([Quantity("e", "error", {})], "selects several cells of one seed"),
        ([Quantity("e", "error", {"model": "a"})] * 2, "several rows called 'e'"),
    ],
)
def test_a_row_that_cannot_be_filled_is_refused_before_any_cell_runs(quantities, complaint):
    grid = [{"seed": 0, "model": "a"}, {"seed": 0, "model": "b"}]
    experiment = Experiment("one", "", "", "", lambda scale: grid, toy.run, tuple(quantities))
    with pytest.raises(ExperimentError, match=complaint):
        tasks_of(experiment, Scale.SMOKE, "cpu")


def test_a_metric_that_no_cell_has_is_named():
    with pytest.raises(ExperimentError, match="wants the metric 'loss'; the cell has error"):
        summary_of(Quantity("e", "loss", {}), of=cells([1.0]))


def test_asking_for_a_row_that_is_not_there_names_those_that_are():
    summary = summary_of(Quantity("train", "error", {}), of=cells([1.0]))
    with pytest.raises(ExperimentError, match="'test'; there are 'train'"):
        summary["test"]


@pytest.mark.parametrize("name", ["", "Fang", "../up", "a b", "a--b", "-a", "é"])
def test_a_name_that_is_no_safe_file_name_is_refused(name):
    with pytest.raises(ExperimentError, match="cannot name an experiment"):
        toy.toy(name=name)
