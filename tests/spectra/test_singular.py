"""Thin factorisations give the singular values of score matrices that are never formed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.spectra.extraction import watching
from exactformer.spectra.singular import present, singular_values
from exactformer.spectra.statistics import effective_rank, energy_shares
from tests.examples import examples
from tests.spectra import families
from tests.spectra.families import HUGGING_FACE, OWN, TIMM, TORCH, Case, build


@settings(max_examples=examples(60))
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from([1, 2]),
    st.integers(),
)
def test_values_are_those_of_the_product(
    rows: int, columns: int, m: int, share: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed % 2**32)
    queries = torch.randn(2 * share, rows, m, generator=random, dtype=torch.float64)
    keys = torch.randn(2, columns, m, generator=random, dtype=torch.float64)
    found = singular_values(queries, keys)
    formed = torch.linalg.svdvals(queries @ keys.repeat_interleave(share, dim=0).mT)
    kept = min(rows, columns, m)
    assert found.values.shape == (2 * share, m)
    # Backward stability: a few dozen ε of the norms of the factors.
    norms = queries.norm(dim=(1, 2)) * keys.norm(dim=(1, 2)).repeat_interleave(share)
    error = (found.values[:, :kept] - formed[:, :kept]).abs().amax(dim=1)
    assert (error <= 100 * torch.finfo(torch.float64).eps * norms).all()
    assert (found.values[:, kept:] == 0).all()


@pytest.mark.parametrize("make", [*HUGGING_FACE, *TORCH, *OWN, *TIMM])
def test_values_are_those_of_the_scores_of_real_tokens(make: Callable[[], Case]) -> None:
    model, batch = build(make)
    with watching(model) as watch:
        layers = watch.run(batch)
    for scores in layers:
        products = scores.queries.double() @ scores.expanded_keys().double().mT
        for index, product in enumerate(products):
            there = product[:, scores.query_tokens[index]][:, :, scores.key_tokens[index]]
            formed = torch.linalg.svdvals(there)
            found = singular_values(*present(scores, index)).values
            kept = min(formed.shape[1], found.shape[1])
            error = (found[:, :kept] - formed[:, :kept]).abs().max()
            assert error <= 1e-9 * max(formed.max(), 1)


def test_a_centred_spectrum_is_that_of_scores_without_their_row_means() -> None:
    model, batch = build(families.torch_encoder)
    with watching(model) as watch:
        scores = watch.run(batch)[0]
    product = (scores.queries.double() @ scores.keys.double().mT)[0]
    formed = torch.linalg.svdvals(product - product.mean(dim=-1, keepdim=True))
    found = singular_values(*present(scores, 0, centred=True)).values
    torch.testing.assert_close(found, formed[:, : found.shape[1]], rtol=0, atol=1e-4)


def test_effective_rank_counts_equal_values() -> None:
    values = np.array([[3.0, 3.0, 3.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(effective_rank(values), [3, 1, 0], rtol=1e-14)


def test_energy_is_that_of_squares() -> None:
    np.testing.assert_allclose(energy_shares(np.array([[2.0, 1.0, 0.0]])), [[0.8, 1.0, 1.0]])
    np.testing.assert_array_equal(energy_shares(np.zeros((1, 3))), np.ones((1, 3)))
