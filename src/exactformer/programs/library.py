"""Programs by name, each with its statement in words.

A program is a function that returns an expression; its docstring says what the expression is, at every
position of the input. ``PROGRAMS`` has those that need no arguments, by the names of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from exactformer.errors import InputError
from exactformer.programs.grammar import SEQUENCES, parse_program
from exactformer.programs.language import (
    Aggregate,
    Comparison,
    LinearSequenceMap,
    Map,
    Select,
    Selector,
    SelectorWidth,
    SequenceMap,
    SOp,
    indices,
    length,
    numerical,
    tokens,
)
from exactformer.programs.values import Value

EQ, LT, LEQ, TRUE = Comparison.EQ, Comparison.LT, Comparison.LEQ, Comparison.TRUE


def make_length() -> SOp:
    """The number of tokens; in a causal model, of tokens so far."""
    return SelectorWidth(Select(tokens, tokens, TRUE).named("everything")).named("length")


def make_copy() -> SOp:
    """The input itself, moved by an attention head that looks at its own position."""
    return Aggregate(Select(indices, indices, EQ).named("own position"), tokens).named("copy")


def make_reverse(sop: SOp = tokens) -> SOp:
    """The input from the last token to the first."""
    opposite = (length - 1 - indices).named("opposite index")
    return Aggregate(Select(indices, opposite, EQ).named("indices == opposite index"), sop).named(
        "reverse"
    )


def make_hist() -> SOp:
    """How often the token occurs in the input."""
    return SelectorWidth(Select(tokens, tokens, EQ).named("same token")).named("hist")


def make_frac_prevs(bools: SOp) -> SOp:
    """The fraction of tokens up to here, this one included, of which a condition holds."""
    prevs = Select(indices, indices, LEQ).named("so far")
    found: SOp = numerical(Aggregate(prevs, bools, default=0))
    return found.named("frac_prevs")


def shift_by(offset: int, /, sop: SOp = tokens) -> SOp:
    """The input moved to the right by an offset; None where there is nothing to move."""
    source = (indices - offset).named(f"index - {offset}")
    selector = Select(indices, source, EQ).named(f"{offset} before")
    return Aggregate(selector, sop, default=None).named(f"shift_by({offset})")


def detect_pattern(sop: SOp, pattern: Sequence[Value]) -> SOp:
    """Whether a pattern ends here; None where the input is too short for it."""
    if len(pattern) < 1:
        raise InputError("a pattern has at least one value")
    found: SOp | None = None
    for back, element in enumerate(reversed(pattern)):
        here = sop == element
        here = shift_by(back, here) if back else here
        found = here if found is None else here & found
    assert found is not None
    return found.named(f"detect_pattern({''.join(map(str, pattern))})")


def make_pair_balance(sop: SOp, open_token: Value, close_token: Value) -> SOp:
    """The fraction of opening tokens so far less that of closing ones."""
    opens = make_frac_prevs((sop == open_token).named("opening")).named("opens")
    closes = make_frac_prevs((sop == close_token).named("closing")).named("closes")
    found: SOp = numerical(LinearSequenceMap(opens, closes, 1, -1))
    return found.named("pair_balance")


def make_shuffle_dyck(pairs: Sequence[Sequence[Value]]) -> SOp:
    """Whether every kind of parenthesis is balanced in the input, kinds mixed in any way."""
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InputError("shuffle_dyck takes pairs of an opening and a closing token")
    balances = [make_pair_balance(tokens, a, b).named(f"balance {a}{b}") for a, b in pairs]
    negative, zero = balances[0] < 0, balances[0] == 0
    for balance in balances[1:]:
        negative, zero = negative | (balance < 0), zero & (balance == 0)
    everywhere = Select(indices, indices, TRUE).named("everything")
    below = Aggregate(everywhere, negative.named("below zero"), default=0).named("has_neg")
    last = Select(indices, length - 1, EQ).named("last position")
    closed = Aggregate(last, zero.named("all zero")).named("last_zero")
    return (closed & ~below).named(f"shuffle_dyck{len(pairs)}")


def make_sort_unique(vals: SOp, keys: SOp) -> SOp:
    """Values in the order of their keys, which must differ from each other."""
    smaller = Select(keys, keys, LT).named("smaller key")
    place = SelectorWidth(smaller).named("target_pos")
    return Aggregate(Select(place, indices, EQ).named("target_pos == index"), vals).named("sort")


def make_sort(
    vals: SOp = tokens, keys: SOp | None = None, *, max_seq_len: int | None = None, min_key: Any = 1
) -> SOp:
    """Values in the order of their keys; equal keys stay in the order of the input.

    tracr adds a part of the index to every key, for which it needs ``max_seq_len`` and ``min_key``.
    Here a position comes after those with a smaller key, and after earlier ones with the same key;
    both arguments are accepted and not used.
    """
    keys = vals if keys is None else keys
    place = SelectorWidth(_before(keys)).named("target_pos")
    return Aggregate(Select(place, indices, EQ).named("target_pos == index"), vals).named("sort")


def make_sort_freq(max_seq_len: int | None = None) -> SOp:
    """The tokens, the most frequent first; equally frequent ones stay in the order of the input."""
    return make_sort(tokens, (-1 * make_hist()).named("rarity")).named("sort_freq")


def make_most_frequent() -> SOp:
    """The token that occurs most often, at every position; of several, the one that comes first."""
    rank = SelectorWidth(_before((-1 * make_hist()).named("rarity"))).named("rank")
    return Aggregate(Select(rank, indices * 0, EQ).named("rank == 0"), tokens).named(
        "most_frequent"
    )


def make_count(sop: SOp, token: Value) -> SOp:
    """How often one value occurs."""
    found = Select(sop, sop, lambda key, query: key == token).named(f"is {token}")
    return SelectorWidth(found).named(f"count_{token}")


def make_count_less_freq(n: int) -> SOp:
    """How many tokens occur at most n times."""
    hist = make_hist()
    rare = Select(hist, hist, lambda key, query: key <= n).named("select_less")
    return SelectorWidth(rare).named("count_less_freq")


def make_nary_sequencemap(f: Callable[..., Value], *sops: SOp) -> SOp:
    """A function of several expressions, position by position."""
    joined, *others = sops
    for sop in others:
        joined = SequenceMap(lambda x, y: (*x, y) if isinstance(x, tuple) else (x, y), joined, sop)
    return Map(lambda values: f(*values), joined)


def make_induction() -> SOp:
    """What followed the last earlier occurrence of the token; None at a token's first occurrence.

    Compile it with ``causal=True``, and run it with ``rasp.evaluate(…, causal=True)``. A first head
    moves the token before each position there. Among the positions that follow the same token, each
    counts how many there are up to it: its rank. A position counts how many positions follow its own
    token, and takes the token of the one with that rank.
    """
    previous = shift_by(1).named("previous token")
    follows = Select(previous, tokens, EQ).named("previous token == token")
    same = Select(previous, previous, EQ).named("same previous token")
    rank = SelectorWidth(same).named("rank")
    total = SelectorWidth(follows).named("total")
    last = Select(rank, total, EQ).named("rank == total")
    return Aggregate(follows & last, tokens).named("induction")


def make_addition(digits: int = 3, base: int = 10) -> SOp:
    """The sum of two numbers, digit by digit, the lowest digit first.

    The input is ``digits`` digits of the first number, the lowest first, and as many of the second.
    Position i < digits has digit i of the sum, position ``digits`` the last carry, later ones None.

    A digit sum generates a carry, propagates the one below, or kills it. In ⌈log₂ digits⌉ rounds every
    position that propagates takes over what is known of the position 1, 2, 4 … below.
    """
    if digits < 1 or base < 2:
        raise InputError("an addition has at least one digit, of a base of at least 2")
    first = SequenceMap(lambda t, i: t if i < digits else 0, tokens, indices).named("first digit")
    other = Select(indices, indices + digits, EQ).named("the other number")
    second = Aggregate(other, tokens, default=0).named("second digit")
    total = (first + second).named("digit sum")
    carries: SOp = Map(
        lambda s: "generate" if s >= base else "propagate" if s == base - 1 else "kill", total
    ).named("carry, round 0")
    reach = 1
    while reach < digits:
        lower = _shifted(carries, reach, "kill").named(f"carry {reach} lower")
        carries = SequenceMap(
            lambda own, below: below if own == "propagate" else own, carries, lower
        )
        carries = carries.named(f"carry, reaching {2 * reach} digits")
        reach *= 2
    carried = _shifted(carries, 1, "kill").named("carry in")
    digit = SequenceMap(lambda s, c: (s + (c == "generate")) % base, total, carried).named("digit")
    return SequenceMap(lambda d, i: d if i <= digits else None, digit, indices).named("addition")


def _shifted(sop: SOp, offset: int, default: Value) -> SOp:
    """An expression moved to the right, with a default where there is nothing to move."""
    source = (indices - offset).named(f"index - {offset}")
    return Aggregate(Select(indices, source, EQ).named(f"{offset} before"), sop, default=default)


def _before(keys: SOp) -> Selector:
    """Select what comes before a position in the order of keys, then of positions."""
    smaller = Select(keys, keys, LT).named("smaller key")
    same = Select(keys, keys, EQ).named("same key")
    earlier = Select(indices, indices, LT).named("earlier")
    return (smaller | (same & earlier)).named("before in order")


PROGRAMS: dict[str, Callable[[], SOp]] = {
    "length": make_length,
    "copy": make_copy,
    "reverse": make_reverse,
    "hist": make_hist,
    "sort": make_sort,
    "sort_freq": make_sort_freq,
    "most_frequent": make_most_frequent,
    "induction": make_induction,
    "shift": lambda: shift_by(1),
    "addition": make_addition,
    "shuffle_dyck1": lambda: make_shuffle_dyck(["()"]),
    "shuffle_dyck2": lambda: make_shuffle_dyck(["()", "{}"]),
    "pair_balance": lambda: make_pair_balance(tokens, "(", ")"),
    "frac_prevs": lambda: make_frac_prevs((tokens == "a").named("is a")),
}
"""Programs without arguments, by name."""


def program_named(name: str) -> SOp:
    """Return a program of the library by its name."""
    if name not in PROGRAMS:
        raise InputError(f"there is no program {name!r}; choose one of {', '.join(PROGRAMS)}")
    return PROGRAMS[name]()


def program_of(text: str) -> SOp:
    """Return a program of the library by its name, or one that is written out.

    >>> program_of("length - indices - 1")(list("abc")), program_of("reverse")(list("abc"))
    ([2, 1, 0], ['c', 'b', 'a'])
    """
    text = text.strip()
    if text.isidentifier() and text not in SEQUENCES:
        return program_named(text)
    return parse_program(text)
