"""The journey of a sequence: quantised, given keys by the contextual mapping, looked up (Yun et al.).

Every number is the model's own: cells from its quantiser, codes from the trace of its layers, keys and
values from its table. Layers that move nothing are left out of the codes, which say their layer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from exactformer.core.words import plural
from exactformer.errors import InputError, SizeError
from exactformer.studio.playground.refusals import check_choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from exactformer.sequences.grid import Grid
    from exactformer.sequences.model import SequenceModel
    from exactformer.targets import NamedMap

Form = Literal["compact", "paper", "four-layer"]
Positions = Literal["as needed", "yes", "no"]
CHOICES = {"form": get_args(Form), "positional": get_args(Positions)}
MOST_TOKENS, MOST_DIM, MOST_CELLS = 5, 2, 32
MOST_KEYS = 6000
"""Entries of the table of values, each of which is a layer of the paper's form."""
MOST_LAYERS = 1500
"""Layers of the contextual mapping."""
SHOWN_KEYS = 1500
SAMPLES = 2000
LONGEST_INPUT = 400
KEPT_MODELS = 8
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class SequenceRequest:
    """What to compile, in the words of :func:`exactformer.compile_sequence`, and what to send in."""

    map: Annotated[str, Field(max_length=40)] = "sort"
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 3
    dim: Annotated[int, Field(ge=1, le=MOST_DIM)] = 1
    cells: Annotated[int, Field(ge=1, le=MOST_CELLS)] = 8
    """N, for δ = 1/N."""
    form: Form = "compact"
    positional: Positions = "as needed"
    input: Annotated[str, Field(max_length=LONGEST_INPUT)] = ""
    """Numbers, token by token; nothing stands for well-spread ones."""

    def __post_init__(self) -> None:
        for name, value, most in (
            ("tokens", self.tokens, MOST_TOKENS),
            ("dim", self.dim, MOST_DIM),
            ("cells", self.cells, MOST_CELLS),
        ):
            if not 1 <= value <= most:
                raise InputError(f"{name} is 1 to {most} in the playground, not {value}")
        check_choices(self, CHOICES)
        if len(self.input) > LONGEST_INPUT:
            raise SizeError(f"the input has more than {LONGEST_INPUT} characters")


def input_of(request: SequenceRequest) -> NDArray[np.float64]:
    """Return the sequence to send in, (n, d)."""
    import numpy as np

    n, d = request.tokens, request.dim
    if not request.input.strip():
        return np.round((_GOLDEN * np.arange(1, n * d + 1)) % 1.0, 3).reshape(n, d)
    try:
        numbers = [float(part) for part in request.input.replace(";", ",").split(",")]
    except ValueError:
        raise InputError(f"the input {request.input!r} is no list of numbers") from None
    if not np.isfinite(numbers).all():
        raise InputError(f"the input {request.input!r} holds a number that is not finite")
    if len(numbers) != n * d:
        wanted = plural(n * d, "finite number")
        raise InputError(f"{plural(n, 'token')} of dimension {d}: {wanted}, not {len(numbers)}")
    return np.array(numbers).reshape(n, d)


def grid_of(request: SequenceRequest) -> Grid:
    """Return the grid of a request, with positions where its map needs them."""
    from exactformer.sequences.compile import sequence_grid
    from exactformer.targets import sequence_map

    equivariant = sequence_map(request.map).equivariant
    positional = {"yes": True, "no": False}.get(request.positional, not equivariant)
    delta = f"1/{request.cells}"
    return sequence_grid(request.tokens, request.dim, delta, request.form, positional, (0, 1))


def size_of(request: dict[str, Any]) -> tuple[int, int]:
    """Return how many keys and attention layers a request needs."""
    from exactformer.sequences.sizes import predict_size

    asked = SequenceRequest(**request)
    size = predict_size(grid_of(asked), asked.form)
    return size.keys, size.layers["contextual mapping"]


def problem_of(request: dict[str, Any]) -> str | None:
    """Return what stands against a request, whose keys may be too large for floats."""
    from exactformer.sequences.sizes import predict_size

    asked = SequenceRequest(**request)
    return predict_size(grid_of(asked), asked.form).problem(asked.tokens, False)


def compiled(request: SequenceRequest) -> tuple[SequenceModel, NamedMap]:
    """Return the model and its map, from memory if they were among the last ones."""
    return _compiled(replace(request, input=""))


@lru_cache(maxsize=KEPT_MODELS)
def _compiled(request: SequenceRequest) -> tuple[SequenceModel, NamedMap]:
    from exactformer.sequences.compile import compile_sequence
    from exactformer.sequences.sizes import check_sequence_size
    from exactformer.targets import sequence_map

    target, grid = sequence_map(request.map), grid_of(request)
    size = check_sequence_size(grid, request.form)
    if size.keys > MOST_KEYS or size.layers["contextual mapping"] > MOST_LAYERS:
        raise SizeError(
            f"this needs {size.keys:,} keys and {size.layers['contextual mapping']:,} layers of "
            f"attention; the playground's limits are {MOST_KEYS:,} and {MOST_LAYERS:,}. Take "
            "fewer tokens or wider cells, or run it with exactformer sequence"
        )
    model = compile_sequence(
        target,
        tokens=request.tokens,
        dim=request.dim,
        delta=f"1/{request.cells}",
        form=request.form,
        positional=grid.positional,
        outside="zero",
    )
    if target.lipschitz is not None:
        model = model.bounded(target.lipschitz(request.tokens), target=target)
    return model, target


def describe(request: SequenceRequest) -> dict[str, Any]:
    """Return everything about the compiled model that does not depend on the input."""
    model, target = compiled(request)
    counts = model.blueprint.counts()
    measured = model.measure(target, samples=SAMPLES)
    error = f"{measured.value:.4g} ± {measured.standard_error:.1g}"
    return {
        "request": asdict(replace(request, input="")),
        "summary": target.summary,
        "positional": model.blueprint.positional,
        "strides": [int(s) for s in model.contextual_mapping.strides.tolist()],
        "layers": dict(counts.layers),
        "depth": counts.depth,
        "width": counts.width,
        "weights": counts.weights,
        "key_bits": counts.key_bits,
        "keys": keys(model),
        "measured": {"text": f"d_2 = {error}", **measured.to_dict()},
        "certificate": str(model.certificate),
        "digest": model.certificate.blueprint_digest,
    }


def journey(request: SequenceRequest) -> dict[str, Any]:
    """Return every station of the input's way."""
    from exactformer.studio.playground.scripts import sequence_script

    model, target = compiled(request)
    x = input_of(request)
    cells = model.quantise(x)
    output, wanted = model(x).numpy(), target(x)
    return {
        "request": asdict(request),
        "input": x.tolist(),
        "cells": [[int(c) for c in row] for row in cells.tolist()],
        "inside": [bool((row >= 0).all()) for row in cells.numpy()],
        "ids": [int(i) for i in model.contextual_mapping.ids(cells).tolist()],
        "codes": codes(model, x),
        "keys": token_keys(model, x),
        "output": output.tolist(),
        "map": wanted.tolist(),
        "difference": abs(output - wanted).tolist(),
        "script": sequence_script(request, model),
    }


def codes(model: SequenceModel, x: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the tokens' codes after every layer of the contextual mapping that moves any."""
    import numpy as np

    blueprint, trace = model.blueprint, model.trace(x, layers=True)
    read = np.zeros(blueprint.width)
    for _, row, weight in blueprint.code:
        read[row] = float(weight)
    count = len(blueprint.stage("contextual mapping"))
    names = ["quantise", *(f"contextual mapping {k}" for k in range(1, count + 1))]
    # Codes are whole numbers of cells; where a cell is no binary number, floats are nearly whole.
    path = np.rint([trace[name].numpy() @ read for name in names])
    moved = [np.flatnonzero(step).tolist() for step in np.diff(path, axis=0)]
    stations = [{"layer": 0, "codes": path[0].tolist(), "moved": []}]
    stations += [
        {"layer": k, "codes": path[k].tolist(), "moved": tokens}
        for k, tokens in enumerate(moved, start=1)
        if tokens or k == count
    ]
    return stations


def keys(model: SequenceModel) -> dict[str, Any]:
    """Return the keys of all tokens in all contexts, or evenly chosen ones of them.

    A key is the token's own part plus ``step`` times a number that tells the context.
    """
    import numpy as np

    known, values = model.value_map.keys[:-1].numpy(), model.value_map.values[:-1, 0].numpy()
    step = _step(model)
    contexts, column = np.unique(known // step, return_inverse=True)
    shown = np.unique(np.linspace(0, len(known) - 1, min(len(known), SHOWN_KEYS)).astype(int))
    return {
        "step": step,
        "count": len(known),
        "contexts": len(contexts),
        "shown": [
            [int(column[k]) + 1, int(known[k] % step), float(values[k])] for k in shown.tolist()
        ],
    }


def token_keys(model: SequenceModel, x: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the key of every token, with its own part and its context, which it may not have."""
    import numpy as np

    known, step = model.value_map.keys[:-1].numpy(), _step(model)
    contexts = np.unique(known // step)
    return [
        {
            "key": int(key),
            "own": int(key % step),
            "context": int(np.searchsorted(contexts, key // step)) + 1 if key in known else None,
        }
        for key in model.codes(x).numpy()
    ]


def _step(model: SequenceModel) -> int:
    """Return what one context is from the next."""
    mapping = model.contextual_mapping
    return int(mapping.global_shift or mapping.factor)
