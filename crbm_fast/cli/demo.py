"""`crbm-fast demo`: digits with noise are restored and digits with a hole completed, by three ways of learning."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _files, datasets
from crbm_fast import _validation as check
from crbm_fast.cli.picture import MISSING, WHITE, montage
from crbm_fast.cli.shared import CommandError, add_command, check_out, natural, positive, threads
from crbm_fast.learners import MLE, Learner, Logistic
from crbm_fast.model import CRBM
from crbm_fast.training import DivergenceError, Epoch, train

EPILOG = """\
Three methods learn to restore digits with noise and to complete digits with a patch missing, from 4,000 of the digits
that come with the package; each keeps the epoch that is best on 500 others. Printed is their error on the last 500: of
all pixels, and of those that the noise or the patch has changed. The picture has a few of these digits and what the
CRBM trained by BP makes of them, as Figure 2 of the paper. Same seed, same numbers.

examples:
  crbm-fast demo                                about a minute
  crbm-fast demo --out digits.png --seed 1      another start, and where the picture goes
  crbm-fast demo --epochs 2                     a glimpse

The picture needs matplotlib, the progress bar tqdm: pip install "crbm_fast[plots,progress]".

exit code: 0 done, 1 training diverged, 2 a mistake in the command, 130 interrupted
"""
HINT = 'the picture needs matplotlib: pip install "crbm_fast[plots]"'

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Task:
    """Digits corrupted in one way.

    Attributes
    ----------
    kind : {"noisy", "occluded"}
    amount : str
        How much is corrupted, in words.
    predicted : str
        What the prediction is called in the picture.
    options : dict
        The keywords of `train` that are chosen for this task.
    """

    kind: str
    amount: str
    predicted: str
    options: dict[str, Any]

    def corrupt(self, V: Images, seed: int) -> tuple[Images, NDArray[np.bool_]]:
        """The corrupted digits X (N, 784), and which of their pixels are missing."""
        if self.kind == "noisy":
            return datasets.flip(V, 0.1, seed=seed), np.zeros(V.shape, bool)
        return datasets.occlude(V, 8, value=0, seed=seed)


# The keywords of `train` are the same for all learners.  On the validation digits each is within 0.03 % of its
# best among a few trials (rates of 0.005 to 0.04, weight decays around these, 64 to 128 hidden units).  With a rate of
# 0.01 BP was 0.1 % ahead of mean field on occluded digits: mean field wants a higher one.
OPTIONS: dict[str, Any] = {
    "epochs": 8,
    "batch_size": 20,
    "schedule": "linear",
    "start": "logistic",
    "centering": "features",
    "averaging": 0.995,
}
TASKS = (
    Task("noisy", "10 %", "restored", {"learning_rate": 0.02, "weight_decay": 0.008}),
    Task("occluded", "8x8", "completed", {"learning_rate": 0.03, "weight_decay": 0.001}),
)
# The learners that are compared, by what the table calls them.
COMPARED: dict[str, Learner] = {
    "logistic regression": Logistic(),
    "CRBM, mean field": MLE("mean-field"),
    "CRBM, belief propagation": MLE("sum-product"),
}
SHOWN = "CRBM, belief propagation"

N_HIDDEN = 128
# The standard deviation of the initial W_vh, and of the difference between W_hx and W_vh'.
SCALE, TIED = 0.05, 0.01
# Each part has its own corruptions.
SEEDS = {"train": 1, "validation": 2, "test": 3}
N_SHOWN = 7


def add_parser(commands: Any) -> None:
    """Add `demo` to the subparsers."""
    parser = add_command(
        commands,
        "demo",
        run,
        help="restore and complete digits: BP beside mean field and logistic regression",
        description="Learn to restore noisy digits and to complete occluded ones, in about a minute.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        default=Path("crbm-fast-demo.png"),
        metavar="FILE.png",
        help="the picture, replaced if it exists (default crbm-fast-demo.png)",
    )
    add("--epochs", type=positive, metavar="N", help="epochs of every training, in place of those chosen for it")
    add("--seed", type=natural, default=0, help="seed of the initial weights and of training (default 0)")
    add(
        "--threads",
        type=threads,
        metavar="N",
        help="trainings at a time (default: the number of cores); same numbers for any N",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if args.out.suffix.lower() != ".png":
        raise CommandError(f"--out {args.out} does not end in .png, the format of the picture")
    check_out("--out", args.out, force=True, others={})
    drawable = importlib.util.find_spec("matplotlib") is not None
    if not drawable:
        print(f"note: there will be no picture; {HINT}", file=sys.stderr)
    options = OPTIONS if args.epochs is None else {**OPTIONS, "epochs": args.epochs}
    digits = load_digits()
    # the longest first, or one thread would be at them when the others have ended
    work = [(task, name) for name in reversed(COMPARED) for task in TASKS]
    n_threads = min(args.threads or check.check_threads(None), len(work))
    print(f"{len(work)} trainings, {n_threads} at a time", file=sys.stderr)
    with Progress(len(work), len(work) * options["epochs"]) as progress:
        outcomes = learn_all(work, digits, options, args.seed, n_threads, progress)
    print(table(outcomes, digits))
    if drawable:
        with _files.replacing(args.out) as file:
            file.write(picture(outcomes))
        print(f"\nwrote {args.out}: digits of the test set and what the CRBM trained by BP makes of them")
    return 0


def load_digits() -> dict[str, Images]:
    """The package's digits by part, each (N, 784)."""
    splits = datasets.load_digits()
    return {part: getattr(splits, part) for part in SEEDS}


@dataclass(frozen=True)
class Outcome:
    """What came out of a training: the test digits (N, 784) and the errors of their prediction.

    Attributes
    ----------
    clean, corrupted, predicted : (N, 784) arrays
    missing : (N, 784) array of bool
        The pixels that an occlusion has taken away.
    error_all, error_changed : float
        The share of wrong pixels among all, and among those that the corruption has changed.
    seconds : float
        How long the training took.
    summary : str
        The training in a line.
    """

    clean: Images
    corrupted: Images
    predicted: Images
    missing: NDArray[np.bool_]
    error_all: float
    error_changed: float
    seconds: float
    summary: str


def learn_all(
    work: list[tuple[Task, str]],
    digits: dict[str, Images],
    options: dict[str, Any],
    seed: int,
    n_threads: int,
    progress: Progress,
) -> dict[tuple[str, str], Outcome]:
    """Train each learner on each task, some at a time in threads: {(kind of the task, name): outcome}.

    One thread for each training keeps the cores busier than all of them for one: its batches are small.
    """
    outcomes = {}
    with ThreadPoolExecutor(n_threads) as pool:
        futures = {pool.submit(learn, *pair, digits, options, seed, progress.after_epoch): pair for pair in work}
        try:
            for future in as_completed(futures):
                task, name = futures[future]
                try:
                    outcome = outcomes[task.kind, name] = future.result()
                except DivergenceError:
                    progress.write(f"{task.kind}, {name}: diverged")
                    raise
                progress.write(f"{task.kind}, {name}: {outcome.summary}")
        finally:  # after an error or Ctrl-C the others end with their epoch
            progress.stopped = True
            pool.shutdown(cancel_futures=True)
    return outcomes


def learn(
    task: Task,
    name: str,
    digits: dict[str, Images],
    options: dict[str, Any],
    seed: int,
    after_epoch: Callable[[Epoch, CRBM], Any],
) -> Outcome:
    """Train a learner on a task, and predict the test digits by the epoch that is best on the validation digits."""
    corrupted = {part: task.corrupt(V, SEEDS[part]) for part, V in digits.items()}
    pairs = {part: (X, digits[part]) for part, (X, _) in corrupted.items()}
    X, V = pairs["train"]
    learner = COMPARED[name]
    nh = N_HIDDEN if "W_vh" in learner.trains else 0
    model = CRBM(V.shape[1], nh, X.shape[1], scale=SCALE, seed=seed, n_threads=1)
    if nh:
        model.W_hx = model.W_vh.T + (TIED / SCALE) * model.W_hx
    begin = perf_counter()
    history = train(
        model,
        X,
        V,
        learner,
        **{**options, **task.options},
        validation=pairs["validation"],
        seed=seed,
        callbacks=[after_epoch],
        progress=False,
    )
    seconds = perf_counter() - begin
    X, V = pairs["test"]
    predicted = model.predict(X)
    best = history.best_epoch
    assert best is not None  # there is a validation set
    return Outcome(
        clean=V,
        corrupted=X,
        predicted=predicted,
        missing=corrupted["test"][1],
        error_all=datasets.error_all(V, predicted),
        error_changed=datasets.error_changed(V, predicted, X),
        seconds=seconds,
        summary=f"{100 * (history[best - 1].valid_error or 0):.2f} % of the validation pixels wrong in epoch {best} of "
        f"{len(history)}, {seconds:.1f} s",
    )


def table(outcomes: dict[tuple[str, str], Outcome], digits: dict[str, Images]) -> str:
    """The errors on the test digits, a line per learner."""
    width = max(map(len, COMPARED))
    titles = [f"{task.kind.capitalize()} ({task.amount})" for task in TASKS]
    lines = [
        f"Wrong pixels of {len(digits['test'])} test digits, % (learned from {len(digits['train']):,}):",
        "",
        f"{'':{width}}" + "".join(f"{title:>20}" for title in titles),
        f"{'':{width}}" + f"{'All':>11}{'Changed':>9}" * len(TASKS) + f"{'seconds':>10}",
    ]
    for name in COMPARED:
        row = [outcomes[task.kind, name] for task in TASKS]
        cells = "".join(f"{100 * outcome.error_all:11.2f}{100 * outcome.error_changed:9.2f}" for outcome in row)
        lines.append(f"{name:<{width}}{cells}{sum(outcome.seconds for outcome in row):10.1f}")
    return "\n".join(lines)


def picture(outcomes: dict[tuple[str, str], Outcome]) -> bytes:
    """A PNG of a few test digits: original, noisy, restored, occluded, completed."""
    rows: list[tuple[str, Images]] = []
    for task in TASKS:
        outcome = outcomes[task.kind, SHOWN]
        clean, corrupted, predicted = (
            WHITE * images[:N_SHOWN, :, np.newaxis] for images in (outcome.clean, outcome.corrupted, outcome.predicted)
        )
        corrupted[outcome.missing[:N_SHOWN]] = MISSING
        if not rows:
            rows.append(("original", clean))
        rows += [(f"{task.kind}, {task.amount}", corrupted), (task.predicted, predicted)]
    return montage(rows)


class Progress:
    """A line per training when it ends, on stderr; in a terminal with tqdm, below them, a bar over all epochs.

    Parameters
    ----------
    trainings, epochs : int
        How many there are in all.

    Attributes
    ----------
    stopped : bool
        Set it to end the trainings that are under way.
    """

    def __init__(self, trainings: int, epochs: int) -> None:
        self.trainings, self.done, self.stopped = trainings, 0, False
        self.bar: Any = None
        if sys.stderr.isatty():
            with suppress(ImportError):
                from tqdm.auto import tqdm

                self.bar = tqdm(total=epochs, leave=False, unit="epoch", dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def after_epoch(self, epoch: Epoch, model: CRBM) -> None:
        """Move the bar; a callback of `train`."""
        if self.stopped:
            raise CancelledError
        if self.bar is not None:
            self.bar.update()

    def write(self, text: str) -> None:
        """Print the line of a training that has ended, above the bar."""
        self.done += 1
        text = f"[{self.done}/{self.trainings}] {text}"
        if self.bar is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self.bar.write(text, file=sys.stderr)
