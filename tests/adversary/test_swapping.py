"""Changed functions and constants are the ones that run, behind decorators too."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tests.adversary.swapping import swap

SOURCE = """
from functools import cache
import numpy as np
COUNT = 2**4
def plain(): return COUNT
@np.errstate(over="ignore")
def decorated(): return COUNT + 1
@cache
def cached(): return COUNT + 2
class Thing:
    @property
    def size(self): return COUNT + 3
    @classmethod
    @np.errstate(over="ignore")
    def made(cls): return COUNT + 4
"""


def test_whoever_holds_a_function_runs_its_changed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("proof_to_change")
    module.__file__ = f"{module.__name__}.py"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(SOURCE, module.__file__, "exec"), vars(module))
    held = module.plain, module.decorated, module.cached, module.Thing.made

    def results() -> list[float]:
        return [*(function() for function in held), module.Thing().size]

    assert results() == [16, 17, 18, 20, 19]
    swap(module, SOURCE.replace("COUNT +", "COUNT -"))
    assert results() == [16, 15, 14, 12, 13]
    swap(module, SOURCE.replace("2**4", "0.0"))
    assert results() == [0, 1, 2, 4, 3]
