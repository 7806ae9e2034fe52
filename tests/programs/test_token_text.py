"""Vocabularies and inputs as text: one reading for the command line and the playground."""

import pytest

from exactformer.errors import InputError
from exactformer.programs import library
from exactformer.programs.token_text import read_tokens, read_vocabulary


def test_tokens_are_characters_or_what_lies_between_commas() -> None:
    assert read_vocabulary(" abc ") == ["a", "b", "c"]
    assert read_vocabulary("red, green,-3,007") == ["red", "green", -3, 7]
    assert read_vocabulary("") == []
    with pytest.raises(InputError, match="between two commas"):
        read_vocabulary("a,,b")


def test_an_input_is_read_by_its_vocabulary() -> None:
    assert read_tokens("abca", "abc") == list("abca")
    assert read_tokens("a b, c", "abc") == list("abc")
    assert read_tokens("10 2", [2, 10]) == [10, 2]
    assert read_tokens("102", [1, 0, 2]) == [1, 0, 2]
    assert read_tokens("red, blue", ["red"]) == ["red", "blue"]


def test_tokens_that_are_written_alike_are_not_guessed() -> None:
    with pytest.raises(InputError, match="two tokens that are written 1"):
        read_tokens("1", [1, "1"])


def test_a_program_is_named_or_written_out() -> None:
    assert library.program_of("reverse")("ab") == ["b", "a"]
    assert library.program_of(" tokens ")("ab") == ["a", "b"]
    assert library.program_of("x = length\nx - indices")("ab") == [2, 1]
    with pytest.raises(InputError, match="there is no program"):
        library.program_of("sing")
