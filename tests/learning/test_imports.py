"""What is imported when: some machines lack python-flint, and nobody should wait for torch."""

import subprocess
import sys

FIT = """
import sys
sys.modules[{missing!r}] = None
import numpy as np
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
X = np.random.default_rng(0).normal(size=(100, 2))
regressor = PolynomialAttentionRegressor(2, solver={solver!r}, epochs=2).fit(X, X[:, 0] ** 2)
regressor.predict(X), regressor.formula_, regressor.coef_table_, regressor.latex()
"""


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_every_solver_works_without_flint():
    for solver in ("sparse", "least-squares", "sgd"):
        result = run(FIT.format(missing="flint", solver=solver))
        assert result.returncode == 0, result.stderr


def test_training_and_baselines_import_without_flint():
    program = (
        "import sys; sys.modules['flint'] = None; import exactformer.experiments.models.baselines, "
        "exactformer.learning.laws.trained.training, exactformer.learning.laws.trained.descent"
    )
    assert run(program).returncode == 0


def test_the_default_solver_does_not_wait_for_torch():
    program = FIT.format(missing="flint", solver="sparse") + "print('torch' in sys.modules)"
    assert run(program).stdout.strip() == "False"


def test_importing_the_package_imports_nothing_heavy():
    program = (
        "import sys, exactformer.learning; print({'torch', 'sklearn', 'pandas'} & set(sys.modules))"
    )
    assert run(program).stdout.strip() == "set()"
