"""Sizes that do not fit are refused with a way out that is one."""

import numpy as np
import pytest

import exactformer as ef
from exactformer.errors import SizeError
from exactformer.sequences.sizes import FORMS


@pytest.mark.parametrize("form", FORMS)
def test_one_cell_per_side_is_no_way_out(form: str) -> None:
    with pytest.raises(SizeError, match="No form fits at any delta: use fewer tokens") as caught:
        ef.compile_sequence(np.sort, tokens=16, dim=1, delta="1/2", positional=True, form=form)
    assert "Fraction" not in str(caught.value)


def test_a_delta_that_is_named_is_one_that_fits() -> None:
    with pytest.raises(SizeError, match=r"delta=Fraction\(1, (\d+)\)"):
        ef.compile_sequence(
            np.sort, tokens=4, dim=1, delta="1/64", positional=True, form="four-layer"
        )
