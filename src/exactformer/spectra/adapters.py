"""Attention that ends in no primitive: an adapter says where its queries and keys are.

Most models need none. One that multiplies queries and keys by itself does: its author writes how the
two are found in what the module was given and what its parts returned, and registers that. The tool
then checks it as it checks everything: the attention rebuilt must be the one that the module computed.

>>> class Mine(Adapter):
...     def matches(self, module):
...         return isinstance(module, MyAttention)
...     def attention(self, module, call):
...         q, k = (call.inside[name].unflatten(-1, (module.heads, -1)).transpose(1, 2)
...                 for name in ("to_q", "to_k"))
...         return Attention(q, k, scale=module.scale)
>>> register(Mine())  # doctest: +SKIP
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from exactformer.spectra.primitives import Attention


@dataclass(frozen=True)
class Call:
    """One run of a module: what it was given, what it and its parts returned."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    inside: dict[str, Any] = field(default_factory=dict)
    """Outputs of the modules inside, by their name within this one."""
    softmaxes: tuple[Tensor, ...] = ()
    """Results of each softmax that ran inside, in order."""


class Adapter(ABC):
    """How to read one kind of attention module."""

    @abstractmethod
    def matches(self, module: nn.Module) -> bool:
        """Whether this adapter reads a module."""

    @abstractmethod
    def attention(self, module: nn.Module, call: Call) -> Attention | None:
        """Return the queries and keys that met in the module, and what was added to their products.

        ``None`` declares that the module's weights are not attention; the result lists them.
        """

    def probabilities(self, module: nn.Module, call: Call) -> Tensor | None:
        """Return the attention (B, heads, τ_q, τ_k) that the module computed: its last softmax."""
        return call.softmaxes[-1] if call.softmaxes else None


class _EnsembleAdapter(Adapter):
    """``learning.AttentionEnsemble``: M models of one head each appear as M heads."""

    def matches(self, module: nn.Module) -> bool:
        """Recognise the ensemble."""
        from exactformer.learning.ensembles import AttentionEnsemble

        return isinstance(module, AttentionEnsemble)

    def attention(self, module: Any, call: Call) -> Attention:
        """Return W_Q h and W_K h of every model (B, M, τ, m)."""
        x, mask = (*call.args, *call.kwargs.values(), None)[:2]
        queries, keys, _ = module._project(x)
        seen = None if mask is None else mask[:, None, None, :]
        causal = module.configurations[0].causal
        return Attention(queries.transpose(0, 1), keys.transpose(0, 1), seen, causal)

    def probabilities(self, module: nn.Module, call: Call) -> Tensor | None:
        """Return the softmax, with models in the place of heads."""
        return call.softmaxes[-1].transpose(0, 1)


class _T5Adapter(Adapter):
    """T5 as it was before it used a primitive: its bias, with the mask in it, is what it returns."""

    def matches(self, module: nn.Module) -> bool:
        """Recognise T5's attention; one that has a ``scaling`` passes it to a primitive."""
        return type(module).__name__ in ("T5Attention", "MT5Attention") and not hasattr(
            module, "scaling"
        )

    def attention(self, module: Any, call: Call) -> Attention:
        """Return the projections as they are: T5 does not scale."""
        queries, keys = (
            call.inside[name].unflatten(-1, (module.n_heads, -1)).transpose(1, 2)
            for name in ("q", "k")
        )
        bias = next(x for x in call.output if isinstance(x, Tensor) and x.ndim == 4)
        return Attention(queries, keys, bias)


_registered: list[Adapter] = [_EnsembleAdapter(), _T5Adapter()]


def register(adapter: Adapter) -> None:
    """Have modules that ``adapter`` matches read by it; the last one registered is asked first."""
    _registered.insert(0, adapter)


def unregister(adapter: Adapter) -> None:
    """Take back :func:`register`."""
    _registered.remove(adapter)


def adapter_of(module: nn.Module) -> Adapter | None:
    """Return the adapter that reads a module, if there is one."""
    return next((adapter for adapter in _registered if adapter.matches(module)), None)
