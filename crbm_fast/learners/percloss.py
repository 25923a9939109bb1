"""CD-PercLoss: the perceptron loss, its rival found by a stochastic search.

References
----------
[1] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction", UAI 2011.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import Engine
from crbm_fast.learners.base import Batch, Learner, Negative
from crbm_fast.model import free_energy


@dataclass(frozen=True)
class PercLoss(Learner):
    """CD-PercLoss [1]_: minimise F(v) - F(v') where the search has found a v' with less free energy than the truth v.

    The search starts at the prediction of the logistic part, does k steps of Gibbs sampling and ends at the most likely
    v' for the last h.  (A sampled v' differs from the best one in many units and so is hardly ever better than the
    truth: on noisy MNIST, learning stood still.)  Where v' is no better than the truth there is no update.

    Parameters
    ----------
    k : int
        Steps of Gibbs sampling; the paper uses 10.
    method : str
        Inference the trained model predicts with.  Default: marginal MAP, which has the lowest free energy, what is
        learned.  (The paper predicts with "mean-field".)
    max_iter, tol, damping, init
        Of that inference.

    References
    ----------
    .. [1] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction",
       UAI 2011.
    """

    k: int = 10
    method: str = field(default="mixed-product", kw_only=True)  # type: ignore[misc]

    name: ClassVar[str] = "percloss"

    def __post_init__(self) -> None:
        check.set_fields(self, k=check.check_int("k", self.k, 1))
        super().__post_init__()

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        start = np.zeros_like(batch.V)
        start[...] = batch.b1 > 0
        _, h = batch.walk(engine, start, self.k)
        v = (batch.model._field_v(h, batch.b1) > 0).astype(batch.V.dtype)  # argmax p(v | h)
        theta_h = batch.model._field_h(v, batch.b2)
        found = free_energy(v, batch.b1, theta_h) < free_energy(batch.V, batch.b1, batch.theta_h)
        keep = ~found[:, np.newaxis]
        np.copyto(v, batch.V, where=keep)
        np.copyto(theta_h, batch.theta_h, where=keep)
        _algebra.logistic(theta_h)
        return Negative(v, theta_h)
