from dataclasses import replace

import pandas as pd
import pytest

import exactformer as ef
from exactformer.errors import FileFormatError, InputError
from exactformer.polynomials.blueprint import table_names
from exactformer.polynomials.files import load_blueprint, save_blueprint

NAMES = ["mass (kg)", "speed (m/s)"]


@pytest.fixture(scope="module")
def model():
    return ef.compile("m v^2", radius=2)


def test_a_model_with_a_tables_names_is_the_same_model(model, tmp_path):
    named = model.named(NAMES, ["energy (J)"])
    named.save(tmp_path / "energy.safetensors")
    read = ef.load(tmp_path / "energy.safetensors")
    for one in (named, read):
        assert (one.columns, one.outputs) == (tuple(NAMES), ("energy (J)",))
        assert one.variables == ("m", "v")
        assert (
            one(pd.DataFrame([[1.5, 0.5]], columns=NAMES[::-1])).item() == model([0.5, 1.5]).item()
        )
        assert one.certificate.zero_error
    assert (model.columns, model.outputs) == (("m", "v"), ())
    assert named.named(["m", "v"]).columns == ("m", "v")
    assert "columns mass (kg), speed (m/s)" in repr(named)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_names_are_as_many_as_the_variables_and_differ(model, names):
    with pytest.raises(InputError, match="different names for 2"):
        model.named(names)


@pytest.mark.parametrize("text", ['["a"]', '["a", 1]', '{"a": "b"}', "a, b", '["a", "a"]'])
def test_a_file_with_other_names_is_refused(model, tmp_path, text):
    broken = replace(model.blueprint, metadata={**model.blueprint.metadata, "columns": text})
    with pytest.raises(InputError):
        table_names(broken, "columns")
    save_blueprint(broken, tmp_path / "broken.safetensors")
    with pytest.raises(FileFormatError, match="the metadata's columns"):
        load_blueprint(tmp_path / "broken.safetensors")
