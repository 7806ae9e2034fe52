from fractions import Fraction
from math import comb

import pytest

import exactformer as ef
from exactformer.cli.support.matrices import MOST_ENTRIES
from exactformer.polynomials.constructions.paper import TheoremCounts
from exactformer.polynomials.files import load_blueprint


def test_the_architecture_is_told_layer_by_layer(call, paper):
    answer = call("inspect", paper)
    assert answer.code == 0
    for part in (
        "x^2 + y^2",
        "on ‖x‖ ≤ 2, variables x, y; paper construction",
        "W_Q 3×6  W_K 3×6  W_V 6×6",
        "3 + 3 + 1",
        "feature | position 1 … 2 | power 1 … 2 | one",
        "one-hot maximum",
    ):
        assert part in answer.out


def test_the_papers_counts_are_the_theorems(call, paper):
    told = call("inspect", paper, "--json").json
    theorem = told["theorem"]
    assert set(told["nonzeros_per_block"]) == {theorem["nonzeros_per_block"]} == {2 * 2 + 8}
    assert told["free_parameters"] == theorem["free_parameters"] == 2 * 2 + 2 * 2 + 1
    assert told["nonzeros"] == theorem["nonzeros"] == 2 * 2 + 3 * 2 * 2 + 8 * 2 + 1
    assert theorem["free_parameters_bound"] == 2**3 + 2 * 2**2 + 1
    assert theorem["nonzeros_bound"] == 2**3 + 3 * 2 * 2**2 + 8 * 2 + 1


@pytest.mark.parametrize("q", range(1, 9))
@pytest.mark.parametrize("d", range(2, 9))
def test_the_theorems_bounds_hold_for_n_q_directions_in_two_variables_or_more(d, q):
    counts = TheoremCounts(comb(d - 1 + q, q), d, q)
    assert counts.lemma_width == counts.n
    assert counts.free <= counts.free_bound
    assert counts.total <= counts.total_bound


def test_every_matrix_is_printed_exactly_with_names(call, paper):
    out = call("inspect", paper, "--matrices").out
    blueprint = load_blueprint(paper)
    assert sum(f" {m.rows} × {m.columns}, " in out for _, m in blueprint.matrices()) == len(
        list(blueprint.matrices())
    )
    assert "block 2, W_2" in out
    assert "power 2 = 8" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["unit", "2", "·", "·", "·", "·", "-1", "·"] in rows


def test_entries_that_do_not_fit_a_table_are_listed_not_cut(call, tmp_path):
    file = tmp_path / "long.safetensors"
    ef.compile("1/123456789012345678901234567890123456789 x^2 + x y + y z", radius=1).save(file)
    out = call("inspect", file, "--matrices").out
    assert "…" not in out.split("embedding F")[1]
    beta = load_blueprint(file).readouts[0].beta
    joined = "".join(out.split())
    for value in beta.entries.values():
        assert str(value) in joined


def test_long_lists_end_with_a_count(call, tmp_path):
    file = tmp_path / "wide.safetensors"
    ef.compile("(a+b+c)^5", radius=1, directions="lattice").save(file)
    positions = load_blueprint(file).embedding.constant
    assert positions.nonzeros > MOST_ENTRIES
    out = call("inspect", file, "--matrices").out
    assert f"… and {positions.nonzeros - MOST_ENTRIES:,} more non-zeros" in out


def test_json_holds_every_matrix_without_loss(call, law):
    told = call("inspect", law, "--matrices", "--json").json
    for path, matrix in load_blueprint(law).matrices():
        data = told["matrices"][path]
        assert tuple(data["shape"]) == matrix.shape
        assert {(i, j): Fraction(v) for i, j, v in data["entries"]} == dict(matrix.entries)
        assert (len(data["rows"]), len(data["columns"])) == matrix.shape


def test_names_of_rows_and_columns_are_the_blueprints(call, law):
    told = call("inspect", law, "--matrices", "--json").json
    beta = told["matrices"]["readouts.0.beta"]
    assert beta["columns"] == told["dimensions"] == list(load_blueprint(law).dimensions)
    assert told["matrices"]["embedding.features"]["columns"] == ["x", "y"]


def test_heads_are_told_apart_where_there_are_several(call, tmp_path):
    file = tmp_path / "doubling.safetensors"
    call("compile", "x^4", "--construction", "doubling", "-o", file)
    out = call("inspect", file, "--matrices").out
    assert "2 attention 1 … 2" in out
    assert "block 2, head 2, W_Q" in out
    assert "block 1, W_Q" in out


def test_a_point_may_have_fractions_as_a_domain_may(call, law):
    told = [call("inspect", law, "--at", at, "--json") for at in ("1/2,-3/4", "0.5,-0.75")]
    assert told[0].code == 0
    assert told[0].json["trace"] == told[1].json["trace"]
