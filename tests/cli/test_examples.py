import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

SAID = {
    "certify_a_file": ["error zero", "refused: the model does not compute the target"],
    "compile_and_use": ["float64", "gradient"],
    "couple_tokens": ["3 singular values", "truncation", "head_dim 3: measured"],
    "look_inside": ["block 1 scores", "output"],
    "train_until_proven": ["Verdict: agrees", "512 right, 0 wrong, 0 undecided"],
}


def test_every_example_is_known():
    assert {path.stem for path in EXAMPLES} == SAID.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_run_as_they_are(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    torch.set_printoptions(profile="default")
    said = capsys.readouterr().out
    assert all(part in said for part in SAID[path.stem])
