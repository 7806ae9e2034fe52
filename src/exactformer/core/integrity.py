"""Integrity of a model: whether the module still is the one that its proof is about.

A proof is about a blueprint. A module runs it, and can be changed: trained, given other weights or
layers, hooks, another ``forward``. So a model is compared with one built afresh from its blueprint:
the same tree of the same classes, with their methods as they were defined, no forward hooks, and the
same value in every tensor and attribute. What cannot be compared counts as different. An attribute
that nothing built afresh has, and that hides nothing of its class, is read by nobody and is left out.

Building afresh takes as long as compiling. What a model contains is therefore recorded when it is
built, tensors by their digests. A model that contains what was recorded has not been changed; only one
that differs from its record is compared with a fresh one.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from exactformer.errors import ExactformerError, ExecutionError, InputError, WeightMismatchError

WAY_OUT = (
    "The certificate is about the weights as they were compiled; train a copy.deepcopy(model), or "
    "compile anew"
)

Key = tuple[str, str, str]
"""The path of a module, the name of an attribute of it, and the path inside that."""


class Difference(NamedTuple):
    """One thing in which a module is not the one that was proven."""

    problem: str
    tensor: str | None = None
    """The path of a tensor of which only the values differ."""
    entry: tuple[int, ...] = ()
    """The index of the first such value."""


class Digest(NamedTuple):
    """A tensor, in short."""

    kind: type
    dtype: torch.dtype
    shape: tuple[int, ...]
    content: bytes


@dataclass(frozen=True)
class Record:
    """What was proven, and what the module contained that it was proven of."""

    statement: Any
    contents: Mapping[Key, object]


class ProvenModule(nn.Module, ABC):
    """A module with a proof, which it no longer speaks of once it has been changed."""

    FIXED: tuple[str, ...] = ()
    """Attributes that belong to the proof: they are set once."""

    _record: Record

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.FIXED and "_record" in vars(self):
            raise InputError(
                f"{name} of a model cannot be exchanged, it belongs to the proof; compile or load a "
                "model with another one"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        raise ExecutionError(
            "models are not pickled; use model.save(path) and exactformer.load(path)"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = self._rebuilt()
        copy.load_state_dict(self.state_dict(), assign=False)
        for own, other in zip(copy.parameters(), self.parameters(), strict=True):
            own.requires_grad_(other.requires_grad)
        memo[id(self)] = copy
        return copy

    def __prepare_scriptable__(self) -> Self:  # what torch.jit.script calls first
        raise ExecutionError(
            "torch.jit.script cannot read a model with its checks; use torch.export or model.to_onnx, "
            "where the model has it"
        )

    def check_unchanged(self) -> None:
        """Raise unless the module is the one that was proven.

        Raises:
            WeightMismatchError: with what differs, and the way out.
        """
        if difference := self._difference():
            raise WeightMismatchError(f"{self._in_words(difference)}. {WAY_OUT}")

    def _warning(self) -> str:
        """Return what ``print(model)`` adds where the module is no longer the proven one."""
        difference = self._difference()
        if difference is None:
            return ""
        return f"; changed, so no certificate holds: {self._in_words(difference)}"

    def _seal(self, statement: Any) -> None:
        """Record the module as it is now, just built, with what is proven of its blueprint.

        Hooks that see every tensor as it is registered may have changed some: then nothing is
        recorded, and the module is compared with one that is built without them.
        """
        seen = any(getattr(torch_module, name, None) for name in _REGISTRATION)
        vars(self)["_record"] = Record(statement, {} if seen else _digests(self))

    def _restate(self, statement: Any) -> None:
        """Exchange what is said of the module, whose record of contents stays."""
        vars(self)["_record"] = Record(statement, self._record.contents)

    @abstractmethod
    def _rebuilt(self) -> Self:
        """Return the model built afresh from its blueprint, in the same format and on the device."""

    @abstractmethod
    def _format(self) -> torch.dtype:
        """Return the float format of the weights."""

    def _in_words(self, difference: Difference) -> str:
        place = "" if difference.tensor is None else f"{difference.tensor}{[*difference.entry]}: "
        return place + difference.problem

    def _difference(self) -> Difference | None:
        """Return the first thing that is not as it was proven to be, or None."""
        if found := next(_replaced(self), None):
            return found
        contents = _digests(self)
        if contents.keys() == self._record.contents.keys() and all(
            _same(here, self._record.contents[key]) for key, here in contents.items()
        ):
            return None
        if found := _first_difference(self):
            return found
        vars(self)["_record"] = Record(self._record.statement, contents)
        return None

    def _has_other_weights(self) -> bool:
        """Whether any tensor is not as it was built."""
        now, then = _digests(self), self._record.contents
        if not then:  # hooks were registered while the module was built
            with _without_registration_hooks():
                then = _digests(self._rebuilt())
        return any(
            not _same(now.get(key), then.get(key))
            for key in now.keys() | then.keys()
            if isinstance(now.get(key), Digest) or isinstance(then.get(key), Digest)
        )

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move or convert; proven weights are rounded from the blueprint, whatever they were."""
        proven, before = self._difference() is None, self._format()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if proven and self._format() != before:
            try:
                fresh = self._rebuilt()
            except ExactformerError:  # no such format, or no room in it: the model will not run
                return self
            _adopt(self, fresh)
            self._seal(self._record.statement)
        return self


def check_against_blueprint(model: ProvenModule) -> None:
    """Raise unless a model of any family is what its blueprint builds, whatever its record says.

    Raises:
        WeightMismatchError: with what differs, and the way out.
    """
    if difference := _first_difference(model):
        raise WeightMismatchError(f"{type(model)._in_words(model, difference)}. {WAY_OUT}")


def _first_difference(model: ProvenModule) -> Difference | None:
    if found := next(_replaced(model), None):
        return found
    for name in type(model).FIXED:  # from which the fresh one is built
        key = ("", name, "")
        if key in model._record.contents and not _same(
            vars(model).get(name), model._record.contents[key]
        ):
            return Difference(f"{name} was exchanged, which belongs to the proof")
    try:
        with _without_registration_hooks():
            fresh = type(model)._rebuilt(model)  # whatever the instance may have under this name
    except (ExactformerError, *_BROKEN) as error:
        return Difference(f"the module cannot be built from its blueprint: {error}")
    return next(differences(model, fresh), None)


@contextmanager
def _without_registration_hooks() -> Iterator[None]:
    """Set aside the hooks that torch's own compiler and other libraries leave registered."""
    hooks = [getattr(torch_module, name, {}) for name in _REGISTRATION]
    kept = [dict(registered) for registered in hooks]
    for registered in hooks:
        registered.clear()
    try:
        yield
    finally:
        for registered, before in zip(hooks, kept, strict=True):
            registered.update(before)


def differences(model: nn.Module, fresh: nn.Module) -> Iterator[Difference]:
    """Yield what makes one module another than a fresh one."""
    yield from _replaced(model)
    here, there = _contents(model), _contents(fresh)
    known = {key[:2] for key in there}
    kinds = {path: type(part) for path, part in model.named_modules(remove_duplicate=False)}
    stray = sorted(
        ".".join(filter(None, key))
        for key in here.keys() ^ there.keys()
        if isinstance(here.get(key, there.get(key)), Tensor)
    )
    if stray:
        yield Difference(
            "the module has tensors its blueprint has not, or lacks some: " + ", ".join(stray)
        )
    for key in sorted(there.keys() | here.keys()):
        path, name, _ = key
        own, other = here.get(key), there.get(key)
        place = ".".join(filter(None, key)) or "the model"
        if key not in here or (key not in there and (key[:2] in known or name == "")):
            yield Difference(f"{place} is not what the blueprint has there")
        elif key not in there:
            if hasattr(kinds[path], name):
                yield Difference(f"{place} hides the {name} of {kinds[path].__name__}")
        elif isinstance(own, Tensor) and isinstance(other, Tensor):
            yield from _tensor_differences(place, own, other)
        elif not _same(own, other):
            yield Difference(f"{place} was exchanged: {_short(own)} in place of {_short(other)}")


def remember(*sources: ModuleType | type) -> None:
    """Keep the methods of classes, or of all classes that modules define, as they are now."""
    for source in sources:
        classes = [source] if isinstance(source, type) else _classes(source)
        for kind in {base for own in classes for base in own.__mro__ if base is not object}:
            _methods.setdefault(kind, _methods_of(kind))


def _replaced(model: nn.Module) -> Iterator[Difference]:
    """Yield hooks and methods that are not those of the classes as they were defined."""
    for name in _GLOBAL:
        if getattr(torch_module, name, None):
            yield Difference(f"torch has global hooks ({name.strip('_')}), which no proof covers")
    kinds: dict[type, str] = {}
    for path, part in model.named_modules():
        if any(value for name, value in vars(part).items() if name.startswith("_forward_")):
            yield Difference("the module carries forward hooks, which no proof covers")
        if type(part) not in kinds:
            kinds[type(part)] = path or "the model"
        for name, value in vars(part).items():
            if _is_own_object(value):
                kinds.setdefault(type(value), f"{path}.{name}")
    for kind, place in kinds.items():
        for base in kind.__mro__[:-1]:
            if base not in _methods:
                yield Difference(f"{place} is a {kind.__name__}, of which nothing is proven")
            elif (now := _methods_of(base)) != _methods[base]:
                names = {
                    n
                    for n in now.keys() | _methods[base]
                    if now.get(n) is not _methods[base].get(n)
                }
                yield Difference(
                    f"methods of {base.__name__} were replaced: {', '.join(sorted(names))}"
                )


def _contents(root: nn.Module) -> dict[Key, object]:
    """Return all that decides what a module computes, by place."""
    found: dict[Key, object] = {}
    for path, part in root.named_modules(remove_duplicate=False):
        found[path, "", ""] = type(part)
        for name, value in vars(part).items():
            if name in ("_parameters", "_buffers"):
                found |= {(path, key, ""): tensor for key, tensor in value.items()}
            elif name == "_modules":
                found |= {(path, key, ""): None for key, child in value.items() if child is None}
            elif name not in _UNREAD and not name.startswith("_forward_"):
                found |= {(path, name, inner): leaf for inner, leaf in _leaves("", value, 0)}
    return found


def _leaves(path: str, value: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield what a container or an object of ours holds; anything else is a leaf."""
    items: Iterator[tuple[object, object]]
    if depth > _DEEPEST:
        raise WeightMismatchError(f"{path} is nested too deeply to be compared")
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list | tuple) and type(value) in (list, tuple):
        items = iter(enumerate(value))
    elif _is_own_object(value):
        items = iter(vars(value).items())
    else:
        yield path, torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        return
    yield path, type(value)
    for key, inner in items:
        yield from _leaves(f"{path}.{key}" if path else str(key), inner, depth + 1)


def _is_own_object(value: object) -> bool:
    """Whether a value is an object of this package with a state: neither data nor a module."""
    kind = type(value)
    return (
        kind.__module__.startswith("exactformer.")
        and hasattr(value, "__dict__")
        and not (is_dataclass(value) or isinstance(value, nn.Module | FunctionType | type))
        and not hasattr(kind, "__members__")
    )


def _digests(root: nn.Module) -> dict[Key, object]:
    """Return the contents of a module with a digest in place of every tensor."""
    return {
        key: _digest(value) if isinstance(value, Tensor) else value
        for key, value in _contents(root).items()
    }


def _digest(tensor: Tensor) -> object:
    if tensor.is_meta:
        return object()  # equal to nothing: there are no values
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    content = hashlib.sha256(flat.view(torch.uint8).numpy().data).digest() if len(flat) else b""
    return Digest(type(tensor), tensor.dtype, tuple(tensor.shape), content)


def _tensor_differences(place: str, here: Tensor, there: Tensor) -> Iterator[Difference]:
    if here.is_meta:
        yield Difference(f"{place} is on the meta device and has no values")
        return
    kinds = [(type(t).__name__, t.dtype, tuple(t.shape)) for t in (here, there)]
    if kinds[0] != kinds[1]:
        texts = [f"a {name} of {dtype} and shape {shape}" for name, dtype, shape in kinds]
        yield Difference(f"{place} is {texts[0]}, its blueprint has {texts[1]}")
        return
    here, there = here.detach().cpu(), there.detach().cpu()
    wrong = (here != there).nonzero()
    if len(wrong):
        index = tuple(int(k) for k in wrong[0])
        yield Difference(
            f"the module has {float(here[index])!r}, its blueprint {float(there[index])!r}; "
            f"{len(wrong)} entries of this matrix differ",
            place,
            index,
        )


def _same(here: object, there: object) -> bool:
    if here is there:
        return True
    if type(here) is not type(there):
        return False
    try:
        return bool(here == there)
    except (TypeError, ValueError, RuntimeError):  # what arrays say when compared as a whole
        return False


def _adopt(model: nn.Module, fresh: nn.Module) -> None:
    """Take over the weights of a fresh model, in place, and what its parts keep beside them."""
    model.load_state_dict(fresh.state_dict())
    for (path, own), other in zip(model.named_modules(), fresh.modules(), strict=True):
        kept = {n: v for n, v in vars(other).items() if n not in _STRUCTURE and n not in _UNREAD}
        if path:
            vars(own).update({n: v for n, v in kept.items() if not n.startswith("_forward_")})


def _short(value: object) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _classes(source: ModuleType) -> list[type]:
    return [
        value
        for value in vars(source).values()
        if isinstance(value, type) and value.__module__ == source.__name__
    ]


def _methods_of(kind: type) -> dict[str, object]:
    """Return what a class says about running: all of ours, of others' only what a call goes through."""
    if not kind.__module__.startswith("exactformer."):
        return {name: vars(kind)[name] for name in _CALL if name in vars(kind)}
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("__") or isinstance(value, FunctionType)
    }


_methods: dict[type, dict[str, object]] = {}
_DEEPEST = 20
# What reading the format and device of a model raises whose parts were exchanged.
_BROKEN = (AttributeError, TypeError, ValueError, RuntimeError, StopIteration)
_CALL = (
    "forward",
    "__call__",
    "_call_impl",
    "_wrapped_call_impl",
    "__getattr__",
    "__getattribute__",
)
_STRUCTURE = ("_parameters", "_buffers", "_modules")
# Of torch's own attributes: those that no value depends on.
_UNREAD = (
    *("_record", "training", "_non_persistent_buffers_set", "_is_full_backward_hook"),
    *("_backward_pre_hooks", "_backward_hooks", "_state_dict_hooks", "_state_dict_pre_hooks"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
_GLOBAL = ("_global_forward_hooks", "_global_forward_pre_hooks")
_REGISTRATION = (
    *("_global_parameter_registration_hooks", "_global_buffer_registration_hooks"),
    "_global_module_registration_hooks",
)
remember(nn.Linear, nn.ReLU, nn.Identity, nn.Sequential, nn.ModuleList)
