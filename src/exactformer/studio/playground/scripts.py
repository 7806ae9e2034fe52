"""The same in Python: scripts that rebuild what the playground shows, and check that they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.sequences.model import SequenceModel
    from exactformer.studio.playground.polynomial import PolynomialRequest
    from exactformer.studio.playground.programs import ProgramRequest
    from exactformer.studio.playground.sequences import SequenceRequest

_POLYNOMIAL = '''"""Rebuild a transformer of exactformer's playground, and check that it is the same."""

import torch

import exactformer as ef
from exactformer.polynomials.files import digest

model = ef.compile(
    {polynomial!r},
    radius={radius!r},
    construction={construction!r},
    directions={directions!r},
    dtype=torch.{dtype},
)
assert digest(model.blueprint) == (
    {digest!r}
)
print(model.certificate)
print(model([0.0] * {dimension}))
model.save("model.safetensors")
'''


def polynomial_script(request: PolynomialRequest, blueprint: Blueprint) -> str:
    """Return a script; everything from the request stands in it as a quoted literal."""
    from exactformer.polynomials.files import digest

    return _POLYNOMIAL.format(
        polynomial=request.polynomial,
        radius=request.radius,
        construction=request.construction,
        directions=request.directions,
        dtype=request.dtype,
        dimension=len(blueprint.variables),
        digest=digest(blueprint),
    )


_SEQUENCE = '''"""Rebuild a sequence model of exactformer's playground, and check it."""

import exactformer as ef
from exactformer.sequences.files import sequence_digest
from exactformer.targets import sequence_map

target = sequence_map({map!r})
model = ef.compile_sequence(
    target,
    tokens={tokens},
    dim={dim},
    delta="1/{cells}",
    form={form!r},
    positional={positional},
    outside="zero",
)
if target.lipschitz is not None:
    model = model.bounded(target.lipschitz({tokens}), target=target)
assert sequence_digest(model.blueprint, model.table) == (
    {digest!r}
)
x = {input}
print(model.certificate)
print("codes ", model.codes(x).tolist())
print("output", model(x).tolist())
'''


def sequence_script(request: SequenceRequest, model: SequenceModel) -> str:
    """Return a script; everything from the request stands in it as a quoted literal."""
    from exactformer.studio.playground.sequences import input_of

    return _SEQUENCE.format(
        map=request.map,
        tokens=request.tokens,
        dim=request.dim,
        cells=request.cells,
        form=request.form,
        positional=model.blueprint.positional,
        digest=model.certificate.blueprint_digest,
        input=input_of(request).tolist(),
    )


_PROGRAM = '''"""Rebuild a program's transformer of exactformer's playground, and run it."""

import exactformer as ef
from exactformer.programs.grammar import parse_program

program = parse_program(
    {program!r}
)
model = ef.compile_program(
    program,
    vocabulary={vocabulary!r},
    max_length={max_length},
    causal={causal},
    realisation={realisation!r},
)
print(model.certificate)
print(model.circuit())
output = model.decode({tokens!r})
print(output)
'''


def program_script(
    request: ProgramRequest, tokens: Sequence[str | int], vocabulary: Sequence[str | int]
) -> str:
    """Return a script; everything from the request stands in it as a quoted literal."""
    return _PROGRAM.format(
        program=request.program,
        vocabulary=list(vocabulary),
        max_length=request.max_length,
        causal=request.attention == "causal",
        realisation=request.realisation,
        tokens=list(tokens),
    )
