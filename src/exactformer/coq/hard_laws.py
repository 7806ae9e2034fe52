"""Laws of models with hard attention: programs and sequence maps, proven by Python first."""

from __future__ import annotations

from typing import Any

from exactformer.coq.program_law import program_law, program_statement
from exactformer.coq.sequence_law import check_grid, sequence_law, sequence_statement
from exactformer.core.certificate import Certificate
from exactformer.core.layers import Rule
from exactformer.core.loading import certify
from exactformer.errors import AlteredFileError, CertificationError, InputError
from exactformer.programs.files import load_program, program_digest
from exactformer.programs.model import ProgramModel
from exactformer.programs.proof.certificate import ProgramCertificate
from exactformer.sequences.files import load_sequence, sequence_digest
from exactformer.sequences.model import SequenceModel

FAMILIES = ("programs", "sequences")


def hard_law(source: Any, family: str) -> tuple[str, str, Certificate]:
    """Return the file, the theorem and Python's certificate of a program or a sequence map."""
    return (_program if family == "programs" else _sequence)(source)


def _program(source: Any) -> tuple[str, str, Certificate]:
    if isinstance(source, ProgramModel):
        blueprint, program = source.blueprint, source.program
    else:
        blueprint, program = _read(load_program, source)
    if blueprint.selection.rule is not Rule.HARD_MAX:
        raise InputError(
            "attention by softmax has no semantics in the Coq library; compile the program with "
            "realisation='hard'"
        )
    certificate = certify(source)
    if not isinstance(certificate, ProgramCertificate):
        raise CertificationError(f"{source} changed while it was being proven")
    _check_unchanged(source, certificate, program_digest(blueprint, program))
    values = certificate.proof.facts.universe(program.output)
    return program_law(blueprint, program, values), program_statement(program), certificate


def _sequence(source: Any) -> tuple[str, str, Certificate]:
    if isinstance(source, SequenceModel):
        blueprint, table = source.blueprint, source.table
    else:
        blueprint, table = _read(load_sequence, source)
    if blueprint.realisation != "hard":
        raise InputError(
            "attention by softmax has no semantics in the Coq library; prove the hard model, before "
            "it is softened"
        )
    check_grid(blueprint, table.grid)
    certificate = certify(source)
    _check_unchanged(source, certificate, sequence_digest(blueprint, table))
    return sequence_law(blueprint, table), sequence_statement(table.grid), certificate


def _read(load: Any, path: Any) -> Any:
    """Return what a file holds; Python's proof says what is wrong with an altered one."""
    try:
        return load(path)
    except AlteredFileError:
        certify(path)
        raise


def _check_unchanged(source: Any, certificate: Certificate, digest: str) -> None:
    if certificate.blueprint_digest != digest:
        raise CertificationError(f"{source} changed while it was being proven")
