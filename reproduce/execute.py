"""One run: train, choose the epoch by the validation error, test, write the result.

    DIR/runs/<task>/<method>.json            the result, put in place when it is whole
                    <method>.<hash>.npz      the checkpoint while the run is under way
    DIR/reproduce.log                        a line per epoch

The files make a run safe to kill, to resume and to do twice: a run that was killed goes on from its checkpoint, and
two processes that do the same run at once write the same checkpoints and the same result, each of them atomically.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import signal
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crbm_fast import CRBM, DivergenceError, Epoch, History, show_config, train
from crbm_fast.datasets import error_all, error_changed
from reproduce import results
from reproduce.methods import METHODS
from reproduce.results import Result
from reproduce.runs import Run

LOG = "reproduce.log"
DEMO_IMAGES = 7  # as many as the paper's figure has

# A temporary file this old belongs to a process that was killed while it wrote: writing takes seconds.
_ABANDONED_AFTER = 3600.0


@dataclass(frozen=True)
class Where:
    """Where a run is done, and for whom.

    Attributes
    ----------
    folder : Path
        The folder of results.
    resume : bool
        Whether results and checkpoints from before count.
    parent : int, optional
        The process that waits for the run and has started this one.  When it has ended, this one ends after the epoch,
        and the next command goes on from the checkpoint.
    """

    folder: Path
    resume: bool = True
    parent: int | None = None


def is_done(run: Run, folder: Path) -> bool:
    """Whether the folder has a result of this run that doing it again would not change."""
    result = results.read(results.path_of(folder, run.name))
    return result is not None and result["hash"] == run.hash and results.is_final(result)


def execute(run: Run, where: Where) -> Result:
    """Do the run and write its result.  An error of the run is a result, too.

    Returns
    -------
    dict
        The result as it was written; with `resume`, that of another process which has finished the run in between.
    """
    _end_if_orphaned(where)
    path = results.path_of(where.folder, run.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if where.resume and is_done(run, where.folder):
        found = results.read(path)
        assert found is not None
        return found
    checkpoint = path.with_name(f"{path.stem}.{run.hash}.npz")
    begin = time.perf_counter()
    try:
        outcome = _train_and_test(run, checkpoint, where)
    except Exception as error:
        _log(where, run, f"failed: {type(error).__name__}: {error}")
        outcome = {
            "error": {
                "type": type(error).__name__,
                "message": str(error),
                "final": isinstance(error, DivergenceError),  # it would diverge again
            },
            "made": {"seconds": {"total": round(time.perf_counter() - begin, 2)}},
        }
    made = {
        **outcome.pop("made"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "config": show_config("dicts"),
    }
    result = {"name": run.name, "hash": run.hash, **run.facts(), **outcome, "made": made}
    results.write(path, result)
    _remove_leftovers(path, keep=checkpoint if _may_help_the_next_attempt(result) else None)
    return result


def _end_if_orphaned(where: Where) -> None:
    """End this process at once if the one that waits for it has ended: it would go on with the runs in its queue."""
    if where.parent is not None and os.getppid() != where.parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _may_help_the_next_attempt(result: Result) -> bool:
    """Whether the checkpoint is worth keeping: not if it is the checkpoint that cannot be used."""
    unusable = ("CorruptedFileError", "FileVersionError", "OtherRunError")
    return not results.is_final(result) and result["error"]["type"] not in unusable


def _remove_leftovers(path: Path, keep: Path | None) -> None:
    """Remove the checkpoints beside a result, whatever their hash, and the temporary files of killed processes."""
    for checkpoint in path.parent.glob(f"{path.stem}.*.npz"):
        if checkpoint != keep:
            checkpoint.unlink(missing_ok=True)
    for temporary in path.parent.glob(f".{path.stem}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # another process may remove it, too
            if time.time() - temporary.stat().st_mtime > _ABANDONED_AFTER:
                temporary.unlink()


def _train_and_test(run: Run, checkpoint: Path, where: Where) -> Result:
    """What a result has beside the run's name and facts."""
    parts = run.task.load(run.scale)
    X, V = parts["train"]
    method = METHODS[run.method]
    nh = run.scale.nh if method.has_hidden_units else 0
    model = run.recipe.make_model(V.shape[1], nh, X.shape[1], seed=run.seed, n_threads=1)
    trained_here = 0  # epochs of this call, not of a checkpoint

    def after_epoch(epoch: Epoch, _: CRBM) -> None:
        nonlocal trained_here
        trained_here += 1
        error = "" if epoch.valid_error is None else f", {100 * epoch.valid_error:.3f} % of the validation pixels wrong"
        _log(where, run, f"epoch {epoch.epoch} of {run.epochs}: {epoch.seconds['total']:.1f} s{error}")
        _end_if_orphaned(where)

    begin = time.perf_counter()
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
            resume=where.resume,
            callbacks=[after_epoch],
            progress=False,
        )
    before = sum(epoch.seconds["total"] for epoch in history[: len(history) - trained_here])
    trained = time.perf_counter()
    best = history.best_epoch
    assert best is not None  # there is a validation set
    tested = _test(model, *parts["test"])
    seconds = {"training": trained - begin + before, "test": time.perf_counter() - trained}
    return {
        "images": {part: len(pair[1]) for part, pair in parts.items()},
        "epochs": len(history),
        "best_epoch": best,
        "convergence": _convergence(history),
        "inference": asdict(model.inference),
        "validation": {"all": results.number(history[best - 1].valid_error)},
        **tested,
        "warnings": [str(warning.message) for warning in caught],
        "error": None,
        "made": {
            "seconds": {name: round(s, 2) for name, s in {**seconds, "total": sum(seconds.values())}.items()},
            "resumed_after": len(history) - trained_here,
        },
    }


def _convergence(history: History) -> Result | None:
    """By epoch, how often inference converged, and within how many iterations; None where nothing is iterated."""
    shares = history.column("converged")
    if all(share is None for share in shares):
        return None
    return {"share": [results.number(share) for share in shares], "max_iter": history.column("max_iter")}


def _test(model: CRBM, X: Any, V: Any) -> Result:
    """The errors on the test set and its first images; null for a run without test images."""
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


def _log(where: Where, run: Run, text: str) -> None:
    """Append a line to the log; several processes may do so at once."""
    now = datetime.datetime.now().isoformat(sep=" ", timespec="seconds")
    with open(where.folder / LOG, "a", encoding="utf-8") as file:
        file.write(f"{now} {run.name}: {text}\n")


def _cpu() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
