"""Many runs at once: joblib's worker processes on this machine, or the workers of a dask cluster.

    perform  ->  _on_this_machine   joblib.Parallel, or this process itself for one job     ->  execute.execute
             ->  _on_a_cluster      distributed.Client.submit                               ->  execute.execute

Each run uses one thread, and what it gives depends neither on where it is done nor on how many are done at once.  The
results are files.  Two commands on one folder may do the same run twice: both get the same result, and write it
atomically.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import joblib

from reproduce import results
from reproduce.execute import Where, execute
from reproduce.results import Result
from reproduce.runs import Run

# This many times in a row a killed worker is replaced without a single run having ended.
_ATTEMPTS = 3
# How often we look what a cluster has done, in seconds.
_LOOK_EVERY = 0.25


class WorkersLostError(RuntimeError):
    """Workers were killed again and again, or failed to begin, and left runs without a result."""


def perform(
    runs: Sequence[Run],
    folder: Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    resume: bool = True,
    on_result: Callable[[Result], Any] = lambda result: None,
    on_loss: Callable[[str], Any] = lambda message: None,
) -> None:
    """Do the runs.

    Parameters
    ----------
    runs : sequence of Run
        In the order to do them.
    folder : Path
        Results go to folder/runs, and a line per epoch to folder/reproduce.log.
    jobs : int
        The number of processes on this machine.  With 1, runs are done in this process.
    scheduler : str, optional
        The address of a dask scheduler, tcp://host:port.  Its workers do the runs then.
    resume : bool
        Whether to keep what earlier calls have finished, and to go on from their checkpoints.
    on_result : callable
        Called with each result as soon as its run has ended.
    on_loss : callable
        Called with a sentence when a worker was lost.

    Raises
    ------
    WorkersLostError
        If runs have no result in the end because workers were killed.
    """
    folder = folder.absolute()
    if scheduler is not None:
        iterate = _on_a_cluster(runs, Where(folder, resume), scheduler, on_loss)
    elif min(jobs, len(runs)) <= 1:
        iterate = (execute(run, Where(folder, resume)) for run in runs)
    else:
        iterate = _on_this_machine(runs, Where(folder, resume, os.getpid()), jobs, on_loss)
    for result in iterate:
        on_result(result)


def _on_this_machine(runs: Sequence[Run], where: Where, jobs: int, on_loss: Callable[[str], Any]) -> Iterator[Result]:
    """The results in the order in which runs end.

    A killed process takes the others of its pool with it: the runs without a result are then done by a new pool, and
    go on from their checkpoints if the earlier ones count.
    """
    remaining = {run.name: run for run in runs}
    failures = 0
    while remaining:
        pool = joblib.Parallel(
            n_jobs=min(jobs, len(remaining)),
            backend="loky",
            inner_max_num_threads=1,
            batch_size=1,
            return_as="generator_unordered",
        )
        ending = pool(joblib.delayed(execute)(run, where) for run in list(remaining.values()))
        try:
            for result in ending:
                del remaining[result["name"]]
                failures = 0
                yield result
        except BrokenProcessPool:
            failures += 1
            if failures == _ATTEMPTS:
                raise WorkersLostError(
                    f"processes were killed {failures} times in a row (for want of memory?) and left "
                    f"{', '.join(remaining)}; fewer at a time may help: --jobs 1"
                ) from None
            on_loss("a process was killed; new ones go on with what it has left")
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that runs under way are cancelled, or their results not used
                ending.close()


def _on_a_cluster(runs: Sequence[Run], where: Where, scheduler: str, on_loss: Callable[[str], Any]) -> Iterator[Result]:
    """The results in the order in which runs end.  The scheduler gives the runs of a worker that is gone to others."""
    import distributed

    with distributed.Client(scheduler, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        workers = _workers(client)
        crowded = [name for name, worker in workers.items() if worker["nthreads"] > 1]
        if crowded:
            raise ValueError(f"the worker {crowded[0]} does several runs in a process; start workers with --nthreads 1")
        futures = {client.submit(execute, run, where, pure=False, key=_key(run)): run for run in runs}
        pending, left = set(futures), []
        try:
            while pending:
                time.sleep(_LOOK_EVERY)
                before, workers = workers, _workers(client)
                gone = before.keys() - workers.keys()
                for name in sorted(gone):
                    others = "others do its runs" if workers else "its runs wait for another"
                    on_loss(f"the worker {name} is gone; {others}")
                ended = [future for future in futures if future in pending and future.done()]
                pending -= set(ended)
                for future in ended:
                    try:
                        result = future.result()
                    except Exception as error:  # not of the run, whose errors are results
                        on_loss(f"{futures[future].name} was not done: {_reason(error)}")
                        left.append(futures[future].name)
                        continue
                    _copy_here(result, where.folder)
                    yield result
        finally:
            client.cancel(list(pending))
    if left:
        raise WorkersLostError(
            f"workers have left {', '.join(left)}; they need crbm_fast and the clone: start them there, with "
            f"PYTHONPATH=. dask worker {scheduler} --nthreads 1"
        )


def _reason(error: BaseException) -> str:
    """What an error of a worker comes from: dask wraps a module that it does not find there, say."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def _key(run: Run) -> str:
    """A key for the scheduler that no other call has."""
    return f"{run.name}-{os.urandom(8).hex()}"


def _workers(client: Any) -> dict[str, Any]:
    """What the scheduler knows about each of its workers, by address."""
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def _copy_here(result: Result, folder: Path) -> None:
    """Write the result of a worker that does not share our file system."""
    path = results.path_of(folder, result["name"])
    here = results.read(path)
    if here is None or here["made"] != result["made"]:
        results.write(path, {key: value for key, value in result.items() if key not in ("format", "version")})
