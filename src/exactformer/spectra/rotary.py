"""Spectra of rotary heads: by plane, by distance, and of keys before rotation.

Keys can be kept in fewer numbers before rotation, k ≈ M k, by one projection for all tokens. A query at
distance Δ meets the key as R(θΔ) q, so that the error of the scores over pairs of tokens is

    tr W (I − M) C (I − M)ᵀ,    C = Σ kkᵀ,    W = mean over pairs of R(θΔ) qqᵀ R(θΔ)ᵀ,

and the singular values of W^½ C^½ say what a number of dimensions keeps, as those of the scores do for
a head without rotation. W is taken as if queries were alike at all distances: with a complex number
z_p for each plane it has the moments

    E[z_p z̄_q] · D(θ_p − θ_q),   E[z_p z_q] · D(θ_p + θ_q),    D(ω) = mean of e^(iωΔ) over pairs.

So it is an *estimate*, exact where queries do not depend on their distance from the keys.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from exactformer.errors import InputError
from exactformer.spectra.rotation import Rotation
from exactformer.spectra.scores import Scores
from exactformer.spectra.singular import pooled_values

Array = NDArray[np.float64]
_ROWS = 32
"""Queries of an input whose scores are looked at by distance."""
_BUCKETS = 24
"""Distances 0, 1, 2 to 3, 4 to 7 and so on."""
_STEADY = 1e-4
"""How far frequencies of one batch may be from those of another."""


class RotaryStatistics:
    """What is gathered about the planes and distances of one rotary module."""

    def __init__(self, scores: Scores, rotation: Rotation) -> None:
        heads, m = scores.heads, scores.head_dim
        self._name = scores.name
        self._planes, self._frequencies = rotation.planes.cpu(), rotation.frequencies
        self._queries = torch.zeros(heads, m, m, dtype=torch.float64)
        self._keys = torch.zeros(scores.kv_heads, m, m, dtype=torch.float64)
        self._tokens = 0
        self._pairs = torch.zeros(1, dtype=torch.float64)
        self._distances = np.zeros((heads, _BUCKETS, 4))

    def add(self, scores: Scores, rotation: Rotation) -> None:
        """Add the inputs of a batch."""
        step = (rotation.frequencies - self._frequencies).abs().max()
        if float(step) > _STEADY:
            raise InputError(
                f"module {self._name!r} turns by other angles on one batch than on another, as rotary "
                "schemes do that depend on the length: give inputs of one length"
            )
        visible = scores.visible
        for index in range(len(scores.queries)):
            there = scores.key_tokens[index]
            queries = rotation.queries[index][:, scores.query_tokens[index]].double()
            keys = rotation.keys[index][:, there].double()
            self._queries += (queries.mT @ queries).cpu()
            self._keys += (keys.mT @ keys).cpu()
            self._tokens += int(there.sum())
            self._count(visible[index])
            self._look(scores, visible[index], index)

    def _count(self, visible: Tensor) -> None:
        """Count the pairs of tokens that meet at each distance, −τ … τ."""
        t, s = torch.nonzero(visible.cpu(), as_tuple=True)
        reach = max(visible.shape)
        more = max(0, reach - len(self._pairs) // 2)
        self._pairs = pad(self._pairs, (more, more))
        self._pairs += torch.bincount(t - s + len(self._pairs) // 2, minlength=len(self._pairs))

    def _look(self, scores: Scores, visible: Tensor, index: int) -> None:
        """Add scores and attention of some queries by the distance of their keys."""
        rows = torch.nonzero(visible.any(dim=1)).flatten()
        rows = rows[:: max(1, len(rows) // _ROWS)][:_ROWS]
        if not len(rows):
            return
        products = scores.products(index, rows)
        seen = visible[rows]
        attention = products.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        apart = (rows[:, None] - torch.arange(seen.shape[1], device=rows.device)).abs()
        bucket = buckets(apart)[seen]
        parts = (torch.ones_like(products), products, products.square(), attention)
        for place, part in enumerate(parts):
            sums = torch.zeros(scores.heads, _BUCKETS, dtype=torch.float64, device=bucket.device)
            sums.index_add_(1, bucket, part[:, seen])
            self._distances[:, :, place] += sums.cpu().numpy()

    def result(self) -> dict[str, Array]:
        """Return the arrays that a layer's spectrum has for rotary heads."""
        turned = averaged(self._queries, self._planes, self._frequencies, self._pairs)
        together = torch.unflatten(turned, 0, (len(self._keys), -1)).sum(dim=1)
        count = max(self._tokens, 1)
        energies = {
            name: moment.diagonal(dim1=-2, dim2=-1)[:, self._planes].sum(dim=-1) / count
            for name, moment in (("query", self._queries), ("key", self._keys))
        }
        return {
            "pooled": pooled_values(turned, self._keys),
            "shared_keys": pooled_values(together, self._keys),
            "frequencies": self._frequencies.numpy(),
            "query_planes": energies["query"].numpy(),
            "key_planes": energies["key"].numpy(),
            "distances": self._distances,
        }


def buckets(distances: Tensor) -> Tensor:
    """Return 0 for the distance 0, and k + 1 for 2^k to 2^(k+1) − 1.

    By the exponents of floats, which are exact: a GPU's logarithm of 8 is below 3.
    """
    return torch.frexp(distances.double()).exponent.long()


def averaged(moments: Tensor, planes: Tensor, frequencies: Tensor, pairs: Tensor) -> Tensor:
    """Return the mean of R(θΔ) Q R(θΔ)ᵀ over distances Δ, of moments Q (…, m, m).

    ``pairs`` counts the distances −n … n.
    """
    n = len(pairs) // 2
    places = torch.arange(-n, n + 1, dtype=torch.float64)
    turns = torch.exp(1j * frequencies[:, None] * places)
    weighed = turns * (pairs / pairs.sum().clamp(min=1))
    one, two = planes[:, 0], planes[:, 1]
    aa, ab = moments[..., one[:, None], one], moments[..., one[:, None], two]
    ba, bb = moments[..., two[:, None], one], moments[..., two[:, None], two]
    apart = torch.complex(aa + bb, ba - ab) * (weighed @ turns.mH)
    along = torch.complex(aa - bb, ab + ba) * (weighed @ turns.mT)
    turned = torch.empty_like(moments)
    turned[..., one[:, None], one] = (apart + along).real / 2
    turned[..., two[:, None], two] = (apart - along).real / 2
    turned[..., two[:, None], one] = (apart + along).imag / 2
    turned[..., one[:, None], two] = (along - apart).imag / 2
    return (turned + turned.mT) / 2
