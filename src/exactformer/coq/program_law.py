"""The Coq file of a program's model: weights and program as data, and the theorem that they agree.

No label of the blueprint or the program is written, only numbers, values, tables and a digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from exactformer.coq.hard_layers import IMPORTS, attention, feed_forward
from exactformer.coq.schedule import Schedule, has_units, schedule
from exactformer.coq.text import LAST, listed, matrix, rational, tied, title, wrapped
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.files import program_digest
from exactformer.programs.program import (
    AggregateNode,
    AndNode,
    ConstantNode,
    LinearNode,
    MapNode,
    Node,
    NotNode,
    OrNode,
    PairNode,
    Program,
    SelectNode,
    WidthNode,
)
from exactformer.programs.values import Value

PROOF = "Proof. certify_program order. Qed."

_ABOUT = """\
A transformer, a program, and the theorem that the transformer computes the program on every
    input: over the rational numbers, without axioms."""

_COMPARISONS = {
    "==": "Equal",
    "!=": "Different",
    "<": "Less",
    "<=": "AtMost",
    ">": "More",
    ">=": "AtLeast",
    "True": "Always",
    "False": "Never",
}


def program_law(blueprint: ProgramBlueprint, program: Program, values: Sequence[Value]) -> str:
    """Return the file that states and proves that the model computes its program.

    ``values`` are those of the output, in the order in which they are read out.
    """
    parts = [
        title(_ABOUT, program_digest(blueprint, program)),
        IMPORTS.format(files="HardAttention Rasp Programs"),
        program_definitions(blueprint, program, values),
        program_statement(program),
        PROOF,
        "",
        LAST,
    ]
    return "\n".join(parts)


def program_statement(program: Program) -> str:
    """Return the theorem in plain notation."""
    return f"""\
Theorem law : forall input : list value,
  (forall x, In x input -> In x vocabulary) -> (1 <= length input <= {program.max_length})%nat ->
  exists output, eval program input = Some output /\\
                 answer model vocabulary outputs input = Some output."""


def program_definitions(
    blueprint: ProgramBlueprint, program: Program, values: Sequence[Value]
) -> str:
    """Return the transformer, its vocabulary and the program as data."""
    how = "Numbers" if program.numerical else f"Directions {_table([*map(_plain, values)])}"
    return "\n\n".join(
        [
            model_definition(blueprint),
            f"Definition vocabulary : list value := {_table([*map(_plain, program.tokens)])}.",
            f"Definition outputs : reading := {how}.",
            program_definition(program, schedule(blueprint, program)),
            "",
        ]
    )


def model_definition(blueprint: ProgramBlueprint) -> str:
    """Return the transformer as data."""
    layers = []
    for layer in blueprint.layers:
        if layer.heads:
            layers.append(attention(layer.heads, [head.output for head in layer.heads], 4))
        if has_units(layer):
            layers.append(feed_forward(layer.feed_forward, 4))
    return "\n".join(
        [
            "Definition model : transformer := {|",
            f"  tokens := map dense\n   {matrix(blueprint.tokens, 3, whole=True)};",
            f"  positions := map dense\n   {matrix(blueprint.positions, 3, whole=True)};",
            f"  beginning := {str(blueprint.beginning).lower()};",
            f"  causal := {str(blueprint.causal).lower()};",
            f"  layers :=\n   {listed(layers, 3, lines=True)};",
            f"  readout :=\n   {matrix(blueprint.readout, 3, whole=True)}",
            "|}.",
        ]
    )


def program_definition(program: Program, order: Schedule) -> str:
    """Return the program as data, in stages, with the place of every node in a row of values."""
    numbers = order.numbers
    lines = []
    for stage in order.stages:
        nodes = [_node(program, program.nodes[node], numbers) for node in stage]
        places = ", ".join(str(numbers[node]) for node in stage)
        lines.append(f"(* {places} *)\n    {listed(nodes, 4, lines=True)}")
    steps = wrapped(f"Definition order : list step := {listed(order.steps)}.", 0)
    return "\n".join(
        [
            "Definition program : rasp := {|",
            f"  looks_back := {str(program.causal).lower()};",
            f"  stages :=\n   {listed(lines, 3, lines=True)};",
            f"  result := {numbers[program.output]}",
            "|}.",
            "",
            steps,
        ]
    )


def spelled(value: Value) -> str:
    """Return a value of a program.

    >>> spelled(("a", None)), spelled(Fraction(-1, 2))
    ('(Pair (Text "a") (Pair Nothing End))', '(Number (-1 # 2))')
    """
    if value is None:
        return "Nothing"
    if isinstance(value, str):
        if not value.isprintable() or any(letter > "\uffff" for letter in value):
            raise CertificationError(
                f"the text {value[:20]!r} has characters that do not print; Coq files have none"
            )
        doubled = value.replace('"', '""')
        return f'(Text "{doubled}")'
    if isinstance(value, tuple):
        text = "End"
        for part in reversed(value):
            text = f"(Pair {spelled(part)} {text})"
        return text
    return f"(Number {rational(Fraction(value))})"


def _node(program: Program, node: Node, at: Mapping[int, int]) -> str:
    """Return a node; ``at`` has the places of those that it refers to."""
    values = program.values
    if isinstance(node, ConstantNode):
        return f"Constant {spelled(values[node.value])}"
    if isinstance(node, MapNode):
        pairs = [_tuple(values[i], _entry(program, v)) for i, _, v in sorted(node.table)]
        return f"Map {at[node.inner]} {_table(pairs)}"
    if isinstance(node, PairNode):
        lines = [_tuple(values[i], values[j], _entry(program, v)) for i, j, v in sorted(node.table)]
        return f"Combine {at[node.first]} {at[node.second]} {_table(lines)}"
    if isinstance(node, LinearNode):
        first, second = at[node.first], at[node.second]
        return f"Linear {rational(node.a)} {first} {rational(node.b)} {second}"
    if isinstance(node, WidthNode):
        return f"Width {_selector(program, node.selector, at)}"
    if isinstance(node, AggregateNode):
        selector, default = _selector(program, node.selector, at), spelled(values[node.default])
        return f"Aggregate {selector} {at[node.values]} {default}"
    raise CertificationError(f"a {type(node).__name__} that is not one of the first two nodes")


def _entry(program: Program, value: Fraction) -> Value:
    number = int(value) - 1
    if value.denominator != 1 or not 0 <= number < len(program.values):
        raise CertificationError(f"a table names the value {value}, which is not there")
    return program.values[number]


def _selector(program: Program, number: int, at: Mapping[int, int]) -> str:
    node = program.selectors[number]
    if isinstance(node, NotNode):
        return f"(Not {_selector(program, node.inner, at)})"
    if isinstance(node, AndNode | OrNode):
        name = "And" if isinstance(node, AndNode) else "Or"
        first, second = (_selector(program, part, at) for part in (node.first, node.second))
        return f"({name} {first} {second})"
    return f"(Select {at[node.keys]} {at[node.queries]} {_test(program, node)})"


def _test(program: Program, node: SelectNode) -> str:
    if node.comparison:
        return f"(Compare {_COMPARISONS[node.comparison]})"
    values = program.values
    pairs = [_tuple(values[i], values[j]) for i, j, _ in sorted(node.table)]
    return f"({'Unlisted' if node.inverted else 'Listed'} {_table(pairs)})"


def _tuple(*values: Value) -> str:
    return f"({', '.join(_plain(value) for value in values)})"


def _plain(value: Value) -> str:
    """Return a value without the brackets around it."""
    text = spelled(value)
    return text[1:-1] if text.startswith("(") else text


def _table(lines: Sequence[str]) -> str:
    """Return a list, over several lines where it is long, and none broken inside an item."""
    return wrapped(listed(map(tied, lines)), 6).strip()
