"""Max-margin learning: structured SVMs with hidden units summed out (MSSVM) or maximised (LSSVM).

For each instance the learner looks for the rival, the outputs u that score highest with the loss added:

    S(u) = sum_i loss(u_i, v_i) + b1 u + sum_j f(theta_h_j(u))      f = softplus: MSSVM      f(x) = max(0, x): LSSVM

BP looks first.  Where it goes to and fro between states, coordinate ascent goes on from the last one: each flip raises
S.  Seen on 1,000 instances whose labels have several likely states ("topics" of tests/learning/test_classifier.py) with
4 seeds, in the worst of 50 epochs: by BP alone 90 % (MSSVM) and 95 % (LSSVM) of the rivals score below the truth, and
the weights mean nothing; with ascent 3 %, as with a damping of 0.5.  On MNIST (5,000 images, 12x12 occluded or 20 %
noisy) BP oscillates on 4 to 16 % of the instances, the rivals hardly change, and so do the errors.  Tried and lost: the
best state seen on the way in place of the last (the same S to 1e-5), and a second ascent from the truth (the same
errors).

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
from crbm_fast.inference import Engine, Inference
from crbm_fast.learners.base import Array, Batch, Learner, Negative

_MIXED = Inference("mixed-product", fallback="mixed-ascent")
_MAX = Inference("max-product", fallback="max-ascent")


@dataclass(frozen=True)
class MSSVM(Learner):
    """Marginal structured SVM [1]_, Eqs. 6 and 7: the rival is the loss-augmented marginal MAP, by mixed-product BP.

    The loss is Hamming's: a wrong output adds 1, so the search runs on b1 + 1 - 2 v.  A rival that scores below the
    truth is none: the truth takes its place, the hinge is 0, and the instance has no part in the gradient.
    `Epoch.below_truth` tells how often that happened.

    Parameters
    ----------
    inference : Inference or str
        How the rival is found, and how the trained model predicts.  Default: mixed-product, and coordinate ascent where
        it has not converged, `Inference("mixed-product", fallback="mixed-ascent")`.  "mixed-product" is without that,
        "mixed-ascent" ascent alone.

    References
    ----------
    .. [1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
    """

    inference: Inference | str = _MIXED

    name: ClassVar[str] = "mssvm"

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
        np.greater(b.tau_v, 0.5, out=rival)
        theta_h = batch.model.fields_h(rival, batch.b2, batch.hidden("theta_h of the rival"))
        below = self._score(batch, rival, augmented, theta_h) < self._score(batch, V, augmented, batch.theta_h)
        np.copyto(rival, V, where=below[:, None])
        np.copyto(theta_h, batch.theta_h, where=below[:, None])
        h = self.hidden(theta_h, batch.hidden("h of the rival"))
        return Negative(rival, h, n_iter=b.n_iter, converged=b.converged, below_truth=below)

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
        As for `MSSVM`, with "max-product" and "max-ascent".

    References
    ----------
    .. [1] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
    """

    inference: Inference | str = _MAX

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
