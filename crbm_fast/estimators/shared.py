"""What both estimators share: options from their parameters, and training epoch by epoch."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from crbm_fast import _validation as check
from crbm_fast.training.history import History
from crbm_fast.training.loop import begin, run_epochs
from crbm_fast.training.options import Options, fields
from crbm_fast.training.run import Run, RunState
from crbm_fast.training.train import check_model


class TrainedEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with a model that is trained epoch by epoch.

    Attributes
    ----------
    model_ : CRBM
    history_ : History
    """

    # Where `partial_fit` goes on; None after a `fit` that left nothing but the model.
    _state: RunState | None = None

    def _options(self, **others: Any) -> Options:
        """The training options: the parameters that are called as they are there, and others."""
        mine = {name: value for name, value in self.get_params(deep=False).items() if name in fields()}
        return Options(**mine | {"progress": bool(self.verbose)} | others)

    def _run_epochs(self, run: Run, epochs: int, *, new: bool) -> Self:
        """Run more epochs: from the beginning if the model is new, otherwise from where earlier calls have led."""
        check_model(run.model, run.learner, run.options)
        if new:
            begin(run)
        elif self._state is None:
            run.begin(self.history_)
        else:
            run.resume(self._state, same_run=False)
        if run.stopped():
            check.warn(
                f"training has stopped: the validation error has not become lower for patience={run.options.patience} "
                "calls, so this call changed nothing; set patience=None to go on, or call fit",
                UserWarning,
            )
        run_epochs(run, run.epoch + epochs)
        state = run.state()
        # with a best epoch the model is about to get other parameters than those that training goes on from
        state = state if run.history.best_epoch is None else state.copy()
        run.finish()
        return self._keep(run.model, run.history, state)

    def _keep(self, model: Any, history: History, state: RunState | None) -> Self:
        self.model_, self.history_, self._state = model, history, state
        return self


def as_dense(X: Any) -> Any:
    """An array with the entries of X, which may be a sparse matrix."""
    return X.toarray() if scipy.sparse.issparse(X) else X


def draw_seed(rng: np.random.RandomState) -> int:
    """A seed for the model and its training."""
    return int(rng.randint(2**31 - 1))


def threads(n_jobs: int | None) -> int | None:
    """`n_threads` of a model.  None is one thread, as everywhere in scikit-learn: a search runs many fits at once."""
    if n_jobs == -1:
        return None
    return 1 if n_jobs is None else check.check_int("n_jobs", n_jobs, 1, 1024)
