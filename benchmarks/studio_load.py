"""How many pages a second: the studio beside a bare FastAPI page of the same length.

Each is a uvicorn process of its own on 127.0.0.1. The client is wrk (written in C; one thread, 64
connections kept open): with two cores it leaves one to the server, and is not what is measured.
Rounds take turns, and the best round of each counts, since whatever disturbs one makes it slower.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

CONNECTIONS = 64
PAPER = "fang-2022-attention-enables-zero-approximation-error"

IN_TURN = """
local cookies, last = {{ {} }}, 0
request = function()
  last = last % #cookies + 1
  wrk.headers["Cookie"] = cookies[last]
  return wrk.format()
end
"""
"""What wrk is told: every request comes from the next reader."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """An address that is asked for, and whose cookies are sent along, one after the other."""

    name: str
    url: str
    cookies: tuple[str, ...] = ()


def bare(path: str) -> Any:
    """Return an application with one page: the bytes of a file."""
    from fastapi import FastAPI
    from fastapi.responses import HTMLResponse

    body = Path(path).read_bytes()
    app = FastAPI()

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(body)

    return app


def studio(database: str) -> Any:
    """Return the studio on a database."""
    from exactformer.studio.app import create_app
    from exactformer.studio.settings import Settings

    return create_app(Settings(database=database))


@contextmanager
def serving(kind: str, argument: str) -> Iterator[str]:
    """Give the address of a server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.studio_load", kind, argument, str(port)]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        try:
            read(url)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the server did not start")


def read(url: str, cookie: str = "") -> bytes:
    """Return the body of a page."""
    request = urllib.request.Request(url, headers={"Cookie": cookie} if cookie else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def readers(database: str, count: int = CONNECTIONS) -> tuple[str, ...]:
    """Write accounts and return the cookies of so many readers who are logged in."""
    from exactformer.studio.accounts.tables import User
    from exactformer.studio.security import sessions

    app = studio(database)
    name = sessions.cookie_name(app.state.settings)
    cookies = []
    with app.state.database.writing() as db:
        for number in range(count):
            handle = f"reader-{number}"
            user = User(handle=handle, name=f"Reader {number}", password_hash="!", role="reader")
            db.add(user)
            db.flush()
            browser = sessions.begin(db, app.state.settings, user, "benchmark")
            cookies.append(f"{name}={browser.token}")
    app.state.database.close()
    return tuple(cookies)


def measure(way: Way, seconds: int) -> Row:
    """Ask for a page as often as it is answered."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    with NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(IN_TURN.format(", ".join(f"'{cookie}'" for cookie in way.cookies)))
        script.flush()
        in_turn = ["-s", script.name] if way.cookies else []
        done = subprocess.run(
            [*command, *in_turn, way.url], capture_output=True, text=True, check=True
        )
    return {"page": way.name} | parse(done.stdout)


def parse(said: str) -> Row:
    """Read what wrk says.

    >>> parse("  50%   1.50ms\\n  99%   2.00s\\n 9 requests in 2s\\nRequests/sec:  4.50")
    {'requests': 9, 'a second': 4.5, 'p50 ms': 1.5, 'p99 ms': 2000.0}
    """
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"not every request was answered:\n{said}")
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    times = {
        percent: float(number) * units[unit]
        for percent, number, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s)\b", said)
    }
    return {
        "requests": int(re.findall(r"(\d+) requests in", said)[0]),
        "a second": float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0]),
        "p50 ms": times["50"],
        "p99 ms": times["99"],
    }


def missing() -> str:
    """Say what is not installed."""
    return "" if which("wrk") else "wrk (apt-get install wrk) is not installed"


def compare(rounds: int, seconds: int) -> list[Row]:
    """Return the best round of every page: bare, for visitors, for somebody logged in."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        database = f"sqlite:///{folder / 'studio.db'}"
        cookies = readers(database)
        url = f"{stack.enter_context(serving('studio', database))}/papers/{PAPER}"
        (folder / "page.html").write_bytes(read(url))
        ways = [
            Way("bare FastAPI", stack.enter_context(serving("bare", str(folder / "page.html")))),
            Way("paper page, visitor", url),
            Way("paper page, logged in", url, cookies),
        ]
        lengths = {way.name: len(read(way.url, "".join(way.cookies[:1]))) for way in ways}
        measured = [measure(way, seconds) for _ in range(rounds) for way in ways]
    rows = []
    for way in ways:
        own = [row for row in measured if row["page"] == way.name]
        rows.append(max(own, key=lambda row: row["a second"]) | {"bytes": lengths[way.name]})
    return rows


def main() -> None:
    """Serve: the process that ``serving`` starts, the studio as ``exactformer serve`` does."""
    import uvicorn

    kind, argument, port = sys.argv[1:]
    if kind == "bare":
        config = uvicorn.Config(bare(argument), log_level="warning")
    else:
        from exactformer.studio.serving import configuration

        app = studio(argument)
        config = configuration(app, app.state.settings)
    config.port = int(port)
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
