"""The walk through a graph: every operator by its rule, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from exactformer.core.formats import Arithmetic
from exactformer.errors import InputError
from exactformer.verification.balls import Ball
from exactformer.verification.graph import Graph, Node, Ref, refusal
from exactformer.verification.rules import RULES, Context, NotCoveredError
from exactformer.verification.rules.products import parameter
from exactformer.verification.rules.table import MAKERS, bind

Observer = Callable[[int, Node, Ball], None]


class Engine:
    """A graph in one arithmetic: what depends on weights alone is computed once."""

    def __init__(self, graph: Graph, arithmetic: Arithmetic, device: torch.device) -> None:
        self.graph, self.arithmetic, self.device = graph, arithmetic, device
        self._fixed: dict[int, Any] = {}
        ctx = self.context()
        with torch.no_grad():
            for number, node in enumerate(graph.nodes):
                if number in graph.weights:
                    self._fixed[number] = self._weight(ctx, node, graph.weights[number])
                elif node.target is not None and not node.data and not node.sized:
                    self._fixed[number] = self._apply(ctx, node, self._fixed)
        self._overflows = ctx.overflow()

    def fixed(self, number: int) -> Any:
        """Return what a node is for every input, or None."""
        return self._fixed.get(number)

    def context(self) -> Context:
        """Return a context of this engine's arithmetic."""
        return Context(self.arithmetic, self.device, self.graph.dtype)

    def _weight(self, ctx: Context, node: Node, values: Tensor) -> Any:
        if not values.dtype.is_floating_point:
            if values.is_complex():
                raise refusal(node, "a complex tensor")
            return values.to(self.device)
        dead = values == -torch.inf
        if not bool((torch.isfinite(values) | dead).all()):
            raise InputError(f"{node.name} has entries that are not finite numbers")
        if float(torch.where(dead, 0.0, values.double()).abs().max()) > self.arithmetic.largest:
            raise InputError(f"{node.name} has entries that {self.arithmetic.name} cannot hold")
        made = parameter(ctx, torch.where(dead, 0.0, values).to(self.device))
        return Ball(made.c, made.r, dead=dead.to(self.device)) if bool(dead.any()) else made

    def __call__(
        self, ids: Tensor, ctx: Context | None = None, observe: Observer | None = None
    ) -> Ball:
        """Return the ball of the logits on a batch of inputs."""
        ctx = self.context() if ctx is None else ctx
        if self._overflows:
            ctx.peaks.append(torch.tensor(torch.inf, dtype=torch.float64))
        env: dict[int, Any] = dict(self._fixed)
        with torch.no_grad():
            for number, node in enumerate(self.graph.nodes):
                if node.name == "input" and node.target is None:
                    env[number] = ids
                elif number not in self._fixed:
                    env[number] = self._apply(ctx, node, env)
                if observe is not None and isinstance(env[number], Ball) and node.axis is not None:
                    observe(number, node, env[number])
                for dead in node.last:
                    if dead not in self._fixed:
                        del env[dead]
        result = env[self.graph.output]
        if not isinstance(result, Ball) or result.dead is not None:
            raise InputError("the module returns something other than logits")
        return result

    def _apply(self, ctx: Context, node: Node, env: dict[int, Any]) -> Any:
        constants: list[tuple[Node, Tensor]] = []
        axes: list[int | None] = []
        balls = False

        def value(argument: Any) -> Any:
            nonlocal balls
            if isinstance(argument, list):
                return [value(part) for part in argument]
            if not isinstance(argument, Ref):
                return argument
            found, other = env[argument.node], self.graph.nodes[argument.node]
            balls = balls or isinstance(found, Ball)
            if isinstance(found, Ball):
                axes.append(other.axis)
            if isinstance(found, Tensor):
                constants.append((other, found))
            return found

        args = [value(argument) for argument in node.args]
        kwargs = {name: value(argument) for name, argument in node.kwargs.items()}
        if node.name == "<built-in function getitem>":
            return args[0][args[1]]
        if not balls and node.name not in MAKERS:
            return self._whole(node, args, kwargs)
        function = RULES.get(node.name)
        if function is None:
            raise refusal(node, "there is no rule for this operator")
        if node.name != "aten.embedding.default":
            for other, tensor in constants:
                self._check_constant(node, other, tensor)
        ctx.axis = next((k for k in axes if k is not None), None)
        try:
            return function(ctx, **bind(node.target, function, args, kwargs))
        except NotCoveredError as problem:
            raise refusal(node, str(problem)) from None

    def _check_constant(self, node: Node, other: Node, tensor: Tensor) -> None:
        if other.data:
            raise refusal(node, "numbers or a mask made from the tokens of the input")
        if other.axis is not None and not bool((tensor == tensor.narrow(other.axis, 0, 1)).all()):
            raise refusal(node, "a mask that differs from input to input of a batch")

    def _whole(self, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags:
            raise refusal(node, "it is random")
        try:
            made = node.target(*args, **kwargs)
        except Exception as error:
            raise refusal(node, f"{type(error).__name__}: {error}") from None
        if isinstance(made, Tensor) and not made.dtype.is_floating_point and not made.is_complex():
            return made
        if isinstance(made, int | bool | list | tuple):
            return made
        raise refusal(node, "numbers computed from whole numbers")
