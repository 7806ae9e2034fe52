"""``compile_program``: an expression of :mod:`exactformer.rasp` into a transformer."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import torch

from exactformer.core.formats import float_format
from exactformer.core.layers import Rule
from exactformer.core.options import choose
from exactformer.core.precision import as_dtype
from exactformer.errors import InputError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.constructions import construct
from exactformer.programs.finding import witness_of
from exactformer.programs.language import SOp
from exactformer.programs.model import ProgramModel
from exactformer.programs.program import Program
from exactformer.programs.proof.certificate import certify_program
from exactformer.programs.tabulation import tabulated
from exactformer.programs.values import Value
from exactformer.programs.witness import Witness

REALISATIONS = {"hard": Rule.HARD_MAX, "softmax": Rule.SOFTMAX}
SHARPNESS = {"float64": Fraction(128), "float32": Fraction(64)}
"""By format: with these, what softmax leaks is below what rounding loses."""


def compile_program(
    expression: SOp,
    *,
    vocabulary: Iterable[Value],
    max_length: int,
    causal: bool = False,
    realisation: str = "hard",
    sharpness: Fraction | float | None = None,
    beginning: bool = True,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str | None = None,
    outside: str = "raise",
) -> ProgramModel:
    """Compile a program into a transformer that computes it on every input up to a length.

    Args:
        expression: what to compute, of :mod:`exactformer.rasp`.
        vocabulary: the tokens, a list or a text of characters.
        max_length: the most tokens of an input.
        causal: whether positions attend to themselves and those before them only.
        realisation: ``"hard"`` (attention by hard maxima, exact) or ``"softmax"``, PyTorch's own.
        sharpness: λ of softmax scores; by default one whose leak is below rounding.
        beginning: whether sequences get a token of their own before the first. Programs that count,
            or that may select nothing, need it.
        dtype: the number format, in which the proof holds too.
        device: where the module lives.
        executor: ``"literal"``, the only one.
        outside: ``"raise"`` (default) or ``"nan"`` for tokens that are not in the vocabulary.

    Raises:
        ExactformerError: if the program is ambiguous, too large, or anything cannot be proven; the
            message names the expression.

    >>> import exactformer as ef
    >>> from exactformer import rasp
    >>> opposite = rasp.length - 1 - rasp.indices
    >>> reverse = rasp.Aggregate(rasp.Select(rasp.indices, opposite, rasp.Comparison.EQ), rasp.tokens)
    >>> model = ef.compile_program(reverse, vocabulary="abc", max_length=4)
    >>> model.decode("abca")
    ['a', 'c', 'b', 'a']
    """
    choose("realisation", realisation, tuple(REALISATIONS))
    dtype = as_dtype(dtype)
    rule, rate = REALISATIONS[realisation], _sharpness(sharpness, realisation, dtype)
    program, analysis = tabulated(expression, vocabulary, max_length, bool(causal))
    blueprint = construct(program, analysis, rule, rate, bool(beginning))
    return prove(blueprint, program, witness_of(analysis), executor, dtype, device, outside)


def prove(
    blueprint: ProgramBlueprint,
    program: Program,
    witness: Witness,
    executor: str | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    outside: str = "raise",
) -> ProgramModel:
    """Return the module of a blueprint, proven against a program in a number format."""
    certificate = certify_program(blueprint, program, witness, dtype)
    model = ProgramModel(blueprint, program, certificate, executor, dtype, outside)
    return model.placed(device)


def _sharpness(sharpness: Any, realisation: str, dtype: torch.dtype) -> Fraction:
    if realisation == "hard":
        if sharpness is not None:
            raise InputError("sharpness= belongs to realisation='softmax'; a hard maximum has none")
        return Fraction(1)
    if sharpness is None:
        return SHARPNESS.get(float_format(dtype).name, Fraction(64))
    try:
        rate = Fraction(sharpness)
    except (TypeError, ValueError, ArithmeticError):
        raise InputError(f"sharpness={sharpness!r} must be a number") from None
    if rate <= 0:
        raise InputError(f"sharpness={sharpness!r} must be positive")
    return rate
