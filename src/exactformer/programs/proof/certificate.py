"""The certificate of a program: what is proven of its model, for every input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from exactformer.core.certificate import Bound, Certificate, Claim
from exactformer.core.formats import float_format
from exactformer.core.layers import Rule
from exactformer.core.options import choose
from exactformer.core.words import at_least, at_most
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.files import program_digest
from exactformer.programs.program import Program
from exactformer.programs.proof.claims.nodes import check_witness
from exactformer.programs.proof.induction import Outcome, prove_program
from exactformer.programs.values import Value, words_of
from exactformer.programs.witness import Witness

EXECUTORS = ("literal",)
NORM = "sup |output − ideal output|, every input, position and direction"


TABLES = "the program in its own tables"
"""What a model is proven against unless a program is given."""
_SHOWN = 12


class Proof:
    """A blueprint and a program, proven in one arithmetic after another; their witness once."""

    def __init__(self, blueprint: ProgramBlueprint, program: Program, witness: Witness) -> None:
        self.blueprint, self.program, self.witness = blueprint, program, witness
        self.facts = check_witness(program, witness)
        self._outcomes: dict[str | None, Outcome] = {}

    def outcome(self, dtype: object = None) -> Outcome:
        """Return what is proven in a format, or in exact arithmetic; raise where nothing is."""
        target = None if dtype is None else float_format(dtype)
        name = None if target is None else target.name
        if name not in self._outcomes:
            self._outcomes[name] = prove_program(self.blueprint, self.program, self.facts, target)
        return self._outcomes[name]


@dataclass(frozen=True, kw_only=True)
class ProgramCertificate(Certificate):
    """For every input, the decoded output of the model is the program's."""

    proof: Proof = field(repr=False, compare=False)
    target: str = field(default=TABLES, compare=False)
    """What the program is: the tables of the model, or what the caller gave, which they equal."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What is proven, in exact arithmetic and in the certificate's format."""
        program, exact = self.proof.program, self.proof.outcome()
        rounded = self.proof.outcome(self.dtype)
        values = len(self.proof.facts.universe(program.output))
        return (
            Claim(
                "program",
                f"for every input of 1 to {program.max_length} tokens of {_listed(program.tokens)}, "
                f"every position seeing {'itself and earlier ones' if program.causal else 'all'}, the "
                f"decoded output is that of {self.target}, one of {values} values everywhere",
            ),
            Claim(
                "selection",
                f"hard maxima select exactly the selected positions; outputs are within "
                f"{at_most(exact.error)} of the ideal ones in exact arithmetic"
                if self.zero_error
                else f"softmax leaves outputs within {at_most(exact.error)} of the ideal ones",
            ),
            Claim(
                "rounding",
                f"in {self.dtype} outputs are within {at_most(rounded.error)} of the ideal ones, "
                f"and right as long as they are within {at_least(rounded.limit)}",
            ),
            *self.checks,
        )

    @property
    def tokens(self) -> int:
        """The most tokens of an input."""
        return self.proof.program.max_length

    @property
    def depth(self) -> int:
        """Layers of attention and ReLUs."""
        return len(self.proof.blueprint.layers)

    @property
    def zero_error(self) -> bool:
        """Whether decoded outputs are right in exact arithmetic with no approximation at all."""
        return (
            self.proof.blueprint.selection.rule is Rule.HARD_MAX and self.proof.outcome().limit > 0
        )

    def bound(self, dtype: object = None, executor: str | None = None) -> Bound:
        """Return how far an output can be from the ideal one: a one for the value, or the number.

        Raises:
            CertificationError: with the expression at which the proof fails in that format.
        """
        if executor is not None:
            choose("executor", executor, EXECUTORS)
        total, exact = self.proof.outcome(dtype or self.dtype).error, self.proof.outcome().error
        total = max(total, exact)
        name = "selection" if self.zero_error else "softmax"
        return Bound(total, {name: exact, "rounding": total - exact}, NORM)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        program, rounded = self.proof.program, self.proof.outcome(self.dtype)
        return {
            "target": self.target,
            "tokens": program.max_length,
            "vocabulary": words_of(program.tokens),
            "values": len(self.proof.facts.universe(program.output)),
            "causal": program.causal,
            "zero_error": self.zero_error,
            "kind": str(self.kind),
            "claims": [{**vars(claim), "kind": str(claim.kind)} for claim in self.claims],
            "bound": self.bound().to_dict(),
            "limit": rounded.limit,
            "registers": [[name, error] for name, error in rounded.registers],
            "sizes": self.proof.blueprint.sizes,
            "dtype": self.dtype,
            "executor": self.executor,
            "blueprint_digest": self.blueprint_digest,
        }

    def __str__(self) -> str:
        program = self.proof.program
        lines = [
            f"Certificate of a program called {program.names[program.output]}",
            *(f"  {claim.name:<10}  {claim}" for claim in self.claims),
            *(f"  {line}" for line in str(self.bound()).splitlines()),
        ]
        return "\n".join(lines)


def _listed(tokens: tuple[Value, ...]) -> str:
    """Return a vocabulary in words."""
    shown = ", ".join(map(repr, tokens[:_SHOWN]))
    return shown if len(tokens) <= _SHOWN else f"{shown} and {len(tokens) - _SHOWN} more"


def certify_program(
    blueprint: ProgramBlueprint,
    program: Program,
    witness: Witness,
    dtype: object = "float64",
    target: str = TABLES,
) -> ProgramCertificate:
    """Prove a blueprint against a program, from weights and tables; ``target`` says whose these are.

    The witness is what somebody claims of the program; it is checked, and may be refused.

    Raises:
        CertificationError: with the expression at which the proof fails.
    """
    proof = Proof(blueprint, program, witness)
    proof.outcome()
    proof.outcome(dtype)
    digest = program_digest(blueprint, program)
    return ProgramCertificate(
        proof=proof, blueprint_digest=digest, dtype=float_format(dtype).name, target=target
    )
