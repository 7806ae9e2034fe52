"""Learning a task of appendix B.1 by ensembles of equation (53), and what was learnt, part by part.

A model is asked four things: how far its answers are off; whether its largest weight is on a token
that should have it; how much of its attention is in the wrong place, ½ Σ_s |Â_ts − A_ts|; and how far
F̂ ∘ f̂ is from F ∘ f. The last is read off sequences of one token, whose attention is 1.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exactformer.experiments.engine.cell import Parameters
from exactformer.learning.ensembles import (
    AttentionConfiguration,
    AttentionEnsemble,
    EnsembleProtocol,
    train,
)
from exactformer.targets import AttentionTask, attend, soft_attention, soft_error_bound

TEST, SHOWN = 10_000, 20_000  # seeds of other data: apart from those of training
_TOKENS = 600  # at which F̂ ∘ f̂ is drawn
_ROWS = 1000


def learn(
    task: AttentionTask, parameters: Parameters, device: str, shown: NDArray[Any]
) -> dict[str, Any]:
    """Train an ensemble, measure every model on fresh data; of the best keep what is drawn."""
    seed, tests = parameters["seed"], parameters["tests"]
    ensemble = start(task, parameters, device)
    x, held_out, fresh = (
        task.sample(count, seed + part)
        for count, part in ((parameters["sequences"], 1), (tests, 2), (tests, TEST))
    )
    protocol = EnsembleProtocol(
        steps=parameters["steps"],
        batch_size=parameters["batch"],
        rate=parameters["rate"],
        clip=1.0,
        reports=25,
        seed=seed,
    )
    pairs = [(task.encode(part), _answers(task, part)) for part in (x, held_out)]
    history = train(ensemble, *pairs[0], protocol, validation=pairs[1])
    best = int(np.nanargmin(history.final))
    found = measure(task, ensemble, fresh)
    alone = {f"best_{name}": values[best] for name, values in found.items()}
    at, learnt = composition(task, ensemble, task.sample(_TOKENS, seed + SHOWN))
    return {
        **found,
        **alone,
        "median_mse": float(np.median(found["mse"])),
        "best": best,
        "seconds of training": history.seconds,
        "x": shown,
        "attention": attention(task, ensemble, shown[None])[best, 0],
        "meant": task.attention(shown),
        "at": at[:_TOKENS],
        "learnt": learnt[best, :_TOKENS],
    }


def start(task: AttentionTask, parameters: Parameters, device: str) -> AttentionEnsemble:
    """Return models as PyTorch starts them, but with larger W_Q and W_K.

    Left as they are, attention is uniform for the first thousand steps. ``gain`` multiplies both;
    ``tied`` makes them equal at the start, so that tokens attend to their likes and to themselves.
    """
    ensemble = AttentionEnsemble(
        [
            AttentionConfiguration(
                head_dim=parameters["head_dim"],
                seed=parameters["seed"] + model,
                width=parameters["width"],
                features=parameters["features"],
                value_dim=parameters["value_dim"],
                input_dim=task.token_dim,
                output_dim=task.output_dim,
            )
            for model in range(parameters["models"])
        ],
        device=device,
    )
    for model in range(ensemble.models):
        weights = ensemble.weights(model)
        query = parameters["gain"] * weights["query"]
        key = query if parameters["tied"] else parameters["gain"] * weights["key"]
        ensemble.set_weights(model, {"query": query, "key": key})
    return ensemble


def measure(
    task: AttentionTask, ensemble: AttentionEnsemble, x: NDArray[Any]
) -> dict[str, list[float]]:
    """Return, for every model, how its answers, its attention and F̂ ∘ f̂ compare with the task's."""
    meant, answers = task.attention(x), task(x)
    found, weights = outputs(task, ensemble, x), attention(task, ensemble, x)
    at, learnt = composition(task, ensemble, x)
    away = np.linalg.norm(learnt - task.readout(at), axis=-1)
    return {
        "mse": ((found - answers) ** 2).mean(axis=(1, 2, 3)).tolist(),
        **compare(weights, meant),
        "composition_rms": np.sqrt((away**2).mean(axis=1)).tolist(),
        "composition_max": away.max(axis=1).tolist(),
    }


def compare(weights: NDArray[Any], meant: NDArray[Any]) -> dict[str, list[float]]:
    """Compare attention (M, B, τ, τ) with what is meant (B, τ, τ), for every model.

    ``pooled`` counts only the rows in which several tokens have weight.
    """
    largest = weights.argmax(axis=-1)[..., None]
    had = np.take_along_axis(np.broadcast_to(meant, weights.shape), largest, axis=-1)[..., 0]
    right = had >= meant.max(axis=-1) - 1e-9
    misplaced = np.abs(weights - meant).sum(axis=-1) / 2
    found = {"right": right.mean(axis=(1, 2)), "misplaced": misplaced.mean(axis=(1, 2))}
    several = (meant > 0).sum(axis=-1) > 1
    if several.any():
        found["pooled_right"] = right[:, several].mean(axis=-1)
        found["pooled_misplaced"] = misplaced[:, several].mean(axis=-1)
    return {name: values.tolist() for name, values in found.items()}


def composition(
    task: AttentionTask, ensemble: AttentionEnsemble, x: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return f and F̂ ∘ f̂ at the tokens of x that some attention is meant for: (T, ·), (M, T, o)."""
    used = task.attention(x).max(axis=-2) > 0
    tokens = task.encode(x)[used][: _ROWS * task.tau, None]
    at = task.values(x)[used][: len(tokens)]
    found = _evaluated(ensemble, ensemble, tokens)
    return at, found.reshape(*found.shape[:2], task.output_dim)


def outputs(task: AttentionTask, ensemble: AttentionEnsemble, x: NDArray[Any]) -> NDArray[Any]:
    """Return every model's answers (M, B, τ, o)."""
    found = _evaluated(ensemble, ensemble, task.encode(x))
    return found.reshape(*found.shape[:3], task.output_dim)


def attention(task: AttentionTask, ensemble: AttentionEnsemble, x: NDArray[Any]) -> NDArray[Any]:
    """Return every model's attention (M, B, τ, τ)."""
    return _evaluated(ensemble.attention, ensemble, task.encode(x))


@torch.no_grad()
def _evaluated(
    function: Callable[[torch.Tensor], torch.Tensor],
    ensemble: AttentionEnsemble,
    tokens: NDArray[Any],
) -> NDArray[Any]:
    rows = torch.split(torch.as_tensor(tokens).to(ensemble.query), _ROWS)
    found = torch.cat([function(part).cpu() for part in rows], dim=1)
    return np.asarray(found.double().numpy())


def _answers(task: AttentionTask, x: NDArray[Any]) -> NDArray[Any]:
    answers = task(x)
    return answers[..., 0] if task.output_dim == 1 else answers


def construct(task: AttentionTask, parameters: Parameters) -> dict[str, float]:
    """Measure the softmax of the task's own scores, with f and F exact: no training, no fitting."""
    x = task.sample(parameters["tests"], parameters["seed"] + TEST)
    sharpness = parameters["sharpness"]
    weights = soft_attention(task, x, sharpness)
    away = np.linalg.norm(attend(task, x, weights) - task(x), axis=-1)
    bound = soft_error_bound(task, x, sharpness)
    compared = {
        name: values[0] for name, values in compare(weights[None], task.attention(x)).items()
    }
    return {
        "mse": float((away**2).mean() / task.output_dim),
        "largest": float(away.max()),
        "beyond": float((away - bound).max()),
        "rank": float(task.rank),
        **compared,
    }
