import pytest

from exactformer.coq.installation import find_coq
from exactformer.errors import InputError
from tests.cli.conftest import call as call


@pytest.fixture(autouse=True)
def built_once(request, monkeypatch):
    """Keep the built library between runs, apart from the user's own."""
    monkeypatch.setenv("EXACTFORMER_CACHE", str(request.config.cache.mkdir("coq")))


@pytest.fixture
def coq():
    """The Coq of this machine; tests that need one are skipped without it."""
    try:
        return find_coq()
    except InputError as missing:
        pytest.skip(str(missing))
