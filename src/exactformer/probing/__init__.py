"""Questions to ask of any sequence map: is it equivariant, is it a contextual mapping?

Both work on torch modules (Hugging Face's included), on plain callables, and in exact arithmetic on
whatever has a method ``exact``. Nothing here needs a blueprint.
"""

from exactformer.probing.contextual import ContextualMapping, is_contextual_mapping
from exactformer.probing.equivariance import Equivariance, check_equivariance
from exactformer.probing.inputs import Grid

__all__ = [
    "ContextualMapping",
    "Equivariance",
    "Grid",
    "check_equivariance",
    "is_contextual_mapping",
]
