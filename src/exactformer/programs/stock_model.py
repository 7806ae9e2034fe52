"""A program's stack as a model of Hugging Face: a label for every token.

``model.to_hugging_face().save_pretrained(folder)`` writes it, and after ``ef.register_transformers()``
``AutoModelForTokenClassification.from_pretrained(folder)`` reads it. Such a folder holds weights and
no proof; ``model.save`` writes the file that is proven anew when it is loaded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

from exactformer.core.layers import FeedForward, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.core.precision import full_precision
from exactformer.errors import InputError, OutsideDomainError
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer, ProjectedHead
from exactformer.programs.model import PADDING, ProgramModel
from exactformer.programs.run.stack import ProgramStack
from exactformer.programs.stock_config import ProgramConfig
from exactformer.programs.values import words_of


class ProgramForTokenClassification(PreTrainedModel):  # type: ignore[misc]
    """Tokens by number to logits, one row for every token; the beginning token is its own affair."""

    config_class = ProgramConfig
    base_model_prefix = "network"
    main_input_name = "input_ids"

    def __init__(self, config: ProgramConfig) -> None:
        super().__init__(config)
        self.network = ProgramStack(_outline(config), torch.get_default_dtype())
        self.post_init()

    def _init_weights(self, module: Any) -> None:
        """Leave zeros: weights come from a program or from a file."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> TokenClassifierOutput:
        """Return logits ``(batch, n, values)``; padding, which is at the end, has zeros."""
        config = self.config
        ids = input_ids
        if attention_mask is not None:
            ids = ids.masked_fill(attention_mask == 0, PADDING)
            if bool((ids[:, :-1] == PADDING).logical_and(ids[:, 1:] != PADDING).any()):
                raise InputError("padding comes after the tokens; set padding_side to 'right'")
        if ids.shape[1] > config.longest or bool(
            (ids < PADDING).logical_or(ids >= len(config.vocabulary)).any()
        ):
            raise OutsideDomainError(
                f"tokens have numbers 0 to {len(config.vocabulary) - 1}, at most {config.longest} "
                "in a sequence"
            )
        with full_precision(ids.device):
            return TokenClassifierOutput(logits=self.network(ids))


def stock_model(model: ProgramModel) -> ProgramForTokenClassification:
    """Return a program's model with Hugging Face's face, in its format and on its device."""
    blueprint, home = model.blueprint, model.network.unembed.weight
    labels = dict(enumerate(words_of(model.values)))
    if model.program.numerical:
        labels = {0: "number"}
    config = ProgramConfig(
        vocabulary=words_of(model.vocabulary),
        longest=model.max_length,
        width=blueprint.width,
        rows=blueprint.readout.rows,
        layers=[
            [
                len(layer.heads),
                max((head.key.rows for head in layer.heads), default=0),
                max((head.value.rows for head in layer.heads), default=0),
                layer.feed_forward.w1.rows,
            ]
            for layer in blueprint.layers
        ],
        selection=str(blueprint.selection.rule.value),
        causal=blueprint.causal,
        beginning=blueprint.beginning,
        id2label=labels,
        label2id={label: place for place, label in labels.items()},
        dtype=home.dtype,
    )
    stock = ProgramForTokenClassification(config)
    stock.network.to(device=home.device, dtype=home.dtype)
    stock.network.load_state_dict(model.network.state_dict())
    stock.network.requires_grad_(False)
    return stock


def _outline(config: ProgramConfig) -> ProgramBlueprint:
    """Return a blueprint of zeros in the shape of a configuration."""
    width, beginning = config.width, int(config.beginning)

    def head(rows: int, values: int) -> ProjectedHead:
        read, kept = _zeros(rows, width), _zeros(values, width)
        return ProjectedHead(read, read, kept, output=_zeros(width, values))

    def layer(heads: int, rows: int, values: int, hidden: int) -> ProgramLayer:
        units = FeedForward(
            _zeros(hidden, width), _zeros(hidden, 1), _zeros(width, hidden), _zeros(width, 1)
        )
        return ProgramLayer(tuple(head(rows, values) for _ in range(heads)), units)

    return ProgramBlueprint(
        tokens=_zeros(len(config.vocabulary) + beginning, width),
        positions=_zeros(config.longest + beginning, width),
        layers=tuple(layer(*sizes) for sizes in config.layers),
        readout=_zeros(config.rows, width),
        selection=Selection(Rule(config.selection)),
        causal=config.causal,
        beginning=config.beginning,
        registers=(),
        dimensions=(),
    )


def _zeros(rows: int, columns: int) -> Matrix:
    return Matrix(rows, columns, {})
