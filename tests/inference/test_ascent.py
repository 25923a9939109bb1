"""Coordinate ascent, "mixed-ascent" and "max-ascent": where it ends.

What a sweep does is in test_inference_reference.py.
"""

import itertools

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf
from crbm_fast import _reference

ASCENTS = {"mixed-ascent": "mixed-product", "max-ascent": "max-product"}


def value(method, W, b1, b2, v):
    """log sum_h exp(-E(v, h)) or max_h -E(v, h) of states v (..., nv)."""
    theta_h = b2 + v @ W
    return v @ b1 + (np.logaddexp(0, theta_h) if method.startswith("mixed") else np.maximum(0, theta_h)).sum(-1)


def best_flip(method, W, b1, b2, v):
    """What the best single flip of v gains."""
    flipped = np.abs(v - np.eye(len(v)))
    return value(method, W, b1, b2, flipped).max() - value(method, W, b1, b2, v)


@pytest.mark.parametrize("method", ASCENTS)
@pytest.mark.parametrize("scale", [0.3, 3, 60])
def test_no_flip_improves_the_end(method, scale, isa, dtype, rng):
    """From anywhere; nor do several sizes of batch or another start keep it from an end."""
    W, b1, b2 = make_rbm(rng, 45, 21, scale=scale, N=30)
    W, b1, b2 = (np.asarray(a, dtype) for a in (W, b1 - W.sum(1) / 2, b2 - W.sum(0) / 2))
    start = rng.random((30, 66)) < 0.5
    tol = 1e-3 * scale if dtype == np.float32 else 1e-9
    for init in (None, start.astype(dtype)):
        b = cf.infer(W, b1, b2, method=method, tol=tol, max_iter=500, init=init, log_z=True)
        assert b.converged.all()
        assert (b.residual <= tol).all()
        v = (b.tau_v > 0.5).astype(float)
        double = [a.astype(float) for a in (W, b1, b2)]
        for n in range(30):
            one = (double[0], double[1][n], double[2][n])
            assert best_flip(method, *one, v[n]) <= 2 * tol
            np.testing.assert_allclose(b.log_z[n], value(method, *one, v[n]), rtol=1e-5)
        # these models are hard: the BP that seeks the same goes to and fro on some of them
        if scale > 1:
            assert not cf.infer(W, b1, b2, method=ASCENTS[method], max_iter=200).converged.all()


@pytest.mark.parametrize("method", ASCENTS)
def test_each_sweep_raises_the_value(method, rng):
    W, b1, b2 = make_rbm(rng, 60, 30, scale=2, N=10)
    b1, b2 = b1 - W.sum(1) / 2, b2 - W.sum(0) / 2
    values = [
        cf.infer(W, b1, b2, method=method, tol=0, max_iter=T, log_z=True, init=np.ones((10, 90))).log_z
        for T in range(1, 8)
    ]
    assert (np.diff(values, axis=0) >= -1e-9).all()
    assert (np.diff(values, axis=0) > 0.1).any()


def test_the_end_is_a_fixed_point_of_mixed_product(isa, dtype, rng):
    """Beliefs, Gamma and log Z are those of mixed-product, which stays where the ascent ended."""
    W, b1, b2 = make_rbm(rng, 50, 20, scale=1.5, N=20)
    b1, b2 = b1 - W.sum(1) / 2, b2 - W.sum(0) / 2
    kw = {"gamma": True, "log_z": True, "messages": True, "dtype": dtype}
    end = cf.infer(W, b1, b2, method="mixed-ascent", tol=1e-6, max_iter=500, **kw)
    stay = cf.infer(W, b1, b2, method="mixed-product", tol=1e-3, max_iter=2, init=end, **kw)
    assert stay.converged.all()
    atol = 1e-4 if dtype == np.float32 else 1e-10
    for name in ("tau_v", "tau_h", "gamma", "log_z", "messages"):
        np.testing.assert_allclose(getattr(end, name), getattr(stay, name), rtol=1e-6, atol=atol, err_msg=name)


@pytest.mark.parametrize("method", ASCENTS)
def test_the_best_end_is_the_best_state(method, rng):
    """By enumeration: never above it, and from all starts of a small model, there."""
    for _ in range(10):
        W, b1, b2 = make_rbm(rng, 7, 4, scale=2)
        starts = np.array(list(itertools.product([0.0, 1.0], repeat=7)))
        init = np.concatenate((starts, np.full((128, 4), 0.5)), axis=1)
        ends = cf.infer(W, np.tile(b1, (128, 1)), b2, method=method, tol=1e-9, init=init, log_z=True)
        best = (_reference.marginal_map if method.startswith("mixed") else _reference.joint_map)(W, b1, b2)
        assert ends.log_z.max() == pytest.approx(best[0], abs=1e-12)
        at = ends.log_z.argmax()
        np.testing.assert_array_equal(ends.tau_v[at] > 0.5, best[-2 if len(best) == 3 else -1])
        assert (ends.log_z >= value(method, W, b1, b2, starts) - 1e-12).all()


@pytest.mark.parametrize("method", ASCENTS)
def test_tol_is_what_a_flip_must_gain(method):
    """A flip that gains 0.05 is made at tol = 0.01, not at 0.1, where the belief still says what the state is."""
    for b1, start in ((0.05, 0.0), (-0.05, 1.0)):
        init = np.array([start, 0.5])
        few, more = (cf.infer([[0.0]], [b1], [0.0], method=method, tol=tol, init=init) for tol in (0.1, 0.01))
        assert few.converged
        assert few.residual == pytest.approx(0.05)
        assert (few.tau_v > 0.5) == start
        assert more.converged
        assert (more.tau_v > 0.5) == 1 - start


@pytest.mark.parametrize("method", ASCENTS)
def test_ties_have_an_end(method, isa, dtype):
    """Many units whose flips gain nothing, but for rounding: no unit may turn to and fro without end."""
    rng = np.random.default_rng(3)
    W = rng.choice([-0.1, 0.1, 0.3], (64, 40)).astype(dtype)
    W[1::2] = W[::2]  # pairs of equal units
    b1, b2 = np.tile(-W.sum(1) / 2, (20, 1)), rng.choice([-0.1, 0, 0.1], (20, 40)).astype(dtype)
    b = cf.infer(W, b1, b2, method=method, tol=1e-3, max_iter=300)
    assert b.converged.all()


@pytest.mark.parametrize("method", ASCENTS.values())
def test_as_a_fallback(method, isa, dtype, rng):
    """What has converged does not notice; the rest is what ascent makes of it, sums of Gamma included."""
    fallback = {bp: ascent for ascent, bp in ASCENTS.items()}[method]
    W, b1, b2 = make_rbm(rng, 40, 16, scale=0.5, N=60)
    b1, b2 = b1 - W.sum(1) / 2, b2 - W.sum(0) / 2
    kw = {"method": method, "max_iter": 20, "log_z": True, "dtype": dtype}
    plain, each = (cf.infer(W, b1, b2, gamma=True, fallback=f, **kw) for f in (None, fallback))
    total = cf.infer(W, b1, b2, gamma="sum", fallback=fallback, **kw)
    rest = np.flatnonzero(~plain.converged)
    assert 0 < len(rest) < 60
    np.testing.assert_array_equal(each.fell_back, ~plain.converged)
    assert plain.fell_back is None
    assert each.converged.all()
    assert (each.n_iter[rest] > 20).all()
    state = np.concatenate((plain.tau_v, plain.tau_h), axis=1)[rest]
    end = cf.infer(
        W, b1[rest], b2[rest], **kw | {"method": fallback, "max_iter": 200}, gamma=True, init=state, fallback=None
    )
    for name in ("tau_v", "tau_h", "gamma", "log_z"):
        want = getattr(plain, name).copy()
        want[rest] = getattr(end, name)
        np.testing.assert_allclose(getattr(each, name), want, rtol=1e-6, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(total.gamma, each.gamma.sum(0), atol=60 * 1e-6)
    assert (end.log_z >= plain.log_z[rest] - 1e-3).all()
    # a fallback is asked for by the name that is the method's
    other = cf.infer(W, b1, b2, fallback="bethe", **kw)
    np.testing.assert_array_equal(other.tau_v, plain.tau_v)
    with pytest.raises(ValueError, match="fallback='tap' is not one of: None, 'bethe', 'mixed-ascent', 'max-ascent'"):
        cf.infer(W, b1, b2, fallback="tap", **kw)
    with pytest.raises(ValueError, match="fallback='bethe' is for method='sum-product'"):
        cf.Inference(method, fallback="bethe")
