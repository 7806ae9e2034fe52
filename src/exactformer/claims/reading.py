"""The ledger's files, read and checked."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from functools import cache
from importlib import resources
from typing import Any, get_args

from exactformer.claims.records import Claim, Condition, Erratum, Kind, Value, Weight
from exactformer.errors import FileFormatError

PAPERS: dict[str, str] = {
    "fang-2022": "Fang, Ouyang, Zhou, Cheng (2022), *Attention enables zero approximation error*",
    "yun-2020": "Yun, Bhojanapalli, Rawat, Reddi, Kumar (2020), *Are transformers universal "
    "approximators of sequence-to-sequence functions?*, with the slides of So (2020) that explain it",
    "jiang-li-2023": "Jiang, Li (2023), *Approximation rate of the Transformer architecture for "
    "sequence modeling*",
}
"""The files of the ledger, each with the works it is about."""

_ID = re.compile(r"[a-z][a-z0-9-]{0,59}")
_TEST = re.compile(r"tests/[\w/]+\.py::test_\w+")
_PARTS = {"values": Value, "conditions": Condition, "errata": Erratum}
_WORDS: dict[str, tuple[str, ...]] = {
    "kind": get_args(Kind),
    "weight": get_args(Weight),
    "threshold": ("paper", "ours"),
}


@cache
def ledger(paper: str) -> tuple[Claim, ...]:
    """Return the claims of one file, in the order of the paper."""
    text = resources.files(__package__).joinpath(f"{paper}.toml").read_text(encoding="utf-8")
    return read(text, f"{paper}.toml")


@cache
def every() -> tuple[Claim, ...]:
    """Return all claims of the ledger."""
    return tuple(claim for paper in PAPERS for claim in ledger(paper))


@cache
def of_experiment(name: str) -> tuple[Claim, ...]:
    """Return the claims of the papers that an experiment speaks to."""
    return tuple(claim for claim in every() if name in claim.experiments and not claim.beyond)


def read(text: str, where: str) -> tuple[Claim, ...]:
    """Return the claims of a file's text.

    Raises:
        FileFormatError: naming the claim, what is wrong with it and what is allowed.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{where} is not TOML: {error}.") from None
    if set(content) != {"claim"}:
        raise FileFormatError(f"{where} holds tables called {sorted(content)}; use [[claim]] only.")
    claims = tuple(_claim(entry, where) for entry in content["claim"])
    ids = [claim.id for claim in claims]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise FileFormatError(f"{where} has several claims called {', '.join(twice)}.")
    return claims


def _claim(entry: dict[str, Any], where: str) -> Claim:
    at = f"{where}, claim {entry.get('id')!r}"
    if not _ID.fullmatch(str(entry.get("id"))):
        raise FileFormatError(f"{at}: an id is lower-case words and digits joined by hyphens.")
    parts = {
        name: tuple(_part(kind, part, f"{at}, {name}") for part in entry.get(name, []))
        for name, kind in _PARTS.items()
    }
    claim: Claim = _part(Claim, {**entry, **parts}, at)
    evidence = claim.tests or claim.lemmas or claim.values or claim.conditions or claim.errata
    if bool(evidence) == bool(claim.not_tried) and not claim.beyond:
        raise FileFormatError(f"{at}: give evidence, or the reason in not_tried, and not both.")
    return claim


def _part(kind: type[Any], entry: dict[str, Any], at: str) -> Any:
    """Return a record of ``entry``; what is missing, unknown or of another kind raises."""
    known = {field.name for field in fields(kind)}
    if unknown := sorted(set(entry) - known):
        raise FileFormatError(f"{at}: there is no field {unknown[0]!r}; use {sorted(known)}.")
    for name, words in _WORDS.items():
        if name in entry and entry[name] not in words:
            raise FileFormatError(f"{at}: {name} is {entry[name]!r}; use {', '.join(words)}.")
    made = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
    for test in made.get("tests", ()):
        if not _TEST.fullmatch(test):
            raise FileFormatError(f"{at}: {test!r} is not tests/….py::test_….")
    try:
        record = kind(**made)
    except TypeError as error:
        raise FileFormatError(f"{at}: {error}.") from None
    if isinstance(record, Erratum) and record.weight == "wrong" and not record.tests:
        raise FileFormatError(f"{at}: what is wrong needs the test that shows it.")
    if isinstance(record, Value):
        try:
            float(record.published)
        except (TypeError, ValueError):
            raise FileFormatError(f"{at}: published is {record.published!r}, no number.") from None
    return record
