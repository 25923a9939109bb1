"""CRBMClassifier: a conditional RBM as a multi-label classifier of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from crbm_fast import _validation as check
from crbm_fast.estimators.shared import TrainedEstimator, as_dense, draw_seed, threads
from crbm_fast.learners import MSSVM, Learner, as_learner
from crbm_fast.model import CRBM
from crbm_fast.optimizers import Optimizer
from crbm_fast.training.options import Options, documented
from crbm_fast.training.run import Run
from crbm_fast.training.train import check_pair, split, train

# What CRBMClassifier learns with unless told otherwise.  Where labels have several likely states given x ("topics" of
# tests/learning/test_classifier.py) BP ceases to converge as the weights grow, and without its fallback they run away,
# in 1 of 12 fits of 50 epochs.  With it they do in none of 12, nor of 2 of 200 epochs, and the labels are as good as
# with a damping of 0.5.
_LEARNER = MSSVM()


@documented
class CRBMClassifier(ClassifierMixin, TrainedEstimator):  # type: ignore[misc]
    """Multi-label classifier: a conditional RBM, whose hidden units let the labels depend on each other given x.

    Parameters
    ----------
    n_hidden : int
        Number of hidden units.  With 0 the labels are independent given x.
    learner : str or crbm_fast.learners.Learner, optional
        "mssvm", "lssvm", "mle", "cd", "pcd", "percloss" or "logistic", or an object such as `learners.CD(k=10)`,
        `learners.MLE(Inference("sum-product", damping=0.5))`.  None: "mssvm", which aims at few wrong labels; "mle"
        aims at their probabilities.
    {epochs}
    {batch_size}
    {learning_rate}
    {optimizer}
    {schedule}
    {weight_decay}
    {rates}
    {centering}
    {averaging}
    validation_fraction : float between 0 and 1, optional
        Part of the data that is set aside; the model ends with the parameters of the epoch that had the fewest wrong
        labels there.
    {patience}
    {start}
    dtype : {"float32", "float64"}
        Precision of the model; float32 takes half the memory and less time.
    n_jobs : int, optional
        Threads; None: one, -1: as many as this process has cores.  Results have the same bits for any number.
    random_state : int, RandomState instance or None
        Of the initial weights, the order of the instances and the learner's draws.
    verbose : bool
        Show a progress bar, by tqdm.

    Attributes
    ----------
    model_ : crbm_fast.CRBM
        The model: predictions given some of the labels, samples and likelihoods are there.
    history_ : crbm_fast.History
        What happened in each epoch; a call to `partial_fit` is one.
    classes_ : (n_labels,) or (2,) ndarray
        The columns 0 ... n_labels - 1 of y; for a 1-D y its two classes.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the names of the features are all strings.

    See Also
    --------
    sklearn.preprocessing.MultiLabelBinarizer : turns sets of labels into y.

    Notes
    -----
    The options of training, from `epochs` to `start`, are those of `crbm_fast.train`; some defaults differ.

    Features should be standardised.  Much data may want larger batches and fewer epochs; `validation_fraction` with
    `patience` finds out how many.

    `score` is scikit-learn's for classifiers, for several labels the subset accuracy: the fraction of instances all of
    whose labels are right.  `sklearn.metrics` has milder ones, such as `hamming_loss` and `f1_score`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from crbm_fast.estimators import CRBMClassifier
    >>> X, y = make_multilabel_classification(random_state=0)
    >>> classifier = make_pipeline(StandardScaler(), CRBMClassifier(random_state=0)).fit(X, y)
    >>> classifier.predict(X).shape
    (100, 5)
    """

    classes_: NDArray[Any]
    _seed: int

    def __init__(
        self,
        n_hidden: int = 64,
        *,
        learner: str | Learner | None = None,
        epochs: int = 50,
        batch_size: int = 16,
        learning_rate: float | None = 0.01,
        optimizer: str | Optimizer = Options.optimizer,
        schedule: str | Callable[[int, int], float] = Options.schedule,
        weight_decay: float = 0.001,
        rates: Mapping[str, float] | None = Options.rates,
        centering: str | None = Options.centering,
        averaging: float | None = Options.averaging,
        validation_fraction: float | None = None,
        patience: int | None = Options.patience,
        start: str | None = Options.start,
        dtype: str = "float64",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_hidden = n_hidden
        self.learner = learner
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.rates = rates
        self.centering = centering
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.start = start
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a new model.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or sparse matrix
        y : (n_samples, n_labels) array-like or sparse matrix of 0 and 1, or (n_samples,) array-like of two classes
            Which labels each instance has.

        Returns
        -------
        self
        """
        X, V, classes = self._check(X, y, None, reset=True)
        model, seed = self._new_model(V)
        options = self._training_options(seed)
        history = train(model, X, V, self._learner(), **vars(options))
        self.classes_, self._seed = classes, seed
        return self._keep(model, history, None)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go once over the data given, from where earlier calls of `fit` or `partial_fit` have led.

        A call is an epoch: k calls with the same data do what `fit` does with epochs=k, whatever the options, but that
        "pcd" starts its chains, which belong to instances, anew.  After a `fit` the optimizer, the average and the
        best epoch begin anew.  In a stream, where each call brings other data, this means:

        - epochs: from call number `epochs` on `schedule` stays at its last factor, and inference gets no more
          iterations.
        - optimizer, averaging: what they remember goes from call to call.
        - centering: the means are those of the data of the first call; any means give the same model, though not the
          same steps.
        - start: the quick logistic fit is one of the data of the first call.
        - validation_fraction: this part of the data of each call is set aside, and the model has the parameters of the
          call that had the fewest wrong labels there, while training goes on from the latest ones.  The errors of
          different calls compare only as far as their data do.
        - patience: after this many calls without fewer wrong labels, further calls change nothing, and warn.

        A parameter that was changed by `set_params` takes effect in the next call; what no longer fits it, such as the
        memory of another optimizer, begins anew.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or sparse matrix
        y : (n_samples, n_labels) array-like or sparse matrix of 0 and 1, or (n_samples,) array-like of two classes
        classes : (2,) array-like, optional
            The two classes, in the first call with a 1-D y.

        Returns
        -------
        self
        """
        first = not hasattr(self, "model_")
        if first and classes is None and np.ndim(y) == 1:
            raise ValueError("classes must be given in the first call of partial_fit with a 1-D y")
        X, V, classes = self._check(X, y, classes, reset=first)
        model, seed = self._new_model(V) if first else (self.model_, self._seed)
        model.n_threads = threads(self.n_jobs)
        options = self._training_options(seed)
        run = Run(model, self._learner(), options, *split(model, check_pair(model, X, V), options))
        self._run_epochs(run, 1, new=first)
        self.classes_, self._seed = classes, seed
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """P(label | x) for every label, (n_samples, n_labels); for a 1-D y of its two classes, (n_samples, 2).

        After MSSVM and LSSVM normalised max-marginals: the best labelling with the label against the best without.
        They are not calibrated; "mle", "cd" and "pcd" lead to estimates of the probabilities.
        """
        X = self._features(X)
        P = self.model_.predict_proba(X)
        return np.hstack((1 - P, P)) if P.shape[1] == 1 else P

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely labels as 0 and 1, (n_samples, n_labels); for a 1-D y the classes, (n_samples,).

        Each label's most likely state; after MSSVM and LSSVM the most likely labelling as a whole.
        """
        X = self._features(X)
        V = self.model_.predict(X)
        labels: NDArray[Any] = self.classes_[V[:, 0]] if V.shape[1] == 1 else V.astype(int)
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def _learner(self) -> Learner:
        return _LEARNER if self.learner is None else as_learner(self.learner)

    def _new_model(self, V: NDArray[Any]) -> tuple[CRBM, int]:
        """A model with initial parameters, and its seed."""
        nh, seed = check.check_int("n_hidden", self.n_hidden, 0), draw_seed(check_random_state(self.random_state))
        sizes = V.shape[1], nh, self.n_features_in_
        return CRBM(*sizes, seed=seed, dtype=self.dtype, n_threads=threads(self.n_jobs)), seed

    def _training_options(self, seed: int) -> Options:
        check.check_int("epochs", self.epochs, 1)
        if self.validation_fraction is not None:
            check.check_real("validation_fraction", self.validation_fraction, 0, 1)
        return self._options(validation=self.validation_fraction, seed=seed)

    def _features(self, X: Any) -> Any:
        """X of a prediction, after its checks."""
        check_is_fitted(self, "model_")
        self.model_.n_threads = threads(self.n_jobs)
        return validate_data(self, X, accept_sparse="csr", reset=False)

    def _check(self, X: Any, y: Any, classes: Any, *, reset: bool) -> tuple[Any, NDArray[np.bool_], NDArray[Any]]:
        """X; V (N, nv), a column per label, or for a 1-D y one that says whether it is the second class; `classes_`."""
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, reset=reset)
        y = as_dense(y)
        nv = y.shape[1] if y.ndim == 2 else 1
        if not reset and nv != self.model_.nv:
            raise ValueError(f"y has {nv} labels; expected {self.model_.nv}, as in earlier calls")
        if nv > 1:
            wrong = y[(y != 0) & (y != 1)]
            if wrong.size:
                raise ValueError(
                    f"y has the entry {wrong[0]!r}; expected a column of 0 and 1 per label, which "
                    "sklearn.preprocessing.MultiLabelBinarizer makes of sets of labels"
                )
            return X, y == 1, np.arange(nv)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes = np.unique(y if classes is None else classes) if reset else self.classes_
        n = len(classes)
        if n != 2:
            raise ValueError(
                f"Only binary classification is supported. y has {n} class{'' if n == 1 else 'es'}; expected 2, or a "
                "column of 0 and 1 per label. For more classes try sklearn.multiclass.OneVsRestClassifier"
            )
        unknown = np.setdiff1d(y, classes)
        if unknown.size:
            raise ValueError(f"y has the class {unknown[0]!r}; expected one of {classes}")
        return X, (y == classes[1])[:, np.newaxis], classes
