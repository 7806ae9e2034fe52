"""Mutations of sequence blueprints: what a file could hold that no construction makes."""

import random

from tests.adversary.sequence_drafts import RUNS_BADLY, Draft, NotApplicableError
from tests.adversary.sequence_mutations import (
    attention,
    embedding,
    metadata,
    parts,
    rows,
    stages,
    tiny,
    units,
    values,
)

MUTATIONS = (
    stages.MUTATIONS
    | parts.MUTATIONS
    | units.MUTATIONS
    | attention.MUTATIONS
    | embedding.MUTATIONS
    | metadata.MUTATIONS
    | rows.MUTATIONS
    | values.MUTATIONS
    | tiny.MUTATIONS
)
"""All of them. Seeds replay their candidates as long as the order stays."""


def mutate(draft: Draft, names: list[str]) -> None:
    """Apply mutations; those that find nothing to change are left out."""
    for name in names:
        before = (draft.blueprint, draft.table)
        try:
            MUTATIONS[name](draft)
        except (NotApplicableError, *RUNS_BADLY):
            draft.blueprint, draft.table = before
            continue
        if (draft.blueprint, draft.table) != before:
            draft.mutations.append(name)


def tiny_names(rng: random.Random) -> list[str]:
    """Return one or two mutations that make numbers tiny, and sometimes another one."""
    names = [rng.choice(list(tiny.MUTATIONS)) for _ in range(rng.choice([1, 1, 1, 2]))]
    if rng.random() < 0.2:
        names += random_names(rng, 1)
    return names


def random_names(rng: random.Random, most: int = 4) -> list[str]:
    """Return one to so many mutations, one most often."""
    count = rng.choice([1, 1, 1, 2, 2, 3, most])
    names = [rng.choice(list(MUTATIONS)) for _ in range(count)]
    if rng.random() < 0.35:
        names.insert(rng.randint(1, count), "fit the values anew")
    return names
