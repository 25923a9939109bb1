"""Descent on the Bethe free energy: it falls, it ends at fixed points of BP, for any model; and the fallback to it."""

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf
from crbm_fast import _reference


def hard_rbm(rng, nv, nh, strength, N=None):
    """A model on which plain BP mostly fails: strong weights, biases that favour no state."""
    W = rng.normal(0, strength, (nv, nh))
    batch = () if N is None else (N,)
    b1, b2 = rng.normal(0, 0.5, (*batch, nv)), rng.normal(0, 0.5, (*batch, nh))
    return W, b1 - W.sum(1) / 2, b2 - W.sum(0) / 2


def descend(W, b1, b2, T, **options):
    return cf.infer(W, b1, b2, method="bethe", max_iter=T, tol=0, **options)


# --- the free energy falls ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [0.1, 1, 3])
def test_the_free_energy_falls_in_every_half_of_an_alternation(strength, rng):
    """By the reference, whose path the kernel follows (test_inference_reference.py) and the next test compares."""
    for nv, nh in [(1, 1), (3, 2), (2, 5), (12, 7), (30, 20)]:
        W, b1, b2 = hard_rbm(rng, nv, nh, strength)
        F = [_reference.bethe_free_energy(W, b1, b2, *beliefs) for beliefs in _reference.bethe_path(W, b1, b2, 40)]
        assert (np.diff(F) <= 1e-9 * np.abs(W).sum()).all()


@pytest.mark.parametrize("strength", [0.3, 3, 30, 300, 1e9, 1e29])
def test_the_free_energy_falls_on_hostile_models(strength, isa, dtype, rng):
    """Weights up to 1e29, sparse or not, biases from nothing to far beyond, clamped units; -F is `log_z`."""
    slack = 100 * np.finfo(dtype).eps
    for trial in range(12):
        nv, nh = rng.integers(1, 20, 2)
        W = rng.normal(0, strength, (nv, nh)).clip(-9e29, 9e29) * rng.integers(0, 2, (nv, nh))
        # every second one beside biases of the weights' own order, the others beside any
        order = strength if trial % 2 else 10.0 ** rng.uniform(-2, 27)
        b1, b2 = (rng.normal(0, order, n).clip(-9e29, 9e29) for n in (nv, nh))
        evidence = (np.arange(nv) == 0, np.full(nv, trial % 2)) if trial % 3 == 0 else None
        size = np.abs(W).sum() + np.abs(b1).sum() + np.abs(b2).sum() + nv + nh
        log_z = [
            descend(W, b1, b2, T, log_z=True, evidence=evidence, dtype=dtype).log_z for T in (1, 2, 3, 4, 6, 10, 60)
        ]
        assert np.isfinite(log_z).all()
        assert (np.diff(log_z) >= -slack * size).all()


def test_a_longer_step_would_let_it_rise(rng, monkeypatch):
    """The bound is needed: Newton's step, without it, raises F on strong weights."""
    W, b1, b2 = hard_rbm(rng, 60, 40, 2)
    monkeypatch.setattr(_reference.np, "log1p", lambda x: x)  # kappa's bound becomes Newton's step
    F = [_reference.bethe_free_energy(W, b1, b2, *beliefs) for beliefs in _reference.bethe_path(W, b1, b2, 10)]
    assert (np.diff(F) > 1e-3).any()


@pytest.mark.parametrize("strength", [0.5, 3, 10])
def test_no_edge_grows_faster_than_the_step_allows(strength, rng):
    """|t'| <= t (1 + t) along theta at a fixed tau_h, which the length of a step rests on; by finite differences."""

    def slope(theta, b, w):
        a, odds = 1 / (1 + np.exp(-theta)), np.expm1(w)
        x, P = odds * (1 - a) * b, 1 + odds * (a - b)
        R = np.sqrt(P**2 + 4 * x)
        return (x - (R - P) / 2) / R

    w, theta = rng.uniform(0, strength, 20_000), rng.normal(0, 3, 20_000)
    b = 1 / (1 + np.exp(-theta - rng.normal(0, 1, 20_000)))
    d = 1e-5
    t = slope(theta, b, w)
    derivative = (slope(theta + d, b, w) - slope(theta - d, b, w)) / (2 * d)
    assert (np.abs(derivative) <= t * (1 + t) * (1 + 1e-6) + 1e-8).all()
    assert (t <= np.sinh(w / 4) ** 2 + 1e-12).all()
    assert (np.abs(derivative) > 0.9 * t * (1 + t)).any()  # and the bound is not a loose one


# --- what it ends at ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", [False, True])
def test_it_agrees_with_plain_bp_where_that_converges(evidence, rng):
    known = 0
    for nv, nh, strength in [(1, 1, 2), (7, 5, 0.8), (40, 20, 0.3), (130, 65, 0.15), (65, 3, 1), (3, 70, 1)] * 3:
        W, b1, b2 = make_rbm(rng, nv, nh, scale=strength)
        given = (rng.random(nv) < 0.3, rng.random(nv) < 0.5) if evidence else None
        kw = {"gamma": True, "log_z": True, "evidence": given}
        plain = cf.infer(W, b1[None], b2[None], max_iter=2000, tol=1e-11, fallback=None, **kw)
        bethe = cf.infer(W, b1[None], b2[None], method="bethe", max_iter=2000, tol=1e-11, **kw)
        assert bethe.converged
        if plain.converged and np.abs(plain.tau_v - bethe.tau_v).max() < 1e-3:
            known += 1
            for name in ("tau_v", "tau_h", "gamma", "log_z"):
                np.testing.assert_allclose(getattr(bethe, name), getattr(plain, name), rtol=1e-9, atol=1e-7)
    assert known > 12


def test_it_converges_where_plain_bp_does_not(rng):
    failed = 0
    for strength in (0.1, 0.3, 1, 3):
        for nv, nh in [(10, 8), (40, 13), (100, 50)]:
            W, b1, b2 = hard_rbm(rng, nv, nh, strength, N=4)
            failed += 4 - cf.infer(W, b1, b2, max_iter=500, tol=1e-6, fallback=None).converged.sum()
            bethe = cf.infer(W, b1, b2, method="bethe", max_iter=500, tol=1e-6)
            assert bethe.converged.all()
            # the beliefs of a fixed point of BP: those that their neighbours call for
            theta_v = b1 + np.log(messages_to_v(W, bethe)).sum(-1)
            np.testing.assert_allclose(bethe.tau_v, 1 / (1 + np.exp(-theta_v)), atol=2e-6)
    assert failed > 10


def messages_to_v(W, beliefs):
    """q_ij that the beliefs of a batch imply."""
    a, b = beliefs.tau_v[:, :, None], beliefs.tau_h[:, None, :]
    odds = np.expm1(W)
    P = 1 + odds * (a - b)
    R = np.sqrt(P**2 + 4 * (1 - a) * odds * b)
    rho = np.where(P > 0, 2 * b / (P + R), (R - P) / (2 * (1 - a) * odds))
    return 1 + odds * rho


def test_it_is_exact_on_a_tree(rng):
    W, b1, b2 = rng.normal(0, 2, (9, 1)), rng.normal(size=9), rng.normal(size=1)
    kw = {"gamma": True, "log_z": True, "tol": 1e-12, "max_iter": 2000}
    bethe, exact = (cf.infer(W, b1, b2, method=method, **kw) for method in ("bethe", "exact"))
    for name in ("tau_v", "tau_h", "gamma", "log_z"):
        np.testing.assert_allclose(getattr(bethe, name), getattr(exact, name), atol=1e-10)


def test_it_is_nearer_to_the_truth_where_plain_bp_fails(rng):
    W, b1, b2 = hard_rbm(rng, 40, 12, 1, N=30)
    kw = {"max_iter": 500, "tol": 1e-6}
    truth = cf.infer(W, b1, b2, method="exact").tau_v
    bethe, plain = (cf.infer(W, b1, b2, fallback=None, method=m, **kw) for m in ("bethe", "sum-product"))
    error = {name: np.abs(b.tau_v - truth).mean() for name, b in (("bethe", bethe), ("plain", plain))}
    assert error["bethe"] < 0.7 * error["plain"]


@pytest.mark.parametrize(("weight", "dtype", "tol"), [(21.0, "float32", 2e-6), (151.0, "float64", 1e-12)])
def test_the_forms_of_the_weights_agree(weight, dtype, tol, isa, rng):
    """A strong weight elsewhere takes all of the model to the logarithms; the rest ends at the same fixed point."""
    W, b1, b2 = make_rbm(rng, 20, 17, scale=0.6)
    more = np.zeros((21, 18))
    more[:20, :17], more[20, 17] = W, weight
    kw = {"method": "bethe", "max_iter": 500, "tol": tol, "gamma": True, "dtype": dtype}
    alone = cf.infer(W, b1, b2, **kw)
    beside = cf.infer(more, np.append(b1, -500), np.append(b2, -500), **kw)
    np.testing.assert_allclose(beside.tau_v[:20], alone.tau_v, atol=20 * tol)
    np.testing.assert_allclose(beside.tau_h[:17], alone.tau_h, atol=20 * tol)
    np.testing.assert_allclose(beside.gamma[:20, :17], alone.gamma, atol=20 * tol)


def test_single_precision_is_within_its_rounding(isa, rng):
    """The error bound of csrc/methods/bethe.h: 2e-6 at |W| ~ 0.1, 1e-5 at |W| ~ 0.5, with hundreds of neighbours."""
    for strength, bound in ((0.1, 2e-6), (0.5, 1e-5)):
        W, b1, b2 = (x.astype("float32") for x in make_rbm(rng, 300, 200, scale=strength))
        b1, b2 = 4 * b1, 4 * b2  # far from where fixed points split
        kw = {"method": "bethe", "max_iter": 400, "tol": 0}
        double = cf.infer(W, b1, b2, dtype="float64", **kw)
        single = cf.infer(W, b1, b2, **kw)
        assert np.abs(single.tau_v - double.tau_v).max() < bound


@pytest.mark.parametrize("weight", [35.0, 60.0, 100.0])
def test_saturated_beliefs_do_not_pass_for_convergence(weight, dtype):
    """Found by an attack: two tied units, both at 1e-8 and on their way to 0.7, converged by how little they moved."""
    b = cf.infer([[weight]], [[-weight / 2 + 0.05]], [[-weight / 2 + 0.8]], method="bethe", max_iter=20, dtype=dtype)
    assert not b.converged[0]


@pytest.mark.parametrize("weight", [-1.0, -1e3, -1e8, -1e20])
def test_log_z_of_an_exclusion(weight, dtype):
    """Found by an attack: the weight was added and taken away again, and its rounding error stayed."""
    want = np.log(1 + np.exp(0.05) + np.exp(0.8) + np.exp(0.85 + weight))
    start = cf.infer([[weight]], [0.05], [0.8], method="exact", dtype=dtype)
    init = np.concatenate((start.tau_v, start.tau_h))
    given = cf.infer([[weight]], [0.05], [0.8], method="bethe", init=init, max_iter=1, tol=0, log_z=True, dtype=dtype)
    np.testing.assert_allclose(given.log_z, want, atol=1e-5)


def test_warm_start_from_beliefs(rng):
    W, b1, b2 = hard_rbm(rng, 30, 20, 1, N=5)
    kw = {"method": "bethe", "max_iter": 2000}
    there = cf.infer(W, b1, b2, tol=1e-9, messages=True, **kw)
    again = cf.infer(W, b1, b2, tol=1e-8, init=there, **kw)
    assert (again.n_iter == 1).all()
    engine = cf.Engine(W)
    first = engine.run(b1, b2, tol=1e-9, warm_start=True, **kw).n_iter.copy()
    assert (engine.run(b1, b2, tol=1e-8, warm_start=True, **kw).n_iter < first).all()


def test_damping_is_refused():
    for call in (
        lambda: cf.infer([[1.0]], [0.0], [0.0], method="bethe", damping=0.5),
        lambda: cf.Inference("bethe", damping=0.5),
    ):
        with pytest.raises(ValueError, match=r"damping=0\.5: method='bethe' cannot oscillate; leave damping out"):
            call()


# --- fallback -------------------------------------------------------------------------------------------------------


def half_hard(rng, N=24):
    """A batch of which every second instance is easy: strong biases decide it."""
    W, b1, b2 = hard_rbm(rng, 60, 16, 1, N=N)
    b1[::2] = 60 * np.sign(b1[::2])
    return W, b1, b2


def test_the_others_pay_nothing_and_all_converge(isa, dtype, rng):
    """Same bits for the instances on which plain BP converges; the rest is descent from their beliefs."""
    W, b1, b2 = (x.astype(dtype) for x in half_hard(rng))
    kw = {"gamma": True, "log_z": True, "messages": True, "max_iter": 60}
    plain = cf.infer(W, b1, b2, fallback=None, **kw)
    both = cf.infer(W, b1, b2, **kw)
    np.testing.assert_array_equal(both.fell_back, ~plain.converged)
    assert 0 < both.fell_back.sum() < len(b1)
    assert both.converged.all()
    assert plain.fell_back is None
    fine, rest = plain.converged, ~plain.converged
    for name in ("tau_v", "tau_h", "gamma", "log_z", "n_iter", "residual", "messages"):
        np.testing.assert_array_equal(getattr(both, name)[fine], getattr(plain, name)[fine])
    init = np.concatenate((plain.tau_v, plain.tau_h), axis=1)[rest]
    want = cf.infer(W, b1[rest], b2[rest], method="bethe", init=init, gamma=True, log_z=True, max_iter=600)
    for name in ("tau_v", "tau_h", "gamma", "log_z", "residual"):
        np.testing.assert_array_equal(getattr(both, name)[rest], getattr(want, name))
    np.testing.assert_array_equal(both.n_iter[rest], 60 + want.n_iter)


def test_summed_gamma_counts_every_instance_once(dtype, rng):
    W, b1, b2 = (x.astype(dtype) for x in half_hard(rng))
    each = cf.infer(W, b1, b2, gamma=True)
    engine = cf.Engine(W)
    for _ in range(2):
        total = engine.run(b1, b2, gamma="sum")
        np.testing.assert_allclose(total.gamma, each.gamma.sum(0), rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_one_rbm_falls_back_and_does_not_warn(rng):
    W, b1, b2 = (x[1] if i else x for i, x in enumerate(half_hard(rng)))
    b = cf.infer(W, b1, b2, gamma=True, log_z=True)
    assert b.fell_back is True
    assert b.converged is True
    assert b.gamma.shape == W.shape
    assert "fell_back=True" in repr(b)
    with pytest.warns(cf.ConvergenceWarning, match="raise max_iter, take damping or fallback='bethe'"):
        assert cf.infer(W, b1, b2, fallback=None).fell_back is None
    with pytest.warns(cf.ConvergenceWarning, match=r"after 11 iterations; raise max_iter$"):
        cf.infer(W, b1, b2, max_iter=1, tol=1e-9)


def test_evidence_holds_through_the_fallback(rng):
    W, b1, b2 = half_hard(rng)
    mask, values = rng.random(b1.shape) < 0.2, rng.random(b1.shape) < 0.5
    b = cf.infer(W, b1, b2, evidence=(mask, values), log_z=True)
    assert b.fell_back.any()
    np.testing.assert_array_equal(b.tau_v[mask], values[mask])
    assert np.isfinite(b.log_z).all()


def test_no_fallback_without_a_tolerance_or_for_other_methods(rng):
    W, b1, b2 = half_hard(rng)
    assert cf.infer(W, b1, b2, tol=0, max_iter=5).fell_back is None
    assert cf.infer(W, b1, b2, method="mean-field").fell_back is None
    with pytest.raises(ValueError, match="fallback"):
        cf.infer(W, b1, b2, fallback="tap")
    with pytest.raises(ValueError, match="fallback='bethe' is for method='sum-product'; got method='tap'"):
        cf.Inference("tap", fallback="bethe")


def test_a_prediction_with_a_number_of_iterations_has_no_fallback(rng):
    """Found by a review: predict(tol=0) was refused for an option that the learner had chosen."""
    X = rng.integers(0, 2, (40, 6))
    for learner in ("mssvm", "lssvm", cf.learners.MLE(cf.Inference(fallback="bethe"))):
        model = cf.CRBM(6, 4, 6, seed=0)
        cf.train(model, X, X, learner, epochs=1)
        assert model.predict(X, tol=0, max_iter=3).shape == (40, 6)


def test_same_bits_for_any_number_of_threads(dtype, rng):
    W, b1, b2 = (x.astype(dtype) for x in hard_rbm(rng, 1100, 600, 0.1, N=2))
    kw = {"max_iter": 9, "tol": 1e-3, "gamma": "sum", "log_z": True}
    for method in ("bethe", "sum-product"):
        one, two, three = (cf.infer(W, b1, b2, method=method, n_threads=n, **kw) for n in (1, 2, 3))
        for other in (two, three):
            for name in ("tau_v", "tau_h", "gamma", "log_z"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# --- learning -------------------------------------------------------------------------------------------------------


def test_learning_by_descent_and_with_the_fallback(rng):
    """Inference converges in every epoch, by descent alone and by the fallback, and the model learns."""
    patterns = rng.random((6, 20)) < 0.5
    V = patterns[rng.integers(6, size=300)]
    X = V ^ (rng.random(V.shape) < 0.2)
    how = cf.Inference(fallback="bethe", max_iter=4)
    for learner in ("bethe", how):
        model = cf.CRBM(20, 24, 20, seed=0)
        history = cf.train(model, X, V, cf.learners.MLE(learner), epochs=15, learning_rate=0.03, seed=0)
        assert min(history.column("converged")) > 0.95
        assert (model.predict(X) != V).mean() < 0.05
    assert model.inference.fallback == "bethe"
    plain = cf.learners.MLE(cf.Inference(max_iter=4))
    history = cf.train(cf.CRBM(20, 24, 20, seed=0), X, V, plain, epochs=15, learning_rate=0.03, seed=0)
    assert history[-1].converged < 0.9
