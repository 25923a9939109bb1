"""Logistic regression per output: the paper's LR baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crbm_fast import _algebra
from crbm_fast.inference import Engine, Inference
from crbm_fast.learners.base import Batch, Learner, Negative
from crbm_fast.model import CRBM


@dataclass(frozen=True)
class Logistic(Learner):
    """Maximum likelihood of the logistic part alone: only W_vx and b_v are learned, W_vh is set to 0.

    Parameters
    ----------
    max_iter, tol, damping
        Without effect: nothing is iterated.
    """

    name: ClassVar[str] = "logistic"
    method: ClassVar[Any] = "mean-field"
    trains: ClassVar[tuple[str, ...]] = ("W_vx", "b_v")

    def prepare(self, model: CRBM) -> None:
        model.W_vh[...] = 0

    def inference(self, epoch: int) -> Inference:
        return Inference(self.method, 1)

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        v = np.zeros_like(batch.V)
        v += batch.b1
        _algebra.logistic(v)
        return Negative(v, np.zeros_like(batch.theta_h))
