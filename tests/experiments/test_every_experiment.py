import pytest

from exactformer.experiments import names, reproduce

# More than ten seconds even at smoke scale: they are left to the long run.
LONG = {
    "accuracy-by-construction",
    "jiang-recommend",
    "jiang-table-1",
    "spectra-minilm",
    "yun-alternatives",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names()],
)
def test_the_claims_direction_holds_at_smoke_scale(name, tmp_path):
    result = reproduce(name, scale="smoke", jobs=1, out=tmp_path)
    assert result.statements, "an experiment says what its claim is"
    assert result.broken == []
