"""Runs, one after another in each of several processes: train, choose the epoch, test, write one JSON.

    perform  ->  worker processes  ->  work: the whole list, skipping what is done or claimed by others
                                       -> execute: one run

The files are the only thing processes share.  A run is claimed by a lock that the system frees when its holder ends,
however it ends; so workers of one command, and several commands on one folder, never do the same run twice, and what a
killed process has left is taken up by whoever comes next.

    DIR/runs/<task>/<method>.json            the result, put in place when it is whole
                    <method>.<hash>.npz      the checkpoint, while running
                    <method>.lock            the claim, while running
    DIR/reproduce.log                        a line per epoch
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import logging
import multiprocessing
import multiprocessing.connection
import os
import platform
import secrets
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from crbm_fast._config import show_config
from crbm_fast.datasets import error_all, error_changed
from crbm_fast.experiments import results
from crbm_fast.experiments.methods import METHODS
from crbm_fast.experiments.results import Result
from crbm_fast.experiments.runs import Run
from crbm_fast.model import CRBM
from crbm_fast.training import DivergenceError, Epoch, train

logger = logging.getLogger("crbm_fast")

LOG = "reproduce.log"
DEMO_IMAGES = 7  # as many as the paper's figure has: the first ones of the test set


@dataclass(frozen=True)
class Event:
    """What a worker tells.

    Attributes
    ----------
    kind : {"epoch", "finished", "failed", "waiting", "idle", "lost"}
        Of the run; "waiting": another process is at it; "idle": the worker ends; "lost": it was killed.
    worker : int
    name : str
        Of the run.
    epoch, epochs : int
        Done, and in all.
    valid_error : float or None
        After the epoch.
    result : dict or None
        With "finished" and "failed".
    """

    kind: Literal["epoch", "finished", "failed", "waiting", "idle", "lost"]
    worker: int = 0
    name: str = ""
    epoch: int = 0
    epochs: int = 0
    valid_error: float | None = None
    result: Result | None = None


Tell = Callable[[Event], Any]


class _Told(BaseException):
    """What `tell` raised, on its way out of a run: not an error of the run."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass(frozen=True)
class Session:
    """One call of `perform`.

    Attributes
    ----------
    folder : Path
    resume : bool
        Whether results and checkpoints from before count.
    token : str
        In the results made by this call.
    n_threads : int
        Of each worker.
    """

    folder: Path
    resume: bool = True
    token: str = ""
    n_threads: int = 1

    def finished(self, run: Run) -> bool:
        """Whether there is nothing to do: the run has a result, or failed for good, or failed just now."""
        result = results.read(results.path_of(self.folder, run.name))
        if result is None or result["hash"] != run.hash:
            return False
        if result["made"]["session"] == self.token:
            return True
        return self.resume and is_final(result)


def is_final(result: Result) -> bool:
    """Whether doing the run again would give the same: it was tested, or it diverged, which follows from its facts."""
    return result["error"] is None or bool(result["error"]["final"])


def perform(
    runs: Sequence[Run],
    folder: Path,
    *,
    jobs: int = 1,
    n_threads: int = 1,
    resume: bool = True,
    tell: Tell = lambda event: None,
) -> None:
    """Do the runs that have no result yet; results do not depend on `jobs` or `n_threads`.

    Parameters
    ----------
    runs : sequence of Run
        In the order to do them.
    folder : Path
        Results go to folder/runs, a line per epoch to folder/reproduce.log.
    jobs : int
        Processes.  With 1, this one.
    n_threads : int
        Threads of each; as many processes are faster.
    resume : bool
        Whether to keep what earlier calls have finished, and to go on from their checkpoints.
    tell : callable
        Called with an `Event` after each epoch and run.
    """
    for run in runs:
        results.path_of(folder, run.name).parent.mkdir(parents=True, exist_ok=True)
    session = Session(folder, resume, secrets.token_hex(8), n_threads)
    todo = [run for run in runs if not session.finished(run)]
    if min(jobs, len(todo)) <= 1:
        try:
            work(todo, session, tell)
        except _Told as told:
            raise told.error from None
        return
    context = multiprocessing.get_context("spawn")  # no copies of this process's threads and locks
    workers, lost = {}, 0
    try:
        for i in range(min(jobs, len(todo))):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_worker, args=(todo, session, i, sender), daemon=True)
            process.start()
            sender.close()  # the worker's end is the worker's alone: its death is an EOF
            workers[receiver] = (i, process)
        while workers:
            for ready in multiprocessing.connection.wait(list(workers)):
                receiver = ready  # type: ignore[assignment]
                try:
                    event = receiver.recv()
                except (EOFError, OSError):  # OSError: killed in the middle of a message
                    i, process = workers.pop(receiver)
                    process.join()
                    lost += process.exitcode != 0
                    event = Event("lost" if process.exitcode else "idle", i)
                tell(event)
    finally:
        for _, process in workers.values():
            process.terminate()
            process.join()
    left = [run.name for run in todo if not session.finished(run)]
    if lost and left:
        raise RuntimeError(
            f"{lost} of {min(jobs, len(todo))} processes ended early and left {', '.join(left)}. In a script, call "
            'perform below `if __name__ == "__main__":`, as new processes import the script; or use jobs=1'
        )


def _worker(runs: Sequence[Run], session: Session, number: int, sender: Any) -> None:
    """A worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends us

    def tell(event: Event) -> None:
        try:
            sender.send(replace(event, worker=number))
        except OSError:
            raise SystemExit("the parent is gone") from None

    work(runs, session, tell)


def work(runs: Sequence[Run], session: Session, tell: Tell) -> None:
    """Do the runs, first those that nobody else is at; then wait for the others, and do what they have left."""
    busy = [run for run in runs if not _attempt(run, session, tell, wait=False)]
    for run in busy:
        if not session.finished(run):
            tell(Event("waiting", name=run.name))
        _attempt(run, session, tell, wait=True)


def _attempt(run: Run, session: Session, tell: Tell, *, wait: bool) -> bool:
    """Do a run unless it is finished; False if somebody else is at it."""
    if session.finished(run):
        return True
    path = results.path_of(session.folder, run.name)
    with claim(path.with_name(f"{path.stem}.lock"), wait) as mine:
        if not mine:
            return False
        if session.finished(run):  # in between
            return True
        result = _recorded(run, session, tell)
        results.write(path, result)
        # after a ValueError it may be the checkpoint that is damaged
        keep = result["error"] is not None and not result["error"]["final"] and result["error"]["type"] != "ValueError"
        # all of this run's, whatever their hash, but for a checkpoint that may help the next attempt
        for left in [*path.parent.glob(f"{path.stem}.*.npz"), *path.parent.glob(f".{path.stem}.*.tmp")]:
            if not (keep and left == _checkpoint(run, session)):
                left.unlink(missing_ok=True)
    tell(Event("finished" if result["error"] is None else "failed", name=run.name, result=result))
    return True


@contextlib.contextmanager
def claim(path: Path, wait: bool) -> Iterator[bool]:
    """Hold the lock file `path`, removed afterwards; gives False if another process has it and we do not wait."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            yield False
            return
        except BaseException:
            os.close(handle)
            raise
        # what we have may be a file that its last holder has removed
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                break
        os.close(handle)
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _checkpoint(run: Run, session: Session) -> Path:
    path = results.path_of(session.folder, run.name)
    return path.with_name(f"{path.stem}.{run.hash}.npz")


def _recorded(run: Run, session: Session, tell: Tell) -> Result:
    """The run's result; errors are results, too."""
    head = {"name": run.name, "hash": run.hash, **run.facts()}
    begin = perf_counter()
    with _logged(run, session.folder):
        try:
            body = execute(run, _checkpoint(run, session), session, tell)
        except Exception as error:
            logger.error("failed: %s: %s", type(error).__name__, error)
            body = {
                "error": {
                    "type": type(error).__name__,
                    "message": str(error),
                    "final": isinstance(error, DivergenceError),  # it would diverge again
                },
                "made": {"seconds": {"total": round(perf_counter() - begin, 2)}},
            }
    made = {
        **body.pop("made"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "session": session.token,
        "cpu": _cpu(),
        "config": show_config("dicts"),
    }
    return {**head, **body, "made": made}


def execute(run: Run, checkpoint: Path, session: Session, tell: Tell) -> Result:
    """Train, choose the epoch by the validation error, test with the learner's inference in that epoch."""
    parts = run.task.load(run.scale)
    X, V = parts["train"]
    method = METHODS[run.method]
    nh = run.scale.nh if method.hidden else 0
    model = run.recipe.make_model(V.shape[1], nh, X.shape[1], seed=run.seed, n_threads=session.n_threads)
    fresh = 0  # epochs of this call, not of a checkpoint

    def report(epoch: Epoch, _: CRBM) -> None:
        nonlocal fresh
        fresh += 1
        try:
            tell(Event("epoch", name=run.name, epoch=epoch.epoch, epochs=run.epochs, valid_error=epoch.valid_error))
        except Exception as error:
            raise _Told(error) from None

    begin = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = train(
            model,
            X,
            V,
            run.recipe.make_learner(method),
            **run.keywords,
            validation=parts["validation"],
            seed=run.seed,
            checkpoint=checkpoint,
            resume=session.resume,
            callbacks=[report],
            progress=False,
        )
    before = sum(epoch.seconds["total"] for epoch in history[: len(history) - fresh])
    trained = perf_counter()
    body: Result = {
        "images": {part: len(pair[1]) for part, pair in parts.items()},
        "history": results.columns([asdict(epoch) for epoch in history]),
        "best_epoch": history.best_epoch,
        "inference": asdict(model.inference),
        "validation": {"all": results.number(history[(history.best_epoch or 0) - 1].valid_error)},
        **_test(model, *parts["test"]),
        "warnings": [str(w.message) for w in caught],
        "error": None,
    }
    seconds = {"training": trained - begin + before, "test": perf_counter() - trained}
    body["made"] = {
        "seconds": {name: round(s, 2) for name, s in {**seconds, "total": sum(seconds.values())}.items()},
        "threads": session.n_threads,
        "resumed_after": len(history) - fresh,
    }
    return body


def _test(model: CRBM, X: Any, V: Any) -> Result:
    """The errors on the test set, and its first images; null without images."""
    if len(V) == 0:
        return {"test": None, "demo": None}
    predicted = model.predict(X)
    images = {"clean": V, "corrupted": X, "predicted": predicted}
    return {
        "test": {
            "all": results.number(error_all(V, predicted)),
            "changed": results.number(error_changed(V, predicted, X)),
            "wrong": results.pack_counts(np.count_nonzero(predicted != V, axis=1)),
            "wrong_changed": results.pack_counts(np.count_nonzero((predicted != V) & (X != V), axis=1)),
            "pixels": {"all": V.size, "changed": int(np.count_nonzero(X != V))},
        },
        "demo": {name: results.pack_bits(part[:DEMO_IMAGES]) for name, part in images.items()},
    }


@contextlib.contextmanager
def _logged(run: Run, folder: Path) -> Iterator[None]:
    """Send the lines of training to the log."""
    handler = logging.FileHandler(folder / LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter(f"%(asctime)s {run.name}: %(message)s"))
    handler.setLevel(logging.INFO)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # what fails is told by events
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        handler.close()


def _cpu() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
