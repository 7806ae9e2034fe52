"""A small run of the campaign; ``python -m tests.coq.campaign`` runs the large one."""

import pytest

from tests.coq.campaign import campaign, soft_campaign


def test_python_and_coq_agree_on_random_models(coq):
    assert campaign(coq, 8, seed=1) == []


@pytest.mark.slow
def test_python_and_coq_agree_on_two_hundred_models(coq):
    assert campaign(coq, 200, seed=2) == []


@pytest.mark.slow
def test_python_and_coq_agree_on_softmax_models(coq):
    assert soft_campaign(coq, 40, seed=3) == []
