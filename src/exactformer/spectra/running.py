"""Which module of a model runs, and which call of attention this is.

Hooks report every module that begins to run and that has run; they are gone when the watching ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

Leave = Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], None]
"""Called with a module, its arguments and what it returned, while it is still the innermost."""


class Running:
    """The modules of a model that run at this moment, outermost first."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names = {module: name for name, module in model.named_modules()}
        self._calls: dict[str, int] = {}
        self.stack: list[nn.Module] = []
        self.given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        """The arguments of each."""

    @contextmanager
    def watch(
        self, leave: Leave, enter: Callable[[nn.Module], None] = lambda module: None
    ) -> Iterator[None]:
        """Follow the model's modules."""

        def begins(module: nn.Module, args: Any, kwargs: Any) -> None:
            if module is self._model or not self.stack:  # anew, also after a run that has failed
                self.stack.clear()
                self.given.clear()
                self._calls.clear()
            self.stack.append(module)
            self.given.append((args, kwargs))
            enter(module)

        def ends(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            leave(module, args, kwargs, output)
            self.stack.pop()
            self.given.pop()

        with ExitStack() as hooks:
            for module in self._names:
                hooks.enter_context(module.register_forward_pre_hook(begins, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(ends, with_kwargs=True))
            yield

    def name(self, module: nn.Module) -> str:
        """Return the dotted name of a module; ``""`` is the model itself."""
        name: str = self._names[module]
        return name

    @property
    def place(self) -> tuple[str, str]:
        """Name and class of the innermost module."""
        module = self.stack[-1] if self.stack else self._model
        return self._names[module], type(module).__name__

    def call(self, module: nn.Module) -> str:
        """Name a call of attention: by its module, with ``#2`` when that attends a second time."""
        name = self.name(module)
        turn = self._calls[name] = self._calls.get(name, 0) + 1
        return name if turn == 1 else f"{name}#{turn}"
