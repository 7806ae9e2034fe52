"""Names for people: the paper's symbol of every matrix, and what its rows and columns are."""

from __future__ import annotations

from exactformer.polynomials.blueprint import Blueprint

_SYMBOLS = {
    "query": "W_Q",
    "key": "W_K",
    "value": "W_V",
    "w1": "W_1",
    "b1": "b_1",
    "w2": "W_2",
    "b2": "b_2",
}


def title(blueprint: Blueprint, path: str) -> str:
    """Return the paper's symbol of a matrix and where it stands."""
    parts = path.split(".")
    if parts[0] == "embedding":
        return "embedding F" if parts[1] == "features" else "embedding E, positions and ones"
    if parts[0] == "readouts":
        which = f" {int(parts[1]) + 1}" if blueprint.vector else ""
        return f"readout{which} β" if parts[2] == "beta" else f"readout{which} b"
    several = len(blueprint.blocks[int(parts[1])].attention.heads) > 1
    head = f", head {int(parts[3]) + 1}" if parts[2] == "heads" and several else ""
    return f"block {int(parts[1]) + 1}{head}, {_SYMBOLS[parts[-1]]}"


def labels(blueprint: Blueprint, path: str) -> tuple[list[str], list[str]]:
    """Return the names of a matrix's rows and columns."""
    dimensions, name = list(blueprint.dimensions), path.rsplit(".", 1)[1]
    tokens = [f"token {i + 1}" for i in range(blueprint.tokens)]
    matrix = dict(blueprint.matrices())[path]
    numbered = [f"row {i + 1}" for i in range(matrix.rows)]
    units = [f"unit {i + 1}" for i in range(max(matrix.shape))]
    match name:
        case "features":
            return tokens, list(blueprint.variables)
        case "constant" | "beta":
            return tokens, dimensions
        case "query" | "key":
            return numbered, dimensions
        case "value":
            return dimensions, dimensions
        case "w1":
            return units[: matrix.rows], dimensions
        case "b1":
            return units[: matrix.rows], [""]
        case "w2":
            return dimensions, units[: matrix.columns]
        case "b2":
            return dimensions, [""]
        case _:
            return [""], [""]
