"""The scikit-learn estimators: its own checks, its tools around them, and that they learn."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import crbm_fast as cf
from crbm_fast.estimators import CRBMClassifier, RBMTransformer
from crbm_fast.learners import CD, MLE, PCD
from crbm_fast.optimizers import SGD

QUICK = {"n_hidden": 8, "epochs": 20, "learning_rate": 0.05, "random_state": 0}


@pytest.fixture(scope="module")
def labels():
    """Standardised features and five labels of 200 instances."""
    X, Y = make_multilabel_classification(200, 12, n_classes=5, random_state=3)
    return StandardScaler().fit_transform(X), Y


@pytest.fixture(scope="module")
def grey():
    """Grey levels in [0, 1]: 300 digits of 8 by 8 pixels."""
    return load_digits().data[:300] / 16


# --- scikit-learn's checks --------------------------------------------------------------------------------------------


def expected_failures(estimator):
    """Those scikit-learn expects of its BernoulliRBM: the feature that score_samples flips is drawn per row."""
    if isinstance(estimator, CRBMClassifier):
        return {}
    reason = "score_samples is random"
    return dict.fromkeys(("check_methods_subset_invariance", "check_methods_sample_order_invariance"), reason)


@parametrize_with_checks(
    [CRBMClassifier(**QUICK, learner="mle"), RBMTransformer(), RBMTransformer(learner="mle", optimizer="adam")],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        CRBMClassifier(),
        CRBMClassifier(**QUICK, learner="pcd", start="logistic", optimizer="sgd", centering="features", averaging=0.99),
    ]
)
def test_scikit_learn_with_other_options(estimator, check):
    check(estimator)


def test_scikit_learn_is_imported_only_by_the_estimators(tmp_path):
    code = (
        "import sys, crbm_fast; assert not any(m.startswith('sklearn') for m in sys.modules);"
        "sys.modules['sklearn'] = None\n"
        "try: import crbm_fast.estimators\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert 'pip install "crbm_fast[sklearn]"' in run.stdout


# --- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_X_is_dense_X(labels, grey, sparse):
    X, Y = labels
    X = np.where(X > 0.5, X, 0)
    dense, other = CRBMClassifier(**QUICK).fit(X, Y), CRBMClassifier(**QUICK).fit(sparse(X), Y)
    np.testing.assert_allclose(other.predict_proba(sparse(X)), dense.predict_proba(X), rtol=1e-6)
    dense, other = (RBMTransformer(7, n_iter=2, random_state=0).fit(V) for V in (grey, sparse(grey)))
    np.testing.assert_array_equal(other.components_, dense.components_)
    np.testing.assert_array_equal(other.transform(sparse(grey)), dense.transform(grey))
    np.testing.assert_array_equal(other.score_samples(sparse(grey)), dense.score_samples(grey))


@pytest.mark.parametrize("learner", ["mssvm", "pcd", CD(k=2)])
def test_random_state_decides_and_threads_do_not(labels, grey, learner):
    X, Y = labels
    first = CRBMClassifier(**QUICK, learner=learner).fit(X, Y)
    again = CRBMClassifier(**QUICK, learner=learner, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
    other = clone(first).set_params(random_state=1).fit(X, Y)
    assert (other.predict_proba(X) != first.predict_proba(X)).any()
    if learner != "mssvm":
        a, b, c = (RBMTransformer(7, n_iter=2, learner=learner, random_state=s).fit(grey) for s in (0, 0, 1))
        np.testing.assert_array_equal(a.components_, b.components_)
        assert (a.components_ != c.components_).any()


def test_clone_and_pickle(labels, grey):
    X, Y = labels
    classifier = CRBMClassifier(
        **QUICK, learner=MLE(cf.Inference(damping=0.2)), optimizer=SGD(momentum=0.5)
    ).partial_fit(X, Y)
    assert clone(classifier).get_params() == classifier.get_params()
    assert not hasattr(clone(classifier), "model_")
    transformer = RBMTransformer(7, learner=PCD(k=2), random_state=0).partial_fit(grey)
    restored, rbm = pickle.loads(pickle.dumps((classifier, transformer)))
    np.testing.assert_array_equal(restored.predict_proba(X), classifier.predict_proba(X))
    np.testing.assert_array_equal(rbm.transform(grey), transformer.transform(grey))
    # training goes on from a pickle as if nothing had happened
    np.testing.assert_array_equal(restored.partial_fit(X, Y).model_.W_vh, classifier.partial_fit(X, Y).model_.W_vh)
    np.testing.assert_array_equal(rbm.partial_fit(grey).components_, transformer.partial_fit(grey).components_)


def test_pipeline(grey):
    y = load_digits().target[:300] % 2
    pipeline = make_pipeline(RBMTransformer(20, n_iter=5, random_state=0), StandardScaler(), CRBMClassifier(**QUICK))
    assert cross_val_score(pipeline, grey, y, cv=3).mean() > 0.8
    names = pipeline[0].fit(grey).get_feature_names_out()
    assert list(names[:2]) == ["rbmtransformer0", "rbmtransformer1"]


@pytest.mark.parametrize("kind", [CRBMClassifier, RBMTransformer])
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"learner": "backprop"}, ValueError, "learner='backprop' is not one of"),
        ({"learner": 3}, ValueError, "learner=3 is not one of"),
        ({"optimizer": "lbfgs"}, ValueError, "optimizer='lbfgs' is not one of"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate=-1 is outside"),
        ({"batch_size": 0}, ValueError, "batch_size=0 is outside"),
        ({"weight_decay": -1.0}, ValueError, "weight_decay=-1 is outside"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0 is outside"),
        ({"n_hidden": 2.5, "n_components": 2.5}, TypeError, r"=2.5 must be an integer"),
        ({"epochs": 0, "n_iter": -1}, ValueError, "is outside"),
    ],
)
def test_bad_parameters(kind, parameters, error, message, labels):
    X, Y = labels
    known = kind().get_params()
    estimator = kind(**{name: value for name, value in parameters.items() if name in known})
    for fit in (estimator.fit, estimator.partial_fit):
        with pytest.raises(error, match=message):
            fit(X, Y)
        # and what was not fitted says so
        with pytest.raises(NotFittedError):
            getattr(estimator, "predict" if kind is CRBMClassifier else "transform")(X)


def test_fit_hands_its_options_to_train(labels):
    X, Y = labels
    options = {
        "centering": "features",
        "averaging": 0.9,
        "rates": {"W_vx": 0.5},
        "start": "logistic",
        "schedule": "linear",
    }
    fitted = CRBMClassifier(**QUICK, learner="mle", **options).fit(X, Y)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    model = cf.CRBM(5, 8, 12, seed=seed, dtype="float64")
    cf.train(model, X, Y, "mle", epochs=20, batch_size=16, learning_rate=0.05, weight_decay=0.001, seed=seed, **options)
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(fitted.model_.parameters()[name], p)


@pytest.mark.parametrize("kind", [CRBMClassifier, RBMTransformer])
def test_divergence_leaves_the_last_good_model(kind, labels):
    X, Y = labels
    estimator = kind(learning_rate=0.01, random_state=0).partial_fit(X, Y)
    before = {name: p.copy() for name, p in estimator.model_.parameters().items()}
    with pytest.raises(cf.DivergenceError, match=r"Lower learning_rate \(1e\+06\)"):
        estimator.set_params(learning_rate=1e6).partial_fit(X, Y)
    with pytest.raises(cf.DivergenceError, match="scale the features"):
        estimator.set_params(learning_rate=0.01).partial_fit(1e160 * X, Y)
    for name, p in estimator.model_.parameters().items():
        np.testing.assert_array_equal(p, before[name])
    # the infinite gradient is forgotten: all parameters go on learning
    estimator.partial_fit(X, Y)
    assert all((p != before[name]).all() for name, p in estimator.model_.parameters().items())
    assert len(estimator.history_) == 2


def test_threads_are_asked_for(labels):
    X, Y = labels
    classifier = CRBMClassifier(**QUICK).fit(X, Y)
    for n_jobs, n_threads in ((None, 1), (-1, None), (2, 2)):
        classifier.set_params(n_jobs=n_jobs).predict(X)
        assert classifier.model_.n_threads == n_threads


def test_not_a_number_is_refused(labels, grey):
    X, Y = labels
    hole = np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        CRBMClassifier().fit(hole, Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        CRBMClassifier().fit(X, np.where(X[:, :2] > 0, np.nan, 1))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        RBMTransformer().fit(hole)


# --- CRBMClassifier ---------------------------------------------------------------------------------------------------


def topics(rng, N):
    """Each instance has one of four topics, about which x says a little; a topic brings its own set of six labels."""
    X = rng.normal(size=(N, 5))
    topic = (X @ np.random.default_rng(0).normal(size=(5, 4)) + rng.gumbel(size=(N, 4))).argmax(axis=1)
    sets = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 1]])
    return X, sets[topic] ^ (rng.random((N, 6)) < 0.03)


def test_coupled_labels_are_predicted_better_than_one_by_one():
    rng = np.random.default_rng(7)
    X, Y = topics(rng, 1000)
    X_test, Y_test = topics(rng, 2000)
    separate = MultiOutputClassifier(LogisticRegression()).fit(X, Y)
    together = CRBMClassifier(random_state=7).fit(X, Y)
    # without damping, with these seeds, BP ceased to converge, the weights grew without end, and the score was 0.02
    assert together.history_[-1].converged > 0.9
    # one standard error is 0.01; seen over seeds: 0.35 against 0.45 to 0.49
    assert together.score(X_test, Y_test) > separate.score(X_test, Y_test) + 0.06
    # and not at the cost of the single labels
    assert (together.predict(X_test) != Y_test).mean() < (separate.predict(X_test) != Y_test).mean() + 0.01
    # the joint distribution: 3.4 nats with independent labels, 2.0 with coupled ones
    P = np.stack([p[:, 1] for p in separate.predict_proba(X_test)], axis=1)
    nats = -np.log(np.where(Y_test, P, 1 - P)).sum(axis=1).mean()
    model = CRBMClassifier(16, learner="cd", epochs=20, random_state=7).fit(X, Y).model_
    assert -model.log_likelihood(Y_test, X_test, method="exact").mean() < nats - 1


def test_grid_search(labels):
    X, Y = labels
    grid = {"n_hidden": [0, 4], "learner": [None, MLE("mean-field")]}
    search = GridSearchCV(CRBMClassifier(**QUICK), grid, cv=2, n_jobs=2, scoring="roc_auc").fit(X, Y)
    assert search.best_score_ > 0.75
    assert search.predict(X).shape == Y.shape
    # no worker used other numbers
    again = GridSearchCV(CRBMClassifier(**QUICK), grid, cv=2, scoring="roc_auc").fit(X, Y)
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_labels_of_any_format(labels):
    X, Y = labels
    want = CRBMClassifier(**QUICK).fit(X, Y)
    assert want.predict(X).dtype == Y.dtype
    np.testing.assert_array_equal(want.classes_, np.arange(5))
    np.testing.assert_array_equal(want.predict(X), want.predict_proba(X) > 0.5)
    assert want.score(X, Y) == (want.predict(X) == Y).all(axis=1).mean()
    sets = [np.flatnonzero(y) for y in Y]
    sparse = MultiLabelBinarizer(sparse_output=True).fit_transform(sets)
    for other in (Y.astype(bool), Y.astype(float), Y.tolist(), Y.astype(object), sparse):
        got = CRBMClassifier(**QUICK).fit(X, other)
        np.testing.assert_array_equal(got.predict_proba(X), want.predict_proba(X))


def test_two_classes(labels):
    X, Y = labels
    y = np.array(["no", "yes"])[Y[:, 0]]
    classifier = CRBMClassifier(**QUICK).fit(X, y)
    np.testing.assert_array_equal(classifier.classes_, ["no", "yes"])
    P = classifier.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[P.argmax(axis=1)])
    assert classifier.score(X, y) > 0.8
    # and with help, more
    three = OneVsRestClassifier(CRBMClassifier(**QUICK)).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    assert three.score(X, np.digitize(X[:, 0], [-0.5, 0.5])) > 0.6


def test_probabilities_out_of_fold(labels):
    """cross_val_predict puts the columns where `classes_` says."""
    X, Y = labels
    P = cross_val_predict(CRBMClassifier(**QUICK), X, Y, cv=3, method="predict_proba")
    assert P.shape == Y.shape
    assert ((P > 0.5) == Y).mean() > 0.7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y: Y * 2 - 1, r"y has the entry .*-1.*; expected a column of 0 and 1 per label, which .*MultiLabelBin"),
        (lambda Y: Y + 1, r"y has the entry .*2"),
        (lambda Y: Y * 0.5, r"y has the entry .*0\.5"),
        (lambda Y: np.array(["a", "b"])[Y], r"y has the entry .*'[ab]'"),
        (lambda Y: Y.sum(axis=1), r"Only binary classification is supported. y has \d classes; .*OneVsRestClassifier"),
        (lambda Y: np.ones(len(Y)), "y has 1 class; expected 2"),
        (lambda Y: Y[:, 0] + 0.5, "Unknown label type"),
        (lambda Y: Y[:-1], "inconsistent numbers of samples"),
        (lambda Y: None, "requires y to be passed"),
    ],
)
def test_bad_labels(labels, change, message):
    X, Y = labels
    with pytest.raises(ValueError, match=message):
        CRBMClassifier().fit(X, change(Y))


@pytest.mark.parametrize("learner", ["mle", "mssvm", "cd"])
def test_partial_fit_is_an_epoch(labels, learner):
    """k calls with all data are k epochs of `fit`, to the bit."""
    X, Y = labels
    whole = CRBMClassifier(**QUICK | {"epochs": 3}, learner=learner).fit(X, Y)
    steps = CRBMClassifier(**QUICK | {"epochs": 3}, learner=learner)
    for _ in range(3):
        steps.partial_fit(X, Y)
    np.testing.assert_array_equal(steps.predict_proba(X), whole.predict_proba(X))
    assert steps.history_.column("train_error") == whole.history_.column("train_error")
    assert steps.model_.inference == whole.model_.inference
    # later calls go on, without more and more iterations
    before = steps.model_.W_vh.copy()
    steps.partial_fit(X, Y)
    assert (steps.model_.W_vh != before).any()
    assert steps.model_.inference == whole.model_.inference


def test_partial_fit_learns_from_a_stream(rng):
    """As well as from an epoch over the whole, in as many steps."""
    X, Y = topics(rng, 2000)
    X_test, Y_test = topics(rng, 1000)
    stream = CRBMClassifier(batch_size=10, random_state=0)
    for first in range(0, 2000, 50):
        stream.partial_fit(X[first : first + 50], Y[first : first + 50])
    whole = CRBMClassifier(batch_size=10, epochs=1, random_state=0).fit(X, Y)
    error, want = ((classifier.predict(X_test) != Y_test).mean() for classifier in (stream, whole))
    assert error < want + 0.02  # seen: 0.28 to 0.30 both; 0.44 without looking at x
    assert stream.history_[-1].epoch == 40


def test_partial_fit_after_fit_and_with_other_parameters(labels):
    X, Y = labels
    classifier = CRBMClassifier(**QUICK, validation_fraction=0.2, patience=2).fit(X, Y)
    assert classifier.history_.best_epoch is not None
    assert len(classifier.history_) < 20
    epochs = len(classifier.history_)
    for parameters in ({}, {"optimizer": "sgd"}, {"learner": "pcd"}, {"learner": "logistic"}, {"batch_size": 7}):
        classifier.set_params(**parameters).partial_fit(X, Y)
        epochs += 1
        assert len(classifier.history_) == epochs
    assert classifier.history_.best_epoch is None  # the model has moved on


def test_partial_fit_keeps_its_labels(labels):
    X, Y = labels
    y = np.array(["no", "yes"])[Y[:, 0]]
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        CRBMClassifier().partial_fit(X, y)
    classifier = CRBMClassifier(**QUICK).partial_fit(X[y == "no"], y[y == "no"], classes=["yes", "no"])
    np.testing.assert_array_equal(classifier.classes_, ["no", "yes"])
    with pytest.raises(ValueError, match=r"y has the class .*'maybe'.*; expected one of"):
        classifier.partial_fit(X, np.where(y == "no", "maybe", "yes"))
    with pytest.raises(ValueError, match="y has 5 labels; expected 1"):
        classifier.partial_fit(X, Y)
    with pytest.raises(ValueError, match="y has 4 labels; expected 5"):
        CRBMClassifier(**QUICK).partial_fit(X, Y).partial_fit(X, Y[:, :4])


def test_early_stopping(labels):
    X, Y = labels
    with pytest.raises(ValueError, match=r"validation_fraction=1.5 is outside \[0, 1\)"):
        CRBMClassifier(validation_fraction=1.5).fit(X, Y)
    with pytest.raises(ValueError, match="patience needs validation"):
        CRBMClassifier(patience=2).fit(X, Y)
    classifier = CRBMClassifier(**QUICK, validation_fraction=0.3, patience=3).fit(X, Y)
    errors = classifier.history_.column("valid_error")
    assert classifier.history_.best_epoch == 1 + int(np.argmin(errors)) == len(errors) - 3


def test_the_model_is_there(labels):
    """What the estimator has no word for: labels that are known."""
    X, Y = labels
    model = CRBMClassifier(**QUICK, dtype="float32").fit(X, Y).model_
    assert isinstance(model, cf.CRBM)
    assert (model.nv, model.nh, model.nx, model.dtype) == (5, 8, 12, np.float32)
    known = np.arange(5) < 2
    np.testing.assert_array_equal(model.predict(X, evidence=(known, Y))[:, :2], Y[:, :2])


# --- RBMTransformer ---------------------------------------------------------------------------------------------------


def twin(rbm, random_state):
    """A BernoulliRBM with the same parameters."""
    other = BernoulliRBM(rbm.n_components, random_state=random_state)
    for name in ("components_", "intercept_hidden_", "intercept_visible_", "n_features_in_"):
        setattr(other, name, getattr(rbm, name))
    return other


def test_same_parameters_same_numbers_as_BernoulliRBM(grey):
    rbm = RBMTransformer(9, n_iter=3, random_state=5).fit(grey)
    other = twin(rbm, 5)
    assert rbm.components_.shape == (9, 64)
    np.testing.assert_allclose(rbm.transform(grey), other.transform(grey), rtol=1e-12)
    states = (grey > 0.5).astype(float)
    np.testing.assert_allclose(rbm.score_samples(states), other.score_samples(states), rtol=1e-9)
    np.testing.assert_allclose(rbm.score_samples(grey), other.score_samples(grey), rtol=1e-9)
    # the same draws from the same generator
    other.random_state_ = pickle.loads(pickle.dumps(rbm.random_state_))
    v = w = grey
    for _ in range(3):
        v, w = rbm.gibbs(v), other.gibbs(w)
        np.testing.assert_array_equal(v, w)
    assert v.dtype == np.bool_


@pytest.mark.parametrize("learner", ["pcd", "cd", "mle"])
def test_learns_grey_levels_as_well_as_BernoulliRBM(grey, learner):
    """Exact log-likelihood of digits not seen, with few enough hidden units to sum over."""
    states = grey[200:] > 0.5
    ours, theirs = [], []
    for seed in range(3):
        rbm = RBMTransformer(10, n_iter=40, learner=learner, random_state=seed).fit(grey[:200])
        other = BernoulliRBM(10, n_iter=40, random_state=seed).fit(grey[:200])
        ours.append(rbm.model_.log_likelihood(states, method="exact").mean())
        b = {"b_v": other.intercept_visible_, "b_h": other.intercept_hidden_}
        theirs.append(cf.RBM.from_parameters(other.components_.T, **b).log_likelihood(states, method="exact").mean())
    # both -22.5 or so, 0.4 more or less from seed to seed; independent pixels -24.4
    assert np.mean(ours) > np.mean(theirs) - 0.7
    p = grey[:200].mean(axis=0).clip(0.01, 0.99)
    assert np.mean(ours) > np.log(np.where(states, p, 1 - p)).sum(axis=1).mean() + 1
    shuffled = np.random.default_rng(0).permuted(states, axis=1)
    assert rbm.score_samples(states).mean() > rbm.score_samples(shuffled).mean() + 10


@pytest.mark.parametrize("learner", ["pcd", "cd", "mle"])
def test_partial_fit_of_an_RBM_is_an_epoch(grey, learner):
    whole = RBMTransformer(6, n_iter=3, learner=learner, optimizer="adam", random_state=0).fit(grey)
    steps = RBMTransformer(6, n_iter=3, learner=learner, optimizer="adam", random_state=0)
    for _ in range(3):
        steps.partial_fit(grey)
    np.testing.assert_array_equal(steps.components_, whole.components_)
    # also after `fit`
    np.testing.assert_array_equal(steps.partial_fit(grey).components_, whole.partial_fit(grey).components_)
    # other batches, other chains
    steps.set_params(batch_size=30).partial_fit(grey[:50])
    assert len(steps.history_) == 5


def test_precision_is_that_of_X(grey):
    for dtype, want in (("float32", "float32"), ("float64", "float64"), ("uint8", "float64")):
        rbm = RBMTransformer(4, n_iter=1, random_state=0).fit(grey.astype(dtype))
        assert rbm.components_.dtype == rbm.transform(grey.astype(dtype)).dtype == want


def test_sgd_is_plain(grey):
    """As in BernoulliRBM: no momentum, and 0.1."""
    plain = RBMTransformer(4, n_iter=2, optimizer=SGD(learning_rate=0.1, momentum=0.0), random_state=0).fit(grey)
    np.testing.assert_array_equal(RBMTransformer(4, n_iter=2, random_state=0).fit(grey).components_, plain.components_)
    with pytest.raises(ValueError, match="learner='mssvm' is not one of: 'pcd', 'cd', 'mle'"):
        RBMTransformer(learner="mssvm").fit(grey)


def test_progress(grey, labels, capsys):
    RBMTransformer(4, n_iter=2, verbose=1).fit(grey)
    CRBMClassifier(**QUICK, verbose=True).partial_fit(*labels)
    err = capsys.readouterr().err
    assert "pcd: 100%" in err
    assert "mssvm: 100%" in err
