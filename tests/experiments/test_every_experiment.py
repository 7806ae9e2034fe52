import pytest

from exactformer.experiments import names, reproduce


@pytest.mark.parametrize("name", names())
def test_the_claims_direction_holds_at_smoke_scale(name, tmp_path):
    result = reproduce(name, scale="smoke", jobs=1, out=tmp_path)
    assert result.statements, "an experiment says what its claim is"
    assert result.broken == []
