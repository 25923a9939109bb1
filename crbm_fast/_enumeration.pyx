"""The exact method: sums over all states of one side of an RBM, in blocks, as GEMMs."""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, fmax, log

import numpy as np

cimport numpy as cnp

from crbm_fast._blas cimport gemm
from crbm_fast._ckernels cimport crbm_kernels, table

cnp.import_array()


cdef inline char *data(object a) except? NULL:
    return <char *> cnp.PyArray_DATA(<cnp.ndarray?> a)


def enumerate_states(A, a, b, gamma=None):
    """Sum over all states of the first side of an RBM with weights A (na, nb), biases a (na,), b (nb,), float64.

    Returns log Z, P(first = 1), P(second = 1) and fills gamma (na, nb) with P(both = 1).

    States come in blocks of 2^10 whose fields are one GEMM; sums are kept relative to the largest weight so far.
    """
    cdef:
        const crbm_kernels *k = table(8)
        Py_ssize_t na = A.shape[0], nb = A.shape[1], low = min(na, 10), size = 1 << low, blocks = 1 << (na - low)
        Py_ssize_t block, s, i, j
        double top = -float("inf"), new_top, scale, z = 0, block_z, high_bias
    states = (np.arange(size)[:, None] >> np.arange(low) & 1).astype(np.float64)
    fields, bias = states @ A[:low], states @ a[:low]
    theta, p, w = np.empty((size, nb)), np.zeros((size, nb)), np.empty(size)
    p_a, p_b, block_b = np.zeros(na), np.zeros(nb), np.empty((1, nb))
    base, counts = np.empty(nb), np.empty((1, low))
    weighted, pairs = np.empty((size, low)), np.zeros((na, nb)) if gamma is None else gamma
    pairs[...] = 0
    cdef:
        double[:, ::1] A_ = A, states_ = states, fields_ = fields, theta_ = theta, weighted_ = weighted
        double[:, ::1] pairs_ = pairs, block_b_ = block_b, counts_ = counts
        double[::1] a_ = a, b_ = b, bias_ = bias, w_ = w, p_a_ = p_a, p_b_ = p_b, base_ = base
        bint want_pairs = gamma is not None
        char *theta0 = data(theta)
        char *p0 = data(p)
        char *w0 = data(w)
        char *states0 = data(states)
        char *weighted0 = data(weighted)
        char *pairs0 = data(pairs)
        char *block_b0 = data(block_b)
        char *counts0 = data(counts)
    for block in range(blocks):
        if block % 64 == 0:
            PyErr_CheckSignals()
        with nogil:
            high_bias = 0
            base_[:] = b_
            for i in range(low, na):
                if block >> (i - low) & 1:
                    high_bias += a_[i]
                    for j in range(nb):
                        base_[j] += A_[i, j]
            new_top = top
            for s in range(size):
                for j in range(nb):
                    theta_[s, j] = fields_[s, j] + base_[j]
                # log weight of a state = -F, Eq. 4
                w_[s] = bias_[s] + high_bias + k.softplus_sum(theta0 + s * nb * 8, nb)
                new_top = fmax(new_top, w_[s])
            if new_top > top:
                scale = exp(top - new_top)
                z *= scale
                for i in range(na):
                    p_a_[i] *= scale
                    for j in range(nb):
                        pairs_[i, j] *= scale
                for j in range(nb):
                    p_b_[j] *= scale
                top = new_top
            block_z = 0
            for s in range(size):
                w_[s] = exp(w_[s] - top)
                block_z += w_[s]
                for i in range(low):
                    weighted_[s, i] = w_[s] * states_[s, i]
            z += block_z
            k.logistic_step(p0, theta0, 1, 0, size * nb)
            # E[second] = w' p, E[first] = w' states
            # (1, nb) = (1, size) (size, nb), (1, low) = (1, size) (size, low)
            gemm(8, False, False, 1, nb, size, w0, size, p0, nb, 0, block_b0, nb)
            gemm(8, False, False, 1, low, size, w0, size, states0, low, 0, counts0, low)
            for j in range(nb):
                p_b_[j] += block_b_[0, j]
            for i in range(low):
                p_a_[i] += counts_[0, i]
            if want_pairs:
                # E[first second'] = (w states)' p
                # (low, nb) = (low, size) (size, nb)
                gemm(8, True, False, low, nb, size, weighted0, low, p0, nb, 1, pairs0, nb)
            for i in range(low, na):
                if block >> (i - low) & 1:
                    p_a_[i] += block_z
                    if want_pairs:
                        for j in range(nb):
                            pairs_[i, j] += block_b_[0, j]
    if gamma is not None:
        gamma /= z
    return top + log(z), p_a / z, p_b / z
