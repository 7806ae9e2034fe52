import numpy as np
import pytest

import exactformer as ef
from exactformer.cli.commands.demo import LAW
from exactformer.cli.support.evaluation import compare
from exactformer.errors import RoundingError


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_tells_its_story_and_keeps_its_promises(call, here):
    answer = call("demo", "--points", "5000")
    assert answer.code == 0
    for part in (
        "11 tokens",
        "4 blocks",
        "166 free",
        "5,000 random points",
        "every matrix carried out",
        "its proven closed form",
        "largest error",
        "certified bound",
        "is certified",
        "the altered copy is refused",
        "exactformer inspect demo/law.safetensors",
    ):
        assert part in answer.out
    files = sorted(p.name for p in (here / "demo").iterdir())
    assert files == ["demo.png", "demo.svg", "law.safetensors"]
    ef.certify(here / "demo" / "law.safetensors", LAW)

    told = call("demo", "-o", "tour", "--points", "5000", "--json").json
    assert told["tokens"] <= 11
    assert told["observed"].keys() == {"literal", "fused"}
    for executor, seen in told["observed"].items():
        assert 0 < seen["largest_error"] <= seen["bound"] < 1000 * seen["largest_error"]
        assert seen["bound"] == ef.certify(here / "demo/law.safetensors").bound("float64", executor)
    assert told["certificate"]["zero_error"] is True
    assert "readout β, token 1, power 5" in told["altered_copy_refused"]
    assert told["saved"] == ["tour/law.safetensors", "tour/demo.png", "tour/demo.svg"]
    for name in ("demo.png", "demo.svg"):
        assert (here / "demo" / name).read_bytes() == (here / "tour" / name).read_bytes()


def test_a_folder_that_cannot_be_made_is_a_message(call, here):
    (here / "demo").write_text("a file")
    answer = call("demo", "--points", "10")
    assert answer.code == 2
    assert answer.err.startswith("error: demo: ")


def test_a_demo_that_is_broken_off_leaves_no_folder(call, here, monkeypatch):
    def broken_off(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("exactformer.cli.support.evaluation.observed_errors", broken_off)
    assert call("demo", "-o", "tour", "--points", "10").code == 130
    assert not (here / "tour").exists()


def test_no_points_are_too_few(call):
    assert call("demo", "--points", "0").code == 2


def test_an_error_beyond_the_bound_would_end_the_demo():
    model = ef.compile("x^2", radius=1)
    with pytest.raises(RoundingError, match="exceeds the bound"):
        compare(model, {"fused": np.array([0.0, 1e-3])})
    assert compare(model, {"fused": np.zeros(2)})["fused"]["ratio"] is None
