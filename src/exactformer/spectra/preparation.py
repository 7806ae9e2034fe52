"""A model made ready to be looked at: loaded, checked, lifted to float32, on its device.

The user's own module is used as it is where that will do. Weights in half precision, and a model that
is to run elsewhere, are copied first: spectra of scores rounded to eight bits are spectra of rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exactformer.errors import InputError, needs
from exactformer.spectra.texts import are_texts, tokenizer_at


def prepared(model: Any, device: torch.device | str | None = None) -> nn.Module:
    """Return a module in evaluation mode, float32 or float64, on one device.

    Without ``device`` it runs on a GPU if there is one.
    """
    inner = inner_module(model)
    own = _own_device(inner)
    target = _device(device, own)
    half = any(p.dtype in (torch.float16, torch.bfloat16) for p in inner.parameters())
    if target == own and not half:
        return inner
    copy = deepcopy(inner).to(target)
    return copy.float() if half else copy


def inner_module(model: Any) -> nn.Module:
    """Return what torch.compile wraps, or a module itself; refuse one that shows nothing."""
    if not isinstance(model, nn.Module):
        raise InputError(
            f"the model is {type(model).__name__}: give a torch module, or the path of a saved model"
        )
    inner: nn.Module = getattr(model, "_orig_mod", model)
    if isinstance(inner, torch.jit.ScriptModule):
        raise InputError("a scripted model shows nothing of its inside: give the module itself")
    _in_evaluation(inner)
    return inner


def loaded(model: Any, tokenizer: Any, *inputs: Any) -> tuple[Any, Any]:
    """Load a model that is given by its folder, and the tokenizer there if inputs are texts."""
    if isinstance(model, str | Path):
        folder, model = model, load(model)
        if tokenizer is None and any(are_texts(given) for given in inputs):
            tokenizer = tokenizer_at(folder)
    return model, tokenizer


def load(path: str | Path) -> nn.Module:
    """Load a Hugging Face model from a folder; nothing is fetched."""
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no config.json there, so no saved Hugging Face model")
    with needs("models", "loading a model by its path"):
        import transformers
    try:
        with quietly():
            model: Any = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: {error}") from error
    ready: nn.Module = model.eval()
    return ready


@contextmanager
def quietly() -> Iterator[None]:
    """Keep the library's own progress bar off the terminal."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def float_dtype(model: nn.Module) -> torch.dtype:
    """Return the format of a model's weights (float32 for one without any)."""
    found = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(found, torch.float32)


def _in_evaluation(model: nn.Module) -> None:
    training = [name for name, module in model.named_modules() if module.training]
    if training:
        where = f" (module {training[0]!r})" if training[0] else ""
        raise InputError(
            f"the model is in training mode{where}: call model.eval() first, so that dropout and the "
            "like do not change the scores"
        )


def _own_device(model: nn.Module) -> torch.device:
    places = {p.device: name for name, p in (*model.named_parameters(), *model.named_buffers())}
    if len(places) > 1:
        where = ", ".join(f"{name} on {device}" for device, name in places.items())
        raise InputError(f"the model is spread over devices ({where}): move it to one")
    device = next(iter(places), torch.device("cpu"))
    if device.type == "meta":
        raise InputError("the model has no weights (device meta): load them first")
    return device


def _device(asked: torch.device | str | None, own: torch.device) -> torch.device:
    if asked is None:
        free = own.type == "cpu" and torch.cuda.is_available()
        return torch.device("cuda", torch.cuda.current_device()) if free else own
    try:
        device = torch.empty(0, device=asked).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {str(asked)!r} cannot be used here: {reason}") from None
    return device
