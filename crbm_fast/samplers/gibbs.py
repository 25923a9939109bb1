"""Blocked Gibbs sampling: h given v, then v given h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crbm_fast.samplers.base import S, Sampler, Stream


class BlockedGibbs(Sampler):
    """Samples of p(v) by h ~ p(h | v), v ~ p(v | h), Eq. 3 of [1]_.

    This is the algorithm of `gibbs`, with other random numbers for the same seed.

    Parameters
    ----------
    W, b_v, b_h, dtype, n_threads
        As for `infer`; one RBM.
    evidence : (mask, values), optional
        Visible units with `mask` set are clamped to `values` (0 or 1), both (nv,): the target is p(rest | values).

    References
    ----------
    .. [1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
    """

    def step(self, state: S) -> S:
        """The chains one step later."""
        v = self._gibbs(self._engine, self._b_v, self._b_h, self._checked_units(state), Stream.GIBBS, state)
        return replace(state, v=v, accepted=np.ones(len(v), np.bool_), step=state.step + 1)
