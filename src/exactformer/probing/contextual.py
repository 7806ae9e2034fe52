"""Contextual mappings: does every token in every context get a code of its own?

Yun et al. call q a contextual mapping of a finite set of inputs if

1. distinct columns of one input have distinct codes, L_i ≠ L_j  ⇒  q(L)_i ≠ q(L)_j;
2. inputs that are not permutations of each other share no code at all, q(L)_i ≠ q(L')_j.

Then a code tells both the token and its whole context, and a feed-forward layer can finish any
sequence-to-sequence map. :func:`is_contextual_mapping` tests the definition on all inputs it is
given: a whole :class:`Grid`, or sentences put to one layer of a trained model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.errors import SizeError
from exactformer.probing.asking import SequenceMap, exact_values, has_exact, values
from exactformer.probing.inputs import Grid, name_tokens, read_inputs
from exactformer.probing.separation import exact_nearest, nearest

_MOST_PRODUCTS = 2**40


@dataclass(frozen=True)
class Place:
    """A token: the number of its input, its place there, and its code."""

    input: int
    token: int
    code: tuple[Any, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{float(value):.6g}" for value in self.code[:4])
        return f"input {self.input}, token {self.token}: ({shown}{', …' if self.code[4:] else ''})"


@dataclass(frozen=True)
class ContextualMapping:
    """What came of :func:`is_contextual_mapping`; true if the definition holds on every input.

    ``separation`` is the smallest distance between two codes that have to differ, found at
    ``closest``; ``spread`` the root mean square distance of the codes from their mean, with which
    ``tolerance`` is multiplied. ``collisions`` counts the tokens whose code is met again, within
    the tolerance, where it must not be; ``first`` is the first of them with what it collides with.
    """

    holds: bool
    exact: bool
    inputs: int
    tokens: int
    dim: int
    separation: float
    spread: float
    tolerance: float
    collisions: int
    first: tuple[Place, Place] | None
    closest: tuple[Place, Place] | None

    def __bool__(self) -> bool:
        return self.holds

    @property
    def relative_separation(self) -> float:
        """The separation in units of the spread."""
        return self.separation / self.spread if self.spread else 0.0

    def __str__(self) -> str:
        how = "in exact arithmetic" if self.exact else f"to {self.tolerance:.1e} of their spread"
        tried = f"{self.tokens:,} tokens in {self.inputs:,} inputs, compared {how}"
        if self.first is None:
            return (
                f"a contextual mapping of {tried}; codes that must differ are at least "
                f"{self.separation:.3g} apart, {self.relative_separation:.2g} of their spread"
            )
        one, other = self.first
        rule = "distinct columns of one input" if one.input == other.input else "different contexts"
        return (
            f"not a contextual mapping: {self.collisions:,} of {tried}, do not have a code of their "
            f"own; the first collision is between {rule}\n  {one}\n  {other}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data; rationals become text."""

        def pair(places: tuple[Place, Place] | None) -> list[dict[str, Any]] | None:
            return places and [
                {
                    "input": place.input,
                    "token": place.token,
                    "code": [v if isinstance(v, float) else str(v) for v in place.code],
                }
                for place in places
            ]

        return {
            "holds": self.holds,
            "exact": self.exact,
            "inputs": self.inputs,
            "tokens": self.tokens,
            "dim": self.dim,
            "separation": self.separation,
            "relative_separation": self.relative_separation,
            "spread": self.spread,
            "tolerance": self.tolerance,
            "collisions": self.collisions,
            "first": pair(self.first),
            "closest": pair(self.closest),
        }


def is_contextual_mapping(
    module: SequenceMap,
    grid: Grid | tuple[int, int, int] | Iterable[Any],
    *,
    layer: str | None = None,
    positional: bool = False,
    tolerance: float | None = None,
    batch: int = 256,
    limit: int = _MOST_PRODUCTS,
) -> ContextualMapping:
    """Test Yun's definition on every input of ``grid`` and return the first violation.

    ``grid`` is a :class:`Grid`, its (tokens, dim, levels), an array (number, n, d), token ids
    (number, n), or a list of inputs of different lengths. The codes are what ``module`` returns for
    each token, numbers or vectors, or what its submodule ``layer`` returns ("encoder.layer.3").
    With ``positional`` the place of a token belongs to it, as in X + E: the same word at another
    place is then another column. An input given twice counts once.

    Something with a method ``exact`` is asked for rational codes, compared for equality, unless it
    raises ExecutionError there, as a softmax model does. Floats
    collide within ``tolerance`` times the spread of all codes, the format's epsilon unless
    given. Vectors are compared pair by pair: past ``limit`` multiplications that is refused.
    """
    given, shown = read_inputs(grid)
    tokens, kept = name_tokens(given, positional)
    asked = [shown[k] for k in kept]
    exact = layer is None and has_exact(module, asked[0])
    bound = 0.0
    codes: Any
    if exact:
        codes = [code for x in asked for code in exact_values(module, x)]
        distance, partner, spread = exact_nearest(codes, tokens)
    else:
        codes = _codes(module, asked, layer, batch)
        _check_size(codes, limit)
        epsilon = torch.finfo(codes.dtype).eps if codes.is_floating_point() else 0.0
        bound = epsilon if tolerance is None else tolerance
        distance, partner, spread = nearest(codes, tokens)
    collided = np.flatnonzero(distance <= bound * spread)

    def place(k: int) -> Place:
        code = codes[k] if exact else codes[k].tolist()
        return Place(kept[tokens.owner[k]], int(tokens.place[k]), tuple(code))

    def pair(k: int) -> tuple[Place, Place]:
        return place(k), place(int(partner[k]))

    nearby = int(np.argmin(distance))
    return ContextualMapping(
        holds=len(collided) == 0,
        exact=exact,
        inputs=len(asked),
        tokens=len(distance),
        dim=len(codes[0]),
        separation=float(distance[nearby]),
        spread=spread,
        tolerance=bound,
        collisions=len(collided),
        first=pair(int(collided[0])) if len(collided) else None,
        closest=pair(nearby) if np.isfinite(distance[nearby]) else None,
    )


def _codes(
    module: SequenceMap, inputs: Sequence[NDArray[Any]], layer: str | None, batch: int
) -> Tensor:
    """Return the codes of all tokens in order; inputs of one length are put together."""
    lengths = np.array([len(x) for x in inputs])
    parts: dict[int, Tensor] = {}
    for length in np.unique(lengths):
        of_length = np.flatnonzero(lengths == length).tolist()
        rows = values(module, np.stack([inputs[k] for k in of_length]), layer, batch)
        parts |= dict(zip(of_length, rows, strict=True))
    return torch.cat([parts[k] for k in range(len(inputs))])


def _check_size(codes: Tensor, limit: int) -> None:
    count, dim = codes.shape
    if dim > 1 and count * count * dim > limit:
        raise SizeError(
            f"{count:,} codes of {dim} numbers take {float(count) ** 2 * dim:.2g} multiplications to "
            f"compare; the limit is {limit:.2g}, about {int((limit / dim) ** 0.5):,} tokens. Give "
            "fewer inputs, or raise limit="
        )
