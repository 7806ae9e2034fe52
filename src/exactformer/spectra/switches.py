"""The two ways in which libraries carry attention out, and how to ask for either.

*Fused*: queries and keys go into one primitive, which is where they are seen. *Written out*: the model
forms its probabilities itself, which is what the extraction is checked against. Whatever is switched is
switched back.

    Hugging Face              set_attn_implementation("sdpa" | "eager"), or its configuration's entry
    timm                      fused_attn of each attention module
    torch.nn                  has a third way, one kernel for a whole layer: it shows nothing, and rests
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn


def can_be_written_out(model: nn.Module) -> bool:
    """Whether some part of a model can be asked to form its probabilities."""
    return any(hasattr(m, "fused_attn") or _is_hugging_face(m) for m in model.modules())


@contextmanager
def _attention(model: nn.Module, fuse: bool) -> Iterator[None]:
    with ExitStack() as stack:
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        for module in model.modules():
            before: Any = getattr(module, "fused_attn", None)
            if isinstance(before, bool):
                stack.callback(setattr, module, "fused_attn", before)
                setattr(module, "fused_attn", fuse)  # noqa: B010
            elif _is_hugging_face(module):
                before = module.config._attn_implementation  # type: ignore[union-attr]
                stack.callback(_set_implementation, module, before)
                _set_implementation(module, "sdpa" if fuse else "eager")
        yield


fused = partial(_attention, fuse=True)
"""Have queries and keys meet in a primitive, wherever a library offers it."""
written_out = partial(_attention, fuse=False)
"""Have the model form its own probabilities, wherever a library offers it."""


def _is_hugging_face(module: nn.Module) -> bool:
    config = getattr(module, "config", None)
    chosen = getattr(config, "_attn_implementation", None)
    return isinstance(chosen, str) and hasattr(module, "from_pretrained")


def _set_implementation(module: Any, name: str) -> None:
    if module.config._attn_implementation == name:
        return
    if hasattr(module, "set_attn_implementation"):
        try:
            module.set_attn_implementation(name)
        except (ValueError, ImportError):
            return  # it knows one way only: what it does is seen, or refused, by name
    else:
        module.config._attn_implementation = name
