"""What all learners share: a batch goes in, the gradient of the five parameter blocks comes out.

Every learner of the paper pulls the observed outputs up and something else down:

    d W_vh = mean( v h' ) - E[v h']        v, h = V and its hidden units;    E[.] the learner's `negative`
    d W_vx = mean( (v - E[v]) x' )         d b_v = mean( v - E[v] )
    d W_hx = mean( (h - E[h]) x' )         d b_h = mean( h - E[h] )          Eq. 5, Appendix A; Eq. 7 with its sign

so a learner has one method to write, `negative`, and all of them maximise.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Rows, outer
from crbm_fast.inference import Engine, Inference
from crbm_fast.model import CRBM, PARAMETERS

Array = NDArray[Any]


class Diverged(Exception):  # noqa: N818 -- users see training.DivergenceError
    """Numbers left the range of training: what happened, and the norm of the gradient."""

    def __init__(self, what: str, norm: float) -> None:
        super().__init__(f"{what}; the gradient has the norm {norm:.3g}")
        self.norm = norm


def biases(model: CRBM, X: Rows | None) -> tuple[Array, Array]:
    """b1 and b2, finite."""
    b1, b2 = model._biases(X)
    if check.beyond(b1) >= 0 or check.beyond(b2) >= 0:
        raise Diverged("the biases b + W x overflow", np.inf)
    return b1, b2


@dataclass(slots=True)
class Batch:
    """A minibatch as a learner sees it.

    Attributes
    ----------
    model : CRBM
    V : (N, nv)
        Observed outputs.
    b1, b2 : (N, nv), (N, nh), or one row shared by all
        Biases given the features.
    theta_h : (N, nh)
        b2 + V W_vh, the fields of the hidden units given V.
    index : (N,) int64
        Which training instances these are.
    epoch : int
        From 1.
    seed : int
        Of this batch's random numbers.
    state : dict of arrays
        What the learner keeps from batch to batch; see `Learner.first_state`.
    shared : bool
        Whether all instances share one model: there are no features.
    """

    model: CRBM
    V: Array
    b1: Array
    b2: Array
    theta_h: Array
    index: NDArray[np.int64]
    epoch: int
    seed: int
    state: dict[str, Array]
    shared: bool

    def per_row(self, b: Array) -> Array:
        """b1 or b2, a row for each instance."""
        return b if len(b) == len(self.V) else np.repeat(b, len(self.V), axis=0)

    def walk(self, engine: Engine, v: Array, k: int, theta_h: Array | None = None) -> tuple[Array, Array]:
        """(v, h) after k steps of Gibbs sampling from v, Eq. 3; `theta_h` = b2 + v W_vh where it is known."""
        b1, b2 = self.per_row(self.b1), self.per_row(self.b2)
        v, h = v.copy(), np.empty_like(b2)
        engine.gibbs_checked(b1, b2, v, h, seed=self.seed, n_steps=k, theta_h=theta_h)
        return v, h


@dataclass(slots=True)
class Negative:
    """What is pulled down: moments of the model, or a rival state of the outputs.

    Attributes
    ----------
    v : (N, nv), or (1, nv) where all instances share one model
        E[v], or the rival state.
    h : (N, nh), likewise, or None
        E[h]; None: that of the learner's hidden units given v.
    gamma : (nv, nh) or None
        Sum over the rows of E[v h']; None: sum of v h'.
    n_iter, converged : (N,) or None
        Of the inference.
    """

    v: Array
    h: Array | None = None
    gamma: Array | None = None
    n_iter: NDArray[np.int64] | None = None
    converged: NDArray[np.bool_] | None = None


class Timer:
    """Seconds by phase: `lap` books the time since the last one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        now = perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Turns a minibatch into a gradient.  Subclasses write `negative`; the rest is shared.

    Parameters
    ----------
    max_iter : int, optional
        Iterations of inference, in training and for the predictions the trained model makes.  Default: the paper's
        7 + epoch.
    tol : float
        Inference stops an instance when no belief changed by more.
    damping : float
        Of inference.
    init : "visible", optional
        Where mean field and TAP start, see `infer`.
    """

    max_iter: int | None = None
    tol: float = 1e-3
    damping: float = 0.0
    init: Literal["visible"] | None = None

    name: ClassVar[str]
    method: ClassVar[Any]  # of inference: in training where there is any, and at test time
    trains: ClassVar[tuple[str, ...]] = PARAMETERS

    def __post_init__(self) -> None:
        how = Learner.inference(self, 1)  # checks them
        check.set_fields(
            self, max_iter=None if self.max_iter is None else how.max_iter, tol=how.tol, damping=how.damping
        )

    def inference(self, epoch: int) -> Inference:
        """What training uses in this epoch, and a model trained so far should predict with."""
        T = 7 + epoch if self.max_iter is None else self.max_iter  # Section 6, observation (1)
        return Inference(self.method, T, self.tol, self.damping, self.init)

    def prepare(self, model: CRBM) -> None:
        """What a new run changes in the model before it starts."""

    def first_state(self, model: CRBM, N: int, batch_size: int) -> dict[str, Array]:
        """Arrays to keep from batch to batch and in checkpoints."""
        return {}

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        """What is pulled down."""
        raise NotImplementedError

    def hidden(self, theta_h: Array) -> Array:
        """The hidden units given a state of the outputs, from their fields: mu of Eq. 5."""
        h = theta_h.copy()
        _algebra.logistic(h)
        return h

    def gradient(
        self,
        model: CRBM,
        engine: Engine,
        X: Rows | None,
        V: Array,
        out: dict[str, Array],
        *,
        index: NDArray[np.int64],
        epoch: int,
        seed: int,
        state: dict[str, Array],
        timer: Timer,
    ) -> Negative:
        """Write the gradient of the mean objective over the batch into `out`; returns the negative phase."""
        threads = engine.n_threads
        b1, b2 = biases(model, X)
        timer.lap("biases")
        theta_h = model._field_h(V, b2)
        h = self.hidden(theta_h)
        timer.lap("positive")
        negative = self.negative(engine, Batch(model, V, b1, b2, theta_h, index, epoch, seed, state, X is None))
        if negative.h is None:
            negative.h = self.hidden(model._field_h(negative.v, b2))
        timer.lap("negative")
        N, M = len(V), len(negative.v)
        if negative.gamma is None and "W_vh" in self.trains:
            # d W_vh = V' h / N - v' h / M, one product
            # (nv, nh) = (nv, N + M) (N + M, nh)
            states, pairs = np.concatenate((V, negative.v)), np.concatenate((h / N, negative.h / -M))
            _algebra.product(out["W_vh"], states, pairs, transpose_a=True, n_threads=threads)
        elif negative.gamma is not None:
            # d W_vh = V' h / N - gamma / M
            # (nv, nh) = (nv, N) (N, nh)
            np.copyto(out["W_vh"], negative.gamma)
            _algebra.product(out["W_vh"], V, h / N, transpose_a=True, beta=-1 / M, n_threads=threads)
        if "b_h" in self.trains:
            np.subtract(np.add.reduce(h) / N, np.add.reduce(negative.h) / M, out=out["b_h"])
        np.subtract(np.add.reduce(V) / N, np.add.reduce(negative.v) / M, out=out["b_v"])
        if X is not None:
            outer((V - negative.v) / N, X, out["W_vx"], threads)
            if "W_hx" in self.trains:
                outer((h - negative.h) / N, X, out["W_hx"], threads)
        timer.lap("gradient")
        return negative
