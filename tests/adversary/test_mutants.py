"""What is listed as changing no verdict is a change that the mutation run still makes."""

from pathlib import Path

import pytest

import tests
from tests.adversary.mutation import EQUIVALENT, TESTS, mutants_of


@pytest.mark.slow
def test_every_equivalent_change_is_still_made() -> None:
    names = {mutant.name for file in TESTS for mutant in mutants_of(file)}
    assert not set(EQUIVALENT) - names


def test_every_test_file_that_mutants_are_tried_against_exists() -> None:
    folder = Path(tests.__file__).parent
    assert not [name for names in TESTS.values() for name in names if not (folder / name).exists()]
