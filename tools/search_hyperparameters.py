"""Make crbm_fast/experiments/data/hyperparameters.json: a search on the validation sets, the same for every method.

    CRBM_FAST_DATA=FOLDER python tools/search_hyperparameters.py --out search --jobs 2

Every method has the same base recipe but for the number of epochs, and on every task the same search in four stages:
the learning rates RATES with the task's weight decay; a third and three times that decay with the best rate; two more
around the best of these; and the other rates with the best decay, or if that is the first, decays in between.  A trial
is a run of crbm_fast.experiments on fewer images and epochs, scored by the least validation error; nothing is tested.
The best trial's settings go into the recipe, and every trial into the file.

Where mean field starts (`init` of infer) decides which mode it finds, and no start is best for all tasks: methods that
predict by it are searched with both, and on each task all of them get the one that is better on average.

Fewer images want more weight decay: that of a trial is as many times higher as its images are fewer, so that the
penalty counts as much beside the sum over the images as it will in the run.

Killed, the same command goes on; the file is written when all trials are there.  Tasks and methods that are left out
keep the recipes and trials they have.  With --no-trials the bases themselves are written.

    python tools/search_hyperparameters.py --revise results

What few steps on few images suggest may not be right for many: CD leads away from its logistic start at such rates,
MSSVM learns hardly anything at others, or would go on.  After the runs at full scale this changes rates and epochs for
the next `reproduce`, by the validation errors; see `revise`.
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np

from crbm_fast import _files
from crbm_fast.experiments import METHODS, SCALES, TASKS, Recipe, Run, Scale, perform, recipe, results, runner
from crbm_fast.experiments.command import Progress
from crbm_fast.experiments.methods import HYPERPARAMETERS
from crbm_fast.experiments.tasks import IN_TABLES, OCCLUDED

# {task that is searched: weight decay}, as a first look at LR and MLE-BP suggests: few images want more of it, and a
# pixel outside of a patch, which is its feature, less.
DECAYS = {
    "mnist-noisy-10": 0.001,
    "mnist-occluded-8": 0.0003,
    "caltech-noisy-20": 0.01,
    "caltech-occluded-12": 0.003,
}
# the others: more tasks, no more tuning
AS = {
    "mnist-noisy-20": "mnist-noisy-10",
    "mnist-occluded-12": "mnist-occluded-8",
    **{task.name: "mnist-occluded-12" for side, task in OCCLUDED.items() if side > 12},
}
RATES = (0.001, 0.003, 0.01)

# epochs by data set, of CRBMs trained by inference; by sampling; of LR.  Twice as many of the latter cost as much time.
EPOCHS = {"mnist": (6, 12, 12), "caltech": (16, 32, 32)}
TRIAL_EPOCHS = {"mnist": (3, 4, 6), "caltech": (4, 6, 8)}
IMAGES = {"mnist": 50_000, "caltech": 4_100}
# Caltech101 Silhouettes has few images, and so have trials: an average over fewer steps
AVERAGING = {"mnist": 0.999, "caltech": 0.99}

# where mean field starts
INITS = (None, "visible")
# trials of a task, a method and a start
TRIALS = len(RATES) + 6

BACK = "back: worse than before"  # of a revision that undoes the last one


def kind(method):
    """Index into EPOCHS."""
    return {"logistic": 2, "cd": 1, "percloss": 1}.get(METHODS[method].learner, 0)


def base(task, method):
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


def inits(method):
    """The starts of its inference to be tried."""
    return INITS if METHODS[method].options.get("method") == "mean-field" else INITS[:1]


def with_settings(recipe, settings):
    """A recipe with some keywords of `train`, or `init` of its learner, replaced."""
    recipe = {**recipe, "train": {**recipe["train"], **{k: v for k, v in settings.items() if k != "init"}}}
    if "init" in settings:
        recipe["learner"] = {"init": settings["init"]}
    return recipe


def trial(task, method, scale, i, settings):
    """The run of the i-th trial with the start that the settings have."""
    recipe, data = base(task, method), TASKS[task].data
    fewer = max(1, IMAGES[data] / scale.train)
    changes = {
        **settings,
        "weight_decay": float(f"{fewer * settings['weight_decay']:.3g}"),
        "epochs": TRIAL_EPOCHS[data][kind(method)],
        "averaging": min(AVERAGING.values()),
    }
    number = i + TRIALS * inits(method).index(settings.get("init"))
    return Run(TASKS[task], method, scale, Recipe(**with_settings(recipe, changes)), trial=number)


def first(task, init=None):
    """Settings of the first stage."""
    more = {} if init is None else {"init": init}
    return [{"learning_rate": rate, "weight_decay": DECAYS[task], **more} for rate in RATES]


def second(task, best, tried):
    """Of the second, given the best so far."""
    return [{**best, "weight_decay": float(f"{factor * DECAYS[task]:.1g}")} for factor in (1 / 3, 3)]


def third(task, best, tried):
    """Of the third: on where the best is at an end of what was tried, else in between."""
    rate, decay, low, high = best["learning_rate"], best["weight_decay"], min(RATES), max(RATES)
    rates = {low: (rate / 3, 2 * rate), high: (3 * rate, rate / 2)}.get(rate, (2 * rate, rate / 2))
    new = [{**best, "learning_rate": float(f"{r:.1g}")} for r in rates]
    if decay != DECAYS[task]:
        new.insert(0, {**best, "weight_decay": float(f"{decay * decay / DECAYS[task]:.1g}")})
    return new[:2]


def fourth(task, best, tried):
    """Of the fourth: the other rates with a decay that is not the first; or decays in between."""
    if best["weight_decay"] != DECAYS[task]:
        return [new for rate in RATES if (new := {**best, "learning_rate": rate}) not in tried][:2]
    return [{**best, "weight_decay": float(f"{factor * DECAYS[task]:.1g}")} for factor in (0.6, 2)]


def outcome(task, method, scale, tried, folder):
    """[{settings, valid_error or error, best_epoch, seconds}] of trials with one start, and the best settings."""
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


def best_of(listed):
    """(validation error, settings) of the best of a list of trials."""
    best = min((entry for entry in listed if "valid_error" in entry), key=lambda entry: entry["valid_error"])
    return best["valid_error"], {k: best[k] for k in ("learning_rate", "weight_decay", "init") if k in best}


def search(pairs, scale, folder, jobs):
    """{(task, method, init): all its settings}, each of them tried."""
    tried = {(task, method, init): first(task, init) for task, method in pairs for init in inits(method)}
    progress = Progress(len(tried) * TRIALS, 0)
    for stage in (None, second, third, fourth):
        if stage is not None:
            for (task, method, _), settings in tried.items():
                settings += stage(task, outcome(task, method, scale, settings, folder)[1], settings)
        runs = [
            trial(task, method, scale, i, settings)
            for (task, method, _), listed in tried.items()
            for i, settings in enumerate(listed)
        ]
        try:
            perform(runs, folder, jobs=jobs, n_threads=1, tell=progress.tell)
        finally:
            progress.clear()
    return tried


def how(scales, revised):
    """The search in words, for the report."""
    again = ", ".join(dict.fromkeys("{method} on {task}".format(**revision) for revision in revised))
    images, checked = (max(scale[part] for scale in scales.values()) for part in ("train", "validation"))
    return (
        "Found by tools/search_hyperparameters.py: the same base recipe for all methods (its weight decay from a first "
        "look at LR and MLE-BP), with twice as many epochs for those that sample and for LR, which take less time; "
        f"on each of {', '.join(DECAYS)}, every method tried the learning rates "
        f"{', '.join(f'{rate:g}' for rate in RATES)}; with the best of them, a third and three times the weight decay; "
        "two more around the best of these, further out where that was at an end; and the other rates with the best "
        "decay, or where that was the first, decays in between. A trial had a fifth to a half of the epochs, at most "
        f"{images:,} training images, as many times more weight decay as fewer images, and on MNIST a moving average "
        f"over fewer steps; the least error on at most {checked:,} validation images won. Methods that predict by "
        "mean field did this for both of its starts (init), and on each task all of them took the one that was "
        "better on average. The other tasks take over what was found for the one most like them. "
        + (
            f"At full scale some recipes were then changed by the validation error ({again}): the rate to a tenth where "
            "a method was worse than LR, to a third where its best epoch was in the first sixth, to ten times where the "
            "search ended below its first rates; twice the epochs where the last one was the best; and back where that "
            "was worse. "
            if revised
            else ""
        )
        + "Test images were not used."
    )


def read(path):
    """The file."""
    if not path.exists():
        return {"as": AS, "recipes": {}, "search": {"scales": {}, "trials": {}, "revised": []}}
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, contents):
    """The file, in order, and in words what is in it."""
    recipes, kept = contents["recipes"], contents["search"]
    trials = {task: by_method for task, by_method in kept["trials"].items() if by_method}
    scales = {task: scale for task, scale in kept["scales"].items() if task in trials}
    contents = {
        "how": how(scales, kept["revised"]) if scales else "The search's starting points: there was no search yet.",
        "as": AS,
        "recipes": {t: {m: recipes[t][m] for m in METHODS if m in recipes[t]} for t in TASKS if recipes.get(t)},
        "search": {"scales": scales, "trials": trials, "revised": kept["revised"]},
    }
    with _files.replacing(path) as file:
        file.write((results.dumps(contents) + "\n").encode())


def chosen(trials):
    """{method: best settings} given a task's trials: one start for all that predict by mean field."""

    def best(method, init):
        return best_of([entry for entry in trials[method] if entry.get("init") == init])

    fields = [method for method in trials if inits(method) == INITS]
    start = min(INITS, key=lambda init: sum(best(method, init)[0] for method in fields))
    return {method: best(method, start if method in fields else None)[1] for method in trials}


def replace(path, pairs, tried, scale, folder):
    """Write the recipes and trials of these pairs in place of those that the file has."""
    contents = read(path)
    for task, method in pairs:
        trials = contents["search"]["trials"].setdefault(task, {})
        trials.pop(method, None)
        if tried:
            trials[method] = [
                entry
                for init in inits(method)
                for entry in outcome(task, method, scale, tried[task, method, init], folder)[0]
            ]
        contents["search"]["scales"][task] = vars(scale)
    for task in dict(pairs):
        recipes, settings = contents["recipes"].setdefault(task, {}), chosen(contents["search"]["trials"][task])
        recipes |= {m: with_settings(base(task, m), settings.get(m, {})) for t, m in pairs if t == task}
    # revisions, and what tasks like these had in place of their recipes, are of the search before
    again = {(task, method) for searched, method in pairs for task in (searched, *like(searched))}
    for task, method in again - set(pairs):
        contents["recipes"].get(task, {}).pop(method, None)
    kept = [r for r in contents["search"]["revised"] if (r["task"], r["method"]) not in again]
    contents["search"]["revised"] = kept
    write(path, contents)


def like(task):
    """The tasks of the tables that take over its recipes."""
    return [other.name for other in IN_TABLES if AS.get(other.name) == task]


def revise(path, folder):
    """Change recipes by what runs at full scale say of them; returns the changes.

    A tenth of the learning rate where a run has more validation error than LR; a third where its best epoch was in the
    first sixth; ten times as much where the search ended below its first rates: at most two of these.  Once, twice the
    epochs where the last one was the best.  Each back where it has made it worse, or diverge.  Runs with other recipes
    than the file's say nothing.
    """
    contents, found, changes = read(path), results.read_all(folder), []
    runs = [
        Run(task, method, SCALES["full"], recipe(task, method, contents))
        for task, method in itertools.product(IN_TABLES, METHODS)
        if f"{task.name}/{method}" in found
    ]
    # infinite: it diverged
    errors = {
        run.name: np.inf if found[run.name]["error"] else found[run.name]["validation"]["all"]
        for run in runs
        if runner.is_final(found[run.name]) and found[run.name]["hash"] == run.hash
    }
    for run in runs:
        task, method, error, least = run.task, run.method, errors.get(run.name), errors.get(f"{run.task.name}/LR")
        if error is None or least is None:
            continue
        before = [r for r in contents["search"]["revised"] if (r["task"], r["method"]) == (task.name, method)]
        rates = [r for r in before if r["keyword"] == "learning_rate"]
        rate, best = run.recipe.train["learning_rate"], found[run.name].get("best_epoch")
        if before and before[-1]["why"] != BACK and error > (before[-1]["valid_error"] or np.inf):
            keyword, now, why = before[-1]["keyword"], before[-1]["was"], BACK
        elif len(rates) < 2 and error > least:
            keyword, now, why = "learning_rate", float(f"{rate / 10:.1g}"), "worse than LR"
        elif len(rates) < 2 and 6 * best <= run.epochs:
            keyword, now, why = "learning_rate", float(f"{rate / 3:.1g}"), "an early epoch was the best"
        elif not rates and rate < min(RATES):
            keyword, now, why = "learning_rate", float(f"{10 * rate:.1g}"), "more steps may want a higher rate"
        elif len(before) == len(rates) and best == run.epochs:
            keyword, now, why = "epochs", 2 * run.epochs, "the last epoch was the best"
        else:
            continue
        changes.append(
            {
                "task": task.name,
                "method": method,
                "valid_error": error if error < np.inf else None,
                "keyword": keyword,
                "was": run.recipe.train[keyword],
                "now": now,
                "why": why,
            }
        )
        new = {group: v for group, v in with_settings(run.recipe.facts(), {keyword: now}).items() if v}
        recipes = contents["recipes"]
        for other in like(task.name):  # keeps what it took over, until its own runs say otherwise
            recipes.setdefault(other, {}).setdefault(method, recipes[task.name][method])
        recipes.setdefault(task.name, {})[method] = new
    contents["search"]["revised"] += changes
    write(path, contents)
    return changes


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("search"), help="folder of the trials (default search)")
    parser.add_argument("--tasks", nargs="+", choices=list(DECAYS), default=list(DECAYS), metavar="TASK")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="NAME")
    parser.add_argument("--revise", type=Path, metavar="RESULTS", help="search nothing; look at runs at full scale")
    parser.add_argument("--no-trials", action="store_true", help="write the bases")
    parser.add_argument("--images", type=int, default=12_500, help="training images at most (default 12500)")
    parser.add_argument("--validation", type=int, default=2_500, help="validation images at most (default 2500)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each (default 1)")
    parser.add_argument("--digits", action="store_true", help="on the digits of the package: to try the script")
    parser.add_argument(
        "--write", type=Path, default=HYPERPARAMETERS, metavar="FILE", help="default: the package's own"
    )
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    if args.digits and args.write == HYPERPARAMETERS:
        raise SystemExit("--digits is to try the script; name another file than the package's: --write FILE")
    if args.images < 1 or args.validation < 1:
        raise SystemExit(f"--images {args.images} --validation {args.validation}: at least 1 of each")
    if args.revise:
        if not args.revise.is_dir():
            raise SystemExit(f"--revise {args.revise} is not a folder of results")
        if not args.write.exists():
            raise SystemExit(f"--write {args.write} does not exist: there is nothing to revise")
        for revision in revise(args.write, args.revise):
            print("{task}/{method}: {why}: {keyword} {was:g} -> {now:g}".format(**revision))
        return
    scale = Scale("search", digits=args.digits, train=args.images, validation=args.validation, test=0)
    pairs = list(itertools.product(args.tasks, args.methods))
    tried = None if args.no_trials else search(pairs, scale, args.out, args.jobs)
    replace(args.write, pairs, tried, scale, args.out)
    print(f"wrote {args.write}")


if __name__ == "__main__":
    sys.exit(main())
