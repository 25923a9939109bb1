"""The training loop: minibatches, steps, validation, history, checkpoints.

    train    ->  learner.gradient (learners/)  ->  optimizer.step (optimizers.py)      for each batch
                 and around the step, if asked for: Centering (_centering.py), average (optimizers.py)
             ->  evaluation, history, checkpoint, callbacks                            for each epoch

Everything random is drawn from (seed, epoch, batch), so a run that was killed and resumed from its last checkpoint ends
with the same bits as one that was not.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _algebra, _files
from crbm_fast import _validation as check
from crbm_fast._centering import Centering
from crbm_fast._data import Data, Matrix, chunks, permuted
from crbm_fast.inference import ConvergenceWarning, Engine, Inference
from crbm_fast.learners import Learner, as_learner
from crbm_fast.learners.base import Batch, Diverged, Timer, Workspace, finite_biases
from crbm_fast.model import CRBM, PARAMETERS
from crbm_fast.optimizers import Optimizer, as_optimizer, as_schedule, average

logger = logging.getLogger("crbm_fast")

# Training instances on which the training error is measured after each epoch.
_MONITORED = 1000
# A step that changes a parameter by more has left all scales on which logits mean something.
_LARGEST_STEP = 1e3
# Fraction of instances on which inference must converge for its gradients to mean something.
_FEW_CONVERGED = 0.05
# The logistic fit of start="logistic": Adam's rate; epochs and steps at least; weight decay if training has none.  On
# noisy MNIST (10 % of the pixels flipped), wrong pixels of 5,000 validation images, without centring and weight decay
# -> with centring -> with both: after 3 epochs of 50,000 images 2.11 -> 1.90 -> 1.89 %, after 1000 steps on 10,000
# images 2.89 -> 2.51 %, and after 2000 with both 2.27 %.  A schedule by step, averaging, or biases that begin at the
# log-odds of the means gained at most 0.01 on 50,000 images and nothing on 10,000.
_START_RATE, _START_EPOCHS, _START_STEPS, _START_DECAY = 0.005, 3, 2000, 5e-4


class DivergenceError(ArithmeticError):
    """Training left the range of finite, sensible numbers; the model has the parameters of the last whole epoch.

    Attributes
    ----------
    epoch, batch : int
        Where, from 1.
    norm : float
        Norm of the gradient.
    """

    def __init__(self, message: str, epoch: int, batch: int, norm: float) -> None:
        super().__init__(message)
        self.epoch, self.batch, self.norm = epoch, batch, norm

    def __reduce__(self) -> tuple[Any, ...]:
        return DivergenceError, (str(self), self.epoch, self.batch, self.norm)


@dataclass(frozen=True)
class Epoch:
    """What happened in an epoch.

    Attributes
    ----------
    epoch : int
        From 1.
    train_error, valid_error : float or None
        Fraction of wrong outputs: on a sample of 1000 training instances, on the validation set.  For a model without
        features, of the reconstruction v -> P(h | v) -> v.
    converged : float or None
        Fraction of training instances on which inference reached `tol`; None for sampling learners.
    n_iter : float or None
        Mean iterations of inference in training.
    max_iter : int
        Iterations it could do.
    gradient_norm : float
        Of the objective, weight decay included; mean over the batches.
    weight_norm : float
        Of all parameters, after the epoch.
    learning_rate : float
    seconds : dict
        By phase: data, biases, positive, negative, gradient, step, evaluation; and total.
    """

    epoch: int
    train_error: float
    valid_error: float | None
    converged: float | None
    n_iter: float | None
    max_iter: int
    gradient_norm: float
    weight_norm: float
    learning_rate: float
    seconds: dict[str, float]


class History(list[Epoch]):
    """The epochs of a run, in order.  `history.column("valid_error")` gives one quantity; printing, a table, in which
    * marks the best epoch.

    Attributes
    ----------
    best_epoch : int or None
        Epoch with the lowest validation error, whose parameters the model has; None without validation.
    """

    best_epoch: int | None = None

    def column(self, name: str) -> list[Any]:
        """One attribute of every epoch."""
        check.check_choice("name", name, tuple(Epoch.__dataclass_fields__))
        return [getattr(epoch, name) for epoch in self]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, best_epoch={self.best_epoch})"

    def __str__(self) -> str:
        def percent(x: float | None) -> str:
            return "-" if x is None else f"{100 * x:.3f}"

        rows = ["epoch  train %  valid %  converged %  iterations  |gradient|   |weights|  seconds"]
        for e in self:
            n_iter = "-" if e.n_iter is None else f"{e.n_iter:.1f}"
            converged = "-" if e.converged is None else f"{100 * e.converged:.1f}"
            mark = "*" if e.epoch == self.best_epoch else " "
            rows.append(
                f"{e.epoch:5d}{mark} {percent(e.train_error):>7}  {percent(e.valid_error):>7}  {converged:>11}"
                f"  {n_iter:>4} of {e.max_iter:<3d} {e.gradient_norm:10.3g}  {e.weight_norm:10.4g}"
                f"  {e.seconds['total']:7.2f}"
            )
        return "\n".join(rows)


Callback = Callable[[Epoch, CRBM], Any]


def train(
    model: CRBM,
    X: Any,
    V: Any,
    learner: str | Learner = "mle",
    *,
    epochs: int = 20,
    batch_size: int = 40,
    optimizer: str | Optimizer = "adam",
    learning_rate: float | None = None,
    schedule: str | Callable[[int, int], float] = "constant",
    weight_decay: float = 0.0,
    rates: Mapping[str, float] | None = None,
    centering: str | None = None,
    averaging: float | None = None,
    validation: tuple[Any, Any] | float | None = None,
    patience: int | None = None,
    start: str | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> History:
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
    epochs : int
        Passes over the data.
    batch_size : int
        Instances per step.
    optimizer : {"adam", "sgd"} or Optimizer
    learning_rate : float, optional
        In place of the optimizer's own.
    schedule : {"constant", "linear", "cosine"} or callable
        Factor of the learning rate as a function of (epoch, epochs).
    weight_decay : float
        The objective is the mean over instances minus weight_decay / 2 |W|^2; biases are left out.
    rates : mapping of str to float, optional
        Factors of the learning rate for some of "W_vh", "W_vx", "W_hx", "b_v", "b_h".  After start="logistic" W_vx is
        nearly right: {"W_vx": 0.05} lets the others move fast without spoiling it.
    centering : {"features", "all"}, optional
        Take the steps in coordinates in which W acts on deviations, x - mean(x), and with "all", also v - mean(v) and
        h - 1/2 ([1]_, [2]_); "b_v" and "b_h" of `rates` are then the biases there.  The objective and the model remain
        what they are, but features that are mostly 0, or mostly 1, are often fitted in fewer epochs; see Notes.
    averaging : float in [0, 1), optional
        Follow the parameters by an exponential moving average that forgets at this rate per step, such as 0.999 (for
        the first 1 / (1 - averaging) steps, a plain mean); the errors, the best epoch and the model are then those of
        the average, which has less of the noise that a high learning rate brings.
    validation : (X, V) or float, optional
        Data, or a fraction of the training data to set aside, for the validation error.  With it, the model ends with
        the parameters of the epoch whose validation error was lowest.
    patience : int, optional
        Stop after this many epochs without a lower validation error.
    start : {"logistic"}, optional
        Begin by a quick logistic fit of W_vx and b_v: the first epochs then have less error, and BP, which sees strong
        evidence from the start, converges on more instances.  (At least 3 epochs and 2000 steps of Adam, but at most
        100 epochs, with centred features; a weight decay of 0.0005 if training has none.)
    seed : int
        Same seed, same data, same version and machine: same bits, for any number of threads.
    checkpoint : path, optional
        File that is written, atomically, after each epoch.
    resume : bool
        Go on from `checkpoint` if it exists.  The arguments must be those of the interrupted run, but `epochs` (which
        the schedules "linear" and "cosine" depend on), `patience`, `callbacks`, `progress` and the model's initial
        parameters and `n_threads` may differ.
    callbacks : sequence of callables
        Each is called as callback(epoch, model) after an epoch; if it returns True, training ends.
    progress : bool, optional
        A bar by tqdm.  Default: if tqdm is installed and stderr is a terminal.

    Returns
    -------
    History
        One `Epoch` per epoch, those before a resumed checkpoint included.

    Warns
    -----
    ConvergenceWarning
        When inference without damping converged on next to no instance in the last epoch.

    Raises
    ------
    DivergenceError
        When a gradient is not finite or a step is far too long.

    Notes
    -----
    Ctrl-C leaves the model in the middle of an epoch; the checkpoint is that of the last whole one.

    Afterwards `model.inference` is the inference that training used in the last (or best) epoch.  A line per epoch
    goes to the logger "crbm_fast" at level INFO.

    `centering` takes another path, not always to a better end; try it.  On noisy MNIST (20,000 images, 2 epochs from
    start="logistic" at 0.01 with the schedule "linear", weight_decay=0.001, rates={"W_vx": 0.05}, averaging=0.999, 256
    hidden units) "mle" has 1.94 % of the validation pixels wrong with "features" and 2.03 with "all"; in the README's
    example 1.0 % without, 2.6 with "features" and 3.6 with "all", but "lssvm" there 13.1, 1.5 and 2.0.

    References
    ----------
    .. [1] Montavon & Mueller, "Deep Boltzmann machines and the centering trick", Neural Networks: Tricks of the Trade,
       2012.
    .. [2] Melchior, Fischer & Wiskott, "How to center deep Boltzmann machines", JMLR 17, 2016.
    """
    if not isinstance(model, CRBM):
        raise TypeError(f"model is {type(model).__name__}; expected CRBM or RBM")
    method = as_learner(learner)
    ascent = as_optimizer(optimizer, learning_rate)
    factor = as_schedule(schedule)
    epochs = check.check_int("epochs", epochs, 0)
    batch_size = check.check_int("batch_size", batch_size, 1)
    weight_decay = check.check_real("weight_decay", weight_decay, 0, np.inf)
    factors = _check_rates(rates)
    if centering is not None:
        check.check_choice("centering", centering, ("features", "all"))
        if centering == "features" and model.nx == 0:
            raise ValueError("centering='features', but the model has no features; use 'all', or None")
    if averaging is not None:
        averaging = check.check_real("averaging", averaging, 0, 1)
    seed = check.check_int("seed", seed, 0, 2**63 - 1)
    resume = check.check_flag("resume", resume)
    if patience is not None:
        check.check_int("patience", patience, 1)
        if validation is None:
            raise ValueError("patience needs validation: it watches the validation error")
    check.check_choice("start", start, (None, "logistic"))
    if start == "logistic" and model.nx == 0:
        raise ValueError("start='logistic' needs features; this model has nx=0")
    if method.needs_features and model.nx == 0:
        raise ValueError(f"learner={method.name!r} needs features; this model has nx=0")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint, the file to resume from")
    if callable(callbacks) or callbacks is None or not all(callable(callback) for callback in callbacks):
        raise TypeError(f"callbacks={callbacks!r} must be a list of functions of (epoch, model)")
    if checkpoint is not None:
        _files.check_folder(checkpoint)
    for name, p in model.parameters().items():
        if not p.flags.writeable:
            raise ValueError(f"{name} of the model is read-only (a memory map?); train model.copy()")
    data, valid = _check_data(model, X, V, validation, seed)
    run = _Run(model, method, ascent, data, valid, batch_size, weight_decay, seed, factors, averaging, centering)
    run.config = {
        "model": repr(model),
        "learner": repr(method),
        "optimizer": repr(ascent),
        "weight_decay": weight_decay,
        "rates": factors,
        "centering": centering,
        "averaging": averaging,
        "batch_size": batch_size,
        "schedule": schedule if isinstance(schedule, str) else "callable",
        "start": start,
        "seed": seed,
        "validation": None,
    }
    if checkpoint is not None:
        crc = _checksum(data)
        run.config["data"] = f"{data.size} instances with checksum {crc:08x}"
        if valid is not None:
            crc = crc if valid.V is data.V else _checksum(valid)
            run.config["validation"] = f"{valid.size} instances with checksum {crc:08x}"
    if resume and checkpoint is not None and run.restore(checkpoint):
        logger.info("going on after epoch %d, from %s", run.epoch, os.fspath(checkpoint))
    else:
        if start == "logistic":
            _fit_logistic(model, data, batch_size, weight_decay, seed)
        run.begin()
        if checkpoint is not None:
            run.save(checkpoint)
    bar = _bar(progress, epochs, run)
    try:
        while run.epoch < epochs and not run.stopped(patience):
            try:
                result = run.one_epoch(factor(run.epoch + 1, epochs), bar)
            except Diverged as error:
                raise run.diverged(error, checkpoint) from None
            if checkpoint is not None:
                run.save(checkpoint)
            logger.info("%s", _line(method, result))
            answers = [callback(result, model) for callback in callbacks]
            if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
                break
    finally:
        if bar is not None:
            bar.close()
    run.finish()
    last = run.history[-1] if run.history else None
    # damped messages are on their way much longer
    if last and last.converged is not None and last.converged < _FEW_CONVERGED and method.inference_in(1).damping == 0:
        check.warn(
            f"in epoch {last.epoch} inference converged on {100 * last.converged:.1f} % of the instances only; its "
            "gradients mean little then. Lower learning_rate, add weight_decay, or give the learner damping (0.5)",
            ConvergenceWarning,
        )
    return run.history


def _check_rates(rates: Any) -> dict[str, float]:
    """Factors of the learning rate by parameter block."""
    if rates is None:
        return {}
    if not isinstance(rates, Mapping):
        raise TypeError(f"rates={rates!r} must be a mapping such as {{'W_vx': 0.05}}")
    for name in rates:
        check.check_choice("a key of rates", name, PARAMETERS)
    return {name: check.check_real(f"rates[{name!r}]", rates[name], 0, np.inf) for name in rates}


# --- data ---------------------------------------------------------------------------------------------------------


def _check_data(model: CRBM, X: Any, V: Any, validation: Any, seed: int) -> tuple[Data, Data | None]:
    """The training and validation parts, every entry looked at."""
    data = _pair(model, X, V, "")
    if validation is None:
        return data, None
    if isinstance(validation, tuple | list):
        if len(validation) != 2:
            raise ValueError("validation must be a pair (X, V) or a fraction of the training data")
        return data, _pair(model, validation[0], validation[1], "validation ")
    fraction = check.check_real("validation", validation, 0, 1)
    size = round(fraction * data.size)
    if not 0 < size < data.size:
        raise ValueError(f"validation={fraction:g} of {data.size} instances leaves no instance on one side")
    # the two parts are cut from one permutation; epoch 0 is no epoch of training
    rest = data.size - size
    return Data(data.X, data.V, rest, 0, (seed, 0)), Data(data.X, data.V, size, rest, (seed, 0))


def _pair(model: CRBM, X: Any, V: Any, which: str) -> Data:
    outputs = Matrix(f"{which}V", V, model.nv, model.dtype, "nv")
    outputs.check_states()
    if len(outputs) == 0:
        raise ValueError(f"{which}V has no rows")
    return Data(model.check_features(X, len(outputs), f"{which}X"), outputs, len(outputs))


def _checksum(data: Data) -> int:
    """CRC-32 of both tables, by which a checkpoint knows its data again."""
    crc = data.V.checksum()
    return crc if data.X is None else data.X.checksum(crc)


def _fit_logistic(model: CRBM, data: Data, batch_size: int, weight_decay: float, seed: int) -> None:
    """W_vx and b_v of a logistic regression per output: a model without hidden units."""
    alone = CRBM(model.nv, 0, model.nx, dtype=model.dtype, n_threads=model.n_threads)
    run = _Run(
        alone,
        as_learner("logistic"),
        as_optimizer("adam", _START_RATE),
        data,
        None,
        batch_size,
        weight_decay or _START_DECAY,
        seed,
        centering="features",
    )
    epochs = min(100, max(_START_EPOCHS, -(-_START_STEPS * batch_size // data.size)))
    run.begin()
    try:
        for epoch in range(epochs):
            result = run.one_epoch(1 - epoch / epochs, None)
    except Diverged as error:
        raise DivergenceError(
            f"the logistic start diverged in epoch {run.epoch + 1}, batch {run.batch}: {error}. Scale the features to "
            "about [-1, 1], or leave out start. The model is as it was.",
            run.epoch + 1,
            run.batch,
            error.norm,
        ) from None
    model.W_vx, model.b_v = alone.W_vx, alone.b_v
    logger.info("logistic start, %d epochs: training error %.3f %%", epochs, 100 * result.train_error)


# --- the loop -----------------------------------------------------------------------------------------------------


@dataclass
class _Run:
    """A training run between two epochs: what a checkpoint holds, and how to go on."""

    model: CRBM
    learner: Learner
    optimizer: Optimizer
    data: Data
    valid: Data | None
    batch_size: int
    weight_decay: float
    seed: int
    rates: dict[str, float] = field(default_factory=dict)
    averaging: float | None = None
    centering: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    # state
    iterate: CRBM = field(init=False)  # takes the steps; `model` itself, or with averaging, its source
    centred: Centering | None = None
    epoch: int = 0  # epochs done
    steps: int = 0
    batch: int = 0  # within the epoch, from 1
    optimizer_state: dict[str, NDArray[Any]] = field(default_factory=dict)
    learner_state: dict[str, NDArray[Any]] = field(default_factory=dict)
    best: dict[str, NDArray[Any]] = field(default_factory=dict)
    best_error: float = np.inf
    last_good: dict[str, NDArray[Any]] = field(default_factory=dict)
    history: History = field(default_factory=History)

    def begin(self) -> None:
        """Start anew."""
        self.learner.prepare(self.model)
        self.allocate()

    def allocate(self) -> None:
        """The state before the first epoch."""
        self.iterate = self.model if self.averaging is None else self.model.copy()
        if self.centering is not None:
            mu_v, mu_x = self.data.means()
            self.centred = Centering(self.iterate, mu_v if self.centering == "all" else None, mu_x, self.learner.trains)
        self.learner_state = self.learner.first_state(self.model, self.data.size, self.batch_size)
        self.optimizer_state = self.optimizer.init(self._trained())

    def _trained(self) -> dict[str, NDArray[Any]]:
        """The arrays that the optimizer changes."""
        blocks = self.iterate.parameters() | (self.centred.c if self.centred else {})
        return {name: p for name, p in blocks.items() if name in self.learner.trains and p.size}

    def stopped(self, patience: int | None) -> bool:
        """Whether early stopping says so."""
        return patience is not None and self.epoch - (self.history.best_epoch or 0) >= patience and self.epoch > 0

    @np.errstate(all="ignore")  # what matters is caught by norms
    def one_epoch(self, factor: float, bar: Any) -> Epoch:
        """All batches once, then the evaluation."""
        begin, timer, number = perf_counter(), Timer(), self.epoch + 1
        factor = check.check_real("schedule(epoch, epochs)", factor, 0, np.inf)
        model, iterate, parameters = self.model, self.iterate, self._trained()
        self.last_good = {name: p.copy() for name, p in model.parameters().items()}
        gradient = {name: np.empty_like(p) for name, p in model.parameters().items()}
        averages, latest = ({name: m.parameters()[name] for name in parameters} for m in (model, iterate))
        engine, workspace = iterate.engine(), Workspace(iterate)
        norms, iterations, converged, counted = 0.0, 0, 0, 0
        for batch in self.data.minibatches(self.batch_size, self.seed, number):
            self.batch = batch.number
            X, V = self.data.take(batch.rows)
            timer.lap("data")
            minibatch = Batch(X, V, batch.index, number, batch.seed, self.learner_state, workspace)
            negative = self.learner.gradient(iterate, engine, minibatch, gradient, timer)
            if self.centred:
                self.centred.transform(gradient)
            self.steps += 1
            change, norm = self.optimizer.step(
                parameters,
                gradient,
                self.optimizer_state,
                t=self.steps,
                factor=factor,
                rates=self.rates,
                weight_decay=self.weight_decay,
                n_threads=engine.n_threads,
            )
            if not (np.isfinite(norm) and change <= _LARGEST_STEP):
                raise Diverged(f"a step changed a parameter by {change:.3g}", norm)
            if self.centred:
                self.centred.fold()
            engine.update_checked(iterate.W_vh)  # finite, as the norm is
            if self.averaging is not None:
                average(averages, latest, t=self.steps, decay=self.averaging, n_threads=engine.n_threads)
            timer.lap("step")
            norms += norm
            if negative.n_iter is not None and negative.converged is not None:
                iterations += int(negative.n_iter.sum())
                converged += int(negative.converged.sum())
                counted += len(negative.n_iter)
            if bar is not None:
                bar.update()
        how = self.learner.inference_in(number)
        for name, p in iterate.parameters().items():
            if check.beyond(p) >= 0:
                raise Diverged(f"{name} has an entry that is not finite, or beyond {check.LIMITS[p.dtype]:g}", norm)
        if self.averaging is not None:
            engine.update_checked(model.W_vh)
        train_error = _error(model, engine, how, self.data, _MONITORED, self.seed)
        valid_error = None
        if self.valid is not None:
            valid_error = _error(model, engine, how, self.valid, self.valid.size, self.seed)
        timer.lap("evaluation")
        self.epoch = number
        if valid_error is not None and valid_error < self.best_error:
            self.best_error, self.history.best_epoch = valid_error, number
            self.best = {name: p.copy() for name, p in model.parameters().items()}
        model.inference = how
        result = Epoch(
            epoch=number,
            train_error=train_error,
            valid_error=valid_error,
            converged=converged / counted if counted else None,
            n_iter=iterations / counted if counted else None,
            max_iter=how.iterations,
            gradient_norm=norms / self.batch,
            weight_norm=_norm(model.parameters(), engine.n_threads),
            learning_rate=factor * self.optimizer.learning_rate,
            seconds=timer.seconds | {"total": perf_counter() - begin},
        )
        self.history.append(result)
        if bar is not None:
            shown = {"train": train_error, "valid": valid_error}
            bar.set_postfix_str(", ".join(f"{k} {100 * e:.3f} %" for k, e in shown.items() if e is not None))
        return result

    def diverged(self, error: Diverged, checkpoint: str | os.PathLike[str] | None = None) -> DivergenceError:
        """Give the model back the parameters of the last whole epoch; what to tell the user."""
        _copy_into(self.model.parameters(), self.last_good)
        kept = "." if checkpoint is None else f", and so has the checkpoint {os.fspath(checkpoint)}."
        return DivergenceError(
            f"training diverged in epoch {self.epoch + 1}, batch {self.batch}: {error}. Lower learning_rate "
            f"({self.optimizer.learning_rate:g}), scale the features to about [-1, 1], or look at weight_decay. The "
            f"model has the parameters of epoch {self.epoch}{kept}",
            self.epoch + 1,
            self.batch,
            error.norm,
        )

    def finish(self) -> None:
        """Give the model the parameters and the inference of the best epoch."""
        best = self.history.best_epoch
        if best is not None:
            _copy_into(self.model.parameters(), self.best)
        if self.history:
            self.model.inference = self.learner.inference_in(best or self.epoch)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays of the state."""
        groups = {
            "parameter": self.model.parameters(),
            "best": self.best,
            "optimizer": self.optimizer_state,
            "learner": self.learner_state,
            "iterate": {} if self.iterate is self.model else self.iterate.parameters(),
            "centred": {} if self.centred is None else self.centred.c,
        }
        return {f"{group}.{name}": a for group, members in groups.items() for name, a in members.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        meta = {
            "config": self.config,
            "epoch": self.epoch,
            "steps": self.steps,
            "best_epoch": self.history.best_epoch,
            "history": [asdict(e) for e in self.history],
        }
        _files.write(path, "crbm_fast checkpoint", meta, self._arrays())

    def restore(self, path: str | os.PathLike[str]) -> bool:
        """Take the state of a checkpoint of this very run; False if there is no file."""
        if not os.path.exists(path):
            return False
        meta, arrays = _files.read(path, "crbm_fast checkpoint")
        with _files.complaint(path):
            theirs = dict(meta["config"])
            different = [key for key in self.config if theirs.get(key) != self.config[key]]
        if different:
            key = different[0]
            raise ValueError(
                f"checkpoint {os.fspath(path)} is of another run: {key} was {theirs.get(key)} and is "
                f"{self.config[key]}; call with the same arguments, or with resume=False to start anew"
            )
        with _files.complaint(path):
            self.allocate()
            history = History(Epoch(**e) for e in meta["history"])
            history.best_epoch = None if meta["best_epoch"] is None else int(meta["best_epoch"])
            if int(meta["epoch"]) != len(history) or int(meta["steps"]) < 0:
                raise ValueError(f"it has {len(history)} epochs of history for {meta['epoch']}")
            if history.best_epoch is not None:
                self.best = {name: np.empty_like(p) for name, p in self.model.parameters().items()}
                self.best_error = float(history[history.best_epoch - 1].valid_error)  # type: ignore[arg-type]
            targets = self._arrays()
            for name, mine in targets.items():
                kept = arrays[name]
                if kept.shape != mine.shape or kept.dtype != mine.dtype or not np.isfinite(kept).all():
                    raise ValueError(f"{name} has shape {kept.shape}, dtype {kept.dtype}, or is not finite")
        _copy_into(targets, arrays)
        self.epoch, self.steps, self.history = len(history), int(meta["steps"]), history
        return True


def _copy_into(targets: dict[str, NDArray[Any]], values: dict[str, NDArray[Any]]) -> None:
    """Write the values into the targets of the same name."""
    for name in targets.keys() & values.keys():
        targets[name][...] = values[name]


def _norm(arrays: dict[str, NDArray[Any]], n_threads: int) -> float:
    largest = max(float(np.abs(a).max(initial=0)) for a in arrays.values())
    if largest < 1e15:
        return float(np.sqrt(sum(_algebra.sum_squares(a, n_threads=n_threads) for a in arrays.values())))
    # the squares might overflow
    return largest * float(np.sqrt(sum(np.square(a / largest, dtype=np.float64).sum() for a in arrays.values())))


def _error(model: CRBM, engine: Engine, how: Inference, data: Data, count: int, seed: int) -> float:
    """Fraction of outputs predicted wrongly on `count` pairs, always the same ones; see `Epoch`."""
    count, wrong = min(count, data.size), 0
    for part in chunks(count):
        X, V = data.take(data.rows(permuted(np.arange(part.start, part.stop), data.size, seed, 0)))
        b1, b2 = finite_biases(model, X)
        if X is None:
            h = model.fields_h(V, b2)
            _algebra.logistic(h)
            guess = model.fields_v(h, b1) > 0
        else:
            guess = engine.run_checked(b1, b2, how).tau_v > 0.5
        wrong += int(np.count_nonzero(guess != (V > 0.5)))
    return wrong / (count * model.nv)


# --- telling ------------------------------------------------------------------------------------------------------


def _line(learner: Learner, e: Epoch) -> str:
    parts = [f"{learner.name} epoch {e.epoch}: training error {100 * e.train_error:.3f} %"]
    if e.valid_error is not None:
        parts.append(f"validation error {100 * e.valid_error:.3f} %")
    if e.converged is not None:
        parts.append(f"{100 * e.converged:.1f} % converged in {e.n_iter:.1f} iterations")
    parts.append(f"|gradient| {e.gradient_norm:.3g}, |weights| {e.weight_norm:.4g}, {e.seconds['total']:.2f} s")
    return ", ".join(parts)


def _bar(progress: bool | None, epochs: int, run: _Run) -> Any:
    """A tqdm bar over the batches, or None."""
    if progress is False or (progress is None and not (sys.stderr and sys.stderr.isatty())):
        return None
    with suppress(ImportError):
        from tqdm.auto import tqdm

        per_epoch = -(-run.data.size // run.batch_size)
        return tqdm(
            total=epochs * per_epoch,
            initial=run.epoch * per_epoch,
            unit="batch",
            desc=run.learner.name,
            dynamic_ncols=True,
        )
    if progress:
        raise ImportError("progress=True needs tqdm: pip install tqdm")
    return None
