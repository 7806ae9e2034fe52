import json
import os
import signal

import numpy as np
import pandas as pd
import pytest

from exactformer.errors import FileFormatError, InputError
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.sample import DependentColumnsWarning
from exactformer.learning.laws.streamed import blocks as blocks_module
from exactformer.learning.laws.streamed import solver as solver_module
from exactformer.learning.laws.streamed.blocks import ArrayBlocks, BlockWriter
from tests.cli.test_fit import run
from tests.learning.laws.test_diagnosis import wave

pytestmark = pytest.mark.filterwarnings("ignore::exactformer.learning.laws.diagnosis.LawWarning")
dask_array = pytest.importorskip("dask.array")
GENERATOR = np.random.default_rng(0)
NORMAL = GENERATOR.normal(size=(3000, 3))
EXPONENTIAL = GENERATOR.exponential(size=(3000, 2)) + 1950
DIGITS = GENERATOR.integers(0, 3, size=(3000, 2)).astype(float)
NOISE = GENERATOR.normal(size=3000)
SHORT = np.tanh(NORMAL[:600, :1])
# The half-circle x2 = √(4 − x1²) has a law of its own, and one row is far from all others.
CIRCLE = np.column_stack([DIGITS[:, 0], np.sqrt(4 - DIGITS[:, 0] ** 2), NORMAL[:, 0]])
FAR_ROW = np.column_stack([np.where(np.arange(3000) == 1000, 1e4, NORMAL[:, 0]), NORMAL[:, 1]])
HEAVY = np.random.default_rng(5).standard_t(3, size=(600, 1))
CASES = {
    "noisy": (NORMAL, NORMAL[:, 0] ** 2 - NORMAL[:, 1] * NORMAL[:, 2] + 0.1 * NOISE, 3),
    "exact": (NORMAL, NORMAL[:, 0] ** 3 / 3 - NORMAL[:, 2] / 7, "auto"),
    "far": (EXPONENTIAL, (EXPONENTIAL[:, 0] - 1950) ** 2 + 0.01 * NOISE, 4),
    "few values": (DIGITS, DIGITS[:, 0] * DIGITS[:, 1] + 0.5 * NOISE, 4),
    "unequal noise": (NORMAL, NORMAL[:, 0] + NORMAL[:, 1] ** 2 * NOISE, 3),
    "nothing": (NORMAL, NOISE, 2),
    "too small to matter": (NORMAL, NORMAL[:, 0] + 1e-4 * NORMAL[:, 1] + 1e-6 * NOISE, 2),
    "growing degree": (SHORT, SHORT[:, 0] ** 9 + 1e-3 * NOISE[:600], "auto"),
    "disputed": (*wave(0), 10),
    "dependent powers": (CIRCLE, CIRCLE[:, 0] + CIRCLE[:, 1] * CIRCLE[:, 2] + 0.1 * NOISE, 4),
    "one row far away": (FAR_ROW, FAR_ROW[:, 0] + FAR_ROW[:, 1] ** 2 + 0.1 * NOISE, 3),
    "heavy tails": (HEAVY, HEAVY[:, 0] ** 2 + 1e3 + 0.1 * NOISE[:600], 12),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks_module, "ROWS", 512)


def in_memory(X, y, degree):
    return PolynomialAttentionRegressor(degree).fit(X, y)


def agree(one, two):
    """Standard errors agree to a millionth, and what is computed of them as far as that goes.

    They have no more digits: a row's residual is divided by 1 − h, which may be small. In the wave
    it is 4e-4, and those of memory and of passes are both within 2e-7 of 60-digit arithmetic's.
    """
    assert list(one.term) == list(two.term)
    error, share = two.standard_error, 1e-6
    t = two.coefficient / error.where(error > 0, np.inf)
    within = {
        "coefficient": 1e-9 * two.coefficient.abs(),
        "standard_error": share * error,
        "lower": 3 * share * error,
        "upper": 3 * share * error,
        "p_value": share * (1 + t**2) * two.p_value,
    }
    for name, tolerance in within.items():
        gap = (one[name] - two[name]).abs()
        assert ((gap <= tolerance + 1e-13) | (one[name].isna() & two[name].isna())).all(), name


@pytest.mark.filterwarnings("ignore::exactformer.learning.laws.sample.DependentColumnsWarning")
@pytest.mark.parametrize("few", [300, 0])
@pytest.mark.parametrize("case", CASES)
def test_the_law_is_that_of_memory_to_the_last_printed_digit(case, few, monkeypatch):
    monkeypatch.setattr(solver_module, "_FEW_TERMS", few)
    X, y, degree = CASES[case]
    here = in_memory(X, y, degree)
    there = PolynomialAttentionRegressor(degree).fit_blocks(ArrayBlocks(X, y[:, None]), None, True)
    assert there.formula_ == here.formula_
    assert there.degree_ == here.degree_
    agree(there.coef_table_, here.coef_table_)
    np.testing.assert_array_equal(there.box_, here.box_)
    assert there.r2_ == pytest.approx(here.r2_, abs=1e-12)
    assert there.noise_ == pytest.approx(here.noise_, rel=1e-9, abs=1e-14)
    assert there.intercept_ == pytest.approx(here.intercept_)
    assert [*map(set, there.aliases_)] == [
        *map(set, here.aliases_)
    ]  # equally strong ones have no order
    balance = [note for note in here.notes_ if note.startswith(("kept", "significant", "degree"))]
    assert set(balance) <= set(there.notes_)
    if case == "disputed":
        assert any(note.startswith("kept because most rows") for note in balance)


def test_no_bit_depends_on_how_the_rows_are_cut():
    X, y, degree = CASES["noisy"]
    found = []
    for size in (300, 777):
        law = PolynomialAttentionRegressor(degree).fit(
            dask_array.from_array(X, chunks=(size, 2)), dask_array.from_array(y, chunks=size // 2)
        )
        found.append(law.polynomial_)
    assert len(set(map(str, found))) == 1
    whole = PolynomialAttentionRegressor(degree).fit_blocks(ArrayBlocks(X, y[:, None]), None, True)
    assert whole.polynomial_ == found[0]


@pytest.mark.slow
def test_data_frames_keep_their_names():
    frames = pytest.importorskip("dask.dataframe")
    X, y, _ = CASES["noisy"]
    table = pd.DataFrame(X, columns=["a", "b", "c (m)"]).assign(y=y, z=2 * X[:, 0])
    dask = frames.from_pandas(table, npartitions=7)
    law = PolynomialAttentionRegressor(2).fit(dask[["a", "b", "c (m)"]], dask[["y", "z"]])
    assert law.renamed_ == {"c_m": "c (m)"}
    assert law.formula_[1] == "2 a"
    assert law.predict(table[["a", "b", "c (m)"]]).shape == (3000, 2)
    assert law.model_.outputs == ("y", "z")
    one = PolynomialAttentionRegressor(2).fit(dask[["a", "b", "c (m)"]], dask["y"])
    assert one.formula_ == law.formula_[0]


def test_related_and_constant_columns_are_named():
    X, y, _ = CASES["noisy"]
    wide = np.column_stack([X, X[:, 0] - 2 * X[:, 1] + 1, np.full(len(X), 4.0)])
    with pytest.warns(DependentColumnsWarning):
        here = in_memory(wide, y, 2)
    with pytest.warns(DependentColumnsWarning):
        there = PolynomialAttentionRegressor(2).fit_blocks(
            ArrayBlocks(wide, y[:, None]), None, True
        )
    assert there.unused_ == here.unused_
    assert there.formula_ == here.formula_


@pytest.mark.filterwarnings("ignore::exactformer.learning.laws.sample.DependentColumnsWarning")
def test_too_few_different_rows_show_no_relation():
    few = np.array([[0.0, 1.0, 5.0], [1.0, 3.0, 2.0], [2.0, 5.0, 9.0]])
    X = few[np.random.default_rng(3).integers(0, 3, size=2000)]
    y = X[:, 0] + 0.1 * NOISE[:2000]
    here = in_memory(X, y, 1)
    there = PolynomialAttentionRegressor(1).fit_blocks(ArrayBlocks(X, y[:, None]), None, True)
    assert there.unused_ == here.unused_
    assert there.formula_ == here.formula_


def test_blocks_on_disk_are_the_rows(tmp_path):
    numbers = np.arange(1300 * 3, dtype=float).reshape(1300, 3)
    writer = BlockWriter(tmp_path, 2, 1)
    for piece in np.split(numbers, [1, 7, 600, 1299]):
        writer.write(piece)
    blocks = writer.finished(False)
    assert blocks.count == 3
    read = list(blocks.map("reading", lambda block: np.column_stack([block.X, block.Y])))
    assert [len(piece) for piece in read] == [512, 512, 276]
    np.testing.assert_array_equal(np.concatenate(read), numbers)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_gives_the_law_of_one_table(tmp_path, kind):
    X, y, _ = CASES["noisy"]
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    table.loc[[5, 2000], "b"] = None
    folder = tmp_path / "parts"
    folder.mkdir()
    for place, rows in enumerate(np.array_split(np.arange(len(table)), 4)):
        piece = table.iloc[rows]
        name = folder / f"part-{place}.{kind}"
        piece.to_csv(name, index=False) if kind == "csv" else piece.to_parquet(name)
    table.to_csv(tmp_path / "all.csv", index=False)
    options = ("-t", "y", "--degree", "3", "--missing", "drop", "--json")
    parts = json.loads(run(folder, *options))
    whole = json.loads(run(tmp_path / "all.csv", *options))
    assert (parts["formula"], parts["rows"]) == (whole["formula"], 2998)
    assert parts["notes"][0] == "2 of 3,000 rows have a missing value and are left out"
    with pytest.raises(InputError, match=r"part-0.*column 'b' has 1 missing.*row 6"):
        run(folder, "-t", "y")
    if kind == "csv":
        small = ("--memory-limit", "0.0001", "--degree", "2")
        assert "3,000 rows" in run(folder, *options[:2], *small, "--columns", "a,c")
        assert "2,998 rows" in run(tmp_path / "all.csv", *options[:2], *small, *options[4:6])
        (folder / "readme.txt").write_text("what is this?")
        with pytest.raises(FileFormatError, match=r"nothing else; it has part-0.csv, .*readme.txt"):
            run(folder, "-t", "y")


def test_progress_has_rows_per_second_and_the_time_left(capsys, monkeypatch):
    seconds = iter(range(0, 10**6, 11))
    monkeypatch.setattr("exactformer.progress.monotonic", lambda: next(seconds))
    monkeypatch.setattr(blocks_module, "monotonic", lambda: next(seconds))
    X, y, _ = CASES["noisy"]
    law = PolynomialAttentionRegressor(1)
    law.fit_blocks(ArrayBlocks(X, y[:, None], verbose=True), None, True)
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("ranges and moments: 512 of 3000 rows, ")
    assert "rows/s, about" in first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": lambda y: y.compute()}, "y is not a Dask collection"),
        ({"y": lambda y: y[:10]}, "one target per row"),
        ({"X": lambda X: X.map_blocks(lambda b: np.where(b > 2.9, np.nan, b))}, r"row \d+, column"),
        ({"X": lambda X: dask_array.ma.masked_greater(X, 2.9)}, r"row \d+, column \d of X is nan"),
        ({"X": lambda X: X + 1j}, "rows of X from 1 on are not all numbers: they are complex"),
        ({"y": lambda y: y + 1j}, "rows of y from 1 on are not all numbers: they are complex"),
        (
            {"X": lambda X: X.map_blocks(lambda b: np.where(b > 2.9, "far", "near"))},
            "not all numbers",
        ),
        ({"X": lambda X: X.map_blocks(lambda b: b[1:])}, "promise 512"),
        ({"X": lambda X: X[:1], "y": lambda y: y[:1]}, "at least two rows; there are 1"),
        ({"X": lambda X: X[:0], "y": lambda y: y[:0]}, "at least two rows; there are 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, message):
    X, y, _ = CASES["noisy"]
    given = {
        "X": dask_array.from_array(X, chunks=(500, 3)),
        "y": dask_array.from_array(y, chunks=99),
    }
    given |= {name: alter(given[name]) for name, alter in change.items()}
    with pytest.raises(InputError, match=message):
        PolynomialAttentionRegressor(2).fit(given["X"], given["y"])


def test_random_rows_without_a_fixed_seed_are_refused():
    X, y, _ = CASES["noisy"]
    drawn = dask_array.from_array(X, chunks=(500, 3)).map_blocks(
        lambda block: np.random.default_rng().normal(size=block.shape)
    )
    with pytest.raises(InputError, match="rows 1 to 512 are not those of an earlier pass"):
        PolynomialAttentionRegressor(2).fit(drawn, dask_array.from_array(y, chunks=500))
    fixed = dask_array.random.default_rng().normal(size=(3000, 3), chunks=(500, 3))
    PolynomialAttentionRegressor(2).fit(fixed, dask_array.from_array(y, chunks=500))


def edited(X, y):
    X[2999, 1] = np.nextafter(X[2999, 1], np.inf)


def turned(X, y):
    y *= -1


def shuffled(X, y):
    y[:] = y[::-1].copy()


def rolled(X, y):
    X[512:1024] = np.roll(X[512:1024], 100, axis=0)


@pytest.mark.parametrize("change", [edited, turned, shuffled, rolled])
def test_rows_that_change_between_passes_are_refused(change):
    X, y, _ = CASES["noisy"]
    X, y = X.copy(), y[:, None].copy()

    class Changing(ArrayBlocks):
        def map(self, what, function, *arguments):
            yield from super().map(what, function, *arguments)
            if what == "ranges and moments":
                change(X, y)

    with pytest.raises(InputError, match="not those of an earlier pass"):
        PolynomialAttentionRegressor(2).fit_blocks(Changing(X, y), None, True)


def test_what_needs_residuals_by_row_is_absent_after_blocks():
    X, y, _ = CASES["noisy"]
    law = PolynomialAttentionRegressor(2).fit(X, y)
    assert law.outliers_ is not None
    law.fit(dask_array.from_array(X), dask_array.from_array(y))
    assert not hasattr(law, "outliers_")
    assert any("residuals were not looked at" in note for note in law.notes_)
    with pytest.raises(InputError, match="without a path"):
        law.path_  # noqa: B018
    with pytest.raises(InputError, match="without a path"):
        law.plot_path()


def test_what_blocks_cannot_do_is_refused():
    X, y, _ = CASES["noisy"]
    dask = dask_array.from_array(X), dask_array.from_array(y)
    refused = {
        "solver": "least-squares",
        "purpose": "prediction",
        "loss": "huber",
        "features": ["sin"],
    }
    for name, value in refused.items():
        with pytest.raises(InputError, match=f"{name}=.* come in blocks. Leave {name}="):
            PolynomialAttentionRegressor(2, **{name: value}).fit(*dask)
    with pytest.raises(InputError, match="directions=3 needs all rows in memory"):
        PolynomialAttentionRegressor(2, directions=3).fit(*dask)
    with pytest.raises(InputError, match="sample_weight"):
        PolynomialAttentionRegressor(2).fit(*dask, sample_weight=np.ones(len(X)))


@pytest.mark.parametrize(("case", "most"), [("noisy", 4), ("exact", 20)])
def test_few_terms_take_few_passes(case, most):
    X, y, _ = CASES[case]
    named = []

    class Counted(ArrayBlocks):
        def map(self, what, function, *arguments):
            named.append(what)
            return super().map(what, function, *arguments)

    PolynomialAttentionRegressor(3).fit_blocks(Counted(X, y[:, None]), None, True)
    assert len(named) <= most, named


@pytest.mark.slow
def test_rows_that_workers_hold_already_give_the_same_law():
    distributed = pytest.importorskip("distributed")
    X, y, degree = CASES["noisy"]
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        held = dask_array.from_array(X, chunks=(300, 3)).persist()
        law = PolynomialAttentionRegressor(degree).fit(held, dask_array.from_array(y, chunks=300))
    here = PolynomialAttentionRegressor(degree).fit_blocks(ArrayBlocks(X, y[:, None]), None, True)
    assert law.polynomial_ == here.polynomial_


@pytest.mark.slow
def test_a_killed_worker_costs_a_retry():
    distributed = pytest.importorskip("distributed")
    X, y, degree = CASES["noisy"]
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killed = []

        def slow(piece):
            import time

            time.sleep(0.05)
            return piece

        dask = dask_array.from_array(X, chunks=(300, 3)).map_blocks(slow)

        class Watched(blocks_module.DaskBlocks):
            def map(self, what, function, *arguments):
                for result in super().map(what, function, *arguments):
                    if not killed:
                        killed.append(os.kill(victim, signal.SIGKILL))
                    yield result

        law = PolynomialAttentionRegressor(degree).fit_blocks(
            Watched(dask, dask_array.from_array(y, chunks=100)), None, True
        )
        assert killed
    here = PolynomialAttentionRegressor(degree).fit_blocks(ArrayBlocks(X, y[:, None]), None, True)
    assert law.polynomial_ == here.polynomial_
