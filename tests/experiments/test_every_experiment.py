import importlib

import pytest

from exactformer.experiments import find, names, reproduce

# One of every source; the others are left to the long run.
QUICK = {"fang-figure-3", "jiang-figure-4", "universality", "yun-softmax"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in names()],
)
def test_the_claims_direction_holds_at_smoke_scale(name, tmp_path):
    result = reproduce(name, scale="smoke", jobs=1, out=tmp_path)
    assert result.statements, "an experiment says what its claim is"
    assert result.broken == []


@pytest.mark.parametrize("name", names())
def test_every_named_figure_is_there(name):
    figure = find(name).figure
    if isinstance(figure, str):
        module, _, function = figure.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
