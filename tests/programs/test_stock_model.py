"""Programs as models of Hugging Face: written, read by the automatic classes, equal to the last bit."""

import subprocess
import sys

import pytest
import torch

import exactformer as ef
from exactformer.errors import InputError, OutsideDomainError
from exactformer.programs import library

transformers = pytest.importorskip("transformers", reason="pip install exactformer[models]")
ef.register_transformers()


def _program(realisation="softmax", dtype=torch.float32):
    return ef.compile_program(
        library.make_induction(),
        vocabulary="abc",
        max_length=4,
        causal=True,
        realisation=realisation,
        dtype=dtype,
    )


@pytest.mark.parametrize("realisation", ["softmax", "hard"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_saved_folder_gives_the_same_model(realisation, dtype, tmp_path):
    model = _program(realisation, dtype)
    model.to_hugging_face().save_pretrained(tmp_path)
    read = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path, dtype="auto")
    ids = torch.cartesian_prod(*[torch.arange(3)] * 4)
    assert read.dtype == dtype
    assert torch.equal(read(ids).logits, model(ids))
    labels = read.config.id2label
    found = [[labels[place] for place in row] for row in read(ids).logits.argmax(-1).tolist()]
    assert found == [
        [str(v) for v in model.program(["abc"[k] for k in row])] for row in ids.tolist()
    ]


def test_automatic_classes_read_programs_once_they_are_registered(tmp_path):
    _program().to_hugging_face().save_pretrained(tmp_path)
    ef.register_transformers()
    for automatic in (transformers.AutoModel, transformers.AutoModelForTokenClassification):
        read = automatic.from_pretrained(tmp_path)
        assert type(read).__name__ == "ProgramForTokenClassification"
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert config.model_type == "exactformer-program"


def test_importing_us_changes_nothing_in_transformers(tmp_path):
    _program().to_hugging_face().save_pretrained(tmp_path)
    code = (
        "import sys; before = list(sys.meta_path); import exactformer as ef\n"
        "assert sys.meta_path == before; from transformers import AutoConfig\n"
        f"read = lambda: AutoConfig.from_pretrained({str(tmp_path)!r}).model_type\n"
        "try:\n    print(read())\nexcept ValueError:\n    print('unknown')\n"
        "ef.register_transformers(); print(read())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.split() == ["unknown", "exactformer-program"], found.stderr


def test_a_mask_says_where_sequences_end():
    model = _program()
    stock = model.to_hugging_face()
    ids, mask = torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    logits = stock(ids, attention_mask=mask).logits
    assert torch.equal(logits[0], model(ids[0]))
    assert torch.equal(logits[1], model([[2, 2, -1]])[0])
    with pytest.raises(InputError, match="padding"):
        stock(ids, attention_mask=mask.flip(1))


def test_the_beginning_token_and_longer_sequences_are_refused():
    stock = _program().to_hugging_face()
    for wrong in ([[0, 3]], [[0, 1, 2, 0, 1]], [[0, -2]]):
        with pytest.raises(OutsideDomainError):
            stock(torch.tensor(wrong))


def test_a_number_has_one_logit():
    model = ef.compile_program(
        library.make_frac_prevs(ef.rasp.numerical(ef.rasp.tokens == "a")),
        vocabulary="ab",
        max_length=3,
        causal=True,
        realisation="softmax",
    )
    assert model.to_hugging_face()(torch.tensor([[0, 1, 0]])).logits.shape == (1, 3, 1)
