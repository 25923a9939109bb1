"""The paper's eight methods, and with which hyperparameters each of them is run.

A method is a learner with the options that make it this method, among them the inference of its predictions: mean field
for the CD methods and MLE-MF, the BP of training for the others ([1], section 6).  A recipe is the rest: it comes from
data/hyperparameters.json, which tools/search_hyperparameters.py writes.

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from crbm_fast.experiments.tasks import Task
from crbm_fast.learners import LEARNERS, Learner
from crbm_fast.model import CRBM

HYPERPARAMETERS = Path(__file__).with_name("data") / "hyperparameters.json"

# What a run decides itself.
_TAKEN = ("validation", "seed", "checkpoint", "resume", "callbacks", "progress")


@dataclass(frozen=True)
class Method:
    """A row of the paper's tables.

    Attributes
    ----------
    name : str
    learner : str
        One of `learners.LEARNERS`.
    options : mapping
        Of the learner; no recipe may change them.
    """

    name: str
    learner: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hidden(self) -> bool:
        """Whether it has hidden units."""
        return self.learner != "logistic"


# In the order of the tables.
METHODS = {
    method.name: method
    for method in (
        Method("LR", "logistic"),
        Method("CD-1", "cd", {"k": 1, "method": "mean-field"}),
        Method("CD-10", "cd", {"k": 10, "method": "mean-field"}),
        Method("CD-PercLoss", "percloss", {"k": 10, "method": "mean-field"}),
        Method("MLE-MF", "mle", {"method": "mean-field"}),
        Method("MLE-BP", "mle", {"method": "sum-product"}),
        Method("LSSVM", "lssvm"),
        Method("MSSVM", "mssvm"),
    )
}


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of a run.

    Attributes
    ----------
    train : mapping
        Keywords of `train`, passed on as they are; `epochs` must be among them.
    model : mapping
        Of the initial model.  scale: standard deviation of W_vh and W_hx.  tied: W_hx starts as W_vh' plus noise of
        this standard deviation, since x and v are images of the same thing.
    learner : mapping
        Further options of the learner.
    """

    train: Mapping[str, Any]
    model: Mapping[str, Any] = field(default_factory=dict)
    learner: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = sorted(set(_TAKEN) & set(self.train))
        if taken:
            raise ValueError(f"a recipe cannot set {', '.join(taken)} of train: the run does")
        if "epochs" not in self.train:
            raise ValueError("a recipe needs epochs among the keywords of train")
        unknown = sorted(set(self.model) - {"scale", "tied"})
        if unknown:
            raise ValueError(f"a recipe's model has no {unknown[0]!r}; expected scale, tied")

    def make_learner(self, method: Method) -> Learner:
        """The method's learner with the recipe's options."""
        fixed = sorted(set(self.learner) & set(method.options))
        if fixed:
            raise ValueError(f"{fixed[0]} is what makes {method.name} this method; a recipe cannot change it")
        options: dict[str, Any] = {**method.options, **self.learner}
        names = ("method", "max_iter", "tol", "damping", "init")
        how: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
        if how:
            default = LEARNERS[method.learner](**options).inference_in(1)
            options["inference"] = replace(default, **{"max_iter": None, **how})
        return LEARNERS[method.learner](**options)

    def make_model(self, nv: int, nh: int, nx: int, *, seed: int, n_threads: int | None) -> CRBM:
        """The model before training."""
        start = {"scale": 0.01, **self.model}
        tied = start.pop("tied", None)
        model = CRBM(nv, nh, nx, seed=seed, n_threads=n_threads, **start)
        if tied is not None and nh:
            model.W_hx = model.W_vh.T + (tied / start["scale"]) * model.W_hx
        return model

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


@cache
def hyperparameters() -> dict[str, Any]:
    """The file: "recipes" {task: {method: recipe}}, "as" {task: the task whose recipes it takes where it has none},
    "how" they were found, and "search", every trial of it and what was revised after it."""
    contents: dict[str, Any] = json.loads(HYPERPARAMETERS.read_text(encoding="utf-8"))
    return contents


def recipe(task: Task, method: str, contents: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of the committed file, or of the contents of another; KeyError, with the names, if it has none."""
    if contents is None:
        contents = hyperparameters()
    name = task.name
    while name is not None:
        if method in contents["recipes"].get(name, {}):
            return Recipe(**contents["recipes"][name][method])
        name = contents["as"].get(name)
    raise KeyError(f"{HYPERPARAMETERS.name} has no recipe for {method} on {task.name}")
