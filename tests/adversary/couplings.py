"""The family of couplings: mutated models of Jiang and Li's targets, and their numerical bounds.

Most candidates are bounded directly, as loading with a target does once the target is decomposed. Some
go through a file, and come back with a bound that the file states or with one that is computed anew.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import ErrorTerms, bound_coupling
from exactformer.targets import Coupling
from exactformer.theory import Decomposition
from tests.adversary.coupling_bases import BASES, Draft, honest_draft, is_cheap
from tests.adversary.coupling_mutations import mutate
from tests.adversary.coupling_refuting import refutation
from tests.adversary.coupling_runs import (
    DTYPES,
    EXECUTORS,
    SHARES,
    false_mark,
    false_module,
    false_outputs,
    loaded,
)
from tests.adversary.engine import Candidate

STATED_SHARE, COMPUTED_SHARE = 0.15, 0.06


@dataclass(frozen=True)
class Bounded:
    """A bound, and what it is a bound of."""

    blueprint: CouplingBlueprint
    target: Coupling
    decomposition: Decomposition
    bound: ErrorTerms


class Couplings:
    """Numbers of small models with one to three changes."""

    run_share = 0.4
    """Of those that are bounded directly, so many are also run as modules."""

    def candidate(self, seed: int) -> Candidate:
        """Return mutated numbers and the way by which they are bounded."""
        rng = random.Random(f"couplings {seed}")
        draft = honest_draft(rng.randrange(BASES))
        mutate(rng, draft, rng.randint(1, 3))
        way, share = "direct", rng.random()
        if share < STATED_SHARE:
            way = "stated"
        elif share < STATED_SHARE + COMPUTED_SHARE and is_cheap(draft.target):
            way = "computed"
        return Candidate((draft, way), (*draft.kinds, f"bound: {way}"))

    def certify(self, candidate: Candidate) -> Bounded | CouplingModel:
        """Compute a bound, or load a model with one."""
        draft, way = candidate.subject
        blueprint = draft.blueprint()
        rng = random.Random(repr(candidate.kinds))
        options = {"executor": rng.choice(EXECUTORS), "dtype": rng.choices(DTYPES, SHARES)[0]}
        if way == "stated":
            return loaded(blueprint, **options)
        if way == "computed":
            return loaded(blueprint, target=draft.target, **options)
        bound = bound_coupling(blueprint, draft.target, draft.decomposition, turned=True)
        return Bounded(blueprint, draft.target, draft.decomposition, bound)

    def refute(self, candidate: Candidate, found: Bounded | CouplingModel, seed: int) -> str | None:
        """Hold the bound against an interpreter, and modules too."""
        rng = random.Random(f"refutation {seed}")
        if isinstance(found, Bounded):
            false = refutation(rng, found.blueprint, found.target, found.decomposition, found.bound)
            if false is None and rng.random() < self.run_share:
                false = false_module(rng, found.blueprint)
            return false
        draft: Draft = candidate.subject[0]
        if candidate.subject[1] == "stated":
            return false_mark(found, None) or false_outputs(rng, found)
        return (
            false_mark(found, draft.target)
            or refutation(
                rng, found.blueprint, found.target, found.decomposition, found.certificate.rounded()
            )
            or false_outputs(rng, found)
        )


FAMILY = Couplings()
