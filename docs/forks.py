"""An interpreter that has imported what most scripts of the site need, and forks for each of them.

A fresh interpreter spends two seconds on importing torch and forgetting it; a fork spends none. The
arguments are sockets, by their numbers, and modules to import instead of the
usual ones. One process answers each socket: a line is a job, the arguments of ``python``, a folder,
and files for the two outputs; the answer is an exit code.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import sys
import traceback
from importlib import import_module
from socket import socket
from types import ModuleType
from typing import TextIO

NEEDED = """torch torch._dynamo scipy.optimize scipy.stats sympy flint pandas sklearn.base
matplotlib.figure typer.rich_utils typer._adapters rich.markdown exactformer.cli.app
exactformer.learning.laws.regressor exactformer.polynomials.compile exactformer.sequences.compile
exactformer.couplings.compile transformers.models.llama.modeling_llama"""


def main() -> None:
    """Import, and leave a process behind for every socket."""
    sockets = [int(word) for word in sys.argv[1:] if word.isdigit()]
    modules = sys.argv[1 + len(sockets) :]
    for name in modules or NEEDED.split():
        import_module(name)
    gc.freeze()  # a fork that looks for garbage among these would copy their memory
    for number in sockets:
        if not os.fork():
            for other in sockets:
                if other != number:  # who holds one keeps it open
                    os.close(other)
            _answer(socket(fileno=number).makefile("rw"))
            break
    os._exit(0)


def _answer(jobs: TextIO) -> None:
    """Fork for every job."""
    while line := jobs.readline():
        child = os.fork()
        if not child:
            code = _exit_code(*json.loads(line))
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=jobs, flush=True)


def _exit_code(arguments: list[str], folder: str, out: str, err: str) -> int:
    signal.alarm(1800)  # ends what hangs
    os.chdir(folder)
    for stream, path in ((0, os.devnull), (1, out), (2, err)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), stream)
    kind, subject, *rest = arguments
    sys.argv, sys.path[0] = [kind, *rest], ""
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        if kind == "-m":
            runpy.run_module(subject, run_name="__main__", alter_sys=True)
        else:
            code = compile(subject, "<string>", "exec", dont_inherit=True)
            exec(code, vars(sys.modules["__main__"]))
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
