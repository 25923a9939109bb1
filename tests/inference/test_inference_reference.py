"""The engine equals the paper (crbm_fast/_reference.py), at any T, on every instruction set, in both precisions."""

import numpy as np
import pytest
from helpers import ROOT, make_rbm

import crbm_fast as cf
from crbm_fast import _reference

METHODS = ["sum-product", "mixed-product", "max-product", "mixed-ascent", "max-ascent", "mean-field", "tap", "bethe"]
# around the vector widths (4, 8, 16), the row blocks (4), the groups (64) and the cache-set padding (1024)
SHAPES = [
    (1, 1),
    (1, 7),
    (7, 1),
    (2, 3),
    (3, 2),
    (4, 16),
    (5, 15),
    (15, 17),
    (16, 8),
    (17, 33),
    (31, 5),
    (32, 32),
    (33, 31),
    (63, 6),
    (64, 65),
    (65, 16),
    (9, 130),
    (130, 9),
    (36, 1024),
]
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


def coupling(method, nv, nh):
    """Weights at which an iteration does not amplify rounding: max-product is a contraction only for weak ones."""
    return 0.2 / np.sqrt(nv + nh) if method == "max-product" else None


def assert_beliefs(got, want, tol, method=None):
    tol *= (
        100 if method == "bethe" else 1
    )  # whose steps see the rounding error of T, a sum of differences: 1e-10 at T = 1
    for name in ("tau_v", "tau_h", "gamma"):
        np.testing.assert_allclose(getattr(got, name), want[name], rtol=0, atol=tol, err_msg=name)
    np.testing.assert_allclose(got.log_z, want["log_z"], rtol=tol, atol=tol)


@pytest.mark.parametrize("T", [1, 2, 10, 50])
@pytest.mark.parametrize("method", METHODS)
def test_equals_the_paper(method, T, isa, dtype, rng):
    for nv, nh in SHAPES:
        W, b1, b2 = make_rbm(rng, nv, nh, scale=coupling(method, nv, nh))
        want = _reference.run(method, W.astype(dtype), b1.astype(dtype), b2.astype(dtype), T)
        got = cf.infer(W, b1, b2, method=method, max_iter=T, tol=0, gamma=True, log_z=True, dtype=dtype)
        assert got.n_iter == T
        assert got.tau_v.dtype == got.gamma.dtype == dtype
        assert_beliefs(got, want, TOLERANCE[dtype.name], method)


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("method", ["mean-field", "tap"])
def test_equals_the_reference_from_the_visible_biases(method, T, isa, dtype, rng):
    for nv, nh in SHAPES:
        W, b1, b2 = make_rbm(rng, nv, nh)
        want = _reference.run(method, *(a.astype(dtype) for a in (W, b1, b2)), T, init="visible")
        kw = {"method": method, "max_iter": T, "tol": 0, "gamma": True, "log_z": True, "dtype": dtype}
        assert_beliefs(cf.infer(W, b1, b2, init="visible", **kw), want, TOLERANCE[dtype.name])


@pytest.mark.parametrize("method", METHODS)
def test_equals_the_paper_at_its_size(method, isa, dtype, rng):
    """784x256, the model of the experiments."""
    W, b1, b2 = make_rbm(rng, 784, 256, scale=coupling(method, 784, 256) or 0.02)
    for T in (1, 10):
        want = _reference.run(method, W.astype(dtype), b1.astype(dtype), b2.astype(dtype), T)
        got = cf.infer(W, b1, b2, method=method, max_iter=T, tol=0, gamma=True, log_z=True, dtype=dtype)
        assert_beliefs(got, want, TOLERANCE[dtype.name], method)


@pytest.mark.parametrize("method", METHODS)
def test_batch_equals_the_paper_instance_by_instance(method, isa, dtype, rng):
    W, b1, b2 = make_rbm(rng, 37, 21, N=11)
    kw = {"method": method, "max_iter": 6, "tol": 0, "dtype": dtype}
    each = cf.infer(W, b1, b2, gamma=True, log_z=True, **kw)
    total = cf.infer(W, b1, b2, gamma="sum", **kw)
    assert each.gamma.shape == (11, 37, 21)
    assert each.n_iter.tolist() == [6] * 11
    gammas = np.zeros((37, 21))
    for n in range(11):
        want = _reference.run(method, W.astype(dtype), b1[n].astype(dtype), b2[n].astype(dtype), 6)
        one = cf.Beliefs(each.tau_v[n], each.tau_h[n], 6, False, 0.0, gamma=each.gamma[n], log_z=each.log_z[n])
        assert_beliefs(one, want, TOLERANCE[dtype.name], method)
        gammas += want["gamma"]
    np.testing.assert_allclose(total.gamma, gammas, rtol=0, atol=11 * TOLERANCE[dtype.name])
    np.testing.assert_array_equal(total.tau_v, each.tau_v)


@pytest.mark.parametrize("method", [m for m in METHODS if cf.inference.METHODS[m].damped])
@pytest.mark.parametrize("T", [1, 3, 20])
def test_damping_equals_the_damped_paper(method, T, isa, dtype, rng):
    """Beliefs at any T; Gamma and log Z, where the damped message is not its sender's, at the fixed point."""
    for nv, nh in [(1, 7), (15, 17), (33, 31)]:
        W, b1, b2 = make_rbm(rng, nv, nh, scale=coupling(method, nv, nh))
        want = _reference.run(method, W.astype(dtype), b1.astype(dtype), b2.astype(dtype), T, damping=0.4)
        got = cf.infer(W, b1, b2, method=method, max_iter=T, tol=0, damping=0.4, dtype=dtype)
        np.testing.assert_allclose(got.tau_v, want["tau_v"], atol=TOLERANCE[dtype.name])
        np.testing.assert_allclose(got.tau_h, want["tau_h"], atol=TOLERANCE[dtype.name])
    want = _reference.run(method, W.astype(dtype), b1.astype(dtype), b2.astype(dtype), 400, damping=0.4)
    got = cf.infer(W, b1, b2, method=method, max_iter=400, tol=0, damping=0.4, gamma=True, log_z=True, dtype=dtype)
    assert_beliefs(got, want, TOLERANCE[dtype.name])


def test_gamma_of_an_instance_stopped_by_tol_is_within_the_residual(isa, dtype, rng):
    for _ in range(20):
        W, b1, b2 = make_rbm(rng, 40, 30)
        got = cf.infer(W, b1, b2, tol=1e-3, gamma=True, dtype=dtype)
        want = _reference.run("sum-product", W.astype(dtype), b1.astype(dtype), b2.astype(dtype), got.n_iter)
        np.testing.assert_allclose(got.tau_v, want["tau_v"], atol=TOLERANCE[dtype.name])
        np.testing.assert_allclose(got.gamma, want["gamma"], rtol=0, atol=got.residual + TOLERANCE[dtype.name])


def test_agrees_with_libdai(isa):
    """libDAI 0.3's fixed point, see tests/data/README.md."""
    with np.load(ROOT / "tests/data/libdai_30x50.npz") as problem:
        got = cf.infer(problem["W"], problem["b1"], problem["b2"], tol=1e-14, max_iter=1000, gamma=True)
        for name in ("tau_v", "tau_h", "gamma"):
            np.testing.assert_allclose(getattr(got, name), problem[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["sum-product", "mixed-product"])
def test_log_domain_equals_the_product_form(method, isa, dtype, rng):
    """One weight past the limit sends the whole model to the log-domain kernels; a dead unit carries it here."""
    limit = {"float32": 20, "float64": 150}[dtype.name]
    W, b1, b2 = make_rbm(rng, 15, 17)
    W = np.vstack([W, np.full(17, limit * 1.01)])
    b1 = np.append(b1, -1e4)
    W[-1, 1:] = 0
    for T in (1, 2, 10):
        want = _reference.run(method, W[:-1].astype(dtype), b1[:-1].astype(dtype), b2.astype(dtype), T)
        got = cf.infer(W, b1, b2, method=method, max_iter=T, tol=0, gamma=True, log_z=True, dtype=dtype)
        assert got.tau_v[-1] == 0
        assert not got.gamma[-1].any()
        got.tau_v, got.gamma = got.tau_v[:-1], got.gamma[:-1]
        assert_beliefs(got, want, TOLERANCE[dtype.name])


@pytest.mark.parametrize("T", [1, 2, 3, 10])
@pytest.mark.parametrize("damping", [0, 0.4])
def test_gamma_of_mixed_product_is_eq_18(rng, isa, dtype, T, damping):
    """Also before convergence, for sums over a batch, and where threads share rows; not the outer product v tau_h'."""
    W, b1, b2 = make_rbm(rng, 70, 21, N=5)
    want = [_reference.run("mixed-product", W, *b, T, damping)["gamma"] for b in zip(b1, b2, strict=True)]
    kw = {"method": "mixed-product", "max_iter": T, "tol": 0, "damping": damping, "dtype": dtype}
    atol = 2e-5 if dtype == np.float32 else 1e-12
    each = cf.infer(W, b1, b2, gamma=True, **kw)
    np.testing.assert_allclose(each.gamma, want, atol=atol)
    np.testing.assert_allclose(cf.infer(W, b1, b2, gamma="sum", **kw).gamma, np.sum(want, axis=0), atol=5 * atol)
    v = each.tau_v > 0.5
    assert np.abs(each.gamma - v[:, :, None] * each.tau_h[:, None]).max() > 0.01
    np.testing.assert_allclose(each.moments_at_prediction(), v.T @ each.tau_h, rtol=1e-6)


def test_gamma_of_mixed_product_at_extremes(rng, dtype):
    """Pairwise beliefs stay in [0, 1] for saturated and clamped units and weights of 1e30."""
    for scale in (30, 1e3, 1e30):
        W, b1, b2 = rng.uniform(-1, 1, (9, 8)) * scale, rng.normal(0, 100, (4, 9)), rng.normal(0, 100, (4, 8))
        mask, values = rng.random((4, 9)) < 0.5, rng.random((4, 9)) < 0.5
        b = cf.infer(W, b1, b2, method="mixed-product", gamma=True, evidence=(mask, values), dtype=dtype)
        assert ((b.gamma >= 0) & (b.gamma <= 1)).all()
        on, off = mask & values, mask & ~values
        np.testing.assert_allclose(b.gamma[on], np.broadcast_to(b.tau_h[:, None], b.gamma.shape)[on], atol=1e-5)
        assert (b.gamma[off] == 0).all()
