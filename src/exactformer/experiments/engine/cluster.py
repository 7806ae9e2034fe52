"""Running cells on a Dask cluster, given the address of its scheduler."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Outcome, Task
from exactformer.experiments.engine.store import Store
from exactformer.experiments.engine.work import execute, failure

if TYPE_CHECKING:
    from distributed import Client

_SECONDS_TO_CONNECT = 10


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
