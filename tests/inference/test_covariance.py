"""Covariances by linear response: against enumeration, finite differences, the plain equations, and extremes."""

import importlib
import warnings

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf
from crbm_fast import _reference

module = importlib.import_module("crbm_fast.inference.covariance")  # the package has the function by this name

EVERY = {"visible": slice(None), "hidden": slice(None)}


def beliefs_at(W, b1, b2, **keywords):
    return cf.infer(W, b1, b2, **{"max_iter": 20000, "tol": 1e-14, "dtype": "float64"} | keywords)


def whole(cov):
    """The covariance matrix of all units, from covariances of EVERY unit."""
    return np.block([[cov.v_v, cov.v_h], [cov.h_v, cov.h_h]])


# --- the truth ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("scale", [0.5, 3, 10, 30])
def test_exact_on_trees(shape, scale, rng):
    for _ in range(5):
        W, b1, b2 = make_rbm(rng, *shape, scale=scale, bias=scale)
        want = _reference.exact_covariance(W, b1, b2)
        for consistent in (False, True):  # on a tree the variances are tau (1 - tau) already
            got = cf.covariance(W, b1, b2, consistent=consistent, **EVERY)
            np.testing.assert_allclose(whole(got), want, atol=1e-9)
            assert got.converged
            assert got.minimum


def test_the_error_falls_with_the_coupling(rng):
    """And the truth it is compared with is not small: without the response, the error is larger."""
    errors, direct = [], []
    for scale in (0.8, 0.4, 0.2, 0.1):
        W, b1, b2 = make_rbm(np.random.default_rng(3), 7, 5, scale=scale)
        want = _reference.exact_covariance(W, b1, b2)
        got = whole(cf.covariance(W, b1, b2, **EVERY))
        errors.append(np.abs(got - want).max())
        b = beliefs_at(W, b1, b2, gamma=True)
        direct.append(np.abs(b.gamma - np.outer(b.tau_v, b.tau_h) - want[:7, 7:]).max())
        np.testing.assert_allclose(got, want, atol=0.1 * scale**2)
    assert (np.array(errors[1:]) < np.array(errors[:-1]) / 4).all()
    assert errors[-1] < 1e-6
    assert (np.array(errors) < np.array(direct)).all()  # nearer than the pairwise beliefs themselves


def test_consistent_variances_are_those_of_the_beliefs_and_nearer_to_the_truth(rng):
    ratios = []
    for _ in range(20):
        W = rng.normal(0, 0.5, (9, 6))
        b1, b2 = rng.normal(0, 0.5, 9) - W.sum(1) / 2, rng.normal(0, 0.5, 6) - W.sum(0) / 2
        truth = _reference.exact_covariance(W, b1, b2)
        plain, consistent = (cf.covariance(W, b1, b2, consistent=c, **EVERY) for c in (False, True))
        b = beliefs_at(W, b1, b2)
        tau = np.concatenate([b.tau_v, b.tau_h])
        np.testing.assert_allclose(np.diagonal(whole(consistent)), tau * (1 - tau), rtol=1e-9)
        assert np.abs(np.diagonal(whole(plain)) - tau * (1 - tau)).max() > 1e-4  # linear response does not give these
        off = ~np.eye(15, dtype=bool)
        a, c = (np.abs(whole(cov) - truth)[off].mean() for cov in (plain, consistent))
        ratios.append(c / a)
    assert np.mean(ratios) < 0.9


# --- what it is the derivative of ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 4), (3, 6), (1, 4)])
@pytest.mark.parametrize("scale", [0.3, 1, 2])
def test_it_is_the_derivative_of_converged_beliefs(shape, scale, rng):
    W, b1, b2 = make_rbm(rng, *shape, scale=scale)
    got = whole(cf.covariance(W, b1, b2, beliefs=beliefs_at(W, b1, b2), **EVERY))
    step = 1e-3 * np.eye(sum(shape))
    slopes = []
    for d in (step, -step, 2 * step, -2 * step):
        near = beliefs_at(W, b1 + d[:, : shape[0]], b2 + d[:, shape[0] :])
        assert near.converged.all()
        slopes.append(np.concatenate([near.tau_v, near.tau_h], axis=1))
    up, down, up2, down2 = slopes
    np.testing.assert_allclose(got, (8 * (up - down) - (up2 - down2)) / 12e-3, atol=3e-10)


@pytest.mark.parametrize("shape", [(5, 4), (4, 7), (1, 3), (6, 1), (4, 4)])
@pytest.mark.parametrize("scale", [0.3, 2, 6])
@pytest.mark.parametrize("dense", [True, False])
def test_the_plain_equations_give_the_same(shape, scale, dense, rng, monkeypatch):
    """Also far from a fixed point, and where the smaller side is left to an iteration."""
    if not dense:
        monkeypatch.setattr(module, "_MAX_DENSE", 1)
    W, b1, b2 = make_rbm(rng, *shape, scale=scale, N=20)
    b = cf.infer(W, b1, b2)
    got = cf.covariance(W, b1, b2, beliefs=b, **EVERY)
    for n in range(20):
        hessian = _reference.bethe_hessian(W, b.tau_v[n], b.tau_h[n])
        mine = np.block([[got.v_v[n], got.v_h[n]], [got.h_v[n], got.h_h[n]]])
        deviation = np.sqrt(np.concatenate([b.tau_v[n], b.tau_h[n]]) * (1 - np.concatenate([b.tau_v[n], b.tau_h[n]])))
        scaled = mine @ hessian * (deviation / deviation[:, None])
        np.testing.assert_allclose(scaled, np.eye(sum(shape)), atol=1e-5)
        assert got.minimum[n] == (np.linalg.eigvalsh(hessian)[0] > 0)
        np.testing.assert_allclose(mine, mine.T, atol=1e-10 * np.abs(mine).max())


# --- units, batches -----------------------------------------------------------------------------------------------


def test_units_are_chosen_as_numpy_chooses(rng):
    W, b1, b2 = make_rbm(rng, 6, 4)
    full = cf.covariance(W, b1, b2, **EVERY)
    for index in (2, -1, [4, 0, 0], slice(1, 3), np.arange(6) > 3, [], np.array([[1, 2], [3, 4]]), ()):
        picked = np.zeros((0,), int) if np.size(index) == 0 and not isinstance(index, slice) else index
        got = cf.covariance(W, b1, b2, visible=index)
        np.testing.assert_allclose(got.v_v, full.v_v[picked], atol=1e-12)
        np.testing.assert_allclose(got.v_h, full.v_h[picked], atol=1e-12)
        assert got.h_v.shape == (0, 6)
        assert got.h_h.shape == (0, 4)
    got = cf.covariance(W, b1, b2, visible=(), hidden=[3, 1])
    np.testing.assert_allclose(got.h_v, full.h_v[[3, 1]], atol=1e-12)
    np.testing.assert_allclose(got.h_h, full.h_h[[3, 1]], atol=1e-12)
    assert got.v_v.shape == (0, 6)


def test_a_batch_is_its_instances(rng):
    W, b1, b2 = make_rbm(rng, 6, 4, N=3)
    both = cf.covariance(W, b1, b2[0], visible=[1, 2], hidden=0)
    assert (both.v_v.shape, both.v_h.shape, both.h_v.shape) == ((3, 2, 6), (3, 2, 4), (3, 6))
    assert both.converged.tolist() == both.minimum.tolist() == [True] * 3
    for n in range(3):
        one = cf.covariance(W, b1[n], b2[0], visible=[1, 2], hidden=0)
        for name in ("v_v", "v_h", "h_v", "h_h"):
            np.testing.assert_allclose(getattr(both, name)[n], getattr(one, name), atol=1e-8)


def test_float32_is_computed_in_float64(rng):
    W, b1, b2 = (a.astype(np.float32) for a in make_rbm(rng, 8, 5))
    want = cf.covariance(W.astype(float), b1, b2)
    got = cf.covariance(W, b1, b2)
    assert got.v_v.dtype == np.float64
    np.testing.assert_array_equal(got.v_v, want.v_v)
    b = cf.infer(W, b1, b2, tol=1e-6)
    np.testing.assert_allclose(cf.covariance(W, b1, b2, beliefs=b).v_v, want.v_v, atol=1e-5)


def test_evidence(rng):
    """Clamped units do not vary; the others are those of the RBM that is left."""
    W, b1, b2 = make_rbm(rng, 6, 4)
    mask, values = np.array([1, 0, 0, 1, 0, 0], bool), np.array([1, 0, 0, 0, 0, 0])
    got = cf.covariance(W, b1, b2, evidence=(mask, values), **EVERY)
    rest = cf.covariance(W[~mask], b1[~mask], b2 + W[0], **EVERY)
    free = np.concatenate([~mask, np.ones(4, bool)])
    np.testing.assert_allclose(whole(got)[np.ix_(free, free)], whole(rest), atol=1e-9)
    assert (whole(got)[~free] == 0).all()


def test_empty_sides():
    assert cf.covariance(np.zeros((3, 0)), np.zeros(3), np.zeros(0), **EVERY).v_v.tolist() == (np.eye(3) / 4).tolist()
    assert cf.covariance(np.zeros((0, 2)), np.zeros(0), np.zeros(2), **EVERY).h_h.tolist() == (np.eye(2) / 4).tolist()
    assert cf.covariance(np.zeros((3, 2)), np.zeros((0, 3)), np.zeros((0, 2))).v_v.shape == (0, 3, 3)


# --- fixed points -------------------------------------------------------------------------------------------------


def test_beliefs_that_are_no_fixed_point_are_told(rng):
    W, b1, b2 = make_rbm(rng, 8, 5, scale=1)
    b = cf.infer(W, b1, b2, method="mean-field", tol=1e-9, max_iter=500)
    with pytest.warns(cf.ConvergenceWarning, match=r"no fixed point of BP: residual .* > tol=0.001"):
        cov = cf.covariance(W, b1, b2, beliefs=b)
    assert not cov.converged
    assert cov.residual > 1e-3
    good = cf.covariance(W, b1, b2, beliefs=beliefs_at(W, b1, b2))
    assert good.converged
    assert good.residual < 1e-12
    # a small push of one belief is seen in its size
    b = beliefs_at(W, b1, b2)
    b.tau_v[2] += 1e-4
    assert 5e-5 < cf.covariance(W, b1, b2, beliefs=b).residual < 1e-3


def test_a_strong_tie_hides_no_distance():
    """Two units that a weight of 40 ties, both 0.3 from their belief: neither can move alone."""
    W, b1, b2 = np.array([[40.0]]), np.array([-20.0]), np.array([-20.5])
    good = cf.infer(W, b1, b2, dtype="float64")
    assert cf.covariance(W, b1, b2, beliefs=good).residual < 1e-6
    bad = cf.Beliefs(good.tau_v + 0.3, good.tau_h + 0.3, 0, True, 0.0)
    with pytest.warns(cf.ConvergenceWarning, match="no fixed point"):
        assert cf.covariance(W, b1, b2, beliefs=bad).residual > 0.1


def test_a_saddle_is_told():
    """Two modes: the symmetric fixed point, from which uniform messages never leave, is no minimum."""
    W, b1, b2 = np.full((4, 4), 2.0), np.full(4, -4.0), np.full(4, -4.0)
    b = cf.Beliefs(np.full(4, 0.5), np.full(4, 0.5), 0, True, 0.0)
    with pytest.warns(cf.ConvergenceWarning, match="saddle of the Bethe free energy"):
        cov = cf.covariance(W, b1, b2, beliefs=b)
    assert cov.converged
    assert not cov.minimum
    assert np.linalg.eigvalsh(cov.v_v)[0] < 0
    weak = cf.covariance(W / 4, b1 / 4, b2 / 4, beliefs=b)
    assert weak.minimum
    assert np.linalg.eigvalsh(weak.v_v)[0] > 0


def test_at_a_critical_point_responses_are_large_and_finite():
    """Three units a side with r = tanh(W / 4): H is singular where (3 - 1) r = 1."""
    W = np.full((3, 3), 4 * np.arctanh(0.5))
    b = cf.Beliefs(np.full(3, 0.5), np.full(3, 0.5), 0, True, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cf.ConvergenceWarning)
        cov = cf.covariance(W, -W.sum(1) / 2, -W.sum(0) / 2, beliefs=b)
    assert np.isfinite(cov.v_v).all()
    assert np.abs(cov.v_v).max() > 1e6


# --- extremes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1e-300, 1e-30, 5, 40, 150, 400, 745, 1000, 1e30, 1e298])
@pytest.mark.parametrize("bias", [0, 1, 40, 1e30])
@pytest.mark.parametrize("dense", [True, False])
def test_extremes_stay_finite(weight, bias, dense, rng, monkeypatch):
    if not dense:
        monkeypatch.setattr(module, "_MAX_DENSE", 1)
    for shape in [(5, 6), (4, 1)]:
        W = rng.choice([-weight, 0, weight, weight / 3], shape)
        b1, b2 = (rng.choice([-bias, 0.0, bias], (3, n)) for n in shape)
        b1[1:] -= W.sum(1) / 2  # centred: units that strong weights tie, undecided
        b2[1:] -= W.sum(0) / 2
        beliefs = [cf.infer(W, b1, b2, max_iter=n) for n in (3, 100)]
        corners = rng.choice([0.0, 0.5, 0.5 + 2**-53, 1.0, 1e-300], (3, sum(shape)))
        beliefs.append(cf.Beliefs(corners[:, : shape[0]], corners[:, shape[0] :], 0, True, 0.0))
        for given in beliefs:
            for consistent in (False, True):
                cov = cf.covariance(W, b1, b2, beliefs=given, consistent=consistent and dense, **EVERY)
                for name in ("v_v", "v_h", "h_v", "h_h", "residual"):
                    assert np.isfinite(getattr(cov, name)).all(), name


@pytest.mark.parametrize("weight", [10, 40, 80, 200, 1e4, 1e8])
def test_units_that_a_strong_weight_ties_have_equal_rows(weight):
    """v_0, v_1 = h or 1 - h, undecided, and a weak third: a tree, so the truth is known."""
    W, b1, b2 = np.array([[weight], [-weight], [1.0]]), np.array([-weight / 2, weight / 2, 0.1]), np.array([0.3])
    cov = cf.covariance(W, b1, b2, **EVERY)
    want = _reference.exact_covariance(W, b1, b2)
    np.testing.assert_allclose(whole(cov), want, atol=2e-7)
    assert want[0, 3] > 0.19
    assert want[1, 3] < -0.19


def test_saturated_units_do_not_vary(rng):
    W, b1, b2 = make_rbm(rng, 6, 4)
    b1[2], b2[1] = 800, -800
    cov = whole(cf.covariance(W, b1, b2, **EVERY))
    assert (cov[[2, 7]] == 0).all()
    assert (cov[:, [2, 7]] == 0).all()
    keep = np.setdiff1d(np.arange(10), [2, 7])
    want = _reference.exact_covariance(W, b1, b2)[np.ix_(keep, keep)]
    np.testing.assert_allclose(cov[np.ix_(keep, keep)], want, atol=0.01)


# --- input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kw", "error", "message"),
    [
        ({"visible": 3}, ValueError, "visible=3 is no index of 3 units"),
        ({"hidden": "all"}, ValueError, "hidden='all' is no index of 2 units"),
        ({"visible": 0.5}, ValueError, "visible=0.5 is no index of 3 units"),
        ({"visible": (0, 1, 2, slice(None))}, ValueError, "is no index of 3 units"),
        ({"consistent": 1}, TypeError, "consistent=1 must be True or False"),
        ({"tol": -1}, ValueError, "tol=-1 is outside"),
        ({"beliefs": np.zeros(3)}, TypeError, "beliefs is ndarray; expected Beliefs"),
        ({"beliefs": cf.Beliefs(np.zeros(2), np.zeros(2), 0, True, 0)}, ValueError, r"beliefs.tau_v has shape \(2,\)"),
        ({"beliefs": cf.Beliefs(np.zeros(3), np.full(2, 1.5), 0, True, 0)}, ValueError, "beliefs.tau_h has values out"),
        ({"beliefs": cf.Beliefs(np.full(3, np.nan), np.zeros(2), 0, True, 0)}, ValueError, r"beliefs.tau_v\[0\] = nan"),
    ],
)
def test_errors(kw, error, message):
    with pytest.raises(error, match=message):
        cf.covariance(np.zeros((3, 2)), np.zeros(3), np.zeros(2), **kw)


def test_consistent_variances_of_a_large_model_are_refused(monkeypatch):
    monkeypatch.setattr(module, "_MAX_DENSE", 1)
    with pytest.raises(ValueError, match="consistent=True needs the variances of all units"):
        cf.covariance(np.zeros((3, 2)), np.zeros(3), np.zeros(2), consistent=True)
