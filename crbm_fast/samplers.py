"""Markov chains with stationary distribution p(v | x): many at once, for one RBM (a CRBM given x is one).

    sampler = BPMixture(W, b_v, b_h)        BlockedGibbs        h given v, v given h; stays in a mode
    state = sampler.init(1000, seed=1)      ParallelTempering   replicas with weaker coupling carry it to others
    for _ in range(100):                    BPMixture           jumps to where belief propagation leads
        state = sampler.step(state)

`step` is a pure function.  Each sampler leaves p invariant and goes on from `state.v` (tempering also from its
replicas), so the steps of several can be mixed on one state, in any order fixed beforehand; with tempering among them,
begin with its `init`.

Draws depend on (seed, chain, step, unit) alone: results have the same bits for any number of threads.  Where chains
are run in parts (`first_chain`), sums may differ in their last bit, and so may a draw that close to its threshold.
A sampler, like an `Engine`, serves one thread at a time.

References
----------
[1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
[2] Geyer, "Markov chain Monte Carlo maximum likelihood", Computing Science and Statistics 23, 1991.
[3] Tierney, "Markov chains for exploring posterior distributions", Annals of Statistics 22, 1994.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.special import xlogy

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import Engine, independent_draws
from crbm_fast.model import free_energy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

# What a random number is for: each purpose has a stream of its own, and tempering's replica k has _REPLICA + k.
_INIT, _START, _GIBBS, _HIDDEN, _VISIBLE, _COMPONENT, _PROPOSAL, _ACCEPT, _REPLICA = range(9)

# BPMixture: messages held at a time, 32 MB of float64.
_TOGETHER = 1 << 22
# Beliefs are kept this far from 0 and 1, so that every state is proposed.  With 50 units 1e-2 halves the acceptance,
# 1e-3 and 1e-4 do not differ.
_EPSILON = 1e-4
# Share of the weight that the components have equally, should the bound mislead.
_EQUAL = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """N chains after some steps.  No sampler writes into it.

    Attributes
    ----------
    v : (N, nv)
        Visible states, 0 or 1.
    accepted : (N,) bool
        Whether the last step's proposal was accepted; True where there was none.
    step : int
        Steps done.
    seed, first_chain : int
        As given to `init`.
    """

    v: NDArray[Any]
    accepted: NDArray[np.bool_]
    step: int
    seed: int
    first_chain: int


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


S = TypeVar("S", bound=State)


class _Sampler:
    """The RBM over the free units, and what every sampler does with it: a clamped unit's row of W is in b_h."""

    def __init__(
        self,
        W: ArrayLike,
        b_v: ArrayLike,
        b_h: ArrayLike,
        *,
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
        dtype: DTypeLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        weights = check.check_weights(check.as_numeric("W", W).copy(order="C"), dtype)
        b1, b2, single = check.check_biases(b_v, b_h, weights.shape, weights.dtype)
        if not single:
            raise ValueError(
                f"b_v has shape {np.shape(b_v)} and b_h {np.shape(b_h)}; expected ({b1.shape[1]},) and "
                f"({b2.shape[1]},): make a sampler for each RBM"
            )
        mask, values = check.check_evidence((np.False_, 0) if evidence is None else evidence, b1.shape[1:])
        self._free = ~mask
        self._clamped = np.where(mask, values, 0).astype(weights.dtype)
        self._W = np.ascontiguousarray(weights[self._free])
        self._b_v = b1[0, self._free]
        self._b_h = b2[0] + weights[self._clamped == 1].sum(axis=0)
        self._engine = Engine(self._W, n_threads=n_threads)

    def init(self, n_chains: int, *, seed: int = 0, v: ArrayLike | None = None, first_chain: int = 0) -> State:
        """The state before the first step.

        Parameters
        ----------
        n_chains : int
            N.
        seed : int
            The draws of all steps follow from it.
        v : (nv,) or (N, nv) array-like of 0 and 1, optional
            Where the chains start, but for the clamped units.  Default: fair coins.
        first_chain : int
            Number of the first chain, for chains that are run in parts.
        """
        n_chains = check.check_int("n_chains", n_chains, 0)
        seed = check.check_int("seed", seed, 0, 2**64 - 1)
        first_chain = check.check_int("first_chain", first_chain, 0, 2**62)
        nv, dtype = len(self._free), self._engine.dtype
        if v is None:
            start = independent_draws(np.zeros((n_chains, nv), dtype), _key(seed, _INIT), first_chain)
        else:
            start = _states("v", v, dtype)
            if start.shape not in ((nv,), (n_chains, nv)):
                raise ValueError(f"v has shape {start.shape}; expected ({nv},) or ({n_chains}, {nv})")
            start = np.broadcast_to(start, (n_chains, nv))
        return State(self._whole(start[:, self._free]), np.ones(n_chains, np.bool_), 0, seed, first_chain)

    def _check(self, state: State) -> NDArray[Any]:
        """The free units of a state that may come from anywhere."""
        check.check_int("state.step", state.step, 0, 2**31 - 3)
        v = _states("state.v", state.v, self._engine.dtype)
        if v.ndim != 2 or v.shape[1] != len(self._free):
            raise ValueError(f"state.v has shape {v.shape}; expected (N, {len(self._free)}) for this sampler's model")
        return self._units(v)

    def _whole(self, free: NDArray[Any]) -> NDArray[Any]:
        """(..., nv): the free units' values and the clamped ones."""
        v = np.empty((*free.shape[:-1], len(self._free)), free.dtype)
        v[...] = self._clamped
        v[..., self._free] = free
        return v

    def _units(self, v: NDArray[Any]) -> NDArray[Any]:
        """The free units of v (N, nv)."""
        return np.ascontiguousarray(v[:, self._free], self._W.dtype)

    def _fields(self, x: NDArray[Any], b: NDArray[Any], *, to_v: bool = False) -> NDArray[Any]:
        """b + x W for visible states x, b + x W' for hidden ones."""
        theta = np.empty((len(x), len(b)), x.dtype)
        theta[...] = b
        # theta = x op(W) + theta
        # (N, nh) = (N, nv) (nv, nh) + (N, nh), or (N, nv) = (N, nh) (nh, nv) + (N, nv)
        _algebra.product(theta, x, self._W, transpose_b=to_v, beta=1, n_threads=self._engine.n_threads)
        return theta

    def _draw(self, theta: NDArray[Any], purpose: int, state: State) -> NDArray[Any]:
        """1 with probability logistic(theta), else 0, (N, n)."""
        return independent_draws(theta, _key(state.seed, purpose), state.first_chain, state.step)

    def _accept(self, log_ratio: NDArray[np.float64], state: State) -> NDArray[np.bool_]:
        """True with probability min(1, e^r), r = log_ratio (N, n); its logit is r - log(1 - e^r)."""
        r = np.minimum(log_ratio, 0)
        with np.errstate(divide="ignore"):  # r = 0: a logit of infinity
            return self._draw(r - np.log(-np.expm1(r)), _ACCEPT, state) > 0

    def _gibbs(
        self, engine: Engine, b_v: NDArray[Any], b_h: NDArray[Any], v: NDArray[Any], purpose: int, state: State
    ) -> NDArray[Any]:
        """v (N, nv) after h ~ p(h | v), v ~ p(v | h), from the free units of v."""
        s = engine.gibbs(
            np.tile(b_v, (len(v), 1)),
            b_h,
            v=v,
            seed=_key(state.seed, purpose),
            step=state.step,
            first_instance=state.first_chain,
        )
        return self._whole(s.v)


@lru_cache(maxsize=1024)
def _key(seed: int, purpose: int) -> int:
    """Seed of one purpose's stream."""
    return int(np.random.SeedSequence(seed, spawn_key=(purpose,)).generate_state(1, np.uint64)[0])


def _states(name: str, value: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    states = check.as_float(name, value, dtype, once=True)
    wrong = (states != 0) & (states != 1)
    if wrong.any():
        raise ValueError(f"{name} must hold states 0 and 1; found {states[wrong][0]}")
    return states


class BlockedGibbs(_Sampler):
    """Samples of p(v) by h ~ p(h | v), v ~ p(v | h), Eq. 3 of [1]_.

    The algorithm of `gibbs`, with other draws for the same seed.

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
        v = self._gibbs(self._engine, self._b_v, self._b_h, self._check(state), _GIBBS, state)
        return replace(state, v=v, accepted=np.ones(len(v), np.bool_), step=state.step + 1)


class ParallelTempering(_Sampler):
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
        # At each beta an engine, b_v and b_h.
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
            raise TypeError(f"state has no replicas at {K} betas; start with this sampler's init")
        before = [self._check(replace(state, v=v)) for v in (state.v, *state.replicas)]
        v = np.stack([self._gibbs(*self._levels[k], before[k], _REPLICA + k, state) for k in range(K)])
        free = [self._units(replica) for replica in v]
        fields = [self._fields(x, np.zeros_like(self._b_h)) for x in free]

        def log_p(k: int, replica: int) -> NDArray[np.float64]:
            """log p_beta of a replica's states at betas[k], but for log Z."""
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


class BPMixture(_Sampler):
    """Samples of p(v) by Gibbs sampling with jumps: independent proposals from a mixture of BP's beliefs.

    Belief propagation from many random states finds many fixed points, each the beliefs of one mode.  Their mixture,

        q(h) = sum_k w_k prod_j tau_kj^h_j (1 - tau_kj)^(1 - h_j),

    is made once.  log w_k is the mean-field bound on log Z at these beliefs, right whether or not BP has converged
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
        The states BP starts from, or a number of random ones, to be larger than that of modes.  Where modes overlap,
        states that another sampler has reached, with `max_iter=1`, can be better.
    max_iter : int
        Iterations of BP at most; beliefs that have not converged are used as they are.  Fewer make a broader q.
    seed : int
        Of random starts.

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
        self.weights = (1 - _EQUAL) * w / w.sum() + _EQUAL / len(w)
        self.tau_v = self._whole(tau_v[first])
        # q is over the side with fewer units: less to get wrong
        self._on_v = tau_v.shape[1] <= tau_h.shape[1]
        tau = np.clip((tau_v if self._on_v else tau_h)[first].astype(np.float64), _EPSILON, 1 - _EPSILON)
        self._logit = np.log(tau) - np.log1p(-tau)
        self._log_none = np.log(self.weights) + np.log1p(-tau).sum(axis=1)  # of component k and no unit on
        self._ends = np.cumsum(self.weights)[:-1]

    def _starts(self, starts: Any, seed: int) -> NDArray[Any]:
        """States (M, free units)."""
        nv, dtype = len(self._free), self._engine.dtype
        seed = check.check_int("seed", seed, 0, 2**64 - 1)
        if np.ndim(starts) == 0:
            M = check.check_int("starts", starts, 1)
            return self._units(independent_draws(np.zeros((M, nv), dtype), _key(seed, _START)))
        states = _states("starts", starts, dtype)
        if states.ndim != 2 or states.shape[1] != nv or len(states) == 0:
            raise ValueError(f"starts has shape {states.shape}; expected (M, {nv}), M >= 1")
        return self._units(states)

    def _beliefs(self, starts: NDArray[Any], max_iter: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """tau_v and tau_h of BP that starts as if every v_i were known: log m(1)/m(0) = v_i W_ij."""
        rows = max(1, _TOGETHER // max(1, self._W.size))
        found = []
        for at in range(0, len(starts), rows):
            v = starts[at : at + rows]
            init, biases = v[:, :, np.newaxis] * self._W, np.tile(self._b_v, (len(v), 1))
            b = self._engine.run(biases, self._b_h, init=init, max_iter=max_iter)
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
        """Fields of the other side given x (N, n) or the proposal accepted in its place, and where it was."""
        own, other = (self._b_v, self._b_h) if self._on_v else (self._b_h, self._b_v)
        uniform = self._draw(np.zeros((len(x), 32)), _COMPONENT, state) @ 0.5 ** np.arange(1, 33)
        component = np.searchsorted(self._ends, uniform, side="right")
        y = self._draw(self._logit[component], _PROPOSAL, state).astype(x.dtype)
        theta, theta_y = (self._fields(z, other, to_v=not self._on_v) for z in (x, y))
        log_ratio = free_energy(x, own, theta) - free_energy(y, own, theta_y) + self._log_q(x) - self._log_q(y)
        accepted = self._accept(log_ratio[:, np.newaxis], state)[:, 0]
        theta[accepted] = theta_y[accepted]
        return theta, accepted

    def step(self, state: S) -> S:
        """The chains one step later."""
        v = self._check(state)
        if self._on_v:
            theta_h, accepted = self._jump(v, state)
            h = self._draw(theta_h, _HIDDEN, state)
            theta_v = self._fields(h, self._b_v, to_v=True)
        else:
            h = self._draw(self._fields(v, self._b_h), _HIDDEN, state)
            theta_v, accepted = self._jump(h, state)
        v = self._draw(theta_v, _VISIBLE, state)
        return replace(state, v=self._whole(v), accepted=accepted, step=state.step + 1)
