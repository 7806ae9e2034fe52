"""A program's model as an ONNX graph: tokens by number in, values out, on any batch.

Every node is one operation of :mod:`exactformer.programs.run.stack`, so the bound of the certificate
holds for whatever order a runtime adds in. ``ids`` (batch, n) are tokens by number, −1 after the end of
shorter sequences. A file cannot raise: sequences that are not inputs of the program are answered
with NaN, padding with 0. The words in the file spell vocabulary and values, so that outputs can be read
without this package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.core.formats import float_format
from exactformer.core.onnx_graph import LARGEST_ONNX, Graph, check_onnx, finished
from exactformer.errors import ExecutionError, SizeError
from exactformer.programs.values import words_of
from exactformer.version import __version__

if TYPE_CHECKING:
    from exactformer.programs.model import ProgramModel

INPUT, OUTPUT = "ids", "values"
FORMATS = ("float64", "float32")


def about(model: ProgramModel) -> dict[str, str]:
    """Return what an export says of itself."""
    program, certificate = model.program, model.certificate
    return {
        "target": program.names[program.output],
        "vocabulary": json.dumps(words_of(model.vocabulary)),
        "values": json.dumps(words_of(model.values)),
        "read_as": "the number nearest to a value" if program.numerical else "the largest",
        "max_length": str(program.max_length),
        "causal": json.dumps(program.causal),
        "bound": repr(float(certificate.bound())),
        "dtype": certificate.dtype,
        "executor": model.executor,
        "blueprint_digest": certificate.blueprint_digest,
        "version": __version__,
    }


def onnx_file(model: ProgramModel) -> bytes:
    """Return an ``.onnx`` file whose outputs are within the certified error of the ideal ones."""
    check_onnx()
    name = float_format(model.dtype).name
    if name not in FORMATS:
        raise ExecutionError(
            f"ONNX files of programs compute in {' or '.join(FORMATS)}, not {name}"
        )
    words = about(model)
    size = sum(weight.numel() * weight.itemsize for weight in model.parameters())
    if size > LARGEST_ONNX:
        raise SizeError(
            f"the weights take {size / 2**30:.1f} GiB; an ONNX file holds less than "
            f"{(LARGEST_ONNX + 1) / 2**30:.0f} GiB. Use a smaller max_length or float32"
        )
    file: bytes = _Export(model, np.dtype(name)).model(words).SerializeToString()
    return file


class _Export:
    """The nodes of one model."""

    def __init__(self, model: ProgramModel, dtype: np.dtype[Any]) -> None:
        self.stack: Any = model.network
        self.beginning, self.causal = int(model.blueprint.beginning), model.blueprint.causal
        self.tokens, self.max_length = len(model.vocabulary), model.max_length
        self.rows, self.graph = model.blueprint.readout.rows, Graph(dtype)

    def model(self, words: dict[str, str]) -> Any:
        from onnx import TensorProto, helper

        graph = self.graph
        self._count()
        stream = self._embedding()
        for k, layer in enumerate(self.stack.layers):
            stream = graph.node(f"layer_{k}/real", "Where", "rows/real", stream, self._number(0.0))
            if layer.attention is not None:
                stream = self._attention(f"layer_{k}/attention", layer.attention, stream)
            if layer.feed_forward is not None:
                stream = self._feed_forward(f"layer_{k}/feed_forward", layer.feed_forward, stream)
        read = graph.linear("unembed", stream, _array(self.stack.unembed.weight))
        kept = self._slice("unembed/tokens", read, self.beginning)
        real = self._slice("ids/column", "rows/real", self.beginning)
        shown = graph.node("unembed/shown", "Where", real, kept, self._number(0.0))
        graph.node(OUTPUT, "Where", self._inside(), shown, self._number(float("nan")))
        kind = helper.np_dtype_to_tensor_dtype(graph.dtype)
        given = helper.make_tensor_value_info(INPUT, TensorProto.INT64, ["batch", "n"])
        found = helper.make_tensor_value_info(OUTPUT, kind, ["batch", "n", self.rows])
        return finished(graph, [given], [found], words)

    def _number(self, value: float) -> str:
        """Return a constant, the same for all that use it."""
        name = f"number/{value}"
        if not any(weight.name == name for weight in self.graph.weights):
            self.graph.weight(name, value)
        return name

    def _whole(self, name: str, *values: int) -> str:
        return self.graph.weight(name, np.array(values, np.int64))

    def _slice(self, name: str, value: str, start: int) -> str:
        """Leave out the first rows."""
        if not start:
            return value
        places = (self._whole(f"{name}/{k}", v) for k, v in (("from", start), ("to", 2**31)))
        return self.graph.node(name, "Slice", value, *places, self._whole(f"{name}/axis", 1))

    def _count(self) -> None:
        """Number the rows of the stream: which are real, and who may attend to whom."""
        graph = self.graph
        rows = INPUT
        if self.beginning:
            margins = self._whole("rows/margins", 0, 1, 0, 0)
            first = graph.weight("rows/first", np.array(self.tokens, np.int64))
            rows = graph.node("rows/ids", "Pad", INPUT, margins, first)
        zero = graph.weight("rows/zero", np.array(0, np.int64))
        last = graph.weight("rows/last", np.array(self.tokens - 1 + self.beginning, np.int64))
        some = graph.node("rows/some", "Max", rows, zero)
        graph.node("rows/numbers", "Min", some, last)
        flags = graph.node("rows/flags", "GreaterOrEqual", rows, zero)
        graph.node("rows/real", "Unsqueeze", flags, self._whole("rows/third", 2))
        shape = graph.node("rows/shape", "Shape", rows)
        one = graph.weight("rows/one", np.array(1, np.int64))
        count = graph.node("rows/count", "Gather", shape, one)
        places = graph.node("rows/places", "Range", zero, count, one)
        down = graph.node("rows/down", "Unsqueeze", places, self._whole("rows/second", 1))
        keys = graph.node("rows/keys", "Unsqueeze", flags, self._whole("rows/both", 1, 2))
        if self.causal:
            before = graph.node("rows/before", "LessOrEqual", places, down)
            keys = graph.node("rows/keys_before", "And", keys, before)
        if not self.beginning:  # padding attends to itself, so that every row has a key
            itself = graph.node("rows/itself", "Equal", places, down)
            keys = graph.node("rows/keys_or_itself", "Or", keys, itself)
        graph.node("rows/allowed", "Identity", keys)

    def _embedding(self) -> str:
        graph = self.graph
        parts = []
        last = graph.weight("positions/last", np.array(self.max_length - 1 + self.beginning))
        places = graph.node("positions/places", "Min", "rows/places", last)
        tables = (
            ("tokens", self.stack.embed, "rows/numbers"),
            ("at", self.stack.positions, places),
        )
        for name, table, numbers in tables:
            weight = graph.weight(f"embedding/{name}/weight", _array(table.weight))
            parts.append(graph.node(f"embedding/{name}", "Gather", weight, numbers))
        return graph.node("embedding", "Add", *parts)

    def _attention(self, name: str, attention: Any, stream: str) -> str:
        graph, parts = self.graph, []
        for part, order in (("W_Q", (0, 2, 1, 3)), ("W_K", (0, 2, 3, 1)), ("W_V", (0, 2, 1, 3))):
            flat = graph.linear(f"{name}/{part}", stream, _array(getattr(attention, part).weight))
            shape = self._whole(f"{name}/{part}/shape", 0, 0, attention.heads, -1)
            split = graph.node(f"{name}/{part}/heads", "Reshape", flat, shape)
            parts.append(graph.node(f"{name}/{part}/turned", "Transpose", split, perm=order))
        query, key, value = parts
        scores = graph.node(f"{name}/all_scores", "MatMul", query, key)
        scores = graph.node(
            f"{name}/scores", "Where", "rows/allowed", scores, self._number(-np.inf)
        )
        if attention.hard:
            largest = graph.node(f"{name}/largest", "ReduceMax", scores, axes=[-1], keepdims=1)
            chosen = graph.node(f"{name}/chosen", "Equal", scores, largest)
            ones = graph.node(f"{name}/ones", "CastLike", chosen, scores)
            axis = self._whole(f"{name}/axis", -1)
            count = graph.node(f"{name}/count", "ReduceSum", ones, axis, keepdims=1)
            total = graph.node(f"{name}/total", "MatMul", ones, value)
            mixed = graph.node(f"{name}/mixed", "Div", total, count)
        else:
            weights = graph.node(f"{name}/pattern", "Softmax", scores, axis=-1)
            mixed = graph.node(f"{name}/mixed", "MatMul", weights, value)
        turned = graph.node(f"{name}/turned", "Transpose", mixed, perm=(0, 2, 1, 3))
        shape = self._whole(f"{name}/shape", 0, 0, -1)
        joined = graph.node(f"{name}/joined", "Reshape", turned, shape)
        added = graph.linear(f"{name}/W_O", joined, _array(attention.W_O.weight))
        return graph.node(f"{name}/residual", "Add", stream, added)

    def _feed_forward(self, name: str, layer: Any, stream: str) -> str:
        graph = self.graph
        hidden = graph.linear(f"{name}/W_in", stream, _array(layer.W_in.weight))
        hidden = graph.plus(f"{name}/bias", hidden, _array(layer.W_in.bias))
        hidden = graph.node(f"{name}/relu", "Relu", hidden)
        added = graph.linear(f"{name}/W_out", hidden, _array(layer.W_out.weight))
        return graph.node(f"{name}/residual", "Add", stream, added)

    def _inside(self) -> str:
        """Whether sequences are inputs of the program, (batch, 1, 1).

        Tokens are known, and come before all padding; there is one at least, and not too many.
        """
        from onnx import TensorProto

        graph = self.graph
        zero, end = "rows/zero", graph.weight("inside/tokens", np.array(self.tokens, np.int64))
        real = graph.node("inside/real", "GreaterOrEqual", INPUT, zero)
        padding = graph.node("inside/padding", "Equal", INPUT, self._whole("inside/minus_one", -1))
        small = graph.node("inside/small", "Less", INPUT, end)
        token = graph.node("inside/token", "And", real, small)
        known = graph.node("inside/known", "Or", token, padding)
        counted = graph.node("inside/counted", "Cast", real, to=TensorProto.INT64)
        axis = self._whole("inside/axis", 1)
        count = graph.node("inside/count", "ReduceSum", counted, axis, keepdims=1)
        shape = graph.node("inside/shape", "Shape", INPUT)
        n = graph.node("inside/n", "Gather", shape, "rows/one")
        places = graph.node("inside/places", "Range", zero, n, "rows/one")
        early = graph.node("inside/early", "Less", places, count)
        ended = graph.node("inside/ended", "Equal", early, real)
        right = graph.node("inside/right", "And", known, ended)
        whole = graph.node("inside/whole", "Cast", right, to=TensorProto.INT32)
        least = graph.node("inside/least", "ReduceMin", whole, axes=[1], keepdims=1)
        every = graph.node("inside/every", "Cast", least, to=TensorProto.BOOL)
        most = graph.weight("inside/most", np.array(self.max_length, np.int64))
        short = graph.node("inside/short", "LessOrEqual", count, most)
        some = graph.node("inside/some", "Greater", count, zero)
        both = graph.node("inside/length", "And", short, some)
        inside = graph.node("inside", "And", every, both)
        return graph.node("inside/row", "Unsqueeze", inside, self._whole("inside/last", 2))


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = tensor.detach().cpu().numpy()
    return array
