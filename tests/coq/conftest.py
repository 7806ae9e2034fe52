import pytest

from exactformer.coq.installation import built_rounding, find_coq
from exactformer.errors import InputError
from tests.cli.conftest import call as call


@pytest.fixture(autouse=True)
def built_once(request, monkeypatch, tmp_path_factory):
    """Keep the built library between runs where pytest keeps anything, apart from the user's own."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("coq") if cache else tmp_path_factory.getbasetemp().parent / "coq"
    monkeypatch.setenv("EXACTFORMER_CACHE", str(folder))
    # Coq looks for garbage while it loads its real numbers, where there is none.
    monkeypatch.setenv("OCAMLRUNPARAM", "s=8M,o=400")


@pytest.fixture
def coq():
    """The Coq of this machine; tests that need one are skipped without it."""
    try:
        return find_coq()
    except InputError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def flocq(coq):
    """Coq with Flocq; tests that need it are skipped without it."""
    try:
        built_rounding(coq)
    except InputError as missing:
        pytest.skip(str(missing))
    return coq
