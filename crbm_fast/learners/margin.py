"""Max-margin learning: structured SVMs with hidden units summed out (MSSVM) or maximised (LSSVM).

References
----------
[1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
[2] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from crbm_fast.inference import Engine
from crbm_fast.learners.base import Array, Batch, Learner, Negative


@dataclass(frozen=True)
class MSSVM(Learner):
    """Marginal structured SVM [1]_, Eqs. 6 and 7: the rival is the loss-augmented marginal MAP, by mixed-product BP.

    The loss is Hamming's: a wrong output adds 1, so the search runs on b1 + 1 - 2 v.

    Parameters
    ----------
    max_iter, tol, damping
        As for every `Learner`.

    References
    ----------
    .. [1] Ping, Liu & Ihler, "Marginal structured SVM with hidden variables", ICML 2014.
    """

    name: ClassVar[str] = "mssvm"
    method: ClassVar[Any] = "mixed-product"

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        how = asdict(self.inference(batch.epoch))
        b = engine.run(batch.b1 + 1 - 2 * batch.V, batch.per_row(batch.b2), **how)
        return Negative((b.tau_v > 0.5).astype(batch.V.dtype), n_iter=b.n_iter, converged=b.converged)


@dataclass(frozen=True)
class LSSVM(MSSVM):
    """Latent structured SVM [1]_: as `MSSVM` with max-product BP, the best h in place of the sum over h.

    Parameters
    ----------
    max_iter, tol, damping
        As for every `Learner`.

    References
    ----------
    .. [1] Yu & Joachims, "Learning structural SVMs with latent variables", ICML 2009.
    """

    name: ClassVar[str] = "lssvm"
    method: ClassVar[Any] = "max-product"

    def hidden(self, theta_h: Array) -> Array:
        """The best h for a state of the outputs."""
        return (theta_h > 0).astype(theta_h.dtype)
