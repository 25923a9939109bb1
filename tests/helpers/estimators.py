"""Data for the tests of the scikit-learn estimators."""

import numpy as np
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.preprocessing import StandardScaler

# Parameters of a classifier that is quick to fit.
QUICK = {"n_hidden": 8, "epochs": 20, "learning_rate": 0.05, "random_state": 0}


def labelled():
    """Standardised features and five labels of 200 instances."""
    X, Y = make_multilabel_classification(200, 12, n_classes=5, random_state=3)
    return StandardScaler().fit_transform(X), Y


def grey_levels():
    """Grey levels in [0, 1]: 300 digits of 8 by 8 pixels."""
    return load_digits().data[:300] / 16


def topics(rng, N):
    """Each instance has one of four topics, about which x says a little; a topic brings its own set of six labels."""
    X = rng.normal(size=(N, 5))
    topic = (X @ np.random.default_rng(0).normal(size=(5, 4)) + rng.gumbel(size=(N, 4))).argmax(axis=1)
    sets = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 1]])
    return X, sets[topic] ^ (rng.random((N, 6)) < 0.03)
