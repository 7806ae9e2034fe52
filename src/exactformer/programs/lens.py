"""The model of a program as TransformerLens has models: hooks on every stream, score and pattern.

The weights are those of the stock form, in TransformerLens' native architecture without normalisation.
All layers have equally many heads, head rows and hidden units there, so zeros fill up what is smaller;
a head of zeros adds nothing. Scores are divided by two, and queries doubled, both of which are exact:
TransformerLens refuses to divide by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from exactformer.core.layers import Rule
from exactformer.errors import ExecutionError, needs

if TYPE_CHECKING:
    from exactformer.programs.model import ProgramModel

_DIVISOR = 2


def bridge(model: ProgramModel) -> Any:
    """Return a ``TransformerBridge`` with the weights of a softmax model."""
    if model.blueprint.selection.rule is not Rule.SOFTMAX:
        raise ExecutionError(
            "a hard maximum cannot be opened in TransformerLens, which attends by softmax; compile the "
            "program with realisation='softmax'"
        )
    with needs("interpretability", "to_transformer_lens"):
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge.sources import build_bridge_from_module
        from transformer_lens.model_bridge.sources.native import NativeModel
    network: Any = model.network
    attentions = [layer.attention for layer in network.layers if layer.attention is not None]
    hidden = [
        layer.feed_forward.W_in.out_features for layer in network.layers if layer.feed_forward
    ]
    home = network.unembed.weight
    config = TransformerBridgeConfig(
        d_model=model.blueprint.width,
        n_layers=len(network.layers),
        n_heads=max((a.heads for a in attentions), default=1),
        d_head=max((max(a.head_width, a.value_width) for a in attentions), default=1),
        d_mlp=max(hidden, default=1),
        n_ctx=network.positions.num_embeddings,
        d_vocab=network.embed.num_embeddings,
        d_vocab_out=network.unembed.out_features,
        act_fn="relu",
        normalization_type=None,
        positional_embedding_type="standard",
        attention_dir="causal" if model.blueprint.causal else "bidirectional",
        use_attn_scale=True,
        attn_scale=float(_DIVISOR),
        init_weights=False,
        dtype=home.dtype,
        device=str(home.device),
    )
    native = NativeModel(config).to(device=home.device, dtype=home.dtype).requires_grad_(False)
    for parameter in native.parameters():
        parameter.zero_()
    native.tok_embed.weight.copy_(network.embed.weight)
    native.pos.weight.copy_(network.positions.weight)
    for layer, own in zip(native.layers, network.layers, strict=True):
        if own.attention is not None:
            _fill_heads(layer.attn, own.attention)
        if own.feed_forward is not None:
            _fill(layer.mlp.fc_in.weight, own.feed_forward.W_in.weight)
            _fill(layer.mlp.fc_in.bias, own.feed_forward.W_in.bias)
            _fill(layer.mlp.fc_out.weight, own.feed_forward.W_out.weight)
    native.head.weight.copy_(home)
    return build_bridge_from_module(
        native,
        architecture="TransformerLensNative",
        tl_config=config,
        tokenizer=None,
        dtype=home.dtype,
        device=str(home.device),
        model_name=model.program.names[model.program.output],
    ).eval()


def _fill_heads(native: Any, own: Any) -> None:
    """Copy heads, each into its rows."""
    shape = native.n_heads, native.d_head, -1
    for name, factor in (("q", _DIVISOR), ("k", 1), ("v", 1)):
        weight = getattr(own, f"W_{name.upper()}").weight
        _fill(
            getattr(native, name).weight.view(shape), factor * weight.unflatten(0, (own.heads, -1))
        )
    heads = own.W_O.weight.unflatten(1, (own.heads, -1))
    _fill(native.o.weight.unflatten(1, shape[:2]), heads)


def _fill(tensor: Tensor, part: Tensor) -> None:
    tensor[tuple(slice(size) for size in part.shape)] = part
