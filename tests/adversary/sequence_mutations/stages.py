"""Mutations of stages: their order, their names, what they hold."""

from dataclasses import replace

from exactformer.core.layers import FeedForward, Layer
from exactformer.sequences.blueprint import Stage
from tests.adversary.sequence_drafts import Draft
from tests.adversary.sequence_mutations.layers import in_turn, random_attention, random_units
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add
STAGES = ("quantise", "contextual mapping", "reject", "values", "clip")


@mutation
def swap_stages(draft: Draft) -> None:
    stages = list(draft.blueprint.stages)
    i, j = (draft.rng.randrange(len(stages)) for _ in range(2))
    stages[i], stages[j] = stages[j], stages[i]
    draft.alter(stages=tuple(stages))


@mutation
def swap_contents_of_stages(draft: Draft) -> None:
    stages = draft.blueprint.stages
    i, j = (draft.rng.randrange(len(stages)) for _ in range(2))
    first, second = stages[i].parts, stages[j].parts
    draft.put_parts(i, second)
    draft.put_parts(j, first)


@mutation
def duplicate_a_stage(draft: Draft) -> None:
    s = draft.any_stage()
    stages = draft.blueprint.stages
    copy = replace(stages[s], name=draft.rng.choice([stages[s].name, *STAGES]))
    draft.alter(stages=(*stages[: s + 1], copy, *stages[s + 1 :]))


@mutation
def rename_a_stage(draft: Draft) -> None:
    s = draft.any_stage()
    draft.put_parts(s, draft.blueprint.stages[s].parts, draft.rng.choice([*STAGES, "other"]))


@mutation
def empty_a_stage(draft: Draft) -> None:
    draft.put_parts(draft.any_stage(), ())


@mutation
def drop_a_stage(draft: Draft) -> None:
    s = draft.any_stage()
    stages = draft.blueprint.stages
    draft.alter(stages=(*stages[:s], *stages[s + 1 :]))


@mutation
def add_a_stage(draft: Draft) -> None:
    """Add a stage of few layers, mostly a reject stage where it belongs."""
    rng, stages = draft.rng, draft.blueprint.stages
    parts: list[Layer] = []
    for _ in range(rng.choice([0, 1, 1, 2])):
        layer = rng.choice([random_attention, random_units])(draft)
        if isinstance(layer, FeedForward):
            parts.append(in_turn(draft, layer))
        else:
            parts.append(layer)
    usual = rng.random() < 0.8
    name = "reject" if usual else rng.choice(STAGES)
    place = len(stages) - 1 if usual else rng.randint(0, len(stages))
    draft.alter(stages=(*stages[:place], Stage(name, tuple(parts)), *stages[place:]))


@mutation
def move_a_part_to_the_next_stage(draft: Draft) -> None:
    """Cut the layers into stages at another place; what is computed stays."""
    s = draft.rng.randrange(len(draft.blueprint.stages) - 1)
    first, second = draft.blueprint.stages[s].parts, draft.blueprint.stages[s + 1].parts
    if draft.rng.random() < 0.5 and first:
        first, second = first[:-1], (first[-1], *second)
    elif second:
        first, second = (*first, second[0]), second[1:]
    draft.put_parts(s, first)
    draft.put_parts(s + 1, second)
