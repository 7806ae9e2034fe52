"""Figure 4: the nearest of six points, learnt by one attention layer (equations 54–56).

Tokens are pairs (u, v), and the answer to u is the nearest v. The hard-max of the target jumps where
two points are as near; softmax does not, and the constructed scores −λ|u − v|² of head size d + 1 show
what that costs: a mean squared error of order 1/λ.
"""

from math import log

from exactformer.experiments import Metrics, Parameters, Summary, by_scale
from exactformer.experiments.jiang.tasks import (
    Training,
    constructed,
    limited,
    run_task,
    task_experiment,
)

SHOWN_SEED = 515  # points that lie well apart, so that the drawing can be read


def run(parameters: Parameters, device: str) -> Metrics:
    """Train, or construct."""
    from exactformer.targets import NearestPoint

    task = NearestPoint(**parameters["task"])
    return run_task(task, parameters, device, task.sample(1, SHOWN_SEED)[0])


EXPERIMENT = task_experiment(
    "jiang-figure-4",
    title="The nearest point of a set, learnt by one attention layer",
    claim="Attention finds the nearest point, and F̂ ∘ f̂ is (u, v) ↦ v.",
    source="Jiang & Li 2023, figure 4 and appendix B.1",
    task=by_scale({"tau": 3, "dim": 1}, {"tau": 6, "dim": 2}),
    training=by_scale(
        Training(2, 600, 64, 1e-2, 4000, 1000, 32, 16, 16, 8),
        Training(2, 3000, 128, 5e-3, 20_000, 4000, 128),
        Training(8, 20_000, 256, 5e-3, 200_000, 10_000, 128),
    ),
    sharpness=(10.0, 100.0, 1e3, 1e4),
    pooled=False,
    run=run,
    statements=[
        limited(
            "the trained model's largest weight is on the nearest point for at least this share of u",
            least=True,
            best_right=by_scale(0.8, 0.9, 0.97),
        ),
        limited("its mean squared error is at most", best_mse=by_scale(2e-2, 5e-3, 1e-3)),
        limited(
            "F̂∘f̂ is (u, v) ↦ v, to a root mean square of",
            best_composition_rms=by_scale(0.2, 0.05, 0.02),
        ),
    ],
    figure="exactformer.experiments.jiang.tasks_drawing:nearest_point",
)


@EXPERIMENT.states("the constructed error falls like 1/λ, exponent −1 ± 0.2")
def _(summary: Summary) -> bool:
    first, *_, last = (c for c in constructed(summary) if c.parameters["sharpness"] >= 100)
    decades = log(last.parameters["sharpness"] / first.parameters["sharpness"])
    return abs(log(last.metrics["mse"] / first.metrics["mse"]) / decades + 1) <= 0.2
