"""The way of one point through a compiled polynomial, part by part, in sentences with its numbers.

Every number is read from the trace and the weights. A sentence about an offset or a product is made
only where the numbers bear it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exactformer.algebra.rational import to_float
from exactformer.core.words import plural

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from exactformer.core.layers import Head
    from exactformer.polynomials.blueprint import Blueprint

    Numbers = NDArray[np.float64]

MOST_STEPS = 40
MOST_HEADS = 3
"""Heads of a block that have a step of their own."""
MOST_TOKENS = 64
MOST_TERMS = 4
_SAME = 1e-6  # relative; float16 streams are less exact, and say less


@dataclass(frozen=True)
class Step:
    """A part's doing: what it is called, in words, and where one token looks in it."""

    title: str
    words: str
    part: str
    token: int
    features: list[float]
    scores: list[float] | None = None
    selection: list[float] | None = None
    hub: str = ""
    """What the tokens come from, or what they lead to."""


def walk(
    blueprint: Blueprint, seen: Mapping[str, Tensor], point: Sequence[float], value: float
) -> list[dict[str, Any]]:
    """Return the steps of ``point``, whose trace is ``seen`` and whose output is ``value``."""
    streams = {
        name: tensor.detach().double().numpy()
        for name, tensor in seen.items()
        if tensor.dim() == 2 and not name.endswith((" scores", " selection"))
    }
    before = streams["tokens"]
    features = before[:, blueprint.embedding.dimension]
    token = int(abs(features).argmax()) if len(features) else 0
    shown = [float(number) for number in features[:MOST_TOKENS]]
    given = _place(point)
    steps = [
        Step("Tokens", _embedded(blueprint, point, token), "embedding", token, shown, hub=given)
    ]
    for b, block in enumerate(blueprint.blocks, start=1):
        after = streams[f"block {b} output"]
        heads = block.attention.heads
        for h in _telling_heads(heads)[:MOST_HEADS]:
            head, together = heads[h - 1], sum(_rows(each) == _rows(heads[h - 1]) for each in heads)
            name = f"block {b} head {h}" if len(heads) > 1 else f"block {b}"
            if f"{name} scores" not in seen or len(steps) >= MOST_STEPS:
                continue
            scores = seen[f"{name} scores"].detach().double().numpy()
            selection = seen[f"{name} selection"].detach().double().numpy()
            words = [
                _looked(scores, selection, token),
                _written(blueprint, head, token, scores, before, after, together),
            ]
            if h == 1 and len(heads) > 1:
                words.insert(0, f"This block has {plural(len(heads), 'head')} that work at once.")
            title = f"Block {b}" + (f", head {h}" if len(heads) > 1 else "")
            row = (scores[token, :MOST_TOKENS].tolist(), selection[token, :MOST_TOKENS].tolist())
            part = f"block-{b}"
            steps.append(Step(title, " ".join(filter(None, words)), part, token, shown, *row))
        before = after
    told, answer = _read_out(blueprint, before, value), f"Q(x) = {figure(value, 6)}"
    steps.append(Step("Readout", told, "readout", token, shown, hub=answer))
    return [asdict(step) for step in steps]


def _rows(head: Head) -> list[int]:
    return sorted({i for i, _, _ in head.value})


def _telling_heads(heads: Sequence[Head]) -> list[int]:
    """Return the first head, from 1, for everything that heads of a block write."""
    first: dict[tuple[int, ...], int] = {}
    for h, head in enumerate(heads, start=1):
        first.setdefault(tuple(_rows(head)), h)
    return list(first.values())


def _embedded(blueprint: Blueprint, point: Sequence[float], token: int) -> str:
    count = plural(blueprint.tokens, "token")
    if not point:
        return f"There are no variables: {count} with constants."
    row = {j: to_float(entry) for i, j, entry in blueprint.embedding.features if i == token}
    terms = [(entry, point[j]) for j, entry in sorted(row.items())]
    total = sum(entry * coordinate for entry, coordinate in terms)
    each = "Each looks" if blueprint.tokens > 1 else "It looks"
    return (
        f"{_place(point)} becomes {count}. {each} at x along a direction of its own. "
        f"Token {token + 1}: {_sum(terms)} = {figure(total)}."
    )


def _place(point: Sequence[float]) -> str:
    return f"x = ({', '.join(map(figure, point[:6]))}{', …' if len(point) > 6 else ''})"


def _looked(scores: Numbers, selection: Numbers, token: int) -> str:
    row, chosen = scores[token], int(selection[token].argmax())
    own, share = float(row[token]), float(selection[token, chosen])
    others = [float(score) for j, score in enumerate(row) if j != token]
    if not others:
        return f"Token {token + 1} is alone: its score with itself is {figure(own)}."
    told = (
        f"Token {token + 1} scores every token: {figure(own)} for itself, at most "
        f"{figure(max(others))} for the others."
    )
    whom = "itself" if chosen == token else f"token {chosen + 1}"
    if share > 1 - _SAME:
        return f"{told} The largest wins: it selects {whom}."
    return f"{told} By softmax it gives {whom} {figure(100 * share)} % of its attention."


def _written(
    blueprint: Blueprint,
    head: Head,
    token: int,
    scores: Numbers,
    before: Numbers,
    after: Numbers,
    together: int,
) -> str:
    """Say what the block has left in the row that this head, or several together, writes."""
    import numpy as np

    rows = _rows(head)
    rows = [i for i in rows if after[token, i] != before[token, i]] or rows
    if not rows:
        return "It writes nothing."
    row, name = rows[0], blueprint.dimensions[rows[0]]
    left = float(after[token, row])
    own, told = float(scores[token, token]), f"It stores {name} = {figure(left)}"
    if together > 1:
        told = f"{plural(together, 'head')} together store {name} = {figure(left)}"
    for sign, note in ((1, f"stored as {name}"), (-1, f"stored with a minus sign as {name}")):
        offsets = np.diag(scores) - sign * after[:, row]
        offset = float(offsets[0])
        is_same = bool(abs(offsets - offset).max() <= _SAME * max(1.0, abs(offset)))
        if together == 1 and is_same and abs(offset) > _SAME:
            told = (
                f"{figure(offset)} was added to its own score so that it wins, and is taken away "
                f"again: {figure(own)} − {figure(offset)} = {figure(own - offset)}, {note}"
            )
            break
    factors = _factors(blueprint, before[token], left)
    return f"{told}. {factors}" if factors else f"{told}."


def _factors(blueprint: Blueprint, held: Numbers, product: float) -> str:
    """Say of which two numbers of the token this is the product, if it is."""
    named = [
        (blueprint.dimensions[i], float(number))
        for i, number in enumerate(held)
        if number and not blueprint.dimensions[i].startswith(("position", "one"))
    ]
    for name, one in named:
        for other, two in named:
            for sign, words in ((1, ""), (-1, "minus ")):
                if abs(sign * one * two - product) <= _SAME * abs(product):
                    what = f"{name} squared" if name == other else f"{name} times {other}"
                    return f"That is {words}{figure(one)} · {figure(two)}: {what}."
    return ""


def _read_out(blueprint: Blueprint, stream: Numbers, value: float) -> str:
    readout = blueprint.readouts[0]
    terms = [(to_float(beta), float(stream[i, j])) for i, j, beta in readout.beta]
    terms = [term for term in terms if term[0] * term[1]]
    terms.sort(key=lambda term: -abs(term[0] * term[1]))
    bias = f" + {figure(to_float(readout.bias))}" if readout.bias else ""
    if not terms:
        return f"Nothing is left to add: the transformer's answer is {figure(value, 6)}."
    more = len(terms) - MOST_TERMS
    rest = f" + {more} smaller {'term' if more == 1 else 'terms'}" if more > 0 else ""
    return (
        f"The readout adds up what the tokens hold: {_sum(terms[:MOST_TERMS])}{rest}{bias} = "
        f"{figure(value, 6)}, the transformer's answer."
    )


def _sum(terms: Iterable[tuple[float, float]]) -> str:
    """Write products as a sum, with one sign each.

    >>> _sum([(1.5, 2.0), (-0.5, 4.0)])
    '1.5·2 − 0.5·4'
    """
    text = ""
    for count, (one, two) in enumerate(terms):
        if count == MOST_TERMS:
            return f"{text} + …"
        sign = "−" if one < 0 else "+"
        product = f"{figure(abs(one))}·{figure(two)}"
        text += f" {sign} {product}" if text else ("−" if one < 0 else "") + product
    return text or "0"


def figure(value: float, digits: int = 3) -> str:
    """Return a number for a sentence.

    >>> figure(-0.70710678), figure(2.0)
    ('−0.707', '2')
    """
    return f"{value:.{digits}g}".replace("-", "−")
