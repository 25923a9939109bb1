"""The hyperparameters of every run: recipes.json, which `python -m reproduce.search` writes, and its log.

recipes.json       {"recipes": {task: {method: recipe}}, "same_as": {task: another task}}
                   A task without a recipe of its own for a method uses that of the other task.
search_log.json    how the recipes were found: every trial, and what was revised after it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from crbm_fast import CRBM, Inference
from crbm_fast.learners import LEARNERS, Learner
from reproduce.methods import Method
from reproduce.tasks import Task

RECIPES = Path(__file__).with_name("recipes.json")
SEARCH_LOG = Path(__file__).with_name("search_log.json")

# The keywords of `train` that a run decides itself.
_SET_BY_THE_RUN = ("validation", "seed", "checkpoint", "resume", "callbacks", "progress")


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of a run.

    Attributes
    ----------
    train : mapping
        Keywords of `crbm_fast.train`, passed on as they are; `epochs` must be among them.
    model : mapping
        How the initial model is made.  scale: standard deviation of W_vh and W_hx.  tied: W_hx is W_vh' plus noise
        of this standard deviation, since x and v are images of the same thing.
    inference : mapping
        Options of the inference beside its method: init, damping, ...
    learner : mapping
        Options of the learner that are not part of the method.
    """

    train: Mapping[str, Any]
    model: Mapping[str, Any] = field(default_factory=dict)
    inference: Mapping[str, Any] = field(default_factory=dict)
    learner: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = sorted(set(_SET_BY_THE_RUN) & set(self.train))
        if taken:
            raise ValueError(f"a recipe cannot set {', '.join(taken)} of train: the run does")
        if "epochs" not in self.train:
            raise ValueError("a recipe needs epochs among the keywords of train")
        unknown = sorted(set(self.model) - {"scale", "tied"})
        if unknown:
            raise ValueError(f"a recipe's model has no {unknown[0]!r}; expected scale, tied")

    def make_learner(self, method: Method) -> Learner:
        """The method's learner with the recipe's options."""
        fixed = sorted(set(self.learner) & set(method.options)) or sorted({"method"} & set(self.inference))
        if fixed:
            raise ValueError(f"{fixed[0]} is what makes {method.name} this method; a recipe cannot change it")
        options: dict[str, Any] = {**method.options, **self.learner}
        if method.inference is not None:
            options["inference"] = Inference(method.inference, **self.inference)
        return LEARNERS[method.learner](**options)

    def make_model(self, nv: int, nh: int, nx: int, *, seed: int, n_threads: int | None) -> CRBM:
        """The model before training."""
        scale, tied = self.model.get("scale", 0.01), self.model.get("tied")
        model = CRBM(nv, nh, nx, scale=scale, seed=seed, n_threads=n_threads)
        if tied is not None and nh:
            model.W_hx = model.W_vh.T + (tied / scale) * model.W_hx
        return model

    def facts(self) -> dict[str, Any]:
        """What is not empty of it, for JSON."""
        return {group: dict(options) for group, options in asdict(self).items() if options}


@cache
def committed_recipes() -> dict[str, Any]:
    """The contents of recipes.json."""
    contents: dict[str, Any] = json.loads(RECIPES.read_text(encoding="utf-8"))
    return contents


@cache
def search_log() -> dict[str, Any]:
    """The contents of search_log.json; `search.read_log` describes them."""
    contents: dict[str, Any] = json.loads(SEARCH_LOG.read_text(encoding="utf-8"))
    return contents


def recipe(task: Task, method: str, contents: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a method on a task.

    Parameters
    ----------
    task : Task
    method : str
        One of `METHODS`.
    contents : mapping, optional
        What recipes.json would have; by default that file.

    Raises
    ------
    KeyError
        If there is none, not even of the tasks whose recipes this one uses.
    """
    if contents is None:
        contents = committed_recipes()
    name: str | None = task.name
    while name is not None:
        if method in contents["recipes"].get(name, {}):
            return Recipe(**contents["recipes"][name][method])
        name = contents["same_as"].get(name)
    raise KeyError(f"{RECIPES.name} has no recipe for {method} on {task.name}")
