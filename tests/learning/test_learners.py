"""Learners: gradients against finite differences, moments against enumeration, results on a planted problem."""

import tracemalloc
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse
from helpers import make_crbm
from helpers.learning import EnumeratedLSSVM, EnumeratedMSSVM, assert_same, finite_differences, gradient

import crbm_fast as cf
from crbm_fast import _reference as ref
from crbm_fast.inference import METHODS
from crbm_fast.learners import CD, LEARNERS, LSSVM, MLE, MSSVM, PCD, Batch, Logistic, PercLoss, Workspace, as_learner


@pytest.fixture
def tiny(rng):
    """A float64 model of 4 + 3 units and 2 features, 5 instances."""
    return make_crbm(rng, 4, 3, 2, dtype="float64"), rng.normal(size=(5, 2)), rng.random((5, 4)) < 0.5


# --- maximum likelihood: Eq. 5 and Appendix A ---------------------------------------------------------------------


def test_exact_gradient_is_that_of_the_log_likelihood(tiny):
    model, X, V = tiny
    got, low = gradient(model, MLE("exact"), X, V)
    assert_same(got, finite_differences(ref.log_likelihood, model, X, V), atol=1e-8)
    assert low.converged.all()


@pytest.mark.parametrize(("nv", "nh"), [(5, 1), (1, 5)])
def test_sum_product_gradient_on_trees(rng, nv, nh):
    model = make_crbm(rng, nv, nh, 2, scale=1.5, dtype="float64")
    X, V = rng.normal(size=(4, 2)), rng.random((4, nv)) < 0.5
    got, _ = gradient(model, MLE(cf.Inference(max_iter=20, tol=0)), X, V)
    assert_same(got, finite_differences(ref.log_likelihood, model, X, V), atol=1e-8)


def test_sparse_features_give_the_same_gradient(tiny):
    model, X, V = tiny
    X = X * (np.abs(X) > 0.5)
    dense, _ = gradient(model, MLE("exact"), X, V)
    sparse, _ = gradient(model, MLE("exact"), scipy.sparse.csr_array(X), V)
    assert_same(sparse, dense, atol=1e-14)


def test_gradient_of_a_plain_rbm(rng):
    model = cf.RBM.from_parameters(rng.normal(size=(4, 3)), b_v=rng.normal(size=4), b_h=rng.normal(size=3))
    V = rng.random((6, 4)) < 0.5
    got, low = gradient(model, MLE("exact"), None, V)
    assert_same(got, finite_differences(ref.log_likelihood, model, None, V), atol=1e-8)
    assert len(low.v) == 1  # one inference for the whole batch


@pytest.mark.parametrize("method", ["sum-product", "mean-field", "tap"])
def test_gradient_from_pseudo_marginals(rng, method):
    """Eq. 5 with the reference's beliefs, instance by instance."""
    model = make_crbm(rng, 6, 5, 3, scale=0.3, dtype="float64")
    X, V = rng.normal(size=(4, 3)), (rng.random((4, 6)) < 0.5).astype(float)
    p = model.parameters()
    want = {name: np.zeros_like(a) for name, a in p.items()}
    for x, v in zip(X, V, strict=True):
        b1, b2 = ref.biases(p, x)
        r = ref.run(method, p["W_vh"], b1, b2, T=8)
        mu = 1 / (1 + np.exp(-(b2 + v @ p["W_vh"])))
        want["W_vh"] += (np.outer(v, mu) - r["gamma"]) / len(X)
        want["W_vx"] += np.outer(v - r["tau_v"], x) / len(X)
        want["W_hx"] += np.outer(mu - r["tau_h"], x) / len(X)
        want["b_v"] += (v - r["tau_v"]) / len(X)
        want["b_h"] += (mu - r["tau_h"]) / len(X)
    got, low = gradient(model, MLE(cf.Inference(method, tol=0)), X, V, epoch=1)
    assert (low.n_iter == 8).all()  # T = 7 + epoch
    assert_same(got, want, atol=1e-10)


# --- max margin: Eqs. 6 and 7 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "loss"), [(EnumeratedMSSVM(), ref.mssvm_loss), (EnumeratedLSSVM(), ref.lssvm_loss)]
)
def test_max_margin_gradient_with_the_argmax_by_enumeration(tiny, learner, loss):
    model, X, V = tiny
    got, low = gradient(model, learner, X, V)
    assert (low.v != V).any()
    want = finite_differences(loss, model, X, V)
    assert_same({name: -g for name, g in got.items()}, want, atol=1e-8)


@pytest.mark.parametrize(("learner", "loss"), [(MSSVM(), ref.mssvm_loss), (LSSVM(), ref.lssvm_loss)])
def test_max_margin_gradient_by_belief_propagation(rng, learner, loss):
    """Where coupling is weak, BP finds the same rival as enumeration."""
    model = make_crbm(rng, 5, 4, 3, scale=0.3, dtype="float64")
    X, V = 3 * rng.normal(size=(6, 3)), rng.random((6, 5)) < 0.5
    got, low = gradient(model, learner, X, V)
    assert (low.v != V).any()
    assert low.converged.all()
    assert_same({name: -g for name, g in got.items()}, finite_differences(loss, model, X, V), atol=1e-8)


def hard_to_search(rng):
    """Instances that mixed-product and max-product BP go to and fro on, with likely outputs: model, X, V."""
    model = make_crbm(rng, 9, 6, 3, scale=3, dtype="float64")
    model.b_v, model.b_h = -model.W_vh.sum(1) / 2, -model.W_vh.sum(0) / 2
    X = rng.normal(size=(200, 3))
    V = [ref.marginal_map(model.W_vh, *b)[1] for b in zip(*model.biases(X), strict=True)]
    return model, X, np.array(V) > 0.5


def loss_augmented(model, X, V, learner):
    """S(v) of a state of every instance, and the best S by enumeration."""
    b1, b2 = model.biases(X)
    b1 = b1 + 1 - 2 * V
    f = (lambda x: np.maximum(0, x)) if isinstance(learner, LSSVM) else (lambda x: np.logaddexp(0, x))
    search = ref.joint_map if isinstance(learner, LSSVM) else ref.marginal_map
    best = np.array([search(model.W_vh, *b)[0] for b in zip(b1, b2, strict=True)])
    return lambda v: (v * b1).sum(-1) + f(b2 + v @ model.W_vh).sum(-1), best


@pytest.mark.parametrize("kind", [MSSVM, LSSVM])
def test_a_rival_never_scores_below_the_truth(rng, kind):
    """With ascent it scores higher than without; below the truth, the truth takes its place, and that is counted."""
    model, X, V = hard_to_search(rng)
    score, best = loss_augmented(model, X, V, kind())
    truth, gain, below = score(V), {}, {}
    for ascent, learner in ((False, kind(kind.methods()[0])), (True, kind())):
        _, low = gradient(model, learner, X, V)
        assert (score(low.v) >= truth - 1e-9).all()
        assert (score(low.v) <= best + 1e-9).all()
        assert low.below_truth.any()
        np.testing.assert_array_equal(low.v[low.below_truth], V[low.below_truth])
        gain[ascent], below[ascent] = (score(low.v) - truth).mean(), low.below_truth.mean()
        assert low.converged.all() == ascent
    assert gain[True] > gain[False]
    assert below[True] < below[False]


@pytest.mark.parametrize("kind", [MSSVM, LSSVM])
def test_an_instance_without_a_rival_has_no_part_in_the_gradient(rng, kind):
    model, X, V = hard_to_search(rng)
    _, low = gradient(model, kind(), X, V)
    at = np.flatnonzero(low.below_truth)[:1]
    alone, low = gradient(model, kind(), X[at], V[at])
    assert low.below_truth.all()
    assert_same(alone, {name: np.zeros_like(g) for name, g in alone.items()}, atol=1e-15)


@pytest.mark.parametrize("kind", [MSSVM, LSSVM])
def test_ascent_is_for_what_has_not_converged(rng, kind):
    """Where BP converges, ascent changes nothing."""
    model, X, V = hard_to_search(rng)
    _, low = gradient(model, kind(kind.methods()[0]), X, V)
    converged = low.converged.copy()
    rivals = low.v[converged].copy()
    assert 0 < converged.mean() < 1
    _, low = gradient(model, kind(), X, V)
    np.testing.assert_array_equal(low.v[converged], rivals)


# --- sampling -----------------------------------------------------------------------------------------------------


def test_cd_moments_against_enumeration(rng):
    """CD-k from any start, k large, averages to the exact negative phase within statistical error."""
    model = make_crbm(rng, 4, 3, 2, dtype="float64")
    x, v = rng.normal(size=2), rng.random(4) < 0.5
    X, V = np.tile(x, (20000, 1)), np.tile(v, (20000, 1))
    exact, _ = gradient(model, MLE("exact"), x[None], v[None])
    for start in ("data", "random", "logistic"):
        got, low = gradient(model, CD(k=100, start=start), X, V, seed=7)
        sigma = np.sqrt(np.var(low.v, axis=0) / len(V))
        assert (np.abs(got["b_v"] - exact["b_v"]) < 4.5 * sigma).all()
        assert np.abs(got["W_vh"] - exact["W_vh"]).max() < 4.5 * 0.5 / np.sqrt(len(V))
    model.b_v[1] += 0.5  # the test can fail: another model's moments are far off
    wrong, _ = gradient(model, MLE("exact"), x[None], v[None])
    assert (np.abs(got["b_v"] - wrong["b_v"]) > 8 * sigma).any()


def test_cd_from_the_data_knows_its_first_step(rng):
    """h is drawn from P(h | V) and v from P(v | h): one step of the public sampler with the same seed."""
    model = make_crbm(rng, 6, 4, 2)
    X, V = rng.normal(size=(9, 2)), (rng.random((9, 6)) < 0.5).astype(np.float32)
    _, low = gradient(model, CD(), X, V, seed=3)
    s = cf.gibbs(model.W_vh, *model.biases(X), v=V, n_steps=1, seed=3)
    np.testing.assert_array_equal(low.v, s.v)
    np.testing.assert_allclose(low.h, model.conditional_h(s.v, X), atol=1e-6)


def test_pcd_chains_go_on(rng):
    """The second call starts where the first ended."""
    model = make_crbm(rng, 11, 4, 2, scale=2)
    X, V = rng.normal(size=(9, 2)), (rng.random((9, 11)) < 0.5).astype(np.float32)
    learner = PCD(k=1)
    state = learner.first_state(model, 9, 9)
    _, first = gradient(model, learner, X, V, seed=1, state=state)
    np.testing.assert_array_equal(np.unpackbits(state["chains"], axis=1, count=11), first.v)
    _, second = gradient(model, learner, X, V, seed=2, state=state)
    b = model.biases(X)
    np.testing.assert_array_equal(first.v, cf.gibbs(model.W_vh, *b, v=V, n_steps=1, seed=1).v)
    np.testing.assert_array_equal(second.v, cf.gibbs(model.W_vh, *b, v=first.v, n_steps=1, seed=2).v)


def test_pcd_chains_of_a_plain_rbm_are_shared():
    model = cf.RBM(6, 4)
    assert PCD().first_state(model, 1000, 16)["chains"].shape == (16, 1)
    assert PCD().first_state(cf.CRBM(6, 4, 2), 1000, 16)["chains"].shape == (1000, 1)


def test_percloss_updates_only_on_lower_free_energy(rng):
    model = make_crbm(rng, 6, 4, 2, scale=1)
    X, V = rng.normal(size=(200, 2)), (rng.random((200, 6)) < 0.5).astype(np.float32)
    best = model.predict(X, method="mixed-product").astype(np.float32)
    V[:50] = best[:50]  # where the truth is hard to beat
    _, low = gradient(model, PercLoss(k=5), X, V, seed=1)
    moved = (low.v != V).any(axis=1)
    F_rival, F_truth = model.free_energy(low.v, X), model.free_energy(V, X)
    assert (F_rival[moved] < F_truth[moved]).all()
    assert moved[50:].mean() > 0.8
    assert moved[:50].mean() < 0.2
    np.testing.assert_allclose(low.h, model.conditional_h(low.v, X), atol=1e-5)


def test_percloss_without_a_better_state_has_no_gradient(rng):
    model = make_crbm(rng, 4, 3, 2, scale=0.5)
    model.b_v = [30, -30, 30, -30]
    V = np.tile(np.array([1, 0, 1, 0], np.float32), (8, 1))
    got, _ = gradient(model, PercLoss(), rng.normal(size=(8, 2)), V)
    assert all(np.abs(g).max() < 1e-6 for g in got.values())


# --- logistic -----------------------------------------------------------------------------------------------------


def test_logistic_trains_the_logistic_part_alone(tiny):
    model, X, V = tiny
    learner = Logistic()
    learner.prepare(model)
    assert not model.W_vh.any()
    got, _ = gradient(model, learner, X, V)
    want = finite_differences(ref.log_likelihood, model, X, V, ("W_vx", "b_v"))
    assert set(got) == {"W_vx", "b_v"}
    assert_same(got, want, atol=1e-8)


def test_logistic_agrees_with_scikit_learn(rng):
    from sklearn.linear_model import LogisticRegression

    X = rng.normal(size=(300, 4))
    V = X @ rng.normal(size=(4, 3)) + rng.logistic(size=(300, 3)) > 0.3
    model = cf.CRBM(3, 2, 4, dtype="float64")
    C = 2.0
    cf.train(
        model,
        X,
        V,
        "logistic",
        epochs=800,
        batch_size=300,
        learning_rate=0.3,
        schedule="linear",
        weight_decay=1 / (C * len(X)),
    )
    for i in range(3):
        theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10000).fit(X, V[:, i])
        np.testing.assert_allclose(model.W_vx[i], theirs.coef_[0], atol=2e-5)
        np.testing.assert_allclose(model.b_v[i], theirs.intercept_[0], atol=2e-5)
        np.testing.assert_allclose(model.predict_proba(X)[:, i], theirs.predict_proba(X)[:, 1], atol=1e-5)


# --- all learners, one suite --------------------------------------------------------------------------------------

EVERY = [
    MLE(),
    MLE("mean-field"),
    MLE("tap"),
    MLE("exact"),
    CD(),
    CD(k=3, start="random"),
    CD(start="logistic"),
    PCD(),
    PercLoss(),
    MSSVM(),
    MSSVM("mixed-ascent"),
    LSSVM(),
    LSSVM("max-ascent"),
    Logistic(),
]


@pytest.mark.parametrize("learner", EVERY, ids=repr)
def test_gradients_are_means_over_the_batch(rng, learner, dtype):
    """A batch of copies has the gradient of one; deterministic learners only, and sampling ones with large biases."""
    model = make_crbm(rng, 5, 4, 3, scale=0.3, dtype=dtype)
    model.b_v, model.b_h = 200 * rng.choice([-1, 1], 5), 200 * rng.choice([-1, 1], 4)  # nothing left to chance
    x, v = rng.normal(size=3), rng.random(5) < 0.5
    one, _ = gradient(model, learner, x[None], v[None])
    many, _ = gradient(model, learner, np.tile(x, (7, 1)), np.tile(v, (7, 1)))
    assert_same(many, one, atol={"float32": 1e-6, "float64": 1e-13}[dtype.name])
    assert all(np.isfinite(g).all() for g in one.values())


@pytest.mark.parametrize("learner", [learner for learner in EVERY if not learner.needs_features], ids=repr)
def test_a_plain_rbm_learns_by_every_learner(learner):
    """Likelihood learners raise the exact likelihood; all stay finite."""
    rng = np.random.default_rng(2)
    V = (rng.random((2, 7)) < 0.5)[rng.integers(2, size=200)] ^ (rng.random((200, 7)) < 0.05)
    model = cf.RBM(7, 5, scale=0.1)
    before = model.log_likelihood(V, method="exact").mean()
    cf.train(model, None, V, learner, epochs=15, batch_size=20, learning_rate=0.01)
    assert all(np.isfinite(p).all() for p in model.parameters().values())
    if learner.name in ("mle", "cd", "pcd"):
        assert model.log_likelihood(V, method="exact").mean() > before + 0.5


def as_batch(learner, model, X, V, workspace, state=None, seed=3):
    state = learner.first_state(model, len(V), len(V)) if state is None else state
    return Batch(X, V, np.arange(len(V)), 1, seed, state, workspace)


@pytest.mark.parametrize(
    ("learner", "plain"),
    [(learner, plain) for learner in EVERY for plain in (False, True) if not (plain and learner.needs_features)],
    ids=repr,
)
def test_a_workspace_used_before_changes_nothing(rng, learner, plain):
    """Minibatches of several sizes write into the same arrays and have the gradients of new ones."""
    model = cf.RBM.from_parameters(rng.normal(size=(6, 4)), dtype="float32") if plain else make_crbm(rng, 6, 4, 3)
    engine, workspace = model.engine(), Workspace(model)
    for N in (7, 3, 1, 7, 9):
        X = None if plain else rng.normal(size=(N, 3)).astype(np.float32)
        V = (rng.random((N, 6)) < 0.5).astype(np.float32)
        results = []
        for used in (workspace, Workspace(model)):
            out = {name: np.zeros_like(p) for name, p in model.parameters().items()}
            low = learner.gradient(model, engine, as_batch(learner, model, X, V, used), out)
            results.append([*out.values(), low.v.copy(), low.h.copy()])
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("learner", [MLE(), MLE("tap"), CD(), MSSVM(), LSSVM("max-product"), Logistic()], ids=repr)
def test_a_minibatch_allocates_next_to_nothing(rng, learner):
    """Once a minibatch of that size has been seen, less than one more array of its outputs; a fallback takes what its
    instances need."""
    model, N = make_crbm(rng, 200, 100, 50, scale=0.05), 300
    X, V = rng.normal(size=(N, 50)).astype(np.float32), (rng.random((N, 200)) < 0.5).astype(np.float32)
    out = {name: np.zeros_like(p) for name, p in model.parameters().items()}
    engine, workspace = model.engine(), Workspace(model)

    def peak(workspace):
        batch = as_batch(learner, model, X, V, workspace)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        learner.gradient(model, engine, batch, out)
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        peak(workspace)
        assert peak(workspace) < V.nbytes / 2
        assert peak(Workspace(model)) > V.nbytes  # the test can fail: new arrays are seen
    finally:
        tracemalloc.stop()


def test_arrays_of_both_sides_never_coincide():
    model = cf.RBM(4, 4)
    workspace = Workspace(model)
    assert not np.shares_memory(workspace.visible("a", 3), workspace.hidden("a", 3))
    assert not np.shares_memory(workspace.visible("a", 3), workspace.visible("b", 3))
    assert np.shares_memory(workspace.visible("a", 3), workspace.visible("a", 2))
    assert workspace.visible("a", 2).flags.c_contiguous


def test_every_learner_is_in_the_shared_suite():
    assert {learner.name for learner in EVERY} == set(LEARNERS)


def test_names():
    assert set(LEARNERS) == {learner.name for learner in EVERY}
    assert as_learner("cd") == CD(1, "data")
    assert PercLoss(3) == PercLoss(k=3)
    assert MLE().inference_in(10) == cf.Inference("sum-product", 17, 1e-3, 0.0)
    assert MLE(cf.Inference("mean-field", max_iter=5)).inference_in(10).max_iter == 5
    assert MSSVM().inference_in(1).method == "mixed-product"
    assert LSSVM().inference_in(1).method == "max-product"
    assert CD().inference_in(1).method == "mean-field"
    assert PercLoss().inference_in(1).method == "mixed-product"
    assert Logistic().inference_in(1) == Logistic().inference_in(9) == cf.Inference("mean-field", 1)


def test_a_string_is_an_inference_by_that_method():
    assert MLE("tap") == MLE(cf.Inference("tap"))
    assert CD(2, inference="tap").inference == cf.Inference("tap")
    assert repr(Logistic()) == "Logistic()"
    assert [learner.name for learner in map(as_learner, LEARNERS) if learner.needs_features] == ["logistic"]


@pytest.mark.parametrize("kind", LEARNERS.values(), ids=LEARNERS)
def test_options_of_inference_are_those_of_inference(kind):
    """A learner has no options without effect: none of its own is named as one of an Inference."""
    names = {f.name for f in fields(kind) if f.init}
    assert not names & {f.name for f in fields(cf.Inference)}
    assert names <= {"inference", "k", "start"}


@pytest.mark.parametrize("kind", [kind for kind in LEARNERS.values() if kind is not Logistic], ids=lambda k: k.name)
def test_a_learner_refuses_the_methods_it_cannot_use(kind):
    """It asks the table of methods; those it accepts drive a step of training."""
    for name in METHODS:
        if name in kind.methods():
            assert kind(inference=name).inference_in(1).method == name
        else:
            with pytest.raises(ValueError, match=f"method='{name}' is not one of: "):
                kind(inference=name)
            with pytest.raises(ValueError, match=f"method='{name}' is not one of: "):
                kind(inference=cf.Inference(name))
    assert set(MLE.methods()) == {name for name, method in METHODS.items() if method.marginals}


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: MLE("max-product"), ValueError, "method='max-product' is not one of"),
        (lambda: CD(k=0), ValueError, "k=0 is outside"),
        (lambda: CD(start="middle"), ValueError, "start='middle' is not one of: 'data', 'random', 'logistic'"),
        (lambda: CD(k=1.5), TypeError, "k=1.5 must be an integer"),
        (lambda: PercLoss(k=0), ValueError, "k=0"),
        (lambda: MLE(cf.Inference(init="visible")), ValueError, "init='visible' is for mean-field"),
        (lambda: MSSVM(cf.Inference("mixed-product", damping=1)), ValueError, "damping=1"),
        (lambda: MLE(cf.Inference(damping=1 - 1e-12)), ValueError, "is 1 in float32; take a smaller one"),
        (lambda: MLE(cf.Inference(max_iter=0)), ValueError, "max_iter=0"),
        (lambda: MLE(cf.Inference(tol=-1)), ValueError, "tol=-1"),
        (lambda: MLE("bp"), ValueError, "method='bp' is not one of: 'sum-product', 'mean-field'"),
        (lambda: MLE(3), TypeError, "inference=3 must be an Inference or the name of a method"),
        (lambda: MLE(max_iter=3), TypeError, "unexpected keyword argument 'max_iter'"),
        (lambda: Logistic(cf.Inference()), TypeError, "positional argument"),
        (lambda: as_learner("bp"), ValueError, "learner='bp' is not one of: 'mle', 'cd'"),
    ],
)
def test_bad_options(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


# --- a planted problem --------------------------------------------------------------------------------------------


def planted(seed, N=4000, nv=24, patterns=16, flips=0.15):
    """Outputs are one of 2 x 16 patterns, a pattern and its complement, so pairs of outputs are nearly uncorrelated and
    a linear predictor can use little but the noisy copy of the output itself; features are outputs with 15 % flipped.
    The best possible error is 2 %."""
    rng = np.random.default_rng(seed)
    P = rng.random((patterns, nv)) < 0.5
    P = np.vstack((P, ~P))
    V = P[rng.integers(len(P), size=N + 1000)]
    X = V ^ (rng.random(V.shape) < flips)
    return X[:N], V[:N], X[N:], V[N:]


def error(learner, seed, learning_rate=0.01, epochs=25):
    X, V, X_test, V_test = planted(seed)
    model = cf.CRBM(24, 32, 24, scale=0.1, seed=seed)
    cf.train(model, X, V, learner, epochs=epochs, learning_rate=learning_rate, validation=0.2, seed=seed)
    return np.mean(model.predict(X_test) != V_test)


SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_learners_beat_logistic_regression_on_planted_structure(seed):
    logistic = error("logistic", seed)
    assert 0.08 < logistic < 0.12
    for learner in (CD(), CD(k=5, start="random"), CD(k=5, start="logistic"), PCD(k=5), MLE("tap"), MSSVM(), LSSVM()):
        assert error(learner, seed) < 0.65 * logistic, learner
    assert error("percloss", seed, learning_rate=0.03) < 0.85 * logistic


@pytest.mark.parametrize("seed", SEEDS)
def test_sum_product_beats_mean_field_on_planted_structure(seed):
    bp, mf, logistic = error(MLE(), seed), error(MLE("mean-field"), seed), error("logistic", seed)
    assert bp < 0.5 * logistic
    assert mf < 0.65 * logistic
    assert bp < 0.9 * mf
