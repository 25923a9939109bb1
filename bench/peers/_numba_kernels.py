"""The one-division form (csrc/kernels/sum_product.h) as numba kernels, float32; importing this needs numba.

Arguments: E = exp(W) (nv, nh), b1, b2, T iterations, K factors at most in a product, scratch m (nv, nh),
columns (4 of (nh,)): tau_h, 1 - tau_h, theta_h, products; rows (2 of (nv,)): tau_v, odds.  fastmath assumes no
infinities: unlike the engine, these return NaN for saturated units.
"""

import numba
import numpy as np

jit = numba.njit(fastmath=True, error_model="numpy")
ONE = np.float32(1)


def factors(W):
    """How many factors may share a logarithm: their product stays within exp(+-80)."""
    return max(1, int(min(80 / max(float(np.abs(W).max()), 1e-3), 4096)))


@jit
def plain(E, b1, b2, T, K, m, columns, rows):
    """One pass over the edges, written straight down."""
    nv, nh = E.shape
    tau_h, tau_h0, theta_h, product = columns
    tau_v = rows[0]
    m[:] = ONE
    for j in range(nh):
        tau_h[j], tau_h0[j] = ONE / (ONE + np.exp(-b2[j])), ONE / (ONE + np.exp(b2[j]))
    for _ in range(T):
        theta_h[:] = b2
        product[:] = ONE
        for i in range(nv):
            theta, n, d = b1[i], ONE, ONE
            for j in range(nh):
                x = m[i, j] * tau_h0[j]
                d *= x + tau_h[j]
                n *= x + E[i, j] * tau_h[j]
                if j % K == K - 1:
                    theta += np.log(n / d)
                    n = d = ONE
            theta += np.log(n / d)
            e = np.exp(-theta)
            tau_v[i] = ONE / (ONE + e)
            for j in range(nh):
                x = m[i, j] * tau_h0[j]
                d, n = x + tau_h[j], e * (x + E[i, j] * tau_h[j])
                m[i, j] = (E[i, j] * d + n) / (d + n)
                product[j] *= m[i, j]
            if i % K == K - 1 or i == nv - 1:
                for j in range(nh):
                    theta_h[j] += np.log(product[j])
                    product[j] = ONE
        for j in range(nh):
            tau_h[j], tau_h0[j] = ONE / (ONE + np.exp(-theta_h[j])), ONE / (ONE + np.exp(theta_h[j]))


# Tuned: each loop in a function of its own, which LLVM then vectorises; columns in pieces by slicing (a loop over
# pieces around the same arithmetic is not vectorised: 1.7 against 0.2 ns per edge); four rows at once; blocks of 64
# rows that stay in cache.  On a Zen 4 core at 1000x500 0.45 ns per edge and iteration, where `plain` takes 2.


@jit
def log_ratio(m, E, tau_h, tau_h0):
    n = d = ONE
    for j in range(m.shape[0]):
        x = m[j] * tau_h0[j]
        d *= x + tau_h[j]
        n *= x + E[j] * tau_h[j]
    return np.log(n / d)


@jit
def send(m, E, tau_h, tau_h0, e, product):
    for j in range(m.shape[0]):
        x = m[j] * tau_h0[j]
        d, n = x + tau_h[j], e * (x + E[j] * tau_h[j])
        m[j] = (E[j] * d + n) / (d + n)
        product[j] *= m[j]


@jit
def send4(m0, m1, m2, m3, E0, E1, E2, E3, tau_h, tau_h0, e, product):
    e0, e1, e2, e3 = e[0], e[1], e[2], e[3]
    for j in range(m0.shape[0]):
        t1, t0 = tau_h[j], tau_h0[j]
        x = m0[j] * t0
        d, n = x + t1, e0 * (x + E0[j] * t1)
        y0 = (E0[j] * d + n) / (d + n)
        x = m1[j] * t0
        d, n = x + t1, e1 * (x + E1[j] * t1)
        y1 = (E1[j] * d + n) / (d + n)
        x = m2[j] * t0
        d, n = x + t1, e2 * (x + E2[j] * t1)
        y2 = (E2[j] * d + n) / (d + n)
        x = m3[j] * t0
        d, n = x + t1, e3 * (x + E3[j] * t1)
        y3 = (E3[j] * d + n) / (d + n)
        m0[j], m1[j], m2[j], m3[j] = y0, y1, y2, y3
        product[j] *= (y0 * y1) * (y2 * y3)


@jit
def add_logs(theta_h, product):
    for j in range(theta_h.shape[0]):
        theta_h[j] += np.log(product[j])
        product[j] = ONE


@jit
def logistic(theta_h, tau_h, tau_h0):
    for j in range(theta_h.shape[0]):
        e = np.exp(-theta_h[j])
        tau_h[j], tau_h0[j] = ONE / (ONE + e), e / (ONE + e)


@jit
def tuned(E, b1, b2, T, K, m, columns, rows):
    nv, nh = E.shape
    tau_h, tau_h0, theta_h, product = columns
    tau_v, odds = rows
    block = min(64, max(4, K // 4 * 4))
    m[:] = ONE
    product[:] = ONE
    logistic(b2, tau_h, tau_h0)
    for _ in range(T):
        theta_h[:] = b2
        for first in range(0, nv, block):
            end = min(first + block, nv)
            for i in range(first, end):
                theta = b1[i]
                for j in range(0, nh, K):
                    k = min(j + K, nh)
                    theta += log_ratio(m[i, j:k], E[i, j:k], tau_h[j:k], tau_h0[j:k])
                e = np.exp(-theta)
                tau_v[i], odds[i] = ONE / (ONE + e), e
            four = first + (end - first) // 4 * 4
            for i in range(first, four, 4):
                send4(
                    m[i],
                    m[i + 1],
                    m[i + 2],
                    m[i + 3],
                    E[i],
                    E[i + 1],
                    E[i + 2],
                    E[i + 3],
                    tau_h,
                    tau_h0,
                    odds[i : i + 4],
                    product,
                )
            for i in range(four, end):
                send(m[i], E[i], tau_h, tau_h0, odds[i], product)
            add_logs(theta_h, product)
        logistic(theta_h, tau_h, tau_h0)
