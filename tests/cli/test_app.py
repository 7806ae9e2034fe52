import os
import resource
import shlex
import signal
import subprocess
import sys

import pytest
import typer.main
import typer.testing

import exactformer
from exactformer.cli.app import COMMANDS, app
from exactformer.cli.support.usage import DocumentedCommand
from tests.waiting import PATIENCE, program

NAMES = list(COMMANDS)
HEAVY = "torch numpy sympy sklearn matplotlib flint pandas scipy fastapi sqlalchemy"


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=PATIENCE, **options
    )


def test_help_needs_nothing_heavy():
    code = (
        "import sys; sys.argv = ['exactformer', '--help']\n"
        "from exactformer.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(set('{HEAVY}'.split()) & sys.modules.keys())"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "set()"


def test_help_names_every_command(call):
    answer = call("--help")
    assert answer.code == 0
    assert all(f" {name} " in answer.out for name in NAMES)


@pytest.mark.parametrize("command", NAMES)
def test_every_command_explains_itself_with_examples(call, command):
    answer = call(command, "--help")
    assert answer.code == 0
    assert "Examples" in answer.out
    assert f"exactformer {command}" in answer.out


@pytest.mark.parametrize(
    "line",
    [line for lines in COMMANDS.values() for line in lines if "|" not in line],
    ids=lambda line: line[:40],
)
def test_the_examples_use_options_that_exist(line):
    name, *arguments = shlex.split(line)
    command = typer.main.get_command(app).commands[name]
    with command.make_context(name, arguments) as context:
        assert context.info_name == name


def test_help_about_an_option_that_does_not_exist_is_refused():
    def command(points: int = 1) -> None:
        """Count.

        Args:
            points: How many.
            pionts: How many.
        """

    other = typer.Typer()
    other.command(cls=DocumentedCommand)(command)
    with pytest.raises(TypeError, match="has no parameter pionts"):
        typer.main.get_command(other)


def test_without_docstrings_commands_have_no_help_and_work():
    """So it is under ``python -OO``."""
    assert DocumentedCommand(name="any", params=[], help=None).help == ""


def test_version(call):
    assert call("--version").out == f"exactformer {exactformer.__version__}\n"


def test_no_command_shows_the_help(call):
    answer = call()
    assert "Usage" in answer.out + answer.err


def test_an_unknown_command_is_answered_with_the_nearest(call):
    answer = call("compille")
    assert answer.code == 2
    assert "compile" in answer.err


def test_a_real_process_says_what_is_wrong_and_leaves_with_2():
    answer = python("-m", "exactformer", "inspect", "missing.safetensors")
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("error: ")
    assert "Traceback" not in answer.stderr


def test_a_terminal_without_unicode_still_gets_its_answer():
    answer = python(
        "-m", "exactformer", "reproduce", "--list",
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert " f?* " in answer.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["certify {law}", "reproduce --list --json"])
def test_an_answer_that_cannot_be_written_is_not_a_no(law, words):
    command = [sys.executable, "-m", "exactformer", *words.format(law=law).split()]
    with open("/dev/full", "w") as full:
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert answer.returncode == 2
    assert answer.stderr.decode().strip() == "error: No space left on device"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("predict {law} <&-", 2),
        ("inspect missing 2>&-", 2),
        ("certify {law} >&-", 0),
        ("reproduce --list --json <&- >&- 2>&-", 0),
    ],
)
def test_closed_streams_do_not_change_the_answer(law, words, code):
    command = f"{shlex.quote(sys.executable)} -m exactformer {words.format(law=law)}"
    answer = subprocess.run(command, shell=True, capture_output=True, timeout=PATIENCE)
    assert answer.returncode == code, answer.stderr
    assert b"Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "words",
    [
        "prove {law} -o part.v",
        "export {law} --format numpy -o part.npz",
        "predict {law} many.csv -o part.csv",
    ],
)
def test_a_full_disk_leaves_no_half_written_file(call, law, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "many.csv").write_text("x,y\n" + "0.1,0.2\n" * 2000)
    # Python itself keeps modules half compiled where the disk is full, and fails to read them later.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, most))
    try:
        answer = call(*words.format(law=law).split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert answer.code == 2
    assert "part." in answer.err
    assert "File too large" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]


def test_a_reader_that_leaves_early_is_no_mistake(law):
    command = f"{shlex.quote(sys.executable)} -m exactformer predict {law} - | head -n 1"
    answer = subprocess.run(
        command,
        shell=True,
        input="1,1\n" * 60_000,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert float(answer.stdout) == pytest.approx(3.5)
    assert "Traceback" not in answer.stderr
    assert "error" not in answer.stderr


def test_ctrl_c_leaves_with_130_and_no_half_written_file(law, tmp_path):
    out = tmp_path / "values.csv"
    command = [sys.executable, "-m", "exactformer", "predict", law, "-o", out]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with program(command, text=True, **pipes) as process:
        process.stdin.write("1,1\n" * 100_000)  # more than a pipe holds: it is being read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    # Python ends itself by the signal where Ctrl-C came inside exec(), as imports of torch do: a
    # shell says 130 of both.
    assert process.returncode in (130, -signal.SIGINT)
    assert errors.strip() == "Interrupted."
    assert list(tmp_path.iterdir()) == []
