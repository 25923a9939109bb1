"""CD-PercLoss: the perceptron loss, its rival found by a stochastic search.

References
----------
[1] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction", UAI 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    The search starts at the prediction of the logistic part and does k steps of Gibbs sampling.  Where v' is no better
    than the truth there is no update.

    Parameters
    ----------
    k : int
        Steps of Gibbs sampling; the paper uses 10.
    max_iter, tol, damping
        Of mean field, which the trained model predicts with, as in the paper.

    References
    ----------
    .. [1] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction",
       UAI 2011.
    """

    k: int = 10

    name: ClassVar[str] = "percloss"

    def __post_init__(self) -> None:
        check.check_int("k", self.k, 1)
        super().__post_init__()

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        start = np.zeros_like(batch.V)
        start[...] = batch.b1 > 0
        v = batch.walk(engine, start, self.k)
        theta_h = batch.fields(engine, v)
        found = free_energy(v, batch.b1, theta_h) < free_energy(batch.V, batch.b1, batch.theta_h)
        keep = ~found[:, np.newaxis]
        np.copyto(v, batch.V, where=keep)
        np.copyto(theta_h, batch.theta_h, where=keep)
        _algebra.logistic(theta_h)
        return Negative(v, theta_h)
