"""The paper's experiments: tasks, recipes, runs that are killed and resumed, the report, the command line.

Everything runs on a tiny version of --scale small: the same code, few images, hidden units and epochs.
"""

import base64
import contextlib
import dataclasses
import html.parser
import importlib.util
import inspect
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import crbm_fast as cf
from crbm_fast import _cli, datasets
from crbm_fast.datasets import caltech, mnist
from crbm_fast.experiments import (
    METHODS,
    SCALES,
    TARGETS,
    TASKS,
    Recipe,
    Run,
    Scale,
    claims,
    command,
    figures,
    methods,
    perform,
    plan,
    recipe,
    report,
    results,
    runner,
    tasks,
)
from crbm_fast.experiments import (
    runs as planned,
)
from crbm_fast.inference import METHODS as INFERENCES

ROOT = Path(__file__).parents[2]
FULL = Path(os.environ.get("CRBM_FAST_DATA") or "CRBM_FAST_DATA is not set")

TINY = Scale(
    "small",
    nh=6,
    digits=True,
    train=60,
    validation=20,
    test=30,
    keywords={"epochs": 2, "batch_size": 20, "start": None},
)
IN_TABLES = [task.name for pair in tasks.TABLES.values() for task in pair]


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(tasks.SCALES, "small", TINY)


def reproduce(*args, out):
    return _cli.main(["reproduce", *args, "--scale", "small", "--out", str(out)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with everything, made by two processes."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tasks.SCALES, "small", TINY)
        assert reproduce("--jobs", "2", out=out) == 0
    return out


def without_times(result):
    """A result but for what may differ when the same run is done again."""
    result = {key: value for key, value in result.items() if key != "made"}
    if "history" in result:
        result["history"] = {key: value for key, value in result["history"].items() if key != "seconds"}
    return result


def assert_same_results(a, b):
    assert a.keys() == b.keys()
    for name, result in a.items():
        assert without_times(result) == without_times(b[name]), name


# --- what is run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_corruptions_are_the_papers(name):
    """Exactly 10 or 20 % of the pixels, one square inside the image, the background's value."""
    task = TASKS[name]
    parts = task.load(TINY)
    background = 1 if task.data == "caltech" else 0
    for X, V in parts.values():
        assert (V[:, [0, 27, 756, 783]] == background).all()  # corners: outside of every digit
        changed = X != V
        if task.kind == "noisy":
            assert set(changed.sum(axis=1)) == {{10: 78, 20: 157}[task.level]}
        else:
            assert (X[changed] == background).all()
            for i in np.flatnonzero(changed.any(axis=1)):
                rows, columns = np.nonzero(changed[i].reshape(28, 28))
                assert np.ptp(rows) < task.level
                assert np.ptp(columns) < task.level
    # no two parts share their corruption
    flips = {part: X[:20] != V[:20] for part, (X, V) in parts.items()}
    if task.level < 28:
        assert not np.array_equal(flips["train"], flips["validation"])
        assert not np.array_equal(flips["train"], flips["test"])
        assert not np.array_equal(flips["validation"], flips["test"])
    assert [len(V) for _, V in parts.values()] == [60, 20, 30]


def test_the_whole_image_is_occluded_at_28():
    X, _ = TASKS["mnist-occluded-28"].load(TINY)["test"]
    assert not X.any()


@pytest.mark.parametrize(
    ("file", "name", "sizes", "inside"),
    [
        ("mnist.npz", "mnist-occluded-12", (50_000, 10_000, 10_000), 0),
        ("caltech101_silhouettes.npz", "caltech-occluded-12", (4_100, 2_264, 2_307), 1),
    ],
)
def test_splits_at_full_scale(monkeypatch, file, name, sizes, inside):
    if not (FULL / file).is_file():
        pytest.skip(f"no {file} in CRBM_FAST_DATA")
    monkeypatch.setenv("CRBM_FAST_DATA", str(FULL))
    parts = TASKS[name].load(SCALES["full"])
    assert tuple(len(V) for _, V in parts.values()) == sizes
    X, V = parts["test"]
    assert set(np.unique(X[X != V])) == {inside}


def test_the_full_model_is_the_papers():
    full = SCALES["full"]
    assert full == Scale("full", nh=256, digits=False, train=None, validation=None, test=None, keywords={})


def test_methods_are_the_papers():
    """With the inference it tests each of them with."""
    assert list(METHODS) == ["LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF", "MLE-BP", "LSSVM", "MSSVM"]
    made = {name: Recipe({"epochs": 1}).make_learner(method) for name, method in METHODS.items()}
    assert (made["CD-1"].k, made["CD-10"].k, made["CD-PercLoss"].k) == (1, 10, 10)
    tested = {name: learner.inference(3).method for name, learner in made.items() if name != "LR"}
    assert tested == {
        "CD-1": "mean-field",
        "CD-10": "mean-field",
        "CD-PercLoss": "mean-field",
        "MLE-MF": "mean-field",
        "MLE-BP": "sum-product",
        "LSSVM": "max-product",
        "MSSVM": "mixed-product",
    }
    assert made["MLE-BP"].inference(10) == cf.Inference("sum-product", 17, 1e-3, 0.0)  # T = 7 + epoch, no damping


def test_committed_hyperparameters():
    contents = methods.hyperparameters()
    assert contents["how"]
    keywords = inspect.signature(cf.train).parameters
    for task in TASKS.values():
        for name, method in METHODS.items():
            chosen = recipe(task, name)
            assert set(chosen.train) <= set(keywords), (task, name)
            chosen.make_learner(method)
            chosen.make_model(4, 2, 4, seed=0, n_threads=1)
    tried = [
        (name, t.get("init"))
        for by_method in contents["search"]["trials"].values()
        for name, listed in by_method.items()
        for t in listed
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


# --- the paper ----------------------------------------------------------------------------------------------------


def test_the_papers_cells():
    cells = {
        ("mnist-noisy-10", "LR", "all"): 1.960,
        ("mnist-noisy-10", "MLE-BP", "changed"): 10.718,
        ("mnist-noisy-20", "CD-PercLoss", "all"): 3.970,
        ("mnist-noisy-20", "MSSVM", "changed"): 10.627,
        ("mnist-occluded-8", "CD-10", "changed"): 67.925,
        ("mnist-occluded-8", "MLE-BP", "all"): 1.329,
        ("mnist-occluded-12", "MSSVM", "changed"): 35.712,
        ("mnist-occluded-12", "CD-1", "all"): 3.983,
        ("caltech-noisy-20", "MLE-MF", "all"): 5.617,
        ("caltech-noisy-20", "LSSVM", "changed"): 11.468,
        ("caltech-occluded-12", "MSSVM", "all"): 4.534,
        ("caltech-occluded-12", "CD-10", "changed"): 21.087,
    }
    for cell, value in cells.items():
        assert claims.paper_cell(*cell) == value
    assert claims.paper_cell("mnist-occluded-16", "CD-10", "all") is None
    for table in claims.paper()["tables"].values():
        for by_method in table["cells"].values():
            assert list(by_method) == list(METHODS)


def fake(task, method, error_all, error_changed, wrong=(1, 1)):
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


def paper_as_results():
    found = {}
    for table in claims.paper()["tables"].values():
        for task, by_method in table["cells"].items():
            for method, cell in by_method.items():
                found[f"{task}/{method}"] = fake(task, method, cell["all"], cell["changed"])
    return found


def test_what_we_say_the_paper_says_holds_in_the_paper():
    everything = (*claims.CLAIMS, *claims.CELLS)
    counts = claims.tally(paper_as_results(), everything)
    assert counts["fails"] == counts["close"] == counts["missing"] == 0
    compared = [(c.task, c.error, *pair) for c in everything for pair in c.pairs()]
    assert counts["holds"] == len(compared) == len(set(compared)) > 100
    for claim in everything:
        assert "**holds**" in claims.sentence(paper_as_results(), claim)


def test_claims_that_fail_say_so():
    found = paper_as_results()
    claim = claims.CLAIMS[0]
    assert (claim.task, claim.lower) == (tasks.NOISY_10, ("MLE-BP",))
    found["mnist-noisy-10/CD-10"] = fake("mnist-noisy-10", "CD-10", 1.5, 10)
    found["mnist-noisy-10/LR"] = fake("mnist-noisy-10", "LR", 1.69, 10, wrong=(0, 1000))  # a large standard error
    found["mnist-noisy-10/LSSVM"]["error"] = {"type": "DivergenceError", "message": "", "final": True}
    text = claims.sentence(found, claim)
    assert text == (
        "MLE-BP is better than LR, CD, MLE-MF and LSSVM, Noisy (10 %): **holds** against CD-1, CD-PercLoss, MLE-MF; "
        "**fails** against CD-10 (1.688 to 1.500); too close to tell from LR (1.688 to 1.690); not run: LSSVM."
    )
    assert claims.sentence({}, claim) == ""
    single = next(c for c in claims.CLAIMS if c.higher == ("MSSVM",))
    found["mnist-noisy-10/MSSVM"] = fake("mnist-noisy-10", "MSSVM", 1.2, 10)
    text = claims.sentence(found, single)
    assert text == "MLE-BP is better than MSSVM on MNIST, Noisy (10 %): **fails**, 1.688 to 1.200."


def test_the_standard_error_is_that_of_paired_differences(rng):
    a, b = rng.poisson(20, 500), rng.poisson(20, 500)
    one, other = fake("t", "a", 1, 1, a), fake("t", "b", 1, 1, a + b)
    np.testing.assert_allclose(claims.standard_error(one), 100 * a.std(ddof=1) / 500**0.5 / 784)
    np.testing.assert_allclose(claims.standard_error(one, other), 100 * b.std(ddof=1) / 500**0.5 / 784)
    np.testing.assert_allclose(claims.standard_error(one, other, "changed"), 100 * b.std(ddof=1) / 500**0.5 / 10)
    assert claims.standard_error(one, fake("t", "b", 1, 1, (1, 2))) == np.inf  # other images


def test_improvement_in_words():
    assert claims.improvement(1.688, 1.760) == "4.1 % less"
    assert claims.improvement(1.1, 1.0) == "10.0 % more"


# --- what is committed --------------------------------------------------------------------------------------------


def test_committed_results_are_of_the_committed_hyperparameters():
    """All of the tables, by the recipes that are here now."""
    found = results.read_all(ROOT / "results")
    runs = {run.name: run for run in plan(TARGETS, SCALES["full"])}
    assert {run.name for run in plan(tasks.TABLES, SCALES["full"])} <= set(found) <= set(runs)
    for run in (runs[name] for name in found):
        result = found[run.name]
        assert result["hash"] == run.hash, run.name
        assert result["error"] is None, run.name
        assert result["scale"] == json.loads(json.dumps(dataclasses.asdict(SCALES["full"])))


def test_the_readme_has_the_committed_results():
    found = results.read_all(ROOT / "results")
    text = (ROOT / "README.md").read_text()
    tables = [task.name for pair in tasks.TABLES.values() for task in pair]
    rows = dict(re.findall(r"^\| ([\w-]+(?:, paper)?) +\| (.*) \|$", text, re.M))
    for name in ("LR", "CD-10", "MLE-MF", "MSSVM", "MLE-BP"):
        ours = [f"{claims.cell(found, task, name, 'all'):.2f}" for task in tables]
        assert [c.strip(" *") for c in rows[name].split("|")] == ours, name
    assert [c.strip(" *") for c in rows["MLE-BP, paper"].split("|")] == [
        f"{claims.paper_cell(task, 'MLE-BP', 'all'):.2f}" for task in tables
    ]


# --- results ------------------------------------------------------------------------------------------------------


def test_every_run_has_a_result(whole):
    found = results.read_all(whole)
    assert set(found) == {run.name for run in plan(TARGETS, TINY)}
    assert not list(whole.rglob("*.npz"))
    assert not list(whole.rglob("*.lock"))
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
            "history",
            "best_epoch",
            "inference",
            "validation",
            "test",
            "demo",
            "warnings",
            "error",
            "made",
        }
        assert result["images"] == {"train": 60, "validation": 20, "test": 30}
        assert result["history"]["epoch"] == [1, 2]
        valid = result["history"]["valid_error"]
        assert result["best_epoch"] == 1 + valid.index(min(valid))
        assert result["validation"]["all"] == min(valid)
        wrong = results.unpack_counts(result["test"]["wrong"])
        np.testing.assert_allclose(result["test"]["all"], wrong.sum() / (30 * 784), rtol=1e-8)
        assert 0 <= result["test"]["changed"] <= 1
        assert result["made"]["seconds"]["total"] > 0
        inference = result["inference"]
        assert inference["method"] in INFERENCES
        if result["method"] != "LR":
            assert inference["max_iter"] == 7 + result["best_epoch"]  # matched to training
        json.dumps(result, allow_nan=False)
    assert found["mnist-occluded-8/MLE-BP"]["history"]["converged"][0] > 0.5
    assert found["mnist-noisy-10/CD-1"]["history"]["converged"] == [None, None]


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
    np.testing.assert_allclose(result["history"]["valid_error"], history.column("valid_error"), rtol=1e-8)
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
    assert results.columns([{"a": 1 / 3, "s": {"x": 1.0}}, {"a": float("nan"), "s": {"x": 2.0, "y": 3.0}}]) == {
        "a": [0.333333333, None],
        "s": {"x": [1.0, 2.0], "y": [None, 3.0]},
    }


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"format": "crbm_fast run", "version": 99}',
        b'{"format": "x"}',
        b"\xff\xfe",
        b'{"format": "crbm_fast run", "version": 1, "name": "a", "hash": "b", "error": null}',
    ],
)
def test_a_file_that_is_no_result(tmp_path, text):
    path = results.path_of(tmp_path, "mnist-noisy-10/LR")
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"LR\.json is not the result of a run, or is damaged"):
        results.read_all(tmp_path)


# --- kept, killed, resumed ----------------------------------------------------------------------------------------


def times(folder):
    return {path.name + path.parent.name: path.stat().st_mtime_ns for path in folder.rglob("runs/*/*.json")}


def test_what_is_finished_is_kept(whole, tiny, capsys):
    before = times(whole)
    assert reproduce(out=whole) == 0
    assert times(whole) == before
    assert "56 runs, 56 of them done before" in capsys.readouterr().out


def some(*names, scale=TINY):
    return [run for run in plan(TARGETS, scale) if run.name in names]


def changed_recipe(run, **train):
    return dataclasses.replace(run, recipe=Recipe({**run.recipe.train, **train}, run.recipe.model))


def test_only_what_has_changed_is_done_again(tmp_path):
    runs = some("mnist-noisy-10/LR", "mnist-noisy-10/CD-1")
    perform(runs, tmp_path)
    before = times(tmp_path)
    runs[0] = changed_recipe(runs[0], learning_rate=0.1)
    told = []
    perform(runs, tmp_path, tell=told.append)
    assert {event.name for event in told} == {runs[0].name}
    assert sum(a != b for a, b in zip(before.values(), times(tmp_path).values(), strict=True)) == 1
    told.clear()
    perform(runs, tmp_path, resume=False, tell=told.append)
    assert [event.name for event in told if event.kind == "finished"] == [run.name for run in runs]


def test_a_copy_of_a_result_is_refused(tmp_path, whole):
    kept = results.path_of(whole, "mnist-noisy-10/LR").read_bytes()
    path = results.path_of(tmp_path, "mnist-noisy-10/LR_old")
    path.parent.mkdir(parents=True)
    path.write_bytes(kept)
    with pytest.raises(ValueError, match=r"LR_old\.json is a copy of mnist-noisy-10/LR\.json; move it"):
        results.read_all(tmp_path)


def test_a_damaged_checkpoint_fails_once(tmp_path):
    (run,) = some("mnist-noisy-10/LR")
    path = results.path_of(tmp_path, run.name)
    path.parent.mkdir(parents=True)
    checkpoint = path.with_name(f"LR.{run.hash}.npz")
    checkpoint.write_text("garbage")
    perform([run], tmp_path)
    assert results.read(path)["error"]["type"] == "ValueError"
    assert not checkpoint.exists()
    perform([run], tmp_path)
    assert results.read(path)["error"] is None


def test_what_tell_raises_is_no_error_of_the_run(tmp_path):
    def tell(event):
        raise ZeroDivisionError("mine")

    for jobs in (1, 2):
        with pytest.raises(ZeroDivisionError, match="mine"):
            perform(plan(["fig-demo"], TINY), tmp_path, jobs=jobs, tell=tell)
        assert not any(result["error"] for result in results.read_all(tmp_path).values())


def test_processes_that_cannot_start_are_told(tmp_path):
    """They import the script, which here starts them anew."""
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.split("if __name__")[0]
        + f"""
from pathlib import Path
from crbm_fast.experiments import perform, plan
perform(plan(["fig-demo"], tasks.SCALES["small"]), Path({str(tmp_path / "out")!r}), jobs=2)
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "2 of 2 processes ended early and left mnist-noisy-10/MLE-BP, mnist-occluded-8/MLE-BP" in done.stderr
    assert '`if __name__ == "__main__":`' in done.stderr


def test_one_process_gives_the_same_as_two(tmp_path, whole):
    runs = plan(["table1"], TINY, ["MLE-BP", "CD-1", "MSSVM"])
    told = []
    perform(runs, tmp_path, n_threads=2, tell=told.append)
    assert [event.name for event in told if event.kind == "finished"] == [run.name for run in runs]
    expected = results.read_all(whole)
    assert_same_results({run.name: expected[run.name] for run in runs}, results.read_all(tmp_path))


def test_a_killed_worker_is_replaced_by_the_others(tmp_path):
    runs = some(
        *(f"mnist-occluded-8/{m}" for m in METHODS),
        scale=dataclasses.replace(TINY, keywords={**TINY.keywords, "epochs": 4}),
    )
    killed, kinds, finished = [], [], []
    others = set(multiprocessing.active_children())  # of other tests

    def tell(event):
        kinds.append(event.kind)
        finished.extend([event.name] if event.kind == "finished" else [])
        if event.kind == "epoch" and not killed:
            killed.append(next(p.pid for p in multiprocessing.active_children() if p not in others))
            os.kill(killed[0], signal.SIGKILL)

    perform(runs, tmp_path, jobs=2, tell=tell)
    assert len(finished) == len(set(finished))  # each run is done by one of them
    assert kinds.count("lost") == kinds.count("idle") == 1
    found = results.read_all(tmp_path)
    assert set(found) == {run.name for run in runs}
    assert not [p for p in tmp_path.rglob("*") if p.suffix in (".npz", ".lock", ".tmp")]


def test_the_small_scale_as_it_is(tmp_path):
    """Not TINY, as in the other tests: every method learns to restore, not worse than LR."""
    assert reproduce("table1", "--jobs", "2", out=tmp_path) == 0
    found = results.read_all(tmp_path)
    assert len(found) == 16
    for name, result in found.items():
        task, level = name.split("/")[0], result["task"]["level"] / 100  # the corrupted image's own error
        assert result["test"]["all"] < 0.6 * level, name
        assert result["test"]["all"] < 1.05 * found[f"{task}/LR"]["test"]["all"], name
        assert result["images"] == {"train": 600, "validation": 200, "test": 200}
    assert (tmp_path / "report.html").is_file()


SCRIPT = """
import sys
from crbm_fast import _cli
from crbm_fast.experiments import Scale, tasks
tasks.SCALES["small"] = Scale("small", nh=6, digits=True, train=60, validation=20, test=30,
                              keywords={"epochs": 12, "batch_size": 20, "start": None})
if __name__ == "__main__":
    sys.exit(_cli.main(["reproduce", "--scale", "small", *sys.argv[1:]]))
"""


def start(tmp_path, *args):
    script = tmp_path / "command.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # several at once
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_and_resumed_it_ends_the_same(tmp_path, jobs):
    """SIGKILL the command again and again, at odd moments; orphaned workers end by themselves."""
    wanted = ["fig-demo", "--methods", "MLE-BP", "--jobs", jobs]
    out = tmp_path / "out"
    kills = 0
    while kills < 3:
        process = start(tmp_path, *wanted, "--out", str(out))
        before = log_length(out)
        deadline = time.monotonic() + 60
        while process.poll() is None and log_length(out) < before + 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is not None:  # faster than we look
            break
        process.kill()
        process.communicate()
        kills += 1
    assert kills
    process = start(tmp_path, *wanted, "--out", str(out))
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    process = start(tmp_path, *wanted, "--out", str(tmp_path / "whole"))
    assert process.wait(120) == 0, process.communicate()
    process.communicate()
    found = results.read_all(out)
    assert_same_results(results.read_all(tmp_path / "whole"), found)
    if jobs == "1":
        assert max(result["made"]["resumed_after"] for result in found.values()) > 0
    assert not [p for p in out.rglob("*") if p.suffix in (".npz", ".lock", ".tmp")]
    for name in ("report.md", "report.html"):
        assert (out / name).is_file()


def log_length(folder):
    with contextlib.suppress(FileNotFoundError):
        return len((folder / "reproduce.log").read_text().splitlines())
    return 0


def test_two_commands_share_the_work(tmp_path):
    """On one folder; both end with everything done, and no run was done twice."""
    out = tmp_path / "out"
    wanted = ["table1", "table3", "--methods", "LR", "CD-1", "--jobs", "1"]
    commands = [start(tmp_path, *wanted, "--out", str(out)) for _ in range(2)]
    outputs = [process.communicate(timeout=200)[0] for process in commands]
    assert [process.returncode for process in commands] == [0, 0], outputs
    first = re.findall(r"(\S+): \S+ epoch 1:", (out / "reproduce.log").read_text())
    assert sorted(first) == sorted(run.name for run in plan(["table1", "table3"], TINY, ["LR", "CD-1"]))
    for output in outputs:
        assert "everything is there: 8 runs" in output


def test_a_claim_is_exclusive_and_leaves_nothing(tmp_path):
    path = tmp_path / "a.lock"
    with runner.claim(path, wait=False) as mine:
        assert mine
        with runner.claim(path, wait=False) as other:
            assert not other
        assert path.exists()
    assert not path.exists()
    with runner.claim(path, wait=True) as mine:
        assert mine


# --- errors -------------------------------------------------------------------------------------------------------


def test_errors_are_recorded_and_the_others_go_on(tmp_path, tiny, monkeypatch, capsys):
    """Divergence follows from the run and is final; another error may be the machine's, and is tried again."""
    real = recipe

    def bad(task, method):
        chosen = real(task, method)
        extra = {"CD-1": {"learning_rate": 1e9, "optimizer": "sgd"}, "MLE-MF": {"no_such_keyword": 1}}.get(method, {})
        return Recipe({**chosen.train, **extra}, chosen.model)

    monkeypatch.setattr(planned, "recipe", bad)
    assert reproduce("table1", "--jobs", "2", "--methods", "LR", "CD-1", "MLE-MF", out=tmp_path) == 1
    out, err = capsys.readouterr()
    assert "FAILED: DivergenceError" in out
    assert "4 of 6 runs failed: mnist-noisy-10/MLE-MF, " in err
    found = results.read_all(tmp_path)
    assert len(found) == 6
    diverged, mistaken = (found[f"mnist-noisy-10/{m}"]["error"] for m in ("CD-1", "MLE-MF"))
    assert (diverged["type"], diverged["final"]) == ("DivergenceError", True)
    assert (mistaken["type"], mistaken["final"]) == ("TypeError", False)
    assert found["mnist-noisy-10/LR"]["error"] is None
    text = (tmp_path / "report.md").read_text()
    assert re.search(r"\| CD-1 +\| +failed \| +1\.925 \|", text)
    assert "training diverged in epoch 1" in text
    assert "**4 failed**" in text
    before = times(tmp_path)
    assert reproduce("table1", "--jobs", "1", "--methods", "LR", "CD-1", "MLE-MF", out=tmp_path) == 1
    again = {name for name, when in times(tmp_path).items() if when != before[name]}
    assert again == {"MLE-MF.jsonmnist-noisy-10", "MLE-MF.jsonmnist-noisy-20"}
    assert reproduce("table1", "--list", "--methods", "LR", "CD-1", "MLE-MF", out=tmp_path) == 0
    listed = capsys.readouterr().out
    assert re.search(r"mnist-noisy-10/CD-1 +failed: DivergenceError", listed)
    assert re.search(r"mnist-noisy-10/MLE-MF +to do again: failed: TypeError", listed)
    assert re.search(r"mnist-noisy-10/LR +done: All ", listed)


def test_a_failed_attempt_keeps_its_checkpoint(tmp_path, monkeypatch):
    """A full disk, say, while testing: the training is not lost."""
    runs = some("mnist-noisy-10/MLE-BP")

    def broken(*args):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_test", broken)
        perform(runs, tmp_path)
    result = results.read_all(tmp_path)[runs[0].name]
    assert result["error"] == {"type": "OSError", "message": "no space left on device", "final": False}
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    perform(runs, tmp_path)
    result = results.read_all(tmp_path)[runs[0].name]
    assert result["error"] is None
    assert result["made"]["resumed_after"] == 2
    assert not list(tmp_path.rglob("*.npz"))


def test_warnings_of_training_are_kept(tmp_path, monkeypatch):
    real = runner.train

    def noisy(*args, **kw):
        cf.train.__globals__["check"].warn("something to know", cf.ConvergenceWarning)
        return real(*args, **kw)

    monkeypatch.setattr(runner, "train", noisy)
    perform(some("mnist-noisy-10/LR"), tmp_path)
    assert results.read_all(tmp_path)["mnist-noisy-10/LR"]["warnings"] == ["something to know"]
    report.write_report(tmp_path)
    assert "something to know" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["table4"], "no target 'table4'; choose from: table1, table2, table3, fig-occlusion, fig-convergence"),
        (["--methods", "SVM"], "no method 'SVM'; choose from: LR, CD-1"),
        (["fig-convergence", "--methods", "LR"], "fig-convergence needs MLE-BP, which --methods leaves out"),
        (["--report-only"], "has no results"),
    ],
)
def test_mistakes_get_a_clear_message(tmp_path, tiny, capsys, argv, message):
    assert reproduce(*argv, out=tmp_path / "new") == 2
    out, err = capsys.readouterr()
    assert err.startswith("crbm-fast reproduce: error: ")
    assert message in err
    assert not (tmp_path / "new").exists()
    assert out == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["--jobs", "0"], "'0' is not a positive integer"), (["--scale", "huge"], "invalid choice: 'huge'")],
)
def test_bad_options(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        _cli.main(["reproduce", *argv])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        _cli.main(["reproduce", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "crbm-fast reproduce --scale small" in text
    assert "exit code: 0" in text


def test_scales_are_not_mixed_in_a_folder(whole, capsys):
    before = times(whole)
    assert _cli.main(["reproduce", "--scale", "full", "--out", str(whole)]) == 2
    assert "has runs of scale small; name another folder: --out DIR" in capsys.readouterr().err
    assert times(whole) == before


def test_a_file_in_place_of_the_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert reproduce(out=tmp_path / "file") == 2
    assert "is not a folder" in capsys.readouterr().err


def test_data_that_are_not_there(tmp_path, monkeypatch, capsys):
    """At once, before any folder is made."""
    monkeypatch.setenv("CRBM_FAST_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")
    for module in (mnist, caltech):
        monkeypatch.setattr(module, "SOURCE", dataclasses.replace(module.SOURCE, url="http://127.0.0.1:9/"))
    tasks.load.cache_clear()
    assert _cli.main(["reproduce", "table1", "--out", str(tmp_path / "out")]) == 2
    assert "MNIST was not found" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_interrupted(tmp_path, tiny, monkeypatch, capsys):
    def interrupt(*args, **kw):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "perform", interrupt)
    assert reproduce("fig-demo", out=tmp_path) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


def test_progress_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = command.Progress(3, 1)
    progress.tell(runner.Event("epoch", 0, "mnist-noisy-10/MLE-BP", 2, 12, 0.0171))
    progress.tell(runner.Event("epoch", 1, "mnist-noisy-10/LR", 5, 12, 0.02))
    progress.tell(runner.Event("lost", 1))
    err = capsys.readouterr().err
    assert "[1/3] mnist-noisy-10/MLE-BP 2/12 1.71 % | mnist-noisy-10/LR 5/12 2.00 %" in err.replace("\x1b[K", "")
    assert "a process was killed" in err


# --- the report ---------------------------------------------------------------------------------------------------


def test_the_report_begins_with_mle_bp_and_the_papers_best():
    found = {}
    for task, error in (("mnist-noisy-10", 1.6), ("caltech-occluded-12", 4.54)):
        found[f"{task}/MLE-BP"] = fake(task, "MLE-BP", error, 10) | {"made": {"seconds": {"total": 60}}}
    (table,) = report._best(found)
    assert table.rows == [
        ["`mnist-noisy-10`", "**1.600**", "1.688", "1.688 (MLE-BP)", report.time_text(60)],
        ["`caltech-occluded-12`", "4.540", "4.548", "4.534 (MSSVM)", report.time_text(60)],
    ]
    assert report._best({}) == []


def test_the_report_has_every_cell(whole):
    text = (whole / "report.md").read_text()
    found = results.read_all(whole)
    for table in tasks.TABLES:
        section = text.split(f"## Table {table[-1]}. ")[1].split("\n## ")[0]
        rows = {
            row[0]: row[1:]
            for row in (
                re.findall(r"\| +(\S.*?)(?= +\|)", "| " + line[2:])
                for line in section.splitlines()
                if line.startswith("| ")
            )
            if row and row[0] in METHODS
        }
        assert list(rows) == list(METHODS)
        for method, cells in rows.items():
            expected = []
            for task in tasks.TABLES[table]:
                for error in ("all", "changed"):
                    expected.append(100 * found[f"{task.name}/{method}"]["test"][error])
                    expected.append(claims.paper_cell(task.name, method, error))
            assert [float(c.strip("*")) for c in cells] == [float(f"{x:.3f}") for x in expected]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        assert len({len(line) for line in lines}) == 1  # aligned
    assert "This is a small run" in text
    assert "**holds**" not in text
    full = {name: {**result, "scale": {**result["scale"], "name": "full"}} for name, result in found.items()}
    text = report.markdown(report.blocks(full, {}))
    for claim in (*claims.CLAIMS, *claims.CELLS):
        assert claims.sentence(found, claim) in text


class Page(html.parser.HTMLParser):
    """Tags that are open, and whatever could reach for another file."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.tags, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action", "poster")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_nothing_else(whole):
    contents = (whole / "report.html").read_text()
    page = Page()
    page.feed(contents)
    page.close()
    assert page.open == []
    assert {"script", "link", "iframe", "object", "a"}.isdisjoint(page.tags)
    assert len(page.links) == page.tags.count("img") == 3
    for link in page.links:
        assert link.startswith("data:image/png;base64,")
        assert base64.b64decode(link.split(",")[1]).startswith(b"\x89PNG\r\n")
    assert "://" not in contents
    assert "url(" not in contents
    assert "@import" not in contents
    text = "".join(page.text)
    assert "**" not in text
    assert "`" not in text
    found = results.read_all(whole)
    for name in ("mnist-noisy-10/MLE-BP", "caltech-occluded-12/MSSVM"):
        assert f"{100 * found[name]['test']['all']:.3f}" in text


def test_html_is_escaped():
    assert report._inline("a < b & **c** `d<e`") == "a &lt; b &amp; <b>c</b> <code>d&lt;e</code>"


def test_figures_are_drawn_from_the_results_alone(whole):
    from matplotlib.image import imread

    for name, least in {"fig-occlusion": 2, "fig-convergence": 2, "fig-demo": 2}.items():
        image = imread(whole / f"{name}.png")
        assert image.shape[1] > 600
        assert len(np.unique(image[..., :3].reshape(-1, 3), axis=0)) > least


def test_a_part_of_the_runs_makes_a_part_of_the_report(tmp_path, tiny, capsys):
    assert reproduce("fig-convergence", "--jobs", "1", out=tmp_path) == 0
    text = (tmp_path / "report.md").read_text()
    assert "## Table 2." in text
    assert "## Table 1." not in text
    assert re.search(r"\| LR +\| +- \| +1\.468 \|", text)
    assert (tmp_path / "fig-convergence.png").is_file()
    capsys.readouterr()
    assert reproduce("table1", "--methods", "lr", "--list", out=tmp_path) == 0
    assert re.fullmatch(r"mnist-noisy-10/LR +to do\nmnist-noisy-20/LR +to do\n", capsys.readouterr().out)
    (tmp_path / "report.html").unlink()
    assert reproduce("--report-only", out=tmp_path) == 0
    assert (tmp_path / "report.html").is_file()


def test_old_runs_are_told(tmp_path, tiny):
    perform([changed_recipe(some("mnist-noisy-10/LR")[0], learning_rate=0.5)], tmp_path)
    report.write_report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "**Older than the hyperparameters or the experiment's code**" in text
    assert "to be done again: mnist-noisy-10/LR." in text


def test_without_matplotlib(tmp_path, tiny, monkeypatch, capsys):
    monkeypatch.setattr(figures, "available", lambda: False)
    assert reproduce("fig-demo", out=tmp_path / "a") == 2
    assert 'figures need matplotlib: pip install "crbm_fast[plots]"' in capsys.readouterr().err
    assert reproduce("table1", "--methods", "LR", "--jobs", "1", out=tmp_path / "b") == 0
    assert "the report will have no pictures" in capsys.readouterr().err
    assert "None here: figures need matplotlib" in (tmp_path / "b" / "report.md").read_text()
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.34, "0.3 s"), (12.3, "12 s"), (185, "3 min 05 s"), (7830, "2 h 10 min")]
)
def test_times_are_readable(seconds, text):
    assert report.time_text(seconds) == text


# --- the search ---------------------------------------------------------------------------------------------------


@pytest.fixture
def search():
    path = ROOT / "tools" / "search_hyperparameters.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_method_gets_the_same_trials(search, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "RATES", (0.001, 0.01))
    monkeypatch.setattr(search, "EPOCHS", {"mnist": (1, 2, 3)})
    monkeypatch.setattr(search, "TRIAL_EPOCHS", {"mnist": (1, 1, 2)})
    file, task = tmp_path / "h.json", "mnist-noisy-10"
    common = ["--digits", "--images", "40", "--validation", "20", "--write", str(file), "--tasks", task]
    common += ["--out", str(tmp_path / "search")]
    search.main(["--no-trials", *common])
    search.main(["--methods", "LR", "MLE-MF", *common])
    contents = json.loads(file.read_text())
    assert list(contents["recipes"][task]) == list(METHODS)
    tried = contents["search"]["trials"][task]
    assert list(tried) == ["LR", "MLE-MF"]
    for name, init in (("LR", None), ("MLE-MF", None), ("MLE-MF", "visible")):
        listed = [t for t in tried[name] if t.get("init") == init]
        tries = [(t["learning_rate"], t["weight_decay"]) for t in listed]
        rate = min(listed[:2], key=lambda t: t["valid_error"])["learning_rate"]
        decay = min(listed[:4], key=lambda t: t["valid_error"])["weight_decay"]
        assert tries[:4] == [(0.001, 0.001), (0.01, 0.001), (rate, 0.0003), (rate, 0.003)]
        if decay == 0.001:
            assert {d for _, d in tries[4:6]} == {decay}
        else:
            assert tries[4] == (rate, {0.0003: 9e-05, 0.003: 0.009}[decay])  # further
        assert len(set(tries)) == len(tries) >= 7
        best = min(tried[name], key=lambda t: t["valid_error"])
        got = contents["recipes"][task][name]["train"]
        assert (got["learning_rate"], got["weight_decay"]) == (best["learning_rate"], best["weight_decay"])
        assert contents["recipes"][task][name].get("learner", {}).get("init") == best.get("init")
        assert got["epochs"] == (3 if name == "LR" else 1)  # of the run, not of a trial
    trial = results.read(results.path_of(tmp_path / "search", f"{task}/LR/trial-01"))
    assert trial["test"] is None
    assert trial["images"] == {"train": 40, "validation": 20, "test": 0}
    assert trial["recipe"]["train"]["weight_decay"] == 0.001 * 50_000 / 40
    assert "the learning rates 0.001, 0.01; with the best of them" in contents["how"]
    assert results.read_all(tmp_path / "search") == {}  # trials are not cells


def test_the_search_does_not_write_nonsense(search, tmp_path):
    for argv, message in (
        (["--digits"], "--digits is to try the script"),
        (["--images", "0"], "at least 1 of each"),
        (["--revise", str(tmp_path / "nowhere")], "is not a folder of results"),
    ):
        with pytest.raises(SystemExit, match=message):
            search.main(argv)


# what a result needs to be read
BARE = {
    "error": None,
    "method": "",
    "scale": {},
    "made": {"seconds": {"total": 1}},
    "history": {},
    "best_epoch": 1,
    "validation": {},
    "test": None,
    "demo": None,
    "warnings": [],
}


def test_a_search_goes_on_when_some_trials_fail(search, tmp_path):
    scale, task = Scale("search", digits=True, train=40, validation=20, test=0), "mnist-noisy-10"
    settings = [{"learning_rate": rate, "weight_decay": 0.001} for rate in (1, 2)]

    def put(number, **more):
        run = search.trial(task, "LR", scale, number, settings[number])
        path = results.path_of(tmp_path, run.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        results.write(path, {**BARE, "name": run.name, "hash": run.hash, **more})

    with pytest.raises(SystemExit, match="mnist-noisy-10/LR/trial-00 was not done"):
        search.outcome(task, "LR", scale, settings[:1], tmp_path)
    put(0, error={"type": "DivergenceError", "message": "far", "final": True})
    with pytest.raises(SystemExit, match="every trial of LR on mnist-noisy-10 failed: DivergenceError: far"):
        search.outcome(task, "LR", scale, settings[:1], tmp_path)
    put(1, error=None, validation={"all": 0.5}, best_epoch=1)
    listed, best = search.outcome(task, "LR", scale, settings, tmp_path)
    assert best == settings[1]
    assert listed[0]["error"] == "DivergenceError: far"


def test_one_start_of_mean_field_for_all_methods_of_a_task(search):
    def listed(hidden, visible):
        rates = {"learning_rate": 0.1, "weight_decay": 0.1}
        return [
            {**rates, "valid_error": hidden},
            {**rates, "learning_rate": 0.2, "error": "far"},
            {**rates, "valid_error": visible, "init": "visible"},
        ]

    trials = {"LR": listed(0.5, 0.1)[:1], "CD-1": listed(0.2, 0.3), "MLE-MF": listed(0.4, 0.1)}
    assert [best.get("init") for best in search.chosen(trials).values()] == [None, "visible", "visible"]
    trials["CD-10"] = listed(0.1, 0.4)
    assert [best.get("init") for best in search.chosen(trials).values()] == [None] * 4


def test_what_is_committed_is_what_the_search_writes(search):
    contents = methods.hyperparameters()
    assert contents["as"] == search.AS
    revised = {(r["task"], r["method"], r["keyword"]): r["now"] for r in contents["search"]["revised"]}
    for task, by_method in contents["recipes"].items():
        searched = task if task in search.DECAYS else search.AS[task]
        best = search.chosen(contents["search"]["trials"][searched])
        for name, got in by_method.items():
            settings = dict(best[name])
            settings |= {k: revised[task, name, k] for k in ("learning_rate", "epochs") if (task, name, k) in revised}
            assert got == search.with_settings(search.base(searched, name), settings), (task, name)


@pytest.fixture
def revision(search, tmp_path, monkeypatch):
    """A file of recipes, and `look`: revise it given {method: (validation error or None: it diverged, best epoch)}."""
    file = tmp_path / "h.json"
    search.main(["--no-trials", "--write", str(file)])
    monkeypatch.setattr(methods, "hyperparameters", lambda: json.loads(file.read_text()))

    def look(task, runs):
        for name, (error, best) in runs.items():
            run = Run(TASKS[task], name, SCALES["full"], recipe(TASKS[task], name))
            path = results.path_of(tmp_path, run.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            more = {"name": run.name, "hash": run.hash, "validation": {"all": error}, "best_epoch": best}
            if error is None:
                more["error"] = {"type": "DivergenceError", "message": "far", "final": True}
            results.write(path, {**BARE, **more})
        search.main(["--revise", str(tmp_path), "--write", str(file)])
        return json.loads(file.read_text())

    look.all = lambda: {task: {name: recipe(TASKS[task], name) for name in METHODS} for task in TASKS}
    return look


def test_methods_worse_than_lr_are_revised(search, revision, tmp_path):
    """At a tenth of the rate, for that task alone; a second look at the same runs changes nothing."""
    task, before = "mnist-occluded-12", revision.all()
    revision(task, {"LR": (0.03, 5), "CD-10": (0.06, 5), "MLE-BP": (0.02, 5)})
    contents = revision(task, {})
    after = revision.all()
    changed = {(t, m) for t in before for m in METHODS if before[t][m] != after[t][m]}
    assert changed == {(f"mnist-occluded-{side}", "CD-10") for side in (12, 16, 20, 24, 28)}
    assert [r[task]["CD-10"].train["learning_rate"] for r in (before, after)] == [0.01, 0.001]
    assert "CD-10 on mnist-occluded-12" not in contents["how"]  # nothing was searched yet
    (made,) = contents["search"]["revised"]
    assert (made["task"], made["method"], made["was"], made["now"]) == (task, "CD-10", 0.01, 0.001)
    revision(task, {"CD-10": (0.07, 5)})  # with a tenth of the rate
    assert revision.all() == before
    assert len(revision(task, {"CD-10": (0.06, 5)})["search"]["revised"]) == 2  # no more
    search.main(["--no-trials", "--write", str(tmp_path / "h.json")])
    assert revision.all() == before


def test_runs_that_were_best_at_the_end_get_twice_the_epochs(search, revision, tmp_path):
    """Once, and the task that takes over the recipes keeps what its own run has had."""
    task, before = "mnist-noisy-10", revision.all()
    contents = revision(task, {"LR": (0.03, 12), "MSSVM": (0.02, 6), "LSSVM": (0.02, 5)})
    after = revision.all()
    assert {(t, m) for t in before for m in METHODS if before[t][m] != after[t][m]} == {(task, "LR"), (task, "MSSVM")}
    assert [after[task][name].train["epochs"] for name in ("LR", "MSSVM")] == [24, 12]
    assert [r["keyword"] for r in contents["search"]["revised"]] == ["epochs", "epochs"]
    contents = revision(task, {"LR": (0.031, 24), "MSSVM": (0.019, 12)})
    assert [(r["method"], r["was"], r["now"]) for r in contents["search"]["revised"][2:]] == [("LR", 24, 12)]
    assert revision(task, {"LR": (0.03, 12)}) == contents
    search.main(["--no-trials", "--write", str(tmp_path / "h.json")])
    assert revision.all() == before
    assert "mnist-noisy-20" not in json.loads((tmp_path / "h.json").read_text())["recipes"]


def test_low_rates_are_raised_and_what_diverges_goes_back(search, revision, tmp_path):
    file, task = tmp_path / "h.json", "caltech-noisy-20"
    contents = json.loads(file.read_text())
    contents["recipes"][task]["MSSVM"]["train"]["learning_rate"] = 0.0003
    file.write_text(json.dumps(contents))
    before = revision.all()
    (made,) = revision(task, {"LR": (0.03, 9), "MSSVM": (0.02, 9)})["search"]["revised"]
    assert (made["was"], made["now"]) == (0.0003, 0.003)
    contents = revision(task, {"MSSVM": (None, None)})
    assert contents["search"]["revised"][1] == {
        "task": task,
        "method": "MSSVM",
        "valid_error": None,
        "keyword": "learning_rate",
        "was": 0.003,
        "now": 0.0003,
        "why": search.BACK,
    }
    assert revision.all() == before
    # diverged from the beginning
    contents = revision(task, {"CD-1": (None, None)})
    assert (contents["search"]["revised"][2]["method"], contents["search"]["revised"][2]["now"]) == ("CD-1", 0.001)
    assert revision(task, {"CD-1": (0.02, 9)}) == contents


def test_an_lr_of_another_recipe_is_no_measure(search, revision, tmp_path):
    task = "caltech-noisy-20"
    contents = revision(task, {"LR": (0.03, 32), "CD-1": (0.02, 9)})  # LR: twice the epochs, not done yet
    assert [r["method"] for r in contents["search"]["revised"]] == ["LR"]
    assert revision(task, {"CD-1": (0.04, 9)}) == contents
    contents = revision(task, {"LR": (0.025, 60)})
    assert [r["method"] for r in contents["search"]["revised"]] == ["LR", "CD-1"]
    with pytest.raises(SystemExit, match="does not exist: there is nothing to revise"):
        search.main(["--revise", str(tmp_path), "--write", str(tmp_path / "nowhere.json")])


def test_runs_that_were_best_at_the_beginning_get_lower_rates(revision):
    task = "mnist-noisy-10"
    contents = revision(task, {"LR": (0.03, 7), "CD-1": (0.02, 2), "CD-10": (0.02, 3), "LSSVM": (0.02, 1)})
    assert [(r["method"], r["now"]) for r in contents["search"]["revised"]] == [("CD-1", 0.003), ("LSSVM", 0.003)]
    contents = revision(task, {"CD-1": (0.019, 1), "LSSVM": (0.021, 1)})
    assert [(r["method"], r["now"]) for r in contents["search"]["revised"][2:]] == [("CD-1", 0.001), ("LSSVM", 0.01)]
    assert revision(task, {"CD-1": (0.018, 1), "LSSVM": (0.02, 1)}) == contents
