"""A tiny version of the paper's experiments: the same code, few images, hidden units and epochs."""

import dataclasses
import os
import subprocess
import sys

import numpy as np

from helpers import ROOT
from reproduce import command, results
from reproduce.recipes import Recipe
from reproduce.runs import TARGETS, plan
from reproduce.tasks import Scale

TINY = Scale(
    "small",
    nh=6,
    digits=True,
    train=60,
    validation=20,
    test=30,
    keywords={"epochs": 2, "batch_size": 20, "start": None},
)

# `python -m reproduce` with a tiny small scale, and enough epochs to be killed between two of them.
SCRIPT = """
import sys
from reproduce import command, tasks
tasks.SCALES["small"] = tasks.Scale("small", nh=6, digits=True, train=60, validation=20, test=30,
                                    keywords={"epochs": 12, "batch_size": 20, "start": None})
sys.exit(command.main(["--scale", "small", *sys.argv[1:]]))
"""

# What a result needs to be read.
BARE = {
    "error": None,
    "method": "",
    "scale": {},
    "made": {"seconds": {"total": 1}},
    "epochs": 1,
    "best_epoch": 1,
    "convergence": None,
    "validation": {},
    "test": None,
    "demo": None,
    "warnings": [],
}


def run_command(*args, out):
    """`python -m reproduce --scale small` in this process; returns its exit code."""
    return command.main([*args, "--scale", "small", "--out", str(out)])


def start_command(*args):
    """The same in a process, and a process group, of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # several at once
    )


def some_runs(*names, scale=TINY):
    """The runs of these names."""
    return [run for run in plan(TARGETS, scale) if run.name in names]


def with_train_keywords(run, **train):
    """The run with other keywords of `train`."""
    recipe = Recipe({**run.recipe.train, **train}, run.recipe.model, run.recipe.inference)
    return dataclasses.replace(run, recipe=recipe)


def fake_result(task, method, error_all, error_changed, wrong=(1, 1)):
    """A result with these errors in percent; equal counts have no standard error."""
    counts = results.pack_counts(np.array(wrong))
    test = {
        "all": error_all / 100,
        "changed": error_changed / 100,
        "wrong": counts,
        "wrong_changed": counts,
        "pixels": {"all": 784 * len(wrong), "changed": 10 * len(wrong)},
    }
    return {"name": f"{task}/{method}", "method": method, "error": None, "test": test, "scale": {"name": "full"}}


def assert_same_results(a, b):
    """But for what may differ when the same run is done again."""
    assert a.keys() == b.keys()
    for name, result in a.items():
        assert {**result, "made": None} == {**b[name], "made": None}, name


def modified(folder):
    """When each result was written."""
    return {path.name + path.parent.name: path.stat().st_mtime_ns for path in folder.rglob("runs/*/*.json")}


def leftovers(folder):
    """Checkpoints and temporary files."""
    return [path for path in folder.rglob("*") if path.suffix in (".npz", ".tmp")]
