"""Contrastive divergence: the moments after k steps of Gibbs sampling.

References
----------
[1] Hinton, "Training products of experts by minimizing contrastive divergence", Neural Computation 14, 2002.
[2] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction", UAI 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from crbm_fast import _validation as check
from crbm_fast.inference import Engine, Inference, independent_draws
from crbm_fast.learners.base import Batch, Learner, Negative


@dataclass(frozen=True)
class CD(Learner):
    """CD-k [1]_.

    Parameters
    ----------
    k : int
        The number of steps of Gibbs sampling.
    start : {"data", "random", "logistic"}
        The initial states of the chains: the observed outputs; fair coins, which work better for conditional models
        [2]_; a draw from the logistic part, P(v_i = 1) = logistic(b1_i).
    inference : Inference or str
        How the trained model predicts.  Default: the paper's choice, mean field.

    References
    ----------
    .. [1] Hinton, "Training products of experts by minimizing contrastive divergence", Neural Computation 14, 2002.
    .. [2] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction",
       UAI 2011.
    """

    k: int = 1
    start: Literal["data", "random", "logistic"] = "data"
    inference: Inference | str = "mean-field"

    name: ClassVar[str] = "cd"

    def __post_init__(self) -> None:
        check.set_fields(self, k=check.check_int("k", self.k, 1))
        check.check_choice("start", self.start, ("data", "random", "logistic"))
        super().__post_init__()

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        v = batch.visible("chains")
        if self.start == "data":
            np.copyto(v, batch.V)
            batch.walk(engine, v, self.k, batch.theta_h)
            return Negative(v)
        v[...] = batch.b1 if self.start == "logistic" else 0
        v = independent_draws(v, batch.seed)
        batch.walk(engine, v, self.k)
        return Negative(v)
