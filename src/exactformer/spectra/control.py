"""A control: the same architecture with weights that know nothing.

*Shuffled* keeps every number of every parameter and loses its place: what stays alike is the shape of
the network and the size of its weights. *Reinitialised* starts anew, as the model did before training.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal

import torch
from torch import nn

from exactformer.errors import InputError

Control = Literal["shuffled", "reinitialised"]


def control_model(model: nn.Module, kind: Control, seed: int = 0) -> nn.Module:
    """Return a copy of a model with shuffled or reinitialised weights; the model is left alone."""
    if kind == "shuffled":
        return _shuffled(model, seed)
    if kind == "reinitialised":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _reinitialised(model)
    raise InputError(f"control {kind!r}: choose shuffled or reinitialised")


def _shuffled(model: nn.Module, seed: int) -> nn.Module:
    copy = deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in copy.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            flat = parameter.flatten()[order.to(parameter.device)]
            parameter.copy_(flat.view_as(parameter))
    return copy


def _reinitialised(model: nn.Module) -> nn.Module:
    config = getattr(model, "config", None)
    if config is not None and hasattr(model, "from_pretrained"):
        make: Any = type(model)
        fresh: nn.Module = make(deepcopy(config))
        some = next(model.parameters())
        return fresh.to(some.device, some.dtype).eval()
    copy = deepcopy(model)
    for name, module in copy.named_modules():
        own: Any = getattr(module, "reset_parameters", getattr(module, "_reset_parameters", None))
        if own is not None:
            own()
        elif any(True for _ in module.parameters(recurse=False)):
            raise InputError(
                f"module {name!r} ({type(module).__name__}) has weights and no reset_parameters(), so "
                "it cannot be reinitialised; choose control='shuffled'"
            )
    return copy
