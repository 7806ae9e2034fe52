"""One ``load`` and one ``certify`` for every family."""

import numpy as np
import pytest

import exactformer as ef
from exactformer.core import loading
from exactformer.errors import FileFormatError, InputError
from exactformer.targets import sine_family

MAKERS = {
    "polynomials": lambda: ef.compile("x^2 + y"),
    "sequences": lambda: ef.compile_sequence(
        np.sort, tokens=2, dim=1, delta="1/2", positional=True
    ),
    "couplings": lambda: ef.compile_coupling(sine_family([1.0], tau=2), head_dim=1, ff_width=16),
}


@pytest.mark.parametrize("family", MAKERS)
def test_models_and_their_files_are_certified_by_their_family(family, tmp_path):
    model = MAKERS[family]()
    path = tmp_path / "model.safetensors"
    model.save(path)
    assert loading.family_of(model) == loading.family_of(path) == family
    assert loading.family_of(str(path)) == loading.family_of(model.blueprint) == family
    assert type(ef.load(path)) is type(model)

    for source in (model, path, str(path)):
        assert loading.certify(source).blueprint_digest == model.certificate.blueprint_digest


@pytest.mark.parametrize("family", ["polynomials", "couplings"])
def test_the_certificate_of_a_model_speaks_of_its_format(family):
    model = MAKERS[family]().float()
    found = loading.certify(model)
    assert (found.dtype, found.executor) == ("float32", model.executor)
    assert found.bound() == model.certificate.bound() > MAKERS[family]().certificate.bound()


def test_polynomials_are_certified_as_before(tmp_path):
    model = MAKERS["polynomials"]()
    model.save(tmp_path / "law.safetensors")
    for source in (model, tmp_path / "law.safetensors"):
        assert loading.certify(source, "y + x^2", variables=["x", "y"]) == model.certificate


@pytest.mark.parametrize("source", [None, 3, np.zeros(2), object()], ids=lambda x: type(x).__name__)
def test_what_is_neither_a_model_nor_a_path_is_refused(source):
    with pytest.raises(InputError, match=f"not {type(source).__name__}"):
        loading.certify(source)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="does not exist"):
        loading.certify(tmp_path / "none.safetensors")
