"""A spectrum in a file: arrays as safetensors, everything else as JSON in its header."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from exactformer.core.whole_files import write_bytes
from exactformer.errors import FileFormatError
from exactformer.spectra.layers import LayerSpectrum
from exactformer.spectra.result import Spectrum
from exactformer.spectra.unread import LeftOut

_KEY = "exactformer.spectrum"


def save(spectrum: Spectrum, path: str | Path) -> None:
    """Write a spectrum, with its control."""
    from safetensors.numpy import save as as_bytes  # its save_file lets nobody else read

    arrays: dict[str, Any] = {}
    facts = _facts(spectrum, "", arrays)
    write_bytes(as_bytes(arrays, metadata={_KEY: json.dumps(facts)}), path)


def load(path: str | Path) -> Spectrum:
    """Read a spectrum."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get(_KEY)
            if header is None:
                raise FileFormatError(f"{path}: no spectrum saved by exactformer")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _spectrum(json.loads(header), "", arrays)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path}: not a spectrum that can be read ({error})") from error


def _facts(spectrum: Spectrum, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    layers = [dict(vars(layer)) for layer in spectrum.layers]
    for place, layer in enumerate(layers):
        for name in [name for name, value in layer.items() if isinstance(value, np.ndarray)]:
            arrays[f"{prefix}{place}.{name}"] = layer.pop(name).copy()
    control = spectrum.control
    return {
        "model": spectrum.model,
        "agreement": spectrum.agreement,
        "centred": spectrum.centred,
        "layers": layers,
        "left_out": [asdict(left) for left in spectrum.left_out],
        "control": None if control is None else _facts(control, f"{prefix}control.", arrays),
    }


def _spectrum(facts: dict[str, Any], prefix: str, arrays: dict[str, Any]) -> Spectrum:
    layers = []
    for place, layer in enumerate(facts["layers"]):
        start = f"{prefix}{place}."
        own = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
        layers.append(LayerSpectrum(**layer, **own))
    control = facts["control"]
    return Spectrum(
        tuple(layers),
        facts["model"],
        facts["agreement"],
        facts["centred"],
        None if control is None else _spectrum(control, f"{prefix}control.", arrays),
        tuple(LeftOut(**left) for left in facts["left_out"]),
    )
