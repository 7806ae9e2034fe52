import pytest

from exactformer.experiments.engine.numbers import number


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "–"),
        (float("nan"), "diverged"),
        (0.0, "0"),
        (-3.0, "−3"),
        (0.938, "0.938"),
        (0.000543, "5.43e−4"),
        (0.0005, "5e−4"),
        (-1.25e-9, "−1.25e−9"),
        (999.4, "999"),
        (999.7, "1,000"),
        (10237.27, "10,237"),
        (2.18e-5, "2.18e−5"),
        (1e12, "1e12"),
    ],
)
def test_numbers_are_written_for_people(value, written):
    assert number(value) == written
