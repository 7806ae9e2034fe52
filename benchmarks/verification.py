"""Every input of a trained model: throughput next to the plain forward pass, and large spaces.

    python -m benchmarks.verification [--quick] [--device cuda] [--largest]

Rows are max-of-k over 64 tokens by one block with MLP, LayerNorm and GELU, trained here from a seed.
The plain forward pass runs at its fastest batch, in float32, in the same run; the verdict includes the
bounds of float32 in any order of sums and the claim. ``--largest`` decides max-of-5, 1,073,741,824
inputs, which needs a GPU.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.tables import keep, markdown, origin, provenance, show

Row = dict[str, Any]
TOKENS = 64


class Largest(nn.Module):
    """One block of attention and GELU units between norms; the answer at the last position."""

    def __init__(self, length: int, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, width)
        self.positions = nn.Parameter(torch.randn(length, width) * width**-0.5)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.readout = nn.Linear(width, TOKENS, bias=False)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions
        y = self.norms[0](x)[:, None]
        x = x + self.o(
            functional.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))[:, 0]
        )
        x = x + self.down(functional.gelu(self.up(self.norms[1](x))))
        return self.readout(self.norms[2](x)[:, -1])


def trained(length: int, device: torch.device, steps: int, seed: int = 0) -> Largest:
    """Train on random inputs, rare ones included: low tokens, equal tokens."""
    torch.manual_seed(seed)
    model = Largest(length).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    batch = 4096 if device.type == "cuda" else 512
    for _ in range(steps):
        ids = torch.randint(TOKENS, (batch, length), device=device)
        top = torch.randint(1, TOKENS + 1, (batch // 2, 1), device=device)
        ids[: batch // 2] = (torch.rand(batch // 2, length, device=device) * top).long()
        ids[: batch // 8] = ids[: batch // 8, :1]
        loss = functional.cross_entropy(model(ids), ids.amax(1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        plan.step()
    return model.eval().requires_grad_(False)


def plain_rate(model: nn.Module, length: int, device: torch.device) -> tuple[float, int]:
    """Return inputs per second of the plain forward pass at its fastest batch, and that batch."""
    best = (0.0, 0)
    sizes = [2**k for k in (range(12, 21, 2) if device.type == "cuda" else range(7, 14))]
    for size in sizes:
        ids = torch.randint(TOKENS, (size, length), device=device)
        seconds, runs = 0.0, 0
        with torch.no_grad():
            model(ids)
            begin = time.perf_counter()
            while seconds < 1.0:
                model(ids)
                if device.type == "cuda":
                    torch.cuda.synchronize()
                runs, seconds = runs + 1, time.perf_counter() - begin
        best = max(best, (runs * size / seconds, size))
    return best


def largest(ids: Tensor) -> Tensor:
    """Answer as the model should."""
    return ids.amax(1)


def measure(
    length: int, device: torch.device, steps: int, arithmetic: str, seconds: float | None, how: str
) -> Row:
    """Train, time the plain pass, and decide all inputs or as many as time allows."""
    import exactformer as ef

    model = trained(length, device, steps)
    rate, batch = plain_rate(model, length, device)
    begin = time.perf_counter()
    verdict = ef.verify(
        model,
        largest if how == "batched" else max,
        vocabulary=range(TOKENS),
        length=length,
        arithmetic=arithmetic,
        batched=how == "batched",
        seconds=seconds,
    )
    wall = time.perf_counter() - begin
    done = verdict.total - verdict.unseen
    return {
        "inputs": verdict.total,
        "claim": how,
        "arithmetic": arithmetic,
        "decided": done,
        "right": verdict.right,
        "wrong": verdict.wrong,
        "undecided": verdict.doubtful,
        "seconds": wall,
        "inputs per second": done / wall,
        "plain per second": rate,
        "plain batch": batch,
        "ratio": done / wall / rate,
        "device": verdict.device,
        "threads": torch.get_num_threads(),
    }


def table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return names of columns and cells."""
    names = [
        *("inputs", "claim", "arithmetic", "right", "wrong", "undecided", "seconds"),
        *("inputs per second", "plain pass", "ratio", "device"),
    ]
    cells = [
        [
            f"{row['inputs']:,}",
            row["claim"],
            row["arithmetic"],
            *(f"{row[k]:,}" for k in ("right", "wrong", "undecided")),
            f"{row['seconds']:.0f}",
            *(f"{row[k]:,.0f}" for k in ("inputs per second", "plain per second")),
            f"1/{1 / row['ratio']:.1f}",
            row["device"],
        ]
        for row in rows
    ]
    return names, cells


def run(quick: bool, device_name: str, largest_too: bool) -> list[Row]:
    """Measure, and unless quick write the page."""
    device = torch.device(device_name)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
    steps = 200 if quick else 4000
    cases: list[tuple[int, str, float | None, str]] = [
        (3, "float32", 60.0, "one by one"),
        (3, "real", 60.0, "batched"),
    ]
    if not quick:
        cases += [(4, "float32", None, "batched")]
    if largest_too:
        cases += [(5, "float32", None, "batched")]
    rows = [
        measure(length, device, steps, arithmetic, seconds, how)
        for length, arithmetic, seconds, how in cases
    ]
    show("Verdicts on every input", *table(rows))
    if not quick:
        name = "verification" if device.type == "cpu" else "verification_gpu"
        run = provenance("verification", ("exactformer", "torch", "numpy"))
        run["command"] += f" --device {device_name}" + (" --largest" if largest_too else "")
        note = (
            f"Max-of-k over {TOKENS} tokens: one block with MLP, LayerNorm and GELU, width 32, trained "
            "from a seed. float32 covers every order of summation; the plain pass is float32 at its "
            "fastest batch, in the same run and without a claim."
        )
        large = "" if largest_too else "1,073,741,824 inputs: not measured."
        page = [note, "", *markdown(*table(rows)), "", *([large, ""] if large else []), origin(run)]
        keep(name, "Verdicts on every input", page, {"rows": rows, "provenance": run})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="little training, nothing written")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--largest", action="store_true", help="1,073,741,824 inputs, on a GPU")
    options = parser.parse_args()
    run(options.quick, options.device, options.largest)
