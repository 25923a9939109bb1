"""What a person sees while a run is under way: a line per epoch in the log, and a progress bar."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from crbm_fast.training.history import Epoch
from crbm_fast.training.run import Run


def describe(learner: str, e: Epoch) -> str:
    """An epoch in one line."""
    parts = [f"{learner} epoch {e.epoch}: training error {100 * e.train_error:.3f} %"]
    if e.valid_error is not None:
        parts.append(f"validation error {100 * e.valid_error:.3f} %")
    if e.converged is not None:
        parts.append(f"{100 * e.converged:.1f} % converged in {e.n_iter:.1f} iterations")
    if e.below_truth is not None:
        parts.append(f"{100 * e.below_truth:.1f} % of the rivals below the truth")
    parts.append(f"|gradient| {e.gradient_norm:.3g}, |weights| {e.weight_norm:.4g}, {e.seconds['total']:.2f} s")
    return ", ".join(parts)


@contextlib.contextmanager
def progress_bar(run: Run, last_epoch: int) -> Iterator[Any]:
    """A bar by tqdm over the minibatches until the last epoch, if the run's options ask for it; otherwise None."""
    show = run.options.progress
    if show is False or (show is None and not (sys.stderr and sys.stderr.isatty())):
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if show:
            raise ImportError("progress=True needs tqdm: pip install tqdm") from None
        yield None
        return
    batches = -(-run.data.size // run.options.batch_size)
    with tqdm(
        total=last_epoch * batches,
        initial=run.epoch * batches,
        unit="batch",
        desc=run.learner.name,
        dynamic_ncols=True,
    ) as bar:
        yield bar


def show_errors(bar: Any, e: Epoch) -> None:
    """Write the errors of an epoch beside the bar."""
    shown = {"train": e.train_error, "valid": e.valid_error}
    bar.set_postfix_str(", ".join(f"{name} {100 * error:.3f} %" for name, error in shown.items() if error is not None))
