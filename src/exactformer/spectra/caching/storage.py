"""A model with a smaller cache in a folder: its weights, its tokenizer and the report of the fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from exactformer.errors import InputError
from exactformer.spectra.preparation import quietly

REPORT = "cache-report.json"


def save(model: Any, tokenizer: Any, report: dict[str, Any], folder: str | Path) -> None:
    """Write a model as transformers does, and beside it what was measured."""
    from safetensors import SafetensorError

    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with quietly():
            model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        (folder / REPORT).write_text(json.dumps(report, indent=1))
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot write to {folder}: {error}") from error


def has_latents(folder: Path) -> bool:
    """Whether a folder holds a model with a smaller cache."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "exactformer-latent-cache"


def load_with_latents(folder: Path) -> Any:
    """Load it, in evaluation mode; nothing is fetched."""
    from exactformer.spectra.caching.model import LatentCacheForCausalLM

    try:
        with quietly():
            model: Any = LatentCacheForCausalLM.from_pretrained(folder, local_files_only=True)
        return model.eval()
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: the model with a smaller cache cannot be read ({error})"
        ) from error
