"""Max-margin learning: structured SVMs with hidden units summed out (MSSVM) or maximised (LSSVM).

References
----------
[1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
[2] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crbm_fast.inference import Engine, Inference
from crbm_fast.learners.base import Array, Batch, Learner, Negative


@dataclass(frozen=True)
class MSSVM(Learner):
    """Marginal structured SVM [1]_, Eqs. 6 and 7: the rival is the loss-augmented marginal MAP, by mixed-product BP.

    The loss is Hamming's: a wrong output adds 1, so the search runs on b1 + 1 - 2 v.

    Parameters
    ----------
    inference : Inference or str
        How the rival is found, and how the trained model predicts: "mixed-product", with options such as
        `Inference("mixed-product", damping=0.5)`.

    References
    ----------
    .. [1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
    """

    inference: Inference | str = "mixed-product"

    name: ClassVar[str] = "mssvm"

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("mixed-product",)

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        # b1 + 1 - 2 v
        augmented, rival = batch.visible("loss-augmented b1"), batch.visible("rival")
        np.add(batch.b1, 1, out=augmented)
        augmented -= np.multiply(batch.V, 2, out=rival)
        b = batch.infer(engine, self.inference_in(batch.epoch), augmented, batch.biases_per_row()[1])
        np.greater(b.tau_v, 0.5, out=rival)
        return Negative(rival, n_iter=b.n_iter, converged=b.converged)


@dataclass(frozen=True)
class LSSVM(MSSVM):
    """Latent structured SVM [1]_: as `MSSVM` with max-product BP, the best h in place of the sum over h.

    Parameters
    ----------
    inference : Inference or str
        As for `MSSVM`, with "max-product".

    References
    ----------
    .. [1] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
    """

    inference: Inference | str = "max-product"

    name: ClassVar[str] = "lssvm"

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("max-product",)

    def hidden(self, theta_h: Array, out: Array) -> Array:
        """The best h given a state of the outputs."""
        return np.greater(theta_h, 0, out=out)
