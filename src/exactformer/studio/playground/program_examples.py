"""Programs of the library as text, each with a vocabulary and an input to begin with."""

from __future__ import annotations

from dataclasses import dataclass

from exactformer.studio.playground.programs import ProgramRequest


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
