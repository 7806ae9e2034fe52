"""A program to a transformer: the request, its circuit and certificate, and one input's way through.

Programs are read by the grammar of :mod:`exactformer.programs.grammar`, never evaluated as code. What a
step shows is the model's own: the pattern of every head from its trace, and the values that the stream
holds there, decoded from its directions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from exactformer.errors import InputError, SizeError
from exactformer.studio.playground.refusals import check_choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from exactformer.core.model import Trace
    from exactformer.programs.circuit import Circuit, Component
    from exactformer.programs.language import SOp
    from exactformer.programs.model import ProgramModel
    from exactformer.programs.values import Value

LONGEST_PROGRAM = 2000
"""Characters of a program."""
LONGEST_TOKENS = 200
"""Characters of a vocabulary or an input."""
MOST_LENGTH = 10
"""Tokens of an input."""
MOST_TOKENS = 12
"""Tokens of a vocabulary."""
MOST_EXPRESSIONS = 80
Attention = Literal["everywhere", "causal"]
Realisation = Literal["hard", "softmax"]
CHOICES = {"attention": get_args(Attention), "realisation": get_args(Realisation)}
KEPT_MODELS = 8
REVERSE = """opposite = length - indices - 1
reverse = Aggregate(Select(indices, opposite, EQ), tokens)"""
START = "start"
"""What the beginning token is called."""


@dataclass(frozen=True)
class ProgramRequest:
    """What to compile, in the words of :func:`exactformer.compile_program`, and what to send in."""

    program: Annotated[str, Field(max_length=LONGEST_PROGRAM)] = REVERSE
    vocabulary: Annotated[str, Field(max_length=LONGEST_TOKENS)] = "abc"
    max_length: Annotated[int, Field(ge=1, le=MOST_LENGTH)] = 6
    attention: Attention = "everywhere"
    realisation: Realisation = "hard"
    input: Annotated[str, Field(max_length=LONGEST_TOKENS)] = ""
    """Tokens; nothing stands for the vocabulary, over and over."""

    def __post_init__(self) -> None:
        if len(self.program) > LONGEST_PROGRAM:
            raise SizeError(
                f"the program has {len(self.program):,} characters; the playground's limit is "
                f"{LONGEST_PROGRAM:,}"
            )
        for name in ("vocabulary", "input"):
            if len(getattr(self, name)) > LONGEST_TOKENS:
                raise SizeError(f"the {name} has more than {LONGEST_TOKENS} characters")
        if not 1 <= self.max_length <= MOST_LENGTH:
            raise InputError(
                f"the longest input has 1 to {MOST_LENGTH} tokens in the playground, not "
                f"{self.max_length}"
            )
        check_choices(self, CHOICES)


def vocabulary_of(request: ProgramRequest) -> list[Value]:
    """Read the vocabulary, refused where it is too large."""
    from exactformer.programs.token_text import read_vocabulary

    found = read_vocabulary(request.vocabulary)
    if len(found) > MOST_TOKENS:
        raise SizeError(
            f"the vocabulary has {len(found)} tokens; the playground's limit is {MOST_TOKENS}"
        )
    return found


def input_of(request: ProgramRequest) -> list[Value]:
    """Read the tokens to send in."""
    from exactformer.programs.token_text import read_tokens

    vocabulary = vocabulary_of(request)
    if not request.input.strip():
        size = min(request.max_length, len(vocabulary) + 1)
        return [vocabulary[k % len(vocabulary)] for k in range(size)] if vocabulary else []
    return read_tokens(request.input, vocabulary)


def expression_of(request: ProgramRequest) -> SOp:
    """Return the program, refused early where it is too large."""
    from exactformer.programs.grammar import parse_program
    from exactformer.programs.language import walk

    found = parse_program(request.program)
    count = sum(1 for _ in walk(found))
    if count > MOST_EXPRESSIONS:
        raise SizeError(
            f"the program has {count} expressions; the playground's limit is {MOST_EXPRESSIONS}. "
            "Run it on your own machine with ef.compile_program"
        )
    return found


def compiled(request: ProgramRequest) -> ProgramModel:
    """Return the model, from memory if it was among the last ones."""
    return _compiled(replace(request, input=""))


@lru_cache(maxsize=KEPT_MODELS)
def _compiled(request: ProgramRequest) -> ProgramModel:
    from exactformer.programs.compile import compile_program

    return compile_program(
        expression_of(request),
        vocabulary=vocabulary_of(request),
        max_length=request.max_length,
        causal=request.attention == "causal",
        realisation=request.realisation,
    )


def describe(request: ProgramRequest) -> dict[str, Any]:
    """Return everything about the compiled model that does not depend on the input."""
    model = compiled(request)
    circuit, certificate = model.circuit(), model.certificate
    return {
        "request": asdict(replace(request, input="")),
        "name": model.program.names[model.program.output],
        "vocabulary": [shown(token) for token in model.vocabulary],
        "values": [shown(value) for value in model.values],
        "sizes": model.blueprint.sizes,
        "circuit": [_part(circuit, component) for component in circuit.components],
        "certificate": {
            "text": str(certificate),
            "zero_error": certificate.zero_error,
            "proofs": [{"name": claim.name, "claim": claim.text} for claim in certificate.claims],
            "bound": float(certificate.bound()),
        },
        "digest": certificate.blueprint_digest,
    }


def follow(request: ProgramRequest) -> dict[str, Any]:
    """Return one input's way: what every head attends to, and what the stream holds after it."""
    from exactformer.programs.language import evaluate
    from exactformer.studio.playground.scripts import program_script

    model, tokens = compiled(request), input_of(request)
    if not tokens:
        raise InputError("an input has at least one token")
    output = model.decode([tokens])[0]
    wanted = evaluate(expression_of(request), tokens, causal=model.program.causal)
    return {
        "request": asdict(request),
        "tokens": [shown(token) for token in tokens],
        "positions": [START] * model.blueprint.beginning + [shown(token) for token in tokens],
        "output": [shown(value) for value in output],
        "program": [shown(value) for value in wanted],
        "steps": _Way(model, model.trace(model.encode(tokens))).steps(),
        "script": program_script(request, tokens, vocabulary_of(request)),
    }


def shown(value: Any) -> str:
    """Return a value as a page writes it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    return str(value)


def _part(circuit: Circuit, component: Component) -> dict[str, Any]:
    reads = [edge for edge in circuit.edges if edge.target == component.name]
    return {
        "name": component.name,
        "kind": component.kind,
        "layer": component.layer,
        "head": component.index,
        "units": len(component.units),
        "selector": component.selector,
        "computes": list(component.computes),
        "reads": [
            {"source": e.source, "through": e.through, "carries": list(e.carries)} for e in reads
        ],
    }


class _Way:
    """The steps of one input through the parts of a model."""

    def __init__(self, model: ProgramModel, trace: Trace) -> None:
        self.model, self.trace, self.circuit = model, trace, model.circuit()
        self.written: set[int] = set()
        self.held: dict[str, list[str]] = {}

    def steps(self) -> list[dict[str, Any]]:
        return [self._step(component) for component in self.circuit.components]

    def _step(self, component: Component) -> dict[str, Any]:
        self.written |= set(component.directions)
        stream = self.trace[_after(component)].double().cpu().numpy()
        before = set(self.held)
        self._decode(stream[self.model.blueprint.beginning :])
        pattern = None
        if component.kind == "head":
            weights = self.trace[f"{component.name}: {component.selector}"]
            pattern = [[round(w, 6) for w in row] for row in weights.double().tolist()]
        return {
            **_part(self.circuit, component),
            "title": component.name[:1].upper() + component.name[1:],
            "words": _words(self.circuit, component),
            "pattern": pattern,
            "stream": [
                {"name": name, "values": values, "is_new": name not in before}
                for name, values in self.held.items()
            ],
        }

    def _decode(self, stream: NDArray[np.float64]) -> None:
        """Read the registers whose directions are all written: at every position the nearest code.

        Left out are registers that hold one of several terms, or only a part of what a value is.
        """
        registers = self.model.blueprint.registers
        several = {register.node for register in registers if register.term}
        for register in registers:
            if register.node is None or (register.term is not None and register.node in several):
                continue
            name = self.model.program.names[register.node]
            universe = self.model.certificate.proof.facts.universe(register.node)
            codes = register.steps.floats()[: len(universe)].cumsum(axis=0)
            is_whole = len({tuple(code) for code in codes.tolist()}) == len(universe)
            if name in self.held or not is_whole or not set(register.directions) <= self.written:
                continue
            distance = abs(stream[:, None, list(register.directions)] - codes[None]).max(axis=-1)
            self.held[name] = [shown(universe[k]) for k in distance.argmin(axis=1).tolist()]


def _after(component: Component) -> str:
    """Return the name of the stream in which a part has written."""
    if component.kind == "embedding":
        return "embedding"
    end = "after attention" if component.kind == "head" else "output"
    return f"layer {component.layer} {end}"


def _words(circuit: Circuit, component: Component) -> str:
    """Return what a part does."""
    computes = ", ".join(component.computes) or "what others need"
    if component.kind == "embedding":
        return f"Every token enters the stream with its position: {computes}."
    read: dict[str, list[str]] = {}
    for edge in circuit.edges:
        if edge.target == component.name:
            read.setdefault(edge.through, []).extend(edge.carries)
    sources = {through: ", ".join(dict.fromkeys(names)) for through, names in read.items()}
    if component.kind == "head":
        parts = "; ".join(f"{through}: {names}" for through, names in sources.items())
        reads = f" Reads {parts}." if parts else ""
        return f"Selects: {component.selector}.{reads} Writes {computes}."
    count = len(component.units)
    units = "1 unit reads" if count == 1 else f"{count} units read"
    return f"{units} {sources.get('input', 'constants')}. Writes {computes}."


@dataclass(frozen=True)
class Example:
    """A program of :mod:`exactformer.programs.library`, as text."""

    title: str
    statement: str
    """What it computes, at every position."""
    request: ProgramRequest


_BEFORE = """smaller = Select({keys}, {keys}, LT)
same = Select({keys}, {keys}, EQ)
earlier = Select(indices, indices, LT)
"""
_RARITY = "rarity = -SelectorWidth(Select(tokens, tokens, EQ))\n"
_BALANCE = """so_far = Select(indices, indices, LEQ)
opens = numerical(Aggregate(so_far, tokens == "(", default=0))
closes = numerical(Aggregate(so_far, tokens == ")", default=0))
balance = numerical(LinearSequenceMap(opens, closes, 1, -1))
"""

EXAMPLES = {
    "length": Example(
        "Length",
        "The number of tokens.",
        ProgramRequest(
            "count = SelectorWidth(Select(tokens, tokens, TRUE))", "abc", 6, input="abca"
        ),
    ),
    "copy": Example(
        "Copy",
        "The input itself, moved by a head that attends to its own position.",
        ProgramRequest(
            "own_position = Select(indices, indices, EQ)\ncopy = Aggregate(own_position, tokens)",
            input="abca",
        ),
    ),
    "reverse": Example(
        "Reverse", "The input from the last token to the first.", ProgramRequest(input="abcca")
    ),
    "hist": Example(
        "Histogram",
        "How often the token occurs in the input.",
        ProgramRequest("hist = SelectorWidth(Select(tokens, tokens, EQ))", input="abaca"),
    ),
    "shift": Example(
        "Shift",
        "The token before; None at the first position.",
        ProgramRequest(
            "one_before = Select(indices, indices - 1, EQ)\nshift = Aggregate(one_before, tokens)",
            input="abca",
        ),
    ),
    "sort": Example(
        "Sort",
        "The tokens in order; equal ones stay in the order of the input.",
        ProgramRequest(
            _BEFORE.format(keys="tokens")
            + "place = SelectorWidth(smaller | same & earlier)\n"
            + "sort = Aggregate(Select(place, indices, EQ), tokens)",
            "0, 1, 2, 3",
            input="3102",
        ),
    ),
    "sort_freq": Example(
        "Sort by frequency",
        "The tokens, the most frequent first; equally frequent ones stay in the order of the input.",
        ProgramRequest(
            _RARITY
            + _BEFORE.format(keys="rarity")
            + "place = SelectorWidth(smaller | same & earlier)\n"
            + "sort_freq = Aggregate(Select(place, indices, EQ), tokens)",
            input="abbcb",
        ),
    ),
    "most_frequent": Example(
        "Most frequent token",
        "The token that occurs most often, at every position; of several, the one that comes first.",
        ProgramRequest(
            _RARITY
            + _BEFORE.format(keys="rarity")
            + "rank = SelectorWidth(smaller | same & earlier)\n"
            + "most_frequent = Aggregate(Select(rank, indices * 0, EQ), tokens)",
            input="abbcb",
        ),
    ),
    "induction": Example(
        "Induction",
        "What followed the last earlier occurrence of the token; None at a token's first occurrence.",
        ProgramRequest(
            "previous = Aggregate(Select(indices, indices - 1, EQ), tokens)\n"
            "follows = Select(previous, tokens, EQ)\n"
            "rank = SelectorWidth(Select(previous, previous, EQ))\n"
            "total = SelectorWidth(follows)\n"
            "last = Select(rank, total, EQ)\n"
            "induction = Aggregate(follows & last, tokens)",
            "abc",
            8,
            "causal",
            input="abcabb",
        ),
    ),
    "addition": Example(
        "Addition",
        "The sum of two numbers of two digits, digit by digit, the lowest digit first in all of them.",
        ProgramRequest(
            "first = SequenceMap(lambda t, i: t if i < 2 else 0, tokens, indices)\n"
            "second = Aggregate(Select(indices, indices + 2, EQ), tokens, default=0)\n"
            "total = first + second\n"
            'carry = Map(lambda s: "generate" if s > 9 else "propagate" if s == 9 else "kill", total)\n'
            "one_before = Select(indices, indices - 1, EQ)\n"
            'lower = Aggregate(one_before, carry, default="kill")\n'
            'known = SequenceMap(lambda c, d: d if c == "propagate" else c, carry, lower)\n'
            'carry_in = Aggregate(one_before, known, default="kill")\n'
            'digit = SequenceMap(lambda s, c: (s + (c == "generate")) % 10, total, carry_in)\n'
            "addition = SequenceMap(lambda d, i: d if i <= 2 else None, digit, indices)",
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
            4,
            input="8695",
        ),
    ),
    "frac_prevs": Example(
        "Fraction of a",
        "The fraction of tokens up to here, this one included, that are a.",
        ProgramRequest(
            "so_far = Select(indices, indices, LEQ)\n"
            'frac_prevs = numerical(Aggregate(so_far, tokens == "a", default=0))',
            input="abbaa",
        ),
    ),
    "pair_balance": Example(
        "Balance of parentheses",
        "The fraction of opening parentheses so far less that of closing ones.",
        ProgramRequest(_BALANCE.rstrip(), "()", input="(()))"),
    ),
    "shuffle_dyck1": Example(
        "Balanced parentheses",
        "Whether every parenthesis in the input is closed, 1 or 0 at every position.",
        ProgramRequest(
            _BALANCE + "below = Aggregate(Select(indices, indices, TRUE), balance < 0, default=0)\n"
            "closed = Aggregate(Select(indices, length - 1, EQ), balance == 0)\n"
            "balanced = closed & ~below",
            "()",
            input="(())",
        ),
    ),
}
"""By the names of :data:`exactformer.programs.library.PROGRAMS`."""
