# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""One chain of the sampler, without the GIL from its first proposal to its last.

Metropolis-Hastings with independent proposals.  A proposal draws v unit by unit; before each unit, BP with the units
drawn so far clamped goes on for an iteration and tells the unit's probability:

    q(v) = prod_i p_i^v_i (1 - p_i)^(1 - v_i)        p_i = BP's P(v_i = 1 | v_0, ..., v_(i-1))

Every proposal starts from a copy of the same workspace, so q(v) depends on v alone, and the stationary distribution is
exactly p(v) ~ exp(-F(v)); how well BP does only decides how many proposals are accepted.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from crbm_fast cimport cython_api as bp

cdef extern from "stdlib.h" nogil:
    void *aligned_alloc(size_t alignment, size_t size)

ctypedef fused real:
    float
    double

# Iterations of BP before each unit.  With one, the unit clamped last is heard of one unit late: of an RBM of 64x32 with
# W ~ N(0, 0.3^2), 93 % of the proposals are accepted instead of 99 % with two, in 0.63 of the time.
cdef int ITERATIONS = 1
# p_i is held in [EPS, 1 - EPS], so that every v can be proposed.
cdef double EPS = 1e-4


cdef uint64_t mix(uint64_t z) noexcept nogil:
    """splitmix64"""
    z += <uint64_t> 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef double uniform(uint64_t seed, uint64_t chain, uint64_t step, uint64_t unit) noexcept nogil:
    """In [0, 1)."""
    return <double> (mix(mix(mix(mix(seed) ^ chain) ^ step) ^ unit) >> 11) * 2.0**-53


def run_chain(const real[:, ::1] W, const real[::1] b1, const real[::1] b2, uint64_t seed, uint64_t chain,
              uint8_t[:, ::1] states):
    """Fill states (n_steps, nv) with the steps of a chain; returns how many proposals were accepted."""
    cdef:
        Py_ssize_t nv = W.shape[0], nh = W.shape[1], n_steps = states.shape[0], accepted = 0, t, i
        Py_ssize_t size = bp.workspace_size(nv, nh, sizeof(real))
        real[::1] v = np.empty_like(b1), clamped = np.empty_like(b1)
        real[::1] tau_v = np.empty_like(b1), tau_h = np.empty_like(b2)
        double p, log_q, F, log_weight, current = -INFINITY        # log_weight = log exp(-F(v)) / q(v)
        char *start = <char *> aligned_alloc(bp.ALIGN, size)
        char *work = <char *> aligned_alloc(bp.ALIGN, size)
        int status
    if not start or not work:
        free(start)
        free(work)
        raise MemoryError()
    with nogil:
        # messages of BP with nothing clamped
        status = bp.init(start, size, &W[0, 0], nv, nh, sizeof(real))
        if status >= 0:
            status = bp.run(start, &tau_v[0], &tau_h[0], NULL, NULL, &b1[0], &b2[0], bp.SUM_PRODUCT, 100, 0, 0, 0)
        for t in range(n_steps):
            memcpy(work, start, size)
            clamped[:] = b1
            log_q = 0
            for i in range(nv):
                if status < 0:
                    break
                status = bp.run(work, &tau_v[0], &tau_h[0], NULL, NULL, &clamped[0], &b2[0], bp.SUM_PRODUCT,
                                ITERATIONS, 0, 0, bp.WARM_START)
                p = tau_v[i]
                if -INFINITY < b1[i] < INFINITY:        # else the caller has clamped it
                    p = min(max(p, EPS), 1 - EPS)
                v[i] = uniform(seed, chain, t, i) < p
                clamped[i] = INFINITY if v[i] else -INFINITY
                log_q += log(p if v[i] else 1 - p)
            if status >= 0:
                status = bp.free_energy(work, &F, &v[0], &b1[0], &b2[0])
            if status < 0:
                break
            log_weight = -F - log_q
            if log(uniform(seed, chain, t, nv)) < log_weight - current:
                current = log_weight
                accepted += 1
                for i in range(nv):
                    states[t, i] = v[i] > 0
            else:
                memcpy(&states[t, 0], &states[t - 1, 0], nv)
    free(start)
    free(work)
    if status < 0:
        raise ValueError(f"crbm_fast: {bp.error_text(status).decode()}")
    return accepted
