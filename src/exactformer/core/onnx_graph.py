"""ONNX graphs under construction: nodes and weights by name, and the file that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import ExecutionError, InputError

if TYPE_CHECKING:
    import onnx

AnyArray = NDArray[Any]
OPSET, IR_VERSION = 17, 8  # read by every onnxruntime since 1.12
LARGEST_ONNX = 2**31 - 1
"""Bytes; protobuf reads no longer message."""


def check_onnx() -> None:
    """Raise where the package onnx is not installed."""
    if find_spec("onnx") is None:
        raise ExecutionError("ONNX needs the package onnx: pip install 'exactformer[onnx]'")


def check_onnx_name(path: str | Path) -> None:
    """Raise unless a file is called as ONNX files are."""
    if Path(path).suffix.lower() != ".onnx":
        raise InputError(f"{path}: the name of an ONNX file ends with .onnx")


class Graph:
    """Nodes and weights in order of use; the value of a node bears the node's name."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, array: AnyArray | Sequence[int] | float) -> str:
        """Add a constant tensor; integers stay integers, numbers take the graph's format."""
        from onnx import numpy_helper

        values = np.asarray(array, self.dtype if isinstance(array, float) else None)
        self.weights.append(numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def node(self, name: str, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add an operation and return its value."""
        from onnx import helper

        self.nodes.append(helper.make_node(operation, inputs, [name], name, **attributes))
        return name

    def cast(self, name: str, value: str, dtype: np.dtype[Any], back: bool = False) -> str:
        """Take a value from the graph's format to ``dtype``, or back; the same one needs nothing."""
        from onnx import helper

        if dtype == self.dtype:
            return value
        kind = helper.np_dtype_to_tensor_dtype(self.dtype if back else dtype)
        return self.node(name, "Cast", value, to=kind)

    def linear(self, name: str, value: str, matrix: AnyArray) -> str:
        """Multiply every token by a matrix, given as the theorem writes it: on the left."""
        return self.node(name, "MatMul", value, self.weight(f"{name}/weight", matrix.T))

    def plus(self, name: str, value: str, constant: AnyArray) -> str:
        """Add a constant, unless it is zero."""
        if not constant.any():
            return value
        return self.node(name, "Add", value, self.weight(f"{name}/weight", constant))


def finished(
    graph: Graph,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    metadata: Mapping[str, str],
) -> onnx.ModelProto:
    """Return a graph as a model, with words about it."""
    from onnx import helper

    body = helper.make_graph(graph.nodes, "exactformer", inputs, outputs, graph.weights)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(body, opset_imports=[opset], ir_version=IR_VERSION)
    helper.set_model_props(model, dict(metadata))
    return model
