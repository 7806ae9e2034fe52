"""Blueprints of programs and their tables in files: lossless, sealed, without pickle or code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exactformer.core.files import FileKind
from exactformer.core.header import check_names
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.program import Program, check_program
from exactformer.programs.proof.shapes import check_program_shapes


@dataclass(frozen=True)
class ProgramFile:
    """What a file holds: a blueprint, and the program that it is to compute, as tables."""

    blueprint: ProgramBlueprint
    program: Program


FILE = FileKind("program", ProgramFile, values=("vocabulary", "constants"))


def save_program(blueprint: ProgramBlueprint, program: Program, path: str | Path) -> None:
    """Write a blueprint and its program; an existing file is replaced only once all is written."""
    FILE.save(ProgramFile(blueprint, program), path)


def program_digest(blueprint: ProgramBlueprint, program: Program) -> str:
    """Return a SHA-256 over every weight, name and table: equal for equal models only."""
    return FILE.digest(ProgramFile(blueprint, program))


def load_program(path: str | Path) -> tuple[ProgramBlueprint, Program]:
    """Read a blueprint and its program; anything that is not what was saved raises."""
    return FILE.load(path, _checked)


def _checked(file: ProgramFile) -> tuple[ProgramBlueprint, Program]:
    check_program(file.program)
    check_program_shapes(file.blueprint, file.program)
    check_names(file.program.vocabulary, "vocabulary")
    return file.blueprint, file.program
