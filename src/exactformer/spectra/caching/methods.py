"""Ways to choose a smaller cache: ours, and choices that others have published.

A method cuts a state into blocks, each with its own latent; says what a change costs (the metric), what
varies (the covariance), and how ranks are allotted to blocks.

    joint     one block of all keys and values; Fisher metric; ranks by the largest costs of all layers
    heads     every key head and value head by itself; the same metric and ranks
    keys      every head by itself, by the spread of its keys (or values) alone; ranks by share of
              energy, as in Eigen Attention
    weights   every head by itself, by the singular values of W_K (or W_V), which reads no text; equal
              ranks
    grouped   keys of up to four heads together, values of up to four; spread alone, ranks by Fisher
              information: the grouped-head decomposition of Palu
    planes    whole planes of every key head, by the energy of queries and keys in them, as in the
              first step of EliteKV; values as in ``grouped``; equal ranks

All of them keep means and first tokens exactly, are fitted layer after layer to what reaches a layer,
and get output projections refitted, which the publications do not do: what differs is the latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from exactformer.errors import InputError
from exactformer.spectra.caching.allotment import allot, largest
from exactformer.spectra.caching.latents import Latent, basis, metric_roots, orthonormal
from exactformer.spectra.caching.moments import LayerMoments
from exactformer.spectra.caching.rotary import RotaryLayer, Sizes

Method = Literal["joint", "heads", "keys", "weights", "grouped", "planes"]
_GROUP = 4

Plan = tuple[int, ...]
"""Ranks of the blocks of one layer."""


@dataclass(frozen=True)
class Block:
    """Coordinates of a state that share a latent."""

    places: Tensor
    kind: Literal["keys", "values", "state"]


def check(method: str) -> None:
    """Refuse a method that is not known."""
    if method not in get_args(Method):
        raise InputError(f"method = {method!r}: give one of {', '.join(get_args(Method))}")


def blocks_of(method: Method, sizes: Sizes) -> list[Block]:
    """Return the blocks of a state."""
    if method == "joint":
        return [Block(torch.arange(sizes.state), "state")]
    places = torch.arange(sizes.state).reshape(2, sizes.key_heads, sizes.head_dim)
    blocks = []
    for kind, heads in (("keys", places[0]), ("values", places[1])):
        alone = method in ("heads", "keys", "weights") or (method == "planes" and kind == "keys")
        groups = torch.split(heads, 1 if alone else _GROUP)
        blocks += [Block(group.flatten(), kind) for group in groups]  # type: ignore[arg-type]
    return blocks


def plans(
    method: Method,
    layers: Sequence[RotaryLayer],
    moments: Sequence[LayerMoments],
    total: int,
    lookback: int,
) -> list[Plan]:
    """Return ranks of all blocks of all layers, ``total`` of them together."""
    if method == "joint":
        return [(rank,) for rank in _one_each(allot(moments, total, lookback))]
    cut = [blocks_of(method, layer.sizes) for layer in layers]
    flat = [(i, block) for i, blocks in enumerate(cut) for block in blocks]
    if method in ("weights", "planes"):
        ranks = _even(flat, total, method == "planes")
    else:
        spectra = []
        for i, block in flat:
            roots, p = _roots(method, moments[i], block), block.places
            values = basis(moments[i].mean[p], moments[i].covariance[p][:, p], roots).values
            spectra.append(values / values.sum().clamp(min=1e-300) if method == "keys" else values)
        ranks = largest(spectra, total)
    found: list[list[int]] = [[] for _ in cut]
    for (i, _), rank in zip(flat, ranks, strict=True):
        found[i].append(rank)
    totals = [sum(ranks) for ranks in found]
    for ranks, was, now in zip(found, totals, _one_each(totals), strict=True):
        ranks[ranks.index(max(ranks))] += now - was
    return [tuple(ranks) for ranks in found]


def fit(
    method: Method,
    layer: RotaryLayer,
    moments: LayerMoments,
    mean: Tensor,
    covariance: Tensor,
    plan: Plan,
) -> Latent:
    """Return the latent of one layer for the mean and covariance of (u, z) that really reach it."""
    if method == "joint":
        return basis(mean, covariance, moments.roots).keep(plan[0])
    state = layer.sizes.state
    encodes, decodes = [], []
    mean, covariance = mean[:state].clone(), covariance[:state, :state]
    for block, rank in zip(blocks_of(method, layer.sizes), plan, strict=True):
        p = block.places.to(mean.device)
        encode, decode = mean.new_zeros(rank, state), mean.new_zeros(state, rank)
        if method == "planes" and block.kind == "keys":
            chosen = p[_planes(layer.sizes, moments, p, rank)]
            one = torch.arange(len(chosen))
            encode[one, chosen] = decode[chosen, one] = 1
            mean[p] = 0  # a plane that is left out is left out, mean and all
        else:
            spread = covariance[p][:, p]
            if method == "weights":
                spread = _gram(layer)[p][:, p]
            found = basis(mean[p], spread, _roots(method, moments, block)).keep(rank)
            encode[:, p], decode[p] = found.encode, found.decode
        encodes.append(encode)
        decodes.append(decode)
    nothing_below = mean.new_zeros(state, 0), mean.new_zeros(0)
    whole = Latent(torch.cat(encodes), torch.cat(decodes, dim=1), mean, *nothing_below, covariance)
    return orthonormal(whole)


def _roots(method: Method, moments: LayerMoments, block: Block) -> tuple[Tensor, Tensor]:
    """Return the root of a block's metric and its inverse."""
    p = block.places.to(moments.fisher.device)
    fisher = moments.fisher[p][:, p]
    if method == "heads":
        return metric_roots(fisher)
    size = fisher.diagonal().mean().sqrt() if method == "grouped" else fisher.new_ones(())
    one = torch.eye(len(p), dtype=fisher.dtype, device=fisher.device)
    return one * size, one / size


def _gram(layer: RotaryLayer) -> Tensor:
    """Return the spread of keys and values when inputs are white: W Wᵀ."""
    weight = torch.cat([layer.k_proj.weight, layer.v_proj.weight]).detach().double()
    return weight @ weight.T


def _planes(sizes: Sizes, moments: LayerMoments, places: Tensor, rank: int) -> Tensor:
    """Return the coordinates, within a head, of the planes with the most energy E|q_p|² E|k_p|²."""
    keys = moments.covariance.diagonal()[places] + moments.mean[places].square()
    queries = moments.queries[int(places[0]) // sizes.head_dim]
    half = sizes.rotary_dim // 2
    plane = torch.arange(sizes.head_dim, device=places.device)
    plane[half : 2 * half] = plane[:half]
    energy = torch.zeros_like(keys).index_add(0, plane, keys)
    energy *= torch.zeros_like(keys).index_add(0, plane, queries)
    chosen: list[int] = []
    for best in torch.argsort(energy, descending=True, stable=True).tolist():
        members = (plane == best).nonzero()[:, 0].tolist()
        if members and len(chosen) + len(members) <= rank:
            chosen += members
    return torch.tensor(sorted(chosen), device=places.device)


def _one_each(ranks: Sequence[int]) -> list[int]:
    """Return ranks of at least one, taken from the largest.

    >>> _one_each([5, 0, 3])
    [4, 1, 3]
    """
    ranks = list(ranks)
    for i, rank in enumerate(ranks):
        if rank == 0:
            ranks[i] = 1
            ranks[ranks.index(max(ranks))] -= 1
    return ranks


def _even(blocks: Sequence[tuple[int, Block]], total: int, whole: bool) -> list[int]:
    """Return the same share of every block, ``total`` at most; with ``whole`` keys go by planes."""
    widths = [len(block.places) for _, block in blocks]
    steps = [2 if whole and block.kind == "keys" else 1 for _, block in blocks]
    share = total / sum(widths)
    ranks = [int(share * w) // step * step for w, step in zip(widths, steps, strict=True)]
    left = total - sum(ranks)
    for i in sorted(range(len(ranks)), key=lambda i: (ranks[i] / widths[i], steps[i])):
        if steps[i] <= left and ranks[i] + steps[i] <= widths[i]:
            ranks[i] += steps[i]
            left -= steps[i]
    return ranks
