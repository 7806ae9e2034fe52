"""Figure 5: centres of gravity, one for each segment of a sequence (equations 57–62).

A prediction token pools the masses of its segment, every other token keeps to itself; F ∘ f is the
norm. Tokens carry the number of their segment, without which no pairwise score gives these weights. The
input drawn has segments of 3 and 5 points, and so its prediction tokens at 0 and 4; the text has 5.
"""

from exactformer.experiments import Metrics, Parameters, by_scale
from exactformer.experiments.jiang.tasks import Training, limited, run_task, task_experiment

SHOWN_SEED = 5
LENGTHS = {6: (2, 2), 10: (3, 5)}


def run(parameters: Parameters, device: str) -> Metrics:
    """Train, or construct."""
    from exactformer.targets import CentreOfGravity

    task = CentreOfGravity(**parameters["task"])
    return run_task(task, parameters, device, task.sample(1, SHOWN_SEED, LENGTHS[task.tau])[0])


EXPERIMENT = task_experiment(
    "jiang-figure-5",
    title="Centres of gravity by segments, learnt by one attention layer",
    claim="Prediction tokens weigh the points of their segment by their masses, other tokens keep to "
    "themselves, and F̂ ∘ f̂ is the norm.",
    source="Jiang & Li 2023, figure 5 and appendix B.1",
    task=by_scale({"tau": 6, "dim": 2}, {"tau": 10, "dim": 2}),
    training=by_scale(
        Training(2, 600, 64, 1e-2, 4000, 1000, 64, 32, 16, 16, tied=True),
        Training(2, 3000, 128, 3e-3, 20_000, 4000, 128, 64, tied=True),
        Training(8, 15_000, 256, 3e-3, 200_000, 10_000, 128, 64, tied=True),
    ),
    run=run,
    statements=[
        limited(
            "the trained model's largest weight is where it should be for at least this share",
            least=True,
            best_right=by_scale(0.6, 0.9, 0.97),
        ),
        limited("its mean squared error is at most", best_mse=by_scale(2e-2, 2e-3, 1e-4)),
        limited(
            "F̂∘f̂ is the norm, to a root mean square of",
            best_composition_rms=by_scale(0.3, 0.1, 0.05),
        ),
    ],
    figure="exactformer.experiments.jiang.tasks_drawing:centre_of_gravity",
)
