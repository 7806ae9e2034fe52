"""Benchmarks compare like with like: every way computes the same values, every mark is earned."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import evaluating, heads, lengths, measuring, peers, programs, scaling
from benchmarks.cases import CASES, Case
from benchmarks.tables import HERE

SMALL = (Case("f2", 4), Case("dense 2 4"), Case("dense 3 3", 2))


@pytest.fixture(autouse=True)
def _few_trials(monkeypatch):
    monkeypatch.setattr(peers, "TRIAL", 50)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", evaluating.DTYPES)
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.label)
def test_every_way_agrees_with_exact_arithmetic(case, dtype):
    # Ours within the certificate; the others within 50 roundings of the largest sum of |terms|,
    # which on our directions is at most that of the certificate.
    ways, missing = evaluating.build(case, dtype)
    assert set(ways) | set(missing) == set(peers.PEERS)
    assert {"exactformer", "scikit-learn", "sympy.lambdify", "NumPy recurrence"} <= set(ways)
    certificate = peers.compiled(case).certificate
    points = case.points(40, dtype)
    exact = [case.target.at(point.tolist()) for point in points]
    terms = sum(abs(c) * Fraction(case.radius) ** sum(a) for a, c in case.target.terms().items())
    rounding = 50 * float(np.finfo(dtype).eps) * float(terms)
    for name, way in ways.items():
        tolerance = max(rounding, certificate.bound(dtype))
        if name in ("exactformer", "literal module"):
            executor = "fused" if name == "exactformer" else "literal"
            tolerance = certificate.bound(dtype, executor)
        values = way(points)
        assert values.shape == (40,)
        assert values.dtype == dtype
        for value, q in zip(values.tolist(), exact, strict=True):
            assert abs(Fraction(value) - q) <= tolerance, name


def test_chunks_change_no_value():
    case = Case("dense 2 4")
    points = case.points(1000)
    evaluate = case.target.evaluate
    assert np.array_equal(peers._pieces(evaluate, 64, points), evaluate(points))


@given(st.sets(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12))
def test_every_monomial_comes_after_the_one_it_is_made_from(monomials):
    ordered = peers._closed(dict.fromkeys(monomials, 1))
    place = {a: i for i, a in enumerate(ordered)}
    assert monomials <= set(ordered)
    assert len(place) == len(ordered)
    assert all(place[peers._parent(a)] < place[a] for a in ordered if any(a))


def test_the_dense_recurrence_multiplies_neighbours_by_one_variable():
    """A block is what one variable makes: its monomials, and those they are made from, are runs."""
    monomials = peers._closed({a: 1 for a in product(range(4), repeat=3) if sum(a) <= 3})
    place = {a: i for i, a in enumerate(monomials)}
    for degree, last in product((1, 2, 3), range(3)):
        block = [
            a for a in monomials if sum(a) == degree and any(a[last:]) and not any(a[last + 1 :])
        ]
        made_from = [tuple(e - (i == last) for i, e in enumerate(a)) for a in block]
        for run in (block, made_from):
            places = [place[a] for a in run]
            assert places == list(range(places[0], places[0] + len(run)))


def test_the_points_of_a_case_lie_in_its_ball():
    for case in CASES:
        for dtype in evaluating.DTYPES:
            norms = np.linalg.norm(case.points(1000, dtype).astype(float), axis=1)
            assert norms.max() < case.radius


def test_what_takes_too_long_is_measured_on_fewer_points_and_says_so(monkeypatch):
    seen = []
    points = np.zeros((1000, 2))
    monkeypatch.setattr(measuring, "LONGEST", 0.0)
    monkeypatch.setattr(measuring, "SHORTEST", 0.0)
    timing = measuring.interleaved({"slow": lambda x: seen.append(len(x))}, points, 2)["slow"]
    assert set(seen) == {1}
    assert (timing.points, timing.measured_on, timing.scaled) == (1000, 1, True)


def test_what_is_quick_is_measured_on_all_points():
    timing = measuring.interleaved({"quick": len}, np.zeros((1000, 2)), 1)["quick"]
    assert not timing.scaled


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the peak of a process")
def test_peak_memory_counts_what_is_made_inside_and_not_what_was_there():
    there = np.ones(2**23)
    _, inside = measuring.peak_memory(lambda: np.ones(2**23).sum())
    _, outside = measuring.peak_memory(lambda: there[:10].sum())
    assert 0.9 * there.nbytes < inside < 1.2 * there.nbytes
    assert outside < 0.1 * there.nbytes


def _contents(ours: float, theirs: float, measured_on: int, extra: tuple[int, int]) -> dict:
    times = [
        {"case": case.label, "dtype": dtype, "way": way, "points": n, "seconds": seconds}
        | {"measured_on": n if way == "exactformer" else min(n, measured_on)}
        for case in CASES
        for dtype in evaluating.DTYPES
        for n in evaluating.BATCHES
        for way, seconds in (("exactformer", ours), ("scikit-learn", theirs))
    ]
    memory = [
        {"way": "exactformer", "points": n, "extra bytes": b}
        for n, b in zip((10**5, 10**6), extra, strict=True)
    ]
    tokens = {case.label: 2002 for case in CASES}
    return {"times": times, "memory": memory, "tokens": tokens}


def test_a_faster_peer_is_bold_and_a_scaled_one_marked():
    _, lines = evaluating.time_table(_contents(1.0, 0.5, 10, (0, 0)))
    assert lines[0][4] == "**0.50**"  # one point
    assert lines[1][4] == "**~0.50**"  # a thousand, measured on ten
    _, lines = evaluating.time_table(_contents(1.0, 7.0, 10**6, (0, 0)))
    assert lines[2][4] == "7.00"


def test_a_target_that_is_missed_is_said_to_be():
    bad = evaluating.targets(_contents(1.0, 4.9, 10**6, (2**20, 90 * 2**20)))
    good = evaluating.targets(_contents(1.0, 8.1, 10**6, (2**20, 2**21)))
    verdicts = {line[0]: line[2] for line in bad}
    assert {v for k, v in verdicts.items() if "scikit-learn, dense" in k} == {"**not met**"}
    assert verdicts["constant extra memory, dense (10, 5): 100,000 to 1,000,000 points"] != "met"
    assert all("**" in line[2] for line in good if "literal" in line[0])  # never measured
    assert all(line[2] == "met" for line in good if "scikit-learn, dense" in line[0])
    assert all(line[2] == "met" for line in good if "every peer" in line[0])
    assert good[-1][2] == "met"
    slow = evaluating.targets(_contents(1.0, 0.9, 10**6, (2**20, 2**21)))
    assert [line[2] for line in slow if "every peer" in line[0]] == ["**not met**"] * 2
    assert [line[2] for line in slow if "one point" in line[0]] == ["**not met**"]
    quick = evaluating.targets(_contents(1e-5, 1.0, 10**6, (2**20, 2**21)))
    assert [line[2] for line in quick if "one point" in line[0]] == ["met"]


def test_the_parts_of_a_call_make_up_the_whole():
    rows = evaluating.parts(SMALL[0], "float64")
    assert rows
    *pieces, whole = (row["seconds"] for row in rows)
    assert sum(pieces) == pytest.approx(whole)
    assert len(evaluating.parts_table({"parts": rows})[1]) == len(rows)


def test_our_expansion_meets_the_tolerance_and_chebpy_agrees():
    pytest.importorskip("chebpy")
    row = lengths.compare("exp(x)", 1e-6)
    assert row["our error"] <= 1e-6
    assert row["chebpy error"] <= 1e-6
    assert row["ours"] <= lengths.LIMIT * row["chebpy"]


def _power_law(d: int, q: int, wobble: float = 0.0) -> dict:
    n = scaling.tokens(d, q)
    cost = 1e-6 * n**1.5 * q**0.7 * math.exp(wobble)
    columns = [f"{stage} {unit}" for stage in scaling.STAGES for unit in scaling.UNITS]
    return {"d": d, "q": q, "n": n} | dict.fromkeys(columns, cost)


def test_the_fit_finds_the_exponents_of_a_power_law():
    rng = np.random.default_rng(0)
    for noise in (0.0, 0.2):
        rows = [_power_law(d, q, noise * rng.normal()) for d, q in scaling.grid()]
        found = scaling.fits(rows)[0]["both"]
        for variable, exponent in (("n", 1.5), ("q", 0.7)):
            error = found[variable]["error"]
            assert abs(found[variable]["exponent"] - exponent) <= 4 * error + 1e-9
            assert error < 0.02 + noise


def test_the_largest_degree_is_the_last_within_the_limit():
    found = scaling.fits([_power_law(d, q) for d, q in scaling.grid()])
    for stage in found:
        for d in scaling.SHOWN_DIMENSIONS:
            q = scaling.largest_degree(stage, d)
            if q < scaling.FAR:
                limit = scaling.limit(stage)
                assert scaling.cost(stage, d, q) <= limit < scaling.cost(stage, d, q + 1)


def test_a_small_size_runs_through_all_stages():
    row = scaling.one(2, 3)
    assert row["n"] == 4
    assert all(row[f"{stage} s"] > 0 for stage in scaling.STAGES)


@pytest.mark.parametrize(
    "module", [evaluating, heads, lengths, scaling], ids=lambda module: module.__name__
)
def test_the_stored_page_is_that_of_the_stored_run(module):
    name = module.__name__.rpartition(".")[2]
    contents = json.loads((HERE / f"{name}.json").read_text())
    title, *lines = (HERE / f"{name}.md").read_text().splitlines()
    assert title.startswith("# ")
    assert lines == ["", *module.page(contents)]


def test_programs_take_no_more_layers_than_tracrs():
    small = [name for name, case in programs.cases().items() if case[4] and case[2] <= 6]
    rows = [programs.measure(name) for name in small]
    assert all(row["ours"][0] <= row["tracr"][0] for row in rows)
    assert all(row["ours"][2] <= row["tracr"][2] for row in rows)
    names, cells = programs.table(rows)
    assert all(len(line) == len(names) for line in cells)
