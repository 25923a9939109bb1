"""RBMTransformer: the same numbers as BernoulliRBM for the same parameters, and as good ones."""

import pickle

import numpy as np
import pytest
from helpers.estimators import QUICK, grey_levels, labelled
from sklearn.neural_network import BernoulliRBM

import crbm_fast as cf
from crbm_fast.estimators import CRBMClassifier, RBMTransformer
from crbm_fast.optimizers import SGD


@pytest.fixture(scope="module")
def labels():
    return labelled()


@pytest.fixture(scope="module")
def grey():
    return grey_levels()


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
