"""A Hugging Face model with smaller heads in a folder: its configuration, its weights, its heads.

``config.json`` is that of the original, which knows one head dimension only; ``heads.json`` says what
has become of each layer, so that the model can be built again before its weights are read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from shutil import copymode
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from exactformer.errors import InputError, needs
from exactformer.spectra.scores import Projection
from exactformer.spectra.shrinking.forms import Plan, compact
from exactformer.spectra.shrinking.layers import Layer

if TYPE_CHECKING:
    from exactformer.spectra.shrinking.shrink import Shrunk

HEADS, WEIGHTS = "heads.json", "heads.safetensors"
"""Not ``model.safetensors``: what takes the folder for an ordinary model shall find no weights."""


def save_shrunk(shrunk: Shrunk, folder: str | Path) -> None:
    """Write a shrunk Hugging Face model; its tokenizer is not part of it."""
    from safetensors.torch import save_model

    model: Any = shrunk.model
    if not hasattr(model, "from_pretrained"):
        raise InputError(
            f"{type(model).__name__} is no Hugging Face model: keep its state_dict(), and load it into "
            "what the same call of shrink_heads returns"
        )
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.config.save_pretrained(folder)
        save_model(model, str(folder / WEIGHTS))
        contents = {
            "model": type(model).__name__,
            "form": shrunk.report.form,
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
            "layers": [_described(plan) for plan in shrunk.plans],
        }
        (folder / HEADS).write_text(json.dumps(contents, indent=1))
        copymode(folder / HEADS, folder / WEIGHTS)  # safetensors lets nobody else read
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error}") from error


def load_shrunk(folder: str | Path) -> nn.Module:
    """Load a model with smaller heads or a smaller cache that ``exactformer shrink`` wrote."""
    with needs("models", "loading a model by its path"):
        import transformers
    from safetensors.torch import load_model

    from exactformer.spectra.caching.storage import has_latents, load_with_latents

    folder = Path(folder)
    if has_latents(folder):
        small: nn.Module = load_with_latents(folder)
        return small
    try:
        contents = json.loads((folder / HEADS).read_text())
        kind = getattr(transformers, contents["model"], None)
        if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
            raise InputError(f"{folder / HEADS}: transformers has no model {contents['model']!r}")
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        model: nn.Module = nn.Module.eval(kind(config))
        model.to(getattr(torch, contents["dtype"]))
        compact(model, [_plan(layer) for layer in contents["layers"]], contents["form"])
        load_model(model, str(folder / WEIGHTS))
    except FileNotFoundError as error:
        raise InputError(f"{folder}: no model with smaller heads there ({error})") from None
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{folder / HEADS} is not what shrink_heads writes: {error}") from error
    return model


def _described(plan: Plan) -> dict[str, Any]:
    layer = plan.layer
    sizes = ("name", "calls", "heads", "kv_heads", "head_dim", "scale")
    return {
        **{name: getattr(layer, name) for name in sizes},
        "dims": plan.dims,
        "query": _rows(layer.query),
        "key": _rows(layer.key),
    }


def _rows(projection: Projection) -> dict[str, Any]:
    rows = projection.rows.tolist()
    return {**{k: v for k, v in asdict(projection).items() if k != "rows"}, "rows": rows}


def _plan(contents: dict[str, Any]) -> Plan:
    fields = dict(contents)
    dims, calls = tuple(fields.pop("dims")), tuple(fields.pop("calls"))
    query, key = (
        Projection(**{**part, "rows": torch.tensor(part["rows"])})
        for part in (fields.pop("query"), fields.pop("key"))
    )
    return Plan(Layer(**fields, calls=calls, query=query, key=key), dims)
