"""Parallel tempering: replicas with weaker coupling that exchange their states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import Engine
from crbm_fast.model import free_energy
from crbm_fast.samplers.base import Sampler, State, Stream

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class TemperedState(State):
    """N chains and their replicas at lower inverse temperatures.

    Attributes
    ----------
    v, accepted, step, seed, first_chain
        As in `State`; `v` is the replica at betas[0] = 1.
    replicas : (K - 1, N, nv)
        States at betas[1], ..., betas[K - 1].
    swapped : (N, K - 1) bool
        Whether the last step of tempering exchanged the states at betas[k] and betas[k + 1]; a pair is tried in every
        other one.
    rounds : int
        Steps of tempering done; `step` counts those of other samplers too.
    """

    replicas: NDArray[Any]
    swapped: NDArray[np.bool_]
    rounds: int


class ParallelTempering(Sampler):
    """Samples of p(v) by replicas at inverse temperatures 1 = betas[0] > ... >= 0 that exchange their states [1]_.

    The target at beta weakens the coupling alone, written for units that are half on,

        p_beta(v, h) ~ exp(beta (v - 1/2)' W (h - 1/2) + (b_v + W 1/2)' v + (b_h + W' 1/2)' h).

    At beta = 1 it is p; at beta = 0 units are independent and drawn afresh in every step, around what biases and
    average neighbours say rather than around fair coins.  `ais` takes 0 for 1/2; with 1/2 the path does not depend on
    which state of a unit is called 1 (RBM of 64 x 32 with 8 modes: 46 steps of autocorrelation, with 0 more than 600).

    A step is one of Gibbs sampling at every beta, then exchanges between neighbours, even and odd pairs in turn,
    accepted by Metropolis' rule with h summed out (Eq. 4 of the paper).

    Parameters
    ----------
    W, b_v, b_h, evidence, dtype, n_threads
        As for `BlockedGibbs`.
    betas : (K,) array-like, optional
        Default: equally spaced from 1 to 0, K = 2 + |W|_F / 4, at most 64.  |W|_F / 4 is the standard deviation of the
        tempered term at beta = 0 with fair coins, so from one beta to the next the exponent changes by about one
        standard deviation; measured, a fifth to nine tenths of the exchanges are accepted.

    References
    ----------
    .. [1] Geyer, "Markov chain Monte Carlo maximum likelihood", Computing Science and Statistics 23, 1991.
    """

    def __init__(
        self,
        W: ArrayLike,
        b_v: ArrayLike,
        b_h: ArrayLike,
        *,
        betas: ArrayLike | None = None,
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
        dtype: DTypeLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(W, b_v, b_h, evidence=evidence, dtype=dtype, n_threads=n_threads)
        W, b_v, b_h, n_threads = self._W, self._b_v, self._b_h, self._engine.n_threads
        if betas is None:
            norm = np.sqrt(_algebra.sum_squares(W))
            betas = np.linspace(1, 0, 2 + int(min(np.ceil(norm / 4), 62)))
        self.betas = check.as_float("betas", betas, W.dtype).copy()
        self.betas.flags.writeable = False
        if self.betas.ndim != 1 or len(self.betas) < 2 or self.betas[0] != 1 or self.betas[-1] < 0:
            raise ValueError(f"betas={betas}; expected at least two numbers, from 1 down to 0 or more")
        if (np.diff(self.betas) >= 0).any():
            raise ValueError(f"betas={betas} must decrease")
        # The engine, b_v and b_h of each beta.
        self._levels = [
            (Engine(W * beta, n_threads=n_threads), b_v + W.sum(axis=1) * rest, b_h + W.sum(axis=0) * rest)
            for beta, rest in zip(self.betas, (1 - self.betas) / 2, strict=True)
        ]

    def init(self, n_chains: int, *, seed: int = 0, v: ArrayLike | None = None, first_chain: int = 0) -> TemperedState:
        """The state before the first step, all replicas of a chain alike; parameters as for `BlockedGibbs.init`."""
        s = super().init(n_chains, seed=seed, v=v, first_chain=first_chain)
        pairs = len(self.betas) - 1
        none = np.zeros((n_chains, pairs), np.bool_)
        return TemperedState(s.v, s.accepted, s.step, s.seed, s.first_chain, np.tile(s.v, (pairs, 1, 1)), none, 0)

    def step(self, state: TemperedState) -> TemperedState:
        """The chains one step later."""
        K, N = len(self.betas), len(state.v)
        if not isinstance(state, TemperedState) or len(state.replicas) != K - 1:
            raise TypeError(f"state has no replicas at {K} betas; begin with this sampler's init")
        before = [self._checked_units(replace(state, v=v)) for v in (state.v, *state.replicas)]
        v = np.stack([self._gibbs(*self._levels[k], before[k], Stream.REPLICA + k, state) for k in range(K)])
        free = [self._free_units(replica) for replica in v]
        fields = [self._fields(x, np.zeros_like(self._b_h)) for x in free]

        def log_p(k: int, replica: int) -> NDArray[np.float64]:
            """log p_beta of a replica's states at betas[k], without -log Z."""
            _, b_v, b_h = self._levels[k]
            return -free_energy(free[replica], b_v, b_h + fields[replica] * self.betas[k])

        log_ratio = np.full((N, K - 1), -np.inf)
        for k in range(state.rounds % 2, K - 1, 2):
            log_ratio[:, k] = log_p(k, k + 1) + log_p(k + 1, k) - log_p(k, k) - log_p(k + 1, k + 1)
        swapped = self._accept(log_ratio, state)
        for k in range(state.rounds % 2, K - 1, 2):
            at = swapped[:, k]
            v[k, at], v[k + 1, at] = v[k + 1, at], v[k, at]
        accepted = np.ones(N, np.bool_)
        return replace(
            state,
            v=v[0],
            replicas=v[1:],
            swapped=swapped,
            accepted=accepted,
            step=state.step + 1,
            rounds=state.rounds + 1,
        )
