"""A PostgreSQL server of one's own: Debian's package on a temporary directory and a port of its own.

PostgreSQL refuses to run as root; then the programs are started as the user its package made.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import PATIENCE, wait_until

USER = "postgres"
_held: list[socket.socket] = []


def programs() -> Path | None:
    """The directory of the newest installed PostgreSQL, if there is one."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3])
    )
    if versions:
        return versions[-1].parent
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else None


def own_port() -> int:
    """A port of the loopback interface that no other process is given while this one lives.

    A server may take seconds to start, and the system gives a port that is merely free to the next
    connection. It keeps a bound one, on which servers may listen, as they allow for reuse.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _held.append(probe)
    port: int = probe.getsockname()[1]
    return port


@atexit.register
def _release() -> None:
    for probe in _held:
        probe.close()


@dataclass
class Cluster:
    """A running server; ``durable`` keeps fsync on, as in real life."""

    durable: bool = False
    directory: Path = field(init=False)  # not one of pytest's: those are for root alone
    port: int = field(init=False)
    process: subprocess.Popen[bytes] = field(init=False, repr=False)
    databases: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.port = own_port()
        self.directory = Path(tempfile.mkdtemp(prefix="exactformer-postgres-"))
        if os.getuid() == 0:
            shutil.chown(self.directory, USER)
        making = "initdb -D data -U studio -A trust -E UTF8 --locale C --no-sync"
        assert self._call(making).wait(PATIENCE) == 0, self._log()
        self.start()

    def _call(self, line: str) -> subprocess.Popen[bytes]:
        directory = programs()
        assert directory is not None
        program, *arguments = line.split()
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                [str(directory / program), *arguments],
                cwd=self.directory,
                user=USER if os.getuid() == 0 else None,
                group=USER if os.getuid() == 0 else None,
                extra_groups=[] if os.getuid() == 0 else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _log(self) -> str:
        return (self.directory / "log").read_text()

    def start(self) -> None:
        """Start, or start again after `kill` (it then recovers from its log)."""
        line = f"postgres -D data -p {self.port} -c listen_addresses=127.0.0.1"
        line += " -c max_connections=60 -c unix_socket_directories="
        if not self.durable:
            line += " -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        self.process = self._call(line)
        try:
            wait_until(self._answers)
        except BaseException:
            self.stop()
            raise

    def _answers(self) -> bool:
        import psycopg

        assert self.process.poll() is None, self._log()
        try:
            psycopg.connect(self._address).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """kill -9 of the server and, at once, of every process that serves a connection."""
        leader = self.process.pid
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        for process in [leader, *map(int, children)]:
            os.kill(process, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Stop without waiting for clients, and leave nothing behind."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE)
        shutil.rmtree(self.directory)

    @property
    def _address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=studio dbname=postgres"

    def url(self, database: str) -> str:
        """How SQLAlchemy reaches a database of this server."""
        return f"postgresql+psycopg://studio@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """A fresh database, named and addressed."""
        import psycopg

        self.databases += 1
        name = f"studio{self.databases}"
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return self.url(name)
