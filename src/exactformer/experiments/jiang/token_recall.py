"""Proposition 6.1 where it bites: an answer is due at every place, H_t(x) = x(t), on real sentences.

Naming the token at place t is as causal a target as there is. In the altered order the first ten tokens
arrive last, yet are asked for first: H̃_t depends on inputs that are still to come. No causal model can
name them except by guessing, be it an LSTM or a transformer whose attention looks back only; a
transformer that looks everywhere can. All inputs have the same length, and padding is a token like
others, but is not asked for.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.jiang.translation import pairs
from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.recurrent import Stack
from exactformer.experiments.models.translation.subwords import PAD
from exactformer.experiments.models.translation.training import cross_entropy, fit
from exactformer.experiments.models.translation.transformer import EncoderLayer, position_table


class Namer(nn.Module):
    """Ids (batch, n) to scores (batch, n, vocabulary): an answer at every place."""

    places: Tensor

    def __init__(
        self, kind: str, vocabulary: int, tokens: int, width: int, heads: int, layers: int
    ) -> None:
        super().__init__()
        self.causal = kind == "causal transformer"
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.register_buffer("places", position_table(tokens, width))
        self.recurrent = Stack(width, layers, 0.0) if kind == "lstm" else None
        self.layers = nn.ModuleList(
            EncoderLayer(width, heads, 2 * width, 0.0)
            for _ in range(0 if kind == "lstm" else layers)
        )
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """Return a score for every token of the vocabulary at every place."""
        tokens = self.words(ids) * self.words.embedding_dim**0.5
        if self.recurrent is not None:
            tokens, _ = self.recurrent(tokens)
        else:
            tokens = tokens + self.places
            for layer in self.layers:
                tokens = layer(tokens, causal=self.causal)
        return functional.linear(self.out(self.norm(tokens)), self.words.weight)


def learn_to_name(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return how often one model names the token at its place rightly."""
    tokens, moved = parameters["tokens"], parameters["moved"]
    data = pairs(*(parameters[k] for k in ("data", "train", "tested", "vocabulary", "tokens")))
    order = first_to_end(tokens, moved if parameters["order"] == "moved" else 0).to(device)
    asked, test = (torch.as_tensor(part, device=device) for part in (data.source, data.test))
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(parameters["seed"])
        sizes = (parameters[k] for k in ("tokens", "width", "heads", "layers"))
        model = Namer(parameters["model"], data.subwords.size, *sizes).to(device)

        def loss(rows: Tensor) -> Tensor:
            return cross_entropy(model(asked[rows].index_select(1, order)), asked[rows])

        fit(
            model,
            loss,
            len(asked),
            steps=parameters["steps"],
            batch=parameters["batch"],
            rate=parameters["rate"],
        )
    with torch.no_grad():
        named = torch.cat([model(part[:, order]).argmax(dim=2) for part in torch.split(test, 250)])
    first = share_right(named[:, :moved], test[:, :moved])
    rest = share_right(named[:, moved:], test[:, moved:])
    # The guess is the token most frequent at each of the first places.
    frequent = [column[column != PAD].mode().values for column in asked.cpu()[:, :moved].T]
    guess = share_right(torch.stack(frequent).expand(len(test), -1), test.cpu()[:, :moved])
    return {"first": first, "rest": rest, "guess": guess}


def share_right(named: Tensor, asked: Tensor) -> float:
    """Return the share of tokens named rightly, padding left out."""
    return float((named == asked)[asked != PAD].double().mean())
