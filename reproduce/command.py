"""`python -m reproduce`: the command line, and what it prints while runs are under way."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import joblib

from reproduce import figures, results, runner, tasks
from reproduce.claims import ERRORS, paper_cell
from reproduce.execute import LOG, is_done
from reproduce.methods import METHODS
from reproduce.report import count, time_text, write_report
from reproduce.results import Result
from reproduce.runs import TARGETS, Run, needs, plan

DESCRIPTION = """\
The paper's eight methods on its six tasks, trained, chosen on the validation set, tested, and reported beside the
paper's numbers. What is finished is kept: the same command goes on where it was killed.
"""
EPILOG = """\
examples:
  python -m reproduce --scale small                        every method in a few minutes, without a download
  python -m reproduce table1 --methods MLE-BP LR           two rows of the first table at full scale
  python -m reproduce --jobs 8 --out results               everything, eight processes
  python -m reproduce --scheduler tcp://host:8786          everything, by the workers of a dask cluster
  python -m reproduce --out results --report-only          the report again, from the results there

Full scale needs MNIST and Caltech101 Silhouettes: in the folder that CRBM_FAST_DATA names, or downloaded
(pip install "crbm_fast[data]"). Figures need matplotlib (pip install "crbm_fast[plots]").

exit code: 0 all runs are there, 1 a run failed, 2 a mistake in the command or data not found, 130 interrupted
"""


class CommandError(Exception):
    """A mistake of the user, with what to tell them."""


class _Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def positive(text: str) -> int:
    """A positive integer on the command line."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = _Parser(
        prog="python -m reproduce",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)} (default: all)")
    add(
        "--scale",
        choices=("full", "small"),
        default="full",
        help="the paper's data and sizes, or few digits and hidden units (default full)",
    )
    add("--methods", nargs="+", action="extend", metavar="NAME", help=f"only these: {' '.join(METHODS)}")
    add("--jobs", type=positive, metavar="N", help="processes, of one thread each (default: the number of cores)")
    add("--scheduler", metavar="ADDRESS", help="let the workers of this dask scheduler do the runs: tcp://host:port")
    add(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep finished runs and go on from checkpoints (the default)",
    )
    add("--out", type=Path, metavar="DIR", help="folder of results (default: results, results-small)")
    add("--report-only", action="store_true", help="run nothing; write the report of what is in DIR so far")
    add("--list", action="store_true", help="list the runs and whether they are done, and end")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    0: all runs are there; 1: a run failed, or workers were killed; 2: a mistake in the command, or data not found;
    130: interrupted.
    """
    args = parser().parse_args(argv)
    try:
        return _run(args)
    except (CommandError, OSError, ValueError) as error:
        print(f"python -m reproduce: error: {error}", file=sys.stderr)
        return 2
    except runner.WorkersLostError as error:
        print(f"python -m reproduce: error: {error}; what is done is kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = "the same command" if args.resume else "the same command without --no-resume"
        elsewhere = "runs under way on the cluster end by themselves; " if args.scheduler else ""
        print(f"\npython -m reproduce: interrupted; {elsewhere}{again} goes on from here", file=sys.stderr)
        return 130


def _run(args: argparse.Namespace) -> int:
    targets, methods, scale = _targets(args.targets), _methods(args.methods), tasks.SCALES[args.scale]
    folder = args.out or Path("results" if args.scale == "full" else f"results-{args.scale}")
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--out {folder} is not a folder")
    if args.scheduler and args.jobs:
        raise CommandError("--jobs is for this machine, and --scheduler for a cluster with workers of its own")
    before = results.read_all(folder)
    if args.report_only:
        _print_written(write_report(folder))
        return 0
    runs = plan(targets, scale, methods)
    if not runs:
        needed = dict.fromkeys(method for target in targets for _, method in needs(target))
        raise CommandError(f"{', '.join(targets)} needs {' or '.join(needed)}, which --methods leaves out")
    other = sorted({r["scale"]["name"] for r in before.values()} - {scale.name})
    if other:
        raise CommandError(f"{folder} has runs of scale {other[0]}; name another folder: --out DIR")
    to_do = [run for run in runs if not (args.resume and is_done(run, folder))]
    if args.list:
        for run in runs:
            print(f"{run.name:<34} {_status(run, before.get(run.name), to_do)}")
        return 0
    if not figures.available():
        if any(name.startswith("fig-") for name in args.targets):
            raise CommandError(figures.HINT)
        print(f"note: the report will have no pictures; {figures.HINT}", file=sys.stderr)
    if not args.scheduler:
        for data in sorted({run.task.data for run in to_do}):  # before workers ask for a download together
            tasks.load(data, scale.digits)
    return _perform_and_report(args, folder, runs, to_do)


def _perform_and_report(args: argparse.Namespace, folder: Path, runs: list[Run], to_do: list[Run]) -> int:
    """Do the runs, write the report, say what failed; returns the exit code."""
    jobs = min(args.jobs or joblib.cpu_count(), max(1, len(to_do)))
    where = f"by the workers of {args.scheduler}" if args.scheduler else f"{jobs} at a time"
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{count(len(runs), 'run')}, {len(runs) - len(to_do)} of them done before; {where}; "
        f"a line per epoch in {folder / LOG}",
        flush=True,
    )
    progress = Progress(len(runs), len(runs) - len(to_do))
    try:
        runner.perform(
            to_do,
            folder,
            jobs=jobs,
            scheduler=args.scheduler,
            resume=args.resume,
            on_result=progress.show,
            on_loss=progress.warn,
        )
    except runner.WorkersLostError:
        if results.read_all(folder):
            _print_written(write_report(folder))
        raise
    _print_written(write_report(folder))
    found = results.read_all(folder)
    failed = [r.name for r in runs if r.name not in found or found[r.name]["error"] or found[r.name]["hash"] != r.hash]
    if failed:
        print(
            f"{len(failed)} of {count(len(runs), 'run')} failed: {', '.join(failed)}; one that diverged is done "
            f"again once its file below {folder / results.RUNS} is removed",
            file=sys.stderr,
        )
        return 1
    seconds = sum(found[run.name]["made"]["seconds"]["total"] for run in runs)
    print(f"everything is there: {count(len(runs), 'run')}, {time_text(seconds)} of work")
    return 0


def _targets(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in TARGETS:
            raise CommandError(f"no target {name!r}; choose from: {', '.join(TARGETS)}")
    return tuple(names) or TARGETS


def _methods(names: Sequence[str] | None) -> tuple[str, ...]:
    """The methods of these names, which may be written in any case."""
    if names is None:
        return tuple(METHODS)
    known = {name.lower(): name for name in METHODS}
    for name in names:
        if name.lower() not in known:
            raise CommandError(f"no method {name!r}; choose from: {', '.join(METHODS)}")
    return tuple(known[name.lower()] for name in names)


def _status(run: Run, result: Result | None, to_do: Sequence[Run]) -> str:
    """What --list says about a run."""
    if result is None:
        return "to do"
    if result["hash"] != run.hash:
        return "to do again: its hyperparameters or the experiment have changed"
    if result["error"] is not None:
        again = "to do again: " if run in to_do else ""
        return f"{again}failed: {result['error']['type']}: {result['error']['message']}"
    return "to do again" if run in to_do else f"done: {summary(result)}"


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
    parts.append(f"epoch {result['best_epoch']} of {result['epochs']}")
    return ", ".join([*parts, time_text(result["made"]["seconds"]["total"])])


def _print_written(paths: Sequence[Path]) -> None:
    print("wrote " + ", ".join(str(path) for path in paths))


class Progress:
    """A line for each run that has ended.

    Parameters
    ----------
    total, done : int
        How many runs there are, and how many were done before.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.done = total, done

    def show(self, result: Result) -> None:
        """Print what came out of a run."""
        self.done += 1
        error = result["error"]
        text = summary(result) if error is None else f"FAILED: {error['type']}: {error['message']}"
        print(f"[{self.done:>{len(str(self.total))}}/{self.total}] {result['name']}: {text}", flush=True)

    def warn(self, message: str) -> None:
        """Print what was lost."""
        print(message, file=sys.stderr, flush=True)
