"""Equation (5) for one model in plain ``torch.nn``, to compare ensembles with."""

from itertools import pairwise

import torch
from torch import nn


class PlainAttention(nn.Module):
    """One model, with the weights of ``ensemble.weights(i)``."""

    def __init__(self, weights, activation=nn.ReLU, causal=False):
        super().__init__()
        self.causal = causal
        self.inner, self.outer = (
            self._network(weights, name, activation) for name in ("inner", "outer")
        )
        self.query, self.key, self.value = (
            self._linear(weights[name]) for name in ("query", "key", "value")
        )

    @staticmethod
    def _linear(weight, bias=None):
        layer = nn.Linear(*reversed(weight.shape), bias=bias is not None, dtype=weight.dtype)
        layer.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
        return layer

    def _network(self, weights, name, activation):
        depth = sum(key.startswith(f"{name}.weights") for key in weights)
        layers = [
            self._linear(weights[f"{name}.weights.{k}"], weights[f"{name}.biases.{k}"])
            for k in range(depth)
        ]
        between = [part for layer, _ in pairwise([*layers, None]) for part in (layer, activation())]
        return nn.Sequential(*between[:-1])

    def weights(self):
        """The same names as an ensemble's."""
        found = {}
        for name in ("inner", "outer"):
            linear = [layer for layer in getattr(self, name) if isinstance(layer, nn.Linear)]
            for k, layer in enumerate(linear):
                found[f"{name}.weights.{k}"] = layer.weight.detach()
                found[f"{name}.biases.{k}"] = layer.bias.detach()
        return found | {n: getattr(self, n).weight.detach() for n in ("query", "key", "value")}

    def forward(self, x):
        """(B, τ) or (B, τ, d) to (B, τ) or (B, τ, o)."""
        h = self.inner(x if x.dim() == 3 else x.unsqueeze(-1))
        scores = torch.einsum("bti,bsi->bts", self.query(h), self.key(h))
        if self.causal:
            scores = scores + torch.full_like(scores, -torch.inf).triu(1)
        y = self.outer(scores.softmax(dim=-1) @ self.value(h))
        return y.squeeze(-1) if y.shape[-1] == 1 else y
