"""Against the truth: enumeration, trees, bounds, consistency."""

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf
from crbm_fast import _reference

TREES = [(1, 1), (1, 9), (9, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize("shape", [*TREES, (3, 4), (5, 3), (2, 8), (8, 2)])
def test_exact_is_enumeration(shape, isa, rng):
    W, b1, b2 = make_rbm(rng, *shape, scale=1.5, bias=2)
    want = _reference.exact(W, b1, b2)
    for gamma in (True, "sum"):
        got = cf.infer(W, b1, b2, method="exact", gamma=gamma, log_z=True)
        for name in ("tau_v", "tau_h", "gamma"):
            np.testing.assert_allclose(getattr(got, name), want[name], atol=1e-13)
        assert got.log_z == pytest.approx(want["log_z"], abs=1e-12)
        assert got.converged
        assert got.residual == got.n_iter == 0


@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_exact_in_several_blocks(shape, rng):
    """More than 2^10 states, so that high bits, rescaling and both orientations are used."""
    W, b1, b2 = make_rbm(rng, *shape, scale=1, bias=3)
    got = cf.infer(W, b1, b2, method="exact", gamma=True, log_z=True)
    A, a, b = (W, b1, b2) if shape[0] == 12 else (W.T, b2, b1)
    states = (np.arange(2**12)[:, None] >> np.arange(12) & 1).astype(float)
    theta = states @ A + b
    log_w = states @ a + np.logaddexp(0, theta).sum(1)
    log_z = np.logaddexp.reduce(log_w)
    w = np.exp(log_w - log_z)
    p = 1 / (1 + np.exp(-theta))
    first, second, pairs = w @ states, w @ p, (states * w[:, None]).T @ p
    if shape[0] == 30:
        first, second, pairs = second, first, pairs.T
    np.testing.assert_allclose(got.tau_v, first, atol=1e-12)
    np.testing.assert_allclose(got.tau_h, second, atol=1e-12)
    np.testing.assert_allclose(got.gamma, pairs, atol=1e-12)
    assert got.log_z == pytest.approx(log_z, abs=1e-11)


def test_exact_refuses_what_it_cannot_enumerate():
    with pytest.raises(ValueError, match=r"at most 25 units; this model has 26 free visible and 27 hidden"):
        cf.infer(np.zeros((26, 27)), np.zeros(26), np.zeros(27), method="exact")


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("scale", [0.5, 3, 40])
def test_sum_product_is_exact_on_trees(shape, scale, isa, dtype, rng):
    """One hidden or one visible unit; scale 40 goes past exp's comfortable range in float32."""
    for _ in range(5):
        W, b1, b2 = make_rbm(rng, *shape, scale=scale, bias=scale)
        W, b1, b2 = W.astype(dtype), b1.astype(dtype), b2.astype(dtype)
        want = _reference.exact(*(a.astype(float) for a in (W, b1, b2)))
        got = cf.infer(W, b1, b2, max_iter=3, tol=0, gamma=True, log_z=True)
        tol = 1e-5 * max(1, scale / 8) if dtype == np.float32 else 1e-12
        for name in ("tau_v", "tau_h", "gamma"):
            np.testing.assert_allclose(getattr(got, name), want[name], atol=tol)
        assert got.log_z == pytest.approx(want["log_z"], abs=tol, rel=1e-6 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("shape", TREES)
def test_max_and_mixed_product_find_the_maximum_on_trees(shape, isa, rng):
    """Max-product always; mixed-product where one visible unit is maximised or the hidden sum is one unit's."""
    for _ in range(20):
        W, b1, b2 = make_rbm(rng, *shape, scale=2)
        value, v, _h = _reference.joint_map(W, b1, b2)
        got = cf.infer(W, b1, b2, method="max-product", max_iter=4, tol=0, log_z=True)
        np.testing.assert_array_equal(got.tau_v > 0.5, v)
        assert got.log_z == pytest.approx(value, abs=1e-12)
        value, v = _reference.marginal_map(W, b1, b2)
        got = cf.infer(W, b1, b2, method="mixed-product", max_iter=20, tol=0, log_z=True)
        assert got.log_z <= value + 1e-12
        if shape[0] == 1:
            np.testing.assert_array_equal(got.tau_v > 0.5, v)
            assert got.log_z == pytest.approx(value, abs=1e-12)


def test_close_to_enumeration_on_small_loopy_models(rng):
    """Weak coupling: BP within 1 %, better than mean field; log Z likewise."""
    errors = {"sum-product": [], "mean-field": [], "tap": []}
    gaps = {"sum-product": [], "mean-field": [], "tap": []}
    for _ in range(20):
        W, b1, b2 = make_rbm(rng, 8, 6, scale=0.5)
        truth = cf.infer(W, b1, b2, method="exact", log_z=True)
        for method in errors:
            got = cf.infer(W, b1, b2, method=method, tol=1e-10, max_iter=500, log_z=True)
            errors[method].append(np.abs(got.tau_v - truth.tau_v).max())
            gaps[method].append(abs(got.log_z - truth.log_z))
    assert np.max(errors["sum-product"]) < 0.01
    assert np.mean(errors["sum-product"]) < 0.3 * np.mean(errors["mean-field"])
    assert np.mean(errors["tap"]) < 0.5 * np.mean(errors["mean-field"])
    assert np.mean(gaps["sum-product"]) < 0.3 * np.mean(gaps["mean-field"])


def test_mean_field_bounds_log_z_from_below(isa, dtype, rng):
    for _ in range(20):
        W, b1, b2 = make_rbm(rng, 7, 5, scale=1.5)
        truth = cf.infer(W, b1, b2, method="exact", log_z=True)
        for T in (1, 2, 30):
            for damping in (0, 0.5):
                got = cf.infer(
                    W, b1, b2, method="mean-field", max_iter=T, tol=0, damping=damping, log_z=True, dtype=dtype
                )
                assert got.log_z <= truth.log_z + 1e-5


def test_pairwise_tables_sum_to_the_beliefs_at_convergence(isa, dtype, rng):
    W, b1, b2 = make_rbm(rng, 20, 13)
    got = cf.infer(W, b1, b2, tol=0, max_iter=200, gamma=True, dtype=dtype)
    t11 = got.gamma.astype(float)
    t10 = got.tau_v[:, None] - t11
    t01 = got.tau_h - t11
    t00 = 1 - t11 - t10 - t01
    tol = 1e-5 if dtype == np.float32 else 1e-12
    assert min(t.min() for t in (t11, t10, t01, t00)) > -tol
    # the conditional tables that the pairwise belief implies: odds ratio exp(W)
    np.testing.assert_allclose(t11 * t00 / (t10 * t01), np.exp(W), rtol=500 * tol)


def test_zero_weights_leave_the_biases(isa, dtype, rng):
    W, b1, b2 = make_rbm(rng, 6, 9, scale=0)
    for method in ("sum-product", "mixed-product", "max-product", "mean-field", "tap"):
        got = cf.infer(W, b1, b2, method=method, dtype=dtype, gamma=True)
        np.testing.assert_allclose(got.tau_v, 1 / (1 + np.exp(-b1)), rtol=1e-6)
        np.testing.assert_allclose(got.tau_h, 1 / (1 + np.exp(-b2)), rtol=1e-6)
        assert got.converged
        assert got.n_iter <= 2
        if method == "sum-product":
            np.testing.assert_allclose(got.gamma, np.outer(got.tau_v, got.tau_h), rtol=1e-5)


def test_bethe_log_z_is_stationary(isa, rng):
    """Its error at a tolerance is second order: far below the residual, also with damping and saturated units."""
    for scale in (0.3, 1, 30):
        for damping in (0, 0.5):
            compared = 0
            for _ in range(10):
                W, b1, b2 = make_rbm(rng, 12, 9, scale=scale, bias=max(1, scale), N=1)
                rough = cf.infer(W, b1, b2, damping=damping, log_z=True, max_iter=200)
                fine = cf.infer(W, b1, b2, damping=damping, log_z=True, tol=1e-13, max_iter=2000)
                if rough.converged[0] and fine.converged[0]:
                    compared += 1
                    assert abs(rough.log_z[0] - fine.log_z[0]) < 2e-5 * max(1, scale)
            assert compared > 0, (scale, damping)


def test_gradient_of_log_z_is_the_beliefs(rng):
    """d log Z / dW = Gamma, / db_v = tau_v, / db_h = tau_h at a fixed point, by central differences."""
    W, b1, b2 = make_rbm(rng, 4, 3, scale=0.8)
    for method in ("sum-product", "mean-field", "tap", "exact"):
        kw = {"method": method, "tol": 0, "max_iter": 500, "log_z": True}
        b = cf.infer(W, b1, b2, gamma=True, **kw)
        for x, gradient in ((W, b.gamma), (b1, b.tau_v), (b2, b.tau_h)):
            for index in np.ndindex(x.shape):
                values = []
                for step in (1e-5, -1e-5):
                    before = x[index]
                    x[index] = before + step
                    values.append(cf.infer(W, b1, b2, **kw).log_z)
                    x[index] = before
                assert (values[0] - values[1]) / 2e-5 == pytest.approx(gradient[index], abs=1e-8), method
