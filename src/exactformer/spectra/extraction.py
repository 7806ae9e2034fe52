"""Queries and keys of every attention module, taken from the model while it runs normally.

    with watching(model) as watch:
        for layer in watch.run(batch): ...        # Scores, in the order of execution

Hooks report which module runs; primitives report what it attends with. Attention that ends in no
primitive needs an adapter. All other weights that torch's operators compute (:mod:`.dataflow`) are
refused by the name of their module if they could be attention, and listed in ``left_out`` if not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.spectra.adapters import Adapter, Call, adapter_of
from exactformer.spectra.batches import Batch
from exactformer.spectra.dataflow import DataFlow
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.omissions import LeftOut
from exactformer.spectra.primitives import Attention, Primitives
from exactformer.spectra.projections import (
    Found,
    Passed,
    is_linear,
    packed_projections,
    projections,
    same_tokens,
)
from exactformer.spectra.rotation import NORMS, angles_of, rotation_of
from exactformer.spectra.scores import Scores, seen_keys
from exactformer.spectra.switches import fused

_Each = Callable[[Scores], None]
_NORMS = {name for names in NORMS.values() for name in names}


@dataclass
class _Running:
    """A module that is being run."""

    name: str
    module: nn.Module
    adapter: Adapter | None
    layers: dict[str, Passed] = field(default_factory=dict)
    norms: dict[str, Tensor] = field(default_factory=dict)
    inside: dict[str, Any] = field(default_factory=dict)
    softmaxes: list[Tensor] = field(default_factory=list)


class Watch:
    """A model under observation; made by :func:`watching`."""

    def __init__(self, model: nn.Module, whole: bool = False, rotary: bool = False) -> None:
        self._model, self._whole, self._rotary = model, whole, rotary
        self._angles: list[tuple[Tensor, Tensor]] = []
        self._stack: list[_Running] = []
        self._calls: dict[str, int] = {}
        self._lengths: dict[tuple[int, int], Tensor] = {}
        self._batch = Batch()
        self._each: _Each = lambda scores: None
        self._flow = DataFlow(model, self._place)
        self.left_out: tuple[LeftOut, ...] = ()
        self._names = {module: name for name, module in model.named_modules()}

    def run(self, batch: Batch, each: _Each | None = None) -> list[Scores]:
        """Run the model once; hand what each module attends with to ``each``, or return it all."""
        kept: list[Scores] = []
        self._each = each or kept.append
        self._batch, self._calls, self._lengths = batch, {}, {}
        self._stack.clear()
        self._angles.clear()
        self._flow = flow = DataFlow(self._model, self._place)
        seen = Primitives(self._attended, self._softmaxed, self._whole, flow.resting)
        try:
            with torch.no_grad(), _uncompiled(), flow, seen:
                batch.call(self._model)
        except InputError:
            raise
        except (TypeError, IndexError, RuntimeError, ValueError) as error:
            kind = type(self._model).__name__
            raise InputError(
                f"{kind} could not run on {batch}: {type(error).__name__}: {error}"
            ) from error
        self.left_out = flow.left_out()
        return kept

    def enter(self, module: nn.Module, args: Any) -> None:
        """Note that a module begins to run."""
        self._stack.append(_Running(self._names[module], module, adapter_of(module)))

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Note that a module has run; read it if an adapter does."""
        running = self._stack.pop()
        if self._stack:
            self._remember(running, args, output)
        if self._rotary:
            with torch._C.DisableTorchFunction(), self._flow.resting():
                self._angles += [found for found in [angles_of(output)] if found is not None]
        if running.adapter is None or self._claimed() is not None:
            return
        with torch._C.DisableTorchFunction(), self._flow.resting():
            call = Call(args, kwargs, output, running.inside, tuple(running.softmaxes))
            attention = running.adapter.attention(module, call)
            if attention is None:
                self._flow.declared.add(running.name)
                return
            own = running.adapter.probabilities(module, call)
            self._found(running, replace(attention, probabilities=own), running.layers)

    def _remember(self, running: _Running, args: Any, output: Any) -> None:
        parent = self._stack[-1]
        short = running.name.rpartition(".")[2]
        if is_linear(running.module) and args and isinstance(output, Tensor):
            parent.layers[short] = Passed(running.name, running.module, args[0], output)
        if self._rotary and isinstance(output, Tensor) and short in _NORMS:
            parent.norms[short] = output
        claimed = self._claimed()
        if claimed is not None:
            within = running.name.removeprefix(claimed.name).removeprefix(".")
            claimed.inside[within] = output

    def _claimed(self) -> _Running | None:
        return next((running for running in self._stack if running.adapter is not None), None)

    def _softmaxed(self, result: Tensor) -> None:
        claimed = self._claimed()
        if claimed is not None:
            claimed.softmaxes.append(result)

    def _place(self) -> tuple[str, str, bool]:
        running = self._claimed() or (self._stack[-1] if self._stack else None)
        if running is None:
            return "", type(self._model).__name__, False
        return running.name, type(running.module).__name__, running.adapter is not None

    def _attended(self, attention: Attention) -> None:
        if self._claimed() is not None:
            return
        running = self._stack[-1]
        # A module that only wraps the primitive stands beside the layers that feed it.
        holder = next((r for r in self._stack[:-3:-1] if r.layers), running)
        self._found(running, attention, holder.layers)

    def _found(self, running: _Running, attention: Attention, layers: dict[str, Passed]) -> None:
        if attention.queries.ndim != 4 or attention.keys.ndim != 4:
            raise ExtractionError(
                f"module {running.name!r} attends with queries of shape "
                f"{tuple(attention.queries.shape)}; (batch, heads, tokens, m) is understood"
            )
        self._flow.lengths |= {attention.queries.shape[2], attention.keys.shape[2]}
        turn = self._calls[running.name] = self._calls.get(running.name, 0) + 1
        self._each(self._scores(running, attention, layers, "" if turn == 1 else f"#{turn}"))

    def _scores(
        self, running: _Running, attention: Attention, layers: dict[str, Passed], turn: str
    ) -> Scores:
        found = _projections(running, attention, layers)
        keys, queries = attention.keys, attention.queries
        groups = _key_heads(running.module, attention, found)
        if keys.shape[1] != groups:
            together = keys.reshape(keys.shape[0], groups, -1, *keys.shape[2:])
            if not torch.equal(together, together[:, :, :1].expand_as(together)):
                raise ExtractionError(
                    f"module {running.name!r} has {groups} key heads by its weights, but its "
                    f"{keys.shape[1]} query heads do not share them in groups"
                )
            keys = together[:, :, 0]
        same = found.same if found else queries.shape[2] == keys.shape[2] - attention.added_keys
        query_tokens, key_tokens = self._tokens(attention, same)
        rotation, positions = None, ""
        if self._rotary:
            rotation, positions = rotation_of(
                attention, found, layers, running.norms, self._angles, key_tokens
            )
        return Scores(
            name=running.name + turn,
            module=running.module,
            queries=queries * attention.scale,
            keys=keys,
            mask=attention.mask,
            causal=attention.causal,
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            kind="self" if same else "cross",
            scale=attention.scale,
            query_projection=found.query if found else None,
            key_projection=found.key if found else None,
            value_projection=found.value if found else None,
            values=attention.values,
            mixed=attention.mixed,
            own_probabilities=attention.probabilities,
            rotation=rotation,
            positions=positions,
        )

    def _tokens(self, attention: Attention, same: bool) -> tuple[Tensor, Tensor]:
        """Return the tokens that are there: those that the masks let some query see."""
        batch, _, count, _ = attention.queries.shape
        tokens = attention.keys.shape[2]
        device = attention.queries.device
        there = torch.ones(batch, tokens, dtype=torch.bool, device=device)
        if attention.mask is not None:
            there = there & seen_keys(attention.mask, batch, tokens)
        there[:, tokens - attention.added_keys :] = False
        given = self._batch.named("attention_mask")
        decoder = self._batch.named("decoder_input_ids") is not None
        if given is not None and given.shape == there.shape and not decoder:
            there = there & given.bool()
        own = there[:, : tokens - attention.added_keys]
        if same and own.shape[1] == count:
            self._lengths[batch, count] = own
            return own, there
        named = self._batch.named("decoder_attention_mask")
        if named is not None and named.shape == (batch, count):
            return named.bool(), there
        everyone = torch.ones(batch, count, dtype=torch.bool, device=device)
        return self._lengths.get((batch, count), everyone), there


@contextmanager
def watching(model: nn.Module, whole: bool = False, rotary: bool = False) -> Iterator[Watch]:
    """Watch a model with its attention fused; afterwards it is as it was.

    ``whole`` asks ``torch.nn.MultiheadAttention`` for its probabilities too, ``rotary`` for queries and
    keys before rotation.
    """
    watch = Watch(model, whole, rotary)
    with fused(model), hooks(model, watch.enter, watch.leave):
        yield watch


def _uncompiled() -> AbstractContextManager[Any]:
    """Have compiled parts of a model run as they are written: compiled ones show no operators."""
    stance: Any = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    return nullcontext() if stance is None else stance("force_eager")


@contextmanager
def hooks(
    model: nn.Module,
    enter: Callable[[nn.Module, Any], None],
    leave: Callable[[nn.Module, Any, Any, Any], None],
) -> Iterator[None]:
    """Report every module of a model that begins to run, and that has run."""
    with ExitStack() as stack:
        for module in model.modules():
            stack.enter_context(module.register_forward_pre_hook(enter))
            stack.enter_context(module.register_forward_hook(leave, with_kwargs=True))
        yield


def _projections(
    running: _Running, attention: Attention, layers: dict[str, Passed]
) -> Found | None:
    if not isinstance(running.module, nn.MultiheadAttention):
        return projections(attention, layers)
    inputs = attention.inputs or (attention.queries, attention.keys)
    return Found(*packed_projections(running.name, running.module), same_tokens(*inputs))


def _key_heads(module: nn.Module, attention: Attention, found: Found | None) -> int:
    if found is not None:
        return len(found.key.rows)
    shared = getattr(module, "num_key_value_groups", 1)
    heads = attention.keys.shape[1]
    grouped = heads == attention.queries.shape[1] and isinstance(shared, int) and shared > 1
    return heads // shared if grouped else heads
