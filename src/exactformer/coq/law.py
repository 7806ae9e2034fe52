"""The Coq file of a model: its weights as data, and the law that it computes as a theorem.

No label of the blueprint is written, only numbers, the names of variables, and a digest: the text of
a label could otherwise become part of the proof.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from exactformer.algebra import Target
from exactformer.coq.rounding_law import rounding as rounding_text
from exactformer.coq.softmax_law import SoftData, soft_data, soft_model
from exactformer.coq.text import (
    LAST,
    decimal,
    listed,
    matrix,
    names,
    polynomial,
    rational,
    real,
    row,
    title,
    vector,
    wrapped,
)
from exactformer.core.domain import Ball, Domain
from exactformer.core.layers import (
    IDENTITY,
    RELU,
    BiasedHead,
    Block,
    FeedForward,
    Head,
    PiecewiseLinear,
    Rule,
)
from exactformer.errors import CertificationError, InputError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.files import digest
from exactformer.polynomials.proof.softmax_symbolic import is_softmax

_RULES = {Rule.ONE_HOT_MAX: "OneHotMax", Rule.HARD_MAX: "HardMax"}

PROOF = "Proof. intros. certify region. Qed."
SOFT_PROOF = "Proof. intros. certify_softly region tangent. Qed."

_ABOUT = """\
A transformer, and the law that it computes on a whole region: a theorem over the real numbers."""

IMPORTS = """\
From Coq Require Import Reals QArith List.
From Exactformer Require Import Laws.
Import ListNotations.
Open Scope Q_scope.
Open Scope model_scope.
"""


SOFT_IMPORTS = IMPORTS.replace("Import Laws.", "Import Laws SoftLaws.")
ROUNDING_IMPORTS = IMPORTS.replace(
    "Import Laws.", "Import Laws.\nFrom Exactformer.rounding Require Import RoundingLaws."
)


def law(
    blueprint: Blueprint,
    target: Target,
    soft: SoftData | None = None,
    rounding: str | None = None,
) -> str:
    """Return the file that states and proves what the model is on its domain.

    That is the target exactly, or where attention is a softmax, within an error: the one given, or
    that of :func:`soft_data`. For a float format a second theorem is about the rounded fused form.
    """
    if is_softmax(blueprint):
        if rounding is not None:
            raise InputError("a softmax model has no fused form, whose rounding could be proved")
        soft = soft or soft_data(blueprint)
    parts = [
        title(_ABOUT, digest(blueprint)),
        IMPORTS if soft is None else SOFT_IMPORTS,
        definitions(blueprint, soft),
        "Open Scope R_scope.\n",
        statement(blueprint, target, None if soft is None else soft.error),
        PROOF if soft is None else SOFT_PROOF,
        "",
    ]
    if rounding is not None:
        parts[1] = ROUNDING_IMPORTS
        domain = _hypotheses(blueprint.domain, names(blueprint.variables))
        text, theorems = rounding_text(blueprint, target, domain, rounding)
        return "\n".join(
            [*parts, text, LAST, *(f"Print Assumptions {name}.\n" for name in theorems)]
        )
    return "\n".join([*parts, LAST])


def theorem_of(text: str) -> str:
    """Return the theorems of a law's file."""
    return "\n\n".join(re.findall(r"^Theorem .*?(?=\nProof\.)", text, re.DOTALL | re.MULTILINE))


def definitions(blueprint: Blueprint, soft: SoftData | None = None) -> str:
    """Return the transformer and its region as data."""
    model = _model(blueprint) if soft is None else soft_model(blueprint, soft.guess)
    return f"{model}\n\nDefinition region : domain := {_region(blueprint)}.\n"


def statement(blueprint: Blueprint, target: Target, error: Fraction | None = None) -> str:
    """Return the theorem in plain notation: that the model is the target, or is within an error."""
    variables = names(blueprint.variables)
    lines = ["Theorem law :"]
    if variables:
        lines = [wrapped(f"Theorem law : forall {' '.join(variables)} : R,", 0)]
        lines += [f"{wrapped(h, 2)} ->" for h in _hypotheses(blueprint.domain, variables)]
    if error is None:
        lines.append(wrapped(f"run model {listed(variables)} =", 2))
    else:
        run = f"(run_softmax model {listed(variables)})"
        lines.append(wrapped(f"agree_within ({decimal(error)}) {run}", 2))
    outputs = [wrapped(polynomial(p, variables), 3).strip() for p in target]
    return "\n".join(lines) + f"\n  {listed(outputs, 2, lines=True)}."


def _model(blueprint: Blueprint) -> str:
    F, E = blueprint.embedding.features, blueprint.embedding.constant
    rows = [listed(rational(F[i, j]) for j in range(F.columns)) for i in range(F.rows)]
    marks = [row(sorted(E.by_row.get(i, []))) for i in range(E.rows)]
    blocks = (";\n    ").join(map(_block, blueprint.blocks))
    outputs = [f"({matrix(r.beta, 5)}, {rational(r.bias)})" for r in blueprint.readouts]
    return "\n".join(
        [
            "Definition model : transformer := {|",
            f"  features :=\n   {listed(rows, 3, lines=True)};",
            f"  feature := {blueprint.embedding.dimension};",
            f"  constant :=\n   {listed(marks, 3, lines=True)};",
            f"  blocks :=\n   [{blocks}];",
            f"  readouts :=\n   {listed(outputs, 3, lines=True)}",
            "|}.",
        ]
    )


def _block(block: Block) -> str:
    rule = block.attention.selection.rule
    if rule not in _RULES:
        raise CertificationError(f"attention by {rule} has no semantics in the Coq library yet")
    heads = ";\n       ".join(map(_head, block.attention.heads))
    return f"Block {_RULES[rule]}\n      [{heads}]\n      {_feed_forward(block.feed_forward)}"


def _head(head: Head) -> str:
    space = "\n" + " " * 9
    bias = f"{space}{vector(head.bias)}" if isinstance(head, BiasedHead) else ""
    name = "BiasedHead" if bias else "Head"
    query, key, value = (
        matrix(head.query, 9, whole=True),
        matrix(head.key, 9),
        matrix(head.value, 9),
    )
    return f"{name}{space}{query}{bias}{space}{key}{space}{value}"


def _feed_forward(layer: FeedForward) -> str:
    if layer.successive is not None:
        raise CertificationError("a run of feed-forward layers has no semantics in the Coq library")
    w1, w2 = matrix(layer.w1, 7), matrix(layer.w2, 7)
    parts = [_activation(layer.activation), w1, vector(layer.b1), w2, vector(layer.b2)]
    return f"(FeedForward {' '.join(parts)})"


def _activation(function: PiecewiseLinear) -> str:
    for known, name in ((RELU, "Relu"), (IDENTITY, "Identity")):
        if function == known:
            return name
    raise CertificationError(f"the activation {function} has no semantics in the Coq library")


def _region(blueprint: Blueprint) -> str:
    domain, axes = blueprint.domain, range(len(blueprint.variables))
    centre = listed(rational(domain.offset(j)) for j in axes)
    if isinstance(domain, Ball):
        return f"Ball {centre} {rational(domain.radius)}"
    return f"Box {centre} {listed(map(rational, domain.half_widths))}"


def _hypotheses(domain: Domain, variables: Sequence[str]) -> list[str]:
    if isinstance(domain, Ball):
        offsets = [domain.offset(j) for j in range(len(variables))]
        squares = [f"{_shifted(x, c)} ^ 2" for x, c in zip(variables, offsets, strict=True)]
        radius = real(domain.radius)
        return [f"{' + '.join(squares)} <= {radius if '/' not in radius else f'({radius})'} ^ 2"]
    sides = zip(variables, domain.intervals, strict=True)
    return [f"{real(low)} <= {x} <= {real(high)}" for x, (low, high) in sides]


def _shifted(variable: str, offset: Fraction) -> str:
    if not offset:
        return variable
    return f"({variable} {'-' if offset > 0 else '+'} {real(abs(offset))})"
