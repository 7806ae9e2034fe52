"""What Theorem 3.5 and Lemma 3.3 of Fang et al. say a model costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb


@dataclass(frozen=True)
class TheoremCounts:
    """The theorem's formulas for n directions, d variables and degree q."""

    n: int
    d: int
    q: int

    @property
    def lemma_width(self) -> int:
        """n_q, the directions that suffice for every polynomial of this degree."""
        return comb(self.d - 1 + self.q, self.q) if self.d else 1

    @property
    def per_block(self) -> int:
        """Non-zeros of one block."""
        return 2 * self.n + 8

    @property
    def free(self) -> int:
        """Free parameters: F, β and b."""
        return self.n * self.d + self.n * self.q + 1

    @property
    def total(self) -> int:
        """Non-zeros in all."""
        return self.n * self.d + 3 * self.n * self.q + 8 * self.q + 1

    @property
    def free_bound(self) -> int:
        """The theorem's bound on free parameters."""
        return int(self.d ** (self.q + 1) + self.q * self.d**self.q + 1)

    @property
    def total_bound(self) -> int:
        """The theorem's bound on non-zeros."""
        return int(self.d ** (self.q + 1) + 3 * self.q * self.d**self.q + 8 * self.q + 1)
