"""Persistent contrastive divergence: chains that go on from one update to the next.

References
----------
[1] Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood gradient", ICML 2008.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from crbm_fast import _validation as check
from crbm_fast.inference import Engine
from crbm_fast.learners.base import Array, Batch, Learner, Negative
from crbm_fast.model import CRBM


@dataclass(frozen=True)
class PCD(Learner):
    """PCD-k [1]_: a chain per training instance, or for a plain RBM as many chains as a batch has rows, shared by all.

    A conditional model's chain starts at the instance's own outputs.  The chains take one bit per training instance
    and output, the only memory of training that grows with the number of instances.

    Parameters
    ----------
    k : int
        Steps of Gibbs sampling per update.
    method : str
        Inference the trained model predicts with.  Default: the paper's choice, mean field.
    max_iter, tol, damping, init
        Of that inference.

    References
    ----------
    .. [1] Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood gradient", ICML
       2008.
    """

    k: int = 1
    method: str = field(default="mean-field", kw_only=True)  # type: ignore[misc]

    name: ClassVar[str] = "pcd"

    def __post_init__(self) -> None:
        check.set_fields(self, k=check.check_int("k", self.k, 1))
        super().__post_init__()

    def first_state(self, model: CRBM, N: int, batch_size: int) -> dict[str, Array]:
        chains = N if model.nx > 0 else min(batch_size, N)
        return {
            "chains": np.zeros((chains, (model.nv + 7) // 8), np.uint8),  # a bit per unit
            "started": np.zeros(chains, np.bool_),
        }

    def negative(self, engine: Engine, batch: Batch) -> Negative:
        chains, started = batch.state["chains"], batch.state["started"]
        at = np.arange(len(batch.V)) if batch.shared else batch.index
        v = np.unpackbits(chains[at], axis=1, count=batch.V.shape[1]).astype(batch.V.dtype)
        v = np.where(started[at, np.newaxis], v, batch.V)
        v, _ = batch.walk(engine, v, self.k)
        chains[at], started[at] = np.packbits(v > 0.5, axis=1), True
        return Negative(v)
