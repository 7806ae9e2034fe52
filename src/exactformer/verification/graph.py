"""Reading a module as a graph of operators, through ``torch.export``.

The graph is read at a batch of any size from two on. Every tensor that depends on the input has the
batch as one axis, and no operator mixes entries along it, so what is shown of an input holds in
whatever batch it is run. What a graph cannot hold (hooks that count, weights that change) is refused.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import InputError

OPERATORS = "embedding, linear, attention, softmax, LayerNorm, RMSNorm, ReLU, GELU, SiLU, tanh"


_SIZES = {"size", "shape", "sizes", "repeats", "start", "end"}
"""Arguments that say how large a tensor is, and no number in it."""
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class Ref:
    """The result of another node."""

    node: int


@dataclass(frozen=True)
class Node:
    """One operator with its arguments."""

    target: Any
    """What is called; None for the input, and for stored tensors."""
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    line: str
    """The line of the user's code that it comes from."""
    axis: int | None
    """Which axis is the batch; None where none is."""
    lead: int
    """How many blocks of whole batches that axis holds, one after another."""
    data: bool
    """Whether it depends on the tokens of the input."""
    sized: bool
    """Whether it depends on the size of the batch."""
    last: tuple[int, ...] = ()
    """The nodes that nobody reads after this one."""

    def __str__(self) -> str:
        return f"{self.name}, {self.line}"


@dataclass(frozen=True)
class Graph:
    """What a module computes on inputs of one length."""

    nodes: tuple[Node, ...]
    weights: dict[int, Tensor]
    """Stored tensors by node, copied when the module was read."""
    output: int
    length: int
    dtype: torch.dtype
    """The number format of the weights."""
    digest: str
    """A SHA-256 over operators, arguments and weights."""


def refusal(node: Node, what: str) -> InputError:
    """Return the error about something that no rule covers."""
    return InputError(
        f"{node.name} is not covered: {what}\n  {node.line}\nCovered are {OPERATORS}, sums, products, "
        "reshaping and constant masks. Write this part with them, or verify a module without it."
    )


def read(module: nn.Module, length: int, device: torch.device) -> Graph:
    """Return the graph of a module on inputs of one length; traced twice, to see that it stays."""
    check(module)
    first, again = (_export(module, length, device) for _ in range(2))
    if str(first.graph) != str(again.graph) or not _same(first.constants, again.constants):
        raise InputError(
            "the module is another one each time it is read: its code or weights change between "
            "calls. Verify a module whose forward changes nothing"
        )
    if not all(map(_functional, first.graph.nodes)):
        # Nothing is decomposed, but what is written in place becomes a value of its own.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = first.run_decompositions({})
    return _graph(first, length)


def _functional(item: Any) -> bool:
    """Whether a node of a traced graph writes into nothing, and holds no graph of its own."""
    if item.op in ("placeholder", "output"):
        return True
    schema = getattr(item.target, "_schema", None)
    return item.op == "call_function" and not getattr(schema, "is_mutable", False)


def _same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    tensors = [k for k, v in first.items() if isinstance(v, Tensor)]
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in tensors)


def check(module: nn.Module) -> None:
    """Refuse a module that is being trained, or has numbers that are not finite."""
    if any(m.training for m in module.modules()):
        raise InputError("the module is in training mode: call .eval() on it first")
    for name, tensor in module.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"the parameter {name} has entries that are not finite numbers")
        if tensor.is_complex():
            raise InputError(f"the parameter {name} is complex; models of real numbers are covered")


def _graph(exported: Any, length: int) -> Graph:
    signature = exported.graph_signature
    if signature.buffers_to_mutate or getattr(signature, "user_inputs_to_mutate", None):
        raise InputError(
            "the module writes into its buffers when it is called, so no two calls need be equal"
        )
    stored = {**exported.state_dict, **exported.constants}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **getattr(signature, "inputs_to_lifted_tensor_constants", {}),
    }
    numbers: dict[Any, int] = {}
    nodes: list[Node] = []
    weights: dict[int, Tensor] = {}
    output = -1
    for item in exported.graph_module.graph.nodes:
        if item.op == "output":
            results = item.args[0]
            if len(results) != 1 or results[0] not in numbers:
                raise InputError(
                    f"the module returns {len(results)} tensors; return the logits alone"
                )
            output = numbers[results[0]]
            continue
        if "_assert_tensor_metadata" in str(item.target):
            continue
        number = numbers[item] = len(nodes)
        if item.op == "placeholder" and item.name in names:
            weights[number] = stored[names[item.name]].detach().clone()
            nodes.append(_stored(names[item.name]))
        elif item.op == "get_attr" and isinstance(
            value := getattr(exported.graph_module, str(item.target), None), Tensor
        ):
            weights[number] = value.detach().clone()
            nodes.append(_stored(str(item.target)))
        else:
            nodes.append(_node(item, numbers, nodes))
    last = nodes[output]
    if last.axis != 0 or last.lead != 1:
        raise InputError("the module must return logits whose first axis is the batch")
    floats = [w.dtype for w in weights.values() if w.dtype.is_floating_point]
    if not floats:
        raise InputError("the module has no weights")
    dtype = max(floats, key=lambda d: torch.finfo(d).eps)
    kept = _with_last_uses(nodes, output)
    return Graph(kept, weights, output, length, dtype, _digest(nodes, weights, output))


def _export(module: nn.Module, length: int, device: torch.device) -> Any:
    ids = torch.zeros((3, length), dtype=torch.long, device=device)
    batch = torch.export.Dim("batch", min=2)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a whole layer as one operator, with no rule
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(module, (ids,), dynamic_shapes=({0: batch},), strict=False)
    except InputError:
        raise
    except Exception as error:
        text = str(error).strip().splitlines()
        raise InputError(
            f"torch.export cannot read the module on token ids of shape (batch, {length}): "
            f"{type(error).__name__}: {text[0] if text else ''}\nIt must take one tensor of ids, hold "
            "for batches of any size, and have no branches that depend on the data"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _stored(name: str) -> Node:
    return Node(None, name, (), {}, "a stored tensor", None, 1, False, False)


def _node(item: Any, numbers: dict[Any, int], nodes: Sequence[Node]) -> Node:
    value = item.meta.get("val")
    line = _line(item.meta.get("stack_trace"))
    if item.op == "placeholder":
        return Node(None, "input", (), {}, "the input", 0, 1, True, True)

    def refer(argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return Ref(numbers[argument])
        if isinstance(argument, list | tuple):
            return [refer(part) for part in argument]
        return argument

    if isinstance(item.target, torch._ops.OpOverload):
        _check_sizes(item, line)
    args = tuple(refer(argument) for argument in item.args)
    kwargs = {name: refer(argument) for name, argument in item.kwargs.items()}
    read = [nodes[k] for k in references((args, kwargs))]
    shapes = [tuple(t.shape) for t in _tensors(value)]
    axes = {tuple(k for k, size in enumerate(shape) if _symbolic(size)) for shape in shapes}
    places = axes.pop() if axes else ()
    name = str(item.target)
    node = Node(
        item.target,
        name,
        args,
        kwargs,
        line,
        places[0] if places else None,
        max((other.lead for other in read), default=1),
        any(other.data and other.name != "aten.sym_size.int" for other in read),
        any(other.sized for other in read),
    )
    if item.op != "call_function":
        raise refusal(node, f"a {item.op} in the graph")
    if axes or len(places) > 1:
        raise refusal(node, "its result has the batch in several axes")
    if node.data and shapes and not places:
        raise refusal(node, "it mixes the inputs of a batch")
    inputs = [other for other in read if other.data and other.axis is not None]
    if node.data and shapes and inputs:
        node = _kept_apart(node, item, inputs, shapes[0])
    return node


def _check_sizes(item: Any, line: str) -> None:
    """Refuse the size of the batch as a number: an answer would depend on who else is in it."""
    names = [argument.name for argument in item.target._schema.arguments]
    for name, argument in [*zip(names, item.args, strict=False), *item.kwargs.items()]:
        parts = argument if isinstance(argument, list | tuple) else [argument]
        numbers = (p.meta.get("val") for p in parts if isinstance(p, torch.fx.Node))
        if name not in _SIZES and any(isinstance(n, _SYMBOLS) for n in numbers):
            raise InputError(
                f"{item.target} computes with the size of the batch\n  {line}\nWhat the module "
                "answers must not depend on how many inputs are run together"
            )


_RESHAPES = {f"aten.{name}" for name in ("view.default", "reshape.default", "_unsafe_view.default")}
_RESHAPES |= {"aten.flatten.using_ints", "aten.unflatten.int"}
_MOVES = _RESHAPES | {
    f"aten.{name}"
    for name in """transpose.int permute.default unsqueeze.default squeeze.dim expand.default
    slice.Tensor select.int contiguous.default clone.default alias.default detach.default
    dropout.default split.Tensor chunk.default cat.default t.default to.dtype _to_copy.default
    to.dtype_layout to.device""".split()
}
_MIXED = {
    "aten.scaled_dot_product_attention.default": 3,
    "aten.matmul.default": 2,
    "aten.bmm.default": 2,
    "aten.mm.default": 2,
}


def _kept_apart(node: Node, item: Any, inputs: Sequence[Node], shape: tuple[Any, ...]) -> Node:
    """See that an operator keeps the inputs of a batch apart, and return it with its lead.

    In row-major order a tensor is a number of blocks, each of one batch, each of so many entries per
    input. Reshaping keeps the number of blocks, whichever axes it merges; where it cuts a block, inputs
    would mix. Other operators must not work along the batch, or move an axis in which it is merged.
    """
    leads = {other.lead for other in inputs}
    before = [a for a in item.all_input_nodes if _tensors(a.meta.get("val"))]
    sizes = [tuple(_tensors(a.meta["val"])[0].shape) for a in before]
    batched = [size for size in sizes if any(map(_symbolic, size))]
    own = [next(k for k, n in enumerate(size) if _symbolic(n)) for size in batched]
    if node.name in _RESHAPES and node.axis is not None:
        total = inputs[0].lead * prod(batched[0][: own[0]])
        ahead = prod(shape[: node.axis])
        if total % ahead or _entries(shape[node.axis]) % (total // ahead):
            raise refusal(node, "it moves entries from one input of the batch to another")
        return replace(node, lead=total // ahead)
    if len(leads) > 1 or (leads != {1} and node.name in _MOVES and node.name not in _KEPT):
        raise refusal(node, "the batch is merged with another axis")
    for size, place in zip(batched, own, strict=True):
        last = len(size) - place
        if node.name not in _MOVES and node.name != "aten.embedding.default" and last == 1:
            raise refusal(node, "it works along the batch")
        if node.name in _MIXED and last == 2 and (size is not batched[0] or _MIXED[node.name] > 2):
            raise refusal(node, "it mixes the inputs of a batch")
    return node


_KEPT = {f"aten.{name}.default" for name in ("contiguous", "clone", "alias", "detach", "dropout")}


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [value]
    return [t for part in value for t in _tensors(part)] if isinstance(value, list | tuple) else []


def _symbolic(size: Any) -> bool:
    return isinstance(size, torch.SymInt)


def references(argument: Any) -> Iterator[int]:
    """Yield the numbers of the nodes that arguments refer to."""
    if isinstance(argument, Ref):
        yield argument.node
    elif isinstance(argument, dict):
        yield from references(list(argument.values()))
    elif isinstance(argument, list | tuple):
        for part in argument:
            yield from references(part)


def _entries(size: Any) -> int:
    """Return how many entries of a merged axis each input has; 1 where they are no whole number."""
    expression = size.node.expr
    symbols = list(expression.free_symbols)
    ratio = expression / symbols[0] if len(symbols) == 1 else None
    return int(ratio) if ratio is not None and ratio.is_Integer else 1


def _with_last_uses(nodes: Sequence[Node], output: int) -> tuple[Node, ...]:
    last = {
        k: number for number, node in enumerate(nodes) for k in references((node.args, node.kwargs))
    }
    last.pop(output, None)
    ends: dict[int, list[int]] = {}
    for read, reader in last.items():
        ends.setdefault(reader, []).append(read)
    return tuple(
        Node(**{**vars(node), "last": tuple(ends.get(k, ()))}) for k, node in enumerate(nodes)
    )


_TORCH = str(Path(torch.__file__).parent)


def _line(trace: str | None) -> str:
    """Return the innermost line of a stack trace that is not torch's own."""
    lines = (trace or "").splitlines()
    places = [k for k, text in enumerate(lines) if text.strip().startswith("File ")]
    own = [k for k in places if _TORCH not in lines[k]] or places
    if not own:
        return "a line that torch.export does not name"
    place = lines[own[-1]].strip()
    code = lines[own[-1] + 1].strip() if own[-1] + 1 < len(lines) else ""
    return f"{place}: {code}" if code else place


def _digest(nodes: Sequence[Node], weights: dict[int, Tensor], output: int) -> str:
    made = hashlib.sha256()
    for number, node in enumerate(nodes):
        name = node.name if node.target is not None or node.name == "input" else "stored"
        made.update(f"{number} {name} {node.args} {sorted(node.kwargs.items())}\n".encode())
        if number in weights:
            values = weights[number].detach().cpu().contiguous()
            made.update(f"{values.dtype} {tuple(values.shape)}\n".encode())
            made.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    made.update(f"output {output}".encode())
    return made.hexdigest()
