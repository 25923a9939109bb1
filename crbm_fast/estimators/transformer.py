"""RBMTransformer: a restricted Boltzmann machine in place of scikit-learn's `BernoulliRBM`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Data, Matrix
from crbm_fast.estimators.shared import TrainedEstimator, as_dense, draw_seed, threads
from crbm_fast.learners import Learner, as_learner
from crbm_fast.model import RBM, free_energy
from crbm_fast.optimizers import SGD, Optimizer
from crbm_fast.training.options import Options, documented
from crbm_fast.training.run import Run


@documented
class RBMTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TrainedEstimator):  # type: ignore[misc]
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
    {weight_decay}
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

    random_state_: Any
    _seed: int

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float | None = None,
        batch_size: int = 10,
        n_iter: int = 10,
        learner: str | Learner = "pcd",
        optimizer: str | Optimizer = "sgd",
        weight_decay: float = Options.weight_decay,
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
        return int(self.model_.nh)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: Any) -> _Values:
        """X of a call after `fit`, after its checks."""
        check_is_fitted(self, "model_")
        self.model_.n_threads = threads(self.n_jobs)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return _Values(X, self.model_)

    def _fit(self, X: Any, *, new: bool, epochs: int) -> Self:
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=new)
        if not isinstance(self.learner, Learner):
            check.check_choice("learner", self.learner, ("pcd", "cd", "mle"))
        optimizer = SGD(learning_rate=0.1, momentum=0.0) if self.optimizer == "sgd" else self.optimizer
        if new:
            rng = check_random_state(self.random_state)
            nh, seed = check.check_int("n_components", self.n_components, 1), draw_seed(rng)
            model = RBM(X.shape[1], nh, seed=seed, dtype=X.dtype, n_threads=threads(self.n_jobs))
        else:
            rng, seed, model = self.random_state_, self._seed, self.model_
            model.n_threads = threads(self.n_jobs)
        values = _Values(X, model)
        n_iter = check.check_int("n_iter", self.n_iter, 0)
        options = self._options(epochs=n_iter, optimizer=optimizer, seed=seed)
        run = Run(model, as_learner(self.learner), options, Data(None, values, len(values)))
        self._run_epochs(run, epochs, new=new)
        self.random_state_, self._seed = rng, seed
        return self


class _Values(Matrix):
    """Values of visible units, any real numbers: `rows` gives arrays, also of a sparse matrix."""

    def __init__(self, X: Any, model: RBM) -> None:
        super().__init__("X", X, model.nv, model.dtype, "nv")
        self.check_finite()

    def rows(self, index: Any) -> NDArray[Any]:
        return np.require(as_dense(self.data[index]), self.dtype, ["C", "A"])
