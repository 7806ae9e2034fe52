"""Inputs divided in two: some that smaller heads are fitted to, others that errors are measured on.

One input in four is kept back. An input is a text, or an entry of a batch; a batch whose entries cannot
be told apart is one input. Equal inputs stay on one side, or nothing would have been kept back.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.core.words import plural
from exactformer.errors import InputError
from exactformer.spectra.batches import Batch, batches
from exactformer.spectra.shrinking.measurement import outputs
from exactformer.spectra.texts import are_texts, tokenized

_EVERY = 4
"""Of so many inputs one is kept back."""
FEWEST = 8
"""Below this number of inputs none is kept back, and fewer than this kept back are called few."""
_SAME = 1e-3
"""Relative: how far an entry's output may be from the one that it has in its batch."""


@dataclass(frozen=True)
class Division:
    """Inputs to fit to, inputs to measure on, and what a reader of the measurement must know."""

    fitted: list[Batch]
    held_out: list[Batch]
    note: str = ""


def divided(
    model: nn.Module, inputs: Any, held_out: Any, tokenizer: Any, batch_size: int
) -> Division:
    """Read inputs; keep some of them back unless ``held_out`` gives others."""

    def read(given: Any) -> list[Batch]:
        read = batches(tokenized(given, tokenizer, model, batch_size))
        return [batch.as_taken_by(model) for batch in read]

    if held_out is not None:
        both = Division(read(inputs), read(held_out))
        return replace(both, note=_shared(inputs, held_out, both))
    if are_texts(inputs):
        back = _kept_back(inputs)
        fitted = [text for text, kept in zip(inputs, back, strict=True) if not kept]
        kept_texts = list(dict.fromkeys(t for t, kept in zip(inputs, back, strict=True) if kept))
        return _described(read(fitted), read(kept_texts) if kept_texts else [], len(kept_texts))
    return _by_entries(model, read(inputs))


def too_few(division: Division) -> InputError:
    """Return the error of a loss that cannot be held against inputs the fit has not seen."""
    count = sum(size(batch) for batch in division.fitted)
    return InputError(
        f"max_loss is compared with the change on inputs that were not fitted to, and of "
        f"{plural(count, 'input')} none can be kept back. Give at least {FEWEST} different "
        "ones, or others as held_out"
    )


def size(batch: Batch) -> int:
    """Return the number of inputs in a batch, by the length of its first tensor."""
    return next((length for length in batch.lengths if length), 1)


def _kept_back(keys: Sequence[Hashable]) -> list[bool]:
    """Return which inputs are kept back: every fourth different one, with all that equal it."""
    different = list(dict.fromkeys(keys))
    if len(different) < FEWEST:
        return [False] * len(keys)
    back = set(different[_EVERY - 1 :: _EVERY])
    return [key in back for key in keys]


def _by_entries(model: nn.Module, given: list[Batch]) -> Division:
    """Keep entries of batches back, or batches where entries cannot be told apart."""
    places = _entry_places(model, given[0])
    if any(_length(batch, places) is None for batch in given):
        back = _kept_back([_key(batch) for batch in given])
        held_out = [batch for batch, own in zip(given, back, strict=True) if own]
        fitted = [batch for batch, own in zip(given, back, strict=True) if not own]
        return _described(fitted, held_out, len(held_out))
    keys = [_entry_keys(batch, places) for batch in given]
    back = _kept_back([key for own in keys for key in own])
    flags = iter(back)
    parts: dict[bool, list[Batch]] = {False: [], True: []}
    for batch, entries in zip(given, keys, strict=True):
        own = [next(flags) for _ in entries]
        for kept, part in parts.items():
            rows = [row for row, is_back in enumerate(own) if is_back == kept]
            if rows:
                part.append(batch if len(rows) == len(own) else batch.rows(rows, places))
    return _described(parts[False], parts[True], sum(back))


def _entry_places(model: nn.Module, batch: Batch) -> set[int]:
    """Return the arguments whose first axis counts inputs; none where that does not hold.

    It holds if a part of the batch gives that part of the output. Tokens in the place of inputs do
    not: they would see each other no more.
    """
    try:
        whole = outputs(model, batch)
    except Exception:  # whatever a model raises: what is wrong is said where it is read
        return set()
    for length in sorted({n for n in batch.lengths if n}):
        places = {i for i, n in enumerate(batch.lengths) if n == length}
        rows = list(range(length))[_EVERY - 1 :: _EVERY] or [length - 1]
        try:
            part = outputs(model, batch.rows(rows, places))
        except Exception:
            continue
        if not whole.ndim or len(whole) != length or part.shape != whole[rows].shape:
            continue
        if float((part - whole[rows]).norm()) <= _SAME * float(whole[rows].norm()):
            return places
    return set()


def _length(batch: Batch, places: Set[int]) -> int | None:
    """Return the length of the arguments at some places; None if they have no common one."""
    lengths = [n for i, n in enumerate(batch.lengths) if i in places]
    return lengths[0] if len(lengths) == len(places) and len(set(lengths)) == 1 else None


def _key(batch: Batch) -> bytes:
    digest = blake2b(digest_size=16)
    for value in batch.values:
        if isinstance(value, Tensor):
            flat = value.detach().cpu().contiguous().flatten().view(torch.uint8)
            digest.update(flat.numpy().tobytes())
    return digest.digest()


def _described(fitted: list[Batch], held_out: list[Batch], count: int) -> Division:
    if not held_out:
        inputs = plural(sum(size(batch) for batch in fitted), "input")
        return Division(
            fitted,
            [],
            f"no errors on other inputs: {inputs} are too few to keep some back, and on inputs that "
            f"were not fitted to errors are larger; give at least {FEWEST} different ones, "
            "or others as held_out",
        )
    return Division(fitted, held_out, _few(count))


def _few(count: int) -> str:
    if count >= FEWEST:
        return ""
    return f"only {plural(count, 'input')} held out: errors on others are uncertain; give more"


def _shared(inputs: Any, held_out: Any, both: Division) -> str:
    """Return a warning if inputs that are said to be held out were fitted to."""
    known: set[Hashable]
    if are_texts(inputs) and are_texts(held_out):
        known = set(inputs)
        again = [text in known for text in held_out]
    else:
        known = {key for batch in both.fitted for key in _entry_keys(batch, _tensors(batch))}
        keys = [key for batch in both.held_out for key in _entry_keys(batch, _tensors(batch))]
        again = [key in known for key in keys]
    if not any(again):
        return _few(len(again))
    return f"{sum(again)} of {plural(len(again), 'held-out input')} are among those fitted to"


def _tensors(batch: Batch) -> set[int]:
    return {i for i, length in enumerate(batch.lengths) if length}


def _entry_keys(batch: Batch, places: Set[int]) -> list[bytes]:
    """Return a key of every entry, or of the batch where its arguments have no common length."""
    length = _length(batch, places)
    if length is None:
        return [_key(batch)]
    return [_key(batch.rows([row], places)) for row in range(length)]
