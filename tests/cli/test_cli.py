"""The commands: what they print and write is what the package gives; every mistake gets one line and its exit code."""

import inspect
import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import crbm_fast as cf
from crbm_fast import _cli
from crbm_fast.commands import shared
from crbm_fast.commands import train as command

ROOT = Path(__file__).parents[2]
COMMANDS = ("demo", "train", "predict", "info")


def run(*args):
    return _cli.main([str(arg) for arg in args])


def fails(capsys, *args):
    """The one line of a command that ends with exit code 2."""
    try:
        code = run(*args)
    except SystemExit as stop:  # argparse
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith(f"crbm-fast {args[0]}: error: ")
    assert err.count("\n") == 1
    return err


@pytest.fixture
def data(tmp_path, rng):
    """A file with X (60, 5) and V (60, 6)."""
    V = rng.integers(2, size=(60, 6)).astype(np.uint8)
    X = V[:, :5] + rng.normal(0, 0.5, (60, 5))
    np.savez(tmp_path / "data.npz", X=X, V=V)
    return tmp_path / "data.npz"


@pytest.fixture
def model(data, capsys):
    """A file with a model trained on it."""
    assert run("train", data, "--out", data.with_name("model.npz"), "--hidden", 3, "--epochs", 2) == 0
    capsys.readouterr()
    return data.with_name("model.npz")


# --- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_exit_codes(name, capsys):
    with pytest.raises(SystemExit) as stop:
        run(name, "--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert re.search(rf"examples:\n  .*crbm-fast {name}", text)
    assert "exit code: 0" in text
    assert max(map(len, text.splitlines())) <= 120


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit):
        run("--help")
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"^    {name}\s", text, re.MULTILINE), name


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_are_commands(name):
    """That parse: no example names an option that is gone."""
    parser = _cli._parser()
    text = parser._subparsers._group_actions[0].choices[name].epilog.replace("\\\n", " ")
    for line in re.findall(rf"^  (?:\w+=\w+ )?crbm-fast ({name}\b.*)", text, re.MULTILINE):
        parser.parse_args(re.split(r"  +(?=[a-zA-Z])(?!.*--)", line)[0].split())


def test_info(capsys):
    assert run("info") == 0
    assert "instruction set" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"crbm_fast {cf.__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [([], "the following arguments are required: COMMAND"), (["nonsense"], "invalid choice: 'nonsense'")],
)
def test_bad_command_lines(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_warnings_are_one_line(data, monkeypatch, capsys):
    def train(*args, **kw):
        cf.train.__globals__["check"].warn("something to know", cf.ConvergenceWarning)
        return cf.train(*args, **kw)

    monkeypatch.setattr(command, "train", train)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # here they are errors, for users they are not
        assert run("train", data, "--out", data.with_name("m.npz"), "--epochs", 1) == 0
    assert capsys.readouterr().err.startswith("crbm-fast train: warning: something to know\nmle epoch 1: ")


def test_a_pipe_that_is_closed(data):
    """crbm-fast ... | head: no traceback."""
    code = "import sys; from crbm_fast import _cli; sys.exit(_cli.main())"
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-c", code, "info"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT / "tests",
        timeout=120,
    )
    os.close(write)
    assert process.stderr == ""
    assert process.returncode == 141


# --- train ----------------------------------------------------------------------------------------------------------


def load(path):
    with np.load(path) as archive:
        return archive["X"], archive["V"]


def test_train_and_predict_are_the_package(data, capsys):
    """To the bit: every option reaches the function."""
    out, checkpoint = data.with_name("model.npz"), data.with_name("run.npz")
    assert (
        run(
            "train",
            data,
            "--out",
            out,
            "--learner",
            "mssvm",
            "--hidden",
            4,
            "--epochs",
            3,
            "--batch-size",
            7,
            "--learning-rate",
            0.02,
            "--schedule",
            "cosine",
            "--weight-decay",
            0.01,
            "--start",
            "logistic",
            "--centering",
            "all",
            "--averaging",
            0.9,
            "--validation",
            0.2,
            "--patience",
            2,
            "--seed",
            5,
            "--dtype",
            "float64",
            "--threads",
            1,
            "--checkpoint",
            checkpoint,
        )
        == 0
    )
    X, V = load(data)
    model = cf.CRBM(6, 4, 5, seed=5, dtype="float64")
    history = cf.train(
        model,
        X,
        V,
        "mssvm",
        epochs=3,
        batch_size=7,
        learning_rate=0.02,
        schedule="cosine",
        weight_decay=0.01,
        start="logistic",
        centering="all",
        averaging=0.9,
        validation=0.2,
        patience=2,
        seed=5,
    )
    theirs = cf.CRBM.load(out)
    assert theirs.inference == model.inference
    assert theirs.dtype == np.float64
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(theirs.parameters()[name], p)
    printed, told = capsys.readouterr()
    assert [line[:60] for line in printed.splitlines()[:-1]] == [line[:60] for line in str(history).splitlines()]
    assert printed.splitlines()[-1] == f"wrote {out}: CRBM(nv=6, nh=4, nx=5, dtype=float64)"
    assert "mssvm epoch 3: training error" in told
    assert checkpoint.is_file()

    for name, more, want in (
        ("v.npz", [], model.predict(X)),
        ("v.npy", ["--threads", 1], model.predict(X)),
        ("p.npz", ["--proba"], model.predict_proba(X)),
        (
            "p.npy",
            ["--proba", "--method", "tap", "--max-iter", 3, "--tol", 0, "--damping", 0.5],
            model.predict_proba(X, method="tap", max_iter=3, tol=0, damping=0.5),
        ),
    ):
        assert run("predict", out, data, "--out", data.with_name(name), *more) == 0
        found = np.load(data.with_name(name), allow_pickle=False)
        if name.endswith("z"):
            with found as archive:
                assert archive.files == ["proba" if "--proba" in more else "V"]
                found = archive[archive.files[0]]
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)
        error = f"{100 * np.mean((want > 0.5) != V):.3f} % of the outputs wrong, on 60 instances of 6\n"
        assert capsys.readouterr().out.endswith(error)


def test_defaults_are_those_of_the_function():
    """And the help says so."""
    parser = _cli._parser()._subparsers._group_actions[0].choices["train"]
    given = vars(parser.parse_args(["data.npz", "--out", "m.npz"]))
    for name, parameter in inspect.signature(cf.train).parameters.items():
        if name in given and name != "resume":  # goes on unless told otherwise
            assert given[name] == parameter.default, name
    assert f"of Adam (default {cf.optimizers.Adam().learning_rate:g})" in parser.format_help()


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

        return real(*args, **kw, callbacks=[stop])

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
        (["--out", "m.npz", "--patience", "2"], "--patience needs --validation FRACTION"),
        (["--out", "m.npz", "--validation", "0.001"], "--validation 0.001 of 60 instances leaves no instance on"),
        (["--out", "m.npz", "--validation", "1"], "argument --validation: '1' is not a number above 0 and below 1"),
        (["--out", "m.npz", "--averaging", "1"], "argument --averaging: '1' is not a number of at least 0 and below 1"),
        (["--out", "m.npz", "--learning-rate", "0"], "argument --learning-rate: '0' is not a number above 0"),
        (["--out", "m.npz", "--learning-rate", "fast"], "argument --learning-rate: 'fast' is not a number above 0"),
        (["--out", "m.npz", "--weight-decay", "nan"], "argument --weight-decay: 'nan' is not a number of at least 0"),
        (["--out", "m.npz", "--hidden", "-3"], "argument --hidden: '-3' is not a non-negative integer"),
        (["--out", "m.npz", "--batch-size", "0"], "argument --batch-size: '0' is not a positive integer"),
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


class Trap:
    """What unpickling would run."""

    def __reduce__(self):
        return exit, ("the file has run code",)


ONES = np.ones((4, 3))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": ONES}, "has no V, the outputs to learn; make it with numpy.savez(FILE, X=X, V=V)"),
        ({"x": ONES, "y": ONES}, "has neither X (features) nor V (outputs), it has x, y; make it with"),
        ({}, "it is empty"),
        ({"V": np.array([[Trap()]], dtype=object)}, "it holds Python objects, which may run code; make it with"),
        ({"V": np.array([["a"]])}, "V has dtype <U1; expected real numbers"),
        ({"V": np.ones((2, 2), complex)}, "V has dtype complex128; expected real numbers"),
        ({"V": np.ones(3)}, "V has shape (3,); expected (instances, columns)"),
        ({"V": np.ones((0, 3))}, "V has shape (0, 3); expected (instances, columns), none of them 0"),
        ({"X": np.ones((4, 0)), "V": ONES}, "X has shape (4, 0); expected"),
        ({"X": np.ones((5, 2)), "V": ONES}, "X has 5 and V has 4 rows; expected an instance in each row of both"),
        ({"V": ONES * 2}, "V[0, 0] = 2.0; expected 0 or 1"),
        ({"X": ONES * np.nan, "V": ONES}, "X[0, 0] = nan; expected finite; remove or impute it"),
    ],
)
def test_bad_data(arrays, message, tmp_path, capsys):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    assert message in fails(capsys, "train", path, "--out", tmp_path / "m.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("contents", [b"", b"X,V\n1,0\n", b"PK\x03\x04 and no more", b"\x80\x04N."])
def test_files_that_are_no_npz(contents, tmp_path, capsys):
    path = tmp_path / "data.npz"
    path.write_bytes(contents)
    assert f"{path} is not an .npz of plain arrays, or is damaged: " in fails(
        capsys, "train", path, "--out", tmp_path / "m.npz"
    )


def test_other_files(tmp_path, data, model, capsys):
    out = ["--out", tmp_path / "o.npz"]
    np.save(tmp_path / "v.npy", ONES)
    assert "v.npy holds one array without a name; make it with" in fails(capsys, "train", tmp_path / "v.npy", *out)
    assert f"{tmp_path / 'no.npz'}: No such file or directory" in fails(capsys, "train", tmp_path / "no.npz", *out)
    assert f"{tmp_path}: Is a directory" in fails(capsys, "train", tmp_path, *out)
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    assert "or is damaged" in fails(capsys, "train", data, *out)


# --- predict --------------------------------------------------------------------------------------------------------


def test_predict_without_v_or_out(data, model, capsys):
    X, _ = load(data)
    np.savez(data.with_name("x.npz"), X=X)
    assert run("predict", model, data) == 0
    assert re.fullmatch(r"\d+\.\d{3} % of the outputs wrong, on 60 instances of 6\n", capsys.readouterr().out)
    assert run("predict", model, data.with_name("x.npz"), "--out", data.with_name("o.npy")) == 0
    assert capsys.readouterr().out == f"wrote {data.with_name('o.npy')}: outputs (60, 6), uint8\n"
    assert "nothing to do: name a file for the outputs, --out FILE; " in fails(
        capsys, "predict", model, data.with_name("x.npz")
    )
    assert "o.npy exists; name another file, or add --force" in fails(
        capsys, "predict", model, data, "--out", data.with_name("o.npy")
    )
    assert run("predict", model, data, "--out", data.with_name("o.npy"), "--force") == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["model.npz", "data.npz", "--out", "o.csv"], "--out o.csv ends neither in .npz nor in .npy"),
        (["model.npz", "data.npz", "--out", "nowhere/o.npy"], "--out nowhere/o.npy cannot be written"),
        (["model.npz", "data.npz", "--out", "model.npz", "--force"], "--out model.npz is also MODEL"),
        (["model.npz", "data.npz", "--out", "data.npz", "--force"], "--out data.npz is also DATA"),
        (["no.npz", "data.npz"], "no.npz: No such file or directory"),
        (["data.npz", "data.npz"], "data.npz is not a file of crbm_fast, or is damaged"),
        (["model.npz", "model.npz"], "model.npz has neither X (features) nor V (outputs), it has meta, W_vh"),
        (["model.npz", "wide.npz"], "wide.npz: X has 7 columns; model.npz has 5"),
        (["model.npz", "v.npz"], "v.npz has no X, the features; make it with numpy.savez(FILE, X=X)"),
        (["model.npz", "nan.npz"], "X[0, 0] = nan; expected finite"),
        (["model.npz", "data.npz", "--method", "bp"], "argument --method: invalid choice: 'bp'"),
        (["model.npz", "data.npz", "--max-iter", "0"], "argument --max-iter: '0' is not a positive integer"),
        (["model.npz", "data.npz", "--damping", "1"], "argument --damping: '1' is not a number of at least 0 and"),
    ],
)
def test_mistakes_of_predict(argv, message, data, model, monkeypatch, capsys):
    monkeypatch.chdir(data.parent)
    np.savez("wide.npz", X=np.ones((2, 7)))
    np.savez("v.npz", V=np.ones((2, 6)))
    np.savez("nan.npz", X=np.full((2, 5), np.nan), V=np.ones((2, 6)))
    before = {path.name: path.read_bytes() for path in data.parent.iterdir()}
    assert message in fails(capsys, "predict", *argv)
    assert {path.name: path.read_bytes() for path in data.parent.iterdir()} == before


# --- documents ------------------------------------------------------------------------------------------------------


def test_the_first_command_of_the_readme():
    """It installs extras that exist, and runs a command that exists."""
    text = (ROOT / "README.md").read_text()
    first = re.search(r"```\n(.*?)\n```", text, re.DOTALL)[1]
    extras, name = re.fullmatch(r'pip install "\.\[([a-z,]+)\]" && crbm-fast (\w+)', first).groups()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert name == "demo"
    assert project["scripts"] == {"crbm-fast": "crbm_fast._cli:main"}


def test_commands_in_the_readme_parse():
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^(?:pip install .* && )?crbm-fast (.*)$", text, re.MULTILINE)
    assert {line.split()[0] for line in lines} == set(COMMANDS) - {"info"}
    for line in lines:
        _cli._parser().parse_args(line.split("  ")[0].split())


def test_pictures_of_the_readme_are_there():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert "docs/demo.png" in pictures
    for path in pictures:
        assert (ROOT / path).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / "docs" / "demo.png").stat().st_size < 60_000
