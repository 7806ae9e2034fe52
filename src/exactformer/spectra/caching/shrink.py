"""``ef.shrink_cache``: a language model whose key-value cache is smaller, and what that costs.

text → windows → moments → ranks → latents, layer after layer → held-out perplexity
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.spectra.caching import methods
from exactformer.spectra.caching.calibration import calibrate
from exactformer.spectra.caching.checkpoint import Checkpoint, opened
from exactformer.spectra.caching.evaluation import cache_bytes, losses, losses_and_strains
from exactformer.spectra.caching.fitted import FittedLayer
from exactformer.spectra.caching.identity import digest_of, identity
from exactformer.spectra.caching.methods import Method, Plan
from exactformer.spectra.caching.model import LatentCacheForCausalLM
from exactformer.spectra.caching.moments import LayerMoments, gather
from exactformer.spectra.caching.report import CacheReport
from exactformer.spectra.caching.rotary import RotaryLayer, rotary_layers, verify
from exactformer.spectra.caching.scores import measured_changes
from exactformer.spectra.caching.windows import LONGEST, SHORTEST, parted, windows_of
from exactformer.spectra.preparation import float_dtype, load, prepared
from exactformer.spectra.shrinking.report import Saving
from exactformer.spectra.shrinking.shrink import smallest
from exactformer.spectra.shrinking.storage import save_model
from exactformer.spectra.texts import tokenizer_at
from exactformer.version import __version__

_STEPS = 16
"""``max_loss`` searches among this many sizes of the cache."""
_POSITION = 4
"""Bytes for the position of a token."""
_RANKS = "ranks"
"""The file with the ranks, in a checkpoint."""
_ENOUGH = 64
"""Tokens to calibrate on, for each number of a state: moments of fewer are fitted too closely."""


@dataclass(frozen=True)
class ShrunkCache:
    """A model with a smaller cache, and the account of it; unpacks into the two."""

    model: LatentCacheForCausalLM
    report: CacheReport
    tokenizer: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.report))

    def save(self, folder: str | Path) -> None:
        """Write the model, its tokenizer and the report.

        ``ef.load_shrunk`` reads it, and after ``import exactformer`` ``AutoModelForCausalLM`` does.
        """
        report = self.report.to_dict()
        save_model(self.model, folder, "cache-report.json", report, self.tokenizer)


def shrink_cache(
    model: Any,
    texts: Any,
    *,
    cache: float | None = None,
    max_loss: float | None = None,
    held_out: Any = None,
    method: Method = "joint",
    lookback: int | None = None,
    tokenizer: Any = None,
    window: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
) -> ShrunkCache:
    """Return a copy of a language model with a smaller key-value cache, and a report.

    For causal models with rotary positions: LLaMA, Qwen2, Qwen3, Mistral, Gemma, Phi and others of
    their kind. Keys and values of a layer become one latent, fitted to your text; the first token of a
    text is kept as it is.

    Args:
        model: A Hugging Face causal language model in evaluation mode, or its folder.
        texts: A text, a list of texts, or tokens (windows, length). Text of every kind that the
            model will meet should be among them, some thirty thousand tokens in all.
        cache: The share of the cache to keep, such as 0.5. Either this or ``max_loss``.
        max_loss: The smallest cache is searched for which perplexity on held-out text rises by no more
            than this (relative), such as 0.02.
        held_out: Text to measure on; unless given, every fifth window of ``texts``.
        method: ``"joint"``; ``"heads"``, ``"keys"``, ``"weights"``, ``"grouped"`` and ``"planes"`` are
            there to compare with.
        lookback: Predict from the latents of this many layers below; 3 for ``"joint"``. Rebuilding
            keys takes less time with 0.
        tokenizer: For texts; the one beside the model unless given.
        window: Tokens in a window: 512, or a tenth of a short text, unless given.
        seed: For the labels that are drawn, and the tokens that ranks are chosen by.
        device: Where to run; a GPU, if there is one, unless given.
        checkpoint: A folder that the fit is saved in as it goes on, layer by layer. The same call goes
            on from there after an interruption, and returns the same bits; a call that differs in the
            model, the text or an option is refused.
        progress: Whether to show a bar in a terminal.

    >>> import torch, exactformer as ef
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, num_hidden_layers=2, intermediate_size=32, vocab_size=40)
    >>> model = LlamaForCausalLM(LlamaConfig(num_attention_heads=4, **sizes)).eval()
    >>> tokens = torch.randint(40, (10, 33), generator=torch.Generator().manual_seed(0))
    >>> smaller, report = ef.shrink_cache(model, tokens, cache=0.5)
    >>> report.bytes_per_token.before, report.bytes_per_token.after
    (512.0, 256.0)
    """
    _check(cache, max_loss, method, lookback, window)
    if isinstance(model, str | Path):
        folder, model = model, load(model, "AutoModelForCausalLM")
        tokenizer = tokenizer or _tokenizer(folder, texts, held_out)
    ready = prepared(model, device)
    layers = rotary_layers(ready)
    fit_on, measure_on = _windows(texts, held_out, tokenizer, window, ready.config)
    place = next(ready.parameters()).device
    fit_on, measure_on = fit_on.to(place), measure_on.to(place)
    depth = (3 if method == "joint" else 0) if lookback is None else lookback
    with ExitStack() as stack:
        stack.enter_context(_frozen(ready))
        verify(ready, layers, fit_on[:1])
        saved = None
        if checkpoint is not None:
            run = _run(model, ready, fit_on, measure_on) | {"cache": cache, "max_loss": max_loss}
            run |= {"method": method, "lookback": depth, "seed": seed}
            saved = stack.enter_context(opened(checkpoint, run, place))
        moments = gather(ready, layers, fit_on, seed=seed, progress=progress, checkpoint=saved)
        options = method, depth, float_dtype(model), progress, saved
        search = _Search(ready, layers, moments, fit_on, measure_on, *options)
        found = search.at(cache) if cache is not None else search.within(max_loss or 0.0)
    report = search.account(found)
    given = next(model.parameters())
    nn.Module.to(found.model, device=given.device, dtype=given.dtype)
    return ShrunkCache(found.model, report, tokenizer)


@dataclass(frozen=True)
class _Found:
    model: LatentCacheForCausalLM
    layers: list[FittedLayer]
    losses: Tensor
    strains: Tensor


@dataclass(frozen=True)
class _Search:
    """Fits at one size after the other, from the same moments."""

    model: nn.Module
    layers: list[RotaryLayer]
    moments: list[LayerMoments]
    fit_on: Tensor
    measure_on: Tensor
    method: Method
    lookback: int
    dtype: torch.dtype
    """Of the model that was given."""
    show: bool
    checkpoint: Checkpoint | None

    @cached_property
    def before(self) -> Tensor:
        """Losses of the original on the text to measure on."""
        return losses(self.model, self.measure_on)

    def at(self, share: float) -> _Found:
        """Fit a cache of a given share."""
        numbers = sum(layer.sizes.state for layer in self.layers)
        total = numbers if share == 1 else int(share * numbers - _POSITION / self.dtype.itemsize)
        if total < len(self.layers):
            raise InputError(
                f"cache = {share}: {total} numbers for a token in {len(self.layers)} layers; at least "
                "one in each is needed"
            )
        saved = None if self.checkpoint is None else self.checkpoint.part(f"cache-{float(share)}")
        plans = self._plans(total, saved)
        small, fitted = calibrate(
            self.model,
            self.layers,
            self.fit_on,
            self.moments,
            plans,
            method=self.method,
            lookback=self.lookback,
            refit=share < 1,
            progress=self.show,
            checkpoint=saved,
        )
        return _Found(small, fitted, *losses_and_strains(small, self.measure_on))

    def _plans(self, total: int, checkpoint: Checkpoint | None) -> list[Plan]:
        """Return the ranks of all layers, those of the checkpoint if it has them."""
        saved = None if checkpoint is None else checkpoint.read(_RANKS)
        if saved is not None:
            return [tuple(plan) for plan in saved[1]["plans"]]
        plans = methods.plans(self.method, self.layers, self.moments, total, self.lookback)
        if checkpoint is not None:
            checkpoint.write(_RANKS, {}, {"plans": plans})
        return plans

    def within(self, max_loss: float) -> _Found:
        """Bisect for the smallest cache whose perplexity rises by at most ``max_loss``."""
        shares = [step / _STEPS for step in range(1, _STEPS + 1)]

        def rise(found: _Found) -> float:
            return float((found.losses - self.before).mean().exp()) - 1

        return smallest(shares, self.at, rise, max_loss)

    def account(self, found: _Found) -> CacheReport:
        """Write the report, and set the limit from which text counts as unfamiliar."""
        changes, measure_on = found.losses - self.before, self.measure_on
        config = found.model.config
        config.strain_limit = strain_limit(found.strains, config.expected_strain)
        config.strain_length = measure_on.shape[1]
        window = measure_on[0]
        scale = self.dtype.itemsize / float_dtype(self.model).itemsize
        before, after = (cache_bytes(m, window) for m in (self.model, found.model))
        after = (after - _POSITION) * scale + _POSITION
        tokens, state = self.fit_on.numel(), max(layer.sizes.state for layer in self.layers)
        few = tokens < _ENOUGH * state
        return CacheReport(
            model=type(self.model).__name__,
            method=self.method,
            lookback=self.lookback,
            calibrated=tokens,
            measured=measure_on.shape[0] * (measure_on.shape[1] - 1),
            bytes_per_token=Saving(before * scale, after),
            loss=Saving(float(self.before.mean()), float(found.losses.mean())),
            loss_error=float(changes.std() / len(changes) ** 0.5) if len(changes) > 1 else 0.0,
            predicted=sum(layer.predicted for layer in found.layers),
            layers=tuple(found.layers),
            scores=tuple(measured_changes(found.model, measure_on)),
            note=f"{tokens:,} tokens are few for states of {state} numbers: give more text"
            if few
            else "",
        )


def _run(model: Any, ready: Any, fit_on: Tensor, measure_on: Tensor) -> dict[str, Any]:
    """Return what the bits of a fit depend on, apart from its options."""
    import transformers

    place = fit_on.device
    device = f"cpu, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    return {
        "exactformer": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else device,
        "attention": ready.config._attn_implementation,
        "model": identity(model),
        "texts": digest_of({"tokens": fit_on}),
        "held_out": digest_of({"tokens": measure_on}),
    }


def strain_limit(usual: Tensor, expected: float) -> float:
    """Return the strain from which a text is unfamiliar: well above that of held-out windows."""
    if expected <= 0:
        return 0.0
    spread = float(usual.std()) if len(usual) > 1 else 0.0
    return max(float(usual.max()), float(usual.mean()) + 3 * spread, expected) * 1.1


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Let no gradient reach the parameters of somebody's model."""
    learning = [p for p in model.parameters() if p.requires_grad]
    for p in learning:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in learning:
            p.requires_grad_(True)


def _tokenizer(folder: str | Path, *texts: Any) -> Any:
    """Load the tokenizer beside a model; texts need it, and tokens do without."""
    needed = any(text is not None and not isinstance(text, Tensor) for text in texts)
    try:
        return tokenizer_at(folder)
    except InputError:
        if needed:
            raise
        return None


def _windows(
    texts: Any, held_out: Any, tokenizer: Any, length: int | None, config: Any
) -> tuple[Tensor, Tensor]:
    most = min(LONGEST, getattr(config, "max_position_embeddings", LONGEST))
    windows = windows_of(texts, tokenizer, length, most=most)
    if held_out is None:
        return parted(windows)
    return windows, windows_of(held_out, tokenizer, windows.shape[1], "held_out")


def _check(
    cache: float | None,
    max_loss: float | None,
    method: str,
    lookback: int | None,
    window: int | None,
) -> None:
    if (cache is None) == (max_loss is None):
        raise InputError("give one of cache and max_loss: how small the cache becomes")
    if cache is not None and not 0 < cache <= 1:
        raise InputError(
            f"cache = {cache}: give the share to keep, above 0 and up to 1, such as 0.5"
        )
    if max_loss is not None and not max_loss >= 0:
        raise InputError(f"max_loss = {max_loss}: give 0 or more, such as 0.02")
    methods.check(method)
    if lookback is not None and (lookback < 0 or (lookback and method != "joint")):
        raise InputError(
            f"lookback = {lookback}: 0 or more, and more than 0 for method 'joint' only"
        )
    if window is not None and window < SHORTEST:
        raise InputError(f"window = {window}: give {SHORTEST} tokens or more")
