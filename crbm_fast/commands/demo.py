"""`crbm-fast demo`: two of the paper's tasks on the digits that come with the package, by three of its methods."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from crbm_fast import _files
from crbm_fast import _validation as check
from crbm_fast.commands.shared import CommandError, add_command, check_out, natural, positive
from crbm_fast.experiments import figures, results, runner
from crbm_fast.experiments.claims import ERRORS
from crbm_fast.experiments.methods import Recipe
from crbm_fast.experiments.report import time_text
from crbm_fast.experiments.results import Result
from crbm_fast.experiments.runs import Run
from crbm_fast.experiments.tasks import NOISY_10, OCCLUDED, Scale

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

METHODS = {"LR": "logistic regression", "MLE-MF": "CRBM, mean field", "MLE-BP": "CRBM, belief propagation"}
TASKS = (NOISY_10, OCCLUDED[8])
SCALE = Scale("demo", nh=128, digits=True)

# The same for all methods, but for the hidden units.  On the validation images each method is within 0.03 % of its best
# among a few trials (rates of 0.005 to 0.04, weight decays around these, 64 to 128 hidden units).  With a rate of 0.01
# BP was 0.1 % ahead of mean field on occluded digits: mean field wants a higher one.
RECIPES = {
    kind: Recipe(
        {
            "epochs": 8,
            "batch_size": 20,
            "learning_rate": rate,
            "schedule": "linear",
            "start": "logistic",
            "weight_decay": decay,
            "centering": "features",
            "averaging": 0.995,
        },
        {"scale": 0.05, "tied": 0.01},
    )
    for kind, rate, decay in (("noisy", 0.02, 0.008), ("occluded", 0.03, 0.001))
}


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
    add("--epochs", type=positive, metavar="N", help="of every training, in place of those chosen for it")
    add("--seed", type=natural, default=0, help="of the initial weights and of training (default 0)")
    add("--jobs", type=positive, metavar="N", help="processes, of one thread each (default: the number of cores)")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if args.out.suffix.lower() != ".png":
        raise CommandError(f"--out {args.out} does not end in .png, the format of the picture")
    check_out("--out", args.out, force=True, others={})
    if not figures.available():
        print(f"note: there will be no picture; {figures.HINT}", file=sys.stderr)
    scale = SCALE if args.epochs is None else replace(SCALE, keywords={"epochs": args.epochs})
    # the longest first, or one process would be at them when the others have ended
    runs = [Run(task, method, scale, RECIPES[task.kind], args.seed) for method in reversed(METHODS) for task in TASKS]
    jobs = args.jobs or check.check_threads(None)
    print(f"{len(runs)} trainings, {min(jobs, len(runs))} at a time", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder, Progress(runs) as progress:
        runner.perform(runs, Path(folder), jobs=jobs, resume=False, tell=progress.tell)
        found = results.read_all(Path(folder))
    for result in found.values():
        if result["error"] is not None:
            print(f"crbm-fast demo: error: {result['name']}: {result['error']['message']}", file=sys.stderr)
            return 1
    print(table(found))
    if figures.available():
        png = figures.demo(found)
        assert png is not None
        with _files.replacing(args.out) as file:
            file.write(png)
        print(f"\nwrote {args.out}: digits of the test set and what the CRBM trained by BP makes of them")
    return 0


def table(found: dict[str, Result]) -> str:
    """The errors on the test images, a line per method."""
    images = next(iter(found.values()))["images"]
    width = max(map(len, METHODS.values()))
    heads = "".join(f"{task.title:>20}" for task in TASKS)
    lines = [
        f"Wrong pixels of {images['test']} test digits, % (learned from {images['train']:,}):",
        "",
        f"{'':{width}}{heads}",
        f"{'':{width}}" + f"{'All':>11}{'Changed':>9}" * len(TASKS) + f"{'seconds':>10}",
    ]
    for method, words in METHODS.items():
        pair = [found[f"{task.name}/{method}"] for task in TASKS]
        cells = "".join(
            f"{100 * result['test'][error]:{places}.2f}"
            for result in pair
            for error, places in zip(ERRORS, (11, 9), strict=True)
        )
        seconds = sum(result["made"]["seconds"]["training"] for result in pair)
        lines.append(f"{words:<{width}}{cells}{seconds:10.1f}")
    return "\n".join(lines)


class Progress:
    """A line per training when it ends, on stderr; in a terminal with tqdm, below them, a bar over the epochs of all.

    Parameters
    ----------
    runs : list of Run
    """

    def __init__(self, runs: list[Run]) -> None:
        self.runs = {run.name: run for run in runs}
        self.done = 0
        self.bar: Any = None
        if sys.stderr.isatty():
            with suppress(ImportError):
                from tqdm.auto import tqdm

                self.bar = tqdm(total=sum(run.epochs for run in runs), leave=False, unit="epoch", dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def tell(self, event: runner.Event) -> None:
        """Take an `Event` of `perform`."""
        if event.kind == "epoch" and self.bar is not None:
            self.bar.update()
        if event.kind != "finished" or event.result is None:
            return
        self.done += 1
        run, result = self.runs[event.name], event.result
        text = (
            f"[{self.done}/{len(self.runs)}] {run.task.kind}, {METHODS[run.method]}: "
            f"{100 * result['validation']['all']:.2f} % of the validation pixels wrong in epoch "
            f"{result['best_epoch']} of {run.epochs}, {time_text(result['made']['seconds']['total'])}"
        )
        text = "\n      ".join([text, *result["warnings"]])
        if self.bar is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self.bar.write(text, file=sys.stderr)
