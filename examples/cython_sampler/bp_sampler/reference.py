"""The sampler of _sampler.pyx in Python, around `Engine.run`: the same draws, to compare with.

It does what Python can for a chain: one engine, results into arrays that are there (`out=`), messages that stay in the
engine (`warm_start=True`), the random numbers at once, and units clamped by biases of +-1e4, as `evidence=` makes new
arrays in each call.
"""

import numpy as np

import crbm_fast as cf

ITERATIONS, EPS = 1, 1e-4  # as in _sampler.pyx
CLAMP = 1e4  # exp(-1e4) is 0: as good as infinite


def mix(z):
    """splitmix64 of an array."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed, chain, n_steps, n):
    """(n_steps, n) in [0, 1)."""
    step, unit = np.arange(n_steps, dtype=np.uint64)[:, np.newaxis], np.arange(n, dtype=np.uint64)
    stream = mix(mix(np.array([[seed]], np.uint64)) ^ np.uint64(chain))
    return (mix(mix(stream ^ step) ^ unit) >> np.uint64(11)) * 2.0**-53


def run_chain(W, b1, b2, seed, chain, states):
    """Fill states (n_steps, nv) with the steps of a chain; returns how many proposals were accepted."""
    n_steps, nv = states.shape
    engine = cf.Engine(W, n_threads=1)
    start = engine.run(b1, b2, max_iter=100, tol=0, messages=True).messages  # with nothing clamped
    out = engine.run(b1, b2, max_iter=1, tol=0)
    tau_v, clamped, v, q = out.tau_v, b1.copy(), np.empty(nv), np.empty(nv)
    u = uniform(seed, chain, n_steps, nv + 1)
    accepted, current = 0, -np.inf
    for t, u_t in enumerate(u.tolist()):
        clamped[:] = b1
        for i in range(nv):
            engine.run(clamped, b2, max_iter=ITERATIONS, tol=0, warm_start=True, out=out, init=None if i else start)
            p = min(max(tau_v.item(i), EPS), 1 - EPS)
            on = u_t[i] < p
            v[i] = on
            clamped[i] = CLAMP if on else -CLAMP
            q[i] = p if on else 1 - p
        log_weight = v @ b1 + np.logaddexp(0, b2 + v @ W).sum() - np.log(q).sum()  # log exp(-F(v)) / q(v)
        if np.log(u_t[nv]) < log_weight - current:
            current = log_weight
            accepted += 1
            states[t] = v
        else:
            states[t] = states[t - 1]
    return accepted


def sample(W, b1, b2, n_steps, n_chains=1, seed=0):
    """As `bp_sampler.sample`, one chain after the other."""
    states = np.empty((n_chains, n_steps, len(b1)), np.uint8)
    accepted = sum(run_chain(W, b1, b2, seed, c, states[c]) for c in range(n_chains))
    return states, accepted / (n_chains * n_steps)
