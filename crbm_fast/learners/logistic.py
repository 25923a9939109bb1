"""Logistic regression per output: the paper's LR baseline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from crbm_fast import _algebra
from crbm_fast.inference import Engine, Inference
from crbm_fast.learners.base import Batch, Learner, Negative
from crbm_fast.model import CRBM


@dataclass(frozen=True)
class Logistic(Learner):
    """Maximum likelihood of the logistic part alone: only W_vx and b_v are learned, and W_vh is set to 0."""

    # Without coupling, one iteration of mean field is exact.
    inference: Inference | str = field(default=Inference("mean-field", 1), init=False, repr=False)

    name: ClassVar[str] = "logistic"
    trains: ClassVar[tuple[str, ...]] = ("W_vx", "b_v")
    needs_features: ClassVar[bool] = True

    def prepare(self, model: CRBM) -> None:
        model.W_vh[...] = 0

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        v, h = batch.visible("E[v]"), batch.hidden("E[h]")
        v[...], h[...] = batch.b1, 0  # hidden units are not learned
        _algebra.logistic(v)
        return Negative(v, h)
