"""An iteration of Algorithm 1 on whole arrays, in two forms, for NumPy, PyTorch and JAX alike (`xp` is the namespace).

E = exp(W) and the messages are (nv, nh), b1 and tau_v (nv,), b2 and tau_h (nh,).  A step takes and returns
(messages v -> h, tau_v, tau_h).
"""

START = {"paper's form": 0.5, "our form": 1.0}  # the uniform message in either form


def paper(xp, E, b1, b2, M, tau_v, tau_h):
    """The paper's matrices (Eqs. 13, 14, 16, 17) with exp(W) made once and M_hv kept as v x h."""
    L1, L2 = (1 - M) * tau_h, M * (1 - tau_h)
    M_vh = logistic(xp, xp.log((E * L1 + L2) / (L1 + L2)))
    tau_v = logistic(xp, b1 + xp.sum(xp.log(M_vh / (1 - M_vh)), 1))
    L1, L2 = (1 - M_vh) * tau_v[:, None], M_vh * (1 - tau_v[:, None])
    M = logistic(xp, xp.log((E * L1 + L2) / (L1 + L2)))
    return M, tau_v, logistic(xp, b2 + xp.sum(xp.log(M / (1 - M)), 0))


def one_division(xp, E, b1, b2, m, tau_v, tau_h):
    """This package's form (csrc/kernels/sum_product.h): one message matrix, logarithms of up to 20 factors at once."""
    nv, nh = E.shape
    m_t0 = m * (1 - tau_h)
    d, n = m_t0 + tau_h, m_t0 + E * tau_h
    k = divisor(nh)
    theta_v = b1 + xp.sum(xp.log(xp.prod((n / d).reshape(nv, k, nh // k), 1)), 1)
    en = xp.exp(-theta_v)[:, None] * n
    m = (E * d + en) / (d + en)
    k = divisor(nv)
    theta_h = b2 + xp.sum(xp.log(xp.prod(m.reshape(nv // k, k, nh), 1)), 0)
    return m, logistic(xp, theta_v), logistic(xp, theta_h)


STEPS = {"paper's form": paper, "our form": one_division}


def logistic(xp, x):
    return 1 / (1 + xp.exp(-x))


def divisor(n):
    """The largest divisor of n up to 20.  With up to 16, 32 or 64 PyTorch or JAX or both were slower."""
    return next(k for k in range(20, 0, -1) if n % k == 0)
