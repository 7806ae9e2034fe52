"""Small runs of the campaigns; ``python -m tests.coq.campaign`` and its neighbour run large ones."""

import pytest

from tests.coq import rounding_campaign
from tests.coq.campaign import campaign, soft_campaign


def test_python_and_coq_agree_on_random_models(coq):
    assert campaign(coq, 8, seed=1) == []


def test_python_and_coq_agree_on_a_few_softmax_models(coq):
    assert soft_campaign(coq, 2, seed=15) == []


def test_python_and_coq_agree_on_a_few_theorems_about_rounding(flocq):
    assert rounding_campaign.campaign(flocq, 2, seed=5) == []


@pytest.mark.slow
def test_python_and_coq_agree_on_two_hundred_models(coq):
    assert campaign(coq, 200, seed=2) == []


@pytest.mark.slow
def test_python_and_coq_agree_on_two_hundred_softmax_models(coq):
    assert soft_campaign(coq, 200, seed=3) == []


@pytest.mark.slow
def test_python_and_coq_agree_on_two_hundred_theorems_about_rounding(flocq):
    assert rounding_campaign.campaign(flocq, 200, seed=6) == []
