"""A Hugging Face model with smaller heads, or with a smaller cache, in a folder.

Plain transformers reads smaller heads as well. Where a stock configuration expresses them, the folder
is an ordinary one. Elsewhere the weights have the shapes of the original, zeros in the place of what is
gone: ``AutoModel`` reads the same function at the old size, and ``load_shrunk`` takes the zeros out
again, as ``heads.json`` says.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from shutil import copymode
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from exactformer.errors import InputError, needs
from exactformer.spectra.preparation import quietly
from exactformer.spectra.scores import Projection
from exactformer.spectra.shrinking.forms import Plan, compact, expanded, removed
from exactformer.spectra.shrinking.layers import Layer
from exactformer.spectra.shrinking.stock import stock_model

if TYPE_CHECKING:
    from exactformer.spectra.shrinking.shrink import Shrunk

HEADS = "heads.json"
_PARTS = ("query", "key", "value", "output")


def save_shrunk(shrunk: Shrunk, folder: str | Path) -> None:
    """Write a shrunk Hugging Face model; its tokenizer is not part of it."""
    model: Any = shrunk.model
    if not hasattr(model, "from_pretrained"):
        raise InputError(
            f"{type(model).__name__} is no Hugging Face model: keep its state_dict(), and load it into "
            "what the same call of shrink_heads returns"
        )
    report = shrunk.report
    whole: Any
    if report.stock is not None:
        whole = stock_model(model, shrunk.plans, report.stock)
    else:
        whole = expanded(deepcopy(model), shrunk.plans, report.form)  # type: ignore[arg-type]
    contents = {
        "model": type(model).__name__,
        "form": "stock" if report.stock is not None else report.form,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "layers": [_described(plan) for plan in shrunk.plans],
    }
    save_model(whole, folder, HEADS, contents)


def save_model(
    model: Any, folder: str | Path, name: str, contents: dict[str, Any], tokenizer: Any = None
) -> None:
    """Write a model as transformers does, and beside it a file of that name."""
    from safetensors import SafetensorError

    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with quietly():
            model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        (folder / name).write_text(json.dumps(contents, indent=1))
        for weights in folder.glob("*.safetensors"):  # safetensors lets nobody else read
            copymode(folder / name, weights)
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot write to {folder}: {error}") from error


def load_shrunk(folder: str | Path) -> nn.Module:
    """Load a model with smaller heads or a smaller cache that ``exactformer shrink`` wrote."""
    with needs("models", "loading a model by its path"):
        import transformers

    folder = Path(folder)
    if _has_latents(folder):
        return _load_with_latents(folder)
    try:
        contents = json.loads((folder / HEADS).read_text())
        found = getattr(transformers, contents["model"], None)
        if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
            raise InputError(f"{folder / HEADS}: transformers has no model {contents['model']!r}")
        kind: Any = found
        plans = [_plan(layer) for layer in contents["layers"]]
        dtype = getattr(torch, contents["dtype"])
        with quietly():
            made: Any = kind.from_pretrained(folder, local_files_only=True, dtype=dtype)
        model: nn.Module = made.eval()
        if contents["form"] != "stock":
            if any(part.any() for part in removed(model, plans)):
                raise InputError(
                    f"{folder}: what {HEADS} says is gone is not zero in the weights, so that they are "
                    "not those that were saved with it; load the folder by AutoModel"
                )
            compact(model, plans, contents["form"])
    except FileNotFoundError as error:
        raise InputError(f"{folder}: no model with smaller heads there ({error})") from None
    except OSError as error:
        raise InputError(f"{folder}: {error}") from error
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise InputError(f"{folder / HEADS} is not what shrink_heads writes: {error}") from error
    return model


def _has_latents(folder: Path) -> bool:
    """Whether a folder holds a model with a smaller cache."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "exactformer-latent-cache"


def _load_with_latents(folder: Path) -> nn.Module:
    from exactformer.spectra.caching.model import LatentCacheForCausalLM

    try:
        with quietly():
            made: Any = LatentCacheForCausalLM.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: the model with a smaller cache cannot be read ({error})"
        ) from error
    model: nn.Module = made.eval()
    return model


def _described(plan: Plan) -> dict[str, Any]:
    layer = plan.layer
    sizes = ("name", "calls", "heads", "kv_heads", "head_dim", "scale")
    return {
        **{name: getattr(layer, name) for name in sizes},
        "dims": plan.dims,
        "value_dims": plan.value_dims,
        **{name: _rows(getattr(layer, name)) for name in _PARTS},
    }


def _rows(projection: Projection | None) -> dict[str, Any] | None:
    if projection is None:
        return None
    rows = projection.rows.tolist()
    return {**{k: v for k, v in asdict(projection).items() if k != "rows"}, "rows": rows}


def _plan(contents: dict[str, Any]) -> Plan:
    fields = dict(contents)
    dims, calls, values = fields.pop("dims"), tuple(fields.pop("calls")), fields.pop("value_dims")
    parts = {name: _projection(fields.pop(name)) for name in _PARTS}
    layer = Layer(**fields, calls=calls, **parts)  # type: ignore[arg-type]
    return Plan(layer, tuple(dims), None if values is None else tuple(values))


def _projection(contents: dict[str, Any] | None) -> Projection | None:
    if contents is None:
        return None
    return Projection(**{**contents, "rows": torch.tensor(contents["rows"])})
