"""CRBMClassifier: that it learns coupled labels, which labels it takes, and what it hands to train()."""

import numpy as np
import pytest
from helpers.estimators import QUICK, labelled, topics
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.preprocessing import MultiLabelBinarizer

import crbm_fast as cf
from crbm_fast.estimators import CRBMClassifier
from crbm_fast.learners import MLE


@pytest.fixture(scope="module")
def labels():
    return labelled()


def test_coupled_labels_are_predicted_better_than_one_by_one():
    rng = np.random.default_rng(7)
    X, Y = topics(rng, 1000)
    X_test, Y_test = topics(rng, 2000)
    separate = MultiOutputClassifier(LogisticRegression()).fit(X, Y)
    together = CRBMClassifier(random_state=7).fit(X, Y)
    # by BP without a fallback, with these seeds, the weights grew without end, and the score was 0.02
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
