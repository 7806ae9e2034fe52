"""A step recorded once and replayed: on a GPU as a CUDA graph, elsewhere as a loop.

A step of small kernels waits for Python more than it computes. A graph sends all its launches at once.
The step must do the same work on the same memory every time and never wait for the device, which is
why clocks, learning rates and the rows of a batch are tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

import torch
from torch import Tensor

_TRIALS = 3  # libraries choose kernels and allocate workspaces at their first calls


def repeated(
    step: Callable[[], None], state: Sequence[Tensor], capture: bool = True
) -> Callable[[int], None]:
    """Return a function that takes a number of steps. ``state``: every tensor that a step changes."""
    if not capture or state[0].device.type != "cuda":

        def plain(count: int) -> None:
            for _ in repeat(None, count):
                step()

        return plain

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(state[0].device):
        before = [tensor.detach().clone() for tensor in state]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_TRIALS):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        with torch.no_grad():
            for tensor, value in zip(state, before, strict=True):
                tensor.copy_(value)
        with torch.cuda.graph(graph):
            step()

    def replay(count: int) -> None:
        for _ in repeat(None, count):
            graph.replay()

    return replay
