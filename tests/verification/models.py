"""Small plain PyTorch transformers for the tests, and their training from seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool, by_hand: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.by_hand = heads, causal, by_hand
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = (
            part(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        if self.by_hand:
            scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
            if self.causal:
                mask = torch.triu(torch.full((n, n), -torch.inf, device=x.device), 1)
                scores = scores + mask
            y = scores.softmax(-1) @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, width: int, act: str | None, norm: bool, **attention: Any) -> None:
        super().__init__()
        self.attention = Attention(width, **attention)
        self.norm1 = nn.LayerNorm(width) if norm else nn.Identity()
        self.norm2 = nn.LayerNorm(width) if norm and act else nn.Identity()
        unit = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}.get(act or "relu", nn.ReLU)()
        layers = [nn.Linear(width, 4 * width), unit, nn.Linear(4 * width, width)]
        self.mlp = nn.Sequential(*layers) if act else None

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x if self.mlp is None else x + self.mlp(self.norm2(x))


class Net(nn.Module):
    """Token ids of shape (batch, n) to logits, at every position or at the last."""

    def __init__(
        self,
        tokens: int,
        length: int,
        answers: int | None = None,
        width: int = 16,
        heads: int = 1,
        layers: int = 1,
        act: str | None = None,
        norm: bool = False,
        causal: bool = False,
        by_hand: bool = False,
        last: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(torch.randn(length, width) * width**-0.5)
        options = {"heads": heads, "causal": causal, "by_hand": by_hand}
        self.blocks = nn.ModuleList(Block(width, act, norm, **options) for _ in range(layers))
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.readout = nn.Linear(width, answers or tokens, bias=False)
        self.last = last
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.readout(x[:, -1] if self.last else x)


def net(seed: int = 0, scale: float = 1.0, **options: Any) -> Net:
    torch.manual_seed(seed)
    made = Net(**options).eval().requires_grad_(False)
    for weight in made.parameters():
        weight.mul_(scale)
    return made


def trained(
    task: Callable[[Tensor], Tensor], steps: int, seed: int = 0, batch: int = 256, **options: Any
) -> Net:
    made = net(seed, **options).requires_grad_(True)
    tokens, length = options["tokens"], options["length"]
    optimiser = torch.optim.Adam(made.parameters(), 1e-2)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for _ in range(steps):
        ids = torch.randint(tokens, (batch, length))
        loss = functional.cross_entropy(made(ids).flatten(0, -2), task(ids).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        plan.step()
    return made.requires_grad_(False)


def every(tokens: int, length: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(tokens)] * length).reshape(-1, length)
