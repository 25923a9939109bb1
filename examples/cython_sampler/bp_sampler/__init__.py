"""Samples of an RBM: Metropolis-Hastings chains with proposals from belief propagation, in Cython.

    states, acceptance = bp_sampler.sample(W, b1, b2, n_steps=1000, n_chains=4, seed=1, n_threads=2)

_sampler.pyx has the algorithm, reference.py the same in Python.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bp_sampler._sampler import run_chain

__all__ = ["sample"]


def sample(W, b1, b2, n_steps, n_chains=1, seed=0, n_threads=1):
    """Chains with the stationary distribution p(v) ~ sum_h exp(v' W h + b1' v + b2' h).

    The chains are shared out over a pool of threads; each has a workspace and a stream of random numbers of its own, so
    the draws depend on (seed, chain, step) alone and not on `n_threads`.

    Returns
    -------
    states : (n_chains, n_steps, nv) uint8
    acceptance : float
        Fraction of the proposals accepted; the first of a chain always is.
    """
    W = np.ascontiguousarray(W, np.float32 if np.asarray(W).dtype == np.float32 else np.float64)
    b1, b2 = (np.ascontiguousarray(b, W.dtype) for b in (b1, b2))
    if W.ndim != 2 or b1.shape != W.shape[:1] or b2.shape != W.shape[1:]:
        raise ValueError(f"W {W.shape}, b1 {b1.shape}, b2 {b2.shape}: expected (nv, nh), (nv,), (nh,)")
    states = np.empty((n_chains, n_steps, len(b1)), np.uint8)
    with ThreadPoolExecutor(n_threads) as pool:
        accepted = sum(pool.map(lambda c: run_chain(W, b1, b2, seed, c, states[c]), range(n_chains)))
    return states, accepted / (n_chains * n_steps)
