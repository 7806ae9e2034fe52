"""Queries and keys of every attention of a model, taken from it while it runs normally.

    with watching(model) as watch:
        for layer in watch.run(batch): ...        # Scores, in the order of execution

They are taken where they meet: at a primitive (:mod:`.primitives`), or by a function that was handed
over for a module that multiplies them by itself. What else could be attention is refused
(:mod:`.unread`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import ExactformerError, InputError
from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.primitives import Attention, Reading
from exactformer.spectra.running import Running
from exactformer.spectra.scores import Scores, seen_keys
from exactformer.spectra.switches import fused
from exactformer.spectra.unread import LeftOut, Unread

Reader = Callable[..., Attention]
"""Called as the module, with the module before its arguments; returns what met in it."""
Readers = Mapping[str | type[nn.Module], Reader | None]
"""By the name or class of a module that multiplies queries and keys by itself; None: no attention."""


@dataclass
class _Claimed:
    """A module that a function reads, while it runs."""

    module: nn.Module
    reader: Reader
    softmaxes: list[Tensor] = field(default_factory=list)


class Watch:
    """A model under observation; made by :func:`watching`."""

    def __init__(self, model: nn.Module, readers: Readers, whole: bool) -> None:
        self._model, self._whole = model, whole
        self._readers = _by_module(model, readers)
        self.running = Running(model)
        self._each: Callable[[Scores], None] = lambda scores: None
        self._batch, self._lengths = Batch(), dict[tuple[int, int], Tensor]()
        self._claimed: _Claimed | None = None
        self._flow = Unread(model, lambda: self.running.place)
        self._more: dict[LeftOut, None] = {}
        self.left_out: tuple[LeftOut, ...] = ()

    def run(self, batch: Batch, each: Callable[[Scores], None] | None = None) -> list[Scores]:
        """Run the model once; hand what each module attends with to ``each``, or return it all."""
        kept: list[Scores] = []
        self._each = each or kept.append
        self._batch, self._lengths, self._claimed, self._more = batch, {}, None, {}
        self._flow = flow = Unread(self._model, lambda: self.running.place)
        reading = Reading(self._attended, lambda: self._flow.resting(), self._whole)
        try:
            with torch.no_grad(), uncompiled(), flow, reading:
                batch.call(self._model)
        except ExactformerError:
            raise
        except (TypeError, IndexError, RuntimeError, ValueError) as error:
            kind = type(self._model).__name__
            raise InputError(
                f"{kind} could not run on {batch}: {type(error).__name__}: {error}"
            ) from error
        lengths = {length for _, length in self._lengths}
        declared = {self.running.name(m) for m, reader in self._readers.items() if reader is None}
        self.left_out = (*flow.left_out(lengths, declared), *self._more)
        return kept

    def enter(self, module: nn.Module) -> None:
        """Have a module's function read it."""
        reader = self._readers.get(module)
        if reader is not None and self._claimed is None:
            self._claimed = _Claimed(module, reader)
            self._flow.rest(self._claimed.softmaxes.append)

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Read a module by its function, once it has run."""
        claimed = self._claimed
        if claimed is None or claimed.module is not module:
            return
        self._flow.resume()
        with torch._C.DisableTorchFunction(), self._flow.resting():
            attention = claimed.reader(module, *args, **kwargs)
            self._claimed = None
            if not isinstance(attention, Attention):
                raise InputError(
                    f"the function for module {self.running.name(module)!r} returned "
                    f"{type(attention).__name__}: return exactformer.spectra.Attention(queries, keys)"
                )
            if attention.probabilities is None and claimed.softmaxes:
                *others, own = claimed.softmaxes
                attention = replace(attention, probabilities=own)
                if others:
                    self._leave_out(
                        f"{len(others)} softmax besides the one that its function reads"
                    )
            self._found(attention)

    def _attended(self, attention: Attention) -> None:
        if self._claimed is not None:
            self._leave_out("attention at a primitive, inside a module that a function reads")
        else:
            self._found(attention)

    def _leave_out(self, what: str) -> None:
        self._more[LeftOut(*self.running.place, what)] = None

    def _found(self, attention: Attention) -> None:
        name, queries, keys = self.running.place[0], attention.queries, attention.keys
        if queries.ndim != 4 or keys.ndim != 4:
            raise ExtractionError(
                f"module {name!r} attends with queries of shape {tuple(queries.shape)}; (batch, "
                "heads, tokens, m) is understood"
            )
        if not self.running.stack:
            raise ExtractionError("attention outside of any module is not read")
        self._each(self._scores(attention))

    def _scores(self, attention: Attention) -> Scores:
        module = self.running.stack[-1]
        queries = attention.queries
        same = self._is_same(attention)
        query_tokens, key_tokens = self._tokens(attention, same)
        return Scores(
            name=self.running.call(module),
            module=module,
            queries=queries * attention.scale,
            keys=self._ungrouped(attention),
            mask=attention.mask,
            causal=attention.causal,
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            kind="self" if same else "cross",
            own_probabilities=attention.probabilities,
        )

    def _ungrouped(self, attention: Attention) -> Tensor:
        """Return each key head once: some models repeat those that heads share."""
        keys = attention.keys
        heads = attention.queries.shape[1]
        if heads % keys.shape[1]:
            raise ExtractionError(
                f"module {self.running.place[0]!r} has {heads} query heads and {keys.shape[1]} key "
                "heads, which cannot share them in groups"
            )
        stack = self.running.stack[:-3:-1]
        shared = max(map(_groups, stack))
        if keys.shape[1] != heads or heads % shared:
            return keys
        together = keys.reshape(len(keys), -1, shared, *keys.shape[2:])
        same = torch.equal(together, together[:, :, :1].expand_as(together))
        return together[:, :, 0] if same else keys

    def _is_same(self, attention: Attention) -> bool:
        """Whether queries and keys are of the same tokens, not of two sequences."""
        if attention.same is not None:
            return attention.same
        batch, tokens = attention.queries.shape[0], attention.keys.shape[2] - attention.added_keys
        if attention.queries.shape[2] != tokens:
            return False
        args, kwargs = self.running.given[-1]
        sequences = [
            x
            for x in (*args, *kwargs.values())
            if isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 3
            if x.shape[:2] == (batch, tokens) and x.shape[2] not in (1, tokens)
        ]
        return all(x.data_ptr() == sequences[0].data_ptr() for x in sequences)

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
        everyone = torch.ones(batch, count, dtype=torch.bool, device=device)
        known = self._lengths.get((batch, count), everyone)
        self._lengths.setdefault((batch, own.shape[1]), torch.ones_like(own))
        if same and own.shape[1] == count:
            self._lengths[batch, count] = own
            return own, there
        self._lengths.setdefault((batch, count), everyone)
        named = self._batch.named("decoder_attention_mask")
        if named is not None and named.shape == (batch, count):
            return named.bool(), there
        return known, there


@contextmanager
def watching(
    model: nn.Module, readers: Readers | None = None, whole: bool = False
) -> Iterator[Watch]:
    """Watch a model with its attention fused; afterwards it is as it was.

    ``whole`` asks for the model's own probabilities, too.
    """
    watch = Watch(model, readers or {}, whole)
    with fused(model), watch.running.watch(watch.leave, watch.enter):
        yield watch


def uncompiled() -> AbstractContextManager[Any]:
    """Have compiled parts of a model run as they are written: compiled ones show no operators."""
    stance: Any = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    return nullcontext() if stance is None else stance("force_eager")


def _by_module(model: nn.Module, readers: Readers) -> dict[nn.Module, Reader | None]:
    found: dict[nn.Module, Reader | None] = {}
    for key, reader in readers.items():
        if reader is not None and not callable(reader):
            raise InputError(f"attention of {key!r} is {reader!r}: give a function, or None")
        modules = [m for name, m in model.named_modules() if key in (name, type(m))]
        if not modules:
            raise InputError(f"attention names {key!r}, and no module of the model is called so")
        found |= dict.fromkeys(modules, reader)
    return found


def _groups(module: nn.Module) -> int:
    shared: Any = getattr(module, "num_key_value_groups", 1)
    return shared if isinstance(shared, int) else 1
