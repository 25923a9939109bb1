"""A training run: what it consists of between two epochs, and one epoch of it.

epoch      ->  learner.gradient  ->  Centering.transform  ->  optimizer.step  ->  Centering.fold, average
               for each minibatch; then the errors, and the best parameters so far
state      ->  what a checkpoint keeps, and `partial_fit` from call to call
resume     <-  the same
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Data, chunks, permuted
from crbm_fast._errors import DivergenceError
from crbm_fast.inference import Engine, Inference
from crbm_fast.learners import Learner
from crbm_fast.learners.base import Batch, Diverged, Timer, Workspace, finite_biases
from crbm_fast.model import CRBM
from crbm_fast.optimizers import average
from crbm_fast.training.centering import Centering
from crbm_fast.training.history import Epoch, History
from crbm_fast.training.options import Options

Arrays = dict[str, NDArray[Any]]

# Training instances on which the training error is measured after each epoch.
_MONITORED = 1000
# A step that changes a parameter by more has left all scales on which logits mean something.
_LARGEST_STEP = 1e3


@dataclass
class RunState:
    """A run after an epoch.

    Attributes
    ----------
    steps : int
        Steps of the optimizer.
    history : History
        The epochs so far.
    arrays : dict of dict of arrays
        By group and name.  The groups are "parameter", the model's parameters; "best", those of the best epoch;
        "iterate", those that the steps are taken on, if the model has their average; "optimizer", "learner" and
        "centering", what these remember.
    """

    steps: int
    history: History
    arrays: dict[str, Arrays]

    def copy(self) -> RunState:
        """The same state in arrays of its own."""
        arrays = {group: {name: a.copy() for name, a in members.items()} for group, members in self.arrays.items()}
        return RunState(self.steps, self.history, arrays)


class Run:
    """A training run.  `begin` or `resume` it, then call `run_epoch` as often as wanted, then `finish`.

    Parameters
    ----------
    model : CRBM
        It is trained in place.
    learner : Learner
    options : Options
        Its `epochs` is the end that schedules see; a run may go on beyond it and is then in every epoch what it was in
        the last one.
    data : Data
        What is learned.
    valid : Data, optional
        What the validation error is measured on.

    Attributes
    ----------
    epoch : int
        Number of epochs done.
    batch : int
        Number of the minibatch within the epoch, from 1.
    steps : int
        Number of steps that the optimizer has taken.
    history : History
    """

    def __init__(self, model: CRBM, learner: Learner, options: Options, data: Data, valid: Data | None = None) -> None:
        self.model, self.learner, self.options, self.data, self.valid = model, learner, options, data, valid
        self.optimizer = options.make_optimizer()
        self.history = History()
        self.batch = self.steps = 0
        self._iterate = model  # takes the steps; with averaging, a model of its own
        self._centering: Centering | None = None
        self._optimizer_state: Arrays = {}
        self._learner_state: Arrays = {}
        self._best: Arrays = {}
        self._best_error = np.inf
        self._workspace = Workspace(model)
        self._gradient = {name: np.empty_like(p) for name, p in model.parameters().items()}

    @property
    def epoch(self) -> int:
        return len(self.history)

    def begin(self, history: History | None = None) -> None:
        """Make the state before the first epoch.

        Parameters
        ----------
        history : History, optional
            Epochs of an earlier run of this model, from which this one goes on counting.
        """
        self.history = History(history or ())
        self.learner.prepare(self.model)
        self._allocate()
        if self._centering is not None:
            self._centering.set_means(*self.data.means())

    def stopped(self) -> bool:
        """Whether the validation error has not become lower for `patience` epochs."""
        best, patience = self.history.best_epoch, self.options.patience
        return patience is not None and best is not None and self.epoch - best >= patience

    def finish(self) -> None:
        """Give the model the parameters and the inference of the best epoch."""
        best = self.history.best_epoch
        if best is not None:
            _copy_into(self.model.parameters(), self._best)
        if self.history:
            self.model.inference = self.learner.inference_in(self.options.capped(best or self.epoch))

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self) -> RunState:
        """The state after the last epoch; its arrays are those of the run, which later epochs write to."""
        return RunState(self.steps, self.history, self._arrays())

    def resume(self, state: RunState, *, same_run: bool = True) -> None:
        """Go on from a state, whose arrays are copied.

        Parameters
        ----------
        state : RunState
        same_run : bool
            Whether the state is of a run of these data with these options; ValueError if it cannot be, and nothing is
            changed then.  If not, what no longer fits begins anew: what the optimizer and the centering remember, the
            average, the best epoch; and the arrays of the learner, if there are features, as they belong to instances.
        """
        self._allocate()
        best = state.history.best_epoch if self.valid is not None else None
        if best is not None:
            self._best = {name: np.empty_like(p) for name, p in self.model.parameters().items()}
            self._best_error = float(state.history[best - 1].valid_error)  # type: ignore[arg-type]
        mine = self._arrays()
        wrong = {
            group: problem for group, members in mine.items() if (problem := _mismatch(state.arrays, group, members))
        }
        if same_run and wrong:
            raise ValueError(next(iter(wrong.values())))
        if not same_run and self.data.X is not None:
            wrong["learner"] = "its arrays belong to other instances"
        if "best" in wrong:
            best, self._best, self._best_error = None, {}, np.inf
        for group, members in mine.items():
            if group not in wrong:
                _copy_into(members, state.arrays.get(group, {}))
        self.steps = 0 if "optimizer" in wrong else state.steps
        self.history = History(state.history, best)
        if not same_run:
            self._adapt(wrong)

    def _adapt(self, wrong: Mapping[str, str]) -> None:
        """Begin anew what `resume` found not to fit."""
        if "iterate" in wrong:
            _copy_into(self._iterate.parameters(), self.model.parameters())
        for model in {id(m): m for m in (self.model, self._iterate)}.values():
            self.learner.prepare(model)
        if self._centering is not None and "centering" in wrong:
            self._centering.set_means(*self.data.means())
        elif self._centering is not None and "iterate" in wrong:  # the coordinates were those of other parameters
            self._centering.unfold()

    def _allocate(self) -> None:
        """Make the arrays of the state."""
        self._iterate = self.model if self.options.averaging is None else self.model.copy()
        if self.options.centering is not None:
            self._centering = Centering(self._iterate, self.learner.trains, units=self.options.centering == "all")
        self._learner_state = self.learner.first_state(self.model, self.data.size, self.options.batch_size)
        self._optimizer_state = self.optimizer.first_state(self._trained())

    def _trained(self) -> Arrays:
        """The arrays that the optimizer changes."""
        blocks = self._iterate.parameters() | (self._centering.c if self._centering else {})
        return {name: p for name, p in blocks.items() if name in self.learner.trains and p.size}

    def _arrays(self) -> dict[str, Arrays]:
        """All arrays of the state, by group and name."""
        return {
            "parameter": self.model.parameters(),
            "best": self._best,
            "iterate": {} if self._iterate is self.model else self._iterate.parameters(),
            "optimizer": self._optimizer_state,
            "learner": self._learner_state,
            "centering": {} if self._centering is None else self._centering.arrays(),
        }

    # --- an epoch ---------------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")  # what matters is caught by norms
    def run_epoch(self, bar: Any = None) -> Epoch:
        """Take a step on every minibatch, then measure the errors.

        Parameters
        ----------
        bar : progress bar, optional
            Its `update` is called after each minibatch.

        Raises
        ------
        DivergenceError
            The model has the parameters from before the epoch then.
        """
        before = {name: p.copy() for name, p in self.model.parameters().items()}
        try:
            return self._run_epoch(bar)
        except Diverged as error:
            _copy_into(self.model.parameters(), before)
            raise DivergenceError(
                self.epoch + 1,
                self.batch,
                error.norm,
                error.reason,
                self.optimizer.learning_rate,
                self.options.checkpoint,
            ) from None

    def _run_epoch(self, bar: Any) -> Epoch:
        begin, timer, number = perf_counter(), Timer(), self.epoch + 1
        model, options, engine = self.model, self.options, self._iterate.engine()
        factor, how = options.factor(number), self.learner.inference_in(options.capped(number))
        counts = self._step_on_all(engine, number, factor, timer, bar)
        for name, p in self._iterate.parameters().items():
            if check.beyond(p) >= 0:
                limit = f"{check.LIMITS[p.dtype]:g}"
                raise Diverged(f"{name} has an entry that is not finite, or beyond {limit}", counts.norm)
        if options.averaging is not None:
            engine.update_checked(model.W_vh)
        train_error = _error(model, engine, how, self.data, _MONITORED, options.seed)
        valid_error = None
        if self.valid is not None:
            valid_error = _error(model, engine, how, self.valid, self.valid.size, options.seed)
            if valid_error < self._best_error:
                self._best_error, self.history.best_epoch = valid_error, number
                self._best = {name: p.copy() for name, p in model.parameters().items()}
        timer.lap("evaluation")
        model.inference = how
        self.history.append(
            Epoch(
                epoch=number,
                train_error=train_error,
                valid_error=valid_error,
                converged=counts.converged / counts.inferred if counts.inferred else None,
                n_iter=counts.iterations / counts.inferred if counts.inferred else None,
                max_iter=how.iterations,
                gradient_norm=counts.norms / self.batch,
                weight_norm=_norm(model.parameters(), engine.n_threads),
                learning_rate=factor * self.optimizer.learning_rate,
                seconds=timer.seconds | {"total": perf_counter() - begin},
                below_truth=None if counts.below_truth is None else counts.below_truth / counts.inferred,
            )
        )
        return self.history[-1]

    def _step_on_all(self, engine: Engine, number: int, factor: float, timer: Timer, bar: Any) -> _Counts:
        """A step on every minibatch."""
        options, iterate, trained = self.options, self._iterate, self._trained()
        averages, latest = ({name: m.parameters()[name] for name in trained} for m in (self.model, iterate))
        counts, epoch = _Counts(), options.capped(number)
        for batch in self.data.minibatches(options.batch_size, options.seed, number):
            self.batch = batch.number
            X, V = self.data.take(batch.rows)
            timer.lap("data")
            minibatch = Batch(X, V, batch.index, epoch, batch.seed, self._learner_state, self._workspace)
            negative = self.learner.gradient(iterate, engine, minibatch, self._gradient, timer)
            if self._centering is not None:
                self._centering.transform(self._gradient)
            self.steps += 1
            change, counts.norm = self.optimizer.step(
                trained,
                self._gradient,
                self._optimizer_state,
                t=self.steps,
                factor=factor,
                rates=options.rates or {},
                weight_decay=options.weight_decay,
                n_threads=engine.n_threads,
            )
            if not (np.isfinite(counts.norm) and change <= _LARGEST_STEP):
                raise Diverged(f"a step changed a parameter by {change:.3g}", counts.norm)
            if self._centering is not None:
                self._centering.fold()
            engine.update_checked(iterate.W_vh)  # finite, as the norm is
            if options.averaging is not None:
                average(averages, latest, t=self.steps, decay=options.averaging, n_threads=engine.n_threads)
            timer.lap("step")
            counts.norms += counts.norm
            if negative.n_iter is not None and negative.converged is not None:
                counts.iterations += int(negative.n_iter.sum())
                counts.converged += int(negative.converged.sum())
                counts.inferred += len(negative.n_iter)
            if negative.below_truth is not None:
                counts.below_truth = (counts.below_truth or 0) + int(negative.below_truth.sum())
            if bar is not None:
                bar.update()
        return counts


@dataclass
class _Counts:
    """Sums over the minibatches of an epoch.

    Attributes
    ----------
    norm, norms : float
        Norm of the last gradient, and the sum of all.
    inferred, converged, iterations : int
        Number of inferences, how many of them converged, and the sum of their iterations.
    below_truth : int or None
        How many rivals scored below the truth, where the learner has rivals.
    """

    norm: float = 0.0
    norms: float = 0.0
    inferred: int = 0
    converged: int = 0
    iterations: int = 0
    below_truth: int | None = None


def _mismatch(state: Mapping[str, Arrays], group: str, mine: Arrays) -> str:
    """Why the arrays of a state cannot be those of the group; empty if they can."""
    theirs = state.get(group, {})
    if mine.keys() != theirs.keys():
        return f"the arrays of {group} are {', '.join(sorted(theirs)) or 'none'}"
    for name, a in mine.items():
        kept = theirs[name]
        if kept.shape != a.shape or kept.dtype != a.dtype or not np.isfinite(kept).all():
            return f"{group}.{name} has shape {kept.shape}, dtype {kept.dtype}, or is not finite"
    return ""


def _copy_into(targets: Arrays, values: Mapping[str, NDArray[Any]]) -> None:
    """Write the values into the targets of the same name."""
    for name in targets.keys() & values.keys():
        targets[name][...] = values[name]


def _norm(arrays: Arrays, n_threads: int) -> float:
    """Euclidean norm of all entries of the arrays together."""
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
