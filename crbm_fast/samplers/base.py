"""What all samplers share: the state of the chains, streams of random numbers, the RBM over the free units."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import Engine, independent_draws

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray


class Stream(IntEnum):
    """What a random number is used for: each use has a stream of its own, and tempering's replica k has REPLICA + k."""

    INIT = 0
    START = 1
    GIBBS = 2
    HIDDEN = 3
    VISIBLE = 4
    COMPONENT = 5
    PROPOSAL = 6
    ACCEPT = 7
    REPLICA = 8


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """N chains after some steps.  No sampler changes it.

    Attributes
    ----------
    v : (N, nv)
        Visible states, 0 or 1.
    accepted : (N,) bool
        Whether the last step's proposal was accepted; True where there was none.
    step : int
        Number of steps done.
    seed, first_chain : int
        As given to `init`.
    """

    v: NDArray[Any]
    accepted: NDArray[np.bool_]
    step: int
    seed: int
    first_chain: int


S = TypeVar("S", bound=State)


class Sampler:
    """The RBM over the free units, with what all samplers do with it; a subclass adds `step`.

    A unit that evidence clamps to 1 adds its row of W to b_h, so that chains run over the free units alone.
    """

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
        """The chains before their first step.

        Parameters
        ----------
        n_chains : int
            N.
        seed : int
            The random numbers of all steps depend on it.
        v : (nv,) or (N, nv) array-like of 0 and 1, optional
            The initial states; clamped units keep their values.  Default: fair coins.
        first_chain : int
            Number of the first chain, for chains that are run in parts.
        """
        n_chains = check.check_int("n_chains", n_chains, 0)
        seed = check.check_int("seed", seed, 0, 2**64 - 1)
        first_chain = check.check_int("first_chain", first_chain, 0, 2**62)
        nv, dtype = len(self._free), self._engine.dtype
        if v is None:
            initial = independent_draws(np.zeros((n_chains, nv), dtype), stream_seed(seed, Stream.INIT), first_chain)
        else:
            initial = as_states("v", v, dtype)
            if initial.shape not in ((nv,), (n_chains, nv)):
                raise ValueError(f"v has shape {initial.shape}; expected ({nv},) or ({n_chains}, {nv})")
            initial = np.broadcast_to(initial, (n_chains, nv))
        return State(self._with_clamped(initial[:, self._free]), np.ones(n_chains, np.bool_), 0, seed, first_chain)

    def _checked_units(self, state: State) -> NDArray[Any]:
        """The free units of a state that a user passed, after its checks."""
        check.check_int("state.step", state.step, 0, 2**31 - 3)
        v = as_states("state.v", state.v, self._engine.dtype)
        if v.ndim != 2 or v.shape[1] != len(self._free):
            raise ValueError(f"state.v has shape {v.shape}; expected (N, {len(self._free)}) for this sampler's model")
        return self._free_units(v)

    def _with_clamped(self, free: NDArray[Any]) -> NDArray[Any]:
        """All visible units (..., nv) from the values of the free ones."""
        v = np.empty((*free.shape[:-1], len(self._free)), free.dtype)
        v[...] = self._clamped
        v[..., self._free] = free
        return v

    def _free_units(self, v: NDArray[Any]) -> NDArray[Any]:
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

    def _draw(self, theta: NDArray[Any], stream: int, state: State) -> NDArray[Any]:
        """1 with probability logistic(theta), 0 otherwise, (N, n)."""
        return independent_draws(theta, stream_seed(state.seed, stream), state.first_chain, state.step)

    def _accept(self, log_ratio: NDArray[np.float64], state: State) -> NDArray[np.bool_]:
        """True with probability min(1, e^r), r = log_ratio (N, n); its logit is r - log(1 - e^r)."""
        r = np.minimum(log_ratio, 0)
        with np.errstate(divide="ignore"):  # r = 0: a logit of infinity
            return self._draw(r - np.log(-np.expm1(r)), Stream.ACCEPT, state) > 0

    def _gibbs(
        self, engine: Engine, b_v: NDArray[Any], b_h: NDArray[Any], v: NDArray[Any], stream: int, state: State
    ) -> NDArray[Any]:
        """All visible units (N, nv) after h ~ p(h | v), v ~ p(v | h), given the free ones."""
        samples = engine.gibbs(
            np.tile(b_v, (len(v), 1)),
            b_h,
            v=v,
            seed=stream_seed(state.seed, stream),
            step=state.step,
            first_instance=state.first_chain,
        )
        return self._with_clamped(samples.v)


@lru_cache(maxsize=1024)
def stream_seed(seed: int, stream: int) -> int:
    """The seed of one stream of random numbers."""
    return int(np.random.SeedSequence(seed, spawn_key=(int(stream),)).generate_state(1, np.uint64)[0])


def as_states(name: str, value: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """`value` as an array of `dtype` that holds 0 and 1 only; ValueError for anything else."""
    states = check.as_float(name, value, dtype, once=True)
    wrong = (states != 0) & (states != 1)
    if wrong.any():
        raise ValueError(f"{name} must hold states 0 and 1; found {states[wrong][0]}")
    return states
