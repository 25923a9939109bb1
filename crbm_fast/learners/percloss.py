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
from crbm_fast.inference import Engine, Inference
from crbm_fast.learners.base import Batch, Learner, Negative
from crbm_fast.model import free_energy


@dataclass(frozen=True)
class PercLoss(Learner):
    """CD-PercLoss [1]_: minimise F(v) - F(v') where the search has found a v' with less free energy than the truth v.

    The search starts at the prediction of the logistic part, does k steps of Gibbs sampling and ends at the most likely
    v' for the last h.  (A sampled v' differs from the best one in many units and so is hardly ever better than the
    truth: on noisy MNIST, nothing was learned.)  Where v' is no better than the truth there is no update.

    Parameters
    ----------
    k : int
        The number of steps of Gibbs sampling; the paper uses 10.
    inference : Inference or str
        How the trained model predicts.  Default: marginal MAP, the state with the lowest free energy, which is what
        the loss is about.  (The paper predicts with "mean-field".)

    References
    ----------
    .. [1] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction",
       UAI 2011.
    """

    k: int = 10
    inference: Inference | str = "mixed-product"

    name: ClassVar[str] = "percloss"

    def __post_init__(self) -> None:
        check.set_fields(self, k=check.check_int("k", self.k, 1))
        super().__post_init__()

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        v, model = batch.visible("rival"), batch.model
        np.greater(batch.b1, 0, out=v)
        h = batch.walk(engine, v, self.k)
        np.greater(model.fields_v(h, batch.b1, v), 0, out=v)  # argmax p(v | h)
        theta_h = model.fields_h(v, batch.b2, batch.hidden("theta_h of the rival"))
        found = free_energy(v, batch.b1, theta_h) < free_energy(batch.V, batch.b1, batch.theta_h)
        keep = ~found[:, np.newaxis]
        np.copyto(v, batch.V, where=keep)
        np.copyto(theta_h, batch.theta_h, where=keep)
        _algebra.logistic(theta_h)
        return Negative(v, theta_h)
