"""Methods, recipes and runs: they are the paper's, complete, and told apart by their hashes."""

import dataclasses
import inspect
from collections import Counter

import numpy as np
import pytest
from helpers.reproduce import TINY

import crbm_fast as cf
from reproduce import recipes, tasks
from reproduce import runs as planned
from reproduce.methods import METHODS
from reproduce.recipes import Recipe, recipe
from reproduce.runs import TARGETS, plan
from reproduce.search import as_trial
from reproduce.tasks import TASKS

IN_TABLES = [task.name for pair in tasks.TABLES.values() for task in pair]


def test_methods_are_the_papers():
    """With the inference it tests each of them with."""
    assert list(METHODS) == ["LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF", "MLE-BP", "LSSVM", "MSSVM"]
    made = {name: Recipe({"epochs": 1}).make_learner(method) for name, method in METHODS.items()}
    assert (made["CD-1"].k, made["CD-10"].k, made["CD-PercLoss"].k) == (1, 10, 10)
    tested = {name: learner.inference_in(3).method for name, learner in made.items() if name != "LR"}
    assert tested == {
        "CD-1": "mean-field",
        "CD-10": "mean-field",
        "CD-PercLoss": "mean-field",
        "MLE-MF": "mean-field",
        "MLE-BP": "sum-product",
        "LSSVM": "max-product",
        "MSSVM": "mixed-product",
    }
    assert made["MLE-BP"].inference_in(10) == cf.Inference("sum-product", 17, 1e-3, 0.0)  # T = 7 + epoch, no damping


def test_committed_hyperparameters():
    log = recipes.search_log()
    assert log["how"]
    keywords = inspect.signature(cf.train).parameters
    for task in TASKS.values():
        for name, method in METHODS.items():
            chosen = recipe(task, name)
            assert set(chosen.train) <= set(keywords), (task, name)
            chosen.make_learner(method)
            chosen.make_model(4, 2, 4, seed=0, n_threads=1)
    tried = [
        (name, t.get("init"))
        for by_method in log["trials"].values()
        for name, rows in by_method.items()
        for t in map(as_trial, rows)
    ]
    assert len(set(Counter(tried).values())) == 1  # one budget


def test_recipes_make_the_initial_model():
    free = Recipe({"epochs": 1}, {"scale": 0.2}).make_model(50, 40, 50, seed=3, n_threads=1)
    np.testing.assert_array_equal(free.W_hx, cf.CRBM(50, 40, 50, scale=0.2, seed=3).W_hx)
    tied = Recipe({"epochs": 1}, {"scale": 0.2, "tied": 0.01}).make_model(50, 40, 50, seed=3, n_threads=1)
    np.testing.assert_array_equal(tied.W_vh, free.W_vh)
    np.testing.assert_allclose((tied.W_hx - tied.W_vh.T).std(), 0.01, rtol=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"epochs": 1, "seed": 3},), "cannot set seed of train"),
        (({},), "needs epochs"),
        (({"epochs": 1}, {"sigma": 1}), "has no 'sigma'; expected scale, tied"),
    ],
)
def test_bad_recipes(arguments, message):
    with pytest.raises(ValueError, match=message):
        Recipe(*arguments)


def test_a_recipe_cannot_turn_a_method_into_another():
    with pytest.raises(ValueError, match="k is what makes CD-10 this method"):
        Recipe({"epochs": 1}, learner={"k": 1}).make_learner(METHODS["CD-10"])
    with pytest.raises(ValueError, match="method is what makes MLE-MF this method"):
        Recipe({"epochs": 1}, inference={"method": "tap"}).make_learner(METHODS["MLE-MF"])
    assert Recipe({"epochs": 1}, inference={"init": "visible"}).make_learner(
        METHODS["MLE-MF"]
    ).inference == cf.Inference("mean-field", init="visible")
    assert Recipe({"epochs": 1}, learner={"start": "random"}).make_learner(METHODS["CD-10"]).start == "random"
    with pytest.raises(KeyError, match="no recipe for MLE on mnist-noisy-10"):
        recipe(tasks.NOISY_10, "MLE")


def test_the_plan_has_every_cell_once_the_telling_ones_first():
    runs = plan(TARGETS, TINY)
    names = [run.name for run in runs]
    assert len(names) == len(set(names)) == 6 * 8 + 4 * 2
    assert names[:5] == [f"mnist-noisy-10/{m}" for m in ("MLE-BP", "LR", "MLE-MF", "CD-10", "MSSVM")]
    assert {name.split("/")[0] for name in names[:30]} == set(IN_TABLES)
    assert names[-1] == "mnist-occluded-28/MLE-BP"
    assert [run.name for run in plan(["fig-convergence"], TINY)] == ["mnist-occluded-8/MLE-BP"]
    assert {run.name for run in plan(["fig-demo"], TINY)} == {"mnist-noisy-10/MLE-BP", "mnist-occluded-8/MLE-BP"}
    assert len(plan(["fig-occlusion"], TINY, ["CD-10"])) == 6
    assert len(plan(["table1", "table3"], TINY, ["LR", "MLE-BP"])) == 8


def test_the_hash_tells_runs_apart(monkeypatch):
    run = plan(["fig-convergence"], TINY)[0]
    changed = [
        dataclasses.replace(run, seed=1),
        dataclasses.replace(run, method="MSSVM"),
        dataclasses.replace(run, scale=dataclasses.replace(TINY, nh=7)),
        dataclasses.replace(run, recipe=Recipe({**run.recipe.train, "learning_rate": 1.0}, run.recipe.model)),
        dataclasses.replace(run, task=TASKS["mnist-occluded-12"]),
    ]
    assert len({run.hash, *(other.hash for other in changed)}) == 6
    before = run.hash
    assert dataclasses.replace(run, trial=3).hash == before
    monkeypatch.setattr(planned, "VERSION", planned.VERSION + 1)
    assert run.hash != before
