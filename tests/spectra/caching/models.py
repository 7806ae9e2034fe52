"""Small random language models with rotary positions, one for every family, and tokens for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 48,
    "vocab_size": 50,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def llama(**more: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**{**SIZES, **more}))


def llama_tied() -> Any:
    return llama(tie_word_embeddings=True, attention_bias=True)


def qwen2() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**SIZES))


def qwen3() -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16))


def mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None))


def gemma() -> Any:
    from transformers import GemmaConfig, GemmaForCausalLM

    return GemmaForCausalLM(GemmaConfig(**SIZES, head_dim=16))


def phi() -> Any:
    from transformers import PhiConfig, PhiForCausalLM

    return PhiForCausalLM(PhiConfig(**SIZES, partial_rotary_factor=0.5))


def phi_normed() -> Any:
    from transformers import PhiConfig, PhiForCausalLM

    return PhiForCausalLM(PhiConfig(**SIZES, qk_layernorm=True))


FAMILIES: tuple[Callable[[], Any], ...] = (
    llama,
    llama_tied,
    qwen2,
    qwen3,
    mistral,
    gemma,
    phi,
    phi_normed,
)


def build(make: Callable[[], Any]) -> Any:
    """Return a model whose attention is far from uniform, with biases that are not zero."""
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "self_attn" in name and parameter.ndim == 2:
                parameter *= 6
            if name == "lm_head.weight":
                parameter *= 30
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
    return model


def tokens(rows: int = 10, length: int = 24, seed: int = 1) -> torch.Tensor:
    return torch.randint(3, 50, (rows, length), generator=torch.Generator().manual_seed(seed))


def written(model: Any, rows: int = 20, length: int = 32) -> torch.Tensor:
    """Return text that the model itself writes, so that its predictions are good ones."""
    torch.manual_seed(7)
    begin = torch.randint(3, 50, (rows, 1))
    text: torch.Tensor = model.generate(
        begin, do_sample=True, max_new_tokens=length - 1, min_new_tokens=length - 1, pad_token_id=0
    )
    return text


def saved(folder: Path) -> Any:
    """Save a model with a tokenizer of a few words, and return the tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    build(llama).save_pretrained(folder)
    words = "[PAD] [BOS] [EOS] [UNK] a cat sat on the mat".split()
    numbered = models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    tokenizer = Tokenizer(numbered)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.save_pretrained(folder)
    return fast
