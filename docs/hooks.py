"""Pages that cannot go stale: commands are run and numbers are read when the site is built.

A fenced block ``console`` is executed, line by line (lines that start with ``$``), in one scratch
folder per page, and shown with its real output; so is one ``python run``, as a script. A ``text``
block that follows a script directly is the output as it stands in the source, for readers of the
repository: it must be what the script prints. ``{{ table: NAME }}`` is the table of
``results/NAME.json``, ``{{ verdicts: results }}`` the verdicts on all of them,
``{{ benchmark: NAME }}`` the table of ``benchmarks/NAME.md``; ``{{ drawn: FILE.svg }}``, or an image
``assets/drawn/FILE.svg``, is a figure that a script of the page has drawn.

Pages are run side by side, one per core, in forks of an interpreter that has imported torch.
``python docs/hooks.py PAGE …`` runs pages and writes their outputs and drawn figures into the sources.
"""

import base64
import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from socket import socketpair
from typing import TextIO

from exactformer.experiments import find
from exactformer.experiments.engine.presentation import Presentation, present, tally
from exactformer.experiments.engine.result import load

ROOT = Path(__file__).parent.parent
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SCRIPT = re.compile(
    r"^```python run\n((?:(?!^```).)*)^```$(?:\n\n```text\n((?:(?!^```).)*)^```$)?",
    re.DOTALL | re.MULTILINE,
)
DRAWN = re.compile(r"\{\{ drawn: ([\w-]+\.svg) \}\}|!\[[^\]]*\]\([./]*assets/drawn/([\w-]+\.svg)\)")
MACRO = re.compile(r"\{\{ (table|benchmark|verdicts): ([\w-]+) \}\}")

_pages: dict[str, Future] = {}
_importing: queue.SimpleQueue[subprocess.Popen] = queue.SimpleQueue()
_idle: queue.SimpleQueue[TextIO] = queue.SimpleQueue()


def on_files(files, config):
    start_interpreters()
    pool = ThreadPoolExecutor(os.cpu_count())
    for file in files.documentation_pages():
        _pages[file.src_uri] = pool.submit(_executed, file.content_string)
    pool.shutdown(wait=False)


def on_page_markdown(markdown, page, config, files):
    executed = _pages[page.file.src_uri].result()
    return MACRO.sub(lambda match: _result(match[1], match[2]), executed)


def on_post_build(config):
    end_interpreters()


def start_interpreters(*modules: str) -> None:
    """Start an interpreter that imports these, or what most scripts need, and forks for each core."""
    one_core = {"OMP_NUM_THREADS": "1"}
    environment = os.environ | one_core | {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    ours, theirs = zip(*(socketpair() for _ in range(os.cpu_count() or 1)), strict=True)
    numbers = [end.fileno() for end in theirs]
    command = [sys.executable, str(ROOT / "docs" / "forks.py"), *map(str, numbers), *modules]
    _importing.put(subprocess.Popen(command, env=environment, pass_fds=numbers))
    for end, their in zip(ours, theirs, strict=True):
        with end, their:
            _idle.put(end.makefile("rw"))


def end_interpreters() -> None:
    """End the interpreters that wait for scripts."""
    while not _idle.empty():
        _idle.get().close()
    while not _importing.empty():
        _importing.get().wait()


def _executed(markdown: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        markdown = CONSOLE.sub(lambda match: _session(match[1], Path(folder)), markdown)
        executed = SCRIPT.sub(lambda match: _script(match[1], match[2], Path(folder)), markdown)
        if not SCRIPT.search(markdown):  # the gallery shows the stored copies
            return executed
        return DRAWN.sub(lambda match: _drawn(Path(folder) / (match[1] or match[2])), executed)


def refresh(page: Path) -> None:
    """Run the scripts of a page; write outputs and drawn figures into the sources."""
    with tempfile.TemporaryDirectory() as folder:
        source = page.read_text()
        fresh = SCRIPT.sub(
            lambda match: (
                f"```python run\n{match[1]}```\n\n```text\n{_output(match[1], Path(folder))}\n```"
            ),
            source,
        )
        page.write_text(fresh)
        for match in DRAWN.finditer(source):
            if match[2]:
                shutil.copy(Path(folder) / match[2], ROOT / "docs" / "assets" / "drawn")


def _session(text: str, folder: Path) -> str:
    shown = []
    for line in text.splitlines():
        shown.append(line)
        if line.startswith("$ "):
            shown.append(_run(line[2:], folder))
    return "```text\n" + "\n".join(part for part in shown if part) + "\n```"


def _script(code: str, shown: str | None, folder: Path) -> str:
    printed = _output(code, folder)
    if shown is not None and shown.rstrip("\n") != printed:
        raise RuntimeError(f"the page shows\n{shown}\nand its script\n{code}\nprints\n{printed}")
    return f"```python\n{code}```\n\n```text\n{printed}\n```"


def _output(code: str, folder: Path) -> str:
    done = _python(["-c", code], folder)
    if done.returncode:
        raise RuntimeError(f"a script of a page failed:\n{code}\n{done.stderr}")
    return _lines(done.stdout)


def _run(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    if program != "exactformer":
        raise ValueError(f"pages run exactformer only, not {program!r}")
    done = _python(["-m", "exactformer", *arguments], folder)
    if done.returncode not in (0, 1, 2):  # 1 is no, 2 a refusal; a page may want to show both
        raise RuntimeError(f"{command} failed:\n{done.stderr}")
    return _lines(done.stdout + done.stderr)


def _python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory() as streams:
        out, err = Path(streams, "out"), Path(streams, "err")
        forking = _idle.get()
        try:
            print(json.dumps([arguments, *map(str, (folder, out, err))]), file=forking, flush=True)
            code = int(forking.readline())
        finally:
            _idle.put(forking)
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


def _lines(text: str) -> str:
    lines = text.replace("```", "'''").splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _drawn(figure: Path) -> str:
    data = base64.b64encode(figure.read_bytes()).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="figure: {figure.stem}">'


def _result(kind: str, name: str) -> str:
    if kind == "benchmark":
        return (ROOT / "benchmarks" / f"{name}.md").read_text().partition("\n")[2]
    if kind == "verdicts":
        return overview(ROOT / name)
    return table(ROOT / "results" / f"{name}.json")


def overview(results: Path) -> str:
    """The verdict on every experiment and how often each is reached, as Markdown."""
    shown = [_presented(path) for path in sorted(results.glob("*.json"))]
    counts = "; ".join(f"{name}: {count}" for name, _, count in tally(one.verdict for one in shown))
    lines = [f"{len(shown)} experiments. {counts[0].upper()}{counts[1:]}.", ""]
    lines += ["| experiment | verdict | counts |", "|---|---|---|"]
    lines += [f"| [{one.name}](#{one.name}) | {one.verdict} | {one.counts} |" for one in shown]
    return "\n".join(lines)


def table(path: Path) -> str:
    """A stored result as Markdown."""
    shown = _presented(path)
    lines = [f"**{shown.verdict}**. {shown.why}", ""]
    for part in shown.parts:
        lines += [f"*{part.title}*: {part.count}.", ""]
        if part.lines:
            lines += [_row(part.columns), _row("---" for _ in part.columns)]
            lines += [_row(one.column(name) for name in part.columns) for one in part.lines]
            lines.append("")
        for item in part.items:
            lines.append(f"- {item.mark} {item}")
        lines.append("")
    return "\n".join(
        [*lines, f"`{shown.command}`, {shown.origin['device']}, {shown.origin['date'][:10]}."]
    )


def _row(fields) -> str:
    return "| " + " | ".join(field.replace("|", r"\|") for field in fields) + " |"


def _presented(path: Path) -> Presentation:
    return present(load(path, find(path.stem)))


if __name__ == "__main__":
    start_interpreters()
    for page in sys.argv[1:]:
        refresh(Path(page))
    end_interpreters()
