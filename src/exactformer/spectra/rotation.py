"""Rotary positions: queries and keys before they are rotated, and by how much they are.

A rotary head has planes p of two coordinates each and turns plane p of the token at place t by θ_p t:

    score(t, s) = Σ_p q_pᵀ R(θ_p (s − t)) k_p,

q and k before rotation, so that a score depends on the distance of two tokens. Which module gives the
angles, which coordinates form a plane (neighbours, or one of each half of the head), how many of them
turn and whether a norm comes first is not assumed: what a module computed before is rotated in all the
ways that models know, and one of them must give the queries and keys that met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from exactformer.spectra.primitives import Attention
from exactformer.spectra.projections import Found, Passed
from exactformer.spectra.scores import Projection

NORMS = {
    "query": ("q_norm", "q_layernorm", "query_norm", "query_layernorm", "norm_q"),
    "key": ("k_norm", "k_layernorm", "key_norm", "key_layernorm", "norm_k"),
}
"""Modules between projection and rotation, by the names that models use."""
_SAME = 1e-4
"""Relative: how far what was rotated here may be from what the model rotated; both round."""
_STEADY = 1e-3
"""How far the step from token to token may be from the same angle everywhere."""
OTHER = "not read: something acts between its projection and its scores that is not understood"
UNEVEN = "not read: rotary, but tokens do not follow one another in steps of one"


@dataclass(frozen=True)
class Rotation:
    """One rotary module on one batch."""

    planes: Tensor
    """(P, 2): the coordinates of each plane; those that do not turn come last, paired as they stand."""
    turns: Tensor
    """(B or 1, τ, P) complex: e^(iθ_p t) of each token, 1 in planes that do not turn."""
    queries: Tensor
    """(B, heads, τ, m) before rotation, times the scale."""
    keys: Tensor
    """(B, kv_heads, τ, m) before rotation."""
    frequencies: Tensor
    """(P,): θ_p, in radians from one token to the next."""

    def complex(self, x: Tensor) -> Tensor:
        """Return vectors (…, m) with a complex number for each plane (…, P)."""
        return torch.complex(x[..., self.planes[:, 0]], x[..., self.planes[:, 1]])

    def scores(self) -> Tensor:
        """Return Σ_p q_pᵀ R(θ_p (s − t)) k_p (B, heads, τ, τ): for checks, not for analysis."""
        turns = self.turns.unsqueeze(1).to(torch.complex128)
        share = self.queries.shape[1] // self.keys.shape[1]
        q, k = (self.complex(x.double()) for x in (self.queries, self.keys))
        k = k.repeat_interleave(share, dim=1)
        return ((q * turns) @ (k * turns).mH).real


def angles_of(output: Any) -> tuple[Tensor, Tensor] | None:
    """Return the cosines and sines that a module has computed, if that is what they are."""
    if not isinstance(output, tuple | list) or len(output) != 2:
        return None
    cos, sin = output
    if not all(isinstance(x, Tensor) and x.is_floating_point() for x in output):
        return None
    if cos.shape != sin.shape or cos.ndim not in (2, 3) or not cos.numel():
        return None
    squares = cos.double().square() + sin.double().square()
    steady = squares.amax() - squares.amin() <= _STEADY * squares.amax()
    return (cos, sin) if bool(steady) and float(squares.amax()) > 0 else None


def rotation_of(
    attention: Attention,
    found: Found | None,
    layers: Mapping[str, Passed],
    norms: Mapping[str, Tensor],
    angles: Sequence[tuple[Tensor, Tensor]],
    there: Tensor,
) -> tuple[Rotation | None, str]:
    """Return how a module rotates, and its positions: none, rotary, or why they are not read."""
    if found is None or found.key.plain:
        return None, ""
    keys = attention.keys[:, :: attention.keys.shape[1] // len(found.key.rows)]
    sources = list(_sources("key", keys, found.key, layers, norms))
    if any(torch.equal(source, keys) for source in sources):
        return None, ""
    queries = attention.queries
    asked = list(_sources("query", queries, found.query, layers, norms))
    for cos, sin in angles:
        for planes, turns in _ways(cos, sin, keys.shape[-1]):
            key = _before(keys, sources, planes, turns)
            query = _before(queries, asked, planes, turns)
            if key is None or query is None:
                continue
            sizes = turns[0, 0].abs()  # some schemes scale as they turn
            frequencies = _frequencies(turns / sizes, there)
            if frequencies is None:
                return None, UNEVEN
            factor = torch.ones(keys.shape[-1], device=keys.device, dtype=keys.dtype)
            factor[planes] = sizes[:, None].to(keys.dtype)
            q, k = query * factor * attention.scale, key * factor
            return Rotation(planes, turns / sizes, q, k, frequencies), "rotary"
    return None, OTHER


def _sources(
    what: str,
    product: Tensor,
    projection: Projection,
    layers: Mapping[str, Passed],
    norms: Mapping[str, Tensor],
) -> Iterator[Tensor]:
    """Yield what a norm or the projection itself has computed, in the shape of the product."""
    batch, heads, tokens, m = product.shape
    for name in NORMS[what]:
        if name in norms:
            output = norms[name]
            if output.shape == product.shape:
                yield output
            if output.shape == (batch, tokens, heads, m):
                yield output.transpose(1, 2)
            if output.shape == (batch, tokens, heads * m):
                yield output.reshape(batch, tokens, heads, m).transpose(1, 2)
    for passed in layers.values():
        if passed.name == projection.module and passed.output.shape[:2] == (batch, tokens):
            rows = projection.rows.to(passed.output.device)
            yield passed.output[..., rows].transpose(1, 2)


def _ways(cos: Tensor, sin: Tensor, m: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the planes and turns of a rotation, in all ways that cosines can be meant."""
    cos, sin = (x if x.ndim == 3 else x.unsqueeze(0) for x in (cos, sin))
    width = cos.shape[-1]
    turns, half = torch.complex(cos, sin), width // 2
    found: list[tuple[bool, Tensor]] = []
    if width <= m and width % 2 == 0 and torch.equal(turns[..., :half], turns[..., half:]):
        found.append((False, turns[..., :half]))
    if width <= m and width % 2 == 0 and torch.equal(turns[..., ::2], turns[..., 1::2]):
        found.append((True, turns[..., ::2]))
    if 2 * width <= m:
        found += [(False, turns), (True, turns)]
    for neighbours, own in found:
        count = own.shape[-1]
        places = torch.arange(2 * count, device=cos.device)
        pairs = places.reshape(count, 2) if neighbours else places.reshape(2, count).mT
        rest = torch.arange(2 * count, m, device=cos.device)
        if len(rest) % 2:
            continue
        still = torch.ones(*own.shape[:2], len(rest) // 2, dtype=own.dtype, device=own.device)
        yield torch.cat([pairs, rest.reshape(-1, 2)]), torch.cat([own, still], dim=-1)


def _before(
    product: Tensor, sources: Sequence[Tensor], planes: Tensor, turns: Tensor
) -> Tensor | None:
    """Return the source that gives the product once it is rotated."""
    if turns.shape[1] != product.shape[2] or turns.shape[0] not in (1, product.shape[0]):
        return None
    for source in sources:
        z = torch.complex(source[..., planes[:, 0]], source[..., planes[:, 1]])
        z = z * turns.unsqueeze(1)
        rotated = torch.empty_like(source)
        rotated[..., planes[:, 0]], rotated[..., planes[:, 1]] = z.real, z.imag
        if float((rotated - product).abs().max()) <= _SAME * float(product.abs().max()):
            return source
    return None


def _frequencies(turns: Tensor, there: Tensor) -> Tensor | None:
    """Return the angle from token to token, if it is the same between all tokens that are there."""
    turns = turns.to(torch.complex128)
    steps = (turns[:, 1:] * turns[:, :-1].conj()).expand(len(there), -1, -1)
    both = there[:, 1:] & there[:, :-1]
    if not bool(both.any()):
        return torch.zeros(turns.shape[-1], dtype=torch.float64)
    seen = steps[both]
    mean = seen.mean(dim=0)
    if float((seen - mean).abs().max()) > _STEADY:
        return None
    return mean.angle().cpu()
