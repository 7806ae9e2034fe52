"""``exactformer serve`` as people start and stop it."""

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.waiting import PATIENCE, program


def serving(*arguments):
    return program(
        [sys.executable, "-m", "exactformer", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(stream, pattern):
    said = ""
    for line in stream:
        said += line
        if found := re.search(pattern, line):
            return found
    raise AssertionError(said)


def test_it_creates_its_database_says_where_it_is_and_ends_by_ctrl_c(tmp_path):
    file = tmp_path / "data" / "studio.db"
    options = ("--port", 0, "--database", f"sqlite:///{file}", "--playground-workers", 1)
    with serving(*options) as server:
        address = read_until(server.stdout, r"http://127\.0\.0\.1:\d+")[0]
        read_until(server.stdout, "first to register becomes admin")
        with urllib.request.urlopen(f"{address}/", timeout=PATIENCE) as answer:
            assert answer.status == 200
            assert "uvicorn" not in str(answer.headers)
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=PATIENCE)
    assert server.returncode == 0
    assert err == "Stopped.\n"
    assert file.exists()


def test_a_port_that_is_taken_leaves_with_2_and_makes_nothing(call, tmp_path):
    from exactformer.studio.serving import listen

    with listen("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
        answer = call("serve", "--port", port, "--database", f"sqlite:///{tmp_path / 'x.db'}")
    assert answer.code == 2
    assert f"port {port}" in answer.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--database", "mysql://host/name"], "mysql is not supported"),
        (["--database", "nonsense"], "not a database's address"),
        (["--single-user", "--host", "0.0.0.0"], "--single-user"),
        (["--port", "65536"], "65535"),
        (["--results", "no-such-folder"], "does not exist"),
    ],
)
def test_wrong_options_are_refused_in_words(call, arguments, said):
    answer = call("serve", *(["--port", "0"] if "--port" not in arguments else []), *arguments)
    assert answer.code == 2
    assert said in answer.err


def test_a_file_that_is_no_database_is_refused(call, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database\n" * 500)
    answer = call("serve", "--port", 0, "--database", f"sqlite:///{file}")
    assert answer.code == 2
    assert "is not a database" in answer.err


def test_without_the_extra_the_way_to_get_it_is_named():
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['exactformer', 'serve']\n"
        "from exactformer.cli import main; main()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 2
    assert 'pip install "exactformer[studio]"' in answer.stderr
    assert "Traceback" not in answer.stderr
