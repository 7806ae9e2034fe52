"""Running many cells: in this process, in local processes, or on a Dask cluster.

Each way is a generator of outcomes as they come, in any order. An outcome is in the store before it
is yielded, so whoever stops listening loses nothing.
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from functools import cache
from typing import TYPE_CHECKING

from exactformer.errors import ExperimentError, InputError
from exactformer.experiments.engine.cell import Outcome, Task
from exactformer.experiments.engine.store import Store
from exactformer.experiments.engine.work import execute, execute_and_store, failure

if TYPE_CHECKING:
    from distributed import Client

_SECONDS_TO_CONNECT = 10
_DIED = (
    "The worker process died: the system killed it, most often for want of memory (try fewer "
    "--jobs), or native code crashed."
)


def run(
    tasks: list[Task], store: Store, jobs: int | None = None, cluster: str | None = None
) -> Iterator[Outcome]:
    """Run every task, in ``jobs`` processes: unless given every core, or this one for a GPU."""
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs is {jobs}; it must be at least 1, or left out to use every core.")
    if not tasks:
        return iter(())
    if cluster is not None:
        return on_cluster(tasks, store, cluster)
    if jobs is None:
        import joblib

        jobs = joblib.cpu_count() if all(task.device == "cpu" for task in tasks) else 1
    jobs = min(jobs, len(tasks))
    if jobs > 1:
        return in_processes(tasks, store, jobs)
    return (execute_and_store(task, store) for task in tasks)


def in_processes(tasks: list[Task], store: Store, jobs: int) -> Iterator[Outcome]:
    """Run the tasks in ``jobs`` worker processes, which write the cells themselves.

    When a worker dies, joblib gives up all that was under way without saying who did it. Those few
    cells are then run one at a time, which tells; the rest goes on in fresh workers.
    """
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = {task.key: task for task in tasks}
    while left:
        under_way: list[Task] = []
        try:
            for key, outcome in _parallel(_noting(list(left.values()), under_way), store, jobs):
                del left[key]
                yield outcome
        except TerminatedWorkerError:
            for task in [task for task in under_way if task.key in left]:
                del left[task.key]
                try:
                    ((_, outcome),) = _parallel([task], store, jobs)
                except TerminatedWorkerError:
                    outcome = _keep(task, ExperimentError(_DIED), store)
                yield outcome


def _noting(tasks: Iterable[Task], under_way: list[Task]) -> Iterator[Task]:
    for task in tasks:
        under_way.append(task)
        yield task


def _parallel(tasks: Iterable[Task], store: Store, jobs: int) -> Iterator[tuple[str, Outcome]]:
    """Return a generator of (key, outcome) from a pool that takes tasks only as it needs them."""
    from joblib import Parallel, delayed

    pool = Parallel(
        jobs, backend="loky", return_as="generator_unordered", batch_size=1, pre_dispatch=jobs
    )
    outcomes: Iterator[tuple[str, Outcome]] = pool(
        delayed(_keyed)(task, store, os.getpid()) for task in tasks
    )
    return outcomes


def _keyed(task: Task, store: Store, parent: int) -> tuple[str, Outcome]:
    _end_with_parent(parent)
    return task.key, execute_and_store(task, store)


@cache
def _end_with_parent(parent: int) -> None:
    """See to it that this worker ends soon after the process it works for.

    Left to itself, a worker whose parent was killed idles on for minutes with its memory. The parent
    names itself, because it may be gone before its worker could look who it was.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_cluster(tasks: list[Task], store: Store, address: str) -> Iterator[Outcome]:
    """Run the tasks on the Dask cluster at ``address``.

    Workers need this package and the experiment's module, but no common disk: outcomes come back
    here and are written here. Start them with one thread each, since cells are not thread-safe.

    When a worker dies, Dask blames every task it had in hand. Those few are run one at a time in
    the end, which tells who did it.
    """
    with _connect(address) as client:
        from distributed import KilledWorker

        blamed: list[Task] = []
        for task, answer in _answers(client, tasks, address):
            if isinstance(answer, KilledWorker):
                blamed.append(task)
            else:
                yield _keep(task, answer, store)
        for suspect in blamed:
            for task, answer in _answers(client, [suspect], address):
                yield _keep(task, answer, store)


def _answers(
    client: "Client", tasks: list[Task], address: str
) -> Iterator[tuple[Task, Outcome | Exception]]:
    """Yield each task's outcome as it comes, or what kept the cluster from having one."""
    from distributed import as_completed

    futures = {client.submit(execute, task, pure=False): task for task in tasks}
    for future in as_completed(futures, loop=client.loop):
        try:
            answer = future.result()  # waits if a worker died with it and Dask starts over
        except CancelledError as error:
            raise ExperimentError(
                f"The Dask cluster at {address} went away. Finished cells are kept; the same "
                f"command goes on from there."
            ) from error
        except Exception as error:  # its workers died, or could not import the experiment
            answer = error
        yield futures[future], answer
        future.release()


def _keep(task: Task, answer: Outcome | Exception, store: Store) -> Outcome:
    outcome = failure(task, answer) if isinstance(answer, Exception) else answer
    with store.claim(task):
        store.save(task, outcome)
    return outcome


def _connect(address: str) -> "Client":
    try:
        from distributed import Client
    except ImportError as error:
        raise ExperimentError(
            "A Dask cluster needs the package distributed: pip install 'exactformer[cluster]'."
        ) from error
    try:
        return Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ExperimentError(
            f"No Dask scheduler answers at {address!r}; an address looks like tcp://127.0.0.1:8786."
        ) from error
