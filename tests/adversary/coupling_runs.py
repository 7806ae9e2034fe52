"""Files and modules of couplings: what they state, and how far modules are from equation (5)."""

from __future__ import annotations

import random
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import exactformer
from exactformer.core.certificate import Kind
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.files import STATED, save_coupling
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import ErrorTerms
from exactformer.couplings.proof.rounding import rounding_bound
from exactformer.errors import ExactformerError, WeightMismatchError
from exactformer.targets import Coupling
from tests.adversary.coupling_interpreter import LONG, Interpreter
from tests.adversary.coupling_refuting import edgy
from tests.adversary.tiny_numbers import flushed

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SHARES = (4, 4, 1, 1)
EXECUTORS = ("fused", "literal")


def loaded(blueprint: CouplingBlueprint, **options: Any) -> CouplingModel:
    """Return the model of a blueprint that was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save_coupling(blueprint, path)
        model = exactformer.load(path, **options)
    assert isinstance(model, CouplingModel)
    return model


def false_mark(model: CouplingModel, target: Coupling | None) -> str | None:
    """Return where a loaded model's bound is not marked as what it is."""
    wanted = STATED if target is None else "computed"
    try:
        certificate = model.certificate
    except WeightMismatchError:
        if target is not None:
            return "there is no bound, where one was computed"
        return None if "no bound" in str(model) else "a model without bound prints one"
    bound = certificate.rounded()
    texts = {"the certificate": str(certificate), "the model": str(model)}
    texts["the data"] = str(bound.to_dict())
    for place, text in texts.items():
        if wanted not in text or (target is None and "computed" in text):
            return f"{place} does not say that the bound is {wanted}: {text}"
    kind = Kind.STATED if target is None else Kind.NUMERICAL
    if (bound.source, certificate.bound().kind, certificate.kind) != (wanted, kind, kind):
        return f"the bound is {certificate.bound().kind}, {bound.source}, not {kind}, {wanted}"
    again = ErrorTerms.of_dict(bound.to_dict())
    if again.source != wanted:
        return f"read again from its data the bound is {again.source}, not {wanted}"
    if not bound.total >= 0:
        return f"the bound is {bound.total}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "again.safetensors")
        model.save(path)
        try:
            copy = exactformer.load(path)
        except ExactformerError:
            return None
    source = copy.certificate.rounded().source  # type: ignore[union-attr]
    return None if source == STATED else f"saved and loaded again, the bound is {source}"


def false_module(rng: random.Random, blueprint: CouplingBlueprint) -> str | None:
    """Return where a module is farther from equation (5) than its rounding bound."""
    dtype, executor = rng.choices(DTYPES, SHARES)[0], rng.choice(EXECUTORS)
    try:
        model = CouplingModel(blueprint, executor=executor, dtype=dtype)
    except ExactformerError:
        return None
    return false_outputs(rng, model)


def false_outputs(rng: random.Random, model: CouplingModel) -> str | None:
    """Compare a module with the interpreter, in numbers longer than its own."""
    blueprint, dtype = model.blueprint, next(model.parameters()).dtype
    claim = rounding_bound(blueprint, dtype, model.executor)
    if np.isnan(claim):
        return f"the rounding bound is {claim}"
    x = torch.from_numpy(edgy(rng, blueprint, 24)).to(dtype)
    exact = x.double().numpy()
    low, high = blueprint.domain
    inside = [all(low <= Fraction(v) <= high for v in row) for row in exact.tolist()]
    if claim == np.inf or not any(inside):
        return None
    with np.errstate(all="ignore"):
        wanted = Interpreter(blueprint, LONG)(exact[inside])
    for flush in (False, True):
        try:
            with torch.no_grad(), flushed(flush):
                outputs = model(x[inside])
        except ExactformerError:
            continue
        outputs = outputs.double().numpy()
        gaps = np.abs(outputs - wanted)
        worst = np.unravel_index(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)), gaps.shape)
        if not gaps[worst] <= claim:
            return (
                f"{model.executor} in {dtype}{', flushed,' * flush} returns {outputs[worst]!r}, off by "
                f"{float(gaps[worst]):.4g} and not at most {claim:.4g}, at "
                f"{exact[inside][worst[0]].tolist()}, token {worst[1] + 1}"
            )
    return None
