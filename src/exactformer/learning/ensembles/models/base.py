"""Ensembles: M models as one module, each parameter with a leading axis for the model.

A batched matrix product does the same for all models, so the device sees M times the work in the
same number of launches. Models share nothing else: the loss of one does not depend on the weights of
another, and its weights at the start depend on its own seed and sizes alone. Where sizes may differ
(head sizes), weights are padded by zeros up to the largest; :meth:`StackedModels.weights` cuts them
off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from exactformer.errors import InputError

_Configuration = TypeVar("_Configuration")


class StackedModels(nn.Module):
    """M models as one module, whatever they map to what."""

    models: int

    def own_shape(self, name: str, model: int) -> tuple[int, ...]:
        """Return the shape of a parameter of one model, without padding."""
        return tuple(self.get_parameter(name).shape[1:])

    def weights(self, model: int) -> dict[str, Tensor]:
        """Return copies of one model's weights at its own sizes, by name."""
        return {
            name: _own_part(parameter.detach()[model], self.own_shape(name, model)).clone()
            for name, parameter in self.named_parameters()
        }

    def set_weights(self, model: int, weights: Mapping[str, Any]) -> None:
        """Give one model new weights, all or some, in the shapes :meth:`weights` has them."""
        parameters = dict(self.named_parameters())
        for name, value in weights.items():
            if name not in parameters:
                raise InputError(f"there is no weight {name!r}; there are {', '.join(parameters)}.")
            own, given = self.own_shape(name, model), torch.as_tensor(value)
            if tuple(given.shape) != own:
                raise InputError(f"{name} of model {model} has shape {own}, not {given.shape}.")
            with torch.no_grad():
                _own_part(parameters[name][model], own).copy_(given)


class Ensemble(StackedModels, ABC):
    """M models; maps x, shared (B, τ[, d]) or one per model (M, B, τ[, d]), to (M, B, τ[, o]).

    The last axis is there if and only if ``input_dim`` (``output_dim``) is more than one.
    """

    input_dim: int
    output_dim: int

    @abstractmethod
    def activations(self, tau: int) -> int:
        """Return about how many numbers one model keeps of one sequence for its gradient."""

    @abstractmethod
    def multiplications(self, tau: int) -> int:
        """Return how many multiplications one model needs for one sequence, forwards."""

    def read(self, x: Tensor) -> Tensor:
        """Return x with an axis for the token's entries: (B, τ, d) or (M, B, τ, d)."""
        tokens = x.unsqueeze(-1) if self.input_dim == 1 else x
        fits = tokens.dim() == 3 or (tokens.dim() == 4 and len(tokens) == self.models)
        if not fits or tokens.shape[-1] != self.input_dim:
            entry = "" if self.input_dim == 1 else f", {self.input_dim}"
            raise InputError(
                f"x has shape {tuple(x.shape)}; {self.models} models of {self.input_dim}-dimensional "
                f"tokens take (B, τ{entry}) or ({self.models}, B, τ{entry})."
            )
        return tokens

    def write(self, y: Tensor) -> Tensor:
        """Return (M, B, τ, o) without its last axis where o = 1."""
        return y.squeeze(-1) if self.output_dim == 1 else y


def generators(seeds: Sequence[int]) -> list[torch.Generator]:
    """Return one source of random numbers per model: the same numbers on every device."""
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def uniform(
    sources: Sequence[torch.Generator], shapes: Sequence[tuple[int, ...]], bound: float
) -> Tensor:
    """Draw U(−bound, bound) for every model at its own shape; zeros fill up to the largest shape.

    ``bound`` = 1/√fan_in is what ``nn.Linear`` starts from. Drawn in float64, so that a model starts
    from the same numbers, rounded, in every format.
    """
    return padded(
        [
            (2 * torch.rand(shape, generator=source, dtype=torch.float64) - 1) * bound
            for source, shape in zip(sources, shapes, strict=True)
        ]
    )


def padded(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors of one rank, filling each up with zeros to the largest shape."""
    largest = [max(sizes) for sizes in zip(*(t.shape for t in tensors), strict=True)]
    stacked = tensors[0].new_zeros(len(tensors), *largest)
    for place, tensor in zip(stacked, tensors, strict=True):
        _own_part(place, tuple(tensor.shape)).copy_(tensor)
    return stacked


def same_sizes(configurations: Sequence[_Configuration], names: Sequence[str]) -> _Configuration:
    """Return the first configuration; refuse others that differ from it in ``names``."""
    if not configurations:
        raise InputError("an ensemble needs at least one configuration.")
    for name in names:
        values = {getattr(configuration, name) for configuration in configurations}
        if len(values) > 1:
            found = ", ".join(sorted(map(str, values)))
            raise InputError(
                f"models of one ensemble share {name}, and these have {found}; "
                "make one ensemble of each."
            )
    return configurations[0]


def _own_part(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor[tuple(slice(size) for size in shape)]
