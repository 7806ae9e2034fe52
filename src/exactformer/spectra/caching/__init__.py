"""Smaller key-value caches of language models with rotary positions.

rotary        attention of a model read into its parts, and rebuilt from them
moments       means, covariances and Fisher information of keys and values, by one pass
latents       the best latent of a given rank, by moments; ``methods`` has others' choices
allotment     ranks of all layers for a given size
calibration   layer after layer fitted on what reaches it
checkpoint    a fit in a folder, to go on after an interruption; ``fitted`` holds how far it has come
cache         the smaller cache; ``attention``, ``token_attention`` and ``model`` read and write it
identity      whether two models are the same: what a cache and a checkpoint belong to
evaluation    loss, strain and bytes, before and after; ``report`` shows them
"""

from exactformer.errors import needs

# The tables of transformers first: filling them imports ``model`` of this package.
with needs("models", "making a cache smaller"):
    import transformers.models.auto.modeling_auto as _  # noqa: F401

from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.model import LatentCacheForCausalLM, UnfamiliarTextWarning
from exactformer.spectra.caching.report import CacheReport
from exactformer.spectra.caching.shrink import ShrunkCache, shrink_cache

__all__ = [
    "CacheReport",
    "LatentCache",
    "LatentCacheForCausalLM",
    "ShrunkCache",
    "UnfamiliarTextWarning",
    "shrink_cache",
]
