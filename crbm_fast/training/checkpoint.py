"""Checkpoints: the state of a run in a file, and whose run it is.

Version 2 of the format, which crbm_fast/_files.py describes: "identity" in the JSON has the arguments that must be the
same for the run to go on, "steps", "best_epoch" and "history" the rest of a `RunState`; its arrays are "group.name".
Version 1 (crbm_fast before its learners were composed with an `Inference`) named learners otherwise and is refused.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from crbm_fast import _files
from crbm_fast._data import Data
from crbm_fast._errors import OtherRunError
from crbm_fast.training.history import Epoch, History
from crbm_fast.training.run import Run, RunState

_KIND, _VERSION = "crbm_fast checkpoint", 2


class Checkpoint:
    """The file that a run is saved to after each epoch.

    Parameters
    ----------
    path : path
    run : Run
    """

    def __init__(self, path: str | os.PathLike[str], run: Run) -> None:
        self.path, self._run = path, run
        crc, valid = _checksum(run.data), run.valid
        identity = {
            "model": repr(run.model),
            "learner": repr(run.learner),
            **run.options.identity(),
            "validation": None,
        }
        if valid is not None:
            identity["validation"] = _description(valid, crc if valid.V is run.data.V else _checksum(valid))
        self._identity = identity | {"data": _description(run.data, crc)}

    def save(self) -> None:
        """Write the state of the run, atomically."""
        state = self._run.state()
        meta = {
            "identity": self._identity,
            "steps": state.steps,
            "best_epoch": state.history.best_epoch,
            "history": [asdict(epoch) for epoch in state.history],
        }
        arrays = {f"{group}.{name}": a for group, members in state.arrays.items() for name, a in members.items()}
        _files.write(self.path, _KIND, meta, arrays, version=_VERSION)

    def resume(self) -> bool:
        """Let the run go on from the file; False if there is none.

        Raises
        ------
        OtherRunError
            The file is of a run with other arguments.
        CorruptedFileError, FileVersionError
        """
        if not os.path.exists(self.path):
            return False
        meta, arrays = _files.read(self.path, _KIND, version=_VERSION)
        with _files.corrupted_file_errors(self.path):
            theirs = dict(meta["identity"])
        for name, now in self._identity.items():
            if theirs.get(name) != now:
                raise OtherRunError(os.fspath(self.path), name, theirs.get(name), now)
        with _files.corrupted_file_errors(self.path):
            history = History(Epoch(**epoch) for epoch in meta["history"])
            steps, best = int(meta["steps"]), meta["best_epoch"]
            if steps < 0 or not (best is None or 1 <= best <= len(history)):
                raise ValueError(f"it has {steps} steps and {len(history)} epochs, of which {best} was the best")
            history.best_epoch = best
            groups: dict[str, dict[str, Any]] = {}
            for key, array in arrays.items():
                group, name = key.split(".", 1)
                groups.setdefault(group, {})[name] = array
            self._run.resume(RunState(steps, history, groups))
        return True


def _checksum(data: Data) -> int:
    """CRC-32 of features and outputs, by which a checkpoint recognises its data."""
    crc = data.V.checksum()
    return crc if data.X is None else data.X.checksum(crc)


def _description(data: Data, checksum: int) -> str:
    return f"{data.size} instances with checksum {checksum:08x}"
