"""The flow of data through torch's operators while a model runs: products, and weights made of them.

Attention need not end in a primitive: exp and a sum, log_softmax, a softmax of a two-dimensional view
and many others compute the same. All of them are operators of torch in the end, and a dispatch mode
sees every operator. For every storage it keeps a trace:

    data       it depends on the input, not on weights and constants alone
    product    a product of two things that are data, and only pointwise steps since
    maps       weights (see :mod:`.omissions`), or something pointwise of them
    weighed    such weights times values, entry by entry, not yet summed
    sums       sums of exponentials that are not normalised yet

A product with weights of the model starts anew: what comes out is data and nothing more. Kernels that
are called around torch's operators are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import or_
from typing import Any

from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from exactformer.spectra.omissions import LeftOut, Map, refuse_attention

_Place = Callable[[], tuple[str, str, bool]]
"""Name and class of the module that runs, and whether an adapter answers for it."""

_NO_MAPS: frozenset[Map] = frozenset()
_FACTORS = {  # where the two sides of a product stand among the arguments
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "matmul", "int_mm"), (0, 1)),
    **dict.fromkeys(("grouped_mm", "scaled_mm", "scaled_grouped_mm", "linear"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "addmm_activation"), (1, 2)),
    **dict.fromkeys(("cdist", "cdist_forward", "euclidean_dist", "convolution"), (0, 1)),
    **dict.fromkeys(("convolution_overrideable", "sparse_mm", "smm", "sspaddmm"), (0, 1)),
    "addr": (1, 2),
    "trilinear": (0, 1, 2),
}
_ATTENTION = re.compile("scaled_dot_product|attention|attn|transformer_encoder_layer")
_NORMALISED = re.compile("softmax|logsumexp|softmin")
_EXPONENTIALS = frozenset(("exp", "exp2", "expm1"))
_BENT = frozenset(
    "sigmoid relu tanh gelu silu elu leaky_relu softplus square pow abs clamp clamp_min clamp_max "
    "hardtanh hardsigmoid hardswish erf erfc cos sin rsqrt sqrt reciprocal log1p threshold mish "
    "log_sigmoid_forward heaviside sign rrelu_with_noise prelu relu6 celu selu log sinh cosh".split()
)
_SUMS = frozenset(
    "sum mean nansum nanmean cumsum index_add scatter_add scatter_reduce index_reduce "
    "segment_reduce sum_to_size".split()
)
_CONSTANT = re.compile(
    "(empty|zeros|ones|full|rand|randn|randint|bernoulli)(_like|_strided)?$|new_"
)
_TORCH = ("aten", "prim", "prims")


@dataclass(frozen=True)
class _Trace:
    data: bool = True
    product: bool = False
    maps: frozenset[Map] = _NO_MAPS
    weighed: frozenset[Map] = _NO_MAPS
    sums: frozenset[Map] = _NO_MAPS

    def __or__(self, other: _Trace) -> _Trace:
        return _Trace(
            self.data or other.data,
            self.product or other.product,
            self.maps | other.maps,
            self.weighed | other.weighed,
            self.sums | other.sums,
        )

    @property
    def touched(self) -> frozenset[Map]:
        return self.maps | self.weighed | self.sums


_DATA, _CONSTANTS = _Trace(), _Trace(data=False)


@dataclass(slots=True)
class _Step:
    """One operator that was carried out; there are many, so that nothing is computed in advance."""

    operator: Any
    name: str
    args: tuple[Any, ...]
    given: list[Tensor]
    results: list[Tensor]
    trace: _Trace
    """Of all that was given."""

    @property
    def operation(self) -> str:
        """The name with its namespace and variant, for people."""
        namespace = getattr(self.operator, "namespace", "torch")
        return f"{namespace}.{getattr(self.operator, '__name__', self.name)}"


class DataFlow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows data through one run of a model.

    ``lengths`` are those of the sequences that attend; ``declared`` are modules whose adapter returned
    that they hold no attention.
    """

    supports_higher_order_operators = True

    def __init__(self, model: nn.Module, place: _Place) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lengths: set[int] = set()
        self.declared: set[str] = set()
        self._place, self._resting = place, 0
        self._maps: list[Map] = []
        self._products: dict[LeftOut, None] = {}
        self._traces: dict[int, tuple[StorageWeakRef, _Trace]] = {}
        for module in model.modules():
            own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
            for tensor in (*own, *(v for v in vars(module).values() if isinstance(v, Tensor))):
                self._note(tensor, _CONSTANTS)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Look away: what runs is accounted for."""
        self._resting += 1
        try:
            yield
        finally:
            self._resting -= 1

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what was seen and not read; raise if some of it could be attention."""
        refuse_attention(self._maps, self.lengths)
        found = dict(self._products)
        claimed: set[str] = set()
        for weights in self._maps:
            if not weights.counts:
                continue
            if not weights.claimed:
                found[weights.left_out()] = None
            elif weights.module in self.declared:
                found[weights.left_out("not attention by its adapter")] = None
            elif weights.could_be_attention(self.lengths):
                if weights.module in claimed:
                    found[weights.left_out("besides the one that its adapter reads")] = None
                claimed.add(weights.module)
        return tuple(found)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry an operator out and note what came of it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self._resting:
            self._follow(func, args, kwargs, result)
        return result

    def _follow(self, func: Any, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        name = str(getattr(func, "overloadpacket", func).__name__).strip("_")
        given, results = list(_tensors((args, kwargs))), list(_tensors(result))
        together = reduce(or_, map(self._trace, given)) if given else _CONSTANTS
        trace = _CONSTANTS
        if together.data and not _CONSTANT.match(name):
            trace = self._result(_Step(func, name, args, given, results, together))
        # A part of a storage may have been written: what the rest is made of still counts.
        written = [(tensor, self._trace(tensor)) for tensor in _written(func, args, kwargs)]
        for tensor in results:
            self._note(tensor, trace)
        for tensor, before in written:
            self._note(tensor, trace | before)

    def _result(self, step: _Step) -> _Trace:
        given, scores = step.given, step.given[0]
        if _ATTENTION.search(step.name) and any(t.is_floating_point() for t in step.results):
            size = given[min(1, len(given) - 1)].shape[-2:][0]
            self._add(step, int(size), from_product=True, multiplied=True)
            return _DATA
        if _NORMALISED.search(step.name):
            dim = step.args[1] if len(step.args) > 1 else -1
            axes = dim if isinstance(dim, list | tuple) else (dim,)
            sizes = (scores.shape[x] for x in axes if scores.ndim and isinstance(x, int))
            weights = self._add(step, prod(sizes), step.trace.product)
            self._replace(step.trace.maps)
            return _Trace(maps=frozenset((weights,)))
        if step.name in _FACTORS or getattr(step.operator, "namespace", "aten") not in _TORCH:
            return self._multiplied(step)
        return self._pointwise(step)

    def _multiplied(self, step: _Step) -> _Trace:
        places = _FACTORS.get(step.name)
        factors = [step.args[p] for p in places if p < len(step.args)] if places else step.given
        data = [self._trace(tensor) for tensor in self._numbers(factors)]
        for trace in data:
            beside = len(data) > 1
            for weights in trace.maps:
                weights.multiplied |= beside or weights.axes > 2
            for weights in trace.weighed:
                weights.multiplied |= beside
        unfinished = frozenset(m for m in step.trace.maps | step.trace.weighed if not m.is_map)
        if len(data) < 2:
            return _Trace(sums=unfinished)
        module, kind, claimed = self._place()
        if not claimed:
            what = f"a product of two things computed from the input, by {step.operation}"
            self._products[LeftOut(module, kind, what)] = None
        return _Trace(product=True, weighed=unfinished)

    def _pointwise(self, step: _Step) -> _Trace:
        name, trace, scores = step.name, step.trace, step.given[0]
        if name in _EXPONENTIALS or (name == "pow" and not isinstance(step.args[0], Tensor)):
            return self._exponential(step)
        if name in _BENT and trace.product and not trace.touched:
            weights = self._add(step, _last(scores), True, always_listed=False)
            return replace(trace, maps=frozenset((weights,)))
        if name in ("mul", "div", "true_divide", "addcmul", "addcdiv"):
            return self._scaled(step)
        if name in ("sub", "rsub"):
            return self._divided(trace)
        if name in ("add", "add_relu"):
            return self._added(step)
        if name in _SUMS:
            for weights in trace.weighed:
                weights.summed = True
            return replace(
                trace, weighed=_NO_MAPS, sums=trace.sums | {m for m in trace.maps if not m.is_map}
            )
        return trace

    def _exponential(self, step: _Step) -> _Trace:
        if any(m.always_listed for m in step.trace.maps):  # of log_softmax, or less logsumexp
            return step.trace
        self._replace(step.trace.maps)
        weights = self._add(step, _last(step.given[0]), step.trace.product)
        weights.is_map = step.trace.product
        return replace(step.trace, maps=frozenset((weights,)))

    def _scaled(self, step: _Step) -> _Trace:
        """Follow a product entry by entry: an outer one, weights times values, a quotient by a sum."""
        data, trace = self._numbers(step.given), step.trace
        weighed = trace.weighed | {
            m for m in trace.maps if any(m not in self._trace(t).touched for t in data)
        }
        outer = len(data) > 1 and any(
            r.numel() > max(t.numel() for t in data) for r in step.results
        )
        if outer:
            for weights in weighed:
                weights.multiplied = True
        trace = replace(
            trace, product=trace.product or outer, maps=trace.maps - weighed, weighed=weighed
        )
        return self._divided(trace)

    def _numbers(self, given: Iterable[Any]) -> list[Tensor]:
        """Return the tensors that depend on the input and are more than one number."""
        tensors = [t for t in given if isinstance(t, Tensor) and t.is_floating_point()]
        return [t for t in tensors if t.numel() > 1 and self._trace(t).data]

    def _divided(self, trace: _Trace) -> _Trace:
        """Follow exponentials over their sum, or scores less its logarithm: now they are weights."""
        for weights in trace.sums:
            weights.is_map = True
        return replace(trace, maps=trace.maps | trace.sums, sums=_NO_MAPS)

    def _added(self, step: _Step) -> _Trace:
        """Follow a sum: weights that something else is added to are a residual stream, not weights."""
        traces, trace = [self._trace(t) for t in self._numbers(step.given)], step.trace
        kept = {m for m in trace.touched if all(m in t.touched for t in traces)}
        return replace(
            trace, maps=trace.maps & kept, weighed=trace.weighed & kept, sums=trace.sums & kept
        )

    def _add(self, step: _Step, size: int, from_product: bool, **facts: bool) -> Map:
        """Note that the scores which an operator was given first became weights."""
        module, kind, claimed = self._place()
        axes = step.given[0].ndim
        weights = Map(
            module, kind, step.operation, axes, size, from_product, claimed=claimed, **facts
        )
        self._maps.append(weights)
        return weights

    def _replace(self, maps: Iterable[Map]) -> None:
        for weights in maps:
            weights.replaced = True

    def _trace(self, tensor: Tensor) -> _Trace:
        storage = _storage(tensor)
        if storage is None:
            return _DATA
        known = self._traces.get(storage._cdata)
        if known is not None:
            return known[1]
        return _CONSTANTS if tensor.numel() == 1 else _DATA

    def _note(self, tensor: Tensor, trace: _Trace) -> None:
        storage = _storage(tensor)
        if storage is None:  # it cannot be followed, so the worst is assumed
            for weights in trace.maps:
                weights.multiplied = True
            return
        known = self._traces.get(storage._cdata)
        # A weak reference keeps the address from being given to another storage.
        reference = known[0] if known else StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._traces[storage._cdata] = reference, trace


def _storage(tensor: Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse and other layouts have none
        return None


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)


def _written(func: Any, args: tuple[Any, ...], kwargs: Any) -> Iterator[Tensor]:
    """Yield the arguments that an operator writes to."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable:
        return
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            named = kwargs.get(argument.name)
            yield from _tensors(args[place] if place < len(args) else named)


def _last(tensor: Tensor) -> int:
    return int(tensor.shape[-1]) if tensor.ndim else 1
