"""Centred coordinates: gradients against finite differences, invariances, rounding, training."""

from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse
from helpers import make_crbm
from helpers.learning import EnumeratedLSSVM, EnumeratedMSSVM, assert_same, gradient

import crbm_fast as cf
from crbm_fast import _reference as ref
from crbm_fast.learners import CD, LSSVM, MLE, MSSVM, PCD, Logistic, PercLoss
from crbm_fast.training.centering import Centering


def ordinary(q, mu):
    """(W, b) from (W, c), Eq. (1) of training/centering.py."""
    return q | {
        "b_v": q["b_v"] - q["W_vh"] @ mu["h"] - q["W_vx"] @ mu["x"],
        "b_h": q["b_h"] - q["W_vh"].T @ mu["v"] - q["W_hx"] @ mu["x"],
    }


def centred(p, mu):
    """The reverse."""
    return p | {
        "b_v": p["b_v"] + p["W_vh"] @ mu["h"] + p["W_vx"] @ mu["x"],
        "b_h": p["b_h"] + p["W_vh"].T @ mu["v"] + p["W_hx"] @ mu["x"],
    }


def means(X, V, nh, units=True):
    x = np.zeros(0) if X is None else X.mean(axis=0)
    return {"v": V.mean(axis=0) * units, "h": np.full(nh, 0.5 * units), "x": x}


def centering_of(model, mean_v, mean_x, trains):
    """Coordinates with these means; without that of v, outputs and hidden units stay as they are."""
    centering = Centering(model, trains, units=mean_v is not None)
    centering.set_means(np.zeros(model.nv) if mean_v is None else mean_v, mean_x)
    return centering


def centred_gradient(model, learner, X, V, mu):
    """What training steps along, and the negative phase."""
    got, low = gradient(model, learner, X, V)
    g = {name: got.get(name, np.full_like(p, np.nan)) for name, p in model.parameters().items()}
    centering_of(model, mu["v"] if mu["v"].any() else None, mu["x"], learner.trains).transform(g)
    return {name: g[name] for name in got}, low


def differences(objective, model, mu, names):
    """Central differences of objective(parameters) in centred coordinates."""
    q, out = centred({name: p.copy() for name, p in model.parameters().items()}, mu), {}
    for name in names:
        out[name] = np.empty_like(q[name])
        for i in np.ndindex(q[name].shape):
            kept, values = q[name][i], []
            for step in (1e-5, -1e-5):
                q[name][i] = kept + step
                values.append(objective(ordinary(q, mu)))
            q[name][i] = kept
            out[name][i] = (values[0] - values[1]) / 2e-5
    return out


@pytest.fixture
def tiny(rng):
    """A float64 model of 4 + 3 units and 2 features with means far from 0, 6 instances."""
    return make_crbm(rng, 4, 3, 2, dtype="float64"), 2 + rng.normal(size=(6, 2)), rng.random((6, 4)) < 0.7


# --- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [True, False])
def test_the_coordinates_are_those_of_the_papers(tiny, units):
    """theta_v and theta_h by the equations at the head of training/centering.py are the fields of the model."""
    model, X, V = tiny
    mu, h = means(X, V, 3, units), np.array([1.0, 0, 1])
    p, q = model.parameters(), centred(model.parameters(), mu)
    c = centering_of(model, mu["v"] if units else None, mu["x"], MLE().trains).c
    for name in ("b_v", "b_h"):
        np.testing.assert_allclose(c[name], q[name], atol=1e-14)
    for x, v in zip(X, V.astype(float), strict=True):
        b1, b2 = ref.biases(p, x)
        np.testing.assert_allclose(
            c["b_v"] + p["W_vh"] @ (h - mu["h"]) + p["W_vx"] @ (x - mu["x"]), b1 + p["W_vh"] @ h, atol=1e-13
        )
        np.testing.assert_allclose(
            c["b_h"] + p["W_vh"].T @ (v - mu["v"]) + p["W_hx"] @ (x - mu["x"]), b2 + v @ p["W_vh"], atol=1e-13
        )


def average_of(objective, X, V):
    return lambda p: np.mean([objective(p, v, x) for v, x in zip(V.astype(float), X, strict=True)])


@pytest.mark.parametrize(
    ("learner", "objective", "sign"),
    [
        (MLE("exact"), ref.log_likelihood, 1),
        (EnumeratedMSSVM(), ref.mssvm_loss, -1),
        (EnumeratedLSSVM(), ref.lssvm_loss, -1),
        (Logistic(), ref.log_likelihood, 1),
    ],
    ids=["likelihood", "mssvm", "lssvm", "logistic"],
)
@pytest.mark.parametrize("units", [True, False])
def test_gradient_of_what_is_maximised(tiny, learner, objective, sign, units):
    model, X, V = tiny
    learner.prepare(model)
    mu = means(X, V, 3, units)
    got, _ = centred_gradient(model, learner, X, V, mu)
    want = differences(average_of(objective, X, V), model, mu, learner.trains)
    assert_same({name: sign * g for name, g in got.items()}, want, atol=1e-8)


@pytest.mark.parametrize(("nv", "nh"), [(5, 1), (1, 5)])
def test_gradient_by_belief_propagation_on_trees(rng, nv, nh):
    model = make_crbm(rng, nv, nh, 2, scale=1.5, dtype="float64")
    X, V = rng.normal(1, 1, (4, 2)), rng.random((4, nv)) < 0.7
    learner, mu = MLE(cf.Inference(max_iter=20, tol=0)), means(X, V, nh)
    got, _ = centred_gradient(model, learner, X, V, mu)
    assert_same(got, differences(average_of(ref.log_likelihood, X, V), model, mu, learner.trains), atol=1e-8)


@pytest.mark.parametrize(("learner", "loss"), [(MSSVM(), ref.mssvm_loss), (LSSVM(), ref.lssvm_loss)])
def test_max_margin_gradient_by_belief_propagation(rng, learner, loss):
    model = make_crbm(rng, 5, 4, 3, scale=0.3, dtype="float64")
    X, V = 1 + 3 * rng.normal(size=(6, 3)), rng.random((6, 5)) < 0.7
    mu = means(X, V, 4)
    got, low = centred_gradient(model, learner, X, V, mu)
    assert (low.v != V).any()
    want = differences(average_of(loss, X, V), model, mu, learner.trains)
    assert_same({name: -g for name, g in got.items()}, want, atol=1e-8)


@pytest.mark.parametrize("learner", [CD(), CD(k=3, start="random"), CD(start="logistic"), PCD(), PercLoss()], ids=repr)
def test_gradient_given_a_rival_state(tiny, learner):
    """Learners that sample climb F(rival) - F(truth), the rival held fast."""
    model, X, V = tiny
    mu = means(X, V, 3)
    got, low = centred_gradient(model, learner, X, V, mu)
    up, down = average_of(ref.free_energy, X, low.v), average_of(ref.free_energy, X, V)
    assert (low.v != V).any()
    assert_same(got, differences(lambda p: up(p) - down(p), model, mu, learner.trains), atol=1e-8)


@pytest.mark.parametrize("method", ["sum-product", "mean-field", "tap"])
def test_gradient_given_pseudo_marginals(tiny, method):
    """Likelihood learners climb -F(truth) + <E>, the beliefs held fast."""
    model, X, V = tiny
    mu, learner = means(X, V, 3), MLE(method)
    b = cf.infer(model.W_vh, *model.biases(X), gamma=True, **asdict(learner.inference_in(1)))
    got, _ = centred_gradient(model, learner, X, V, mu)

    def objective(p):
        energies = [
            -(p["W_vh"] * b.gamma[n]).sum()
            - b.tau_v[n] @ (p["b_v"] + p["W_vx"] @ x)
            - b.tau_h[n] @ (p["b_h"] + p["W_hx"] @ x)
            for n, x in enumerate(X)
        ]
        return np.mean(energies) - average_of(ref.free_energy, X, V)(p)

    assert_same(got, differences(objective, model, mu, learner.trains), atol=1e-8)


def test_gradient_of_a_plain_rbm(rng):
    model = cf.RBM.from_parameters(rng.normal(size=(4, 3)), b_v=rng.normal(size=4), b_h=rng.normal(size=3))
    V = rng.random((6, 4)) < 0.7
    mu, learner = means(None, V, 3), MLE("exact")
    got, _ = centred_gradient(model, learner, None, V, mu)
    objective = average_of(ref.log_likelihood, np.zeros((6, 0)), V)
    assert_same(got, differences(objective, model, mu, learner.trains), atol=1e-8)


# --- rounding -----------------------------------------------------------------------------------------------------


def test_biases_follow_the_weights_without_drift(rng, dtype):
    """Weights that come back bring the biases back, to the bit, however often."""
    model = make_crbm(rng, 20, 10, 30, dtype=dtype)
    mu = rng.random(20).astype(dtype), rng.normal(5, 1, 30).astype(dtype)
    centering = centering_of(model, *mu, MLE().trains)
    before = model.copy()
    centering.fold()
    first = model.copy()
    for name in ("b_v", "b_h"):
        np.testing.assert_allclose(first.parameters()[name], before.parameters()[name], atol=100 * np.finfo(dtype).eps)
    for _ in range(1000):
        for name in ("W_vh", "W_vx", "W_hx"):
            model.parameters()[name][...] *= rng.normal()
        centering.fold()
        for name in ("W_vh", "W_vx", "W_hx"):
            model.parameters()[name][...] = before.parameters()[name]
    centering.fold()
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(p, first.parameters()[name])


# --- training -----------------------------------------------------------------------------------------------------


def problem(rng, N=80, nv=6):
    """Outputs of unequal means, noisy copies as features."""
    P = rng.random((4, nv)) < np.linspace(0.1, 0.7, nv)
    V = P[rng.integers(4, size=N)] ^ (rng.random((N, nv)) < 0.05)
    return V ^ (rng.random(V.shape) < 0.1), V


def trajectory(model, X, V, learner, **kw):
    """The exact P(v = 1 | x) on the training data after each epoch."""
    kw = {"epochs": 3, "batch_size": 16, "learning_rate": 0.03, "weight_decay": 1e-3, "centering": "all"} | kw
    seen = []
    cf.train(model, X, V, learner, callbacks=[lambda epoch, m: seen.append(m.predict_proba(X, method="exact"))], **kw)
    return np.array(seen)


# Where messages begin depends on which state is 0, so inference is invariant only once it has converged; where it may
# converge to several solutions, as for max-margin learners, not even then: hence enumeration.
CONVERGED = {"max_iter": 1000, "tol": 1e-12}
DETERMINISTIC = [
    MLE(cf.Inference("sum-product", **CONVERGED)),
    MLE(cf.Inference("mean-field", **CONVERGED)),
    MLE(cf.Inference("tap", **CONVERGED)),
    MLE("exact"),
    EnumeratedMSSVM(),
    EnumeratedLSSVM(),
    Logistic(),
]


def swapped(model, v, x):
    """The model that says of 1 - v_i, 1 - x_k (for the units in v, the features in x) what `model` says of v_i, x_k."""
    p = {name: a.copy() for name, a in model.parameters().items()}
    p["b_h"] += p["W_vh"][v].sum(axis=0) + p["W_hx"][:, x].sum(axis=1)
    p["b_v"] += p["W_vx"][:, x].sum(axis=1)
    p["W_vx"][:, x] *= -1
    p["W_hx"][:, x] *= -1
    for name in ("W_vh", "W_vx", "b_v"):
        p[name][v] *= -1
    return cf.CRBM.from_parameters(**p)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("learner", DETERMINISTIC, ids=repr)
def test_what_0_and_1_mean_does_not_matter(rng, learner, optimizer):
    """[2]: outputs and features with their states swapped are learned alike, step by step.  Not so without centring."""
    X, V = problem(rng)
    v, x = np.arange(6) % 2 == 0, np.arange(6) % 3 == 0
    model = make_crbm(rng, 6, 4, 6, scale=0.3, dtype="float64")
    if learner.name == "logistic":
        learner.prepare(model)
    kw = {"optimizer": optimizer, "start": None if learner.name == "logistic" else "logistic", "averaging": 0.9}
    for centering in ("all", None):
        ours = trajectory(model.copy(), X, V, learner, centering=centering, **kw)
        theirs = trajectory(swapped(model, v, x), X ^ x, V ^ v, learner, centering=centering, **kw)
        difference = np.abs(np.where(v, 1 - theirs, theirs) - ours).max()
        assert difference < 1e-9 if centering else difference > 1e-3


@pytest.mark.parametrize(
    "learner",
    [MLE(), MLE("mean-field"), MLE("tap"), MSSVM(), LSSVM(), Logistic(), CD(), PCD(k=2), PercLoss()],
    ids=repr,
)
@pytest.mark.parametrize("centering", ["features", "all"])
def test_where_features_have_their_zero_does_not_matter(rng, learner, centering):
    X, V = problem(rng)
    model, offset = make_crbm(rng, 6, 4, 6, scale=0.3, dtype="float64"), rng.normal(0, 3, 6)
    if learner.name == "logistic":
        learner.prepare(model)
    moved = model.copy()
    moved.b_v -= moved.W_vx @ offset
    moved.b_h -= moved.W_hx @ offset
    ours = trajectory(model, X, V, learner, centering=centering)
    theirs = trajectory(moved, X + offset, V, learner, centering=centering)
    np.testing.assert_allclose(theirs, ours, atol=1e-9)


def test_what_0_and_1_mean_does_not_matter_to_a_plain_rbm(rng):
    _, V = problem(rng)
    v = rng.random(6) < 0.5
    W, b_v, b_h = rng.normal(0, 0.3, (6, 4)), rng.normal(size=6), rng.normal(size=4)
    ours = cf.RBM.from_parameters(W, b_v=b_v, b_h=b_h)
    sign = np.where(v, -1, 1)
    theirs = cf.RBM.from_parameters(sign[:, None] * W, b_v=sign * b_v, b_h=b_h + W[v].sum(axis=0))
    for model, data in ((ours, V), (theirs, V ^ v)):
        cf.train(model, None, data, MLE("exact"), epochs=5, batch_size=16, learning_rate=0.05, centering="all")
    a, b = ours.log_likelihood(V, method="exact"), theirs.log_likelihood(V ^ v, method="exact")
    np.testing.assert_allclose(b, a, atol=1e-9)
    assert a.mean() > cf.RBM.from_parameters(W, b_v=b_v, b_h=b_h).log_likelihood(V, method="exact").mean() + 0.1


def test_features_that_are_sparse_or_on_disk(rng, tmp_path):
    X, V = problem(rng)
    model = make_crbm(rng, 6, 4, 6, scale=0.3, dtype="float64")
    np.save(tmp_path / "X.npy", X)
    want = trajectory(model.copy(), X, V, "mle", validation=0.2)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    got = trajectory(model.copy(), on_disk, V, "mle", validation=0.2)
    np.testing.assert_array_equal(got, want)
    sparse = scipy.sparse.csr_array(X.astype(float))
    np.testing.assert_allclose(trajectory(model.copy(), sparse, V, "mle", validation=0.2), want, atol=1e-9)


@pytest.mark.parametrize("centering", ["features", "all"])
def test_models_without_hidden_units_or_features(rng, centering):
    X, V = problem(rng)
    for model, features in ((cf.CRBM(6, 0, 6), X), (cf.CRBM(6, 4, 0), None), (cf.RBM(6, 0), None)):
        if centering == "features" and features is None:
            with pytest.raises(ValueError, match="centering='features' needs features"):
                cf.train(model, features, V, centering=centering)
            continue
        history = cf.train(model, features, V, epochs=3, learning_rate=0.05, centering=centering, averaging=0.9)
        assert all(np.isfinite(p).all() for p in model.parameters().values())
        assert history[-1].train_error < 0.45
