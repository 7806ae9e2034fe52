"""``load`` and ``certify`` for programs: proven anew, against their own tables or another program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from exactformer.core.integrity import check_against_blueprint
from exactformer.core.options import FLOAT, MEMORY_LIMIT
from exactformer.errors import CertificationError, InputError, SizeError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.compile import prove
from exactformer.programs.files import load_program
from exactformer.programs.finding import find_witness
from exactformer.programs.language import SOp
from exactformer.programs.model import ProgramModel
from exactformer.programs.program import Program
from exactformer.programs.proof.certificate import (
    TABLES,
    ProgramCertificate,
    certify_program,
)
from exactformer.programs.tabulation import checked_vocabulary, tabulate
from exactformer.programs.values import Value

GIVEN = "the given program"
MOST_COMPARED = 20_000
"""Inputs on which two programs that are written differently are compared."""


def load_program_model(
    path: str | Path,
    *,
    executor: str | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    outside: str = "raise",
    memory_limit: int = MEMORY_LIMIT,
) -> ProgramModel:
    """Load a saved model, proving it anew against the program in its file."""
    blueprint, program = load_program(path)
    check_stored_size(blueprint, memory_limit)
    return prove(blueprint, program, find_witness(program), executor, dtype, device, outside)


def certify_program_model(
    source: ProgramModel | str | Path,
    target: Any = None,
    *,
    vocabulary: Iterable[Value] | None = None,
    max_length: int | None = None,
    causal: bool | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> ProgramCertificate:
    """Prove a model, or the file of one, from its weights alone.

    A program depends on what it is run on. What is not given here is read from the model, and the
    certificate names it.

    Args:
        source: a model, first compared with what its blueprint builds; or the path of a file.
        target: an expression of :mod:`exactformer.rasp`; by default the tables it was saved with.
        vocabulary: the tokens that the model must take, in any order.
        max_length: the most tokens that inputs must have.
        causal: whether positions must attend to earlier ones only.
        memory_limit: bytes that the model may take.

    Raises:
        ExactformerError: if the weights do not compute the target, or anything cannot be proven.
    """
    dtype: object = "float64"
    if isinstance(source, ProgramModel):
        check_against_blueprint(source)
        blueprint, program, dtype = source.blueprint, source.program, source.dtype
    else:
        blueprint, program = load_program(source)
    check_inputs(program, vocabulary, max_length, causal)
    check_stored_size(blueprint, memory_limit)
    whose, witness = TABLES if target is None else GIVEN, find_witness(program)
    certificate = certify_program(blueprint, program, witness, dtype, whose)
    if target is not None:
        check_same(program, target)
    return certificate


def check_inputs(
    program: Program,
    vocabulary: Iterable[Value] | None = None,
    max_length: int | None = None,
    causal: bool | None = None,
) -> None:
    """Raise unless a program is about these inputs, as far as they are given."""
    wanted = {
        "vocabulary": None if vocabulary is None else tuple(checked_vocabulary(vocabulary)),
        "max_length": max_length,
        "causal": causal,
    }
    found = {
        "vocabulary": program.tokens,
        "max_length": program.max_length,
        "causal": program.causal,
    }
    for name, value in wanted.items():
        if value is not None and value != found[name]:
            raise CertificationError(
                f"the model has {name}={_short(found[name])}, and {name}={_short(value)} is wanted"
            )


def check_same(program: Program, target: Any) -> None:
    """Raise unless an expression, or a tabulated program, is the same as a program.

    It is where both have the same tables, or agree on every input and there are few.
    """
    if isinstance(target, SOp):
        other = tabulate(target, program.tokens, program.max_length, program.causal)
    elif isinstance(target, Program):
        other = target
        check_inputs(program, other.tokens, other.max_length, other.causal)
    else:
        raise InputError(f"a program is an expression of exactformer.rasp, not {type(target)}")
    if _nameless(other) == _nameless(program):
        return
    sizes = [len(program.tokens) ** m for m in range(1, min(program.max_length, 40) + 1)]
    if program.max_length > 40 or sum(sizes) > MOST_COMPARED:
        raise CertificationError(
            "the model was made for a program that is written differently, and there are too many "
            f"inputs to compare them on ({sum(sizes):,}; the limit is {MOST_COMPARED:,}); write the "
            "program as it was compiled"
        )
    for m in range(1, program.max_length + 1):
        for xs in product(program.tokens, repeat=m):
            if (found := program(xs)) != (wanted := other(xs)):
                raise CertificationError(
                    f"on {list(xs)} the model's program gives {found}, the target {wanted}"
                )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_stored_size(blueprint: ProgramBlueprint, memory_limit: int) -> None:
    """Refuse a model whose dense weights would not fit."""
    matrices = [blueprint.tokens, blueprint.positions, blueprint.readout]
    for layer in blueprint.layers:
        matrices += [layer.feed_forward.w1, layer.feed_forward.w2]
        for head in layer.heads:
            matrices += [head.query, head.key, head.value, head.output]
    size = sum(FLOAT * m.rows * m.columns for m in matrices)
    if size > memory_limit:
        raise SizeError(
            f"the weights take {size / 2**30:,.1f} GiB; the limit is {memory_limit / 2**30:.1f} GiB. "
            "If this is your own model, raise memory_limit="
        )


def _nameless(program: Program) -> Program:
    return replace(program, names=(), selector_names=())
