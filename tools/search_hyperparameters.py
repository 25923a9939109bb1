"""Make crbm_fast/experiments/data/hyperparameters.json: a search on the validation sets, the same for every method.

    CRBM_FAST_DATA=FOLDER python tools/search_hyperparameters.py --out search --jobs 2

Each method starts from a recipe of its own, BASE; around it, every method tries the same list of settings on every
task: `--trials` draws from SPACE without repetition, the first being the base of MLE-BP.  A trial is a run of
crbm_fast.experiments on fewer images and epochs, scored by the least validation error; nothing is tested.  The best
trial's settings go into the recipe, and every trial into the file.  The number of epochs is not searched: the run at
full scale chooses the epoch on the validation set.

Killed, the same command goes on; the file is written when all trials are there.  Tasks and methods that are left out
keep the recipes and trials they have.  With --trials 0 the bases themselves are written.
"""

import argparse
import itertools
import json
import random
import sys
from pathlib import Path

from crbm_fast.experiments import METHODS, Recipe, Run, Scale, perform, results
from crbm_fast.experiments.command import Progress
from crbm_fast.experiments.methods import HYPERPARAMETERS
from crbm_fast.experiments.tasks import OCCLUDED, TABLES, TASKS

IN_TABLES = [task.name for pair in TABLES.values() for task in pair]
# the figure of occlusion levels: more tasks, no more tuning
AS = {task.name: "mnist-occluded-12" for task in OCCLUDED.values() if task.name not in IN_TABLES}

_TRAIN = {"batch_size": 40, "learning_rate": 0.003, "schedule": "linear", "weight_decay": 0.0003}
_CRBM = {"train": {"epochs": 12, **_TRAIN, "start": "logistic"}, "model": {"scale": 0.05, "tied": 0.01}}
# sampled gradients want more and smaller steps; the paper's CD methods have four times as many epochs as the others
_CD = {**_CRBM, "train": {**_CRBM["train"], "epochs": 24}}
BASE = {
    "LR": {"train": {"epochs": 12, **_TRAIN}},
    "CD-1": _CD,
    "CD-10": _CD,
    "CD-PercLoss": _CD,
    "MLE-MF": _CRBM,
    "MLE-BP": _CRBM,
    "LSSVM": _CRBM,
    "MSSVM": _CRBM,
}

# {group.keyword of a recipe: values}
SPACE = {
    "train.learning_rate": (0.001, 0.003, 0.01),
    "train.weight_decay": (0.0, 0.0003, 0.001),
    "train.batch_size": (20, 40, 80),
}


def settings(count, space=SPACE, seed=0):
    """The settings that every method tries on every task; the first is MLE-BP's own."""
    every = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    if count > len(every):
        raise SystemExit(f"--trials {count}: there are only {len(every)} settings to try")
    base = {key: BASE["MLE-BP"][key.split(".")[0]][key.split(".")[1]] for key in space}
    rest = [setting for setting in every if setting != base]
    return [base, *random.Random(seed).sample(rest, min(count - 1, len(rest)))] if count else []


def with_settings(recipe, setting):
    """A recipe with some keywords replaced."""
    out = {group: dict(members) for group, members in recipe.items()}
    for key, value in setting.items():
        group, name = key.split(".")
        out.setdefault(group, {})[name] = value
    return out


def trials(tasks, methods, tried, scale):
    """A run for every task, method and setting; the settings of one pair come together."""
    return [
        Run(TASKS[task], method, scale, Recipe(**with_settings(BASE[method], setting)), trial=i)
        for task in tasks
        for method in methods
        for i, setting in enumerate(tried)
    ]


def outcome(task, method, tried, folder):
    """[{setting..., valid_error or error, best_epoch, seconds}] of a pair's trials, and the best recipe."""
    listed, best = [], None
    for i, setting in enumerate(tried):
        result = results.read(results.path_of(folder, f"{task}/{method}/trial-{i:02d}"))
        entry = {key.split(".")[1]: value for key, value in setting.items()}
        if result["error"] is not None:
            entry["error"] = f"{result['error']['type']}: {result['error']['message']}"
        else:
            entry |= {"valid_error": result["validation"]["all"], "best_epoch": result["best_epoch"]}
            if best is None or entry["valid_error"] < listed[best]["valid_error"]:
                best = i
        entry["seconds"] = result["made"]["seconds"]["total"]
        listed.append(entry)
    if tried and best is None:
        raise SystemExit(f"every trial of {method} on {task} failed: {listed[0]['error']}")
    return listed, with_settings(BASE[method], tried[best]) if tried else BASE[method]


def how(tried, scale):
    """The search in words, for the report."""
    if not tried:
        return "Starting points chosen by hand from a few runs, the same for all CRBMs; there was no search yet."
    images, checked = f"{scale.train:,}", f"{scale.validation:,}"
    names, epochs = ", ".join(key.split(".")[1] for key in SPACE), scale.keywords["epochs"]
    return (
        f"Found by tools/search_hyperparameters.py: from a base recipe per method, the same {len(tried)} settings of "
        f"{names} were tried on every task, {epochs} epochs on at most {images} training images, and the least error "
        f"on {checked} validation images won. Test images were not used."
    )


def write(path, tasks, methods, tried, scale, folder):
    """The file, the searched pairs replaced."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"recipes": {}, "search": {}}
    recipes, listed = old["recipes"], old["search"].get("trials", {})
    for task, method in itertools.product(tasks, methods):
        found, recipe = outcome(task, method, tried, folder)
        recipes.setdefault(task, {})[method] = recipe
        if found:
            listed.setdefault(task, {})[method] = found
        elif task in listed:
            listed[task].pop(method, None)
    ordered = {task: {m: recipes[task][m] for m in METHODS if m in recipes[task]} for task in TASKS if task in recipes}
    contents = {
        "how": how(tried, scale),
        "as": AS,
        "recipes": ordered,
        "search": {"space": {k: list(values) for k, values in SPACE.items()}, "scale": vars(scale), "trials": listed},
    }
    path.write_text(results.dumps(contents) + "\n", encoding="utf-8")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("search"), help="folder of the trials (default search)")
    parser.add_argument("--tasks", nargs="+", choices=IN_TABLES, default=IN_TABLES, metavar="TASK")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="NAME")
    parser.add_argument("--trials", type=int, default=12, help="settings per task and method (default 12)")
    parser.add_argument("--images", type=int, default=10_000, help="training images (default 10000)")
    parser.add_argument("--validation", type=int, default=2_000, help="validation images (default 2000)")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of a trial (default 4)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each (default 1)")
    parser.add_argument("--digits", action="store_true", help="on the digits of the package: to try the script")
    parser.add_argument("--write", type=Path, default=HYPERPARAMETERS, metavar="FILE",
                        help="default: the package's own")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    scale = Scale("search", digits=args.digits, train=args.images, validation=args.validation, test=0,
                  keywords={"epochs": args.epochs})
    tried = settings(args.trials)
    runs = trials(args.tasks, args.methods, tried, scale)
    args.out.mkdir(parents=True, exist_ok=True)
    progress = Progress(len(runs), 0)
    try:
        perform(runs, args.out, jobs=args.jobs, n_threads=1, tell=progress.tell)
    finally:
        progress.clear()
    write(args.write, args.tasks, args.methods, tried, scale, args.out)
    print(f"wrote {args.write}")


if __name__ == "__main__":
    sys.exit(main())
