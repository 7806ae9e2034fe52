"""Small models of transformers, read as they are and held by their balls."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from exactformer.core.formats import FORMATS, REAL, Arithmetic
from exactformer.verification.engine import Engine
from exactformer.verification.graph import read
from tests.verification.models import every

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


class Logits(nn.Module):
    """What a causal language model returns, less its caches."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor) -> Tensor:
        return self.inner(ids, use_cache=False).logits


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=6, n_positions=8, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config)


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=6, **sizes, **heads))


@pytest.mark.parametrize("build", [gpt2, llama])
def test_models_of_transformers_stay_in_their_balls(build: Any) -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = Logits(build()).eval().requires_grad_(False)
    ids = every(6, 4)[::61]
    graph = read(model, 4, CPU)
    for arithmetic, limit in ((REAL, 1e-8), (Arithmetic.of(FORMATS["float32"]), 1e-2)):
        ball = Engine(graph, arithmetic, CPU)(ids)
        run = model(ids).double()
        if arithmetic is not REAL:
            assert bool(((run - ball.c).abs() <= ball.radius).all())
        assert float((run - ball.c).abs().max()) < 1e-5
        assert float(ball.radius.median()) < limit
