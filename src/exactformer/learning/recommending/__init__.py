"""Transformer or RNN: which suits a relationship between sequences, with the evidence."""

from exactformer.learning.recommending.evidence import Evidence
from exactformer.learning.recommending.recommend import Recommendation, recommend_architecture
from exactformer.learning.recommending.samples import Samples, samples, windows

__all__ = [
    "Evidence",
    "Recommendation",
    "Samples",
    "recommend_architecture",
    "samples",
    "windows",
]
