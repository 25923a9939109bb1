"""What all learners share: from a minibatch to the gradient of the five parameter arrays.

Every learner of the paper raises the probability of the observed outputs and lowers that of something else:

    d W_vh = mean( v h' ) - E[v h']        v, h = V and its hidden units;    E[.] is given by the learner's `negative`
    d W_vx = mean( (v - E[v]) x' )         d b_v = mean( v - E[v] )
    d W_hx = mean( (h - E[h]) x' )         d b_h = mean( h - E[h] )          Eq. 5, Appendix A; Eq. 7 with its sign

so a learner has one method to write, `negative`, and all of them maximise.

    Workspace    arrays that a run allocates once
    Batch        a minibatch, with what all learners compute from it
    Negative     what a learner returns
    Learner      the base class
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Rows, outer
from crbm_fast.inference import METHODS, Beliefs, Engine, Inference
from crbm_fast.model import CRBM, PARAMETERS

Array = NDArray[Any]


class Diverged(Exception):  # noqa: N818 -- users see DivergenceError, which also knows the epoch
    """Training has left the range of finite, sensible numbers.

    Attributes
    ----------
    reason : str
        What happened.
    norm : float
        Norm of the gradient.
    """

    def __init__(self, reason: str, norm: float) -> None:
        super().__init__(f"{reason}; the gradient has the norm {norm:.3g}")
        self.reason, self.norm = reason, norm


class Workspace:
    """Arrays that live as long as a run: each minibatch writes into those of the minibatch before it.

    Parameters
    ----------
    model : CRBM
        It determines the sizes and the dtype.

    Attributes
    ----------
    beliefs : dict of int to Beliefs
        Results of inference by their number of instances, for `Engine.run_checked(out=)`.
    """

    def __init__(self, model: CRBM) -> None:
        self._widths, self._dtype = {"v": model.nv, "h": model.nh}, model.dtype
        self._arrays: dict[tuple[str, str], Array] = {}
        self.beliefs: dict[int, Beliefs] = {}

    def visible(self, name: str, N: int) -> Array:
        """The array (N, nv) of that name; its entries are arbitrary."""
        return self._rows("v", name, N)

    def hidden(self, name: str, N: int) -> Array:
        """The array (N, nh) of that name; its entries are arbitrary."""
        return self._rows("h", name, N)

    def _rows(self, side: str, name: str, N: int) -> Array:
        kept = self._arrays.get((side, name))
        if kept is None or len(kept) < N:
            kept = self._arrays[side, name] = np.empty((N, self._widths[side]), self._dtype)
        return kept[:N]


def finite_biases(model: CRBM, X: Rows | None, workspace: Workspace | None = None) -> tuple[Array, Array]:
    """b1 (N, nv) and b2 (N, nh) of converted rows, one row each without features; Diverged where they overflow."""
    N = 1 if X is None else len(X)
    out = None if workspace is None else (workspace.visible("b1", N), workspace.hidden("b2", N))
    b1, b2 = model.biases_of(X, out=out)
    if check.beyond(b1) >= 0 or check.beyond(b2) >= 0:
        raise Diverged("the biases b + W x overflow", np.inf)
    return b1, b2


@dataclass(slots=True)
class Batch:
    """A minibatch: what the run puts into it, and what `Learner.gradient` computes for every learner.

    Attributes
    ----------
    X : (N, nx) array, SparseRows or None
        Features, converted and finite; None for a model without features.
    V : (N, nv)
        Observed outputs, 0 or 1, C-contiguous and of the model's dtype.
    index : (N,) int64
        Which training instances these are.
    epoch : int
        From 1.
    seed : int
        The seed of this minibatch's random numbers.
    state : dict of arrays
        What the learner keeps from minibatch to minibatch; see `Learner.first_state`.
    workspace : Workspace
        The run's.
    model : CRBM
        Set by `gradient`, as are all that follow.
    b1, b2 : (N, nv), (N, nh), or one row that all instances share
        Biases given the features.
    theta_h : (N, nh)
        b2 + V W_vh, the fields of the hidden units given V.
    """

    X: Rows | None
    V: Array
    index: NDArray[np.int64]
    epoch: int
    seed: int
    state: dict[str, Array]
    workspace: Workspace
    model: CRBM = field(init=False)
    b1: Array = field(init=False)
    b2: Array = field(init=False)
    theta_h: Array = field(init=False)

    def visible(self, name: str) -> Array:
        """An array (N, nv) of the workspace; its entries are arbitrary."""
        return self.workspace.visible(name, len(self.V))

    def hidden(self, name: str) -> Array:
        """An array (N, nh) of the workspace; its entries are arbitrary."""
        return self.workspace.hidden(name, len(self.V))

    def biases_per_row(self) -> tuple[Array, Array]:
        """b1 and b2 with a row for each instance, (N, nv) and (N, nh)."""
        if len(self.b1) == len(self.V):
            return self.b1, self.b2
        b1, b2 = self.visible("b1 per row"), self.hidden("b2 per row")
        b1[...], b2[...] = self.b1, self.b2
        return b1, b2

    def infer(self, engine: Engine, how: Inference, b1: Array, b2: Array, **wanted: Any) -> Beliefs:
        """The beliefs given b1 (n, nv) and b2 (n, nh), in arrays of the workspace; `wanted` is `gamma` or nothing."""
        kept = self.workspace.beliefs
        kept[len(b1)] = beliefs = engine.run_checked(b1, b2, how, out=kept.get(len(b1)), **wanted)
        return beliefs

    def walk(self, engine: Engine, v: Array, k: int, theta_h: Array | None = None) -> Array:
        """Advance v (N, nv), in place, by k steps of Gibbs sampling, Eq. 3.

        Parameters
        ----------
        v : (N, nv)
            The initial states, and afterwards the final ones.
        k : int
            The number of steps.
        theta_h : (N, nh), optional
            b2 + v W_vh, where it is known.

        Returns
        -------
        h : (N, nh)
            The hidden states from which the final v was drawn.
        """
        h = self.hidden("h of the walk")
        engine.gibbs_checked(*self.biases_per_row(), v, h, seed=self.seed, n_steps=k, theta_h=theta_h)
        return h


@dataclass(slots=True)
class Negative:
    """What the gradient lowers the probability of: the model's own moments, or a rival state of the outputs.

    Attributes
    ----------
    v : (M, nv)
        E[v], or the rival state.  M is N, or 1 where all instances share one model.
    h : (M, nh) or None
        E[h]; None means the learner's hidden units given v.
    gamma : (nv, nh) or None
        The sum over the rows of E[v h']; None means the sum of v h'.
    n_iter, converged : (M,) or None
        What inference reported.
    below_truth : (M,) bool or None
        Where the rival that was found scored below the observed outputs, which then took its place.
    """

    v: Array
    h: Array | None = None
    gamma: Array | None = None
    n_iter: NDArray[np.int64] | None = None
    converged: NDArray[np.bool_] | None = None
    below_truth: NDArray[np.bool_] | None = None


class Timer:
    """Seconds spent in each phase of training: `lap` adds the time since the last call to a phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        now = perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


class Learner:
    """Turns a minibatch into a gradient.  A subclass is a frozen dataclass that writes `negative`.

    Attributes
    ----------
    inference : Inference
        How the learner infers, and how the model predicts after training with it.  A string given in its place is the
        name of a method.
    name : str
        The name by which `train` knows the learner.
    trains : tuple of str
        The parameters that it learns.
    needs_features : bool
        Whether it can only train a model that has features.
    """

    inference: Inference | str

    name: ClassVar[str]
    trains: ClassVar[tuple[str, ...]] = PARAMETERS
    needs_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        how = self.inference
        if isinstance(how, str):
            check.check_choice("method", how, self.methods())
            how = Inference(how)
        elif not isinstance(how, Inference):
            raise TypeError(f"inference={how!r} must be an Inference or the name of a method")
        check.check_choice("method", how.method, self.methods())
        if np.float32(how.damping) == 1:
            raise ValueError(f"damping={how.damping!r} is 1 in float32; take a smaller one")
        check.set_fields(self, inference=how)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        """The names of the methods of inference that the learner can be composed with."""
        return tuple(METHODS)

    def inference_in(self, epoch: int) -> Inference:
        """What training uses in this epoch, from 1, and what a model trained so far should predict with."""
        assert isinstance(self.inference, Inference)
        return self.inference.in_epoch(epoch)

    def prepare(self, model: CRBM) -> None:
        """Change the model, in place, before the first epoch of a new run."""

    def first_state(self, model: CRBM, N: int, batch_size: int) -> dict[str, Array]:
        """Arrays that the learner keeps from minibatch to minibatch and in checkpoints, before the first epoch."""
        return {}

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        """What the gradient of this minibatch lowers the probability of."""
        raise NotImplementedError

    def hidden(self, theta_h: Array, out: Array) -> Array:
        """The hidden units given a state of the outputs, from their fields, written into `out`: mu of Eq. 5."""
        np.copyto(out, theta_h)
        _algebra.logistic(out)
        return out

    def gradient(
        self, model: CRBM, engine: Engine, batch: Batch, out: dict[str, Array], timer: Timer | None = None
    ) -> Negative:
        """Write the gradient of the mean objective over the minibatch into `out`.  Unchecked.

        Parameters
        ----------
        model : CRBM
        engine : Engine
            The engine of `model`, with its present weights.
        batch : Batch
        out : dict of arrays
            An array for every parameter; those of `trains` are written.
        timer : Timer, optional
            It adds up the time spent on biases, the positive phase, the negative phase and the gradient.

        Returns
        -------
        Negative
            Its arrays may be written again by the next minibatch.
        """
        timer, work, V = timer or Timer(), batch.workspace, batch.V
        batch.model = model
        batch.b1, batch.b2 = finite_biases(model, batch.X, work)
        timer.lap("biases")
        batch.theta_h = model.fields_h(V, batch.b2, batch.hidden("theta_h"))
        h = self.hidden(batch.theta_h, batch.hidden("h"))
        timer.lap("positive")
        negative = self.negative(engine, batch)
        M = len(negative.v)
        if negative.h is None:
            theta_h = model.fields_h(negative.v, batch.b2, work.hidden("theta_h of the negative phase", M))
            negative.h = self.hidden(theta_h, work.hidden("h of the negative phase", M))
        timer.lap("negative")
        self._difference(batch, h, negative.v, negative.h, negative.gamma, out, engine.n_threads)
        timer.lap("gradient")
        return negative

    def _difference(
        self,
        batch: Batch,
        h: Array,
        v_negative: Array,
        h_negative: Array,
        gamma: Array | None,
        out: dict[str, Array],
        threads: int,
    ) -> None:
        """Write the moments of the data minus those of the negative phase into `out`."""
        X, V, work = batch.X, batch.V, batch.workspace
        N, M = len(V), len(v_negative)
        if gamma is None and "W_vh" in self.trains:
            # d W_vh = V' h / N - v' h / M, one product
            # (nv, nh) = (nv, N + M) (N + M, nh)
            states, pairs = work.visible("v of both phases", N + M), work.hidden("h of both phases", N + M)
            np.concatenate((V, v_negative), out=states)
            np.divide(h, N, out=pairs[:N])
            np.divide(h_negative, -M, out=pairs[N:])
            _algebra.product(out["W_vh"], states, pairs, transpose_a=True, n_threads=threads)
        elif gamma is not None:
            # d W_vh = V' h / N - gamma / M
            # (nv, nh) = (nv, N) (N, nh)
            np.copyto(out["W_vh"], gamma)
            mean = np.divide(h, N, out=batch.hidden("h / N"))
            _algebra.product(out["W_vh"], V, mean, transpose_a=True, beta=-1 / M, n_threads=threads)
        if "b_h" in self.trains:
            np.subtract(np.add.reduce(h) / N, np.add.reduce(h_negative) / M, out=out["b_h"])
        np.subtract(np.add.reduce(V) / N, np.add.reduce(v_negative) / M, out=out["b_v"])
        if X is not None:
            rows = np.subtract(V, v_negative, out=batch.visible("v - E[v]"))
            outer(np.divide(rows, N, out=rows), X, out["W_vx"], threads)
            if "W_hx" in self.trains:
                rows = np.subtract(h, h_negative, out=batch.hidden("h - E[h]"))
                outer(np.divide(rows, N, out=rows), X, out["W_hx"], threads)
