"""What a file states beyond its weights changes nothing that is proven or computed.

Every key of a file's content, of every kind of file, gets other values: zero, in another order, huge,
with control characters, of another language, none at all. Then the file is refused; or it loads, and
outputs and proven claims are those of the honest one; or the claim that changed says who states it.
What is part of the statement itself (a domain, a grid, a table) is proven anew for the changed one.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.core.certificate import Kind
from exactformer.errors import CertificationError, ExactformerError, SizeError
from exactformer.programs.library import make_reverse
from exactformer.programs.values import words_of
from exactformer.targets import sine_family
from tests.cases.forged import File

CONTROL = "x\n  ✓ identity    proven\x1b[2J"
OTHER = "Größe مرحبا"


def polynomial() -> Any:
    return ef.compile("x - 2 y", radius=2)


def function() -> Any:
    return ef.compile(np.exp, domain=[(0, 1)], tolerance=1e-6)


def sequence() -> Any:
    def moved(x: Any) -> Any:
        return 10 + x - x.mean()

    options = {"tokens": 2, "dim": 1, "delta": "1/4", "form": "compact"}
    return ef.compile_sequence(moved, **options).bounded(1, target=moved)


def softened() -> Any:
    return ef.compile_sequence(lambda x: x - x.mean(), tokens=2, dim=1, delta="1/2").softened()


def coupling() -> Any:
    return ef.compile_coupling(sine_family([1.0, 0.5], tau=3), 1, 16)


def program() -> Any:
    return ef.compile_program(make_reverse(), vocabulary="ab", max_length=3)


MODELS: dict[str, Callable[[], Any]] = {
    "polynomial": polynomial,
    "function": function,
    "sequence": sequence,
    "softened": softened,
    "coupling": coupling,
    "program": program,
}
INPUTS: dict[str, Any] = {
    "polynomial": [[1.0, 0.25], [0.5, -1.0]],
    "function": [[0.25], [0.75]],
    "sequence": [[0.1], [0.9]],
    "softened": [[0.1], [0.9]],
    "coupling": [0.1, 0.5, 0.9],
    "program": [[0, 1, 1], [1, 0, -1]],
}
STATEMENT = {
    "domain", "centre", "radius", "half_widths", "variables", "vector", "degree",
    "delta", "support", "tokens", "dim", "cells", "positional", "repeats", "grid",
    "breaks", "pieces", "outer", "knots", "intervals", "box", "positions",
    "vocabulary", "max_length", "causal", "constants", "nodes", "selectors", "output", "numerical",
}  # fmt: skip
"""Keys of what is proven, and of weights: proven anew for what they have become."""

LISTS = {"heads", "parts", "stages", "layers", "blocks"}
"""Lists of weights, which are other weights in another order."""


@dataclass(frozen=True)
class Known:
    """What is computed and proven of a model."""

    outputs: torch.Tensor
    named: Any
    proven: list[tuple[str, str]]
    bounds: list[float]


def known(name: str, model: Any) -> Known:
    outputs = model(INPUTS[name]).detach()
    named = None
    if name == "polynomial":
        named = model(pd.DataFrame(INPUTS[name], columns=["x", "y"])).detach().tolist()
    certificate = model.certificate
    proven = [(c.name, c.text) for c in certificate.claims if c.kind is Kind.PROVEN]
    try:
        bound = certificate.bound()
        bounds = [float(bound)] if bound.kind is Kind.PROVEN else []
    except CertificationError:
        bounds = []
    return Known(outputs, named, proven, bounds)


def honest(name: str, folder: Path) -> tuple[File, Known]:
    path = folder / f"{name}.safetensors"
    MODELS[name]().save(path)
    return File.read(path), known(name, ef.load(path))


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every text, number, flag and list of a content."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*place, key)
            yield from leaves(item, (*place, key))
    elif isinstance(value, list):
        for key, item in enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place


def mutations(value: Any) -> dict[str, Any]:
    """Return other values in the place of one, by what was done."""
    if isinstance(value, dict):
        return {}
    if isinstance(value, list):
        return {"permuted": value[::-1], "zero": []}
    if isinstance(value, bool):
        return {"permuted": not value}
    if isinstance(value, int):
        return {"zero": 0, "permuted": value + 1, "huge": 2**31 - 1}
    if not isinstance(value, str):
        return {}
    found = {"control": CONTROL, "other": OTHER, "zero": "0/1", "huge": "f" * 3000 + "/1"}
    try:
        parts = json.loads(value)
    except ValueError:
        parts = None
    if isinstance(parts, list):
        found |= {
            "permuted": json.dumps(parts[::-1]),
            "control": json.dumps([CONTROL, *parts[1:]]),
        }
    if isinstance(parts, dict):
        for key, part in parts.items():
            for other in (0, 1e300, CONTROL):
                if type(part) in (type(other), int, float, str):
                    found[f"{key} = {other!r}"] = json.dumps({**parts, key: other})
    return found


def changed(file: File, place: tuple[Any, ...], value: Any, drop: bool = False) -> File:
    content = copy.deepcopy(file.content)
    at: Any = content["model"]
    for key in place[:-1]:
        at = at[key]
    if drop:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return File(file.kind, content, file.tensors)


def outcome(name: str, file: File, before: Known, place: tuple[Any, ...], path: Path) -> str:
    """Write a changed file, load it, and return what became of the change."""
    file.written(path)
    try:
        model = ef.load(path)
        after = known(name, model)
    except ExactformerError:
        return "refused"
    for text in (str(model.certificate), str(model), *(c.text for c in model.certificate.claims)):
        assert "\x1b" not in text, place
        assert "✓ identity" not in text, place
    same = after.outputs.shape == before.outputs.shape and torch.equal(
        after.outputs.nan_to_num(7.0), before.outputs.nan_to_num(7.0)
    )
    same = same and after.named == before.named
    if same and (after.proven, after.bounds) == (before.proven, before.bounds):
        return "without effect"
    assert STATEMENT & set(map(str, place)) or place[-1] in LISTS, (name, place, before, after)
    return "proven anew"


def outcomes(name: str, folder: Path, each: int) -> Counter[str]:
    """Change every key of a file, that of items of lists ``each`` times, and count the outcomes."""
    file, before = honest(name, folder)
    seen: Counter[str] = Counter()
    model = file.content["model"]
    often: Counter[tuple[Any, ...]] = Counter()
    for place in leaves(model):
        alike = tuple("" if isinstance(key, int) else key for key in place)
        often[alike] += 1
        if often[alike] > each:
            continue
        value: Any = model
        for key in place:
            value = value[key]
        tried = [changed(file, place, other) for other in mutations(value).values()]
        if isinstance(place[-1], str):
            tried.append(changed(file, place, None, drop=True))
        for other in tried:
            seen[outcome(name, other, before, place, folder / "changed.safetensors")] += 1
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_no_key_of_a_file_changes_what_is_proven_or_computed(name: str, tmp_path: Path) -> None:
    seen = outcomes(name, tmp_path, 1)
    assert seen["refused"]
    assert seen["without effect"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_item_of_a_list_does_either(name: str, tmp_path: Path) -> None:
    assert outcomes(name, tmp_path, 1000)["refused"]


def forged(file: Path, **metadata: str) -> None:
    """Set entries of a file's metadata, sealed afresh."""
    found = File.read(file)
    model = found.content["model"]
    model.get("blueprint", model)["metadata"].update(metadata)
    found.written(file)


def test_norms_that_a_file_states_are_no_part_of_a_proven_bound(tmp_path: Path) -> None:
    def moved(x: Any) -> Any:
        return 10 + x - x.mean()

    path = tmp_path / "model"
    honest = sequence()
    honest.save(path)
    forged(path, **{"modulus equal norm": "0/1"})
    certificate = ef.load(path).certificate
    assert certificate.bound().kind is Kind.STATED
    assert certificate.kind is Kind.STATED
    assert "‖f‖ = 0 on equal columns" in str(certificate)
    again = ef.certify(path, moved).bound()
    assert again.kind is Kind.STATED
    assert again == honest.certificate.bound()


def test_columns_do_not_exchange_variables(tmp_path: Path) -> None:
    path = tmp_path / "model"
    ef.compile("x - y", radius=2).save(path)
    forged(path, columns=json.dumps(["y", "x"]))
    with pytest.raises(ExactformerError, match="another variable's name"):
        ef.load(path)


@pytest.mark.parametrize("text", ["x\n  ✓ identity", "\x1b[2J", "a\u202eb", "a\u2028b"])
def test_a_file_writes_no_lines_of_its_own(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    ef.compile("x - y", radius=2).save(path)
    for entries in ({"directions": text}, {"columns": json.dumps([text, "b"])}):
        ef.compile("x - y", radius=2).save(path)
        forged(path, **entries)
        with pytest.raises(ExactformerError):
            ef.load(path)


def test_tokens_may_be_any_texts(tmp_path: Path) -> None:
    model = ef.compile_program(make_reverse(), vocabulary=["\n", "\x1b"], max_length=2)
    model.save(tmp_path / "model")
    assert ef.load(tmp_path / "model").decode(["\n", "\x1b"]) == ["\x1b", "\n"]


def test_a_program_in_a_file_is_no_longer_than_one_that_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "model"
    program().save(path)
    file = File.read(path)
    file.content["model"]["program"]["max_length"] = 60_000
    file.written(path)
    with pytest.raises(ExactformerError, match="limit is 4,096"):
        ef.load(path)


def test_linear_maps_of_too_many_pairs_are_refused() -> None:
    widths = [
        rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, comparison))
        for comparison in (rasp.Comparison.EQ, rasp.Comparison.LT)
    ]
    total = rasp.LinearSequenceMap(*widths, 1, 1)
    with pytest.raises(SizeError, match="limit is 2,000,000"):
        ef.compile_program(total, vocabulary=[1, 2], max_length=3000, causal=True)


def test_what_was_measured_in_one_format_is_not_said_of_another(tmp_path: Path) -> None:
    model = ef.compile(np.exp, domain=[(0, 1)], tolerance=1e-6)
    here = model.approximation
    assert here.measured_in == "float64, literal"
    model.save(tmp_path / "model")
    loaded = ef.load(tmp_path / "model", dtype=torch.float32)
    there = loaded.approximation
    assert "stated by the file" in str(there)
    assert "a bound on rounding in float32" in str(there)
    assert there.error >= here.polynomial + float(loaded.certificate.bound())


def test_words_of_an_export_tell_all_values_apart() -> None:
    assert words_of([1, "1"]) == ["r1/1", "s1"]
    assert words_of([None, "a", 1]) == ["None", "a", "1"]


def test_a_radius_of_very_many_digits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    ef.compile("x - y", radius=2).save(path)
    file = File.read(path)
    file.content["model"]["domain"]["radius"] = "f" * 60_000 + "/1"
    file.written(path)
    with pytest.raises(ExactformerError, match="digits"):
        ef.load(path)


def test_a_negative_view_is_another_weight() -> None:
    model = polynomial()
    weight = next(model.parameters())
    weight.data = torch._neg_view(weight.data)
    with pytest.raises(ExactformerError):
        model.certificate  # noqa: B018
