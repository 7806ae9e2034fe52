"""From scores to weights of attention, in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from exactformer.core.layers import Rule, Selection


def select(scores: Tensor, selection: Selection) -> Tensor:
    """Turn rows of scores into rows of weights by the blueprint's rule."""
    if selection.rule is Rule.ONE_HOT_MAX:
        largest, place = scores.max(dim=-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, place, largest)
    if selection.rule is Rule.HARD_MAX:
        chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(scores.dtype)
        return chosen / chosen.sum(dim=-1, keepdim=True)
    return torch.softmax(scores / float(selection.temperature), dim=-1)
