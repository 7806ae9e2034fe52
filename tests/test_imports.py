"""What is imported when: some machines lack python-flint, and nobody should wait for torch.

Modules once loaded stay, so one interpreter that goes from the lightest import to the heaviest
shows of each what an interpreter of its own would.
"""

import subprocess
import sys

import pytest

NOTHING_HEAVY = """
import sys
HEAVY = set("torch sympy sklearn matplotlib pandas scipy flint fastapi sqlalchemy".split())
import exactformer
assert not HEAVY & sys.modules.keys(), HEAVY & sys.modules.keys()
import exactformer.cli
assert not HEAVY & sys.modules.keys(), HEAVY & sys.modules.keys()
import exactformer.learning
assert not HEAVY & sys.modules.keys(), HEAVY & sys.modules.keys()
"""

MODELS = """
import sys
import exactformer as ef
import exactformer.learning.ensembles
assert not {"flint", "sklearn", "sympy", "rich"} & sys.modules.keys()
model = ef.compile("x^2 y + 1")
assert not {"transformers"} & sys.modules.keys()
assert abs(float(model([0.5, 0.5])) - 1.125) < 1e-14
from exactformer.figures import *
errors = {"literal": (model([[0.5, 0.5]]) - 1.125).abs().numpy()}
save_figure(accuracy_figure(model, ef.Polynomial.parse("x^2 y + 1"), errors, ""), sys.argv[1])
assert "matplotlib.pyplot" not in sys.modules
"""

WITHOUT_FLINT = """
import sys
sys.modules["flint"] = None

import numpy as np
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
X = np.random.default_rng(0).normal(size=(100, 2))
for solver in ("sparse", "least-squares", "sgd"):
    regressor = PolynomialAttentionRegressor(2, solver=solver, epochs=2).fit(X, X[:, 0] ** 2)
    regressor.predict(X), regressor.formula_, regressor.coef_table_, regressor.latex()
    assert solver != "sparse" or "torch" not in sys.modules, "the default solver waits for torch"

import importlib, pkgutil
import exactformer.learning, exactformer.experiments
import exactformer.polynomials.run.literal, exactformer.polynomials.files
for package in (exactformer.learning, exactformer.experiments):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)

from dataclasses import replace
from exactformer.experiments import find, reproduce
for name in sys.argv[2:]:
    experiment = find(name)
    cells = lambda scale: [
        {**cell, "epochs": 2} if "epochs" in cell else cell for cell in experiment.cells(scale)
    ]
    reproduce(replace(experiment, cells=cells), scale="smoke", jobs=1, out=sys.argv[1])
"""


def run(*arguments):
    return subprocess.run([sys.executable, "-c", *arguments], capture_output=True, text=True)


def test_importing_loads_nothing_heavy():
    result = run(NOTHING_HEAVY)
    assert result.returncode == 0, result.stderr


def test_models_load_what_they_need_when_they_need_it(tmp_path):
    """Neither compiling nor drawing waits for pyplot."""
    result = run(MODELS, str(tmp_path / "figure.png"))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "names",
    [
        ["fang-figure-2"],
        pytest.param(["fang-figure-2", "fang-table-1", "fang-figure-3"], marks=pytest.mark.slow),
    ],
)
def test_learning_and_its_experiments_need_no_flint(names, tmp_path):
    result = run(WITHOUT_FLINT, str(tmp_path), *names)
    assert result.returncode == 0, result.stderr
    assert {path.stem for path in tmp_path.glob("*.json")} == {*names}
