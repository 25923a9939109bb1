"""Extremes and arbitrary input: always finite, always right, never a warning."""

import numpy as np
import pytest
from helpers import make_rbm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log1p

import crbm_fast as cf
from crbm_fast import _reference
from crbm_fast.inference import METHODS

ITERATIVE = ["sum-product", "mixed-product", "max-product", "mixed-ascent", "max-ascent", "mean-field", "tap", "bethe"]


def log_domain_sum_product(W, b1, b2, T):
    """Sum-product BP in logs: right for any weights, where the paper's M reaches 0 and 1."""

    def message(W, x):  # softplus(W + x) - softplus(x)
        hinge = np.where(W > 0, np.clip(W + x, 0, W), np.clip(-x, W, 0))
        return hinge + log1p(np.exp(-np.abs(W + x))) - log1p(np.exp(-np.abs(x)))

    mu, theta_h = np.zeros_like(W), b2
    for _ in range(T):
        lam = message(W, theta_h - mu)
        theta_v = b1 + lam.sum(1)
        g = theta_v[:, None] - lam
        mu = message(W, g)
        theta_h = b2 + mu.sum(0)
    return {"tau_v": expit(theta_v), "tau_h": expit(theta_h), "gamma": expit(theta_h) * expit(W + g)}


def assert_sane(b, method):
    assert np.isfinite(b.gamma).all()
    for tau in (b.tau_v, b.tau_h, *([] if method == "tap" else [b.gamma])):  # TAP's is an expansion in W
        assert np.isfinite(tau).all()
        assert (tau >= 0).all()
        assert (tau <= 1).all()
    assert np.isfinite(b.log_z).all()
    assert np.isfinite(b.residual).all()


@pytest.mark.parametrize("weight", [1e-30, 5, 19.9, 20.1, 50, 149, 151, 1000, 1e30])
@pytest.mark.parametrize("bias", [0, 1, 1000, 1e30])
@pytest.mark.parametrize("method", ITERATIVE)
def test_extreme_weights_and_biases_stay_finite(method, weight, bias, isa, dtype, rng):
    for shape in [(5, 6), (6, 5), (33, 17)]:
        W = rng.choice([-weight, 0, weight, weight / 3], shape)
        b1, b2 = rng.choice([-bias, 0, bias], (2, shape[0])), rng.choice([-bias, 0, bias], (2, shape[1]))
        for damping in (0, 0.5) if METHODS[method].damped else (0,):
            for T in (1, 7):
                b = cf.infer(
                    W, b1, b2, method=method, max_iter=T, tol=0, damping=damping, gamma=True, log_z=True, dtype=dtype
                )
                assert_sane(b, method)


@pytest.mark.parametrize("weight", [0.5, 5, 19, 21, 50, 300])
@pytest.mark.parametrize("bias", [1, 30, 1000])
def test_extreme_weights_are_right(weight, bias, isa, dtype, rng):
    """Strong weights against the log-domain form, for a few iterations (later ones amplify rounding)."""
    for shape in [(1, 5), (5, 1), (4, 3), (17, 9)]:
        W = (weight * rng.uniform(-1, 1, shape)).astype(dtype)
        b1, b2 = (bias * rng.uniform(-1, 1, n).astype(dtype) for n in shape)
        for T in (1, 2):
            want = log_domain_sum_product(*(a.astype(float) for a in (W, b1, b2)), T)
            got = cf.infer(W, b1, b2, max_iter=T, tol=0, gamma=True)
            tol = 1e-9 if dtype == np.float64 else 1e-6 * max(weight, bias, 10)
            for name, value in want.items():
                np.testing.assert_allclose(getattr(got, name), value, rtol=0, atol=tol, err_msg=name)


def test_negative_weights_lose_no_accuracy_in_float32(isa, rng):
    """A saturated unit behind a strong negative weight: keeping the cavity probability instead of the message
    would lose exp(|W|) ulp here."""
    W = np.full((8, 1), -12, np.float32)
    b1 = np.full(8, 12, np.float32)
    b2 = np.full(1, 90.5, np.float32)
    want = log_domain_sum_product(*(a.astype(float) for a in (W, b1, b2)), 3)
    got = cf.infer(W, b1, b2, max_iter=3, tol=0, gamma=True)
    assert 0.01 < want["tau_h"][0] < 0.99
    np.testing.assert_allclose(got.tau_h, want["tau_h"], rtol=3e-6)
    np.testing.assert_allclose(got.tau_v, want["tau_v"], rtol=3e-6)
    np.testing.assert_allclose(got.gamma, want["gamma"], rtol=3e-6)


@pytest.mark.parametrize("damping", [0, 0.5])
def test_mixed_product_in_the_log_domain_is_damped_too(damping, isa, dtype, rng):
    """Found by an attack: beyond the product form's limit the damped field was not used."""
    scale = {"float32": 60, "float64": 400}[dtype.name]
    for _ in range(10):
        W = (scale * rng.uniform(-1, 1, (6, 5))).astype(dtype)
        b1, b2 = (scale * rng.normal(size=n).astype(dtype) for n in (6, 5))
        theta_h, v, field = b2.astype(float), np.zeros(6), None
        for _ in range(3):
            r = theta_h - W * v[:, None]
            new = (np.logaddexp(0, W + r) - np.logaddexp(0, r)).sum(1)
            field = new if field is None else (1 - damping) * new + damping * field
            theta_v = b1 + field
            v = (theta_v > 0).astype(float)
            theta_h = b2 + v @ W
        got = cf.infer(W, b1, b2, method="mixed-product", damping=damping, max_iter=3, tol=0)
        np.testing.assert_allclose(got.tau_v, expit(theta_v), atol=1e-3 if dtype == np.float32 else 1e-9)
        np.testing.assert_allclose(got.tau_h, expit(theta_h), atol=1e-3 if dtype == np.float32 else 1e-9)


def test_tap_with_weights_whose_square_overflows(dtype):
    """Found by an attack: inf times 0 became the probability 1."""
    w = {"float32": 2e19, "float64": 1e160}[dtype.name]
    b = cf.infer(np.full((2, 2), w), [-3 * w] * 2, [-3 * w] * 2, method="tap", log_z=True, dtype=dtype)
    assert b.tau_v.tolist() == b.tau_h.tolist() == [0, 0]
    assert b.log_z == 0


@pytest.mark.parametrize("method", [*ITERATIVE, "exact"])
def test_the_largest_input_gives_finite_results(method, dtype):
    big = {"float32": 1e30, "float64": 1e300}[dtype.name]
    for sign in (-1, 1):
        b = cf.infer(
            np.full((3, 20), sign * big),
            [big, -big, 0],
            np.full(20, big),
            method=method,
            gamma=True,
            log_z=True,
            dtype=dtype,
            tol=0,
        )
        assert_sane(b, method)


def test_saturated_units_are_exactly_saturated(isa, dtype):
    W = np.array([[0.5, -0.5], [1, 2]])
    for method in ITERATIVE:
        b = cf.infer(W, [1000, -1000], [0, 1000], method=method, gamma=True, dtype=dtype)
        assert b.tau_v.tolist() == [1, 0]
        assert b.tau_h[1] == 1
        assert b.tau_h[0] == pytest.approx(expit(0.5), abs=1e-6)
        assert b.gamma[1].tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("N", [None, 0, 2])
def test_empty_models(shape, N, isa):
    batch = () if N is None else (N,)
    model = np.zeros(shape), np.ones((*batch, shape[0])), np.ones((*batch, shape[1]))
    for method in [*ITERATIVE, "exact"]:
        b = cf.infer(*model, method=method, gamma=True, log_z=True)
        np.testing.assert_allclose(b.tau_v, expit(1))
        np.testing.assert_allclose(b.tau_h, expit(1))
        assert b.gamma.shape == (*batch, *shape)
        if method in ("sum-product", "mean-field", "tap", "exact"):
            np.testing.assert_allclose(b.log_z, sum(shape) * np.logaddexp(0, 1))
        assert cf.infer(*model, method=method, gamma="sum").gamma.shape == shape


@st.composite
def problems(draw):
    """Shapes, scales, precisions, memory layouts."""
    nv, nh, N = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(1, 5))
    weight, bias = draw(st.sampled_from([0, 1e-6, 0.1, 0.5])), draw(st.sampled_from([0, 0.1, 2, 300]))
    dtype = np.dtype(draw(st.sampled_from(["float32", "float64"])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    W, b1, b2 = make_rbm(rng, nv, nh, weight, bias, N)

    def lay(a):
        a = a.astype(dtype)
        how = draw(st.sampled_from(["C", "F", "strided", "reversed", "frozen"]))
        if how == "F":
            return np.asfortranarray(a)
        if how == "strided":
            return np.repeat(a, 2, axis=1)[:, ::2]
        if how == "reversed":
            return a[:, ::-1].copy()[:, ::-1]
        a.flags.writeable = how != "frozen"
        return a

    return lay(W), lay(b1), lay(b2), draw(st.integers(1, 12)), draw(st.integers(1, 3))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problem=problems(), method=st.sampled_from(["sum-product", "mixed-product", "mean-field", "tap"]))
def test_any_problem_equals_the_paper(problem, method):
    W, b1, b2, T, threads = problem
    got = cf.infer(W, b1, b2, method=method, max_iter=T, tol=0, gamma=True, log_z=True, n_threads=threads)
    assert_sane(got, method)
    tol = 1e-9 if W.dtype == np.float64 else 3e-4
    for n in range(len(b1)):
        with np.errstate(divide="ignore"):  # log(M / (1 - M)) of saturated messages in the reference
            want = _reference.run(method, W, b1[n], b2[n], T)
        # a mixed-product unit at the tie may decode either way in another precision
        if method == "mixed-product" and np.abs(want["tau_v"] - 0.5).min() < 1e-4:
            continue
        np.testing.assert_allclose(got.tau_v[n], want["tau_v"], rtol=0, atol=tol)
        np.testing.assert_allclose(got.tau_h[n], want["tau_h"], rtol=0, atol=tol)
