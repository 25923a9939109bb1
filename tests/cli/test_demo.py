"""`crbm-fast demo`: its numbers are those of the package, its picture shows them, every mistake gets one line."""

import re
import sys

import numpy as np
import pytest

import crbm_fast as cf
from crbm_fast import datasets
from crbm_fast.cli import demo, main, picture

SIZES = {"train": 60, "validation": 50, "test": 40}


def small(patch, nh=8, sizes=SIZES):
    """The demo with few digits and hidden units."""
    digits = {part: V[: sizes[part]] for part, V in demo.load_digits().items()}
    patch.setattr(demo, "load_digits", lambda: digits)
    patch.setattr(demo, "N_HIDDEN", nh)


@pytest.fixture
def smallest(monkeypatch):
    small(monkeypatch, 2, {"train": 20, "validation": 10, "test": 10})


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The demo with one thread and with two: folder, stdout and stderr."""
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        patch.chdir(out)
        texts = []
        for more in (["--threads", "1"], ["--out", "again.png", "--threads", "2"]):
            with pytest.MonkeyPatch.context() as capture:
                streams = {"stdout": [], "stderr": []}
                for name, parts in streams.items():
                    capture.setattr(f"sys.{name}", _Text(parts))
                assert main(["demo", "--epochs", "2", *more]) == 0
                texts.append({name: "".join(parts) for name, parts in streams.items()})
    return out, texts


class _Text:
    def __init__(self, parts):
        self.write = parts.append

    def flush(self):
        pass

    def isatty(self):
        return False


def rows(table):
    """{method: the numbers of its line} of what the demo prints."""
    lines = [(name, line) for line in table.splitlines() for name in demo.COMPARED if line.startswith(name)]
    return {name: [float(cell) for cell in line.removeprefix(name).split()] for name, line in lines}


def test_the_demo_prints_the_errors_of_three_methods(shown):
    _, (first, _) = shown
    found = rows(first["stdout"])
    assert list(found) == list(demo.COMPARED)
    assert {len(cells) for cells in found.values()} == {5}
    assert "Wrong pixels of 40 test digits, % (learned from 60):" in first["stdout"]
    assert re.search(r"Noisy \(10 %\) +Occluded \(8x8\)\n +All  Changed +All  Changed +seconds\n", first["stdout"])
    lines = first["stdout"].splitlines()
    assert len({len(line) for line in lines[3:7]}) == 1  # aligned
    # a line for each training
    lines = r"6 trainings, 1 at a time\n\[1/6\] noisy, CRBM, belief propagation: \d+\.\d\d % of the validation pixels"
    assert re.match(lines, first["stderr"])
    assert len(first["stderr"].splitlines()) == 7


def test_the_demo_is_deterministic(shown):
    """But for the seconds; the picture to the byte.  With one thread or two."""
    folder, (first, second) = shown
    once, again = (rows(text["stdout"]) for text in (first, second))
    assert [cells[:-1] for cells in once.values()] == [cells[:-1] for cells in again.values()]
    assert (folder / "crbm-fast-demo.png").read_bytes() == (folder / "again.png").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["again.png", "crbm-fast-demo.png"]


def test_the_errors_are_those_of_the_package(shown):
    """The same by hand: digits, occlude, train, predict."""
    _, (first, _) = shown
    digits = datasets.load_digits()
    V = {part: getattr(digits, part)[:n] for part, n in SIZES.items()}
    seeds = {"train": 1, "validation": 2, "test": 3}
    X = {part: datasets.occlude(images, 8, value=0, seed=seeds[part])[0] for part, images in V.items()}
    model = cf.CRBM(784, 8, 784, scale=0.05)
    model.W_hx = model.W_vh.T + 0.01 / 0.05 * model.W_hx
    cf.train(
        model,
        X["train"],
        V["train"],
        "mle",
        epochs=2,
        batch_size=20,
        learning_rate=0.03,
        weight_decay=0.001,
        schedule="linear",
        start="logistic",
        centering="features",
        averaging=0.995,
        validation=(X["validation"], V["validation"]),
    )
    predicted = model.predict(X["test"])
    errors = datasets.error_all(V["test"], predicted), datasets.error_changed(V["test"], predicted, X["test"])
    assert rows(first["stdout"])["CRBM, belief propagation"][2:4] == [round(100 * error, 2) for error in errors]


def test_the_picture_has_five_rows_of_digits(shown):
    """Originals, noisy, restored, occluded, completed: where they are the same images, they look the same."""
    from matplotlib.image import imread

    folder, _ = shown
    assert (folder / "crbm-fast-demo.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(folder / "crbm-fast-demo.png")
    height, width, tops, lefts = picture.grid(5, demo.N_SHOWN)
    assert pixels.shape[:2] == (height, width)
    at = 3 * np.arange(28) + 1
    y, x = (tops[:, None] + at)[:, None, :, None], (lefts[:, None] + at)[None, :, None, :]
    seen = pixels[y, x, :3].mean(axis=-1) > 0.5  # (5, images, 28, 28)
    clean = datasets.load_digits().test[: demo.N_SHOWN]
    noisy = datasets.flip(clean, 0.1, seed=3)
    occluded, missing = datasets.occlude(clean, 8, value=0, seed=3)
    for row, images in ((0, clean), (1, noisy), (3, occluded)):
        np.testing.assert_array_equal(seen[row].reshape(-1, 784), images)
    for row in (2, 4):
        assert (seen[row].reshape(-1, 784) != clean).mean() < 0.2
    colour = pixels[y, x, :3][3].reshape(-1, 784, 3)
    np.testing.assert_allclose(colour[missing], np.broadcast_to(picture.MISSING / 255, (missing.sum(), 3)), atol=1e-6)


def test_without_matplotlib(tmp_path, smallest, monkeypatch, capsys):
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    assert main(["demo", "--epochs", "1", "--out", str(tmp_path / "a.png")]) == 0
    out, err = capsys.readouterr()
    assert "there will be no picture; the picture needs matplotlib: pip install" in err
    assert len(rows(out)) == 3
    assert not list(tmp_path.iterdir())


def test_a_bar_in_a_terminal(tmp_path, smallest, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["demo", "--epochs", "1", "--threads", "1", "--out", str(tmp_path / "a.png")]) == 0
    err = capsys.readouterr().err
    assert "[6/6] occluded, logistic regression: " in err
    assert " 83%|" in err


def test_a_training_that_diverges(tmp_path, smallest, monkeypatch, capsys):
    wild = demo.Task("noisy", "10 %", "restored", {"learning_rate": 1e9, "weight_decay": 0.0, "start": None})
    monkeypatch.setattr(demo, "TASKS", (wild, demo.TASKS[1]))
    assert main(["demo", "--epochs", "1", "--threads", "1", "--out", str(tmp_path / "a.png")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"^\[1/6\] noisy, CRBM, belief propagation: diverged$", err, re.MULTILINE)
    assert re.search(r"^crbm-fast demo: error: training diverged in epoch 1", err, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_interrupted(tmp_path, smallest, monkeypatch, capsys):
    """The trainings under way end with their epoch, the others do not begin."""

    def begin(*args, **keywords):
        begun.append(1)
        return train(*args, **{**keywords, "epochs": 100_000})

    def interrupt(futures):
        raise KeyboardInterrupt

    begun, train = [], demo.train
    monkeypatch.setattr(demo, "train", begin)
    monkeypatch.setattr(demo, "as_completed", interrupt)
    assert main(["demo", "--threads", "2", "--out", str(tmp_path / "a.png")]) == 130
    assert capsys.readouterr().err.endswith("\ncrbm-fast demo: interrupted\n")
    assert len(begun) <= 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--out", "a.pdf"], "--out a.pdf does not end in .png, the format of the picture"),
        (["--out", "nowhere/a.png"], "--out nowhere/a.png cannot be written: there is no folder"),
        (["--epochs", "0"], "argument --epochs: '0' is not a positive integer (see crbm-fast demo --help)"),
        (["--seed", "-1"], "argument --seed: '-1' is not a non-negative integer"),
    ],
)
def test_mistakes(argv, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "learn", None)  # nothing is trained
    try:
        code = main(["demo", *argv])
    except SystemExit as stop:  # argparse
        code = stop.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("crbm-fast demo: error: ")
    assert message in err
