import pytest

from exactformer.experiments import registry


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test touches the user's cache or leaves an experiment behind."""
    monkeypatch.setenv("EXACTFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def marks(tmp_path):
    """A folder in which toy cells leave a mark each time they run."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return str(folder)
