"""scikit-learn estimators: a multi-label classifier and a drop-in for `sklearn.neural_network.BernoulliRBM`.

    CRBMClassifier    CRBM, its outputs are the labels       fit          ->  training.train
    RBMTransformer    RBM, its visible units the features    fit          ->  _Trained._epochs  ->  training._Run
                                                   both:     partial_fit  ->  _Trained._epochs  ->  training._Run

The only module that imports scikit-learn; nothing in the package imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Data, Matrix
from crbm_fast.inference import Inference
from crbm_fast.learners import MSSVM, Learner, as_learner
from crbm_fast.learners.base import Diverged
from crbm_fast.model import CRBM, RBM, free_energy
from crbm_fast.optimizers import SGD, Optimizer, as_optimizer
from crbm_fast.training import History, _bar, _Run, train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise ImportError(
        'crbm_fast.estimators needs scikit-learn 1.6 or later: pip install "crbm_fast[sklearn]"'
    ) from error

__all__ = ["CRBMClassifier", "RBMTransformer"]

# What CRBMClassifier learns with unless told otherwise.  Where labels have several likely states given x ("topics" of
# tests/test_estimators.py) undamped BP ceases to converge as the weights grow, and they run away: MSSVM's in 1 of 12
# fits of 50 epochs, with damping 0.25 in 2 of 2 of 200 epochs, with 0.5 in none of either.
_LEARNER = MSSVM(Inference("mixed-product", damping=0.5))


@dataclass
class _Point:
    """Where training has got to, and `partial_fit` goes on from."""

    model: CRBM
    seed: int
    history: History = field(default_factory=History)
    steps: int = 0
    optimizer_state: dict[str, NDArray[Any]] = field(default_factory=dict)
    learner_state: dict[str, NDArray[Any]] = field(default_factory=dict)


class _Trained(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: a model that is trained epoch by epoch."""

    def _keep(self, point: _Point) -> Self:
        self._point, self.model_, self.history_ = point, point.model, point.history
        return self

    def _epochs(
        self, point: _Point, n: int, X: Matrix | None, V: Matrix, learner: Learner, optimizer: Optimizer, of: int
    ) -> _Point:
        """The point n epochs later; after epoch `of` the iterations of inference stay the same."""
        model, done = point.model, len(point.history)
        if done >= of and learner.inference != learner.inference_in(of):  # else 7 + epoch, without end in a stream
            learner = replace(learner, inference=learner.inference_in(of))  # type: ignore[type-var]
        model.n_threads = _threads(self.n_jobs)
        run = _Run(
            model,
            learner,
            optimizer,
            Data(X, V, len(V)),
            None,
            check.check_int("batch_size", self.batch_size, 1),
            check.check_real("weight_decay", self.weight_decay, 0, np.inf),
            point.seed,
            epoch=done,
            history=History(point.history),
        )
        run.begin()
        if _alike(point.optimizer_state, run.optimizer_state):
            run.optimizer_state, run.steps = point.optimizer_state, point.steps
        if X is None and _alike(point.learner_state, run.learner_state):
            run.learner_state = point.learner_state  # PCD's chains; given features, each belongs to an instance
        bar = _bar(bool(self.verbose), done + n, run)
        try:
            for _ in range(n):
                run.one_epoch(1.0, bar)
        except Diverged as error:
            point.optimizer_state = {}  # it holds what the gradient was
            raise run.diverged(error) from None
        finally:
            if bar is not None:
                bar.close()
        return _Point(model, point.seed, run.history, run.steps, run.optimizer_state, run.learner_state)


class CRBMClassifier(ClassifierMixin, _Trained):  # type: ignore[misc]
    """Multi-label classifier: a conditional RBM, whose hidden units let the labels depend on each other given x.

    Parameters
    ----------
    n_hidden : int
        Number of hidden units.  With 0 the labels are independent given x.
    learner : str or crbm_fast.learners.Learner, optional
        "mssvm", "lssvm", "mle", "cd", "pcd", "percloss" or "logistic", or an object such as `learners.CD(k=10)`,
        `learners.MLE(Inference(damping=0.5))`.  None: `learners.MSSVM` with damping 0.5, which aims at
        few wrong labels; "mle" aims at their probabilities.
    epochs : int
        Passes over the data.
    batch_size : int
        Instances per step.
    learning_rate : float, optional
        None: the optimizer's own.
    optimizer : {"adam", "sgd"} or crbm_fast.optimizers.Optimizer
    schedule : {"constant", "linear", "cosine"} or callable
        Factor of the learning rate as a function of (epoch, epochs).
    weight_decay : float
        The objective is the mean over instances minus weight_decay / 2 |W|^2.
    rates : mapping of str to float, optional
        Factors of the learning rate by parameter block, such as {"W_vx": 0.05}.
    centering : {"features", "all"}, optional
        Let `fit` take its steps in centred coordinates; see `crbm_fast.train`.
    averaging : float in [0, 1), optional
        Let `fit` end with the moving average of the parameters that forgets at this rate per step.
    validation_fraction : float between 0 and 1, optional
        Part of the data given to `fit` that is set aside; the model ends with the parameters of the epoch that had the
        fewest wrong labels there.
    patience : int, optional
        Stop after this many epochs without fewer wrong labels on the part set aside.
    start : {"logistic"}, optional
        Begin `fit` by a quick logistic regression per label.
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
    Damping makes MSSVM safe, and about four times as slow as "mssvm" without it.

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

    def __init__(
        self,
        n_hidden: int = 64,
        *,
        learner: str | Learner | None = None,
        epochs: int = 50,
        batch_size: int = 16,
        learning_rate: float | None = 0.01,
        optimizer: str | Optimizer = "adam",
        schedule: str | Callable[[int, int], float] = "constant",
        weight_decay: float = 0.001,
        rates: Mapping[str, float] | None = None,
        centering: str | None = None,
        averaging: float | None = None,
        validation_fraction: float | None = None,
        patience: int | None = None,
        start: str | None = None,
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
        fraction = self.validation_fraction
        if fraction is not None:
            check.check_real("validation_fraction", fraction, 0, 1)
        point = self._start(V)
        point.history = train(
            point.model,
            X,
            V,
            self._learner(),
            epochs=check.check_int("epochs", self.epochs, 1),
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            weight_decay=self.weight_decay,
            rates=self.rates,
            centering=self.centering,
            averaging=self.averaging,
            validation=fraction,
            patience=self.patience,
            start=self.start,
            seed=point.seed,
            progress=bool(self.verbose),
        )
        self.classes_ = classes
        return self._keep(point)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go once over the data given, from where earlier calls of `fit` or `partial_fit` have led.

        The k-th call is like the k-th epoch of `fit`, with what the optimizer remembers from the calls before: k calls
        with all data do what `fit` does with epochs=k.  But "pcd" starts its chains, which belong to instances, anew;
        `schedule`, `rates`, `centering`, `averaging`, `validation_fraction`, `patience` and `start` are for `fit`
        alone; a `fit` leaves no memory of the optimizer; and from call number `epochs` on inference gets no more
        iterations.

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
        point = self._start(V) if first else self._point
        features, labels = point.model.check_features(X), Matrix("y", V, V.shape[1], point.model.dtype, "nv")
        optimizer, epochs = as_optimizer(self.optimizer, self.learning_rate), check.check_int("epochs", self.epochs, 1)
        point = self._epochs(point, 1, features, labels, self._learner(), optimizer, epochs)
        self.classes_ = classes
        return self._keep(point)

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
        return self.classes_[V[:, 0]] if V.shape[1] == 1 else V.astype(int)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def _learner(self) -> Learner:
        return _LEARNER if self.learner is None else as_learner(self.learner)

    def _start(self, V: NDArray[Any]) -> _Point:
        """A new model."""
        nh, seed = check.check_int("n_hidden", self.n_hidden, 0), _seed(check_random_state(self.random_state))
        threads = _threads(self.n_jobs)
        return _Point(CRBM(V.shape[1], nh, self.n_features_in_, seed=seed, dtype=self.dtype, n_threads=threads), seed)

    def _features(self, X: Any) -> Any:
        """X of a prediction, after its checks."""
        check_is_fitted(self, "model_")
        self.model_.n_threads = _threads(self.n_jobs)
        return validate_data(self, X, accept_sparse="csr", reset=False)

    def _check(self, X: Any, y: Any, classes: Any, *, reset: bool) -> tuple[Any, NDArray[np.bool_], NDArray[Any]]:
        """X; V (N, nv), a column per label, or for a 1-D y one that says whether it is the second class; `classes_`."""
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, reset=reset)
        y = _dense(y)
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


class RBMTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Trained):  # type: ignore[misc]
    """Restricted Boltzmann machine whose hidden units are the new features; in place of `BernoulliRBM`.

    The values of the features are taken as P(v = 1): 0 and 1, or grey levels between.  As in `BernoulliRBM`, others are
    not refused, but mean little: scale them by `sklearn.preprocessing.MinMaxScaler`.

    Parameters
    ----------
    n_components : int
        Number of hidden units.
    learning_rate : float, optional
        None: 0.1 for "sgd", as in `BernoulliRBM`, otherwise the optimizer's own.
    batch_size : int
        Instances per step, and number of the chains of "pcd".
    n_iter : int
        Passes over the data.
    learner : {"pcd", "cd", "mle"} or crbm_fast.learners.Learner
        "pcd" is stochastic maximum likelihood, which `BernoulliRBM` uses.
    optimizer : {"sgd", "adam"} or crbm_fast.optimizers.Optimizer
        "sgd" is without momentum, as in `BernoulliRBM`; with it: `optimizers.SGD(momentum=0.9)`.
    weight_decay : float
        The objective is the mean over instances minus weight_decay / 2 |W|^2.
    n_jobs : int, optional
        Threads; None: one, -1: as many as this process has cores.  Results have the same bits for any number.
    random_state : int, RandomState instance or None
        Of the initial weights, the order of the instances, the learner's draws, `gibbs` and `score_samples`.
    verbose : bool
        Show a progress bar, by tqdm.

    Attributes
    ----------
    components_ : (n_components, n_features) ndarray
    intercept_hidden_ : (n_components,) ndarray
    intercept_visible_ : (n_features,) ndarray
        The parameters: views of those of `model_`.
    model_ : crbm_fast.RBM
        The model: samples, likelihoods and beliefs are there.  In float32 if `fit` was given that, else in float64.
    history_ : crbm_fast.History
        What happened in each epoch; a call to `partial_fit` is one.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the names of the features are all strings.

    Notes
    -----
    Differences from `BernoulliRBM`: the instances come in a new random order in each pass; the chains of "pcd" start at
    data; `partial_fit` takes steps of `batch_size` instances, not one step; `verbose` shows a bar.

    Examples
    --------
    >>> import numpy as np
    >>> from crbm_fast.estimators import RBMTransformer
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> RBMTransformer(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float | None = None,
        batch_size: int = 10,
        n_iter: int = 10,
        learner: str | Learner = "pcd",
        optimizer: str | Optimizer = "sgd",
        weight_decay: float = 0.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.learner = learner
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a new model to X, (n_samples, n_features) array-like or sparse matrix; y is ignored."""
        return self._fit(X, new=True, epochs=check.check_int("n_iter", self.n_iter, 0))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go once over X, from where earlier calls of `fit` or `partial_fit` have led; y is ignored.

        The optimizer and the chains of "pcd" go on as well: k calls with all data do what `fit` does with n_iter=k.
        """
        return self._fit(X, new=not hasattr(self, "model_"), epochs=1)

    def transform(self, X: Any) -> NDArray[Any]:
        """P(h = 1 | v = X), (n_samples, n_components), in the precision of the model."""
        values = self._check(X)
        H = np.empty((len(values), self.model_.nh), self.model_.dtype)
        for at in values.chunks():
            theta = self.model_.fields_h(values.rows(at), self.model_.b_h)  # conditional_h insists on [0, 1]
            _algebra.logistic(theta)
            H[at] = theta
        return H

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """An estimate of the log-pseudo-likelihood of each instance, (n_samples,).

        n_features log P(v_i | the other features) for one feature i, drawn at random: as in `BernoulliRBM`, and the
        same numbers for the same parameters and `random_state`.  X should hold 0 and 1.
        """
        values, model = self._check(X), self.model_
        flipped = check_random_state(self.random_state).randint(0, model.nv, len(values))
        gap = np.empty(len(values))
        b1, b2 = model.biases_of(None)
        for at in values.chunks():
            v = values.rows(at)
            rival, unit = v.copy(), (np.arange(len(v)), flipped[at])
            rival[unit] = 1 - v[unit]
            # model.free_energy itself insists on 0 and 1
            F, F_rival = (free_energy(u, b1, model.fields_h(u, b2)) for u in (v, rival))
            gap[at] = F_rival - F
        score: NDArray[np.float64] = -model.nv * np.logaddexp(0, -gap)
        return score

    def gibbs(self, v: Any) -> NDArray[np.bool_]:
        """The features after one step of Gibbs sampling from v, both (n_samples, n_features); each call draws anew."""
        P = self.transform(v)
        P = self.model_.conditional_v(self.random_state_.uniform(size=P.shape) < P)
        drawn: NDArray[np.bool_] = self.random_state_.uniform(size=P.shape) < P
        return drawn

    @property
    def components_(self) -> NDArray[Any]:
        """(n_components, n_features)."""
        return self.model_.W_vh.T  # type: ignore[no-any-return]

    @property
    def intercept_hidden_(self) -> NDArray[Any]:
        """(n_components,)."""
        return self.model_.b_h  # type: ignore[no-any-return]

    @property
    def intercept_visible_(self) -> NDArray[Any]:
        """(n_features,)."""
        return self.model_.b_v  # type: ignore[no-any-return]

    @property
    def _n_features_out(self) -> int:
        return self.model_.nh

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: Any) -> _Values:
        """X of a call after `fit`, after its checks."""
        check_is_fitted(self, "model_")
        self.model_.n_threads = _threads(self.n_jobs)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return _Values(X, self.model_)

    def _fit(self, X: Any, *, new: bool, epochs: int) -> Self:
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=new)
        if not isinstance(self.learner, Learner):
            check.check_choice("learner", self.learner, ("pcd", "cd", "mle"))
        plain = SGD(learning_rate=0.1, momentum=0.0)
        optimizer = as_optimizer(plain if self.optimizer == "sgd" else self.optimizer, self.learning_rate)
        if new:
            rng = check_random_state(self.random_state)
            nh, seed = check.check_int("n_components", self.n_components, 1), _seed(rng)
            point = _Point(RBM(X.shape[1], nh, seed=seed, dtype=X.dtype, n_threads=_threads(self.n_jobs)), seed)
        else:
            rng, point = self.random_state_, self._point
        values = _Values(X, point.model)
        n_iter = max(1, check.check_int("n_iter", self.n_iter, 0))
        point = self._epochs(point, epochs, None, values, as_learner(self.learner), optimizer, n_iter)
        self.random_state_: Any = rng
        return self._keep(point)


# --- shared -------------------------------------------------------------------------------------------------------


class _Values(Matrix):
    """Values of visible units, any real numbers: `rows` gives arrays, also of a sparse matrix."""

    def __init__(self, X: Any, model: CRBM) -> None:
        super().__init__("X", X, model.nv, model.dtype, "nv")
        self.check_finite()

    def rows(self, index: Any) -> NDArray[Any]:
        return np.require(_dense(self.data[index]), self.dtype, ["C", "A"])


def _dense(X: Any) -> Any:
    return X.toarray() if scipy.sparse.issparse(X) else X


def _seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(2**31 - 1))


def _threads(n_jobs: int | None) -> int | None:
    """`n_threads` of a model.  None is one thread, as everywhere in scikit-learn: a search runs many fits at once."""
    if n_jobs == -1:
        return None
    return 1 if n_jobs is None else check.check_int("n_jobs", n_jobs, 1, 1024)


def _alike(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> bool:
    """Same names and shapes; not so when a parameter of the estimator was changed between two calls."""
    return {name: x.shape for name, x in a.items()} == {name: x.shape for name, x in b.items()}
