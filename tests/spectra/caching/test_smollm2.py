"""A real language model with half of its cache, on text that the fit has not seen."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("gguf", reason="gguf, which reads SmolLM2's weights, is not installed")

from exactformer.errors import InputError
from exactformer.experiments import Scale, real_data
from exactformer.experiments.own.spectra_smollm2 import SIZES, run

pytestmark = pytest.mark.slow


def test_half_of_the_cache_costs_two_percent_at_most_and_other_text_strains_it() -> None:
    try:
        real_data.smollm2_file()
        real_data.handbook()
    except InputError as missing:
        pytest.skip(str(missing))
    cell = {"what": "shrink", "text": "handbook", "cache": 0.5, "seed": 0, "made_up": False}
    ours, grouped = (
        run({**cell, "method": method, "lookback": lookback, **SIZES[Scale.DEFAULT]}, "cpu")
        for method, lookback in (("joint", 3), ("grouped", 0))
    )
    assert ours["ratio handbook"] <= 1.02
    assert ours["ratio handbook"] < grouped["ratio handbook"]
    assert ours["strain topics"] > 1.3 * ours["strain handbook"]
