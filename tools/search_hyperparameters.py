"""Make crbm_fast/experiments/data/hyperparameters.json: a search on the validation sets, the same for every method.

    CRBM_FAST_DATA=FOLDER python tools/search_hyperparameters.py --out search --jobs 2

Every method has the same base recipe but for the number of epochs, and on every task the same trials: first each
learning rate of RATES with the task's weight decay of DECAYS, then, with the best rate, a third and three times that
decay.  A trial is a run of crbm_fast.experiments on fewer images and epochs, scored by the least validation error;
nothing is tested.  The best trial's settings go into the recipe, and every trial into the file.

Killed, the same command goes on; the file is written when all trials are there.  Tasks and methods that are left out
keep the recipes and trials they have.  With --no-trials the bases themselves are written.
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

from crbm_fast.experiments import METHODS, Recipe, Run, Scale, perform, results
from crbm_fast.experiments.command import Progress
from crbm_fast.experiments.methods import HYPERPARAMETERS
from crbm_fast.experiments.tasks import OCCLUDED, TASKS

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
    **{task.name: "mnist-occluded-8" for side, task in OCCLUDED.items() if side != 8},
}
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
FACTORS = (1 / 3, 3)                # of the decay

# epochs by data set, of CRBMs trained by inference; by sampling, which is noisier; of LR, which costs least
EPOCHS = {"mnist": (8, 12, 16), "caltech": (20, 30, 40)}
SHORTER = 3 / 8                     # epochs of a trial
# Caltech101 Silhouettes has few images, and so have trials: an average over fewer steps
AVERAGING = {"mnist": 0.999, "caltech": 0.99}


def base(task, method):
    """The recipe before the search."""
    data = TASKS[task].data
    epochs = EPOCHS[data][2 if method == "LR" else METHODS[method].learner in ("cd", "percloss")]
    train = {
        "epochs": epochs, "batch_size": 40, "learning_rate": 0.01, "schedule": "linear",
        "weight_decay": DECAYS[task], "centering": "features", "averaging": AVERAGING[data],
    }  # fmt: skip
    if method == "LR":
        return {"train": train}
    return {"train": {**train, "start": "logistic"}, "model": {"scale": 0.05, "tied": 0.01}}


def with_settings(recipe, settings):
    """A recipe with some keywords of `train` replaced."""
    return {**recipe, "train": {**recipe["train"], **settings}}


def trial(task, method, scale, number, settings):
    """The run of a trial."""
    recipe = base(task, method)
    short = {"epochs": max(1, round(SHORTER * recipe["train"]["epochs"])), "averaging": min(AVERAGING.values())}
    return Run(TASKS[task], method, scale, Recipe(**with_settings(recipe, {**settings, **short})), trial=number)


def first(task):
    """Settings of the first trials."""
    return [{"learning_rate": rate, "weight_decay": DECAYS[task]} for rate in RATES]


def then(task, best):
    """Settings of the other trials, given the best of the first."""
    return [{**best, "weight_decay": float(f"{factor * DECAYS[task]:.3g}")} for factor in FACTORS]


def outcome(task, method, tried, folder):
    """[{settings, valid_error or error, best_epoch, seconds}] of a pair's trials, and the best settings."""
    listed = []
    for i, settings in enumerate(tried):
        result = results.read(results.path_of(folder, f"{task}/{method}/trial-{i:02d}"))
        entry = dict(settings)
        if result["error"] is not None:
            entry["error"] = f"{result['error']['type']}: {result['error']['message']}"
        else:
            entry |= {"valid_error": result["validation"]["all"], "best_epoch": result["best_epoch"]}
        entry["seconds"] = result["made"]["seconds"]["total"]
        listed.append(entry)
    finished = [i for i, entry in enumerate(listed) if "valid_error" in entry]
    if not finished:
        raise SystemExit(f"every trial of {method} on {task} failed: {listed[0]['error']}")
    return listed, tried[min(finished, key=lambda i: listed[i]["valid_error"])]


def search(pairs, scale, folder, jobs):
    """{(task, method): all its settings}, each of them tried."""
    tried = {pair: first(pair[0]) for pair in pairs}
    progress = Progress(len(pairs) * (len(RATES) + len(FACTORS)), 0)
    for stage in range(2):
        if stage == 1:
            for (task, method), settings in tried.items():
                settings += then(task, outcome(task, method, settings, folder)[1])
        runs = [
            trial(*pair, scale, i, settings)
            for pair, listed in tried.items()
            for i, settings in list(enumerate(listed))[stage * len(RATES) :]
        ]
        try:
            perform(runs, folder, jobs=jobs, n_threads=1, tell=progress.tell)
        finally:
            progress.clear()
    return tried


def how(scale):
    """The search in words, for the report."""
    return (
        "Found by tools/search_hyperparameters.py: the same base recipe for all methods, with more epochs for those "
        f"that sample and for LR; on each of {', '.join(DECAYS)}, every method tried the learning rates "
        f"{', '.join(f'{rate:g}' for rate in RATES)} and then, with the best of them, a third and three times the "
        f"weight decay. A trial had {SHORTER:.3g} of the epochs and at most {scale.train:,} training images; the least "
        f"error on {scale.validation:,} validation images won. The other tasks take over what was found for the one "
        "most like them. Test images were not used."
    )


def write(path, pairs, tried, scale, folder):
    """The file, these pairs replaced."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"recipes": {}, "search": {}}
    recipes, listed = old["recipes"], old["search"].get("trials", {})
    for task, method in pairs:
        found, best = outcome(task, method, tried[task, method], folder) if tried else (None, {})
        recipes.setdefault(task, {})[method] = with_settings(base(task, method), best)
        if found:
            listed.setdefault(task, {})[method] = found
        elif task in listed:
            listed[task].pop(method, None)
    ordered = {task: {m: recipes[task][m] for m in METHODS if m in recipes[task]} for task in DECAYS if task in recipes}
    contents = {
        "how": how(scale) if tried else "The search's starting points: there was no search yet.",
        "as": AS,
        "recipes": ordered,
        "search": {"rates": RATES, "decays": DECAYS, "factors": FACTORS, "scale": vars(scale), "trials": listed},
    }
    path.write_text(results.dumps(contents) + "\n", encoding="utf-8")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("search"), help="folder of the trials (default search)")
    parser.add_argument("--tasks", nargs="+", choices=list(DECAYS), default=list(DECAYS), metavar="TASK")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="NAME")
    parser.add_argument("--no-trials", action="store_true", help="write the bases")
    parser.add_argument("--images", type=int, default=20_000, help="training images at most (default 20000)")
    parser.add_argument("--validation", type=int, default=2_500, help="validation images at most (default 2500)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each (default 1)")
    parser.add_argument("--digits", action="store_true", help="on the digits of the package: to try the script")
    parser.add_argument("--write", type=Path, default=HYPERPARAMETERS, metavar="FILE",
                        help="default: the package's own")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    scale = Scale("search", digits=args.digits, train=args.images, validation=args.validation, test=0)
    pairs = list(itertools.product(args.tasks, args.methods))
    args.out.mkdir(parents=True, exist_ok=True)
    tried = None if args.no_trials else search(pairs, scale, args.out, args.jobs)
    write(args.write, pairs, tried, scale, args.out)
    print(f"wrote {args.write}")


if __name__ == "__main__":
    sys.exit(main())
