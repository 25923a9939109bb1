"""Persistent contrastive divergence: chains that continue from one update to the next.

References
----------
[1] Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood gradient", ICML 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crbm_fast import _validation as check
from crbm_fast.inference import Engine, Inference
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
        The number of steps of Gibbs sampling per update.
    inference : Inference or str
        How the trained model predicts.  Default: the paper's choice, mean field.

    References
    ----------
    .. [1] Tieleman, "Training restricted Boltzmann machines using approximations to the likelihood gradient", ICML
       2008.
    """

    k: int = 1
    inference: Inference | str = "mean-field"

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
        at = np.arange(len(batch.V)) if batch.X is None else batch.index
        v = batch.visible("chains")
        v[...] = np.unpackbits(chains[at], axis=1, count=v.shape[1])
        np.copyto(v, batch.V, where=~started[at, np.newaxis])
        batch.walk(engine, v, self.k)
        chains[at], started[at] = np.packbits(v > 0.5, axis=1), True
        return Negative(v)
