"""Maximum likelihood: Eq. 5 and Appendix A, the expectations replaced by the beliefs of an inference method."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from crbm_fast import _validation as check
from crbm_fast.inference import Engine
from crbm_fast.learners.base import Batch, Learner, Negative

METHODS = ("sum-product", "mean-field", "tap", "exact")


@dataclass(frozen=True)
class MLE(Learner):
    """Maximum likelihood with pseudo-marginals as negative phase.

    Parameters
    ----------
    method : {"sum-product", "mean-field", "tap", "exact"}
        Inference in training and, to match, at test time.
    max_iter, tol, damping, init
        As for every `Learner`.
    """

    method: str = "sum-product"  # type: ignore[misc]

    name: ClassVar[str] = "mle"

    def __post_init__(self) -> None:
        check.check_choice("method", self.method, METHODS)
        super().__post_init__()

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        b = engine.run(batch.b1, batch.b2, gamma="sum", **asdict(self.inference(batch.epoch)))
        return Negative(b.tau_v, b.tau_h, b.gamma, b.n_iter, b.converged)
