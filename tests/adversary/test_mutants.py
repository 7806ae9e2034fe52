"""What is listed as changing no verdict is a change that the mutation run still makes."""

import pytest

from tests.adversary.mutation import EQUIVALENT, TESTS, mutants_of


@pytest.mark.slow
def test_every_equivalent_change_is_still_made() -> None:
    names = {mutant.name for file in TESTS for mutant in mutants_of(file)}
    assert not set(EQUIVALENT) - names
