"""Results: the committed ones, what is in a file, and what the package gives."""

import dataclasses
import json
import re

import numpy as np
import pytest
from helpers import ROOT
from helpers.reproduce import TINY, leftovers

import crbm_fast as cf
from crbm_fast import datasets
from crbm_fast.inference import METHODS as INFERENCES
from reproduce import claims, results, tasks
from reproduce.runs import TARGETS, plan
from reproduce.tasks import SCALES

COMMITTED = ROOT / "reproduce" / "results"


def test_committed_results_are_of_the_committed_hyperparameters():
    """All of the tables, by the recipes that are here now."""
    found = results.read_all(COMMITTED)
    runs = {run.name: run for run in plan(TARGETS, SCALES["full"])}
    assert {run.name for run in plan(tasks.TABLES, SCALES["full"])} <= set(found) <= set(runs)
    for run in (runs[name] for name in found):
        result = found[run.name]
        assert result["hash"] == run.hash, run.name
        assert result["error"] is None, run.name
        assert result["scale"] == json.loads(json.dumps(dataclasses.asdict(SCALES["full"])))


@pytest.mark.parametrize("document", ["README.md", "docs/reproduction.md"])
def test_the_documents_have_the_committed_results(document):
    found = results.read_all(COMMITTED)
    text = (ROOT / document).read_text()
    tables = [task.name for pair in tasks.TABLES.values() for task in pair]
    rows = dict(re.findall(r"^\| ([\w-]+(?:, paper)?) +\| (.*) \|$", text, re.M))
    for name in ("LR", "CD-10", "MLE-MF", "MSSVM", "MLE-BP"):
        ours = [f"{claims.cell(found, task, name, 'all'):.2f}" for task in tables]
        assert [c.strip(" *") for c in rows[name].split("|")] == ours, name
    assert [c.strip(" *") for c in rows["MLE-BP, paper"].split("|")] == [
        f"{claims.paper_cell(task, 'MLE-BP', 'all'):.2f}" for task in tables
    ]


def test_every_run_has_a_result(whole):
    found = results.read_all(whole)
    assert set(found) == {run.name for run in plan(TARGETS, TINY)}
    assert leftovers(whole) == []
    for name, result in found.items():
        assert result["error"] is None, name
        assert set(result) == {
            "format",
            "version",
            "name",
            "hash",
            "task",
            "method",
            "learner",
            "scale",
            "recipe",
            "seed",
            "images",
            "epochs",
            "best_epoch",
            "convergence",
            "inference",
            "validation",
            "test",
            "demo",
            "warnings",
            "error",
            "made",
        }
        assert result["images"] == {"train": 60, "validation": 20, "test": 30}
        assert result["epochs"] == 2
        assert result["best_epoch"] in (1, 2)
        wrong = results.unpack_counts(result["test"]["wrong"])
        np.testing.assert_allclose(result["test"]["all"], wrong.sum() / (30 * 784), rtol=1e-8)
        assert 0 <= result["test"]["changed"] <= 1
        assert result["made"]["seconds"]["total"] > 0
        inference = result["inference"]
        assert inference["method"] in INFERENCES
        if result["method"] != "LR":
            assert inference["max_iter"] == 7 + result["best_epoch"]  # matched to training
        json.dumps(result, allow_nan=False)
    assert {result["method"] for result in found.values()} > {"LR", "MLE-BP"}
    convergence = found["mnist-occluded-8/MLE-BP"]["convergence"]
    assert convergence["share"][0] > 0.5
    assert convergence["max_iter"] == [8, 9]
    assert found["mnist-noisy-10/CD-1"]["convergence"] is None


def test_a_result_is_what_the_package_gives(whole):
    """The same run by hand: digits, flip, train, predict."""
    run = plan(["fig-demo"], TINY)[0]
    digits = datasets.load_digits()
    V = {"train": digits.train[:60], "validation": digits.validation[:20], "test": digits.test[:30]}
    X = {part: datasets.flip(images, 0.1, seed=seed) for (part, images), seed in zip(V.items(), (1, 2, 3), strict=True)}
    model = cf.CRBM(784, 6, 784, scale=0.05)
    model.W_hx = model.W_vh.T + 0.01 / 0.05 * model.W_hx
    history = cf.train(
        model,
        X["train"],
        V["train"],
        cf.learners.MLE("sum-product"),
        **{**run.recipe.train, "epochs": 2, "batch_size": 20, "start": None},
        validation=(X["validation"], V["validation"]),
    )
    result = results.read_all(whole)["mnist-noisy-10/MLE-BP"]
    assert result["best_epoch"] == history.best_epoch
    np.testing.assert_allclose(result["validation"]["all"], min(history.column("valid_error")), rtol=1e-8)
    assert result["convergence"]["max_iter"] == history.column("max_iter")
    np.testing.assert_allclose(result["convergence"]["share"], history.column("converged"), rtol=1e-8)
    predicted = model.predict(X["test"])
    np.testing.assert_allclose(result["test"]["all"], datasets.error_all(V["test"], predicted), rtol=1e-8)
    changed = datasets.error_changed(V["test"], predicted, X["test"])
    np.testing.assert_allclose(result["test"]["changed"], changed, rtol=1e-8)
    demo = {name: results.unpack_bits(rows, 784) for name, rows in result["demo"].items()}
    np.testing.assert_array_equal(demo["clean"], V["test"][:7])
    np.testing.assert_array_equal(demo["corrupted"], X["test"][:7])
    np.testing.assert_array_equal(demo["predicted"], predicted[:7])


def test_packing_keeps_everything(rng):
    bits = rng.random((5, 785)) < 0.5
    np.testing.assert_array_equal(results.unpack_bits(results.pack_bits(bits), 785), bits)
    counts = rng.integers(0, 785, 100)
    np.testing.assert_array_equal(results.unpack_counts(results.pack_counts(counts)), counts)


def test_json_is_readable_and_the_same():
    value = {"a": [1, 2.5, None], "b": {"c": [{"d": 1}, {"e": "x" * 200}], "f": {}}, "g": [], "h": [[1, 2], [3]]}
    text = results.dumps(value)
    assert json.loads(text) == value
    assert ' "a": [1, 2.5, null],\n' in text
    assert max(len(line) for line in text.splitlines()) < 230
    with pytest.raises(ValueError, match="JSON"):
        results.dumps({"a": float("nan")})
    assert [results.number(x) for x in (1 / 3, float("nan"), 3, None)] == [0.333333333, None, 3, None]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"format": "crbm_fast run", "version": 99}',
        b'{"format": "x"}',
        b"\xff\xfe",
        b'{"format": "crbm_fast run", "version": 2, "name": "a", "hash": "b", "error": null}',
    ],
)
def test_a_file_that_is_no_result(tmp_path, text):
    path = results.path_of(tmp_path, "mnist-noisy-10/LR")
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"LR\.json is not the result of a run, or is damaged"):
        results.read_all(tmp_path)


def test_a_copy_of_a_result_is_refused(tmp_path, whole):
    kept = results.path_of(whole, "mnist-noisy-10/LR").read_bytes()
    path = results.path_of(tmp_path, "mnist-noisy-10/LR_old")
    path.parent.mkdir(parents=True)
    path.write_bytes(kept)
    with pytest.raises(ValueError, match=r"LR_old\.json is a copy of mnist-noisy-10/LR\.json; move it"):
        results.read_all(tmp_path)
