"""No certificate of a changed program is false: on every input outputs are right, within the bound."""

from dataclasses import replace
from fractions import Fraction

import pytest

from exactformer.core.layers import Rule
from exactformer.errors import ExactformerError, RoundingError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.program import Program
from exactformer.programs.proof import state
from tests.adversary import tiny_programs
from tests.adversary.engine import Candidate, Outcome, Tally, search
from tests.adversary.programs import BASES, FAMILY, Subject, _base, changed, matrices, with_entry


def check(tally: Tally) -> None:
    """Nothing is false, nothing crashes, and enough is certified for that to mean something."""
    assert not tally.findings, str(tally)
    assert tally.certified_share > 0.2
    assert tally.outcomes[Outcome.REFUSED] > 0.1 * tally.count


def test_no_certificate_of_a_changed_program_is_false() -> None:
    check(search("programs", range(100_000, 100_050)))


def test_weights_below_the_normal_numbers_are_not_certified() -> None:
    """Once certified: bfloat16 products on some processors read weights of 2⁻¹²⁸ as zero."""
    candidate = FAMILY.candidate(42_559)
    assert candidate.subject.dtype == "bfloat16"
    with pytest.raises(RoundingError, match="take it for zero"):
        FAMILY.certify(candidate)


@pytest.mark.slow
def test_no_certificate_of_many_changed_programs_is_false() -> None:
    check(search("programs", [*range(100_050, 100_120), *range(1_000_000, 1_004_000)], jobs=2))


def test_no_certificate_of_a_program_with_tiny_numbers_is_false() -> None:
    check(search("tiny-programs", range(60)))


@pytest.mark.slow
def test_no_certificate_of_many_programs_with_tiny_numbers_is_false() -> None:
    tally = search("tiny-programs", range(60, 4000), jobs=2)
    check(tally)
    assert tally.kinds.keys() >= tiny_programs.MUTATIONS.keys()


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_number_that_float64_does_not_hold_is_not_proven_to_be_zero(layers: int) -> None:
    """An output has 2^(−100 − 400 layers) too much; the layers are said to write nothing."""
    candidate = Candidate(Subject(*_with_path(layers), "float64"), ())
    certificate = FAMILY.certify(candidate)
    assert 0 < certificate.proof.outcome().error < 2.0**-200
    assert tiny_programs.FAMILY.refute(candidate, certificate, 0) is None


def test_the_search_notices_radii_that_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "at_least_smallest", lambda radius: radius)
    candidate = Candidate(Subject(*_with_path(3), "float64"), ())
    certificate = FAMILY.certify(candidate)
    finding = tiny_programs.FAMILY.refute(candidate, certificate, 0)
    assert "in rational numbers" in (finding or "")


def _with_path(layers: int) -> tuple[ProgramBlueprint, Program]:
    blueprint, program = _base(0, Rule.HARD_MAX, Fraction(1))
    source, tiny = blueprint.registers[0].directions[0], Fraction(1, 2**200)
    for _ in range(layers):
        blueprint, source = tiny_programs.hop(blueprint, source, tiny, tiny)
    readout = with_entry(blueprint.readout, 0, source, Fraction(1, 2**100))
    return replace(blueprint, readout=readout), program


@pytest.mark.spread(3)
@pytest.mark.parametrize("base", [0, 3, 6], ids=lambda k: BASES[k][0].name)
@pytest.mark.parametrize("rule", [Rule.HARD_MAX, Rule.SOFTMAX], ids=lambda rule: rule.name)
def test_every_weight_that_is_changed_is_caught_or_harmless(base: int, rule: Rule) -> None:
    """Every entry of every matrix in turn, by a half: refused, or right on all inputs."""
    blueprint, program = _base(base, rule, Fraction(1 if rule is Rule.HARD_MAX else 64))
    caught = 0
    for place, matrix in matrices(blueprint):
        for i, j in matrix.entries:
            other = changed(
                blueprint, place, with_entry(matrix, i, j, matrix[i, j] + Fraction(1, 2))
            )
            candidate = Candidate(Subject(other, program, "float64"), ())
            try:
                certificate = FAMILY.certify(candidate)
            except ExactformerError:
                caught += 1
                continue
            assert FAMILY.refute(candidate, certificate, 0) is None, (place, i, j)
    assert caught > 10
