"""Models of programs: the library's, hard and softmax, causal and not, longer ones, random ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import torch

import exactformer as ef
from exactformer import rasp
from exactformer.programs import library
from exactformer.programs.library import PROGRAMS
from tests.cases.programs import random_program
from tests.golden.case import Case

KINDS = ("hard", "softmax")
CAUSAL = ("length", "copy", "hist", "induction", "frac_prevs", "shift")
WORDS: dict[str, Any] = {
    "addition": "0123456789", "shuffle_dyck1": "()", "shuffle_dyck2": "(){}", "pair_balance": "()",
    "sort": [3, 1, 2], "sort_freq": "abc",
}  # fmt: skip
LONG = {"reverse": 17, "frac_prevs": 40, "shift": 33, "copy": 129}
"""Programs for which so many tokens are quick."""
RANDOM = 30


def cases() -> Iterator[Case]:
    """Yield honest models of programs."""
    for name, kind, causal in product(PROGRAMS, KINDS, (False, True)):
        if not causal or name in CAUSAL:
            yield _case(name, kind, 5, causal=causal)
    for (name, most), kind in product(LONG.items(), KINDS):
        yield _case(name, kind, most, slow=most > 100 and kind == "softmax")
    for dtype, kind in product(("float32", "bfloat16", "float16"), KINDS):
        yield _case("hist", kind, 4, dtype=getattr(torch, dtype))
    yield _case("reverse", "hard", 4, beginning=False)
    yield _case("sort", "softmax", 4, sharpness=16)
    sums = {
        "tokens + indices": rasp.tokens + rasp.indices,
        "pattern": library.detect_pattern(rasp.tokens, [1, 2]),
    }
    for (name, program), kind in product(sums.items(), KINDS):
        make = partial(
            ef.compile_program, program, vocabulary=[1, 2], max_length=3, realisation=kind
        )
        yield Case(f"{kind}, {name}, 3 tokens", make, ("literal",))
    for seed in range(RANDOM):
        kind = KINDS[seed % 2]
        yield Case(f"{kind}, random program {seed}", partial(_random, seed, kind), ("literal",))


def _case(name: str, kind: str, most: int, slow: bool = False, **options: Any) -> Case:
    more = "".join(
        f", {key} {str(v).removeprefix('torch.')}" for key, v in options.items() if v is not False
    )
    given = {"vocabulary": WORDS.get(name, "abc"), "max_length": most, "realisation": kind}
    make = partial(_compiled, name, **given, **options)
    dtypes = ("float64", "float32")
    if "dtype" in options:
        dtypes = (str(options["dtype"]).removeprefix("torch."),)
    return Case(f"{kind}, {name}, {most} tokens{more}", make, ("literal",), dtypes, slow=slow)


def _compiled(name: str, **options: Any) -> ef.ProgramModel:
    return ef.compile_program(PROGRAMS[name](), **options)


def _random(seed: int, kind: str, **options: Any) -> ef.ProgramModel:
    expression, vocabulary, length, causal = random_program(seed, depth=4)
    return ef.compile_program(
        expression,
        vocabulary=vocabulary[:3],
        max_length=min(length, 4),
        causal=causal,
        realisation=kind,
        **options,
    )
