"""The drawing of a circuit has every part, and a line for everything that is read."""

import pytest

import exactformer as ef
from exactformer.errors import SizeError
from exactformer.figures import circuit, circuit_figure, save_figure
from exactformer.programs import library


@pytest.fixture(scope="module")
def induction():
    return ef.compile_program(library.make_induction(), vocabulary="ab", max_length=4, causal=True)


def test_every_part_and_every_reading_is_drawn(induction, tmp_path):
    figure = circuit_figure(induction)
    (axes,) = figure.axes
    found = induction.circuit()
    texts = [text.get_text() for text in axes.texts]
    boxes = [p for p in axes.patches if type(p).__name__ == "FancyBboxPatch"]
    assert len(boxes) == len(found.components) + 1
    assert {"layer 0, head 0", "layer 2, head 0", "output", "embedding"} <= set(texts)
    assert all(name in " ".join(texts) for c in found.components for name in c.computes)
    colours = {"query": "#1d5fa8", "key": "#d9622b", "value": "#2a8c6a"}
    from matplotlib.colors import to_hex

    lines = [to_hex(p.get_edgecolor()) for p in axes.patches if p not in boxes]
    for through, colour in colours.items():
        assert lines.count(colour) == sum(e.through == through for e in found.edges)
    for name, drawn in (("first.svg", figure), ("second.svg", circuit_figure(induction))):
        save_figure(drawn, tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_boxes_do_not_overlap(induction):
    (axes,) = circuit_figure(induction).axes
    boxes = [p.get_extents() for p in axes.patches if type(p).__name__ == "FancyBboxPatch"]
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:k])


def test_a_circuit_that_does_not_fit_is_refused(induction, monkeypatch):
    monkeypatch.setattr(circuit, "MOST_PARTS", 3)
    with pytest.raises(SizeError, match="parts"):
        circuit_figure(induction)
