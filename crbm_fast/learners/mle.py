"""Maximum likelihood: Eq. 5 and Appendix A, the expectations replaced by the beliefs of an inference method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crbm_fast.inference import METHODS, Engine, Inference
from crbm_fast.learners.base import Batch, Learner, Negative


@dataclass(frozen=True)
class MLE(Learner):
    """Maximum likelihood with pseudo-marginals as negative phase.

    Parameters
    ----------
    inference : Inference or str
        How the marginals are estimated in training and, to match, at test time: "sum-product", "mean-field", "tap",
        "exact", or an `Inference` with one of these methods.
    """

    inference: Inference | str = "sum-product"

    name: ClassVar[str] = "mle"

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return tuple(method.name for method in METHODS.values() if method.marginals)

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        b = batch.infer(engine, self.inference_in(batch.epoch), batch.b1, batch.b2, gamma="sum")
        return Negative(b.tau_v, b.tau_h, b.gamma, b.n_iter, b.converged)
