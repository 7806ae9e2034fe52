"""Vision transformers, many trained as one: they differ in seed and in the size of their heads."""

from exactformer.learning.vision.configuration import VisionConfiguration
from exactformer.learning.vision.ensemble import VisionEnsemble
from exactformer.learning.vision.evaluating import Score, score
from exactformer.learning.vision.model import VisionTransformer
from exactformer.learning.vision.recipe import Recipe
from exactformer.learning.vision.training import VisionHistory, train_vision

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
