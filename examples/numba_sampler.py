"""A sampler in numba: belief propagation and Gibbs sampling called in a compiled loop, without the GIL.

    pip install numba && python numba_sampler.py

A chain on v alternates two moves, each of which leaves p(v) ~ exp(-F(v)) as it is:

  - a step of blocked Gibbs sampling: h given v, then v given h;
  - a jump: a random half of v is clamped; BP tells the marginals of the others, which are drawn from their product and
    accepted or not by Metropolis-Hastings.

The chains run in a thread pool, with the same draws for any number of threads.  Prints the largest difference between
the means of v and the exact marginals, the Monte Carlo error to expect of it, and how many jumps were accepted.
"""

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

import crbm_fast as cf
from crbm_fast import ctypes_api as bp

EPS = 1e-3  # probabilities are held in [EPS, 1 - EPS], so that every state can be proposed


@numba.njit(nogil=True)
def run_chain(workspace, b1, b2, seed, chain, rng, n_steps, total):
    """Add v of every step to total (nv,).  Returns how many jumps were accepted, or a negative status."""
    nv, nh = len(b1), len(b2)
    v, proposed, h = np.zeros(nv), np.zeros(nv), np.zeros(nh)
    clamped, tau_v, tau_h = np.empty(nv), np.empty(nv), np.empty(nh)
    F = np.empty(2)
    bias, bias_h = b1.ctypes.data, b2.ctypes.data  # addresses of arrays are integers; NULL is 0
    accepted = 0
    for step in range(n_steps):
        status = bp.sample_h(workspace, h.ctypes.data, v.ctypes.data, bias_h, seed, chain, step)
        status = min(status, bp.sample_v(workspace, v.ctypes.data, h.ctypes.data, bias, seed, chain, step))

        for i in range(nv):
            clamped[i] = b1[i] if rng.random() < 0.5 else np.inf if v[i] else -np.inf
        status = min(
            status,
            bp.run(
                workspace,
                tau_v.ctypes.data,
                tau_h.ctypes.data,
                0,
                0,
                clamped.ctypes.data,
                bias_h,
                bp.SUM_PRODUCT,
                5,
                1e-2,
                0,
                0,
            ),
        )
        log_ratio = 0.0  # log q(v) / q(proposed)
        for i in range(nv):
            proposed[i] = v[i]
            if np.isfinite(clamped[i]):
                p = min(max(tau_v[i], EPS), 1 - EPS)
                proposed[i] = rng.random() < p
                log_ratio += (v[i] - proposed[i]) * np.log(p / (1 - p))
        status = min(status, bp.free_energy(workspace, F.ctypes.data, v.ctypes.data, bias, bias_h))
        status = min(status, bp.free_energy(workspace, F[1:].ctypes.data, proposed.ctypes.data, bias, bias_h))
        if status < 0:
            return status
        if np.log(rng.random()) < F[0] - F[1] + log_ratio:
            accepted += 1
            v[:] = proposed
        total += v
    return accepted


def sample(W, b1, b2, n_steps, n_chains, seed=0, n_threads=2):
    """Mean of v in each chain (n_chains, nv), and the fraction of jumps accepted."""
    W, b1, b2 = (np.ascontiguousarray(a, np.float64) for a in (W, b1, b2))  # an address does not tell the type
    totals = np.zeros((n_chains, len(b1)))

    def one(chain):
        workspace = bp.workspace(W)  # a name for it: the memory must live as long as the chain
        rng = np.random.default_rng([seed, chain])
        return run_chain(workspace.ctypes.data, b1, b2, seed, chain, rng, n_steps, totals[chain])

    with ThreadPoolExecutor(n_threads) as pool:
        results = list(pool.map(one, range(n_chains)))
    bp.check(min(results))
    return totals / n_steps, sum(results) / (n_chains * n_steps)


def main():
    rng = np.random.default_rng(0)
    W, b1, b2 = rng.normal(0, 1, (16, 8)), rng.normal(0, 0.5, 16), rng.normal(0, 0.5, 8)
    means, acceptance = sample(W, b1, b2, n_steps=20_000, n_chains=8, seed=1)
    exact = cf.infer(W, b1, b2, method="exact").tau_v
    error = np.abs(means.mean(axis=0) - exact)
    expected = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    print(f"largest error of a mean: {error.max():.4f}, Monte Carlo error {expected[error.argmax()]:.4f}")
    print(f"jumps accepted: {acceptance:.1%}")


if __name__ == "__main__":
    main()
