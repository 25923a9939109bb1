"""crbm-fast train: the same bits as train(), files that are never lost, mistakes in one line."""

import os
import sys
import warnings

import numpy as np
import pytest
from helpers.cli import fails, load, run

import crbm_fast as cf
from crbm_fast import _validation as check
from crbm_fast.cli import shared
from crbm_fast.cli import train as command
from crbm_fast.training.options import flags

# Every option that has a flag and is part of what is learned.
OPTIONS = {
    "epochs": 3,
    "batch_size": 7,
    "optimizer": "sgd",
    "learning_rate": 0.02,
    "schedule": "cosine",
    "weight_decay": 0.01,
    "centering": "all",
    "averaging": 0.9,
    "validation": 0.2,
    "patience": 2,
    "start": "logistic",
    "seed": 5,
}


def test_train_is_the_function(data, capsys):
    """To the bit: every option reaches it."""
    out, checkpoint = data.with_name("model.npz"), data.with_name("run.npz")
    given = [text for name, value in OPTIONS.items() for text in (f"--{name.replace('_', '-')}", value)]
    assert set(flags()) - set(OPTIONS) == {"checkpoint", "resume"}
    others = ["--learner", "mssvm", "--hidden", 4, "--dtype", "float64", "--threads", 1, "--checkpoint", checkpoint]
    assert run("train", data, "--out", out, *given, *others) == 0
    X, V = load(data)
    model = cf.CRBM(6, 4, 5, seed=5, dtype="float64")
    history = cf.train(model, X, V, "mssvm", **OPTIONS)
    theirs = cf.CRBM.load(out)
    assert theirs.inference == model.inference
    assert theirs.dtype == np.float64
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(theirs.parameters()[name], p)
    printed, log = capsys.readouterr()
    assert [line[:60] for line in printed.splitlines()[:-1]] == [line[:60] for line in str(history).splitlines()]
    assert printed.splitlines()[-1] == f"wrote {out}: CRBM(nv=6, nh=4, nx=5, dtype=float64)"
    assert "mssvm epoch 3: training error" in log
    assert checkpoint.is_file()


@pytest.mark.parametrize("learner", cf.learners.LEARNERS)
def test_every_learner_by_its_defaults(learner, data):
    out = data.with_name("model.npz")
    assert run("train", data, "--out", out, "--learner", learner, "--epochs", 1) == 0
    nh = 0 if learner == "logistic" else command.HIDDEN
    model = cf.CRBM(6, nh, 5)
    X, V = load(data)
    cf.train(model, X, V, learner, epochs=1)
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(cf.CRBM.load(out).parameters()[name], p)


def test_an_rbm_has_no_x(tmp_path, rng, capsys):
    V = rng.integers(2, size=(30, 6))
    np.savez(tmp_path / "v.npz", V=V)
    assert run("train", tmp_path / "v.npz", "--out", tmp_path / "rbm.npz", "--hidden", 3, "--epochs", 2) == 0
    model = cf.RBM(6, 3)
    cf.train(model, None, V, epochs=2)
    theirs = cf.RBM.load(tmp_path / "rbm.npz")
    np.testing.assert_array_equal(theirs.W_vh, model.W_vh)
    capsys.readouterr()
    assert "is a model without features: there is nothing to predict from" in fails(
        capsys, "predict", tmp_path / "rbm.npz", tmp_path / "v.npz"
    )
    for option in ("--start", "--learner"):
        assert f"{option} logistic needs features, but {tmp_path / 'v.npz'} has no X" in fails(
            capsys, "train", tmp_path / "v.npz", "--out", tmp_path / "m.npz", option, "logistic"
        )


def test_links_do_not_hide_that_a_file_would_be_lost(data, capsys):
    link = data.with_name("link.npz")
    link.symlink_to(data)
    before = data.read_bytes()
    assert "is also DATA" in fails(capsys, "train", link, "--out", data, "--force")
    assert data.read_bytes() == before


def test_a_checkpoint_replaces_only_checkpoints(data, capsys):
    notes = data.with_name("notes.txt")
    notes.write_text("precious")
    message = fails(capsys, "train", data, "--out", data.with_name("m.npz"), "--checkpoint", notes, "--no-resume")
    assert "exists and is no checkpoint" in message
    assert notes.read_text() == "precious"


def test_a_long_name(data):
    out = data.with_name("a" * 245 + ".npz")
    assert run("train", data, "--out", out, "--hidden", 2, "--epochs", 1) == 0
    assert out.is_file()


def test_the_same_command_goes_on(data, monkeypatch, capsys):
    """Interrupted after an epoch, it ends with the same bits; nothing is written before."""
    folder, real = data.parent, cf.train

    def train(*args, **kw):
        def stop(epoch, model):
            if epoch.epoch == 2:
                raise KeyboardInterrupt

        return real(*args, **kw | {"callbacks": [stop]})

    def argv(out):
        return "train", data, "--out", folder / out, "--hidden", 3, "--epochs", 4

    assert run(*argv("whole.npz")) == 0
    monkeypatch.setattr(command, "train", train)
    assert run(*argv("m.npz"), "--checkpoint", folder / "run.npz") == 130
    assert capsys.readouterr().err.endswith(
        f"\ncrbm-fast train: interrupted; {folder / 'm.npz'} was not written; the same command goes on from the last "
        "whole epoch\n"
    )
    assert not (folder / "m.npz").exists()
    assert run(*argv("n.npz")) == 130
    assert "the same command with --checkpoint FILE could have gone on" in capsys.readouterr().err
    monkeypatch.setattr(command, "train", real)
    assert run(*argv("m.npz"), "--checkpoint", folder / "run.npz") == 0
    told = capsys.readouterr().err
    assert told.startswith(f"going on after epoch 2, from {folder / 'run.npz'}\n")
    assert "epoch 3:" in told
    assert "epoch 2:" not in told
    assert (folder / "m.npz").read_bytes() == (folder / "whole.npz").read_bytes()
    # other arguments: not silently another run
    (folder / "m.npz").unlink()
    message = fails(capsys, *argv("m.npz"), "--checkpoint", folder / "run.npz", "--batch-size", 5)
    assert "is of another run: --batch-size was 40 and is 5; call with the same arguments, or with --no-r" in message
    assert run(*argv("m.npz"), "--checkpoint", folder / "run.npz", "--batch-size", 5, "--no-resume") == 0


def test_divergence(data, capsys):
    out = data.with_name("m.npz")
    assert run("train", data, "--out", out, "--learning-rate", 1e9) == 1
    err = capsys.readouterr().err
    assert "crbm-fast train: error: training diverged in epoch 1, batch 1" in err
    assert "Lower --learning-rate (1e+09)" in err
    assert err.endswith(f"{out} was not written.\n")
    assert not out.exists()


def test_too_little_memory(data, monkeypatch, capsys):
    def no_memory(*args, **kw):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(command, "CRBM", no_memory)
    assert run("train", data, "--out", data.with_name("m.npz"), "--hidden", 10**9) == 1
    assert capsys.readouterr().err == "crbm-fast train: error: not enough memory: Unable to allocate 7 TiB\n"


def test_a_bar_in_a_terminal(data, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run("train", data, "--out", data.with_name("m.npz"), "--epochs", 2) == 0
    err = capsys.readouterr().err
    assert "mle: 100%" in err
    assert "training error" not in err


def test_a_model_is_not_overwritten(data, model, capsys):
    before = model.read_bytes()
    assert f"--out {model} exists; name another file, or add --force to replace it" in fails(
        capsys, "train", data, "--out", model
    )
    assert model.read_bytes() == before
    assert run("train", data, "--out", model, "--epochs", 1, "--force") == 0
    assert model.read_bytes() != before
    capsys.readouterr()
    for other, name in ((data, "DATA"), (data.parent / "x" / ".." / "run.npz", "--checkpoint")):
        assert f"is also {name}; name another file" in fails(
            capsys, "train", data, "--out", other, "--force", "--checkpoint", data.parent / "run.npz"
        )
    assert "--out /dev/null is not a file" in fails(capsys, "train", data, "--out", "/dev/null", "--force")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--out", "nowhere/m.npz"], "--out nowhere/m.npz cannot be written: there is no folder "),
        (["--out", "."], "--out . is not a file"),
        (["--out", "m.npz", "--checkpoint", "nowhere/c.npz"], "--checkpoint nowhere/c.npz cannot be written: there is"),
        (["--out", "m.npz", "--checkpoint", "data.npz"], "--checkpoint data.npz is also DATA"),
        ([], "the following arguments are required: --out"),
        (["--out", "m.npz", "--patience", "2"], "--patience needs --validation: "),
        (["--out", "m.npz", "--validation", "0.001"], "--validation 0.001 of 60 instances leaves no instance on"),
        (["--out", "m.npz", "--validation", "1"], "--validation 1 is outside [0, 1)"),
        (["--out", "m.npz", "--averaging", "1"], "--averaging 1 is outside [0, 1)"),
        (["--out", "m.npz", "--learning-rate", "0"], "--learning-rate 0 must be above 0"),
        (["--out", "m.npz", "--learning-rate", "fast"], "argument --learning-rate: invalid float value: 'fast'"),
        (["--out", "m.npz", "--weight-decay", "nan"], "--weight-decay nan is outside [0, inf)"),
        (["--out", "m.npz", "--validation", "0"], "--validation 0 of 60 instances leaves no instance on one side"),
        (["--out", "m.npz", "--epochs", "2.5"], "argument --epochs: invalid int value: '2.5'"),
        (["--out", "m.npz", "--seed", "-1"], "--seed -1 is outside [0, "),
        (["--out", "m.npz", "--hidden", "3000000000"], "--hidden 3000000000 is outside [0, "),
        (["--out", "m.npz", "--hidden", "-3"], "argument --hidden: '-3' is not a non-negative integer"),
        (["--out", "m.npz", "--batch-size", "0"], "--batch-size 0 is outside [1, "),
        (["--out", "m.npz", "--learner", "bp"], "argument --learner: invalid choice: 'bp'"),
        (["--out", "m.npz", "--threads", "9999"], "argument --threads: '9999' is not an integer from 1 to 1024"),
    ],
)
def test_mistakes_of_train(argv, message, data, monkeypatch, capsys):
    monkeypatch.chdir(data.parent)
    assert message in fails(capsys, "train", "data.npz", *argv)
    assert [path.name for path in data.parent.iterdir()] == ["data.npz"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(data, tmp_path_factory, capsys):
    folder = tmp_path_factory.mktemp("read-only")
    folder.chmod(0o500)
    assert "m.npz cannot be written: Permission denied" in fails(capsys, "train", data, "--out", folder / "m.npz")


def test_a_folder_that_refuses_files(data, monkeypatch, capsys):
    """As the one above, for root, too: before anything is trained."""

    def refuse(**kw):
        raise PermissionError(13, "Permission denied", kw["dir"])

    monkeypatch.setattr(shared.tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(command, "train", None)
    message = fails(capsys, "train", data, "--out", data.with_name("m.npz"))
    assert "m.npz cannot be written: Permission denied" in message


def test_warnings_are_one_line(data, monkeypatch, capsys):
    def train(*args, **kw):
        check.warn("something to know", cf.ConvergenceWarning)
        return cf.train(*args, **kw)

    monkeypatch.setattr(command, "train", train)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # here they are errors, for users they are not
        assert run("train", data, "--out", data.with_name("m.npz"), "--epochs", 1) == 0
    assert capsys.readouterr().err.startswith("crbm-fast train: warning: something to know\nmle epoch 1: ")
