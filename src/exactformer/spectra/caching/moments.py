"""Moments of keys and values over text: means, covariances, and what the loss makes of a change.

One pass forward and backward over the calibration text. Labels y are drawn from the model's own
predictions, so that with g the gradient of −log p(y) at a state u

    G = E[g gᵀ]

is the Fisher information: a small change δ of one state costs ½ δᵀGδ nats on average. It holds all that
matters between a key and the loss: queries, rotation at the distances that occur, the softmax, values,
the output projection, and everything above. The first token of a text is left out: it is kept exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.progress import progress as progress_bar
from exactformer.spectra.caching.checkpoint import Checkpoint
from exactformer.spectra.caching.latents import metric_roots
from exactformer.spectra.caching.rotary import RotaryLayer

_SAMPLED = 2**27
"""Numbers of sampled states that are kept, all layers together: half a gibibyte."""
_TOKENS = 4096
"""Tokens whose states are kept, at most."""
_SUMS = ("sum", "squares", "gradient sum", "gradient squares", "queries")
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


def spread(count: int, total: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and covariance of samples, from their sum and the sum of their outer products."""
    mean = total / count
    return mean, squares / count - torch.outer(mean, mean)


class _LayerSums:
    """What one layer has shown so far."""

    def __init__(self, layer: RotaryLayer) -> None:
        self.sizes, self.tokens = layer.sizes, 0
        self.sums = dict.fromkeys(_SUMS, torch.zeros(()))
        self.sample: list[Tensor] = []

    def add(self, seen: Mapping[str, Tensor], tokens: int, sampled: Tensor) -> None:
        """Count the tokens of some texts but the first of each."""
        flat = {name: _flat(x, tokens)[:, 1:].flatten(0, 1) for name, x in seen.items()}
        states = torch.cat([flat["key"], flat["value"]], dim=-1)
        gradients = torch.cat([flat["key gradient"], flat["value gradient"]], dim=-1)
        self.tokens += len(states)
        self.sample.append(states[sampled])
        u, g = states.double(), gradients.double()
        energy = flat["query"].double().square().sum(dim=0)
        queries = energy.reshape(self.sizes.key_heads, self.sizes.shared, -1).sum(dim=1)
        parts = (u.sum(dim=0), u.mT @ u, g.sum(dim=0), g.mT @ g, queries)
        for name, part in zip(_SUMS, parts, strict=True):
            self.sums[name] = self.sums[name] + part

    def state(self) -> dict[str, Tensor]:
        """Return everything but the number of tokens."""
        return {**self.sums, "sample": torch.cat(self.sample)}

    def restore(self, tokens: int, tensors: Mapping[str, Tensor], prefix: str) -> None:
        """Go on from what was shown by some tokens."""
        self.tokens, self.sample = tokens, [tensors[f"{prefix}sample"]]
        self.sums = {name: tensors[f"{prefix}{name}"] for name in _SUMS}

    def result(self) -> LayerMoments:
        """Return the moments."""
        return LayerMoments(
            *spread(self.tokens, self.sums["sum"], self.sums["squares"]),
            fisher=self.sums["gradient squares"] / self.tokens,
            queries=self.sums["queries"] / self.tokens,
            sample=torch.cat(self.sample),
        )


def gather(
    model: nn.Module,
    layers: Sequence[RotaryLayer],
    windows: Tensor,
    *,
    seed: int = 0,
    progress: bool = False,
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
    with progress_bar("reading text, windows", len(windows), progress, done=read) as tell:
        for done, window in enumerate(windows[read:], start=read + 1):
            places = torch.randperm(windows.shape[1] - 1, generator=random, device=windows.device)
            with _watched(layers) as seen, torch.enable_grad():
                logits = model(input_ids=window[None], use_cache=False).logits[0].float()
                labels = torch.multinomial(logits.detach().softmax(-1), 1, generator=random)
                loss = nn.functional.cross_entropy(logits, labels[:, 0], reduction="sum")
                del logits
                loss.backward()  # type: ignore[no-untyped-call]
            for one, sight in zip(sums, seen, strict=True):
                one.add(sight, len(window), places[:share])
            if checkpoint is not None and (done == len(windows) or checkpoint.due()):
                tensors = {
                    f"{i}.{name}": x
                    for i, one in enumerate(sums)
                    for name, x in one.state().items()
                }
                checkpoint.write(
                    _READING, {**tensors, "random": random.get_state()}, {"done": done}
                )
            tell(done)
    return [one.result() for one in sums]


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
        one.restore(read * tokens, tensors, f"{i}.")
    random.set_state(tensors["random"].cpu())
    return read


@contextmanager
def _watched(layers: Sequence[RotaryLayer]) -> Iterator[list[dict[str, Tensor]]]:
    """Keep queries, keys and values of every layer in one pass, and gradients of the latter two."""
    seen: list[dict[str, Tensor]] = [{} for _ in layers]
    with ExitStack() as hooks:
        for layer, own in zip(layers, seen, strict=True):
            for name, module in (
                ("query", layer.q_norm or layer.q_proj),
                ("key", layer.k_norm or layer.k_proj),
                ("value", layer.v_proj),
            ):
                hooks.enter_context(module.register_forward_hook(partial(_keep, own, name)))
        yield seen


def _keep(
    seen: dict[str, Tensor], name: str, _module: nn.Module, _args: Any, output: Tensor
) -> None:
    if name != "query":
        if not output.requires_grad:
            output.requires_grad_()
        torch.Tensor.register_hook(  # type: ignore[no-untyped-call]
            output, partial(seen.__setitem__, f"{name} gradient")
        )
    seen[name] = output.detach()


def _flat(x: Tensor, tokens: int) -> Tensor:
    """Return (batch, tokens, heads · dim); norms see heads before or behind the tokens."""
    if x.ndim == 4:
        x = (x if x.shape[1] == tokens else x.transpose(1, 2)).flatten(2)
    return x
