"""What a blueprint of any family is: rows for people, plain data for machines."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.core.loading import family_of
from exactformer.core.words import plural
from exactformer.polynomials.blueprint import table_names

if TYPE_CHECKING:
    from exactformer.core.certificate import Certificate
    from exactformer.couplings.blueprint import CouplingBlueprint
    from exactformer.polynomials.blueprint import Blueprint
    from exactformer.programs.blueprint import ProgramBlueprint
    from exactformer.sequences.blueprint import SequenceBlueprint


def name_of(family: str) -> str:
    """Return what a model of a family is called: polynomial, sequence, coupling or program."""
    return family.removesuffix("s")


def read_blueprint(file: Path) -> Any:
    """Return the blueprint that a file holds; nothing is proven of it."""
    family = family_of(file)
    name = "load_blueprint" if family == "polynomials" else f"load_{name_of(family)}"
    found = getattr(import_module(f"exactformer.{family}.files"), name)(file)
    return found[0] if family in ("sequences", "programs") else found  # others hold nothing besides


def model_facts(blueprint: Any) -> dict[str, Any]:
    """Return what a model is, as plain data."""
    data: dict[str, Any] = _DESCRIPTIONS[family_of(blueprint)][0](blueprint)
    return data


def rows_of(blueprint: Any, certificate: Certificate | None = None) -> dict[str, str]:
    """Return what a model is, a line for every name; what is proven is named by its certificate."""
    rows: dict[str, str] = _DESCRIPTIONS[family_of(blueprint)][1](blueprint)
    if "polynomial" in rows and (target := getattr(certificate, "target", None)):
        rows["polynomial"] = target
    return rows


def variable_list(variables: tuple[str, ...]) -> str:
    """Return names with commas, in the order of the coordinates."""
    from exactformer.algebra.printing import name_list

    return name_list(variables) or "none"


def _polynomial_data(blueprint: Blueprint) -> dict[str, Any]:
    counts = blueprint.counts()
    return {
        "target": blueprint.metadata.get("target"),
        "variables": list(blueprint.variables),
        "columns": list(table_names(blueprint, "columns") or blueprint.variables),
        "domain": str(blueprint.domain),
        "radius": str(blueprint.radius),
        "outputs": len(blueprint.readouts),
        "degree": blueprint.degree,
        "construction": blueprint.construction,
        "directions": blueprint.metadata.get("directions"),
        "tokens": counts.tokens,
        "width": counts.width,
        "depth": counts.depth,
        "free_parameters": counts.free,
        "nonzeros_per_block": list(counts.per_block),
        "nonzeros": counts.total,
    }


def _polynomial_rows(blueprint: Blueprint) -> dict[str, str]:
    counts = blueprint.counts()
    how = blueprint.construction
    if "directions" in blueprint.metadata:
        how = f"{how} construction, {blueprint.metadata['directions']} directions"
    variables = plural(len(blueprint.variables), "variable")
    columns = table_names(blueprint, "columns")
    return {
        "polynomial": blueprint.metadata.get("target", "not named"),
        "domain": f"{blueprint.domain} in {variables} ({variable_list(blueprint.variables)})",
        **({"columns": variable_list(columns)} if columns else {}),
        "transformer": f"{plural(counts.tokens, 'token')} of width {counts.width}, "
        f"{plural(counts.depth, 'block')} ({how})",
        "parameters": f"{counts.free:,} free, {counts.total:,} non-zeros in all",
    }


def _sequence_data(blueprint: SequenceBlueprint) -> dict[str, Any]:
    counts = blueprint.counts()
    return {
        "tokens": blueprint.tokens,
        "dim": blueprint.dim,
        "delta": str(blueprint.delta),
        "support": [str(end) for end in blueprint.support],
        "form": blueprint.form,
        "realisation": blueprint.realisation,
        "positional": blueprint.positional,
        "width": counts.width,
        "layers": dict(counts.layers),
        "depth": counts.depth,
        "weights": counts.weights,
        "key_bits": counts.key_bits,
        "dimensions": list(blueprint.dimensions),
    }


def _sequence_rows(blueprint: SequenceBlueprint) -> dict[str, str]:
    counts = blueprint.counts()
    low, high = blueprint.support
    layers = ", ".join(f"{name} {count:,}" for name, count in counts.layers.items())
    positions = "with positions" if blueprint.positional else "permutation equivariant"
    return {
        "inputs": f"{plural(blueprint.tokens, 'token')} of dimension {blueprint.dim} in "
        f"[{low}, {high})",
        "cells": f"{blueprint.cells} per side, δ = {blueprint.delta}",
        "transformer": f"{blueprint.form} form, {blueprint.realisation}, {positions}, "
        f"width {counts.width}",
        "layers": f"{counts.depth:,}: {layers}",
        "weights": f"{counts.weights:,} that are not zero; keys of {counts.key_bits} bits",
    }


def _coupling_data(blueprint: CouplingBlueprint) -> dict[str, Any]:
    counts, places = blueprint.counts(), blueprint.positions
    return {
        "target": blueprint.metadata.get("target"),
        "tokens": blueprint.tau,
        "domain": [str(end) for end in blueprint.domain],
        "positions": None if places is None else [str(place) for place in places],
        "head_dim": blueprint.head_dim,
        "value_dim": blueprint.value_dim,
        "features": counts.features,
        "hidden": list(counts.hidden),
        "outer_hidden": list(counts.outer_hidden),
        "weights": counts.weights,
        "dimensions": list(blueprint.dimensions),
    }


def _coupling_rows(blueprint: CouplingBlueprint) -> dict[str, str]:
    counts = blueprint.counts()
    low, high = blueprint.domain
    positions = "without positions" if blueprint.positions is None else "with positions"
    return {
        "coupling": blueprint.metadata.get("target") or "not named",
        "inputs": f"{plural(blueprint.tau, 'token')}, one number each, in [{low}, {high}]",
        "transformer": f"one head of dimension {blueprint.head_dim}, "
        f"{plural(blueprint.value_dim, 'value row')}, {positions}",
        "f̂": _widths(1, *counts.hidden, counts.features),
        "F̂": _widths(blueprint.value_dim, *counts.outer_hidden, 1),
        "weights": f"{counts.weights:,} values at knots; all else follows from the knots",
    }


def _program_data(blueprint: ProgramBlueprint) -> dict[str, Any]:
    return {
        "tokens": blueprint.max_length,
        "vocabulary": blueprint.tokens.rows - blueprint.beginning,
        "causal": blueprint.causal,
        "beginning": blueprint.beginning,
        "selection": str(blueprint.selection.rule),
        "sizes": blueprint.sizes,
        "dimensions": list(blueprint.dimensions),
    }


def _program_rows(blueprint: ProgramBlueprint) -> dict[str, str]:
    sizes = blueprint.sizes
    order = "causal" if blueprint.causal else "every position sees all"
    begins = "with" if blueprint.beginning else "without"
    return {
        "inputs": f"1 to {plural(blueprint.max_length, 'token')} of "
        f"{blueprint.tokens.rows - blueprint.beginning}, {order}, {begins} a beginning token",
        "transformer": f"{plural(sizes['layers'], 'layer')} of width {sizes['width']}, at most "
        f"{plural(sizes['heads'], 'head')} and {plural(sizes['hidden'], 'ReLU')} each; "
        f"{blueprint.selection.rule}",
    }


def _widths(*sizes: int) -> str:
    return " → ".join(f"{size:,}" for size in sizes)


_DESCRIPTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "polynomials": (_polynomial_data, _polynomial_rows),
    "sequences": (_sequence_data, _sequence_rows),
    "couplings": (_coupling_data, _coupling_rows),
    "programs": (_program_data, _program_rows),
}
"""By family: plain data of a blueprint, and rows."""
