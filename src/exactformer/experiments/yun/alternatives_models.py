"""Two models round one encoder: words that name hidden words, patches that name an image."""

import torch
from torch import Tensor, nn

from exactformer.experiments.models.mixing import MixingEncoder
from exactformer.experiments.yun.alternatives_tasks import PAD


class WordModel(nn.Module):
    """Word ids (batch, n) to tokens (batch, n, w); :meth:`logits` compares these with all words."""

    def __init__(self, vocabulary: int, encoder: MixingEncoder, width: int, tokens: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.encoder = encoder
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the encoder's tokens; padding is neither looked at nor summed."""
        result: Tensor = self.encoder(self.words(ids) + self.places[: ids.shape[1]], ids != PAD)
        return result

    def logits(self, tokens: Tensor) -> Tensor:
        """Return a score for each word of the vocabulary."""
        return tokens @ self.words.weight.T + self.bias


class PatchModel(nn.Module):
    """Patches (batch, n, p) to tokens (batch, n, w); :meth:`logits` classifies their mean."""

    def __init__(
        self, patch: int, classes: int, encoder: MixingEncoder, width: int, tokens: int
    ) -> None:
        super().__init__()
        self.patches = nn.Linear(3 * patch * patch, width)
        self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.encoder = encoder
        self.classes = nn.Linear(width, classes)

    def forward(self, patches: Tensor) -> Tensor:
        """Return the encoder's tokens."""
        result: Tensor = self.encoder(self.patches(patches) + self.places)
        return result

    def logits(self, tokens: Tensor) -> Tensor:
        """Return a score for each class."""
        result: Tensor = self.classes(tokens.mean(dim=1))
        return result
