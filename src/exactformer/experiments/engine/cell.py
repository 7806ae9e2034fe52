"""A cell of a grid: the task, and what came of it. Everything here is plain JSON inside."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exactformer.errors import ExperimentError

Parameters = Mapping[str, Any]
Metrics = Mapping[str, Any]
Run = Callable[[Parameters, str], Metrics]

_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Task:
    """A cell to be run: by which function, with what, on which device, by which code."""

    experiment: str
    parameters: Parameters
    device: str
    code: str
    run: Run

    @property
    def key(self) -> str:
        """The cell's name in the store.

        The kind of device belongs to it: run times and rounding on a GPU are not those of a CPU.
        """
        return fingerprint(
            {
                "experiment": self.experiment,
                "parameters": self.parameters,
                "device": self.device.partition(":")[0],
                "code": self.code,
            }
        )


@dataclass(frozen=True)
class Cell:
    """A finished cell. ``hardware`` is the name of the processor it ran on."""

    parameters: Parameters
    metrics: Metrics
    seconds: float
    hardware: str

    @property
    def seed(self) -> Any:
        """The seed among the parameters, ``None`` for a cell without randomness."""
        return self.parameters.get("seed")


@dataclass(frozen=True)
class Failure:
    """A cell that raised: the error in one line, and the whole traceback."""

    parameters: Parameters
    error: str
    traceback: str


Outcome = Cell | Failure


def matches(parameters: Parameters, where: Parameters) -> bool:
    """Whether ``parameters`` has all of ``where``."""
    return all(
        name in parameters and parameters[name] == value
        for name, value in plain(where, "where").items()
    )


def fingerprint(value: object) -> str:
    """Return the SHA-256 of ``value`` written as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any, name: str = "metrics") -> Any:
    """Return ``value`` as strict JSON data; arrays become lists.

    JSON has no infinities, and a diverged training is a result: non-finite numbers become the
    strings ``"nan"``, ``"inf"``, ``"-inf"``, which :func:`restore` turns back.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ExperimentError(f"{name} has a key that is not text.")
        return {key: plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{name}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy and torch, without importing either
        return plain(value.tolist(), name)
    raise ExperimentError(
        f"{name} is a {type(value).__name__}; a cell holds numbers, text, None, and lists or "
        f"dictionaries of them."
    )


def restore(value: Any) -> Any:
    """Undo what :func:`plain` did to non-finite numbers."""
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, list):
        return [restore(item) for item in value]
    if isinstance(value, dict):
        return {key: restore(item) for key, item in value.items()}
    return value
