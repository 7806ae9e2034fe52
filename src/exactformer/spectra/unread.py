"""What a model computes that could be attention and that nothing reads.

Attention need not end in a primitive, but however it is written it ends in operators of torch, and a
dispatch mode sees every one. Two kinds are noted, outside of primitives:

    products    of two things computed from the input, such as q kᵀ; and kernels called attention
    weights     by a softmax, or exponentials, of something computed from the input

Products, and weights over as many things as some sequence has tokens, stop the analysis with the name
of their module. Other weights (classes, gates of experts) are listed in the result. What is computed
from parameters and constants alone is told apart by its storage. Kernels that are called around torch's
operators are not seen, nor is attention without products, softmax and exponentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from exactformer.spectra.errors import ExtractionError

_FACTORS = {  # where the two sides of a product stand among the arguments
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "matmul", "int_mm", "linear"), (0, 1)),
    **dict.fromkeys(("grouped_mm", "scaled_mm", "scaled_grouped_mm", "convolution"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "addmm_activation", "addr"), (1, 2)),
    **dict.fromkeys(("cdist", "cdist_forward", "euclidean_dist", "sparse_mm", "smm"), (0, 1)),
    "trilinear": (0, 1, 2),
}
_ATTENTION = re.compile("scaled_dot_product|attention|attn|transformer_encoder_layer")
_WEIGHTS = re.compile("softmax|softmin|logsumexp|^(exp|exp2|expm1)$")
_CONSTANT = re.compile(
    "(empty|zeros|ones|full|rand|randn|randint|bernoulli)(_like|_strided)?$|new_"
)
_TORCH = ("aten", "prim", "prims")


@dataclass(frozen=True)
class LeftOut:
    """Something that was seen in a model and is not part of the result."""

    module: str
    """Dotted name; ``""`` is the model itself."""
    kind: str
    """The class of the module."""
    what: str

    def __str__(self) -> str:
        where = f"module {self.module!r}" if self.module else "the model itself"
        return f"{where} ({self.kind}): {self.what}"


@dataclass(frozen=True)
class _Noted:
    left: LeftOut
    sizes: frozenset[int] | None
    """How many things are weighed together; None for a product, which stops the analysis anyhow."""


class Unread(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the operators of one run of a model; ``place`` names the module that runs."""

    supports_higher_order_operators = True

    def __init__(self, model: nn.Module, place: Callable[[], tuple[str, str]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._place, self._resting = place, 0
        self._noted: dict[_Noted, None] = {}
        self._softmax: Callable[[Tensor], None] | None = None
        # A weak reference keeps the address from being given to another storage.
        self._constants: dict[int, StorageWeakRef] = {}
        for module in model.modules():
            own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
            for tensor in (*own, *(v for v in vars(module).values() if isinstance(v, Tensor))):
                self._remember(tensor, constant=True)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Look away: what runs is accounted for."""
        before, self._softmax = self._softmax, None
        self._resting += 1
        try:
            yield
        finally:
            self._resting -= 1
            self._softmax = before

    def rest(self, softmax: Callable[[Tensor], None]) -> None:
        """Look away until :meth:`resume`, and hand on what softmaxes give."""
        self._resting, self._softmax = self._resting + 1, softmax

    def resume(self) -> None:
        """Look again."""
        self._resting, self._softmax = self._resting - 1, None

    def left_out(self, lengths: Iterable[int], declared: Iterable[str]) -> tuple[LeftOut, ...]:
        """Return what was seen and not read; raise for what could be attention.

        ``lengths`` are those of the sequences that attend, ``declared`` modules that do not.
        """
        tokens, declared = set(lengths), set(declared)
        found: dict[LeftOut, None] = {}
        for noted in self._noted:
            left = noted.left
            harmless = noted.sizes is not None and not noted.sizes & tokens
            if left.module in declared:
                left = LeftOut(left.module, left.kind, f"{left.what}, declared not to be attention")
            elif not harmless:
                raise ExtractionError(
                    f"{left}, which could be attention of its own, and nothing reads it; hand over a "
                    f"function that does, spectrum(…, attention={{{left.module!r}: function}}), or "
                    "None in its place if it is not attention"
                )
            found[left] = None
        return tuple(found)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry an operator out and note what it is."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = str(getattr(func, "overloadpacket", func).__name__).strip("_")
        given, results = list(_tensors((args, kwargs))), list(_tensors(result))
        data = any(self._is_data(tensor) for tensor in given) and not _CONSTANT.match(name)
        if self._softmax is not None and name == "softmax":
            self._softmax(results[0])
        if data and not self._resting:
            self._note(func, name, args, given, results)
        for tensor in (*results, *_written(func, args, kwargs)):
            self._remember(tensor, constant=not data)
        return result

    def _note(
        self, func: Any, name: str, args: tuple[Any, ...], given: list[Tensor], results: Any
    ) -> None:
        namespace = getattr(func, "namespace", "torch")
        operation = f"{namespace}.{getattr(func, '__name__', name)}"
        if _ATTENTION.search(name) and any(t.is_floating_point() for t in results):
            self._add(f"attention by {operation}", None)
        elif name in _FACTORS or namespace not in (*_TORCH, "torch"):
            places = _FACTORS.get(name)
            factors = given if places is None else [args[p] for p in places if p < len(args)]
            if sum(map(self._is_number, factors)) > 1:
                self._add(f"a product of two things computed from the input, by {operation}", None)
        elif _WEIGHTS.search(name) and self._is_number(given[0]):
            shape = given[0].shape
            dim = args[1] if len(args) > 1 and name[:3] != "exp" else -1
            axes = dim if isinstance(dim, list | tuple) else (dim,)
            size = prod(shape[axis] for axis in axes if shape and isinstance(axis, int))
            self._add(f"weights by {operation} over {size} entries", frozenset((size,)))

    def _add(self, what: str, sizes: frozenset[int] | None) -> None:
        self._noted[_Noted(LeftOut(*self._place(), what), sizes)] = None

    def _is_number(self, value: Any) -> bool:
        """Whether something is numbers, more than one, that depend on the input."""
        real = isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1
        return real and self._is_data(value)

    def _is_data(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the input, for all that is known."""
        storage = _storage(tensor)
        return storage is None or storage._cdata not in self._constants

    def _remember(self, tensor: Tensor, constant: bool) -> None:
        storage = _storage(tensor)
        if storage is None:
            return
        if constant:
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._constants.setdefault(storage._cdata, reference)
        else:
            self._constants.pop(storage._cdata, None)


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
