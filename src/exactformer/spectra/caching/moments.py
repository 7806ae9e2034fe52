"""Moments of keys and values over text: means, covariances, and what the loss makes of a change.

One pass forward and backward over the calibration text. Labels y are drawn from the model's own
predictions, so that with g the gradient of −log p(y) at a state u

    G = E[g gᵀ]

is the Fisher information: a small change δ of one state costs ½ δᵀGδ nats on average. It holds all that
matters between a key and the loss: queries, rotation at the distances that occur, the softmax, values,
the output projection, and everything above. The first token of a text is left out: it is kept exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.caching.checkpoint import Checkpoint
from exactformer.spectra.caching.latents import metric_roots
from exactformer.spectra.caching.rotary import RotaryLayer, by_head

_SAMPLED = 2**27
"""Numbers of sampled states that are kept, all layers together: half a gibibyte."""
_TOKENS = 4096
"""Tokens whose states are kept, at most."""
_SUMS = ("sum", "squares", "gradient sum", "gradient squares", "queries", "sample")
_READING = "reading"
"""The file with the sums, in a checkpoint."""


@dataclass(frozen=True)
class LayerMoments:
    """One layer's moments, in double precision."""

    mean: Tensor
    covariance: Tensor
    fisher: Tensor
    queries: Tensor
    """(key heads, head dim): mean of q_i², summed over the query heads of a key head."""
    sample: Tensor
    """(tokens, state), single precision: states of some tokens, the same ones in all layers."""

    @cached_property
    def roots(self) -> tuple[Tensor, Tensor]:
        """The root of the Fisher information and its inverse."""
        return metric_roots(self.fisher)


class Covariance:
    """Sums that become a mean and a covariance; rows are samples."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares = 0, torch.zeros(()), torch.zeros(())

    def add(self, rows: Tensor) -> None:
        """Count further samples (n, d)."""
        rows = rows.double()
        self._count += len(rows)
        self._sum = self._sum + rows.sum(dim=0)
        self._squares = self._squares + rows.mT @ rows

    def add_roughly(self, rows: Tensor) -> None:
        """Count further samples, with products in their own precision."""
        self._count += len(rows)
        self._sum = self._sum + rows.sum(dim=0).double()
        self._squares = self._squares + (rows.mT @ rows).double()

    def state(self) -> tuple[Tensor, Tensor]:
        """Return the sums of samples and of their products."""
        return self._sum, self._squares

    def restore(self, count: int, total: Tensor, squares: Tensor) -> None:
        """Go on from sums over ``count`` samples."""
        self._count, self._sum, self._squares = count, total, squares

    def second(self) -> Tensor:
        """Return the second moment, about zero."""
        return self._squares / self._count

    def result(self) -> tuple[Tensor, Tensor]:
        """Return the mean and the covariance."""
        mean = self._sum / self._count
        return mean, self.second() - torch.outer(mean, mean)


class _LayerSums:
    """What one layer has shown so far."""

    def __init__(self, layer: RotaryLayer) -> None:
        self.sizes = layer.sizes
        self.states, self.gradients = Covariance(), Covariance()
        self.queries, self.tokens = torch.zeros(()), 0
        self.sample: list[Tensor] = []

    def add(self, state: Tensor, gradient: Tensor, queries: Tensor, sampled: Tensor) -> None:
        """Count the tokens of some texts but the first of each."""
        later = state[:, 1:].flatten(0, 1)
        self.states.add(later)
        self.gradients.add(gradient[:, 1:].flatten(0, 1))
        energy = queries[:, 1:].flatten(0, 1).double().square().sum(dim=0)
        shared = energy.reshape(self.sizes.key_heads, self.sizes.shared, -1)
        self.queries = self.queries + shared.sum(dim=1)
        self.tokens += len(later)
        self.sample.append(later[sampled])

    def state(self) -> dict[str, Tensor]:
        """Return everything but the number of tokens."""
        sums = (*self.states.state(), *self.gradients.state(), self.queries, torch.cat(self.sample))
        return dict(zip(_SUMS, sums, strict=True))

    def restore(self, tokens: int, state: Mapping[str, Tensor]) -> None:
        """Go on from what was shown by some tokens."""
        self.tokens, self.queries, self.sample = tokens, state["queries"], [state["sample"]]
        self.states.restore(tokens, state["sum"], state["squares"])
        self.gradients.restore(tokens, state["gradient sum"], state["gradient squares"])

    def result(self) -> LayerMoments:
        """Return the moments."""
        return LayerMoments(
            *self.states.result(),
            fisher=self.gradients.second(),
            queries=self.queries / self.tokens,
            sample=torch.cat(self.sample),
        )


def gather(
    model: nn.Module,
    layers: Sequence[RotaryLayer],
    windows: Tensor,
    *,
    seed: int = 0,
    tell: Callable[[int], None] = lambda done: None,
    checkpoint: Checkpoint | None = None,
) -> list[LayerMoments]:
    """Return the moments of all layers over windows of tokens (windows, length).

    With a checkpoint, sums are saved every minute and at the end, and reading goes on from them.
    """
    random = torch.Generator(windows.device).manual_seed(seed)
    sums = [_LayerSums(layer) for layer in layers]
    tokens = windows.shape[0] * (windows.shape[1] - 1)
    kept = min(_TOKENS, _SAMPLED // sum(layer.sizes.state for layer in layers), tokens)
    share = -(-kept // len(windows))
    read = 0 if checkpoint is None else _resume(checkpoint, sums, random, windows.shape[1] - 1)
    for done, window in enumerate(windows[read:], start=read + 1):
        places = torch.randperm(windows.shape[1] - 1, generator=random, device=windows.device)
        with _watched(layers) as seen, torch.enable_grad():
            logits = model(input_ids=window[None], use_cache=False).logits[0].float()
            labels = torch.multinomial(logits.detach().softmax(-1), 1, generator=random)
            loss = nn.functional.cross_entropy(logits, labels[:, 0], reduction="sum")
            del logits
            loss.backward()  # type: ignore[no-untyped-call]
        for one, sight in zip(sums, seen, strict=True):
            one.add(*sight.result(window.shape[0]), places[:share])
        if checkpoint is not None and (done == len(windows) or checkpoint.due()):
            tensors = {
                f"{i}.{name}": x for i, one in enumerate(sums) for name, x in one.state().items()
            }
            checkpoint.write(_READING, {**tensors, "random": random.get_state()}, {"done": done})
        tell(done)
    return [one.result() for one in sums]


def windows_read(checkpoint: Checkpoint) -> int:
    """Return the windows whose sums were saved."""
    return checkpoint.done(_READING)


def _resume(
    checkpoint: Checkpoint, sums: Sequence[_LayerSums], random: torch.Generator, tokens: int
) -> int:
    """Restore sums and random numbers; return how many windows, of so many tokens each, were read."""
    saved = checkpoint.read(_READING)
    if saved is None:
        return 0
    tensors, facts = saved
    read = int(facts["done"])
    for i, one in enumerate(sums):
        one.restore(read * tokens, {name: tensors[f"{i}.{name}"] for name in _SUMS})
    random.set_state(tensors["random"].cpu())
    return read


class _Sight:
    """Queries, keys and values of a layer in one pass, and the gradients of the latter two."""

    def __init__(self, layer: RotaryLayer) -> None:
        self.sizes = layer.sizes
        self.seen: dict[str, Tensor] = {}

    def hook(self, name: str) -> Any:
        """Return a forward hook that keeps an output and its gradient."""

        def keep(_module: nn.Module, _args: Any, output: Tensor) -> None:
            if name != "query":
                if not output.requires_grad:
                    output.requires_grad_()
                torch.Tensor.register_hook(  # type: ignore[no-untyped-call]
                    output, lambda grad: self.seen.__setitem__(f"{name} gradient", grad)
                )
            self.seen[name] = output.detach()

        return keep

    def result(self, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return states, their gradients, and squares of queries by head, (batch, tokens, …)."""
        flat = {name: self._flat(x, tokens) for name, x in self.seen.items()}
        queries = by_head(flat["query"], self.sizes.heads)
        return (
            torch.cat([flat["key"], flat["value"]], dim=-1),
            torch.cat([flat["key gradient"], flat["value gradient"]], dim=-1),
            queries,
        )

    @staticmethod
    def _flat(x: Tensor, tokens: int) -> Tensor:
        """Return (batch, tokens, heads · dim); norms see heads before or behind the tokens."""
        if x.ndim == 4:
            x = (x if x.shape[1] == tokens else x.transpose(1, 2)).flatten(2)
        return x


@contextmanager
def _watched(layers: Sequence[RotaryLayer]) -> Iterator[list[_Sight]]:
    sights = [_Sight(layer) for layer in layers]
    with ExitStack() as hooks:
        for layer, sight in zip(layers, sights, strict=True):
            for name, module in (
                ("query", layer.q_norm or layer.q_proj),
                ("key", layer.k_norm or layer.k_proj),
                ("value", layer.v_proj),
            ):
                hooks.enter_context(module.register_forward_hook(sight.hook(name)))
        yield sights
