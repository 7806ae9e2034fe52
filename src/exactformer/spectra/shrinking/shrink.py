"""``ef.shrink_heads``: a model whose heads have fewer dimensions.

Scores are products of queries and keys; a head of m dimensions can be replaced by one of r, by the
product that is nearest on given inputs. Values stay, or shrink as well. The result is a model that runs
as before, and an account of what was saved and what changed, on inputs that the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from torch import Tensor, nn

from exactformer.core.options import positive_integer
from exactformer.errors import InputError
from exactformer.progress import progress as progress_bar
from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.preparation import float_dtype, loaded, prepared
from exactformer.spectra.shrinking.accounting import account
from exactformer.spectra.shrinking.calibration import Choice, Fitted, Method, calibrate
from exactformer.spectra.shrinking.division import Division, divided, too_few
from exactformer.spectra.shrinking.forms import Form, Plan, compact, possible_dims, possible_form
from exactformer.spectra.shrinking.layers import Layer, layers_of
from exactformer.spectra.shrinking.measurement import output_change
from exactformer.spectra.shrinking.report import ShrinkReport
from exactformer.spectra.shrinking.solution import Truncation
from exactformer.spectra.shrinking.stock import stock_configuration
from exactformer.spectra.shrinking.storage import save_shrunk

Metric = Callable[[nn.Module], float]
_Fit = TypeVar("_Fit")
_AGREE = 1e-4
"""Outputs with and without the rows of zeros differ by rounding; more is a defect."""


@dataclass(frozen=True)
class Shrunk:
    """A model with smaller heads, and the account of it; unpacks into the two."""

    model: nn.Module
    report: ShrinkReport
    plans: tuple[Plan, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.report))

    def save(self, folder: str | Path) -> None:
        """Write a Hugging Face model into a folder that ``load_shrunk`` and ``AutoModel`` read.

        ``report.stock`` says what plain transformers makes of it: the model at its new size where a
        configuration can express it, or the same function at the old size, zeros in the place of what
        is gone.
        """
        save_shrunk(self, folder)


def shrink_heads(
    model: Any,
    inputs: Any,
    *,
    head_dim: int | None = None,
    energy: float | None = None,
    max_loss: float | None = None,
    values: bool = False,
    held_out: Any = None,
    method: Method = "data",
    metric: Metric | None = None,
    tokenizer: Any = None,
    batch_size: int = 16,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> Shrunk:
    """Return a copy of a model with smaller heads for queries and keys, and a report.

    Exactly one of ``head_dim``, ``energy`` and ``max_loss`` says how small. One input in four is kept
    back from the fit, and the report has the errors on both parts.

    Args:
        model: A torch module in evaluation mode, or the folder of a saved Hugging Face model.
        inputs: As for :func:`exactformer.spectrum`; the new projections are the best ones on these,
            less those kept back, or on as many of the first as have moments of 512 MiB in a layer.
        head_dim: The new dimension of every head.
        energy: The share of the scores' energy that every head keeps, such as 0.99.
        max_loss: The smallest dimension, the same for all heads, is searched for which the outputs of
            inputs kept back change by no more than this (relative), or ``metric`` falls by no more
            than this.
        values: Shrink values too, to the dimension of queries and keys; the output projection takes
            them as they come.
        held_out: Inputs to measure errors on; then all of ``inputs`` are fitted to.
        method: ``"data"``, or ``"weights"``: the truncation of W_QᵀW_K, which looks at no input.
        metric: A function of a model, larger is better: evaluated on both and reported.
        tokenizer: For texts.
        batch_size: Texts in a batch.
        device: Where to run; a GPU, if there is one, unless given.
        progress: Whether to show a bar in a terminal.

    >>> encoder = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    >>> small, report = shrink_heads(encoder, torch.randn(16, 9, 32), head_dim=4)
    >>> report.fitted.inputs, report.held_out.inputs, report.dims
    (12, 4, (4,))
    """
    _check(head_dim, energy, max_loss, method)
    model, tokenizer = loaded(model, tokenizer, inputs, held_out)
    ready = prepared(model, device)
    if metric is not None:
        metric = _at_home(metric, model)
    division = divided(ready, inputs, held_out, tokenizer, batch_size)
    if max_loss is not None and metric is None and not division.held_out:
        raise too_few(division)
    given = division.fitted
    layers, left_out = layers_of(ready, given[0], values)
    with progress_bar("shrinking heads, layers", None, progress) as tell:
        search = _Search(ready, layers, division, method, tell)
        if head_dim is not None:
            zeroed, fitted = search.at(head_dim)
        elif energy is not None:
            zeroed, fitted = search.keeping(energy)
        else:
            zeroed, fitted = search.within(max_loss or 0.0, metric)
    plans = tuple(f.plan for f in fitted)
    small, form = _compacted(zeroed, plans, _form(ready, plans), given[0])
    size = float_dtype(model).itemsize
    report = account(ready, small, division, fitted, form, method, metric, size)
    stock = stock_configuration(small, plans, form, given[0])
    report = replace(report, left_out=left_out, stock=stock, loading=_loading(small, stock))
    return Shrunk(_as_it_was(small, model), report, plans)


_Found = tuple[nn.Module, list[Fitted]]
"""A copy with smaller heads, in which zeros stand where rows are gone, and what was fitted."""


class _Search:
    """Ways to say how small; each ends in a fit of all layers."""

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[Layer],
        division: Division,
        method: Method,
        tell: Callable[[int], None],
    ) -> None:
        self._model, self._layers, self._inputs = model, layers, division.fitted
        self._held_out = division.held_out
        self._method, self._tell, self._done = method, tell, 0

    def at(self, head_dim: int) -> _Found:
        """Fit heads of one given dimension."""
        for layer in self._layers:
            most = min(layer.head_dim, layer.value_dim or layer.head_dim)
            if not 1 <= head_dim <= most:
                raise InputError(
                    f"head_dim = {head_dim}: the heads of module {layer.name!r} have {most} "
                    f"dimensions; give 1 to {most}"
                )

        def same(
            layer: Layer, spectrum: Truncation, values: Truncation | None
        ) -> tuple[Tensor, Tensor | None]:
            dims = torch.full((layer.kv_heads,), head_dim, device=spectrum.values.device)
            return dims, None if values is None else dims

        return self._fit(same)

    def keeping(self, energy: float) -> _Found:
        """Fit heads that keep a share of the energy; equal ones in a layer where its form asks it."""
        dims = {
            layer.name: possible_dims(self._model, layer)
            for layer in self._layers
            if possible_form(self._model, layer) == "small"
        }

        def enough(
            layer: Layer, spectrum: Truncation, values: Truncation | None
        ) -> tuple[Tensor, Tensor | None]:
            own = spectrum.dims_for(energy)
            mixed = None if values is None else values.dims_for(energy)
            if layer.name not in dims:
                return own, mixed
            most = int(own.max()) if mixed is None else int(max(own.max(), mixed.max()))
            one = torch.full_like(own, next(r for r in dims[layer.name] if r >= most))
            return one, None if mixed is None else one

        return self._fit(enough)

    def within(self, max_loss: float, metric: Metric | None) -> _Found:
        """Bisect for the smallest dimension with a loss of at most ``max_loss``."""
        common = [set(possible_dims(self._model, layer)) for layer in self._layers]
        dims = sorted(set.intersection(*common))
        if metric is None:
            return smallest(
                dims, self.at, lambda f: output_change(self._model, f[0], self._held_out), max_loss
            )
        before = float(metric(self._model))
        return smallest(dims, self.at, lambda f: before - float(metric(f[0])), max_loss)

    def _fit(self, choose: Choice) -> _Found:
        def tell(done: int) -> None:
            self._tell(self._done + done)

        found = calibrate(self._model, self._layers, self._inputs, choose, self._method, tell)
        self._done += len(self._layers)
        return found


def smallest(
    sizes: Sequence[Any], fit: Callable[[Any], _Fit], loss: Callable[[_Fit], float], max_loss: float
) -> _Fit:
    """Bisect for the fit of the smallest size with at most ``max_loss``; the last is not doubted."""
    found, low, high = None, 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        tried = fit(sizes[middle])
        if loss(tried) <= max_loss:
            found, high = tried, middle
        else:
            low = middle + 1
    return found if found is not None else fit(sizes[high])


def _form(model: nn.Module, plans: Sequence[Plan]) -> Form:
    """Return the small form where every layer allows it at its new dimension."""
    small = all(
        possible_form(model, plan.layer) == "small"
        and plan.uniform
        and (plan.value_dims is None or plan.layer.value_dim == plan.layer.head_dim)
        and plan.dims[0] in possible_dims(model, plan.layer)
        for plan in plans
    )
    return "small" if small else "padded"


def _compacted(
    model: nn.Module, plans: Sequence[Plan], form: Form, batch: Batch
) -> tuple[nn.Module, Form]:
    """Return the model without its zeros, and its form, after a look at what it computes."""
    forms: tuple[Form, ...] = ("small", "padded") if form == "small" else ("padded",)
    for trying in forms:
        small = compact(deepcopy(model), plans, trying)
        try:
            off = output_change(model, small, [batch])
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue  # its code needs what this form takes away
        if off <= _AGREE:
            return small, trying
    raise ExtractionError(
        f"{type(model).__name__} computes something else once rows of zeros are taken out of its "
        f"projections (module {plans[0].layer.name!r} and others); its heads are not shrunk"
    )


def _loading(small: nn.Module, stock: dict[str, int] | None) -> str:
    if not hasattr(small, "from_pretrained"):
        return ""
    if stock is not None:
        entries = ", ".join(f"{name} = {value}" for name, value in stock.items())
        return f"once saved, AutoModel reads it at its new size ({entries})"
    return (
        "once saved, ef.load_shrunk reads it at its new size; AutoModel reads it too, at the old size, "
        "zeros in the place of what is gone"
    )


def _at_home(metric: Metric, given: nn.Module) -> Metric:
    """Return a metric that meets models on the device and in the precision that its author knows."""
    return lambda model: float(metric(_as_it_was(deepcopy(model), given)))


def _as_it_was(small: nn.Module, given: nn.Module) -> nn.Module:
    """Return the new model on the device and in the precision of the one that was given."""
    some = next(given.parameters())
    return small.to(device=some.device, dtype=float_dtype(given))


def _check(head_dim: int | None, energy: float | None, max_loss: float | None, method: str) -> None:
    if sum(x is not None for x in (head_dim, energy, max_loss)) != 1:
        raise InputError("give one of head_dim, energy and max_loss: how small the heads become")
    if head_dim is not None:
        positive_integer(head_dim, "head_dim")
    if energy is not None and not 0 < energy <= 1:
        raise InputError(f"energy = {energy}: give a share above 0 and up to 1, such as 0.99")
    if max_loss is not None and not max_loss >= 0:
        raise InputError(f"max_loss = {max_loss}: give 0 or more, such as 0.05")
    if method not in get_args(Method):
        raise InputError(f"method = {method!r}: give one of {', '.join(get_args(Method))}")
