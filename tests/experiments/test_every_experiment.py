import importlib

import pytest

from exactformer.experiments import find, names, reproduce


@pytest.mark.training
@pytest.mark.parametrize("name", names())
def test_every_experiment_runs_at_smoke_scale_and_its_statements_hold(name, tmp_path, monkeypatch):
    """Ten seconds each, two minutes together; data that are absent are made up in the same form."""
    monkeypatch.delenv("EXACTFORMER_DATA", raising=False)
    result = reproduce(name, scale="smoke", jobs=1, out=tmp_path)
    assert result.statements, "an experiment says what its claim is"
    assert result.broken == []


@pytest.mark.parametrize("name", names())
def test_every_named_figure_is_there(name):
    figure = find(name).figure
    if isinstance(figure, str):
        module, _, function = figure.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
