"""Keeping the arithmetic what the certificate says it is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Suspend autocast, which would round products to half precision behind any bound."""
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
