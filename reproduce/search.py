"""Find the recipes by a search on the validation sets, the same for every method; write recipes.json and its log.

    CRBM_FAST_DATA=FOLDER python -m reproduce.search --out search --jobs 2

Every method has the same base recipe but for the number of epochs, and on every task the same search in four stages:
the learning rates RATES with the task's weight decay; a third and three times that decay with the best rate; two more
around the best of these; and the other rates with the best decay, or if that is the first, decays in between.  A trial
is a run on fewer images and epochs, scored by the least validation error; nothing is tested.  The best trial's settings
go into the recipe, and every trial into the log.

The initial state of mean field (`init` of infer) decides which mode it finds, and none is best for all tasks: methods
that predict by mean field are searched with both, and on each task all of them get the one that is better on average.

Fewer images want more weight decay: that of a trial is as many times higher as its images are fewer, so that the
penalty counts as much beside the sum over the images as it will in the run.

Killed, the same command goes on; the files are written when all trials are there.  Tasks and methods that are left out
keep the recipes and trials they have.  With --no-trials the bases themselves are written.

    python -m reproduce.search --revise reproduce/results

What few steps on few images suggest may not be right for many: CD leads away from its logistic start at such rates,
MSSVM learns hardly anything at others, or would go on.  After the runs at full scale this changes rates and epochs for
the next `python -m reproduce`, by the validation errors; see `revise`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduce import results
from reproduce.command import Progress, positive
from reproduce.execute import is_done
from reproduce.methods import METHODS
from reproduce.recipes import RECIPES, SEARCH_LOG, Recipe, recipe
from reproduce.runner import perform
from reproduce.runs import Run
from reproduce.tasks import IN_TABLES, OCCLUDED, SCALES, TASKS, Scale

# The weight decay of each task that is searched, as a first look at LR and MLE-BP suggests: few images want more of it,
# and a pixel outside of a patch, which is its own feature, less.
DECAYS = {
    "mnist-noisy-10": 0.001,
    "mnist-occluded-8": 0.0003,
    "caltech-noisy-20": 0.01,
    "caltech-occluded-12": 0.003,
}
# The other tasks use the recipes of these.
SAME_AS = {
    "mnist-noisy-20": "mnist-noisy-10",
    "mnist-occluded-12": "mnist-occluded-8",
    **{task.name: "mnist-occluded-12" for side, task in OCCLUDED.items() if side > 12},
}
RATES = (0.001, 0.003, 0.01)

# Epochs by data set: of CRBMs trained by inference, of those trained by sampling, of LR.  The latter have twice as many
# for the same time.
EPOCHS = {"mnist": (6, 12, 12), "caltech": (16, 32, 32)}
TRIAL_EPOCHS = {"mnist": (3, 4, 6), "caltech": (4, 6, 8)}
IMAGES = {"mnist": 50_000, "caltech": 4_100}
# Caltech101 Silhouettes has few images, and so have trials: their averages are over fewer steps.
AVERAGING = {"mnist": 0.999, "caltech": 0.99}

# The initial states of mean field that are tried.
INITS = (None, "visible")
# The number of trials of a task, a method and an initial state.
TRIALS = len(RATES) + 6

BACK = "back: worse than before"  # the reason of a revision that undoes the one before

# What the log has of a trial, in this order; null where there is nothing.
COLUMNS = ("learning_rate", "weight_decay", "init", "valid_error", "best_epoch", "seconds", "error")

Settings = dict[str, Any]
Trial = dict[str, Any]


def kind(method: str) -> int:
    """The index of a method into EPOCHS."""
    return {"logistic": 2, "cd": 1, "percloss": 1}.get(METHODS[method].learner, 0)


def base(task: str, method: str) -> dict[str, Any]:
    """The recipe before the search."""
    data = TASKS[task].data
    train = {
        "epochs": EPOCHS[data][kind(method)],
        "batch_size": 40,
        "learning_rate": 0.01,
        "schedule": "linear",
        "weight_decay": DECAYS[task],
        "centering": "features",
        "averaging": AVERAGING[data],
    }
    if method == "LR":
        return {"train": train}
    return {"train": {**train, "start": "logistic"}, "model": {"scale": 0.05, "tied": 0.01}}


def inits(method: str) -> tuple[str | None, ...]:
    """The initial states of the method's inference that are tried."""
    return INITS if METHODS[method].inference == "mean-field" else INITS[:1]


def with_settings(recipe: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The recipe with some keywords of `train`, or the initial state of its inference, replaced."""
    changed = {**recipe, "train": {**recipe["train"], **{k: v for k, v in settings.items() if k != "init"}}}
    if "init" in settings:
        changed["inference"] = {"init": settings["init"]}
    return changed


def trial(task: str, method: str, scale: Scale, i: int, settings: Settings) -> Run:
    """The run of the i-th trial with the initial state that the settings have."""
    data = TASKS[task].data
    fewer = max(1, IMAGES[data] / (scale.train or IMAGES[data]))
    changes = {
        **settings,
        "weight_decay": float(f"{fewer * settings['weight_decay']:.3g}"),
        "epochs": TRIAL_EPOCHS[data][kind(method)],
        "averaging": min(AVERAGING.values()),
    }
    number = i + TRIALS * inits(method).index(settings.get("init"))
    return Run(TASKS[task], method, scale, Recipe(**with_settings(base(task, method), changes)), trial=number)


# --- the four stages --------------------------------------------------------------------------------------------------


def first(task: str, init: str | None = None) -> list[Settings]:
    """The settings of the first stage: the rates, with the task's weight decay."""
    more = {} if init is None else {"init": init}
    return [{"learning_rate": rate, "weight_decay": DECAYS[task], **more} for rate in RATES]


def second(task: str, best: Settings, tried: Sequence[Settings]) -> list[Settings]:
    """The settings of the second stage, given the best so far: less and more weight decay."""
    return [{**best, "weight_decay": float(f"{factor * DECAYS[task]:.1g}")} for factor in (1 / 3, 3)]


def third(task: str, best: Settings, tried: Sequence[Settings]) -> list[Settings]:
    """The settings of the third stage: further out where the best is at an end of what was tried, else in between."""
    rate, decay, low, high = best["learning_rate"], best["weight_decay"], min(RATES), max(RATES)
    rates = {low: (rate / 3, 2 * rate), high: (3 * rate, rate / 2)}.get(rate, (2 * rate, rate / 2))
    new = [{**best, "learning_rate": float(f"{r:.1g}")} for r in rates]
    if decay != DECAYS[task]:
        new.insert(0, {**best, "weight_decay": float(f"{decay * decay / DECAYS[task]:.1g}")})
    return new[:2]


def fourth(task: str, best: Settings, tried: Sequence[Settings]) -> list[Settings]:
    """The settings of the fourth stage: the other rates with a decay that is not the first; or decays in between."""
    if best["weight_decay"] != DECAYS[task]:
        return [new for rate in RATES if (new := {**best, "learning_rate": rate}) not in tried][:2]
    return [{**best, "weight_decay": float(f"{factor * DECAYS[task]:.1g}")} for factor in (0.6, 2)]


def outcome(
    task: str, method: str, scale: Scale, tried: Sequence[Settings], folder: Path
) -> tuple[list[Trial], Settings]:
    """The trials with one initial state, each {settings, valid_error or error, best_epoch, seconds}, and the best
    settings."""
    listed = []
    for i, settings in enumerate(tried):
        run = trial(task, method, scale, i, settings)
        result = results.read(results.path_of(folder, run.name))
        if result is None or result["hash"] != run.hash:
            raise SystemExit(f"{run.name} was not done, or is of another search; run this again")
        entry = dict(settings)
        if result["error"] is not None:
            entry["error"] = f"{result['error']['type']}: {result['error']['message']}"
        else:
            entry |= {"valid_error": result["validation"]["all"], "best_epoch": result["best_epoch"]}
        entry["seconds"] = result["made"]["seconds"]["total"]
        listed.append(entry)
    if not any("valid_error" in entry for entry in listed):
        raise SystemExit(f"every trial of {method} on {task} failed: {listed[0]['error']}")
    return listed, best_of(listed)[1]


def best_of(listed: Sequence[Trial]) -> tuple[float, Settings]:
    """The validation error and the settings of the best of some trials."""
    best = min((entry for entry in listed if "valid_error" in entry), key=lambda entry: entry["valid_error"])
    return best["valid_error"], {k: best[k] for k in ("learning_rate", "weight_decay", "init") if k in best}


Key = tuple[str, str, str | None]
Stage = Callable[[str, Settings, Sequence[Settings]], list[Settings]]


def search(pairs: Sequence[tuple[str, str]], scale: Scale, folder: Path, jobs: int) -> dict[Key, list[Settings]]:
    """Do the trials of these tasks and methods; returns the settings tried, {(task, method, init): settings}."""
    tried: dict[Key, list[Settings]] = {
        (task, method, init): first(task, init) for task, method in pairs for init in inits(method)
    }
    folder.mkdir(parents=True, exist_ok=True)
    progress = Progress(len(tried) * TRIALS)
    stages: tuple[Stage | None, ...] = (None, second, third, fourth)
    for stage in stages:
        if stage is not None:
            for (task, method, _), settings in tried.items():
                settings += stage(task, outcome(task, method, scale, settings, folder)[1], settings)
        runs = [
            trial(task, method, scale, i, settings)
            for (task, method, _), listed in tried.items()
            for i, settings in enumerate(listed)
        ]
        to_do = [run for run in runs if not is_done(run, folder)]
        perform(to_do, folder, jobs=jobs, on_result=progress.show, on_loss=progress.warn)
    return tried


# --- the files --------------------------------------------------------------------------------------------------------


def read(folder: Path) -> dict[str, Any]:
    """The recipes and the log: {"recipes", "same_as", "images", "trials", "revised"}.

    images: {task: {part: images of a trial at most}}.  trials: {task: {method: [trial]}}.  revised: the changes that
    `revise` has made, in order.
    """
    if not (folder / RECIPES.name).exists():
        return {"recipes": {}, "same_as": SAME_AS, "images": {}, "trials": {}, "revised": []}
    recipes, log = (json.loads((folder / path.name).read_text(encoding="utf-8")) for path in (RECIPES, SEARCH_LOG))
    trials = {
        task: {method: [as_trial(row) for row in rows] for method, rows in by_method.items()}
        for task, by_method in log["trials"].items()
    }
    return {**recipes, "images": log["images"], "trials": trials, "revised": log["revised"]}


def as_trial(row: Sequence[Any]) -> Trial:
    """A trial, given its row in the log."""
    return {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None}


def write(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write recipes.json and search_log.json: what `read` gives, in order, and in words what was done."""
    recipes, trials = contents["recipes"], {task: tried for task, tried in contents["trials"].items() if tried}
    images = {task: counts for task, counts in contents["images"].items() if task in trials}
    chosen_recipes = {
        "same_as": SAME_AS,
        "recipes": {t: {m: recipes[t][m] for m in METHODS if m in recipes[t]} for t in TASKS if recipes.get(t)},
    }
    log = {
        "how": how(images, contents["revised"]) if trials else "The search's starting points: there was no search yet.",
        "images": images,
        "columns": COLUMNS,
        "trials": {
            task: {method: [[entry.get(name) for name in COLUMNS] for entry in listed] for method, listed in t.items()}
            for task, t in trials.items()
        },
        "revised": contents["revised"],
    }
    for path, value in ((RECIPES, chosen_recipes), (SEARCH_LOG, log)):
        results.replace_file(folder / path.name, (results.dumps(value) + "\n").encode())


def how(images: Mapping[str, Mapping[str, int]], revised: Sequence[Mapping[str, Any]]) -> str:
    """The search in words, for the report."""
    again = ", ".join(dict.fromkeys("{method} on {task}".format(**revision) for revision in revised))
    train, validation = (max(counts[part] for counts in images.values()) for part in ("train", "validation"))
    return (
        "Found by reproduce/search.py: the same base recipe for all methods (its weight decay from a first "
        "look at LR and MLE-BP), with twice as many epochs for those that sample and for LR, which take less time; "
        f"on each of {', '.join(DECAYS)}, every method tried the learning rates "
        f"{', '.join(f'{rate:g}' for rate in RATES)}; with the best of them, a third and three times the weight decay; "
        "two more around the best of these, further out where that was at an end; and the other rates with the best "
        "decay, or where that was the first, decays in between. A trial had a fifth to a half of the epochs, at most "
        f"{train:,} training images, as many times more weight decay as fewer images, and on MNIST a moving average "
        f"over fewer steps; the least error on at most {validation:,} validation images won. Methods that predict by "
        "mean field did this for both of its starts (init), and on each task all of them took the one that was "
        "better on average. The other tasks take over what was found for the one most like them. "
        + (
            f"At full scale some recipes were then changed by the validation error ({again}): the rate to a tenth "
            "where a method was worse than LR, to a third where its best epoch was in the first sixth, to ten times "
            "where the search ended below its first rates; twice the epochs where the last one was the best; and back "
            "where that was worse. "
            if revised
            else ""
        )
        + "Test images were not used."
    )


# --- what follows from trials and runs --------------------------------------------------------------------------------


def chosen(trials: Mapping[str, Sequence[Trial]]) -> dict[str, Settings]:
    """The best settings of each method, given a task's trials: one initial state for all that predict by mean field."""

    def best(method: str, init: str | None) -> tuple[float, Settings]:
        return best_of([entry for entry in trials[method] if entry.get("init") == init])

    fields = [method for method in trials if inits(method) == INITS]
    state = min(INITS, key=lambda init: sum(best(method, init)[0] for method in fields))
    return {method: best(method, state if method in fields else None)[1] for method in trials}


def replace(
    files: Path,
    pairs: Sequence[tuple[str, str]],
    tried: Mapping[Key, Sequence[Settings]] | None,
    scale: Scale,
    folder: Path,
) -> None:
    """Write the recipes and trials of these tasks and methods in place of those that the files have."""
    contents = read(files)
    for task, method in pairs:
        trials = contents["trials"].setdefault(task, {})
        trials.pop(method, None)
        if tried:
            trials[method] = [
                entry
                for init in inits(method)
                for entry in outcome(task, method, scale, tried[task, method, init], folder)[0]
            ]
        contents["images"][task] = {"train": scale.train, "validation": scale.validation}
    for task in dict(pairs):
        recipes, settings = contents["recipes"].setdefault(task, {}), chosen(contents["trials"][task])
        recipes |= {m: with_settings(base(task, m), settings.get(m, {})) for t, m in pairs if t == task}
    # revisions, and the recipes that tasks like these had of their own, belong to the search before
    again = {(task, method) for searched, method in pairs for task in (searched, *using(searched))}
    for task, method in again - set(pairs):
        contents["recipes"].get(task, {}).pop(method, None)
    contents["revised"] = [r for r in contents["revised"] if (r["task"], r["method"]) not in again]
    write(files, contents)


def using(task: str) -> list[str]:
    """The tasks of the tables that use the recipes of a task."""
    return [other.name for other in IN_TABLES if SAME_AS.get(other.name) == task]


def revise(files: Path, folder: Path) -> list[dict[str, Any]]:
    """Change recipes by what runs at full scale say about them; returns the changes.

    The learning rate becomes a tenth where a run has more validation error than LR; a third where its best epoch was
    in the first sixth; ten times as much where the search ended below its first rates: at most two of these.  Once,
    the epochs become twice as many where the last one was the best.  Each change is undone where it has made the run
    worse, or diverge.  Runs with other recipes than the files' say nothing.
    """
    contents, found, changes = read(files), results.read_all(folder), []
    runs = [
        Run(task, method, SCALES["full"], recipe(task, method, contents))
        for task, method in itertools.product(IN_TABLES, METHODS)
        if f"{task.name}/{method}" in found
    ]
    # infinite: it diverged
    errors = {
        run.name: math.inf if found[run.name]["error"] else found[run.name]["validation"]["all"]
        for run in runs
        if results.is_final(found[run.name]) and found[run.name]["hash"] == run.hash
    }
    for run in runs:
        error, error_of_lr = errors.get(run.name), errors.get(f"{run.task.name}/LR")
        if error is None or error_of_lr is None:
            continue
        before = [r for r in contents["revised"] if (r["task"], r["method"]) == (run.task.name, run.method)]
        change = _revision(run, error, error_of_lr, found[run.name].get("best_epoch"), before)
        if change is None:
            continue
        keyword, now, why = change
        changes.append(
            {
                "task": run.task.name,
                "method": run.method,
                "valid_error": error if error < math.inf else None,
                "keyword": keyword,
                "was": run.recipe.train[keyword],
                "now": now,
                "why": why,
            }
        )
        recipes = contents["recipes"]
        for other in using(run.task.name):  # it keeps what it used, until its own runs say otherwise
            recipes.setdefault(other, {}).setdefault(run.method, recipes[run.task.name][run.method])
        recipes.setdefault(run.task.name, {})[run.method] = with_settings(run.recipe.facts(), {keyword: now})
    contents["revised"] += changes
    write(files, contents)
    return changes


def _revision(
    run: Run, error: float, error_of_lr: float, best: int | None, before: Sequence[Mapping[str, Any]]
) -> tuple[str, float, str] | None:
    """The keyword of `train` to change, its new value and the reason; None if the recipe is to stay as it is.

    best is the run's best epoch, None if it diverged; before are the earlier revisions of the recipe.
    """
    rates = [r for r in before if r["keyword"] == "learning_rate"]
    rate = run.recipe.train["learning_rate"]
    if before and before[-1]["why"] != BACK and error > (before[-1]["valid_error"] or math.inf):
        return before[-1]["keyword"], before[-1]["was"], BACK
    if len(rates) < 2 and error > error_of_lr:
        return "learning_rate", float(f"{rate / 10:.1g}"), "worse than LR"
    if best is None:
        return None
    if len(rates) < 2 and 6 * best <= run.epochs:
        return "learning_rate", float(f"{rate / 3:.1g}"), "an early epoch was the best"
    if not rates and rate < min(RATES):
        return "learning_rate", float(f"{10 * rate:.1g}"), "more steps may want a higher rate"
    if len(before) == len(rates) and best == run.epochs:
        return "epochs", 2 * run.epochs, "the last epoch was the best"
    return None


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("search"), help="folder of the trials (default search)")
    add("--tasks", nargs="+", choices=list(DECAYS), default=list(DECAYS), metavar="TASK")
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="NAME")
    add("--revise", type=Path, metavar="RESULTS", help="search nothing; look at runs at full scale")
    add("--no-trials", action="store_true", help="write the bases")
    add("--images", type=positive, default=12_500, help="training images at most (default 12500)")
    add("--validation", type=positive, default=2_500, help="validation images at most (default 2500)")
    add("--jobs", type=positive, default=1, help="processes, of one thread each (default 1)")
    add("--digits", action="store_true", help="on the digits of the package: to try the search")
    add(
        "--write",
        type=Path,
        default=RECIPES.parent,
        metavar="FOLDER",
        help=f"where {RECIPES.name} and {SEARCH_LOG.name} go (default: the committed ones)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    args = parse(argv)
    if args.digits and args.write == RECIPES.parent:
        raise SystemExit("--digits is to try the search; name a folder for what it writes: --write FOLDER")
    if args.revise:
        if not args.revise.is_dir():
            raise SystemExit(f"--revise {args.revise} is not a folder of results")
        if not (args.write / RECIPES.name).exists():
            raise SystemExit(f"--write {args.write} has no {RECIPES.name}: there is nothing to revise")
        for revision in revise(args.write, args.revise):
            print("{task}/{method}: {why}: {keyword} {was:g} -> {now:g}".format(**revision))
        return 0
    scale = Scale("search", digits=args.digits, train=args.images, validation=args.validation, test=0)
    pairs = list(itertools.product(args.tasks, args.methods))
    tried = None if args.no_trials else search(pairs, scale, args.out, args.jobs)
    args.write.mkdir(parents=True, exist_ok=True)
    replace(args.write, pairs, tried, scale, args.out)
    print(f"wrote {args.write / RECIPES.name} and {args.write / SEARCH_LOG.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
