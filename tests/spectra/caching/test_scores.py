"""The change of scores that moments predict, beside all pairs of queries and errors."""

import torch

from exactformer.spectra.caching.rotary import Sizes, rotated
from exactformer.spectra.caching.scores import predicted_change


def turns(tokens: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.arange(tokens).double()[:, None] * torch.tensor([1.0, 0.3, 0.01]).double()
    angles = torch.cat([angles, angles], dim=-1)[None, :, :dim]
    return angles.cos(), angles.sin()


def test_it_is_the_mean_over_all_pairs_of_queries_errors_and_places() -> None:
    random = torch.Generator().manual_seed(0)
    sizes = Sizes(heads=4, key_heads=2, head_dim=8, rotary_dim=6, scale=0.3)
    queries = torch.randn(5, 4, 8, generator=random, dtype=torch.float64)
    errors = torch.randn(7, 2, 8, generator=random, dtype=torch.float64)
    tokens, (cos, sin) = 6, turns(6, 6)

    def at(vectors: torch.Tensor, place: int) -> torch.Tensor:
        return rotated(vectors[:, :, None], *(x[:, place : place + 1] for x in (cos, sin)))[:, :, 0]

    squares = [
        torch.einsum("ahd,bhd->abh", at(queries, t), at(errors, s).repeat_interleave(2, 1)).square()
        for t in range(1, tokens)
        for s in range(1, t + 1)
    ]
    second = torch.einsum("ahd,ahe->hde", queries, queries) / len(queries)
    flat = errors.flatten(1)
    found = predicted_change(second, flat.T @ flat / len(flat), (cos, sin), sizes)
    assert abs(found - 0.3 * float(torch.stack(squares).mean().sqrt())) < 1e-12
