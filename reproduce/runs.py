"""Runs: a method on a task, and the runs that a table or a figure needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from reproduce.methods import METHODS
from reproduce.recipes import Recipe, recipe
from reproduce.tasks import IN_TABLES, NOISY_10, OCCLUDED, TABLES, Scale, Task

# Part of every run's hash.  Raise it when a change of the code changes results: then all runs are done again.
VERSION = 2

# The methods that answer the paper's question are run first, on all tables.
_FIRST, _THEN = ("MLE-BP", "LR", "MLE-MF", "CD-10", "MSSVM"), ("LSSVM", "CD-PercLoss", "CD-1")

TARGETS = (*TABLES, "fig-occlusion", "fig-convergence", "fig-demo")
OCCLUSION_METHODS = ("MLE-BP", "CD-10")
CONVERGENCE = (OCCLUDED[8], "MLE-BP")
DEMO = ((NOISY_10, "MLE-BP"), (OCCLUDED[8], "MLE-BP"))


@dataclass(frozen=True)
class Run:
    """A method that is trained and tested on a task.

    Attributes
    ----------
    task : Task
    method : str
        One of `METHODS`.
    scale : Scale
    recipe : Recipe
    seed : int
        The seed of the initial model and of training.
    trial : int, optional
        The number of the trial, for a run of a search.
    """

    task: Task
    method: str
    scale: Scale
    recipe: Recipe
    seed: int = 0
    trial: int | None = None

    @property
    def name(self) -> str:
        """The run's name, task/method; its result is DIR/runs/<name>.json."""
        trial = "" if self.trial is None else f"/trial-{self.trial:02d}"
        return f"{self.task.name}/{self.method}{trial}"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of `train`: those of the recipe, replaced by those of the scale."""
        return {**self.recipe.train, **self.scale.keywords}

    @property
    def epochs(self) -> int:
        """The number of epochs to train."""
        return int(self.keywords["epochs"])

    def facts(self) -> dict[str, Any]:
        """All that the result depends on beside the code and the machine, for JSON."""
        return {
            "task": self.task.facts(self.scale),
            "method": self.method,
            "learner": METHODS[self.method].facts(),
            "scale": asdict(self.scale),
            "recipe": self.recipe.facts(),
            "seed": self.seed,
        }

    @property
    def hash(self) -> str:
        """A hash of the facts and VERSION.  A result with another hash belongs to another run."""
        text = json.dumps({"version": VERSION, **self.facts()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def needs(target: str) -> list[tuple[Task, str]]:
    """The tasks and methods that a table or figure is made of."""
    if target in TABLES:
        return [(task, method) for task in TABLES[target] for method in METHODS]
    if target == "fig-occlusion":
        return [(task, method) for task in OCCLUDED.values() for method in OCCLUSION_METHODS]
    return [CONVERGENCE] if target == "fig-convergence" else list(DEMO)


def plan(targets: Iterable[str], scale: Scale, methods: Collection[str] = tuple(METHODS)) -> list[Run]:
    """The runs of these targets and methods, each once, in the order to do them."""
    wanted = {pair for target in targets for pair in needs(target) if pair[1] in methods}
    order = [(task, method) for group in (_FIRST, _THEN) for task in IN_TABLES for method in group]
    order += [(task, method) for task in OCCLUDED.values() if task not in IN_TABLES for method in METHODS]
    return [Run(task, method, scale, recipe(task, method)) for task, method in order if (task, method) in wanted]
