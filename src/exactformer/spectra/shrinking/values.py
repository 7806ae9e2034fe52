"""Smaller values: of rank r per head, and an output projection that takes them as they come.

A head mixes its values to o_t = Σ_s p_ts v_s, and the output projection adds W o_t, where W is made of
the columns of the head. With M = A Bᵀ of rank r in between, Bᵀ goes into the projection that gives the
values and A into W: nothing is left to do at run time. What is lost is what W lets through,

    Σ_t ‖W (o_t − M o'_t)‖²,    o' what the head mixes in the model that is smaller already,

a quadratic like that of the scores, with WᵀW in the place of the queries' moment and Σ o'o'ᵀ in that
of the keys', and solved in the same way. Heads that share values share M.

Then the output projection of all heads is fitted once more, together, by least squares with a ridge
that holds it near W A: one head often has what another lost. Where the projection has a bias, the means
of o and o' are kept exactly, through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from exactformer.spectra.batches import Batch
from exactformer.spectra.scores import Scores
from exactformer.spectra.shrinking.layers import Layer, paired, write_rows
from exactformer.spectra.shrinking.moments import Moments

_RIDGE = 0.05
"""Of the mean square of what the output projection takes."""


@dataclass(frozen=True)
class ValueMoments:
    """Moments of what a layer's heads mix, in both models; all heads side by side, h·m_v numbers.

    They are about the means where the output projection has a bias, which holds these.
    """

    old: Tensor
    """Σ o oᵀ."""
    cross: Tensor
    """Σ o o'ᵀ."""
    new: Tensor
    """Σ o'o'ᵀ."""
    old_mean: Tensor
    new_mean: Tensor


@dataclass(frozen=True)
class FittedValues:
    """What the smaller values of one layer lose."""

    dims: tuple[int, ...]
    error: float
    """Predicted Σ_t ‖Σ_heads W o − W'o'‖², over the tokens of all inputs."""
    total: float
    """Σ_t ‖Σ_heads W o‖², in the same sense."""


def value_moments(
    original: nn.Module, changed: nn.Module, layer: Layer, inputs: Sequence[Batch]
) -> ValueMoments:
    """Return the moments over the tokens that are there."""
    tokens, sums = 0, [torch.zeros(())] * 5
    for pairs in paired(original, changed, inputs, layer.calls):
        for was, now in pairs.values():
            old, new = (_mixed(scores, was.query_tokens) for scores in (was, now))
            parts = (old.mT @ old, old.mT @ new, new.mT @ new, old.sum(dim=0), new.sum(dim=0))
            sums = [total.to(part) + part for total, part in zip(sums, parts, strict=True)]
            tokens += len(old)
    (old, cross, new), means = sums[:3], [total / max(tokens, 1) for total in sums[3:]]
    if layer.output is not None and layer.output.bias is not None:
        old = old - tokens * torch.outer(means[0], means[0])
        cross = cross - tokens * torch.outer(means[0], means[1])
        new = new - tokens * torch.outer(means[1], means[1])
    return ValueMoments(old, cross, new, *means)


def by_head(layer: Layer, weight: Tensor, moments: ValueMoments) -> Moments:
    """Return the error as a function of M, for each head of values: heads that share it are blocks."""
    gram = weight.mT @ weight
    through, old, cross, new = (
        _blocks(m, layer) for m in (gram, moments.old, moments.cross, moments.new)
    )
    return Moments(
        queries=through,
        keys=new,
        cross=(through @ cross).sum(dim=0),
        total=(through * old).sum(dim=(0, -2, -1)),
    )


def weight_moments(model: nn.Module, layer: Layer, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return WᵀW, summed over the heads that share values, and W_V W_Vᵀ: what weights alone say."""
    assert layer.value is not None
    given = layer.value.with_offset(model)
    return _blocks(weight.mT @ weight, layer).sum(dim=0), given @ given.mT


def output_weight(model: nn.Module, layer: Layer) -> Tensor:
    """Return W of all heads side by side (out, h·m_v), in float64."""
    assert layer.output is not None
    return layer.output.whole_weight(model)[:, layer.output.rows.flatten()].double()


def project_values(
    original: nn.Module,
    changed: nn.Module,
    layer: Layer,
    moments: ValueMoments,
    left: Tensor,
    right: Tensor,
    dims: Sequence[int],
    refit: bool,
) -> FittedValues:
    """Write smaller values and the output projection that takes them; zeros stand for what is gone."""
    assert layer.value is not None
    assert layer.output is not None
    width = left.shape[-1]
    weight = output_weight(original, layer)
    heads = (f.repeat_interleave(layer.share, dim=0) for f in (left, right))
    factors: list[Tensor] = [torch.block_diag(*f) for f in heads]  # type: ignore[no-untyped-call]
    bias = layer.output.whole_bias(changed)
    near = weight @ factors[0]
    wanted, given = weight @ moments.cross @ factors[1], factors[1].mT @ moments.new @ factors[1]
    new = near
    if refit:
        used = (given.diagonal() > 0).sum().clamp(min=1)
        ridge = (_RIDGE * given.trace() / used).clamp(min=torch.finfo(torch.float64).tiny)
        eye = torch.eye(len(given), dtype=given.dtype, device=given.device)
        new = torch.linalg.solve(given + ridge * eye, (wanted + ridge * near).mT).mT
    write_rows(layer.value, changed, right)
    _write_columns(layer, changed, new.reshape(len(new), layer.heads, width))
    if bias is not None:
        constant = weight @ moments.old_mean - new @ (factors[1].mT @ moments.new_mean)
        own = layer.output.whole_bias(original)
        assert own is not None
        bias.copy_((own.double() + constant).to(bias.dtype))
    total = ((weight @ moments.old) * weight).sum()
    error = total - 2 * (new * wanted).sum() + ((new @ given) * new).sum()
    return FittedValues(tuple(dims), float(error.clamp(min=0)), float(total))


def _mixed(scores: Scores, there: Tensor) -> Tensor:
    """Return what the heads mix at the tokens that are there (tokens, h·m_v), in float64."""
    mixed = scores.mixed
    if mixed is None:
        assert scores.values is not None
        mixed = scores.probabilities() @ scores.values
    return mixed.transpose(1, 2)[there].flatten(1).double()


def _blocks(matrix: Tensor, layer: Layer) -> Tensor:
    """Return the blocks on the diagonal by head: (heads that share, key heads, m_v, m_v)."""
    width = layer.value_dim
    parts = matrix.reshape(layer.heads, width, layer.heads, width)
    blocks = parts.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    return torch.unflatten(blocks, 0, (layer.kv_heads, layer.share)).transpose(0, 1)


def _write_columns(layer: Layer, model: nn.Module, new: Tensor) -> None:
    """Replace the columns of each head by (out, heads, r); those from r on become zero."""
    assert layer.output is not None
    target = layer.output.whole_weight(model)
    columns = target.new_zeros(target.shape[0], layer.heads, layer.value_dim)
    columns[..., : new.shape[-1]] = new.to(target.dtype)
    target[:, layer.output.rows.flatten().to(target.device)] = columns.flatten(1)
