"""A cell of tables 2 and 3: all versions of a linear relationship learnt by one architecture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from exactformer.couplings.linear_attention import linear_attention
from exactformer.experiments.jiang.linear import PLAIN_RNN, TEST_SEED, TIMED_RNN, TRANSFORMER
from exactformer.learning.ensembles import (
    AttentionConfiguration,
    AttentionEnsemble,
    Ensemble,
    EnsembleProtocol,
    LinearRNNConfiguration,
    LinearRNNEnsemble,
    evaluate,
    train,
)
from exactformer.targets import LinearTarget

HE = 6**0.5
"""√6: PyTorch's start times this is U(±√(6 / fan-in)), that of He et al. for relu."""


def learn(
    targets: Mapping[str, LinearTarget], parameters: Mapping[str, Any], device: str
) -> dict[str, Any]:
    """Train one model for each version and seed, all at once; return test errors by version."""
    sample = next(iter(targets.values())).sample
    pool = torch.tensor(sample(parameters["pool"], parameters["seed"]), device=device)
    test = torch.tensor(sample(parameters["test"], TEST_SEED), device=device)
    outputs, wanted = (torch.stack([y(x) for y in targets.values()]) for x in (pool, test))
    # Outputs are learnt at variance 1, so that one learning rate serves all versions. A transformer
    # may also be given mean 0, since its last layer has a bias; a linear RNN starts from h = 0.
    attention = parameters["model"] == TRANSFORMER
    scale = outputs.std(dim=(1, 2), keepdim=True)
    centre = outputs.mean(dim=(1, 2), keepdim=True) * attention
    first, seeds = parameters["seed"], parameters["seeds"]
    choice = [version for version in range(len(targets)) for _ in range(seeds)]
    ensemble = _ensemble(parameters, [*range(first, first + seeds)] * len(targets), device)
    protocol = EnsembleProtocol(
        steps=parameters["steps" if attention else "rnn_steps"],
        batch_size=parameters["batch"],
        rate=3e-3 if attention else 2e-3,
        rise=0.05,
        betas=(0.9, 0.99),
        epsilon=1e-10,
        clip=1.0,
        seed=first,
    )
    history = train(ensemble, pool, (outputs - centre) / scale, protocol, choice=choice)
    errors = evaluate(ensemble, test, (wanted - centre) / scale, choice=choice)
    squares = errors.double().view(-1, seeds) * scale[:, 0].square()
    return dict(zip(targets, squares.tolist(), strict=True)) | {
        "training_seconds": history.seconds,
        "diverged": int(history.diverged.sum()),
    }


def constructed_error(target: LinearTarget, samples: int) -> float:
    """Return the mean squared error, in float32, of the transformer with constructed weights."""
    weights = linear_attention(target.matrix)
    width = max(128, 2 * target.tau)
    configuration = AttentionConfiguration(
        head_dim=len(weights.query),
        width=width,
        features=weights.query.shape[1],
        value_dim=len(weights.value),
        positions="one-hot",
        tokens=target.tau,
    )
    ensemble = AttentionEnsemble([configuration])
    ensemble.set_weights(0, weights.named(width))
    x = target.sample(samples, TEST_SEED)
    return float(evaluate(ensemble, x, target(x))[0])


class TimedReadoutEnsemble(LinearRNNEnsemble):
    """Linear RNNs y(t) = c_t·h(t): of τ outputs at every time, the t-th is taken at time t."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.output_dim = 1

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return y (M, B, τ)."""
        return torch.diagonal(super().forward(x, mask), dim1=-2, dim2=-1)


def _ensemble(parameters: Mapping[str, Any], seeds: Sequence[int], device: str) -> Ensemble:
    """Return equal models but for their seeds."""
    tau, model = parameters["tau"], parameters["model"]
    if model == TRANSFORMER:
        sizes = {"head_dim": tau, "features": tau, "value_dim": tau, "width": parameters["width"]}
        attention = AttentionConfiguration(**sizes, positions="one-hot", tokens=tau)
        models = [replace(attention, seed=seed) for seed in seeds]
        ensemble = AttentionEnsemble(models, device=device)
        with torch.no_grad():
            for net in (ensemble.inner, ensemble.outer):
                for weight in list(net.weights)[:-1]:
                    weight.mul_(HE)
        return ensemble
    timed = model == TIMED_RNN
    recurrent = LinearRNNConfiguration(
        states=parameters["states"],
        output_dim=tau if timed else 1,
        bias=True,
        start="default" if model == PLAIN_RNN else "orthogonal",
    )
    kind = TimedReadoutEnsemble if timed else LinearRNNEnsemble
    return kind([replace(recurrent, seed=seed) for seed in seeds], device=device)
