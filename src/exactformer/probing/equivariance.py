"""Permutation equivariance, f(XP) = f(X)P: what a transformer without positions always has.

In exact arithmetic the two sides are compared for equality. In floating point they differ by
rounding, since sums are taken in another order: relative differences up to the square root of the
format's epsilon pass. Either way the inputs are a sample, so a *violation* is a proof and its
absence is evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exactformer.core.words import at_most
from exactformer.errors import InputError
from exactformer.probing.asking import SequenceMap, exact_values, has_exact, values

_DENOMINATOR = 2**10  # random inputs are multiples of 1/1024, exact in every format


@dataclass(frozen=True)
class Equivariance:
    """What came of :func:`check_equivariance`; true if no violation was found.

    ``input`` X and ``permutation`` P are the pair with the largest ``deviation`` between
    ``permuted_output`` = f(X)P and ``output_of_permuted`` = f(XP). ``size`` is the largest |value|
    met, ``tolerance`` the deviation let pass, as a share of it, ``epsilon`` the float format's.
    Permutations are in the form of indices: XP has as token i the token ``permutation[i]`` of X.
    """

    holds: bool
    exact: bool
    trials: int
    deviation: float
    size: float
    tolerance: float
    epsilon: float
    input: NDArray[Any]
    permutation: tuple[int, ...]
    output_of_permuted: NDArray[Any]
    permuted_output: NDArray[Any]

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        n = len(self.permutation)
        tried = f"{self.trials} random inputs of {n} tokens, one random permutation each"
        if self.exact:
            found = "equal in exact arithmetic" if self.holds else f"differ by {self.deviation:.3g}"
        else:
            share = self.deviation / self.size if self.size else 0.0
            found = (
                f"differ by at most {at_most(self.deviation)}, {at_most(share, 2)} of the largest "
                f"value ({share / self.epsilon:.0f} times the format's epsilon)"
            )
        if self.holds:
            return f"no violation of equivariance: {tried}; f(XP) and f(X)P {found}"
        return (
            f"not equivariant: f(XP) and f(X)P {found}\n"
            f"  X =\n{self.input}\n  P = {self.permutation}\n"
            f"  f(XP) =\n{self.output_of_permuted}\n  f(X)P =\n{self.permuted_output}\n({tried})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data; rationals become text."""
        return {
            "holds": self.holds,
            "exact": self.exact,
            "trials": self.trials,
            "deviation": self.deviation,
            "size": self.size,
            "tolerance": self.tolerance,
            "input": plain(self.input),
            "permutation": list(self.permutation),
            "output_of_permuted": plain(self.output_of_permuted),
            "permuted_output": plain(self.permuted_output),
        }


def check_equivariance(
    module: SequenceMap,
    tokens: int | None = None,
    dim: int | None = None,
    *,
    inputs: Any = None,
    trials: int = 100,
    tolerance: float | None = None,
    seed: int = 0,
) -> Equivariance:
    """Test f(XP) = f(X)P on random permutations, and say on which pair it fails worst.

    ``module`` maps (batch, n, d) to (batch, n, d'). Inputs are uniform in the unit cube unless
    ``inputs``, (batch, n, d) numbers or (batch, n) token ids, are given; one permutation is drawn
    for each. Something with a method ``exact`` is tested in exact arithmetic, where the least
    difference is a violation, unless it raises ExecutionError there, as a softmax model does.
    """
    generator = np.random.default_rng(seed)
    x = _inputs(inputs, tokens, dim, trials, generator)
    permutations = np.argsort(generator.random(x.shape[:2]), axis=1)
    permuted = np.stack([rows[order] for rows, order in zip(x, permutations, strict=True)])
    if x.ndim == 3 and has_exact(module, x[0]):
        return _compare_exactly(module, x, permuted, permutations)
    before, after = values(module, x), values(module, permuted)
    if not torch.equal(before, values(module, x)):
        raise InputError(
            "the module answers the same question differently each time (random numbers inside?), "
            "so nothing can be said about its symmetry."
        )
    order = torch.as_tensor(permutations, device=before.device)[..., None].expand_as(before)
    expected = before.gather(1, order)
    epsilon = torch.finfo(before.dtype).eps if before.is_floating_point() else 0.0
    limit = epsilon**0.5 if tolerance is None else tolerance
    deviations = (after - expected).abs().double().amax(dim=(1, 2))
    worst, size = int(deviations.argmax()), float(before.abs().max())
    deviation = float(deviations[worst])
    return Equivariance(
        holds=deviation <= limit * size,
        exact=False,
        trials=len(x),
        deviation=deviation,
        size=size,
        tolerance=limit,
        epsilon=epsilon or 1.0,
        input=x[worst],
        permutation=tuple(permutations[worst].tolist()),
        output_of_permuted=after[worst].cpu().numpy(),
        permuted_output=expected[worst].cpu().numpy(),
    )


def _compare_exactly(
    module: SequenceMap, x: NDArray[Any], permuted: NDArray[Any], permutations: NDArray[Any]
) -> Equivariance:
    deviations, size = [], Fraction(0)
    pairs = []
    for trial, order in enumerate(permutations):
        before = np.array(exact_values(module, x[trial]), dtype=object)[order]
        after = np.array(exact_values(module, permuted[trial]), dtype=object)
        deviations.append(max(map(abs, (after - before).ravel())))
        size = max(size, *map(abs, before.ravel()))
        pairs.append((after, before))
    worst = max(range(len(x)), key=deviations.__getitem__)
    return Equivariance(
        holds=deviations[worst] == 0,
        exact=True,
        trials=len(x),
        deviation=float(deviations[worst]),
        size=float(size),
        tolerance=0.0,
        epsilon=1.0,
        input=x[worst],
        permutation=tuple(permutations[worst].tolist()),
        output_of_permuted=pairs[worst][0],
        permuted_output=pairs[worst][1],
    )


def _inputs(
    inputs: Any, tokens: int | None, dim: int | None, trials: int, generator: np.random.Generator
) -> NDArray[Any]:
    if inputs is None:
        if not tokens or not dim or trials < 1 or min(tokens, dim) < 1:
            raise InputError(
                "give the shape of an input, tokens= and dim=, and at least one trial; or inputs="
            )
        drawn = generator.integers(0, _DENOMINATOR, size=(trials, tokens, dim))
        return np.asarray(drawn / _DENOMINATOR)
    given = np.asarray(inputs)
    if given.ndim not in (2, 3) or 0 in given.shape:
        raise InputError(
            f"inputs has shape {given.shape}; it has to be (batch, tokens, dim), or (batch, tokens) "
            "for token ids, with at least one of each."
        )
    return given


def plain(array: NDArray[Any]) -> Any:
    """Return an array as lists; rationals become text."""
    return (array.astype(str) if array.dtype == object else array).tolist()
