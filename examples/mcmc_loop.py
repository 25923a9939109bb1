"""MCMC over the biases of an RBM, with belief propagation in every step.

    python mcmc_loop.py

Given W and N observed v, the posterior of the visible biases b under the prior N(0, 1) is, up to a constant,

    log p(b | data) = sum_n v_n' b - N log Z(b) - |b|^2 / 2        gradient: sum_n v_n - N tau_v - b

One run of BP gives both: log Z (Bethe) and its derivative, the marginals tau_v.  The sampler is MALA, written as in
blackjax: `init` and `step` take a state and return one.  Steps are small, so BP starts from its last messages.

Prints the iterations of BP per step, cold and warm, and how far means and standard deviations of the posterior are from
those of the same chain with the exact log Z, by enumeration.
"""

from typing import NamedTuple

import numpy as np

import crbm_fast as cf


class State(NamedTuple):
    position: np.ndarray  # b (nv,)
    logdensity: float
    gradient: np.ndarray  # (nv,)


def posterior(W, b_h, V, n_iter, **options):
    """The function b -> log density, gradient.  Appends the iterations BP took to `n_iter`."""
    engine, out = cf.Engine(W, n_threads=1), None
    total, N = V.sum(axis=0), len(V)

    def logdensity(b):
        nonlocal out
        out = engine.run(b, b_h, log_z=True, out=out, **options)
        n_iter.append(out.n_iter)
        return total @ b - N * out.log_z - b @ b / 2, total - N * out.tau_v - b

    return logdensity


def init(position, logdensity):
    return State(position, *logdensity(position))


def step(rng, state, logdensity, size):
    """The next state, and whether it is a new one."""

    def log_q(to, start):
        return -np.sum((to - start.position - size * start.gradient) ** 2) / (4 * size)

    noise = rng.normal(size=len(state.position))
    position = state.position + size * state.gradient + np.sqrt(2 * size) * noise
    new = State(position, *logdensity(position))
    log_ratio = new.logdensity - state.logdensity + log_q(state.position, new) - log_q(position, state)
    accepted = np.log(rng.random()) < log_ratio
    return (new if accepted else state), accepted


def sample(W, b_h, V, n_steps, size, seed=0, **options):
    """Positions (n_steps, nv), fraction accepted, mean iterations of BP."""
    rng, n_iter = np.random.default_rng(seed), []
    logdensity = posterior(W, b_h, V, n_iter, **options)
    state = init(np.zeros(len(W)), logdensity)
    positions, n_accepted = np.empty((n_steps, len(W))), 0
    for t in range(n_steps):
        state, accepted = step(rng, state, logdensity, size)
        positions[t] = state.position
        n_accepted += accepted
    return positions, n_accepted / n_steps, np.mean(n_iter)


def main():
    rng = np.random.default_rng(0)
    W, b_v, b_h = rng.normal(0, 0.6, (10, 8)), rng.normal(size=10), rng.normal(size=8)
    V = cf.gibbs(W, np.tile(b_v, (200, 1)), b_h, n_steps=200).v
    # With a warm start log Z depends on the past a little; tol makes that too small to matter.
    bp = {"method": "sum-product", "max_iter": 200, "tol": 1e-6}
    run = {"n_steps": 5000, "size": 0.012}
    _, _, cold = sample(W, b_h, V, 500, run["size"], **bp)
    bethe, acceptance, warm = sample(W, b_h, V, **run, **bp, warm_start=True)
    exact, _, _ = sample(W, b_h, V, **run, method="exact")
    print(f"steps accepted: {acceptance:.1%}; iterations of BP per step: {cold:.1f} cold, {warm:.1f} warm")
    spread = exact[500:].std(axis=0)
    shift = np.abs(bethe[500:].mean(axis=0) - exact[500:].mean(axis=0)) / spread
    ratio = bethe[500:].std(axis=0) / spread
    print(f"posterior means differ from exact ones by at most {shift.max():.3f} standard deviations")
    print(f"standard deviations are {ratio.min():.3f} to {ratio.max():.3f} times the exact ones")


if __name__ == "__main__":
    main()
