"""The limits of a transformer without positions (Jiang & Li 2023, section 4.1 and appendix A.1).

Equation (5) without positions is permutation equivariant, Ĥ(x ∘ p) = Ĥ(x) ∘ p. How much that costs on a
linear target y = Tx can be said exactly. Of inputs whose tokens may be exchanged, the equivariant map
nearest to T in the mean square is its mean over all orders,

    T̄ = (1/τ!) Σ_p Pᵀ T P = a I + b (𝟙𝟙ᵀ − I),    a = tr T / τ,    b = Σ_{t≠s} T_ts / (τ(τ − 1)),

so that with D = T − T̄, tokens independent, of mean μ and variance v,

    floor = (1/τ) Σ_t ( v Σ_s D_ts² + μ² (Σ_s D_ts)² ).

For τ odd, reversing and "the first token everywhere" both have T̄ = 𝟙𝟙ᵀ/τ, uniform attention, and the
floor v(1 − 1/τ): without positions the best answer is the mean of the sequence. Models trained without
positions come down to the floor, models with them go below. For an exponential memory T̄ keeps x(t)
apart from the mean, which is harder for one head without a skip connection: it stays a little above.
The control, y(t) = half x(t) and half the mean, is equivariant: its floor is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.engine.cell import Metrics, Parameters
from exactformer.figures.style import BLUE, GREEN, ORANGE, list_down, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERED = ("reverse", "first", "memory")
CONTROL = "half the mean"
TARGETS = {
    "reverse": "y(t) = x(τ + 1 − t)",
    "first": "y(t) = x(1)",
    "memory": "y(t) = Σ e^(−s) x(t − s)",
    CONTROL: "y(t) = ½ x(t) + ½ mean",
}
MEAN, VARIANCE = 0.5, 1 / 12  # of a token, uniform on [0, 1]


_COMMON = {"width": 32, "tests": 10_000}
SIZES: dict[Scale, dict[str, Any]] = by_scale(
    {"tau": 3, "models": 1, "steps": 700, "sequences": 8000, "rate": 1e-2, "batch": 64},
    {"tau": 5, "models": 2, "steps": 1200, "sequences": 20_000, "rate": 5e-3, "batch": 128},
    {"tau": 5, "models": 4, "steps": 3000, "sequences": 50_000, "rate": 5e-3, "batch": 128},
)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return one ensemble for each target, with positions and without."""
    return [
        {"target": target, "positions": positions, **_COMMON, **SIZES[scale], "seed": 0}
        for target in TARGETS
        for positions in (False, True)
    ]


def matrix(target: str, tau: int) -> NDArray[Any]:
    """Return T."""
    lag = np.subtract.outer(np.arange(tau), np.arange(tau))
    return {
        "reverse": np.eye(tau)[::-1],
        "first": np.outer(np.ones(tau), np.eye(tau)[0]),
        "memory": np.where(lag >= 0, np.exp(-np.abs(lag)), 0.0),
        CONTROL: np.eye(tau) / 2 + np.ones((tau, tau)) / (2 * tau),
    }[target]


def nearest_equivariant(T: NDArray[Any]) -> NDArray[Any]:
    """Return T̄ = a I + b (𝟙𝟙ᵀ − I), the mean of Pᵀ T P over all permutations."""
    tau = len(T)
    a = np.trace(T) / tau
    b = (T.sum() - np.trace(T)) / max(tau * (tau - 1), 1)
    return np.asarray((a - b) * np.eye(tau) + b)


def floor(T: NDArray[Any]) -> float:
    """Return the least mean squared error of an equivariant map, for independent equal tokens."""
    D = T - nearest_equivariant(T)
    return float((VARIANCE * (D**2).sum(1) + MEAN**2 * D.sum(1) ** 2).mean())


def run(parameters: Parameters, device: str) -> Metrics:
    """Train an ensemble; measure its errors, and its symmetry in double precision."""
    from exactformer.learning.ensembles import (
        AttentionConfiguration,
        AttentionEnsemble,
        EnsembleProtocol,
        evaluate,
        train,
    )

    tau, seed = parameters["tau"], parameters["seed"]
    T = matrix(parameters["target"], tau)
    x, held_out, fresh = (
        np.random.default_rng(seed + part).random((count, tau))
        for part, count in enumerate((parameters["sequences"], 2000, parameters["tests"]))
    )
    ensemble = AttentionEnsemble(
        [
            AttentionConfiguration(
                head_dim=16,
                seed=seed + model,
                width=parameters["width"],
                features=16,
                value_dim=16,
                positions="one-hot" if parameters["positions"] else None,
                position_dim=tau + 1,
                tokens=tau,
            )
            for model in range(parameters["models"])
        ],
        device=device,
    )
    steps, batch, rate = (parameters[name] for name in ("steps", "batch", "rate"))
    protocol = EnsembleProtocol(steps, batch, rate, clip=1.0, reports=25, seed=seed)
    history = train(ensemble, x, x @ T.T, protocol, validation=(held_out, held_out @ T.T))
    errors = evaluate(ensemble, fresh, fresh @ T.T).tolist()
    best = int(np.nanargmin(history.final))
    return {
        "mse": errors,
        "best_mse": errors[best],
        "floor": floor(T),
        "over_floor": errors[best] / floor(T) if floor(T) > 1e-12 else None,
        **symmetry(ensemble.double(), best, tau),
    }


def symmetry(ensemble: Any, model: int, tau: int) -> dict[str, Any]:
    """Ask one model whether Ĥ(x ∘ p) = Ĥ(x) ∘ p."""
    from exactformer.probing import check_equivariance

    parameter = next(ensemble.parameters())

    def alone(x: Any) -> Any:
        return ensemble(x[..., 0].to(parameter))[model, ..., None]

    found = check_equivariance(alone, tau, 1)
    return {"equivariant": found.holds, "deviation": found.deviation / found.size}


def quantities(scale: Scale) -> list[Quantity]:
    """Return errors, held against the floor without positions, and how asymmetric models are.

    The asymmetry is the largest |Ĥ(x∘p) − Ĥ(x)∘p| met, over the largest |Ĥ|.
    """
    error = "mean squared error"

    def least(row: Mapping[str, Any]) -> float | None:
        known = row["row"] == error and not row["positions"] and row["target"] in ORDERED
        return floor(matrix(row["target"], SIZES[scale]["tau"])) if known else None

    def drift(row: Mapping[str, Any]) -> float:
        return inf if row["row"] != error else 3.0 if least(row) is None else 0.05

    return rows(
        "{target}, {positions}: {row}",
        {error: "best_mse", "asymmetry": "deviation"},
        {"target": TARGETS, "positions": {False: "without", True: "with positions"}},
        expected=least,
        place="floor in closed form",
        within=lambda row: 0.25 if row["target"] == "memory" else 0.02,
        drift=drift,
    )


_LOOKS = (
    (False, "without positions", {"marker": "o", "color": BLUE}, -0.1),
    (True, "with positions", {"marker": "^", "color": GREEN}, 0.1),
)


def draw(summary: Summary) -> Figure:
    """Draw errors beside the floors, and how far models are from symmetric."""
    figure, (errors, deviations) = subplots(10.5, 3.8, 1, 2, width_ratios=(1.6, 1))
    for place, target in enumerate(TARGETS):
        for positions, name, colours, aside in _LOOKS:
            metrics = summary.cell(target=target, positions=positions).metrics
            look: Any = {**colours, "ls": "", "fillstyle": "none", "ms": 6}
            heights = [place + aside] * len(metrics["mse"])
            errors.plot(metrics["mse"], heights, label=None if place else name, **look)
            deviations.plot(metrics["deviation"], place, **look)
        if metrics["floor"] > 1e-12:
            label = None if place else "floor of equivariant maps"
            ends = [place - 0.32, place + 0.32]
            errors.plot([metrics["floor"]] * 2, ends, color=ORANGE, lw=2, label=label)
    list_down(errors, list(TARGETS.values()))
    errors.set(xscale="log", xlabel="mean squared error, a mark for each seed")
    errors.set_title("Trained models and the floor of symmetry")
    errors.legend(loc="lower left")
    list_down(deviations, [""] * len(TARGETS))
    deviations.set(xscale="log", xlabel=r"largest $|\hat H(x\circ p)-\hat H(x)\circ p|$, relative")
    deviations.set_xlim(1e-17, 10)
    deviations.set_title("Equivariance, to rounding or not")
    return figure


EXPERIMENT = Experiment(
    name="jiang-equivariance",
    title="Without positions a transformer cannot tell orders apart",
    claim="Without positions a model is equivariant and its error on an ordered target stays at "
    "or over a floor that can be computed; with positions it goes below.",
    source="Jiang & Li 2023, section 4.1 and appendix A.1",
    cells=cells,
    run=run,
    quantities=quantities,
    figure=draw,
)


@EXPERIMENT.states("without positions Ĥ(x∘p) = Ĥ(x)∘p, to 10⁻¹² in double precision")
def _(summary: Summary) -> bool:
    return summary.every("not positions", "equivariant and deviation <= 1e-12")


@EXPERIMENT.states("with positions, trained on an ordered target, it is off by over a tenth")
def _(summary: Summary) -> bool:
    return summary.every("positions and target in @ORDERED", "not equivariant and deviation > 0.1")


@EXPERIMENT.states(
    "without positions reversing and copying the first token end within 2 % of the floor"
)
def _(summary: Summary) -> bool:
    copies = "not positions and target in ('reverse', 'first')"
    return summary.every(copies, "0.98 <= over_floor <= 1.02")


@EXPERIMENT.states(
    "without positions memory, whose best map also keeps x(t), ends at most 25 % over it"
)
def _(summary: Summary) -> bool:
    return summary.every("not positions and target == 'memory'", "1 <= over_floor <= 1.25")


@EXPERIMENT.states("with positions to half of it (smoke), a tenth (default), a hundredth (full)")
def _(summary: Summary) -> bool:
    share = by_scale(0.5, 0.1, 0.01)[summary.scale]
    return summary.every("positions and target in @ORDERED", f"over_floor <= {share}")


@EXPERIMENT.states("an equivariant target needs no positions: error below 2 % of the variance")
def _(summary: Summary) -> bool:
    control = "not positions and target == @CONTROL"
    return summary.every(control, "best_mse <= 0.02 * @VARIANCE")
