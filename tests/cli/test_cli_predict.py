"""crbm-fast predict: outputs, probabilities, errors, mistakes in one line."""

import re

import numpy as np
import pytest
from helpers.cli import fails, load, run

import crbm_fast as cf


@pytest.mark.parametrize(
    ("name", "flags", "method", "options"),
    [
        ("v.npz", [], "predict", {}),
        ("v.npy", ["--threads", 1], "predict", {}),
        ("p.npz", ["--proba"], "predict_proba", {}),
        (
            "p.npy",
            ["--proba", "--method", "tap", "--max-iter", 3, "--tol", 0, "--damping", 0.5],
            "predict_proba",
            {"method": "tap", "max_iter": 3, "tol": 0, "damping": 0.5},
        ),
    ],
)
def test_predict_is_the_method(data, model, capsys, name, flags, method, options):
    X, V = load(data)
    want = getattr(cf.CRBM.load(model), method)(X, **options)
    assert run("predict", model, data, "--out", data.with_name(name), *flags) == 0
    found = np.load(data.with_name(name), allow_pickle=False)
    arrays = {"": found} if name.endswith("y") else dict(found)
    assert list(arrays) == [{"v.npz": "V", "p.npz": "proba"}.get(name, "")]
    for array in arrays.values():
        assert array.dtype == want.dtype
        np.testing.assert_array_equal(array, want)
    error = f"{100 * np.mean((want > 0.5) != V):.3f} % of the outputs wrong, on 60 instances of 6\n"
    assert capsys.readouterr().out.endswith(error)


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
        (["model.npz", "data.npz", "--max-iter", "0"], "--max-iter 0 is outside [1, "),
        (["model.npz", "data.npz", "--damping", "1"], "--damping 1 is outside [0, 1)"),
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
