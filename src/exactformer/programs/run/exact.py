"""Blueprints of programs run on rationals: every score, selection and sum exact."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from flint import fmpq

from exactformer.core.layers import Rule
from exactformer.core.run_exact import Token, add, apply_layer, multiply, to_column
from exactformer.errors import ExecutionError
from exactformer.programs.blueprint import ProgramBlueprint, ProjectedHead


def run_program(blueprint: ProgramBlueprint, ids: Sequence[int]) -> list[list[Fraction]]:
    """Return what is read out at every token of one sequence."""
    stream = streams(blueprint, ids)[-1][blueprint.beginning :]
    return [
        to_column(token, blueprint.readout.rows) for token in multiply(blueprint.readout, stream)
    ]


def streams(blueprint: ProgramBlueprint, ids: Sequence[int]) -> list[list[Token]]:
    """Return the stream after the embedding, and after attention and ReLUs of every layer."""
    if blueprint.selection.rule is not Rule.HARD_MAX:
        raise ExecutionError(
            f"{blueprint.selection.rule} is not rational; compile with realisation='hard'"
        )
    rows = [blueprint.tokens.rows - 1, *ids] if blueprint.beginning else list(ids)
    stream: list[Token] = []
    for at, row in enumerate(rows):
        token: Token = {}
        for matrix, k in ((blueprint.tokens, row), (blueprint.positions, at)):
            for j, value in matrix.by_row.get(k, ()):
                add(token, j, fmpq(value.numerator, value.denominator))
        stream.append(token)
    found = [stream]
    for layer in blueprint.layers:
        result = [dict(token) for token in stream]
        for head in layer.heads:
            for token, change in zip(result, _mixed(head, stream, blueprint.causal), strict=True):
                for j, mixed in change.items():
                    add(token, j, mixed)
        found += [result, apply_layer(layer.feed_forward, result)]
        stream = found[-1]
    return found


def _mixed(head: ProjectedHead, stream: list[Token], causal: bool) -> list[Token]:
    queries, keys, values = (multiply(m, stream) for m in (head.query, head.key, head.value))
    zero, mixed = fmpq(0), []
    for i, query in enumerate(queries):
        seen = keys[: i + 1] if causal else keys
        scores = [sum((v * k[r] for r, v in query.items() if r in k), zero) for k in seen]
        largest = max(scores)
        chosen = [j for j, score in enumerate(scores) if score == largest]
        token: Token = {}
        for j in chosen:
            for r, v in values[j].items():
                add(token, r, v / len(chosen))
        mixed.append(token)
    return multiply(head.output, mixed)


__all__ = ["run_program", "streams"]
