"""`train`: fit a model to data."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol

from crbm_fast import _files
from crbm_fast import _validation as check
from crbm_fast._data import Data, Matrix
from crbm_fast._errors import ArgumentError, ArgumentTypeError, RequirementError
from crbm_fast.inference import ConvergenceWarning
from crbm_fast.learners import Learner, as_learner
from crbm_fast.model import CRBM
from crbm_fast.training.checkpoint import Checkpoint
from crbm_fast.training.history import History
from crbm_fast.training.loop import begin, run_epochs
from crbm_fast.training.options import Options, documented, signature_with_options
from crbm_fast.training.run import Run

logger = logging.getLogger("crbm_fast")

# Fraction of instances on which inference must converge for its gradients to mean something.
_FEW_CONVERGED = 0.05

P = ParamSpec("P")


class _Train(Protocol[P]):
    """The type of `train`: the keywords are those of `Options`."""

    def __call__(
        self, model: CRBM, X: Any, V: Any, learner: str | Learner = "mle", *args: P.args, **options: P.kwargs
    ) -> History: ...


def _with_options(options: Callable[P, Options]) -> Callable[[Callable[..., History]], _Train[P]]:
    """Give a function of **options the signature, the type and the documentation of all options."""

    def decorate(function: Callable[..., History]) -> _Train[P]:
        function.__signature__ = signature_with_options(function)  # type: ignore[attr-defined]
        return documented(function)

    return decorate


@_with_options(Options)
def train(model: CRBM, X: Any, V: Any, learner: str | Learner = "mle", **options: Any) -> History:
    """Fit `model`, in place, to outputs V given features X.

    Parameters
    ----------
    model : CRBM or RBM
        Its parameters are where training starts.  `model.n_threads` is the number of threads.
    X : (N, nx) array-like, memmap or CSR matrix; None for an RBM
        Features of any real dtype; converted batch by batch.
    V : (N, nv) array-like or memmap of 0 and 1
        Outputs, likewise.
    learner : str or Learner
        "mle", "cd", "pcd", "percloss", "mssvm", "lssvm" or "logistic" with its defaults, or an object such as
        `learners.MLE("mean-field")`, `learners.CD(k=10)`.
    {options}

    Returns
    -------
    History
        One `Epoch` per epoch, those before a resumed checkpoint included.

    Warns
    -----
    ConvergenceWarning
        Inference without damping converged on next to no instance in the last epoch.

    Raises
    ------
    DivergenceError
        A gradient is not finite or a step is far too long.

    Notes
    -----
    Ctrl-C leaves the model in the middle of an epoch; the checkpoint is that of the last whole one.

    Afterwards `model.inference` is the inference that training used in the last (or best) epoch.  A line per epoch
    goes to the logger "crbm_fast" at level INFO.

    `centering` ([1]_, [2]_) takes another path, not always to a better end; try it.  On noisy MNIST (20,000 images, 2
    epochs from start="logistic" at 0.01 with the schedule "linear", weight_decay=0.001, rates={"W_vx": 0.05},
    averaging=0.999, 256 hidden units) "mle" has 1.94 % of the validation pixels wrong with "features" and 2.03 with
    "all"; in the README's example 1.0 % without, 2.6 with "features" and 3.6 with "all", but "lssvm" there 13.1, 1.5
    and 2.0.

    References
    ----------
    .. [1] Montavon & Mueller, "Deep Boltzmann machines and the centering trick", Neural Networks: Tricks of the Trade,
       2012.
    .. [2] Melchior, Fischer & Wiskott, "How to center deep Boltzmann machines", JMLR 17, 2016.
    """
    given = Options(**options)
    method = as_learner(learner)
    check_model(model, method, given)
    if given.checkpoint is not None:
        _files.check_folder(given.checkpoint)
    data, valid = split(model, check_pair(model, X, V), given)
    run = Run(model, method, given, data, valid)
    checkpoint = None if given.checkpoint is None else Checkpoint(given.checkpoint, run)
    if checkpoint is not None and given.resume and checkpoint.resume():
        logger.info("going on after epoch %d, from %s", run.epoch, given.checkpoint)
    else:
        begin(run)
        if checkpoint is not None:
            checkpoint.save()
    run_epochs(run, given.epochs, checkpoint)
    run.finish()
    _warn_if_unconverged(run)
    return run.history


def _warn_if_unconverged(run: Run) -> None:
    """Warn if inference converged on few instances of the last epoch; damped messages are on their way much longer."""
    last = run.history[-1] if run.history else None
    if last is None or last.converged is None or last.converged >= _FEW_CONVERGED:
        return
    if run.learner.inference_in(last.epoch).damping == 0:
        check.warn(
            f"in epoch {last.epoch} inference converged on {100 * last.converged:.1f} % of the instances only; its "
            "gradients mean little then. Lower learning_rate, add weight_decay, or give the learner damping (0.5)",
            ConvergenceWarning,
        )


# --- checks of the model and the data ---------------------------------------------------------------------------


def check_model(model: Any, learner: Learner, options: Options) -> None:
    """Raise an error if the model cannot be trained by the learner with these options."""
    if not isinstance(model, CRBM):
        raise ArgumentTypeError("model", f"is {type(model).__name__}", "expected CRBM or RBM")
    options.check_model(model)
    if learner.needs_features and model.nx == 0:
        raise RequirementError("learner", learner.name, "features", "this model has nx=0")
    for name, p in model.parameters().items():
        if not p.flags.writeable:
            raise ArgumentError("model", f"has a read-only {name} (a memory map?)", "train model.copy()")


def check_pair(model: CRBM, X: Any, V: Any, prefix: str = "") -> Data:
    """Features and outputs side by side, after every entry was looked at; `prefix` is for the names in messages."""
    name = f"{prefix}V"
    outputs = Matrix(name, V, model.nv, model.dtype, "nv")
    outputs.check_states()
    if len(outputs) == 0:
        raise ArgumentError(name, "has no rows")
    return Data(model.check_features(X, len(outputs), f"{prefix}X"), outputs, len(outputs))


def split(model: CRBM, data: Data, options: Options) -> tuple[Data, Data | None]:
    """The training part and the validation part, where `options.validation` asks for one."""
    validation = options.validation
    if validation is None:
        return data, None
    if isinstance(validation, tuple):
        return data, check_pair(model, *validation, "validation ")
    size = round(validation * data.size)
    if not 0 < size < data.size:
        problem = f"of {data.size} instances leaves no instance on one side"
        raise ArgumentError("validation", problem, value=validation)
    # the two parts are cut from one permutation; epoch 0 is no epoch of training
    rest, key = data.size - size, (options.seed, 0)
    return Data(data.X, data.V, rest, 0, key), Data(data.X, data.V, size, rest, key)
