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


_MOVES = set(
    """view reshape _unsafe_view expand clone contiguous alias detach transpose t permute to
    flatten unflatten _to_copy""".split()
)
_ALONG = set(
    """slice select unsqueeze squeeze split chunk cat flip roll sum cumsum amax amin argmax any all
    sort gather pad constant_pad_nd""".split()
)


def keeps_batch(node: Node, args: list[Any], kwargs: dict[str, Any], places: set[Any]) -> bool:
    """Return whether an operator on whole numbers computes each input from itself alone.

    Reading the graph has checked those that only move numbers. Of operators along an axis those are
    known that have it among their arguments, and it must not be that of the batch.
    """
    name = node.name.split(".")[1] if node.name.startswith("aten.") else ""
    if name in _MOVES or node.name == "aten.sym_size.int":
        return True
    if name not in _ALONG or len(places) != 1:
        return False
    schema = node.target._schema.arguments
    given = {a.name: a.default_value for a in schema if a.has_default_value()}
    given |= dict(zip([a.name for a in schema], args, strict=False)) | kwargs
    x = args[0][0] if isinstance(args[0], list) else args[0]
    if name == "slice" and (given["start"] or 0) == 0 and given["end"] in (None, 2**63 - 1):
        return bool(given["step"] == 1 or given["dim"] % x.ndim not in places)
    if name in ("pad", "constant_pad_nd"):
        usual = given.get("mode", "constant") == "constant"
        return bool(usual and x.ndim - len(given["pad"]) // 2 > max(places))
    dims = given.get("dims", given.get("dim"))
    parts = dims if isinstance(dims, list) else [dims]
    return name == "unsqueeze" or (
        bool(parts) and all(d is not None and d % x.ndim not in places for d in parts)
    )


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
        return Context(self.arithmetic, self.device)

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
        whole = not balls and node.name not in MAKERS
        if not whole or node.data:
            for other, tensor in constants:
                if other.data and not whole and node.name != "aten.embedding.default":
                    raise refusal(node, "numbers or a mask made from the tokens of the input")
                if other.axis is None or other.data:
                    continue
                if not bool((tensor == tensor.narrow(other.axis, 0, 1)).all()):
                    raise refusal(node, "a constant that differs from input to input of a batch")
        if whole:
            places = {other.axis for other, _ in constants if other.data}
            return self._whole(node, args, kwargs, places)
        function = RULES.get(node.name)
        if function is None:
            raise refusal(node, "there is no rule for this operator")
        ctx.axis = next((k for k in axes if k is not None), None)
        try:
            return function(ctx, **bind(node.target, function, args, kwargs))
        except NotCoveredError as problem:
            raise refusal(node, str(problem)) from None

    def _whole(
        self, node: Node, args: list[Any], kwargs: dict[str, Any], places: set[int | None]
    ) -> Any:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags:
            raise refusal(node, "it is random")
        if (
            node.data
            and torch.Tag.pointwise not in tags
            and not keeps_batch(node, args, kwargs, places)
        ):
            raise refusal(
                node, "whole numbers of one input may depend on other inputs of its batch"
            )
        try:
            made = node.target(*args, **kwargs)
        except Exception as error:
            raise refusal(node, f"{type(error).__name__}: {error}") from None
        if isinstance(made, Tensor) and not made.dtype.is_floating_point and not made.is_complex():
            return made
        if isinstance(made, int | bool | list | tuple):
            return made
        raise refusal(node, "numbers computed from whole numbers")
