"""Small random models of every family, made from their configurations, with inputs that exercise them.

Their query and key weights are enlarged, so that attention is far from uniform and an error shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from exactformer.experiments.models.mixing import SelfAttention
from exactformer.spectra.batches import Batch

SMALL = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "vocab_size": 50,
}
LENGTHS = [9, 6, 4]

Case = tuple[nn.Module, Batch]


def padding() -> torch.Tensor:
    return torch.arange(9) < torch.tensor(LENGTHS)[:, None]


def tokens(mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids} | ({} if mask is None else {"attention_mask": mask.long()})


def states(width: int = 32) -> torch.Tensor:
    return torch.randn(3, 9, width, generator=torch.Generator().manual_seed(1))


def sharpened(model: nn.Module) -> nn.Module:
    model.eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and any(word in name for word in ("q", "k", "attn", "in_proj")):
            parameter *= 4
    return model


def build(make: Callable[[], Case]) -> Case:
    torch.manual_seed(0)
    model, batch = make()
    return sharpened(model), batch


def bert() -> Case:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**SMALL)), Batch((), tokens(padding()))


def roberta() -> Case:
    from transformers import RobertaConfig, RobertaModel

    model = RobertaModel(RobertaConfig(**SMALL, max_position_embeddings=40))
    return model, Batch((), tokens(padding()))


def vit() -> Case:
    from transformers import ViTConfig, ViTModel

    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    model = ViTModel(ViTConfig(**sizes, image_size=16, patch_size=4))
    return model, Batch((), {"pixel_values": torch.randn(2, 3, 16, 16)})


def siglip() -> Case:
    """Its last module is torch's own, inside a model of transformers."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    model = SiglipVisionModel(SiglipVisionConfig(**sizes, image_size=16, patch_size=4))
    return model, Batch((), {"pixel_values": torch.randn(3, 3, 16, 16)})


def gpt2() -> Case:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_embd=32,
        n_head=4,
        n_layer=2,
        vocab_size=50,
        n_positions=40,
        bos_token_id=1,
        eos_token_id=2,
        scale_attn_by_inverse_layer_idx=True,
    )
    return GPT2Model(config), Batch((), tokens(padding().flip(1)))


def llama() -> Case:
    from transformers import LlamaConfig, LlamaModel

    model = LlamaModel(LlamaConfig(**SMALL, num_key_value_heads=2))
    return model, Batch((), tokens(padding()))


def llama_left() -> Case:
    model, _ = llama()
    return model, Batch((), tokens(padding().flip(1)))


def llama_unpadded() -> Case:
    model, _ = llama()
    return model, Batch((), tokens())


def qwen() -> Case:
    """Rotary positions, norms of queries and keys, one key head for all."""
    from transformers import Qwen3Config, Qwen3Model

    model = Qwen3Model(Qwen3Config(**SMALL, num_key_value_heads=1, head_dim=8))
    return model, Batch((), tokens(padding()))


def qwen2() -> Case:
    """Biases before rotation."""
    from transformers import Qwen2Config, Qwen2Model

    model = Qwen2Model(Qwen2Config(**SMALL, num_key_value_heads=2))
    return model, Batch((), tokens(padding()))


def mistral() -> Case:
    """A window of five tokens."""
    from transformers import MistralConfig, MistralModel

    config = MistralConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=5)
    return MistralModel(config), Batch((), tokens())


def gemma() -> Case:
    from transformers import GemmaConfig, GemmaModel

    model = GemmaModel(GemmaConfig(**SMALL, num_key_value_heads=1, head_dim=8))
    return model, Batch((), tokens(padding()))


def gemma3() -> Case:
    """Two rotations, for layers with a window and without, and norms."""
    from transformers import Gemma3TextConfig, Gemma3TextModel

    kinds = ["sliding_attention", "full_attention"]
    config = Gemma3TextConfig(
        **SMALL, num_key_value_heads=2, head_dim=8, sliding_window=5, layer_types=kinds
    )
    return Gemma3TextModel(config), Batch((), tokens())


def phi() -> Case:
    """Half of each head is rotated."""
    from transformers import PhiConfig, PhiModel

    return PhiModel(PhiConfig(**SMALL)), Batch((), tokens(padding()))


def cohere() -> Case:
    """Planes of neighbours."""
    from transformers import CohereConfig, CohereModel

    config = CohereConfig(**SMALL, num_key_value_heads=2, bos_token_id=1, eos_token_id=2)
    return CohereModel(config), Batch((), tokens(padding()))


def gptj() -> Case:
    """Rotated by tables of its own, in no module."""
    from transformers import GPTJConfig, GPTJModel

    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 50, "rotary_dim": 4}
    config = GPTJConfig(**sizes, n_positions=40, bos_token_id=1, eos_token_id=2)
    return GPTJModel(config), Batch((), tokens(padding()))


def bloom() -> Case:
    """Distances added to the scores."""
    from transformers import BloomConfig, BloomModel

    config = BloomConfig(hidden_size=32, n_head=4, n_layer=2, vocab_size=50)
    return BloomModel(config), Batch((), tokens(padding()))


def neox() -> Case:
    """Queries, keys and values fused head by head, part of each rotated."""
    from transformers import GPTNeoXConfig, GPTNeoXModel

    return GPTNeoXModel(GPTNeoXConfig(**SMALL)), Batch((), tokens(padding()))


def t5() -> Case:
    from transformers import T5Config, T5Model

    config = T5Config(d_model=32, d_kv=6, d_ff=48, num_layers=2, num_heads=4, vocab_size=50)
    source = tokens(padding())
    target = {
        "decoder_input_ids": source["input_ids"][:, :5],
        "decoder_attention_mask": source["attention_mask"][:, :5],
    }
    return T5Model(config), Batch((), source | target)


def bart() -> Case:
    from transformers import BartConfig, BartModel

    config = BartConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        vocab_size=50,
        max_position_embeddings=40,
    )
    source = tokens(padding())
    return BartModel(config), Batch((), source | {"decoder_input_ids": source["input_ids"][:, :5]})


def torch_encoder() -> Case:
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    return model, Batch((states(),), {"src_key_padding_mask": ~padding()})


def torch_causal() -> Case:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, batch_first=True), 2)
    mask = nn.Transformer.generate_square_subsequent_mask(9)
    return model, Batch((states(),), {"mask": mask, "is_causal": True})


def torch_decoder() -> Case:
    """Tokens first, attention to another sequence with padding."""
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 48), 1)
    memory = states().transpose(0, 1)
    named = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(5),
        "memory_key_padding_mask": ~padding(),
    }
    return model, Batch((memory[:5], memory), named)


class Apart(nn.Module):
    """torch's attention with everything unusual at once: separate weights, added keys, a 3-D mask."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(
            32, 4, kdim=20, vdim=24, add_bias_kv=True, add_zero_attn=True, batch_first=True
        )
        nn.init.normal_(self.attend.in_proj_bias)

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        mask = torch.randn(12, 9, 9, generator=torch.Generator().manual_seed(5)) > 1
        masks = {"attn_mask": mask.to(x.device), "key_padding_mask": ~padding().to(x.device)}
        return self.attend(x, y, z, **masks)


def torch_apart() -> Case:
    return Apart(), Batch((states(), states(20), states(24)))


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mixer = SelfAttention(32, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return self.mixer(x, mask)


def own_mixer() -> Case:
    return Mixed(), Batch((states(), padding()))


def timm_vit() -> Case:
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size=16, patch_size=4, embed_dim=32, num_heads=4, depth=2)
    return model, Batch((torch.randn(2, 3, 16, 16),))


def timm_normed() -> Case:
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        img_size=16, patch_size=4, embed_dim=32, num_heads=4, depth=2, qk_norm=True
    )
    return model, Batch((torch.randn(2, 3, 16, 16),))


HUGGING_FACE = [
    bert,
    roberta,
    vit,
    gpt2,
    llama,
    llama_left,
    llama_unpadded,
    qwen,
    neox,
    t5,
    bart,
]
TORCH = [torch_encoder, torch_causal, torch_decoder, torch_apart]
OWN = [own_mixer]
TIMM = [timm_vit, timm_normed]
PADDED = [
    bert,
    roberta,
    gpt2,
    llama,
    llama_left,
    qwen,
    neox,
    torch_encoder,
    own_mixer,
]
