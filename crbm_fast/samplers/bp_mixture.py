"""Gibbs sampling with jumps: proposals from a mixture of the beliefs that belief propagation finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import xlogy

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import independent_draws
from crbm_fast.model import free_energy
from crbm_fast.samplers.base import S, Sampler, State, Stream, as_states, stream_seed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

# Number of messages that are held at a time: 32 MB in float64.
_MESSAGES = 1 << 22
# Beliefs are kept this far from 0 and 1, so that every state is proposed.  With 50 units 1e-2 halves the acceptance,
# 1e-3 and 1e-4 do not differ.
_EPSILON = 1e-4
# Share of the weight that is divided equally among the components, in case the bound misleads.
_SHARED_WEIGHT = 0.1


class BPMixture(Sampler):
    """Samples of p(v) by Gibbs sampling with jumps: independent proposals from a mixture of BP's beliefs.

    Belief propagation from many random states finds many fixed points, each the beliefs of one mode.  Their mixture,

        q(h) = sum_k w_k prod_j tau_kj^h_j (1 - tau_kj)^(1 - h_j),

    is computed once.  log w_k is the mean-field bound on log Z at these beliefs, right whether or not BP has converged
    (Bethe's log Z is no bound and can be far too large then); a tenth of the weight is shared equally.

    A step is h ~ p(h | v); a proposal h' ~ q, accepted with probability min(1, p(h') q(h) / p(h) q(h')), p(h) from the
    free energy with v summed out (Eq. 4 of [1]_); v ~ p(v | h).  Where nv <= nh, q is over v and its proposal comes
    first.  That takes the time of three or four steps of `BlockedGibbs` where K, the number of distinct
    beliefs, is small, and grows with it.

    The stationary distribution is p, whatever BP did: (1) h ~ p(h | v) and v ~ p(v | h) leave p(v, h) invariant.
    (2) The flow from h to another h' by proposals is p(h) q(h') min(1, p(h') q(h) / p(h) q(h')) = min(p(h) q(h'),
    p(h') q(h)), the same from h' to h, so p(h) stays (independence Metropolis-Hastings [2]_).  (3) After (2) v is
    drawn anew given h, so p(v, h) stays.  (4) q is fixed, and positive: beliefs are kept 1e-4 away from 0 and 1.

    Good where p is peaked with several modes: look at `state.accepted.mean()`, and at `len(sampler.weights)`, about the
    number of modes.  A mode that no start has led to is entered and left by Gibbs sampling
    alone, as without jumps; `starts` near it help.  Where the units of a mode are strongly correlated (glassy or large
    RBMs), few proposals are accepted.

    Parameters
    ----------
    W, b_v, b_h, evidence, dtype, n_threads
        As for `BlockedGibbs`.
    starts : int or (M, nv) array-like of 0 and 1
        The states BP starts from, or the number of random ones, which should be larger than the number of modes.  Where
        modes overlap, states that another sampler has reached, with `max_iter=1`, can be better.
    max_iter : int
        Iterations of BP at most; beliefs that have not converged are used as they are.  Fewer make a broader q.
    seed : int
        The seed of the random states.

    Attributes
    ----------
    weights : (K,) float64
        Weights of the distinct beliefs found.
    tau_v : (K, nv)
        P(v_i = 1) of each.

    References
    ----------
    .. [1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
    .. [2] Tierney, "Markov chains for exploring posterior distributions", Annals of Statistics 22, 1994.
    """

    # Tried and lost: a fresh random start u for every proposal, with the ratio p(v') q(v | u) / p(v) q(v' | u').  That
    # targets p(v) r(u), of which pairs where u leads to another mode than v's are the larger part and are practically
    # never reached; in between, modes have the shares p(mode) r(mode): 0.77 for 0.70, for ever, at 80 % accepted.
    # And drawing in blocks, BP rerun given those drawn: up to three times the acceptance for 4 to 50 times the work.

    def __init__(
        self,
        W: ArrayLike,
        b_v: ArrayLike,
        b_h: ArrayLike,
        *,
        starts: int | ArrayLike = 256,
        max_iter: int = 50,
        seed: int = 0,
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
        dtype: DTypeLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(W, b_v, b_h, evidence=evidence, dtype=dtype, n_threads=n_threads)
        tau_v, tau_h = self._beliefs(self._starts(starts, seed), max_iter)
        # Equal to two digits: the same fixed point.  One that rounding splits has twice its weight, which is harmless.
        both = np.concatenate([tau_v, tau_h], axis=1)
        first = np.unique(both.round(2), axis=0, return_index=True)[1]
        bound = self._bound(tau_v[first], tau_h[first])
        w = np.exp(bound - bound.max())
        self.weights = (1 - _SHARED_WEIGHT) * w / w.sum() + _SHARED_WEIGHT / len(w)
        self.tau_v = self._with_clamped(tau_v[first])
        # q is over the side with fewer units: less to get wrong
        self._on_v = tau_v.shape[1] <= tau_h.shape[1]
        tau = np.clip((tau_v if self._on_v else tau_h)[first].astype(np.float64), _EPSILON, 1 - _EPSILON)
        self._logit = np.log(tau) - np.log1p(-tau)
        self._log_none = np.log(self.weights) + np.log1p(-tau).sum(axis=1)  # log w_k q_k(x) at x = 0
        self._ends = np.cumsum(self.weights)[:-1]

    def _starts(self, starts: Any, seed: int) -> NDArray[Any]:
        """The free units of the states that BP starts from, (M, n)."""
        nv, dtype = len(self._free), self._engine.dtype
        seed = check.check_int("seed", seed, 0, 2**64 - 1)
        if np.ndim(starts) == 0:
            M = check.check_int("starts", starts, 1)
            return self._free_units(independent_draws(np.zeros((M, nv), dtype), stream_seed(seed, Stream.START)))
        states = as_states("starts", starts, dtype)
        if states.ndim != 2 or states.shape[1] != nv or len(states) == 0:
            raise ValueError(f"starts has shape {states.shape}; expected (M, {nv}), M >= 1")
        return self._free_units(states)

    def _beliefs(self, starts: NDArray[Any], max_iter: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """tau_v and tau_h of BP that starts as if every v_i were known: log m(1)/m(0) = v_i W_ij."""
        rows = max(1, _MESSAGES // max(1, self._W.size))
        found = []
        for at in range(0, len(starts), rows):
            v = starts[at : at + rows]
            init, biases = v[:, :, np.newaxis] * self._W, np.tile(self._b_v, (len(v), 1))
            b = self._engine.run(biases, self._b_h, init=init, max_iter=max_iter, fallback=None)
            found.append((b.tau_v, b.tau_h))
        tau_v, tau_h = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return tau_v, tau_h

    def _bound(self, tau_v: NDArray[Any], tau_h: NDArray[Any]) -> NDArray[np.float64]:
        """E[v' W h + b_v' v + b_h' h] + entropy under independent units, (K,): at most log Z."""
        theta = self._fields(tau_v, self._b_h)
        energy = np.einsum("kj,kj->k", theta, tau_h, dtype=np.float64) + tau_v @ self._b_v.astype(np.float64)
        entropy = [-(xlogy(t, t) + xlogy(1 - t, 1 - t)).sum(axis=1, dtype=np.float64) for t in (tau_v, tau_h)]
        bound: NDArray[np.float64] = energy + entropy[0] + entropy[1]
        return bound

    def _log_q(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """log q(x), (N,), in float64."""
        terms = np.empty((len(x), len(self.weights)))
        terms[...] = self._log_none
        # terms = x logit' + terms
        # (N, K) = (N, n) (n, K) + (N, K)
        x = x.astype(np.float64)
        _algebra.product(terms, x, self._logit, transpose_b=True, beta=1, n_threads=self._engine.n_threads)
        top = terms.max(axis=1)
        terms -= top[:, np.newaxis]
        log_q: NDArray[np.float64] = top + np.log(np.exp(terms, out=terms).sum(axis=1))
        return log_q

    def _jump(self, x: NDArray[Any], state: State) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Fields of the other side given x (N, n), or given the proposal where it was accepted; and where it was."""
        own, other = (self._b_v, self._b_h) if self._on_v else (self._b_h, self._b_v)
        uniform = self._draw(np.zeros((len(x), 32)), Stream.COMPONENT, state) @ 0.5 ** np.arange(1, 33)
        component = np.searchsorted(self._ends, uniform, side="right")
        y = self._draw(self._logit[component], Stream.PROPOSAL, state).astype(x.dtype)
        theta, theta_y = (self._fields(z, other, to_v=not self._on_v) for z in (x, y))
        log_ratio = free_energy(x, own, theta) - free_energy(y, own, theta_y) + self._log_q(x) - self._log_q(y)
        accepted = self._accept(log_ratio[:, np.newaxis], state)[:, 0]
        theta[accepted] = theta_y[accepted]
        return theta, accepted

    def step(self, state: S) -> S:
        """The chains one step later."""
        v = self._checked_units(state)
        if self._on_v:
            theta_h, accepted = self._jump(v, state)
            h = self._draw(theta_h, Stream.HIDDEN, state)
            theta_v = self._fields(h, self._b_v, to_v=True)
        else:
            h = self._draw(self._fields(v, self._b_h), Stream.HIDDEN, state)
            theta_v, accepted = self._jump(h, state)
        v = self._draw(theta_v, Stream.VISIBLE, state)
        return replace(state, v=self._with_clamped(v), accepted=accepted, step=state.step + 1)
