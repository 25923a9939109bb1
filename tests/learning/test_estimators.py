"""Both scikit-learn estimators: its own checks, its tools around them, bad parameters, divergence."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from helpers.estimators import QUICK, grey_levels, labelled
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import crbm_fast as cf
from crbm_fast.estimators import CRBMClassifier, RBMTransformer
from crbm_fast.learners import CD, MLE, PCD
from crbm_fast.optimizers import SGD


@pytest.fixture(scope="module")
def labels():
    return labelled()


@pytest.fixture(scope="module")
def grey():
    return grey_levels()


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
    """Checks that do not apply, of the array API or of decision_function, are skipped."""
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
def test_random_state_decides_and_threads_do_not(labels, learner):
    X, Y = labels
    first = CRBMClassifier(**QUICK, learner=learner).fit(X, Y)
    again = CRBMClassifier(**QUICK, learner=learner, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
    other = clone(first).set_params(random_state=1).fit(X, Y)
    assert (other.predict_proba(X) != first.predict_proba(X)).any()


@pytest.mark.parametrize("learner", ["pcd", CD(k=2)])
def test_random_state_decides_about_the_transformer(grey, learner):
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
