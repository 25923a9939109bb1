"""Max-margin learning: structured SVMs with hidden units summed out (MSSVM) or maximised (LSSVM).

For each instance the learner looks for the rival, the outputs u that score highest with the loss added:

    S(u) = sum_i loss(u_i, v_i) + b1 u + sum_j f(theta_h_j(u))      f = softplus: MSSVM      f(x) = max(0, x): LSSVM

BP looks first.  Where it goes to and fro between states, coordinate ascent goes on from its last one: each flip raises S,
so there is an end, and the end is a fixed point of mixed-product BP.  Seen with weights that grow where labels have
several likely states ("topics" of tests/learning/test_classifier.py, 50 epochs): rivals below the truth 95 % by LSSVM and,
with some seeds, by MSSVM, whose weights then run away; 1 to 2 % with ascent, without damping.

References
----------
[1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
[2] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import Beliefs, Engine, Inference
from crbm_fast.learners.base import Array, Batch, Learner, Negative

# Sweeps of coordinate ascent at most; seen: 2 to 14.
_SWEEPS = 1000


@dataclass(frozen=True)
class MSSVM(Learner):
    """Marginal structured SVM [1]_, Eqs. 6 and 7: the rival is the loss-augmented marginal MAP, by mixed-product BP.

    The loss is Hamming's: a wrong output adds 1, so the search runs on b1 + 1 - 2 v.  A rival that scores below the truth
    is none: the truth scores higher, the hinge is 0, and the instance has no part in the gradient.
    `Epoch.below_truth` tells how often that happened.

    Parameters
    ----------
    inference : Inference or str
        How the rival is found, and how the trained model predicts: "mixed-product", with options such as
        `Inference("mixed-product", damping=0.5)`.
    ascent : bool
        Whether coordinate ascent, "mixed-ascent", goes on where this has not converged.

    References
    ----------
    .. [1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
    """

    inference: Inference | str = "mixed-product"
    ascent: bool = True

    name: ClassVar[str] = "mssvm"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.check_flag("ascent", self.ascent)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("mixed-product", "mixed-ascent")

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        V = batch.V
        # b1 + 1 - 2 v
        augmented, rival = batch.visible("loss-augmented b1"), batch.visible("rival")
        np.add(batch.b1, 1, out=augmented)
        augmented -= np.multiply(V, 2, out=rival)
        b = batch.infer(engine, self.inference_in(batch.epoch), augmented, batch.biases_per_row()[1])
        if self.ascent:
            self._climb(engine, batch, augmented, b)
        np.greater(b.tau_v, 0.5, out=rival)
        theta_h = batch.model.fields_h(rival, batch.b2, batch.hidden("theta_h of the rival"))
        below = self._score(batch, rival, augmented, theta_h) < self._score(batch, V, augmented, batch.theta_h)
        np.copyto(rival, V, where=below[:, None])
        np.copyto(theta_h, batch.theta_h, where=below[:, None])
        h = self.hidden(theta_h, batch.hidden("h of the rival"))
        return Negative(rival, h, n_iter=b.n_iter, converged=b.converged, below_truth=below)

    def _climb(self, engine: Engine, batch: Batch, augmented: Array, b: Beliefs) -> None:
        """Go on by coordinate ascent where BP has not converged; writes into the beliefs b."""
        rows = np.flatnonzero(~b.converged)
        if len(rows) == 0:
            return
        how = Inference(self.methods()[1], _SWEEPS, self.inference_in(batch.epoch).tol)
        work, n = batch.workspace, len(rows)
        b1, b2 = work.visible("b1 to climb", n), work.hidden("b2 to climb", n)
        for out, values in ((b1, augmented), (b2, batch.biases_per_row()[1])):
            np.take(values, rows, axis=0, out=out, mode="clip")
        state = np.concatenate((b.tau_v[rows], b.tau_h[rows]), axis=1, out=work.units("states to climb from", n))
        end = Beliefs(
            work.visible("tau_v of the climb", n),
            work.hidden("tau_h of the climb", n),
            np.empty(n, np.int64),
            np.empty(n, np.bool_),
            np.empty(n),
        )
        engine.run_checked(b1, b2, how, init=state, out=end)
        b.tau_v[rows], b.converged[rows] = end.tau_v, end.converged
        b.n_iter[rows] += end.n_iter

    def _score(self, batch: Batch, v: Array, b1: Array, theta_h: Array) -> NDArray[np.float64]:
        """S(v) up to the loss of v = 0, (N,)."""
        linear = np.multiply(v, b1, out=batch.visible("terms of the score"))
        score: NDArray[np.float64] = linear.sum(axis=1, dtype=np.float64)
        return score + self._hidden_score(theta_h, batch.hidden("terms of the score"))

    def _hidden_score(self, theta_h: Array, scratch: Array) -> NDArray[np.float64]:
        """The sum over j of f(theta_h_j), (N,); `scratch` (N, nh) may be written."""
        return _algebra.softplus_sums(theta_h)


@dataclass(frozen=True)
class LSSVM(MSSVM):
    """Latent structured SVM [1]_: as `MSSVM` with max-product BP, the best h in place of the sum over h.

    Parameters
    ----------
    inference : Inference or str
        As for `MSSVM`, with "max-product".
    ascent : bool
        As for `MSSVM`, by "max-ascent".

    References
    ----------
    .. [1] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
    """

    inference: Inference | str = "max-product"

    name: ClassVar[str] = "lssvm"

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("max-product", "max-ascent")

    def hidden(self, theta_h: Array, out: Array) -> Array:
        """The best h given a state of the outputs."""
        return np.greater(theta_h, 0, out=out)

    def _hidden_score(self, theta_h: Array, scratch: Array) -> NDArray[np.float64]:
        score: NDArray[np.float64] = np.maximum(theta_h, 0, out=scratch).sum(axis=1, dtype=np.float64)
        return score
