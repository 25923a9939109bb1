"""python -m bp_sampler: how close the samples are to the exact marginals, and what the loop in Cython saves."""

from time import perf_counter

import numpy as np

import crbm_fast as cf
from bp_sampler import reference, sample


def random_rbm(nv, nh, scale, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(0, s, shape).astype(dtype) for s, shape in ((scale, (nv, nh)), (0.5, nv), (0.5, nh))]


def main():
    rbm = random_rbm(10, 8, 1.0, "float64")
    states, acceptance = sample(*rbm, n_steps=5000, n_chains=4, seed=1, n_threads=2)
    error = np.abs(states.mean(axis=(0, 1)) - cf.infer(*rbm, method="exact").tau_v).max()
    print(f"10x8: {acceptance:.1%} of the proposals accepted, largest error of a mean {error:.4f}")
    for dtype in ("float32", "float64"):
        rbm = random_rbm(64, 32, 0.3, dtype)
        best = {}
        for _ in range(5):
            for name, function in (("Cython", sample), ("Python", reference.sample)):
                start = perf_counter()
                function(*rbm, n_steps=50, seed=1)
                best[name] = min(best.get(name, np.inf), (perf_counter() - start) / 50 * 1e6)
        cython, python = best["Cython"], best["Python"]
        print(f"64x32 {dtype}: {cython:.0f} us per sample, in Python {python:.0f} us, {python / cython:.1f} times")


if __name__ == "__main__":
    main()
