"""Every experiment by name. Modules are imported when an experiment is asked for."""

import difflib
import importlib

from exactformer.errors import ExperimentError
from exactformer.experiments.engine.experiment import Experiment

# Name -> module that defines EXPERIMENT, in the order of lists and reports. These modules import
# torch and the like inside functions, so that listing all of them stays quick.
_MODULES: dict[str, str] = {
    "spectra-minilm": "exactformer.experiments.own.spectra_minilm",
    "spectra-smollm2": "exactformer.experiments.own.spectra_smollm2",
    "universality": "exactformer.experiments.own.universality",
    "fang-figure-2": "exactformer.experiments.fang.figure_2",
    "fang-table-1": "exactformer.experiments.fang.table_1",
    "fang-figure-3": "exactformer.experiments.fang.figure_3",
    "fang-noise": "exactformer.experiments.fang.noise",
    "fang-outside": "exactformer.experiments.fang.outside",
    "yun-contextual": "exactformer.experiments.yun.contextual",
    "yun-rate": "exactformer.experiments.yun.rate",
    "yun-positions": "exactformer.experiments.yun.positions",
    "yun-softmax": "exactformer.experiments.yun.softmax",
    "yun-sizes": "exactformer.experiments.yun.sizes",
    "yun-alternatives": "exactformer.experiments.yun.alternatives",
    "jiang-figure-1": "exactformer.experiments.jiang.figure_1",
    "jiang-figure-2": "exactformer.experiments.jiang.figure_2",
    "jiang-figure-3": "exactformer.experiments.jiang.figure_3",
    "jiang-table-1": "exactformer.experiments.jiang.table_1",
    "jiang-table-2": "exactformer.experiments.jiang.table_2",
    "jiang-table-3": "exactformer.experiments.jiang.table_3",
    "jiang-figure-4": "exactformer.experiments.jiang.figure_4",
    "jiang-figure-5": "exactformer.experiments.jiang.figure_5",
    "jiang-figure-6": "exactformer.experiments.jiang.figure_6",
    "jiang-equivariance": "exactformer.experiments.jiang.equivariance",
    "jiang-mixing": "exactformer.experiments.jiang.mixing",
}

_registered: dict[str, Experiment] = {}


def register(experiment: Experiment) -> Experiment:
    """Make ``experiment`` known by its name in this process, beside the built-in ones."""
    if experiment.name in _MODULES:
        raise ExperimentError(f"{experiment.name!r} is the name of a built-in experiment.")
    _registered[experiment.name] = experiment
    return experiment


def names() -> list[str]:
    """Return the names of all experiments."""
    return [*_MODULES, *_registered]


def find(name: str) -> Experiment:
    """Return the experiment called ``name``."""
    if name in _registered:
        return _registered[name]
    if name in _MODULES:
        experiment = importlib.import_module(_MODULES[name]).EXPERIMENT
        assert isinstance(experiment, Experiment)
        return experiment
    close = difflib.get_close_matches(name.lower(), names(), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise ExperimentError(
        f"There is no experiment {name!r}. {hint}`exactformer reproduce --list` shows them all."
    )
