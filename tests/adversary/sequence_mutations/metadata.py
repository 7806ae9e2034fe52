"""Mutations of names and numbers beside the weights."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.matrix import Matrix
from tests.adversary.sequence_drafts import Draft, NotApplicableError
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


@mutation
def change_the_form(draft: Draft) -> None:
    forms = ["compact", "paper", "four-layer", "other"]
    draft.alter(form=draft.rng.choice(forms))


@mutation
def change_the_realisation(draft: Draft) -> None:
    draft.alter(realisation=draft.rng.choice(["hard", "softmax-relu", "other"]))


@mutation
def change_the_largest_key(draft: Draft) -> None:
    old = draft.blueprint.largest_key
    draft.alter(largest_key=draft.rng.choice([0, old + 1, old - 1, 2**60, -old]))


@mutation
def change_the_cells(draft: Draft) -> None:
    """Change δ, in blueprint and table or in one of them."""
    cells = max(1, draft.grid.cells + draft.rng.choice([-1, 1]))
    kind = draft.rng.randrange(4)
    if kind < 2:
        draft.alter(delta=Fraction(1, cells))
    if kind > 0:
        draft.regrid(cells=cells)
    if kind == 3:
        draft.alter(delta=Fraction(2, 2 * cells + 1))


@mutation
def change_the_support(draft: Draft) -> None:
    low, high = draft.grid.support
    side = (high - low) / draft.grid.cells
    support = draft.rng.choice([(low, high + side), (low - side, high), (low, high - side)])
    if support[0] >= support[1]:
        raise NotApplicableError
    kind = draft.rng.randrange(3)
    if kind < 2:
        draft.alter(support=support)
    if kind > 0:
        draft.regrid(support=support)


@mutation
def change_the_number_of_tokens(draft: Draft) -> None:
    n = max(1, draft.grid.tokens + draft.rng.choice([-1, 1]))
    embedding = draft.blueprint.embedding
    kept = {(r, i): v for r, i, v in embedding.positions if i < n}
    positions = Matrix.of(embedding.positions.rows, n, kept)
    if draft.rng.random() < 0.7:
        draft.alter(embedding=replace(embedding, positions=positions))
    draft.alter(tokens=n)
    draft.regrid(tokens=n)


@mutation
def change_the_names_of_rows(draft: Draft) -> None:
    names = draft.blueprint.dimensions
    kind = draft.rng.randrange(3)
    draft.alter(dimensions=((*names, "more"), names[:-1], names[::-1])[kind])


@mutation
def change_the_metadata(draft: Draft) -> None:
    metadata = {"sharpness": draft.rng.choice(["1", "1000", "0", "x"]), "ramp": "3"}
    draft.alter(metadata={**draft.blueprint.metadata, **metadata})
