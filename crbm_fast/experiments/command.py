"""`crbm-fast reproduce`: the command line, and what it says while runs are under way."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crbm_fast import _validation as check
from crbm_fast.commands.shared import CommandError, add_command, positive
from crbm_fast.experiments import figures, results, runner, tasks
from crbm_fast.experiments.claims import ERRORS, paper_cell
from crbm_fast.experiments.methods import METHODS
from crbm_fast.experiments.report import count, time_text, write_report
from crbm_fast.experiments.results import Result
from crbm_fast.experiments.runner import Event
from crbm_fast.experiments.runs import TARGETS, Run, needs, plan

DESCRIPTION = """\
The paper's eight methods on its six tasks, trained, chosen on the validation set, tested, and reported beside the
paper's numbers. What is finished is kept: the same command goes on where it was killed.
"""
EPILOG = """\
examples:
  crbm-fast reproduce --scale small                        every method in a few minutes, without a download
  crbm-fast reproduce table1 --methods MLE-BP LR           two rows of the first table at full scale
  crbm-fast reproduce --jobs 8 --out results               everything, eight processes
  crbm-fast reproduce --out results --report-only          the report again, from the results there

Full scale needs MNIST and Caltech101 Silhouettes: in the folder that CRBM_FAST_DATA names, or downloaded
(pip install "crbm_fast[data]"). Figures need matplotlib (pip install "crbm_fast[plots]").

exit code: 0 all runs are there, 1 a run failed, 2 a mistake in the command or data not found, 130 interrupted
"""


def add_parser(commands: Any) -> None:
    """Add `reproduce` to the subparsers."""
    parser = add_command(
        commands,
        "reproduce",
        run,
        help="run the paper's experiments and write a report",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="table1, table2, table3, fig-occlusion, fig-convergence, fig-demo (default: all)",
    )
    parser.add_argument(
        "--scale",
        choices=("full", "small"),
        default="full",
        help="the paper's data and sizes, or few digits and hidden units (default full)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="only these: LR CD-1 CD-10 CD-PercLoss MLE-MF MLE-BP LSSVM MSSVM",
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="processes, of one thread each (default: the number of cores)"
    )
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep finished runs and go on from checkpoints (the default)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of results (default: results, results-small)")
    parser.add_argument(
        "--report-only", action="store_true", help="run nothing; write the report of what is in DIR so far"
    )
    parser.add_argument("--list", action="store_true", help="list the runs and whether they are done, and end")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    try:
        return _run(args)
    except KeyboardInterrupt:
        again = "the same command" if args.resume else "the same command without --no-resume"
        raise KeyboardInterrupt(f"{again} goes on from here") from None


def _run(args: argparse.Namespace) -> int:
    targets, methods, scale = _targets(args.targets), _methods(args.methods), tasks.SCALES[args.scale]
    folder = args.out or Path("results" if args.scale == "full" else f"results-{args.scale}")
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--out {folder} is not a folder")
    before = results.read_all(folder)
    if args.report_only:
        return _written(write_report(folder))
    runs = plan(targets, scale, methods)
    if not runs:
        needed = dict.fromkeys(method for target in targets for _, method in needs(target))
        raise CommandError(f"{', '.join(targets)} needs {' or '.join(needed)}, which --methods leaves out")
    other = sorted({r["scale"]["name"] for r in before.values()} - {scale.name})
    if other:
        raise CommandError(f"{folder} has runs of scale {other[0]}; name another folder: --out DIR")
    session = runner.Session(folder, args.resume)
    todo = [run for run in runs if not session.finished(run)]
    if args.list:
        for run in runs:
            print(f"{run.name:<34} {_status(run, before.get(run.name), todo)}")
        return 0
    if not figures.available():
        if any(name.startswith("fig-") for name in args.targets):
            raise CommandError(figures.HINT)
        print(f"note: the report will have no pictures; {figures.HINT}", file=sys.stderr)
    for data in sorted({run.task.data for run in todo}):  # once, before workers ask for a download together
        tasks.load(data, scale.digits)
    jobs = min(args.jobs or check.check_threads(None), max(1, len(todo)))
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{count(len(runs), 'run')}, {len(runs) - len(todo)} of them done before; {jobs} at a time; "
        f"a line per epoch in {folder / runner.LOG}",
        flush=True,
    )
    progress = Progress(len(runs), len(runs) - len(todo))
    try:
        runner.perform(todo, folder, jobs=jobs, resume=args.resume, tell=progress.tell)
    finally:
        progress.clear()
    found = results.read_all(folder)
    seconds = sum(found[run.name]["made"]["seconds"]["total"] for run in runs if run.name in found)
    _written(write_report(folder))
    lacking = [r.name for r in runs if r.name not in found or found[r.name]["error"] or found[r.name]["hash"] != r.hash]
    if lacking:
        print(
            f"{len(lacking)} of {count(len(runs), 'run')} failed: {', '.join(lacking)}; one that diverged is done "
            f"again once its file below {folder / results.RUNS} is removed",
            file=sys.stderr,
        )
        return 1
    print(f"everything is there: {count(len(runs), 'run')}, {time_text(seconds)} of work")
    return 0


def _targets(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in TARGETS:
            raise CommandError(f"no target {name!r}; choose from: {', '.join(TARGETS)}")
    return tuple(names) or TARGETS


def _methods(names: Sequence[str] | None) -> tuple[str, ...]:
    """Methods by name, in any case."""
    if names is None:
        return tuple(METHODS)
    known = {name.lower(): name for name in METHODS}
    for name in names:
        if name.lower() not in known:
            raise CommandError(f"no method {name!r}; choose from: {', '.join(METHODS)}")
    return tuple(known[name.lower()] for name in names)


def _status(run: Run, result: Result | None, todo: Sequence[Run]) -> str:
    """Of a run, for --list."""
    if result is None:
        return "to do"
    if result["hash"] != run.hash:
        return "to do again: its hyperparameters or the experiment have changed"
    if result["error"] is not None:
        again = "to do again: " if run in todo else ""
        return f"{again}failed: {result['error']['type']}: {result['error']['message']}"
    return "to do again" if run in todo else f"done: {summary(result)}"


def summary(result: Result) -> str:
    """A finished run in a line."""
    parts = []
    if result["test"] is None:
        parts.append(f"validation {100 * result['validation']['all']:.3f} %")
    else:
        for error in ERRORS:
            value, theirs = result["test"][error], paper_cell(result["name"].split("/")[0], result["method"], error)
            beside = "" if theirs is None else f" (paper {theirs:.3f})"
            if value is not None:
                parts.append(f"{error.capitalize()} {100 * value:.3f} %{beside}")
    parts.append(f"epoch {result['best_epoch']} of {len(result['history']['epoch'])}")
    return ", ".join([*parts, time_text(result["made"]["seconds"]["total"])])


def _written(paths: Sequence[Path]) -> int:
    print("wrote " + ", ".join(str(path) for path in paths))
    return 0


class Progress:
    """A line per finished run; in a terminal, below them, a line with the runs under way.

    Parameters
    ----------
    total, done : int
        Runs in all, and done before.
    """

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done = total, done
        self.running: dict[int, str] = {}
        self.terminal = sys.stderr.isatty()

    def tell(self, event: Event) -> None:
        """Take an `Event`."""
        self.clear()
        if event.kind == "epoch":
            valid = "" if event.valid_error is None else f" {100 * event.valid_error:.2f} %"
            self.running[event.worker] = f"{event.name} {event.epoch}/{event.epochs}{valid}"
        elif event.kind == "waiting":
            self.running[event.worker] = f"waiting for {event.name}"
        else:
            self.running.pop(event.worker, None)
        if event.kind in ("finished", "failed"):
            self.done += 1
            assert event.result is not None
            error = event.result["error"]
            text = summary(event.result) if error is None else f"FAILED: {error['type']}: {error['message']}"
            width = len(str(self.total))
            print(f"[{self.done:>{width}}/{self.total}] {event.name}: {text}", flush=True)
        elif event.kind == "lost":
            print("a process was killed, or ended by an error (above); the others go on", file=sys.stderr)
        if self.terminal and self.running:
            line = f"[{self.done}/{self.total}] " + " | ".join(self.running.values())
            columns = shutil.get_terminal_size().columns
            print(line[: columns - 1], end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line of the runs under way."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
