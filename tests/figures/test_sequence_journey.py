from fractions import Fraction

import numpy as np
import pytest

import exactformer as ef
from exactformer.errors import InputError
from exactformer.figures import save_figure
from exactformer.figures.sequence_journey import sequence_journey_figure
from exactformer.targets import sequence_map

CASES = {
    "one dimension": ("mean-subtract", 2, 1, 4, "compact"),
    "positions": ("sort", 2, 1, 3, "compact"),
    "plane": ("mean-subtract", 2, 2, 2, "compact"),
    "three dimensions": ("identity", 2, 3, 2, "compact"),
    "paper": ("identity", 2, 1, 4, "paper"),
    "four layers": ("softmax-attention", 2, 1, 4, "four-layer"),
    "one token": ("identity", 1, 1, 4, "compact"),
}


def build(name, n, d, cells, form):
    f = sequence_map(name)
    options = {"form": form, "positional": not f.equivariant}
    return ef.compile_sequence(f, tokens=n, dim=d, delta=Fraction(1, cells), **options), f


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_sequence_model_can_be_drawn(case, tmp_path, caplog):
    model, f = build(*CASES[case])
    x = np.random.default_rng(0).random((model.blueprint.tokens, model.blueprint.dim))
    figure = sequence_journey_figure(model, x, f, "a title")
    save_figure(figure, tmp_path / "journey.svg")
    assert "</svg>" in (tmp_path / "journey.svg").read_text()
    assert not caplog.records  # matplotlib has nothing to complain about
    for axes in figure.axes[:4]:
        assert axes.get_title(loc="left")
        assert axes.get_xlabel()
        assert axes.get_ylabel()


def said(axes):
    return [text.get_text() for text in axes.texts]


def test_the_codes_drawn_are_those_of_the_model():
    model, f = build(*CASES["one dimension"])
    x = [[0.1], [0.9]]
    figure = sequence_journey_figure(model, x, f)
    cells, shift, keys, values = figure.axes[:4]
    assert {"0", "3"} <= set(said(cells))  # the cells of 0.1 and 0.9 among 4
    codes = model.codes(np.array(x)).tolist()
    for j, code in enumerate(codes, start=1):
        (words,) = [text for text in said(shift) if text.startswith(f"token {j}")]
        key, own, step, context = (
            int(part.replace(",", "")) for part in words.split(": ")[1].replace("·", "").split()
            if part not in "=+"
        )  # fmt: skip
        assert key == code == own + step * context
    ends = {line.get_ydata()[-1] for line in shift.lines}
    assert set(codes) <= ends
    assert keys.get_title(loc="left").startswith("3  12 keys")
    drawn = {tuple(np.ravel(line.get_ydata())) for line in values.lines}
    assert {(-0.375,), (0.375,), (-0.4,), (0.4,)} <= drawn


def test_a_softened_model_is_drawn_with_its_own_codes():
    f = sequence_map("identity")
    model = ef.compile_sequence(f, tokens=2, dim=1, delta=Fraction(1, 4), form="compact")
    model = model.softened(sharpness=4)
    shift = sequence_journey_figure(model, [[0.1], [0.9]], f).axes[1]
    ends = {float(line.get_ydata()[-1]) for line in shift.lines}
    assert not set(model.codes(np.array([[0.1], [0.9]])).tolist()) & ends


def test_equal_cells_are_said_to_have_no_key():
    model, f = build(*CASES["one dimension"])
    model.outside = "zero"
    for x in ([[0.1], [0.2]], [[0.1], [1.5]]):
        assert any("no key" in text for text in said(sequence_journey_figure(model, x, f).axes[2]))
    assert not any(
        "no key" in t for t in said(sequence_journey_figure(model, [[0], [0.9]]).axes[2])
    )


def test_of_many_keys_a_sample_is_drawn(monkeypatch):
    monkeypatch.setattr("exactformer.figures.sequence_journey.MOST_KEYS", 5)
    model, f = build(*CASES["one dimension"])
    keys = sequence_journey_figure(model, [[0.1], [0.9]], f).axes[2]
    assert len(keys.collections[0].get_offsets()) == 5


def test_a_sequence_of_the_wrong_shape_is_refused():
    model, f = build(*CASES["one dimension"])
    with pytest.raises(InputError, match=r"\(2, 1\), not \(3, 1\)"):
        sequence_journey_figure(model, [[0.1], [0.2], [0.3]], f)
