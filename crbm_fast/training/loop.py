"""The loop over the epochs of a run, which `train`, `fit` and `partial_fit` share."""

from __future__ import annotations

import logging

import numpy as np

from crbm_fast.training.checkpoint import Checkpoint
from crbm_fast.training.initial import fit_logistic_part
from crbm_fast.training.progress import describe, progress_bar, show_errors
from crbm_fast.training.run import Run

logger = logging.getLogger("crbm_fast")


def begin(run: Run) -> None:
    """Bring the model and the run to the state before the first epoch."""
    if run.options.start == "logistic":
        fit_logistic_part(run.model, run.data, run.options)
    run.begin()


def run_epochs(run: Run, last_epoch: int, checkpoint: Checkpoint | None = None) -> None:
    """Run epochs until the last one is done, `patience` is at its end or a callback returns True.

    Parameters
    ----------
    run : Run
        It has begun, or was resumed.
    last_epoch : int
        Number of the last epoch.
    checkpoint : Checkpoint, optional
        What to save after each epoch.
    """
    with progress_bar(run, last_epoch) as bar:
        while run.epoch < last_epoch and not run.stopped():
            result = run.run_epoch(bar)
            if bar is not None:
                show_errors(bar, result)
            if checkpoint is not None:
                checkpoint.save()
            logger.info("%s", describe(run.learner.name, result))
            answers = [callback(result, run.model) for callback in run.options.callbacks]
            if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
                break
