"""Our models in the tables of transformers: importing exactformer suffices, in whatever order."""

import subprocess
import sys
from importlib import import_module

import pytest

import exactformer as ef
from exactformer.core.registration import register_when_imported
from exactformer.programs import library


@pytest.mark.parametrize("theirs_first", [False, True])
def test_our_module_is_imported_as_soon_as_theirs_is(theirs_first, tmp_path, monkeypatch):
    theirs, ours = f"theirs_{theirs_first}", f"ours_{theirs_first}"
    for name in (theirs, ours):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    if theirs_first:
        import_module(theirs)
    register_when_imported(theirs, ours)
    assert (ours in sys.modules) == theirs_first
    import_module(theirs)
    assert ours in sys.modules


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    "imports",
    [
        "import transformers, exactformer",
        "import exactformer, transformers",
        "import exactformer; from transformers import LlamaForCausalLM",
    ],
)
def test_transformers_knows_our_models_in_whatever_order_things_are_imported(imports, tmp_path):
    pytest.importorskip("transformers", reason="pip install exactformer[models]")
    model = ef.compile_program(
        library.make_reverse(), vocabulary="ab", max_length=2, realisation="softmax"
    )
    model.to_hugging_face().save_pretrained(tmp_path)
    code = (
        f"{imports}\n"
        "from transformers import AutoConfig, AutoModel, AutoModelForCausalLM as Causal\n"
        "from transformers import AutoModelForTokenClassification as Classification\n"
        f"print(AutoConfig.from_pretrained({str(tmp_path)!r}).model_type)\n"
        "for automatic in (AutoModel, Classification):\n"
        f"    print(type(automatic.from_pretrained({str(tmp_path)!r})).__name__)\n"
        "config = AutoConfig.for_model('exactformer-latent-cache')\n"
        "print(Causal._model_mapping[type(config)].__name__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    program = "ProgramForTokenClassification"
    expected = ["exactformer-program", program, program, "LatentCacheForCausalLM"]
    assert found.stdout.split() == expected, found.stderr
