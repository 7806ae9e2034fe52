"""Figure 6: averages over the tokens that a token names (equations 63–66).

Token t carries a vector and k = 3 indices; the answer is the mean of the vectors named, so attention is
{0, 1/3, 2/3, 1}. It is learnt with indices as unit vectors, and for comparison as the numbers the
text's R^(d+k) has. The input drawn has the indices of equation (66).
"""

from exactformer.experiments import Metrics, Parameters, Summary, by_scale
from exactformer.experiments.jiang.tasks import Training, limited, run_task, task_experiment

SHOWN_SEED = 3


def run(parameters: Parameters, device: str) -> Metrics:
    """Train, or construct."""
    from exactformer.targets import EQUATION_66, AverageBySelection

    task = AverageBySelection(**parameters["task"])
    published = EQUATION_66 if (task.tau, task.k) == (8, 3) else None
    return run_task(task, parameters, device, task.sample(1, SHOWN_SEED, published)[0])


EXPERIMENT = task_experiment(
    "jiang-figure-6",
    title="Averages by selection, learnt by one attention layer",
    claim="Attention is how often a token is named, over k, and F̂ ∘ f̂ is (v, s) ↦ v.",
    source="Jiang & Li 2023, figure 6 and appendix B.1",
    task=by_scale(
        {"tau": 4, "dim": 1, "k": 2, "unit_indices": True},
        {"tau": 8, "dim": 2, "k": 3, "unit_indices": True},
    ),
    training=by_scale(
        Training(2, 600, 64, 1e-2, 4000, 1000, 32, 16, 16, 8),
        Training(2, 2500, 128, 5e-3, 20_000, 4000, 128),
        Training(8, 15_000, 256, 3e-3, 200_000, 10_000, 128),
    ),
    compared={"indices as numbers": {"unit_indices": False}},
    run=run,
    statements=[
        limited(
            "the trained model's largest weight is on a token named most for at least this share of "
            "tokens",
            least=True,
            best_right=by_scale(0.8, 0.97, 0.999),
        ),
        limited(
            "the share of its attention in the wrong place is at most",
            best_misplaced=by_scale(0.2, 0.1, 0.02),
        ),
        limited(
            "F̂∘f̂ is (v, s) ↦ v, to a root mean square of",
            best_composition_rms=by_scale(0.2, 0.1, 0.05),
        ),
    ],
    figure="exactformer.experiments.jiang.tasks_drawing:average_by_selection",
)


@EXPERIMENT.states("indices as unit vectors are learnt better than as numbers")
def _(summary: Summary) -> bool:
    units, numbers = (cell.metrics["best_mse"] for cell in summary.select(kind="trained"))
    return bool(units < numbers)
