"""Vision transformers, many trained as one: they differ in seed and in the size of their heads."""

from exactformer.experiments.models.vision.ensemble import VisionEnsemble
from exactformer.experiments.models.vision.model import VisionConfiguration, VisionTransformer
from exactformer.experiments.models.vision.recipe import Recipe
from exactformer.experiments.models.vision.training import Score, VisionHistory, score, train_vision

__all__ = [
    "Recipe",
    "Score",
    "VisionConfiguration",
    "VisionEnsemble",
    "VisionHistory",
    "VisionTransformer",
    "score",
    "train_vision",
]
