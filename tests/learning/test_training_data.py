"""What train() learns from: memory layouts, sparse matrices and maps give the same bits; bad data are refused."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from helpers.learning import assert_same_parameters, denoising, fit

import crbm_fast as cf
from crbm_fast.learners import CD


def test_memory_maps_and_dtypes_give_the_same_bits(tmp_path):
    X, V = denoising()
    want, _ = fit()
    for kind in ("bool", "int64", "float32", "float64"):
        got, _ = fit(data=(X.astype(kind), V.astype(kind)))
        assert_same_parameters(want, got)
    maps = []
    for name, array in (("X", X), ("V", V)):
        np.save(tmp_path / f"{name}.npy", array)
        maps.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    got, _ = fit(data=tuple(maps), checkpoint=tmp_path / "run.npz")
    assert_same_parameters(want, got)
    resumed, _ = fit(checkpoint=tmp_path / "run.npz", resume=True)  # the same contents, another layout
    assert_same_parameters(want, resumed)
    got, _ = fit(data=(np.asfortranarray(X), np.repeat(V, 2, axis=1)[:, ::2]))
    assert_same_parameters(want, got)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_features(make):
    X, V = denoising()
    dense, _ = fit(dtype="float64")
    sparse, _ = fit(dtype="float64", data=(make(X.astype(float)), V))
    for name, p in dense.parameters().items():
        np.testing.assert_allclose(sparse.parameters()[name], p, atol=1e-9, err_msg=name)


def test_memory_does_not_grow_with_the_data():
    """The peak of what is allocated while training on 20,000 and on 100,000 rows, checks and evaluation included."""
    peaks = []
    for N in (20_000, 100_000):
        V = np.zeros((N, 64), np.uint8)
        V[:, ::3] = 1
        model = cf.CRBM(64, 8, 64, n_threads=1)
        tracemalloc.start()
        cf.train(
            model,
            V,
            V,
            CD(inference=cf.Inference("mean-field", max_iter=1)),
            epochs=1,
            batch_size=500,
            validation=0.1,
            centering="all",
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 100_000  # a byte per entry would be 5 MB, an index 640,000 bytes


# --- errors -------------------------------------------------------------------------------------------------------


def spoiled(array, value, dtype=float):
    out = array.astype(dtype)
    out[7, 3] = value
    return out


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (lambda X, V: (X, spoiled(V, 2)), ValueError, r"V\[7, 3\] = 2.0; expected 0 or 1"),
        (lambda X, V: (X, spoiled(V, np.nan)), ValueError, r"V\[7, 3\] = nan; expected 0 or 1"),
        (lambda X, V: (X, spoiled(V, -1, int)), ValueError, r"V\[7, 3\] = -1; expected 0 or 1"),
        (lambda X, V: (X, spoiled(V, 0.5)), ValueError, r"V\[7, 3\] = 0.5"),
        (lambda X, V: (spoiled(X, np.nan), V), ValueError, r"X\[7, 3\] = nan; expected finite; remove or impute"),
        (lambda X, V: (spoiled(X, np.inf), V), ValueError, r"X\[7, 3\] = inf; expected finite"),
        (lambda X, V: (spoiled(X, 1e200), V), ValueError, r"X\[7, 3\] = 1e\+200; expected at most 1e\+30 in float32"),
        (lambda X, V: (scipy.sparse.csr_array(spoiled(X, np.nan)), V), ValueError, r"X\[7, 3\] = nan"),
        (lambda X, V: (X[:-1], V), ValueError, "X has 299 instances; expected 300"),
        (lambda X, V: (X[:, :-1], V), ValueError, r"X has shape \(300, 11\); expected \(N, 12\)"),
        (lambda X, V: (X, V[:, 0]), ValueError, r"V has shape \(300,\)"),
        (lambda X, V: (X[:0], V[:0]), ValueError, "V has no rows"),
        (lambda X, V: (None, V), ValueError, "X is missing"),
        (lambda X, V: (X, scipy.sparse.csr_array(V)), TypeError, "V is a sparse matrix"),
    ],
)
def test_bad_data_is_refused_before_any_training(tmp_path, data, kind, message):
    model = cf.CRBM(12, 8, 12)
    before = model.copy()
    path = tmp_path / "run.npz"
    for valid in (False, True):
        X, V = denoising()
        bad = data(X, V)
        given = (X, V, bad) if valid else (*bad, None)
        with pytest.raises(kind, match=f"^{'validation ' if valid else ''}{message}"):
            cf.train(model, given[0], given[1], validation=given[2], checkpoint=path)
    assert_same_parameters(model, before)
    assert not path.exists()


def test_a_read_only_model_is_refused():
    X, V = denoising()
    model = cf.CRBM(12, 8, 12)
    model.W_hx.flags.writeable = False
    with pytest.raises(ValueError, match=r"model has a read-only W_hx .*; train model\.copy\(\)"):
        cf.train(model, X, V)
    cf.train(model.copy(), X, V, epochs=1)


def test_a_run_that_cannot_start_leaves_the_model_alone(tmp_path):
    X, V = denoising()
    model = cf.CRBM(12, 8, 12)
    before = model.copy()
    for kw in ({"learner": "logistic"}, {"start": "logistic"}):
        with pytest.raises(FileNotFoundError):
            cf.train(model, X, V, checkpoint=tmp_path / "none" / "run.npz", **kw)
    (tmp_path / "run.npz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="damaged"):
        cf.train(model, X, V, "logistic", checkpoint=tmp_path / "run.npz", resume=True)
    assert_same_parameters(model, before)


def test_a_model_is_needed():
    with pytest.raises(TypeError, match="model is int; expected CRBM or RBM"):
        cf.train(3, *denoising())
