"""What the command line promises, as a table with a row for every command.

``--help`` ends with an example that runs. ``--json`` prints one strict JSON object, mistakes included,
and ``saved`` lists what was written. Exit codes are 0 for yes, 1 for no, 2 for misuse, 130 for Ctrl-C.
Nothing that exists is replaced without ``--force``.
"""

import json
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import typer.main

from exactformer.cli.app import COMMANDS, LIBRARY, app
from exactformer.experiments import register
from exactformer.programs import language as rasp
from tests.experiments import toy
from tests.waiting import PATIENCE, program


@dataclass(frozen=True)
class Row:
    example: str
    """One of those in its help; it is run as it stands."""
    answer: str
    """Arguments that it answers, and writes ``saves`` for."""
    misuse: str
    saves: tuple[str, ...] = ()
    no: str | None = None
    """Arguments to which the answer is no."""


ROWS = {
    "demo": Row(
        "demo -o tour --points 100000",
        "-o tour --points 100",
        "--points 0",
        ("tour/law.safetensors", "tour/demo.png", "tour/demo.svg"),
    ),
    "compile": Row(
        'compile "x^4" --radius 10 --dtype float32 --json',
        '"x^2 + 3 x y" --radius 2 -o new.safetensors',
        '"x +"',
        ("new.safetensors",),
        no='"x^9" --radius 1000 --dtype float16',
    ),
    "certify": Row(
        'certify law.safetensors "x^2 + 3 x y"',
        "law.safetensors",
        "missing.safetensors",
        no='law.safetensors "x^2 + 4 x y"',
    ),
    "verify": Row(
        "verify model.py:net --claim max --vocabulary 0..3 --length 3 -o verdict.json",
        "model.py:net --claim max --vocabulary 0..3 --length 2 -o new.json --plot new.svg",
        "model.py:net --claim max",
        ("new.json", "new.svg"),
        no="model.py:net --claim min --vocabulary 0..3 --length 2",
    ),
    "predict": Row(
        "predict law.safetensors points.csv -o values.csv",
        "law.safetensors points.csv -o values.npy",
        "law.safetensors missing.csv",
        ("values.npy",),
        no="altered.safetensors points.csv",
    ),
    "inspect": Row(
        'inspect law.safetensors --at "0.5,-1"',
        "program.safetensors --plot inside.svg",
        "law.safetensors --at 1,one",
        ("inside.svg",),
        no="altered.safetensors",
    ),
    "export": Row(
        "export law.safetensors --format numpy -o law.npz",
        "law.safetensors --format numpy",
        "law.safetensors --format pickle",
        ("law.npz",),
        no="altered.safetensors",
    ),
    "prove": Row(
        "prove law.safetensors -o law.v",
        "law.safetensors -o theorem.v",
        "law.safetensors -o theorem.txt",
        ("theorem.v",),
        no="altered.safetensors",
    ),
    "fit": Row(
        "fit measurements.csv --target y --columns a,b -o law.safetensors",
        "measurements.csv -t y -o fitted.safetensors --plot residuals.png --report law.html",
        "measurements.csv -t z",
        ("fitted.safetensors", "residuals.png", "law.html"),
    ),
    "sequence": Row(
        "sequence mean-subtract --tokens 2 --dim 2 --delta 1/4 --support -1,1 -o mean.safetensors",
        "sort --tokens 2 --delta 1/4 --samples 0 -o sort.safetensors --plot sort.png",
        "nonsense",
        ("sort.safetensors", "sort.png"),
    ),
    "program": Row(
        "program reverse --vocabulary abc --max-length 10",
        "reverse --vocabulary ab --max-length 3 -o reverse.safetensors",
        "nonsense",
        ("reverse.safetensors",),
        no="hist --vocabulary ab --max-length 40 --realisation softmax --dtype bfloat16",
    ),
    "spectrum": Row(
        "spectrum path/to/model --texts sentences.txt",
        "path/to/model --texts sentences.txt -o spectrum.csv --plot spectrum.png",
        "nowhere --texts sentences.txt",
        ("spectrum.csv", "spectrum.png"),
    ),
    "reproduce": Row(
        "reproduce --list",
        "toy --scale smoke --jobs 1 -o o",
        "toi",
        ("o/toy.json", "o/toy.png", "o/toy.svg"),
        no="wrong --scale smoke --jobs 1 -o w",
    ),
    "report": Row(
        "report --results results -o page.html",
        "-o new.html",
        "--results nowhere",
        ("new.html",),
    ),
    "serve": Row("serve --single-user --port 9000", "--port 0", "--port 65536"),
    "library export": Row(
        "library export -o library.json",
        "--format bibtex -o library.bib",
        "--paper none",
        ("library.bib",),
    ),
}
NEEDS = {
    "spectrum": "transformers",
    "serve": "fastapi",
    "library export": "sqlalchemy",
}
EVERY = pytest.mark.parametrize("name", ROWS)
ENDING = pytest.mark.parametrize("name", [name for name in ROWS if name != "serve"])
READING = pytest.mark.parametrize("name", ["certify"])
WRITING = pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.saves])


def commands(group=None, path=()):
    """Every command of the app by its words."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


FOUND = dict(commands())


LARGEST = """
import torch
from torch import nn

class Largest(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.diag(4.0 ** torch.arange(4)))

    def forward(self, ids):
        return self.table(ids).mean(1)

net = Largest().eval()
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, law):
    """Everything that examples in the help read."""
    import exactformer as ef

    place = tmp_path_factory.mktemp("contract")
    ef.compile("x^2 + 3 x y", radius=2).save(place / "law.safetensors")
    ef.compile_program(rasp.tokens, vocabulary="ab", max_length=2).save(
        place / "program.safetensors"
    )
    content = (place / "law.safetensors").read_bytes()
    (place / "altered.safetensors").write_bytes(
        content[:-1] + (b"2" if content[-1:] != b"2" else b"3")
    )
    (place / "model.py").write_text(LARGEST)
    (place / "points.csv").write_text("x,y\n0.5,-1\n1,1\n")
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 60))
    rows = (
        f"{u},{v},{u * v + 0.1 * e}" for u, v, e in zip(a, b, random.normal(size=60), strict=True)
    )
    (place / "measurements.csv").write_text("\n".join(["a,b,y", *rows]))
    x = random.random((20, 4))
    np.savez(place / "sequences.npz", inputs=x, outputs=np.cumsum(x, axis=1))
    (place / "references.bib").write_text("@book{a, title={A new book}, year=2021}")
    (place / "sentences.txt").write_text(
        "the cat sat on the mat\na cat\nthe mat sat\nthe cat\na mat\na cat sat\nthe mat\non the cat\n"
    )
    (place / "results").mkdir()
    shutil.copy(Path(__file__).parents[2] / "results" / "universality.json", place / "results")
    return place


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A saved model of texts, with its tokenizer."""
    from transformers import BertTokenizerFast

    from tests.spectra import families

    folder = tmp_path_factory.mktemp("bert")
    families.build(families.bert)[0].save_pretrained(folder)
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat".split()
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture
def here(request, tmp_path, monkeypatch, prepared):
    """A folder of one's own with all of it, and data and caches that are nobody else's."""
    name = request.getfixturevalue("name")
    pytest.importorskip(NEEDS.get(name, "exactformer"))
    place = tmp_path / "here"
    shutil.copytree(prepared, place)
    if NEEDS.get(name) == "transformers":
        shutil.copytree(request.getfixturevalue("bert"), place / "path" / "to" / "model")
    monkeypatch.chdir(place)
    monkeypatch.setenv("EXACTFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    register(toy.toy())
    register(toy.toy("wrong", factor=-1.0))
    return place


def strict(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def contents(place):
    return {p: p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


def test_every_command_has_a_row():
    assert FOUND.keys() == ROWS.keys()
    silent = {name for name, row in ROWS.items() if not row.saves}
    assert silent == {*READING.args[1], "serve"}


@EVERY
def test_options_have_the_same_names_everywhere(name):
    options = {
        option: parameter.opts for parameter in FOUND[name].params for option in parameter.opts
    }
    assert "--json" in options
    assert ("-o" in options) == ("--out" in options)
    if {"--out", "--plot"} & options.keys():
        assert "--force" in options
    for parameter in FOUND[name].params:
        assert parameter.help, f"{parameter.name} has no help"


@EVERY
def test_the_help_ends_with_the_example(call, name):
    answer = call(*name.split(), "--help")
    assert answer.code == 0
    assert "Examples" in answer.out
    assert f"exactformer {name}" in answer.out
    examples = COMMANDS | {"library export": LIBRARY}
    assert ROWS[name].example in examples[name]


@ENDING
def test_the_example_runs(call, here, name):
    row = ROWS[name]
    if name == "fit":
        (here / "law.safetensors").unlink()
    answer = call(*shlex.split(row.example))
    assert answer.code == 0, answer.err


@READING
def test_json_is_strict_and_lists_that_nothing_was_saved(call, here, name):
    answer = call(*name.split(), *shlex.split(ROWS[name].answer), "--json")
    assert answer.code == 0, answer.out
    assert strict(answer.out)["saved"] == []


@WRITING
def test_json_lists_what_was_saved_and_nothing_is_replaced_without_force(call, here, name):
    row = ROWS[name]
    for path in map(Path, row.saves):
        file = path if path.suffix else path / "config.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("what was there before")
    before = contents(here)
    for extra in ([], ["--json"]):
        answer = call(*name.split(), *shlex.split(row.answer), *extra)
        said = strict(answer.out)["message"] if extra else answer.err
        assert answer.code == 2
        assert row.saves[0] in said
        assert "--force" in said
        assert contents(here) == before
    answer = call(*name.split(), *shlex.split(row.answer), "--force", "--json")
    assert answer.code == 0, answer.out
    assert strict(answer.out)["saved"] == list(row.saves)
    after = contents(here)
    for path in before.keys() & after.keys():
        replaced = any(path.is_relative_to(here / saved) for saved in row.saves)
        assert (after[path] != before[path]) == replaced


@EVERY
def test_misuse_leaves_with_2(call, here, name):
    words = [*name.split(), *shlex.split(ROWS[name].misuse)]
    answer = call(*words)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    answer = call(*words, "--json")
    assert (answer.code, answer.err) == (2, "")
    assert strict(answer.out).keys() == {"error", "message"}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.no])
def test_no_leaves_with_1(call, here, name):
    words = [*name.split(), *shlex.split(ROWS[name].no)]
    assert call(*words).code == 1
    answer = call(*words, "--force" if name == "reproduce" else "--json", "--json")
    assert answer.code == 1
    assert strict(answer.out)


@EVERY
@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["text", "json"])
def test_ctrl_c_leaves_with_130(call, here, name, extra, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.core.TyperCommand.invoke", interrupted)
    answer = call(*name.split(), *shlex.split(ROWS[name].answer), *extra)
    assert answer.code == 130
    if extra:
        assert strict(answer.out)["error"] == "Interrupted"
    else:
        assert answer.err == "Interrupted.\n"


@pytest.mark.parametrize("name", ["serve"])
def test_serving_prints_its_address_as_json_and_ends_by_ctrl_c(here, name):
    words = shlex.split(ROWS[name].example.replace("9000", "0"))
    command = [sys.executable, "-m", "exactformer", *words, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with program(command, text=True, **pipes) as server:
        text = ""
        for line in server.stdout:
            text += line
            if line == "}\n":
                break
        told = strict(text)
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=PATIENCE)
    assert told["address"].startswith("http://127.0.0.1:")
    assert (told["single_user"], told["saved"]) == (True, [])
    assert (server.returncode, errors) == (0, "")
