"""The verdict on a compiled model: whether its certified error is acceptable, and how it was chosen.

A model is refused if its certified error exceeds the tolerance; without one, a thousandth of max|Q|, or
64 units of roundoff of its format where these are more. A softmax model, whose error is its headline,
is refused by a tolerance only. The refusal names what would meet the limit, by the same estimates that
the choice was made by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import torch

from exactformer.algebra import Target
from exactformer.core.domain import Domain
from exactformer.core.formats import FORMATS, FloatFormat, float_format
from exactformer.core.words import at_most
from exactformer.errors import RoundingError
from exactformer.polynomials.construction_choice import DEFAULTS, Candidate
from exactformer.polynomials.constructions import APPROXIMATIONS
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certificate import PolynomialCertificate

RELATIVE = 1e-3
"""The certified error that is accepted without being asked for, as a part of max|Q|."""

_ROUNDINGS = 64
"""Units of roundoff that are accepted in any format."""


@dataclass(frozen=True)
class Task:
    """What is to be compiled, where, and what was asked for."""

    target: Target
    domain: Domain
    construction: str | None
    directions: str
    dtype: torch.dtype
    tolerance: float | None
    memory_limit: int


def accepted(model: PolynomialModel, task: Task, looked_at: Sequence[Candidate]) -> PolynomialModel:
    """Return the model with the choice in its certificate's words.

    Raises:
        RoundingError: if its certified error is not acceptable; with what would be.
    """
    certificate = model.certificate
    error, scale = float(certificate.bound()), certificate.scale
    limit = task.tolerance
    if limit is None:
        unit = float_format(task.dtype).unit
        limit = max(RELATIVE, _ROUNDINGS * unit) * scale
        if task.construction in APPROXIMATIONS or not task.target.degree or not scale:
            return model
    if error > limit:
        raise RoundingError(_refusal(certificate, task, looked_at, error, limit))
    if looked_at:
        model._note(choice=_in_words(certificate, looked_at))
    return model


def _in_words(certificate: PolynomialCertificate, looked_at: Sequence[Candidate]) -> str:
    chosen, *rejected = looked_at
    unit = FORMATS[certificate.dtype].unit
    others = [f"{other} (about {_relative(other, unit, certificate.scale)})" for other in rejected]
    return f"{chosen}; rejected: {'; '.join(others)}" if others else str(chosen)


def _relative(candidate: Candidate, unit: float, scale: float) -> str:
    error = candidate.roundings * unit
    return f"{error / scale:.1e} of max|Q|" if scale else f"{error:.1e}"


def _refusal(
    certificate: PolynomialCertificate,
    task: Task,
    looked_at: Sequence[Candidate],
    error: float,
    limit: float,
) -> str:
    part = f", {at_most(error / certificate.scale, 2)} of max|Q|" if certificate.scale else ""
    text = f"the certified error of this model in {certificate.dtype} is {at_most(error)}{part}"
    if task.tolerance is None:
        text += f"; more than {limit / certificate.scale:.2g} of it is not handed over unasked"
    else:
        text = f"tolerance={limit:g} is not met: {text}"
    ways = list(_ways_out(task, looked_at, limit))
    fused = certificate.fused.get(certificate.dtype)
    if certificate.executor == "literal" and fused and (fused.value or inf) <= limit:
        ways.insert(0, "executor='fused'")
    advice = f". By estimate, {' or '.join(ways)} would meet it" if ways else ""
    if task.directions == "auto":
        advice += ". directions='spread' takes more tokens and may lose fewer digits"
    return f"{text}{advice}. To accept the error, give tolerance={at_most(error, 2)} or more"


def _ways_out(task: Task, looked_at: Sequence[Candidate], limit: float) -> Iterator[str]:
    """Yield options that would meet a limit: another construction, a wider format."""
    for number_format in _formats(task.dtype):
        for candidate in _alternatives(looked_at):
            if 2 * candidate.roundings * number_format.unit <= limit:
                options = []
                if task.construction not in (None, candidate.construction):
                    options.append(f"construction={candidate.construction!r}")
                if number_format.name != float_format(task.dtype).name:
                    options.append(f"dtype=torch.{number_format.name}")
                if options:
                    yield " with ".join(options)
                    return


def _alternatives(looked_at: Sequence[Candidate]) -> Iterator[Candidate]:
    for candidate in looked_at:
        for construction in dict.fromkeys((candidate.construction, *DEFAULTS)):
            yield replace(candidate, construction=construction)


def _formats(dtype: torch.dtype) -> list[FloatFormat]:
    """Return a format and the wider ones, the nearest first."""
    own = float_format(dtype)
    wider = [f for f in FORMATS.values() if f.precision > own.precision and f.high >= own.high]
    return [own, *sorted(wider, key=lambda f: f.precision)]
