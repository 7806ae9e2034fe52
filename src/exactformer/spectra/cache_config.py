"""The shape of a model with a smaller cache, as Hugging Face keeps shapes: in ``config.json``.

It lies outside of :mod:`exactformer.spectra.caching`, which needs the models of transformers: these
may be half imported when transformers asks for this configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


class LatentCacheConfig(PretrainedConfig):  # type: ignore[misc]
    """The configuration of the original model, and the rank of every layer's latent."""

    model_type = "exactformer-latent-cache"
    sub_configs = {"text_config": AutoConfig}  # noqa: RUF012

    def __init__(
        self,
        text_config: Any = None,
        ranks: Sequence[int] = (),
        lookback: int = 0,
        method: str = "joint",
        expected_strain: float = 0.0,
        strain_limit: float = 0.0,
        strain_length: int = 0,
        **rest: Any,
    ) -> None:
        """Take the original's configuration, and what the fit has found."""
        if text_config is None:
            text_config = {"model_type": "llama", "num_hidden_layers": 0}
        if isinstance(text_config, dict):
            text_config = AutoConfig.for_model(**text_config)
        self.text_config = text_config
        self.ranks, self.lookback, self.method = list(ranks), lookback, method
        self.expected_strain, self.strain_limit = expected_strain, strain_limit
        self.strain_length = strain_length
        super().__init__(**rest)


CONFIG_MAPPING.register(LatentCacheConfig.model_type, LatentCacheConfig, exist_ok=True)
