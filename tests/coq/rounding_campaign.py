"""Random theorems about rounding and random tampering: Python and Coq must agree.

    python -m tests.coq.rounding_campaign [--models 200] [--seed 0]

Every model that Python proves, with its bound of the fused form in float64 or float32, must be proved
by Coq, up to ``Qed``. Two things are then done to each model:

- A weight, the domain, the rule or the target is changed, and the file is written anew. Coq must prove
  what Python proves, and refuse what Python shows to be wrong.
- Its theorem about rounding is changed alone: the bound or the format, which Coq must refuse; a number
  of the closed form or its basis, which Coq must refuse where the form is another polynomial; or the
  region, which must then not follow.

The exact theorem of each file is left out here: :mod:`tests.coq.campaign` is about those.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from exactformer.algebra import Target
from exactformer.coq import rounding_law
from exactformer.coq.check import compiled
from exactformer.coq.installation import Coq, find_coq
from exactformer.coq.law import law
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import Basis, FusedForm, fuse
from tests.coq.campaign import asked_python, changed, random_model, tampered, wider
from tests.coq.laws import together, verdicts

FILE = 20
"""Laws in a file."""
MOST = 8
"""Tokens of a model."""

_SECOND = "Definition closed_form"

Rounded = tuple[Blueprint, Target, str]
"""A model that Python proves, its target, and the file with theorems about rounding."""


def random_rounded(rng: random.Random) -> Rounded:
    """Return a random model with its file."""
    while True:
        blueprint, target = random_model(rng)
        if blueprint.tokens > MOST:
            continue
        name = rng.choice(["float64", "float32"])
        try:
            return blueprint, target, rounded(blueprint, target, name)
        except CertificationError:  # there is no bound in this format
            continue


def rounded(blueprint: Blueprint, target: Target, name: str) -> str:
    """Return the file of a law without its exact theorem."""
    head, _, rest = law(blueprint, target, rounding=name).partition(_SECOND)
    return (
        head[: head.index("Theorem law")] + _SECOND + rest.replace("Print Assumptions law.\n", "")
    )


def fused(blueprint: Blueprint) -> FusedForm:
    """Return the closed form that a theorem about rounding speaks of."""
    return fuse(run_symbolic(blueprint, blueprint.domain))


def altered(rng: random.Random, model: Rounded) -> tuple[str, str, str]:
    """Return a file with another theorem about rounding, what was changed, and Python's verdict."""
    blueprint, target, text = model
    kind = rng.choice(["bound", "format", "form", "form"])
    if kind == "format" and "binary64" in text:
        return text.replace("binary64", "binary32"), kind, "wrong"
    smaller = re.sub(r"<= (\d+)(?: / 1(0+))?\.\n", r"<= \1 / 1\g<2>000.\n", text)
    # The bound of a constant may be one of underflows alone, and Coq's of those is smaller.
    if kind != "form" and any(matrix.entries for matrix in fused(blueprint).coefficients):
        return smaller, "bound", "wrong"
    form, output = fused(blueprint), rng.randrange(len(target.polynomials))
    other_form = _with_other_number(rng, form, output)
    mark = f"_{output + 1}" if len(target.polynomials) > 1 else ""
    old, new = (
        rounding_law.definition(f, blueprint, output, f"closed_form{mark}")
        for f in (form, other_form)
    )
    assert old in text
    said = "right" if _is_target(rng, other_form, output, target) else "wrong"
    if said == "right" and other_form.basis is not form.basis:  # evaluated with other errors
        said = "not shown"
    return text.replace(old, new), "form", said


def _with_other_number(rng: random.Random, form: FusedForm, output: int) -> FusedForm:
    kind = rng.choice(["features", "coefficients", "coefficients", "biases", "basis"])
    if kind == "basis":
        return replace(form, basis=next(basis for basis in Basis if basis is not form.basis))
    if kind == "features":
        return replace(form, features=changed(rng, form.features))
    if kind == "coefficients" and form.coefficients[output].columns:
        matrices = list(form.coefficients)
        matrices[output] = changed(rng, matrices[output])
        return replace(form, coefficients=tuple(matrices))
    biases = list(form.biases)
    biases[output] = changed(rng, Matrix.of(1, 1, {(0, 0): biases[output]}))[0, 0]
    return replace(form, biases=tuple(biases))


def _is_target(rng: random.Random, form: FusedForm, output: int, target: Target) -> bool:
    """Whether a closed form is the polynomial at many points, in rational arithmetic."""
    F, c = form.features, form.coefficients[output]
    for _ in range(50):
        x = [Fraction(rng.randint(-999, 999), 7) for _ in target.variables]
        y = [a - b for a, b in zip(x, form.centre or [Fraction(0)] * len(x), strict=True)]
        value = form.biases[output]
        for i in range(F.rows):
            t = sum((F[i, j] * a for j, a in enumerate(y)), Fraction(0))
            before, current = Fraction(1), t  # T_0 and T_1
            for s in range(c.columns):
                value += c[i, s] * (t ** (s + 1) if form.basis is Basis.POWER else current)
                before, current = current, 2 * t * current - before
        if value != target.polynomials[output].at(x):
            return False
    return True


def campaign(coq: Coq, count: int, seed: int) -> list[str]:
    """Return every disagreement of Python and Coq, in words."""
    rng, found = random.Random(seed), []
    seen: Counter[str] = Counter()
    for start in range(0, count, FILE):
        models = [random_rounded(rng) for _ in range(min(FILE, count - start))]
        seen.update(f"forms of {fused(blueprint).basis}" for blueprint, *_ in models)
        answer = compiled(coq, together([text for *_, text in models]))
        if answer.returncode:
            found.append(f"Coq refuses one of the models from {start} on: {answer.stderr[-500:]}")
        found += _compared(coq, rng, models, seen)
        refusing = "Proof. intros. Fail certify region. Abort."
        stated = [_first(wider(text, blueprint)) for blueprint, _, text in models]
        answer = compiled(coq, together(stated, refusing))
        if answer.returncode:
            found.append(f"Coq accepts a wider statement from {start} on: {answer.stderr[-500:]}")
        print(f"{start + len(models)} models, {len(found)} disagreements: {dict(seen)}", flush=True)
    return found


def _first(text: str) -> str:
    """Return a file with its first theorem alone."""
    return re.split(r"(?<=Qed\.)\n", text, maxsplit=1)[0]


def _compared(coq: Coq, rng: random.Random, models: list[Rounded], seen: Counter[str]) -> list[str]:
    """Return the disagreements about tampered models and altered theorems; count what was seen."""
    texts, told = [], []
    for model in models:
        blueprint, target = tampered(rng, *model[:2])
        python = asked_python(blueprint, target)
        try:
            name = "float64" if "binary64" in model[2] else "float32"
            texts.append(rounded(blueprint, target, name))
            told.append(("model", python))
        except CertificationError:  # no bound, or no closed form: it cannot be stated
            seen[f"model {python}, not stated"] += 1
        text, kind, python = altered(rng, model)
        texts.append(text)
        told.append((kind, python))
    found, answers = [], iter(verdicts(coq, texts))
    for text, (kind, python) in zip(texts, told, strict=True):
        said = {next(answers) for _ in range(text.count("\nTheorem "))}
        proved = said == {"RoundingProved"}
        seen[f"{kind} {python}, {'proved' if proved else 'refused'}"] += 1
        if (python == "right") != proved:
            line = f"{kind}: Python {python}, Coq {sorted(said)}\n{text}"
            print(line, flush=True)
            if python != "not shown":
                found.append(line)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    disagreements = campaign(find_coq(), options.models, options.seed)
    print(
        "\n".join(disagreements)
        or f"{options.models} models and twice as many tampered: agreement."
    )
