"""Random and mutated texts: an answer or one of four errors, nothing else, and no code is run."""

import random
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from exactformer.algebra import Polynomial
from exactformer.errors import InputError, ParseError, SizeError
from tests.waiting import ended_if_it_hangs

EXPECTED = (ParseError, SizeError, InputError)  # UnknownVariableError is a ParseError

PIECES = [
    *(
        "x y z x1 x2 x10 _a é α ς ٣ 0 1 2 3 7 10 0.5 .5 5. 1e3 1e-3 1e9999 2e 99999 "
        "+ - − * ** ^ / ( ) · × ² ³ ⁰ ¹² ^^ // () (( )) , ; : ' \" [ ] { } = == != < > | & % $ # @ ! ? "
        "~ \\ . .. ... lambda import __import__ eval exec os system sin exp max True None inf nan 1j "
        "xy x1x2 ax temp pi αβ x_{1} _{ ^{2} ^{ \\frac \\frac{1}{2} }{ \\cdot \\alpha \\left( \\right) "
        "\\mathrm{ab} \\, \\sqrt 0x1f 1_000 \u200b \u00a0 \ufeff \u2028 \ud800 \U0001d465"
    ).split(" "),
    *[" ", "\t", "\n", "\0", "\x1b", "\x1c", ""],
]

SEEDS = (
    "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9",
    "2(x+y)^3 - 1/2 x y + 0.125",
    "((a+b)(a-b))^2/4 - .5e-3 a b c",
    "−3·x²y³ × (z - 1)**2",
    "__import__('os').system('false')",
    "(lambda: x)()",
    r"\frac{3}{4} x_{1}^{2} \cdot \left(y - \alpha\right)^{3}",
)


def random_text(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 24)))
    text = list(rng.choice(SEEDS))
    for _ in range(rng.randint(1, 5)):
        place = rng.randrange(len(text) + 1)
        change = rng.randrange(4)
        if change == 0 and text:
            del text[min(place, len(text) - 1)]
        elif change == 1:
            text[place:place] = list(rng.choice(PIECES))
        elif change == 2 and text:
            text[min(place, len(text) - 1)] = chr(rng.randrange(1, 0x11000 if place % 9 else 128))
        else:
            other = rng.randrange(len(text) + 1)
            text[place:place] = text[min(place, other) : max(place, other)]
    return "".join(text)


def campaign(seed: int, count: int) -> int:
    """Parse ``count`` texts; return how many were polynomials."""
    rng = random.Random(seed)
    polynomials = 0
    for _ in range(count):
        text = random_text(rng)
        variables = ["x", "y"] if rng.random() < 0.1 else None
        try:
            with ended_if_it_hangs():
                p = Polynomial.parse(text, variables)
        except EXPECTED:
            continue
        polynomials += 1
        if len(p) < 50:
            assert Polynomial.parse(str(p), p.variables) == p
    return polynomials


def test_twenty_thousand_texts_give_a_polynomial_or_a_clear_error() -> None:
    polynomials = campaign(seed=1, count=20_000)
    assert polynomials > 300  # the campaign reaches the inside of the grammar


@pytest.mark.slow
def test_a_million_texts_give_a_polynomial_or_a_clear_error() -> None:
    with ProcessPoolExecutor(2) as pool:
        polynomials = sum(pool.map(campaign, range(100, 120), [50_000] * 20))
    assert polynomials > 15_000


_watching: list[str] | None = None


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _watching is not None:
        _watching.append(event)


def test_parsing_runs_no_code_and_touches_no_file() -> None:
    global _watching
    campaign(seed=2, count=50)  # whatever is imported late is imported now
    sys.addaudithook(_watch)
    _watching = []
    try:
        campaign(seed=2, count=2_000)
        seen = set(_watching)
    finally:
        _watching = None
    forbidden = ("exec", "compile", "import", "open", "os.", "subprocess", "socket", "ctypes")
    assert not [event for event in seen if event.startswith(forbidden)]
