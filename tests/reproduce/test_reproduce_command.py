"""`python -m reproduce`: what it does, says and returns."""

import dataclasses
import re
import subprocess
import sys

import pytest
from helpers import ROOT
from helpers.reproduce import modified, run_command

from crbm_fast.datasets import caltech, mnist
from reproduce import command, results, runner, tasks
from reproduce import runs as planned
from reproduce.recipes import Recipe, recipe


def test_what_is_finished_is_kept(whole, tiny, capsys):
    before = modified(whole)
    assert run_command(out=whole) == 0
    assert modified(whole) == before
    assert "56 runs, 56 of them done before" in capsys.readouterr().out


@pytest.mark.slow
def test_the_small_scale_as_it_is(tmp_path):
    """Not TINY, as in the other tests: every method learns to restore, not worse than LR."""
    assert run_command("table1", "--jobs", "2", out=tmp_path) == 0
    found = results.read_all(tmp_path)
    assert len(found) == 16
    for name, result in found.items():
        task, level = name.split("/")[0], result["task"]["level"] / 100  # the corrupted image's own error
        assert result["test"]["all"] < 0.6 * level, name
        assert result["test"]["all"] < 1.05 * found[f"{task}/LR"]["test"]["all"], name
        assert result["images"] == {"train": 600, "validation": 200, "test": 200}
    assert (tmp_path / "report.html").is_file()


def test_errors_are_recorded_and_the_others_go_on(tmp_path, tiny, monkeypatch, capsys):
    """Divergence follows from the run and is final; another error may be the machine's, and is tried again."""
    real = recipe

    def bad(task, method):
        chosen = real(task, method)
        extra = {"CD-1": {"learning_rate": 1e9, "optimizer": "sgd"}, "MLE-MF": {"no_such_keyword": 1}}.get(method, {})
        return Recipe({**chosen.train, **extra}, chosen.model, chosen.inference)

    monkeypatch.setattr(planned, "recipe", bad)
    assert run_command("table1", "--jobs", "2", "--methods", "LR", "CD-1", "MLE-MF", out=tmp_path) == 1
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
    before = modified(tmp_path)
    assert run_command("table1", "--jobs", "1", "--methods", "LR", "CD-1", "MLE-MF", out=tmp_path) == 1
    again = {name for name, when in modified(tmp_path).items() if when != before[name]}
    assert again == {"MLE-MF.jsonmnist-noisy-10", "MLE-MF.jsonmnist-noisy-20"}
    assert run_command("table1", "--list", "--methods", "LR", "CD-1", "MLE-MF", out=tmp_path) == 0
    listed = capsys.readouterr().out
    assert re.search(r"mnist-noisy-10/CD-1 +failed: DivergenceError", listed)
    assert re.search(r"mnist-noisy-10/MLE-MF +to do again: failed: TypeError", listed)
    assert re.search(r"mnist-noisy-10/LR +done: All ", listed)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--jobs", "2", "--scheduler", "tcp://127.0.0.1:9"], "--jobs is for this machine"),
        (["table4"], "no target 'table4'; choose from: table1, table2, table3, fig-occlusion, fig-convergence"),
        (["--methods", "SVM"], "no method 'SVM'; choose from: LR, CD-1"),
        (["fig-convergence", "--methods", "LR"], "fig-convergence needs MLE-BP, which --methods leaves out"),
        (["--report-only"], "has no results"),
    ],
)
def test_mistakes_get_a_clear_message(tmp_path, tiny, capsys, argv, message):
    assert run_command(*argv, out=tmp_path / "new") == 2
    out, err = capsys.readouterr()
    assert err.startswith("python -m reproduce: error: ")
    assert message in err
    assert not (tmp_path / "new").exists()
    assert out == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["--jobs", "0"], "'0' is not a positive integer"), (["--scale", "huge"], "invalid choice: 'huge'")],
)
def test_bad_options(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "python -m reproduce --scale small" in text
    assert "exit code: 0" in text


def test_scales_are_not_mixed_in_a_folder(whole, capsys):
    before = modified(whole)
    assert command.main(["--scale", "full", "--out", str(whole)]) == 2
    assert "has runs of scale small; name another folder: --out DIR" in capsys.readouterr().err
    assert modified(whole) == before


def test_a_file_in_place_of_the_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run_command(out=tmp_path / "file") == 2
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
    assert command.main(["table1", "--out", str(tmp_path / "out")]) == 2
    assert "MNIST was not found" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_interrupted(tmp_path, tiny, monkeypatch, capsys):
    def interrupt(*args, **kw):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "perform", interrupt)
    assert run_command("fig-demo", out=tmp_path) == 130
    assert "the same command goes on from here" in capsys.readouterr().err


def test_it_runs_from_the_clone():
    command = [sys.executable, "-m", "reproduce", "--list", "fig-demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"mnist-noisy-10/MLE-BP +\S.*\nmnist-occluded-8/MLE-BP +\S.*\n", done.stdout)


def test_commands_in_the_documents_parse():
    """Those of README.md and docs/reproduction.md, with targets and methods that there are."""
    text = "".join((ROOT / name).read_text() for name in ("README.md", "docs/reproduction.md"))
    lines = re.findall(r"^(?:pip install .* && )?python -m reproduce(?: (.*))?$", text, re.MULTILINE)
    assert len(lines) >= 7
    for line in lines:
        args = command.parser().parse_args(line.split("#")[0].split())
        command._targets(args.targets)
        command._methods(args.methods)
