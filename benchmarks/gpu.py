"""The fused executor on a GPU: its rate, beside that of a large matrix product in the same run.

    python -m benchmarks.gpu                          # everything, where there is a GPU
    python -m benchmarks.gpu forms FORMS              # exact weights and bounds; needs no GPU
    python -m benchmarks.gpu measure FORMS RESULTS    # needs no exact arithmetic
    python -m benchmarks.gpu table RESULTS

Useful operations are those of the formula: 2 n d for F·x, then for every token 2 (q − 1) for Horner's
rule, a product and a sum, together 2 n (d + q) a point. Products of float32 are plain ones, without
the tensor cores' shorter formats. Every result is compared with exact arithmetic, and the table says
how much of the certified bound the worst of them used up.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

UNITS = {"NVIDIA H200": {"float32": 66.9, "float64": 33.5}}
"""TFLOP/s of a GPU's units without tensor cores, by its data sheet."""
POINTS = 2**20
PRODUCT = 8192

TARGETS: dict[str, dict[str, Any]] = {
    "vector": {
        "target": "x^5 - 3 x y z + 1/3; x y z + z^2; 2 x^2 y^3 - z",
        "domain": [(Fraction(1, 3), 2), (-1, 1), (0, 1)],
    },
    "chebyshev": {
        "target": "x^12 - x^7 y^5 + 2 x^3 y^9 - y",
        "domain": [(0, 1), (-1, Fraction(1, 2))],
        "construction": "chebyshev",
    },
}


def forms() -> dict[str, Any]:
    """Compile dense (10, 5), a vector and a Chebyshev model: weights, bounds, points, exact values."""
    import exactformer as ef
    from benchmarks.cases import Case

    case = Case("dense 10 5")
    models = {"dense": ef.compile(case.target, radius=case.radius)}
    models |= {name: ef.compile(**options) for name, options in TARGETS.items()}
    return {name: _form(model) for name, model in models.items()}


def _form(model: Any) -> dict[str, Any]:
    from exactformer.algebra import Target
    from exactformer.polynomials.transformer import closed_form

    form = closed_form(model.blueprint)
    target = Target.coerce(model.target, model.blueprint.variables)
    points = [[Fraction(v) for v in p] for p in _points(model.blueprint.domain, form)]
    return {
        "features": _entries(form.features),
        "centre": [str(c) for c in form.centre],
        "coefficients": [_entries(c) for c in form.coefficients],
        "biases": [str(b) for b in form.biases],
        "basis": form.basis.value,
        "vector": form.vector,
        "bounds": {
            name: bound.executed
            for name, bound in model.certificate.fused.items()
            if bound.executed is not None
        },
        "points": [[float(v) for v in point] for point in points],
        "values": [[str(p.at(point)) for p in target] for point in points],
    }


def _points(domain: Any, form: Any, count: int = 40) -> Any:
    """Points of the domain that every format holds: few digits, and not near the boundary."""
    rng = np.random.default_rng(0)
    d = form.features.columns
    directions = rng.normal(size=(count, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    centre = np.array([float(domain.offset(j)) for j in range(d)])
    extent = np.array([float(domain.extent(j)) for j in range(d)])
    points = centre + 0.97 * extent * directions
    return np.round(points * 64) / 64 if d < 5 else np.round(points * 128) / 128


def _entries(matrix: Any) -> dict[str, Any]:
    return {
        "shape": list(matrix.shape),
        "entries": [[i, j, str(value)] for i, j, value in matrix],
    }


def _read(found: dict[str, Any]) -> Any:
    from exactformer.core.matrix import Matrix
    from exactformer.polynomials.run.closed_form import Basis, FusedForm

    def matrix(m: dict[str, Any]) -> Matrix:
        return Matrix.of(*m["shape"], {(i, j): Fraction(v) for i, j, v in m["entries"]})

    return FusedForm(
        matrix(found["features"]),
        tuple(map(Fraction, found["centre"])),
        tuple(map(matrix, found["coefficients"])),
        tuple(map(Fraction, found["biases"])),
        Basis(found["basis"]),
        found["vector"],
    )


def measure(cases: dict[str, Any]) -> dict[str, Any]:
    """Run on the GPU: errors of every case in every format, rates of the dense one."""
    import torch

    from benchmarks.tables import provenance

    torch.set_float32_matmul_precision("highest")
    errors = {
        f"{name}, {dtype}": _error(found, dtype)
        for name, found in cases.items()
        for dtype in found["bounds"]
    }
    form = _read(cases["dense"])
    rates = [{"way": w, "format": f, "TFLOP/s": r} for w, f, r in _rates(form)]
    made = provenance("gpu", ("exactformer", "torch", "triton"))
    return {
        "provenance": made | {"machine": torch.cuda.get_device_name()},
        "tokens": form.features.rows,
        "points": POINTS,
        "error / bound": errors,
        "rates": rates,
    }


def _error(found: dict[str, Any], dtype: str) -> float:
    """Return the largest |computed − exact| over the certified bound."""
    import torch

    from exactformer.polynomials.run.closed_form_module import FusedTransformer

    module = FusedTransformer(_read(found), getattr(torch, dtype)).cuda()
    points = torch.tensor(found["points"], dtype=getattr(torch, dtype)).cuda()
    # Many copies, so that every thread and a last, shorter block take part.
    computed = module(points.repeat(1000, 1)).double().cpu().reshape(1000, len(points), -1)
    assert torch.equal(computed, computed[:1].expand_as(computed))
    exact = [[Fraction(v) for v in row] for row in found["values"]]
    worst = max(
        abs(Fraction(c) - e)
        for ours, theirs in zip(computed[0].tolist(), exact, strict=True)
        for c, e in zip(ours, theirs, strict=True)
    )
    return float(worst) / found["bounds"][dtype]


def _rates(form: Any) -> Iterator[tuple[str, str, float]]:
    import torch

    from exactformer.polynomials.run.closed_form_module import FusedTransformer

    n, d = form.features.shape
    q = form.coefficients[0].columns
    useful = 2 * n * (d + q) * POINTS
    for dtype in (torch.float32, torch.float64):
        a, b = (torch.randn(PRODUCT, PRODUCT, device="cuda", dtype=dtype) for _ in range(2))
        rate = 2 * PRODUCT**3 / _seconds(lambda a=a, b=b: a @ b) / 1e12  # type: ignore[misc]
        yield f"matrix product, {PRODUCT:,}³", _name(dtype), rate
    for dtype, read in (
        (torch.float32, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.bfloat16),
        (torch.float64, torch.float64),
    ):
        module = FusedTransformer(form, dtype).cuda()
        x = (torch.rand(POINTS, d, device="cuda") / d).to(read)
        way = "fused" if dtype == read else f"fused, {_name(read)} points"
        yield way, _name(dtype), useful / _seconds(lambda m=module, x=x: m(x)) / 1e12  # type: ignore[misc]
    module = FusedTransformer(form, torch.float32).cuda()
    x = torch.rand(POINTS, d, device="cuda") / d

    def plain(points: torch.Tensor) -> torch.Tensor:
        t = points @ module.features.T
        value = module.coefficients[0, -1].expand_as(t)
        for column in module.coefficients[0, :-1].flip(0):
            value = column + value * t
        return (value * t).sum(dim=1) + module.bias

    compiled = torch.compile(plain)
    yield "torch.compile of the formula", "float32", useful / _seconds(lambda: compiled(x)) / 1e12
    few = x[: POINTS // 16]  # all at once would take 8 GB at every step
    yield "torch, one step at a time", "float32", useful / 16 / _seconds(lambda: plain(few)) / 1e12


def _seconds(call: Callable[[], Any]) -> float:
    from triton.testing import do_bench

    return float(do_bench(call, warmup=50, rep=300, return_mode="median")) / 1e3


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def table(results: dict[str, Any]) -> None:
    """Store what was measured."""
    from benchmarks.tables import keep, markdown, origin, show

    product = {r["format"]: r["TFLOP/s"] for r in results["rates"] if r["way"].startswith("matrix")}
    units = UNITS.get(results["provenance"]["machine"], {})
    columns = ("way", "format", "TFLOP/s", "of the float32 product", "of the format's units")
    cells = [
        [
            r["way"],
            r["format"],
            f"{r['TFLOP/s']:.1f}",
            f"{r['TFLOP/s'] / product['float32']:.0%}",
            f"{r['TFLOP/s'] / units[r['format']]:.0%}" if r["format"] in units else "",
        ]
        for r in results["rates"]
    ]
    name, share = max(results["error / bound"].items(), key=lambda pair: pair[1])
    note = (
        f"Dense (10, 5): {results['tokens']:,} tokens, {results['points']:,} points; 2 n (d + q) "
        "useful operations a point. Errors of three models, in every format that holds their values, "
        f"against exact arithmetic in the same run: at most {share:.2g} of the certified bound "
        f"({name}). The last column is of what the units for a format do without tensor cores, by the "
        "data sheet; products of float64 use tensor cores."
    )
    title = "The fused executor on a GPU"
    show(title, columns, cells)
    made = origin(results["provenance"])
    keep("gpu", title, [note, "", *markdown(columns, cells), "", made], results)


def main(command: str = "", *paths: str) -> None:
    """Carry out one step, or all of them."""
    files = [Path(path) for path in paths]
    if command == "forms":
        files[0].write_text(json.dumps(forms()))
    elif command == "measure":
        files[1].write_text(json.dumps(measure(json.loads(files[0].read_text()))))
    elif command == "table":
        table(json.loads(files[0].read_text()))
    else:
        with tempfile.TemporaryDirectory() as folder:
            between = [str(Path(folder) / name) for name in ("forms.json", "results.json")]
            main("forms", between[0])
            main("measure", *between)
            main("table", between[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
