"""The search for recipes: the same trials for every method, and revisions by the runs at full scale."""

import json

import pytest
from helpers.reproduce import BARE

from reproduce import recipes, results, search
from reproduce.methods import METHODS
from reproduce.recipes import recipe
from reproduce.runs import Run
from reproduce.tasks import SCALES, TASKS, Scale


def test_every_method_gets_the_same_trials(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "RATES", (0.001, 0.01))
    monkeypatch.setattr(search, "EPOCHS", {"mnist": (1, 2, 3)})
    monkeypatch.setattr(search, "TRIAL_EPOCHS", {"mnist": (1, 1, 2)})
    files, task = tmp_path / "files", "mnist-noisy-10"
    common = ["--digits", "--images", "40", "--validation", "20", "--write", str(files), "--tasks", task]
    common += ["--out", str(tmp_path / "search")]
    search.main(["--no-trials", *common])
    search.main(["--methods", "LR", "MLE-MF", *common])
    contents = search.read(files)
    assert list(contents["recipes"][task]) == list(METHODS)
    tried = contents["trials"][task]
    assert list(tried) == ["LR", "MLE-MF"]
    for name, init in (("LR", None), ("MLE-MF", None), ("MLE-MF", "visible")):
        listed = [t for t in tried[name] if t.get("init") == init]
        tries = [(t["learning_rate"], t["weight_decay"]) for t in listed]
        rate = min(listed[:2], key=lambda t: t["valid_error"])["learning_rate"]
        decay = min(listed[:4], key=lambda t: t["valid_error"])["weight_decay"]
        assert tries[:4] == [(0.001, 0.001), (0.01, 0.001), (rate, 0.0003), (rate, 0.003)]
        best = {"learning_rate": rate, "weight_decay": decay} | ({} if init is None else {"init": init})
        assert tries[4:6] == [(s["learning_rate"], s["weight_decay"]) for s in search.third(task, best, ())]
        assert len(set(tries)) == len(tries) >= 7
        best = min(tried[name], key=lambda t: t["valid_error"])
        got = contents["recipes"][task][name]["train"]
        assert (got["learning_rate"], got["weight_decay"]) == (best["learning_rate"], best["weight_decay"])
        assert contents["recipes"][task][name].get("inference", {}).get("init") == best.get("init")
        assert got["epochs"] == (3 if name == "LR" else 1)  # of the run, not of a trial
    trial = results.read(results.path_of(tmp_path / "search", f"{task}/LR/trial-01"))
    assert trial["test"] is None
    assert trial["images"] == {"train": 40, "validation": 20, "test": 0}
    assert trial["recipe"]["train"]["weight_decay"] == 0.001 * 50_000 / 40
    log = json.loads((files / "search_log.json").read_text())
    assert "the learning rates 0.001, 0.01; with the best of them" in log["how"]
    assert log["columns"] == list(search.COLUMNS)
    assert set(json.loads((files / "recipes.json").read_text())) == {"same_as", "recipes"}  # what a run needs
    assert results.read_all(tmp_path / "search") == {}  # trials are not cells


def test_the_third_stage_goes_on_where_the_best_is_at_an_end(monkeypatch):
    monkeypatch.setattr(search, "RATES", (0.001, 0.01))

    def tried(rate, decay):
        settings = search.third("mnist-noisy-10", {"learning_rate": rate, "weight_decay": decay}, ())
        return [(s["learning_rate"], s["weight_decay"]) for s in settings]

    assert tried(0.001, 0.001) == [(0.0003, 0.001), (0.002, 0.001)]
    assert tried(0.01, 0.001) == [(0.03, 0.001), (0.005, 0.001)]
    assert tried(0.01, 0.003) == [(0.01, 0.009), (0.03, 0.003)]
    assert tried(0.001, 0.0003) == [(0.001, 9e-05), (0.0003, 0.0003)]


def test_the_search_does_not_write_nonsense(tmp_path, capsys):
    for argv, message in (
        (["--digits"], "--digits is to try the search"),
        (["--revise", str(tmp_path / "nowhere")], "is not a folder of results"),
    ):
        with pytest.raises(SystemExit, match=message):
            search.main(argv)
    with pytest.raises(SystemExit) as stop:
        search.main(["--images", "0"])
    assert stop.value.code == 2
    assert "'0' is not a positive integer" in capsys.readouterr().err


def test_a_search_goes_on_when_some_trials_fail(tmp_path):
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


def test_one_start_of_mean_field_for_all_methods_of_a_task():
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


def test_what_is_committed_is_what_the_search_writes():
    contents = search.read(recipes.RECIPES.parent)
    assert contents["same_as"] == search.SAME_AS
    revised = {(r["task"], r["method"], r["keyword"]): r["now"] for r in contents["revised"]}
    for task, by_method in contents["recipes"].items():
        searched = task if task in search.DECAYS else search.SAME_AS[task]
        best = search.chosen(contents["trials"][searched])
        for name, got in by_method.items():
            settings = dict(best[name])
            settings |= {k: revised[task, name, k] for k in ("learning_rate", "epochs") if (task, name, k) in revised}
            assert got == search.with_settings(search.base(searched, name), settings), (task, name)


@pytest.fixture
def revision(tmp_path, monkeypatch):
    """A file of recipes, and `look`: revise it given {method: (validation error or None: it diverged, best epoch)}."""
    search.main(["--no-trials", "--write", str(tmp_path)])
    monkeypatch.setattr(recipes, "committed_recipes", lambda: search.read(tmp_path))

    def look(task, runs):
        for name, (error, best) in runs.items():
            run = Run(TASKS[task], name, SCALES["full"], recipe(TASKS[task], name))
            path = results.path_of(tmp_path, run.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            more = {"name": run.name, "hash": run.hash, "validation": {"all": error}, "best_epoch": best}
            if error is None:
                more["error"] = {"type": "DivergenceError", "message": "far", "final": True}
            results.write(path, {**BARE, **more})
        search.main(["--revise", str(tmp_path), "--write", str(tmp_path)])
        return search.read(tmp_path)

    look.all = lambda: {task: {name: recipe(TASKS[task], name) for name in METHODS} for task in TASKS}
    return look


def test_methods_worse_than_lr_are_revised(revision, tmp_path):
    """At a tenth of the rate, for that task alone; a second look at the same runs changes nothing."""
    task, before = "mnist-occluded-12", revision.all()
    revision(task, {"LR": (0.03, 5), "CD-10": (0.06, 5), "MLE-BP": (0.02, 5)})
    contents = revision(task, {})
    after = revision.all()
    changed = {(t, m) for t in before for m in METHODS if before[t][m] != after[t][m]}
    assert changed == {(f"mnist-occluded-{side}", "CD-10") for side in (12, 16, 20, 24, 28)}
    assert [r[task]["CD-10"].train["learning_rate"] for r in (before, after)] == [0.01, 0.001]
    assert "CD-10" not in json.loads((tmp_path / "search_log.json").read_text())["how"]  # nothing was searched yet
    (made,) = contents["revised"]
    assert (made["task"], made["method"], made["was"], made["now"]) == (task, "CD-10", 0.01, 0.001)
    revision(task, {"CD-10": (0.07, 5)})  # with a tenth of the rate
    assert revision.all() == before
    assert len(revision(task, {"CD-10": (0.06, 5)})["revised"]) == 2  # no more
    search.main(["--no-trials", "--write", str(tmp_path)])
    assert revision.all() == before


def test_runs_that_were_best_at_the_end_get_twice_the_epochs(revision, tmp_path):
    """Once, and the task that takes over the recipes keeps what its own run has had."""
    task, before = "mnist-noisy-10", revision.all()
    contents = revision(task, {"LR": (0.03, 12), "MSSVM": (0.02, 6), "LSSVM": (0.02, 5)})
    after = revision.all()
    assert {(t, m) for t in before for m in METHODS if before[t][m] != after[t][m]} == {(task, "LR"), (task, "MSSVM")}
    assert [after[task][name].train["epochs"] for name in ("LR", "MSSVM")] == [24, 12]
    assert [r["keyword"] for r in contents["revised"]] == ["epochs", "epochs"]
    contents = revision(task, {"LR": (0.031, 24), "MSSVM": (0.019, 12)})
    assert [(r["method"], r["was"], r["now"]) for r in contents["revised"][2:]] == [("LR", 24, 12)]
    assert revision(task, {"LR": (0.03, 12)}) == contents
    search.main(["--no-trials", "--write", str(tmp_path)])
    assert revision.all() == before
    assert "mnist-noisy-20" not in search.read(tmp_path)["recipes"]


def test_low_rates_are_raised_and_what_diverges_goes_back(revision, tmp_path):
    task = "caltech-noisy-20"
    contents = search.read(tmp_path)
    contents["recipes"][task]["MSSVM"]["train"]["learning_rate"] = 0.0003
    search.write(tmp_path, contents)
    before = revision.all()
    (made,) = revision(task, {"LR": (0.03, 9), "MSSVM": (0.02, 9)})["revised"]
    assert (made["was"], made["now"]) == (0.0003, 0.003)
    contents = revision(task, {"MSSVM": (None, None)})
    assert contents["revised"][1] == {
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
    assert (contents["revised"][2]["method"], contents["revised"][2]["now"]) == ("CD-1", 0.001)
    assert revision(task, {"CD-1": (0.02, 9)}) == contents


def test_an_lr_of_another_recipe_is_no_measure(revision, tmp_path):
    task = "caltech-noisy-20"
    contents = revision(task, {"LR": (0.03, 32), "CD-1": (0.02, 9)})  # LR: twice the epochs, not done yet
    assert [r["method"] for r in contents["revised"]] == ["LR"]
    assert revision(task, {"CD-1": (0.04, 9)}) == contents
    contents = revision(task, {"LR": (0.025, 60)})
    assert [r["method"] for r in contents["revised"]] == ["LR", "CD-1"]
    with pytest.raises(SystemExit, match=r"has no recipes\.json: there is nothing to revise"):
        search.main(["--revise", str(tmp_path), "--write", str(tmp_path / "nowhere")])


def test_runs_that_were_best_at_the_beginning_get_lower_rates(revision):
    task = "mnist-noisy-10"
    contents = revision(task, {"LR": (0.03, 7), "CD-1": (0.02, 2), "CD-10": (0.02, 3), "LSSVM": (0.02, 1)})
    assert [(r["method"], r["now"]) for r in contents["revised"]] == [("CD-1", 0.003), ("LSSVM", 0.003)]
    contents = revision(task, {"CD-1": (0.019, 1), "LSSVM": (0.021, 1)})
    assert [(r["method"], r["now"]) for r in contents["revised"][2:]] == [("CD-1", 0.001), ("LSSVM", 0.01)]
    assert revision(task, {"CD-1": (0.018, 1), "LSSVM": (0.02, 1)}) == contents
