"""Contrastive divergence: the moments after k steps of Gibbs sampling.

References
----------
[1] Hinton, "Training products of experts by minimizing contrastive divergence", Neural Computation 14, 2002.
[2] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction", UAI 2011.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from crbm_fast import _validation as check
from crbm_fast.inference import Engine, independent_draws
from crbm_fast.learners.base import Batch, Learner, Negative


@dataclass(frozen=True)
class CD(Learner):
    """CD-k [1]_.

    Parameters
    ----------
    k : int
        Steps of Gibbs sampling.
    start : {"data", "random", "logistic"}
        Where the chains start: at the observed outputs; at fair coins, which works better for conditional models
        [2]_; at a draw from the logistic part, P(v_i = 1) = logistic(b1_i).
    method : str
        Inference the trained model predicts with.  Default: the paper's choice, mean field.
    max_iter, tol, damping, init
        Of that inference.

    References
    ----------
    .. [1] Hinton, "Training products of experts by minimizing contrastive divergence", Neural Computation 14, 2002.
    .. [2] Mnih, Larochelle & Hinton, "Conditional restricted Boltzmann machines for structured output prediction",
       UAI 2011.
    """

    k: int = 1
    start: Literal["data", "random", "logistic"] = "data"
    method: str = field(default="mean-field", kw_only=True)  # type: ignore[misc]

    name: ClassVar[str] = "cd"

    def __post_init__(self) -> None:
        check.set_fields(self, k=check.check_int("k", self.k, 1))
        check.check_choice("start", self.start, ("data", "random", "logistic"))
        super().__post_init__()

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        if self.start == "data":
            return Negative(batch.walk(engine, batch.V, self.k, batch.theta_h)[0])
        b = np.zeros_like(batch.V)
        if self.start == "logistic":
            b += batch.b1
        return Negative(batch.walk(engine, independent_draws(b, batch.seed), self.k)[0])
