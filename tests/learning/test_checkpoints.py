"""Checkpoints: a run that is resumed, killed or refused ends with the same bits, or not at all."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import ROOT
from helpers.learning import ALL_OF_IT, assert_same_parameters, denoising, fit

import crbm_fast as cf
from crbm_fast import _files
from crbm_fast._errors import CorruptedFileError, FileVersionError, OtherRunError
from crbm_fast.learners import CD, PCD
from crbm_fast.optimizers import SGD
from crbm_fast.training.options import fields


@pytest.mark.parametrize("learner", ["mle", "cd", PCD(k=2), "percloss"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("more", [{}, {"centering": "all"}, {"averaging": 0.99}, ALL_OF_IT])
def test_resuming_gives_the_same_bits(tmp_path, learner, optimizer, more):
    kw = {"optimizer": optimizer, "validation": 0.2, "seed": 4, "start": "logistic", **more}
    whole, history = fit(learner, epochs=6, **kw)
    path = tmp_path / "run.npz"
    fit(learner, epochs=2, checkpoint=path, **kw)
    fit(learner, epochs=4, checkpoint=path, resume=True, **kw)
    resumed, resumed_history = fit(learner, epochs=6, checkpoint=path, resume=True, **kw)
    assert_same_parameters(whole, resumed)
    assert resumed.inference == whole.inference
    for name in ("epoch", "train_error", "valid_error", "gradient_norm", "weight_norm"):
        assert resumed_history.column(name) == history.column(name)
    assert resumed_history.best_epoch == history.best_epoch
    again, _ = fit(learner, epochs=6, checkpoint=path, resume=True, **kw)  # nothing left to do
    assert_same_parameters(whole, again)
    assert os.listdir(tmp_path) == ["run.npz"]


def test_resume_without_a_file_starts(tmp_path):
    a, _ = fit(checkpoint=tmp_path / "run.npz", resume=True)
    b, _ = fit()
    assert_same_parameters(a, b)


def test_without_resume_a_checkpoint_is_overwritten(tmp_path):
    path = tmp_path / "run.npz"
    fit(epochs=5, seed=1, checkpoint=path)
    a, history = fit(epochs=2, seed=2, checkpoint=path)
    assert len(history) == 2
    b, _ = fit(epochs=2, seed=2)
    assert_same_parameters(a, b)


@pytest.mark.parametrize(
    ("change", "argument", "before", "now"),
    [
        ({"seed": 5}, "seed", 0, 5),
        ({"batch_size": 16}, "batch_size", 32, 16),
        ({"learner": CD(k=2)}, "learner", None, None),
        ({"learning_rate": 0.5}, "optimizer", None, None),
        ({"optimizer": "sgd"}, "optimizer", None, None),
        ({"schedule": "linear"}, "schedule", "constant", "linear"),
        ({"schedule": lambda epoch, epochs: 1.0}, "schedule", "constant", "callable"),
        ({"weight_decay": 0.1}, "weight_decay", 0.0, 0.1),
        ({"start": "logistic"}, "start", None, "logistic"),
        ({"nh": 9}, "model", None, None),
        ({"data": denoising(seed=8)}, "data", None, None),
        ({"centering": "all"}, "centering", None, "all"),
        ({"averaging": 0.9}, "averaging", None, 0.9),
        ({"rates": {"W_vx": 0.1}}, "rates", None, {"W_vx": 0.1}),
        ({"validation": 0.2}, "validation", None, None),
        ({"validation": denoising(50)}, "validation", None, None),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change, argument, before, now):
    path = tmp_path / "run.npz"
    fit(checkpoint=path)
    contents = path.read_bytes()
    with pytest.raises(OtherRunError, match=f"{argument} was .*resume=False") as error:
        fit(**{"learner": "mle", **change}, checkpoint=path, resume=True)
    assert (error.value.path, error.value.argument) == (str(path), argument)
    if (before, now) != (None, None):  # None: the values are descriptions
        assert (error.value.before, error.value.now) == (before, now)
    assert path.read_bytes() == contents


def test_the_table_above_covers_every_option():
    """Those that must stay the same; a new option has to say which it is."""
    table = test_a_checkpoint_of_another_run_is_refused.pytestmark[0].args[1]
    same = {name for name, field in fields().items() if field.metadata["same_in_resumed_run"]}
    assert same <= {name for change, *_ in table for name in change}
    assert any(row[2:] != (None, None) for row in table)
    assert set(fields()) - same == {"epochs", "patience", "checkpoint", "resume", "callbacks", "progress"}


def test_what_may_differ_in_a_resumed_run(tmp_path):
    path, kw = tmp_path / "run.npz", {"validation": 0.2}
    whole, _ = fit(epochs=6, **kw)
    fit(epochs=2, checkpoint=path, **kw)
    moved = tmp_path / "moved.npz"
    path.rename(moved)
    seen = []
    more = {"patience": 100, "progress": False, "callbacks": [lambda e, m: seen.append(e.epoch)], "n_threads": 2}
    resumed, _ = fit(epochs=6, checkpoint=moved, resume=True, **kw, **more)
    assert_same_parameters(whole, resumed)
    assert seen == [3, 4, 5, 6]


def test_a_checkpoint_of_an_earlier_version_says_what_to_do(tmp_path):
    """Version 1 named its learners otherwise."""
    path = tmp_path / "run.npz"
    _files.write(path, "crbm_fast checkpoint", {"config": {}, "epoch": 0}, {"parameter.b_v": np.zeros(3)}, version=1)
    with pytest.raises(
        FileVersionError, match=r"the crbm_fast that began it, or start anew with resume=False"
    ) as error:
        fit(checkpoint=path, resume=True)
    assert (error.value.version, error.value.readable) == (1, 2)
    fit(checkpoint=path, epochs=1)  # as the message says
    fit(checkpoint=path, epochs=2, resume=True)
    _files.write(path, "crbm_fast checkpoint", {}, {}, version=3)
    with pytest.raises(FileVersionError, match="upgrade crbm_fast"):
        fit(checkpoint=path, resume=True)


KILLED = """
import sys, numpy as np
sys.path.insert(0, sys.argv[1])
from helpers.learning import denoising, fit
model, history = fit(sys.argv[2], data=denoising(2000), epochs=12, checkpoint=sys.argv[3], resume=True, validation=0.1,
                     optimizer="adam", batch_size=20, **eval(sys.argv[5]))
model.save(sys.argv[4])
"""


@pytest.mark.parametrize(("learner", "more"), [("mle", {}), ("pcd", {}), ("mle", ALL_OF_IT)])
def test_a_killed_run_resumes_to_the_same_bits(tmp_path, learner, more):
    """SIGKILL at odd moments, again and again, until a run survives."""
    whole, _ = fit(learner, data=denoising(2000), epochs=12, validation=0.1, optimizer="adam", batch_size=20, **more)
    checkpoint, result = tmp_path / "run.npz", tmp_path / "model.npz"
    command = [sys.executable, "-c", KILLED, os.fspath(ROOT / "tests"), learner, checkpoint, result, repr(more)]
    kills, rng = 0, np.random.default_rng(len(learner))
    while kills < 4:
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": ""}, cwd=tmp_path)
        mark = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        while process.poll() is None:  # until a checkpoint of its own is there
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != mark:
                break
            time.sleep(0.001)
        time.sleep(rng.choice([0, 0.003, 0.02, 0.1]) * rng.uniform())
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
        kills += 1
    assert kills >= 1
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": ""}, cwd=tmp_path)
    assert_same_parameters(whole, cf.CRBM.load(result))


def test_a_damaged_checkpoint_is_refused_and_the_model_left_alone(tmp_path):
    path, more = tmp_path / "run.npz", {"centering": "all", "averaging": 0.9, "validation": 0.2}
    fit(checkpoint=path, **more)
    with np.load(path) as file:
        good = dict(file)
    meta = json.loads(good["meta"].tobytes())

    def refused(change, **meta_change):
        arrays = {name: a for name, a in (good | change).items() if a is not None}
        text = json.dumps(meta | meta_change).encode()
        np.savez(path, **arrays | {"meta": np.frombuffer(text, np.uint8)})
        X, V = denoising()
        model = cf.CRBM(12, 8, 12, scale=0.1)
        before = model.copy()
        with pytest.raises(CorruptedFileError) as error:
            cf.train(model, X, V, epochs=6, batch_size=32, learning_rate=0.02, checkpoint=path, resume=True, **more)
        assert error.value.path == str(path)
        assert_same_parameters(model, before)

    refused({"best.W_vh": np.full((1, 1), np.nan, np.float32)})
    refused({"best.W_vh": None})
    refused({"optimizer.mean.b_v": None})
    refused({"optimizer.mean.b_v": np.zeros(3, np.float32)})
    refused({"parameter.b_h": np.full(8, np.inf, np.float32)})
    refused({"parameter.b_h": np.zeros(8)})
    refused({"iterate.W_vh": None})
    refused({"centering.b_v": np.full(12, np.nan, np.float32)})
    refused({"centering.mean_x": None})
    refused({}, best_epoch=77)
    refused({}, best_epoch=0)
    refused({}, identity=None)
    refused({}, steps=-1)
    refused({}, history="soon")
    refused({}, steps=None)


def test_numbers_of_numpy_can_be_kept(tmp_path):
    path = tmp_path / "run.npz"
    learner = CD(k=np.int64(2), inference=cf.Inference("mean-field", np.int32(4), np.float32(0.5)))
    model, _ = fit(
        learner,
        epochs=np.int64(2),
        checkpoint=path,
        optimizer=SGD(momentum=np.float64(0.5)),
        learning_rate=np.float32(0.25),
        weight_decay=np.float32(0),
        seed=np.uint8(3),
    )
    model.save(tmp_path / "model.npz")
    assert cf.CRBM.load(tmp_path / "model.npz").inference == model.inference


def test_an_exception_in_a_callback_loses_nothing(tmp_path):
    path = tmp_path / "run.npz"

    def fail(epoch, model):
        if epoch.epoch == 3:
            raise RuntimeError("the disk is full of cats")

    with pytest.raises(RuntimeError, match="cats"):
        fit(epochs=6, checkpoint=path, callbacks=[fail])
    resumed, history = fit(epochs=6, checkpoint=path, resume=True)
    whole, _ = fit(epochs=6)
    assert len(history) == 6
    assert_same_parameters(whole, resumed)
