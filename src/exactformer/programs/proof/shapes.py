"""Shapes of a blueprint: what every part of a proof may rely on."""

from __future__ import annotations

from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.program import Program


def check_program_shapes(blueprint: ProgramBlueprint, program: Program | None = None) -> None:
    """Raise unless all matrices of a blueprint fit together, and to a program where one is given."""
    width, begins = blueprint.width, blueprint.beginning
    if not width or blueprint.positions.rows <= begins or blueprint.tokens.rows <= begins:
        raise CertificationError("the model has no tokens, positions or directions")
    if len(blueprint.dimensions) != width:
        raise CertificationError(f"{len(blueprint.dimensions)} names for {width} directions")
    _check("positions", blueprint.positions, blueprint.positions.rows, width)
    _check("readout", blueprint.readout, blueprint.readout.rows, width)
    for at, layer in enumerate(blueprint.layers):
        for k, head in enumerate(layer.heads):
            place = f"layers.{at}.heads.{k}"
            _check(f"{place}.query", head.query, head.key.rows, width)
            _check(f"{place}.key", head.key, head.key.rows, width)
            _check(f"{place}.value", head.value, head.value.rows, width)
            _check(f"{place}.output", head.output, width, head.value.rows)
        units, place = layer.feed_forward.w1.rows, f"layers.{at}.feed_forward"
        _check(f"{place}.w1", layer.feed_forward.w1, units, width)
        _check(f"{place}.b1", layer.feed_forward.b1, units, 1)
        _check(f"{place}.w2", layer.feed_forward.w2, width, units)
        _check(f"{place}.b2", layer.feed_forward.b2, width, 1)
    for register in blueprint.registers:
        if any(not d < width for d in register.directions):
            raise CertificationError("a register names a direction that is not there")
        if len(set(register.directions)) < len(register.directions):
            raise CertificationError("a register names a direction twice")
    if program is not None:
        _check_program(blueprint, program)


def _check_program(blueprint: ProgramBlueprint, program: Program) -> None:
    begins = blueprint.beginning
    wanted = {
        "tokens": (blueprint.tokens.rows, len(program.vocabulary) + begins),
        "positions": (blueprint.positions.rows, program.max_length + begins),
        "causal": (blueprint.causal, program.causal),
    }
    for name, (found, right) in wanted.items():
        if found != right:
            raise CertificationError(f"{name} of the model: {found}; of the program: {right}")


def _check(name: str, matrix: Matrix, rows: int, columns: int) -> None:
    if matrix.shape != (rows, columns):
        raise CertificationError(f"{name} has the shape {matrix.shape}, not {(rows, columns)}")
