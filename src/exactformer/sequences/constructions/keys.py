"""The integers of the contextual mapping (Yun et al., lemma on self-attention), in units of δ.

Columns have ids 0 ≤ k < K; K is also the factor of the selective shifts. Going through the ids in
ascending order, a column whose id is met is moved up by K·(largest − smallest). For sorted, distinct
ids k_1 < … < k_n this gives k̃_1 < … < k̃_n, and the last of them tells all ids:

    k̃_n = K^n (k_n − k_1) − Σ_{j<n} K^(n−j) (k_{j+1} − k_j) + k_n.

The global shift adds a multiple of it to every column: key_j = k̃_j + G·k̃_n with G = K^(n+1).
"""

from __future__ import annotations

from collections.abc import Sequence


def shifted(ids: Sequence[int], factor: int) -> list[int]:
    """Return k̃ for ids in ascending order, by carrying out the shifts."""
    moved = list(ids)
    for j in range(len(moved)):
        # Columns before j have been moved beyond all ids, those from j on have not.
        largest = max(moved[j - 1] if j else 0, moved[-1])
        moved[j] += factor * (largest - ids[j])
    return moved


def keys(ids: Sequence[int], factor: int, global_shift: int) -> list[int]:
    """Return the key of every column, for distinct ids in any order."""
    order = sorted(range(len(ids)), key=ids.__getitem__)
    moved = shifted([ids[j] for j in order], factor)
    result = [0] * len(ids)
    for j, value in zip(order, moved, strict=True):
        result[j] = value + global_shift * moved[-1]
    return result


def smallest_key(tokens: int, factor: int, global_shift: int) -> int:
    """Return t_l/δ, the first key of the ids (0, …, n − 1)."""
    return keys(range(tokens), factor, global_shift)[0]


def largest_key(tokens: int, factor: int, global_shift: int) -> int:
    """Return t_r/δ, the last key of the ids (0, …, n − 2, K − 1)."""
    return keys([*range(tokens - 1), factor - 1], factor, global_shift)[-1]
