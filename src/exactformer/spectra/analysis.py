"""``ef.spectrum``: how much of its head dimension each attention head of a model uses, on given inputs.

Jiang and Li, section 5.2: the singular values of the scores over tokens of an input sample those of the
coupling that a head has learnt. The model runs as it is; each module's queries and keys are factorised
where they pass, and forgotten.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from exactformer.errors import InputError
from exactformer.progress import progress as progress_bar
from exactformer.spectra.batches import Batch, batches, count
from exactformer.spectra.control import Control, control_model
from exactformer.spectra.extraction import Readers, watching
from exactformer.spectra.preparation import loaded, prepared
from exactformer.spectra.result import Spectrum
from exactformer.spectra.scores import Scores
from exactformer.spectra.statistics import LayerStatistics
from exactformer.spectra.texts import tokenized
from exactformer.spectra.unread import LeftOut
from exactformer.spectra.verification import verify

CHECKED = 2**26
"""Attention weights of a layer that are formed at most to be checked: the first inputs of a batch."""


def spectrum(
    model: Any,
    inputs: Any,
    *,
    tokenizer: Any = None,
    attention: Readers | None = None,
    control: Control | None = None,
    centred: bool = False,
    batch_size: int = 16,
    samples: int = 256,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> Spectrum:
    """Return the spectra of all attention heads of a model over inputs.

    Args:
        model: A torch module in evaluation mode (Hugging Face, timm, ``torch.nn``, your own), or the
            folder of a saved Hugging Face model.
        inputs: A tensor, a dictionary of tensors, a tuple of arguments; a list, generator or DataLoader
            of these; or a list of texts, for which a tokenizer is given or lies beside the model.
        tokenizer: For texts.
        attention: How to read modules that multiply queries and keys by themselves: by name or class, a
            function that is called as the module is, after the module itself, and returns
            ``Attention(queries, keys, …)``; or None where a module does not attend.
        control: ``"shuffled"`` or ``"reinitialised"``: analyse such a copy as well, as ``.control``.
        centred: Take the mean key of each input away, which a softmax does not see.
        batch_size: Texts in a batch.
        samples: How many inputs' spectra to keep for drawing.
        seed: Of the control and of the choice of samples.
        device: Where to run; a GPU, if there is one, unless given.
        progress: Whether to show a bar in a terminal.

    The first batch, or as much of it as fits, runs again to check that attention rebuilt from what was
    read is the model's own; :class:`ExtractionError` names the module where it is not. It is raised as
    well for a module that computes something which could be attention and which nothing reads. Other
    weights are listed in ``left_out``.
    """
    if batch_size < 1 or samples < 1:
        raise InputError("batch_size and samples must be at least 1")
    model, tokenizer = loaded(model, tokenizer, inputs)
    inputs = tokenized(inputs, tokenizer, model, batch_size)
    ready = prepared(model, device)
    models = [ready] if control is None else [ready, control_model(ready, control, seed)]
    analyses = [_Analysis(one, samples, seed, centred, attention or {}) for one in models]
    total = count(inputs)
    with progress_bar("attention spectra", total, progress) as tell:
        for done, batch in enumerate(batches(inputs), start=1):
            for analysis in analyses:
                analysis.add(batch, done)
            tell(done)
    return analyses[0].result(None if control is None else analyses[1].result())


class _Analysis:
    """One model and what has been gathered about it."""

    def __init__(
        self, model: nn.Module, samples: int, seed: int, centred: bool, readers: Readers
    ) -> None:
        self._model, self._options, self._readers = model, (samples, seed, centred), readers
        self._gathered: dict[str, LayerStatistics] = {}
        self._agreement: float | None = None
        self._left_out: dict[LeftOut, None] = {}

    def add(self, batch: Batch, number: int) -> None:
        """Run the model on a batch and factorise what its modules attend with."""
        batch = batch.as_taken_by(self._model)
        size, largest = 1, 1

        def gather(scores: Scores) -> None:
            nonlocal size, largest
            scores.check_finite(f", on batch {number}")
            size = len(scores.queries)
            largest = max(largest, scores.heads * scores.queries.shape[2] * scores.keys.shape[2])
            if scores.name not in self._gathered:
                self._gathered[scores.name] = LayerStatistics(scores, *self._options)
            self._gathered[scores.name].add(scores)

        with watching(self._model, self._readers) as watch:
            watch.run(batch, gather)
            self._left_out |= dict.fromkeys(watch.left_out)
        if self._agreement is None:
            first = batch.first(max(1, CHECKED // largest), size)
            self._agreement = verify(self._model, first, self._readers)

    def result(self, control: Spectrum | None = None) -> Spectrum:
        """Return what has been gathered."""
        layers = tuple(gathered.result() for gathered in self._gathered.values())
        name = type(self._model).__name__
        agreement = self._agreement or 0.0
        left_out = tuple(self._left_out)
        return Spectrum(layers, name, agreement, self._options[2], control, left_out)
