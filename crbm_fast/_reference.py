"""The paper, equation by equation, in float64 NumPy: the truth the engine is tested against and the baseline
the benchmark compares with.

Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction" (AISTATS 2017).  One RBM at a
time: W (nv, nh), b1 (nv,), b2 (nh,).  Nothing here is fast or clever.  The paper's messages M lie in (0, 1) and are
used with 1 - M, so this holds for moderate weights and biases: accuracy is lost as exp(|W|), and from |W| around 20
on, or with saturated units, M may round to 1 and give NaN where the engine is still right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, xlogy

Array = NDArray[Any]
Result = dict[str, Any]


def run(method: str, W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0, **options: Any) -> Result:
    """Beliefs after T iterations: a dict with tau_v, tau_h, gamma, log_z (None where undefined)."""
    W, b1, b2 = (np.asarray(a, np.float64) for a in (W, b1, b2))
    return FUNCTIONS[method](W, b1, b2, T, damping, **options)


# --- Algorithm 1 ----------------------------------------------------------------------------------------------


def message_h_to_v(W: Array, M_hv: Array, tau_h: Array) -> Any:
    """Eq. 13: M_vh (nv, nh)."""
    L1 = (1 - M_hv).T * tau_h
    L2 = M_hv.T * (1 - tau_h)
    return expit(np.log((np.exp(W) * L1 + L2) / (L1 + L2)))


def message_v_to_h(W: Array, M_vh: Array, tau_v: Array) -> Any:
    """Eq. 14: M_hv (nh, nv)."""
    L1 = (1 - M_vh).T * tau_v
    L2 = M_vh.T * (1 - tau_v)
    return expit(np.log((np.exp(W.T) * L1 + L2) / (L1 + L2)))


def belief(b: Array, M: Array) -> Any:
    """Eqs. 16 and 17: tau, from the messages M (units, neighbours) that the units receive."""
    return expit(b + np.log(M / (1 - M)).sum(axis=1))


def pairwise_belief(W: Array, M_vh: Array, M_hv: Array, tau_v: Array, tau_h: Array) -> Any:
    """Eq. 18: Gamma_ij = tau(v_i = 1, h_j = 1)."""
    G11 = np.exp(W) * np.outer(tau_v, tau_h) * (1 - M_vh) * (1 - M_hv).T
    G01 = np.outer(1 - tau_v, tau_h) * M_vh * (1 - M_hv).T
    G10 = np.outer(tau_v, 1 - tau_h) * (1 - M_vh) * M_hv.T
    G00 = np.outer(1 - tau_v, 1 - tau_h) * M_vh * M_hv.T
    return G11 / (G11 + G01 + G10 + G00)


def _damped(new: Array, old: Array, damping: float) -> Any:
    """Damping acts on the odds of a message, m(1) / m(0)."""
    if damping == 0:
        return new
    odds = (1 - damping) * new / (1 - new) + damping * old / (1 - old)
    return odds / (1 + odds)


def sum_product(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0, log_z: bool = True) -> Result:
    """Algorithm 1, sum-product."""
    nv, nh = W.shape
    M_hv: Array = np.full((nh, nv), 0.5)
    tau_h = expit(b2)
    for _ in range(T):
        M_vh = message_h_to_v(W, M_hv, tau_h)
        tau_v = belief(b1, M_vh)
        M_hv = _damped(message_v_to_h(W, M_vh, tau_v), M_hv, damping)
        tau_h = belief(b2, M_hv)
    return {
        "tau_v": tau_v,
        "tau_h": tau_h,
        "gamma": pairwise_belief(W, M_vh, M_hv, tau_v, tau_h),
        "log_z": _bethe(W, b1, b2, M_hv, tau_h) if log_z else None,
    }


def _bethe(W: Array, b1: Array, b2: Array, M_hv: Array, tau_h: Array) -> Any:
    """Bethe log Z of the messages v -> h: log Z_i of the nodes minus log Z_ij of the edges.

    Messages are scaled to 1 at state 0; those of h -> v are the ones the given messages imply (Eq. 13), which makes
    the expression stationary at a fixed point.
    """
    M_vh = message_h_to_v(W, M_hv, tau_h)
    q, m = M_vh / (1 - M_vh), (M_hv / (1 - M_hv)).T
    rho = tau_h / (tau_h + (1 - tau_h) * m)  # P(h=1) without v's message
    nodes = np.logaddexp(0, b1 + np.log(q).sum(1)).sum() + np.logaddexp(0, b2 + np.log(m).sum(0)).sum()
    return nodes - np.log(1 - rho + rho * m).sum()


def mixed_product(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0) -> Result:
    """Algorithm 1, mixed-product: Eq. 15 in place of Eq. 14.

    Damping acts on the log messages h -> v, from the second iteration on; Gamma is that of the messages before damping.
    log_z is log sum_h exp(-E(v, h)) at the decoded v.
    """
    nv, nh = W.shape
    M_hv: Array = np.full((nh, nv), 0.5)
    tau_h, log_odds = expit(b2), np.zeros_like(W)
    for t in range(T):
        new = message_h_to_v(W, M_hv, tau_h)
        kept = damping if t > 0 else 0
        log_odds = (1 - kept) * np.log(new / (1 - new)) + kept * log_odds
        theta_v = b1 + log_odds.sum(axis=1)
        v = (theta_v > 0).astype(float)
        M_hv = expit(W.T * v)
        tau_h = belief(b2, M_hv)
    return {
        "tau_v": expit(theta_v),
        "tau_h": tau_h,
        "gamma": pairwise_belief(W, new, M_hv, belief(b1, new), tau_h),
        "log_z": b1 @ v + np.logaddexp(0, b2 + v @ W).sum(),
    }


def max_product(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0) -> Result:
    """Algorithm 1 with a maximum in place of both sums (Eqs. 8 and 10), in logarithms.

    Gamma and log_z are v h' and -E(v, h) at v = the decoded beliefs and h the best for that v.
    """
    mu = np.zeros_like(W)
    theta_h = b2
    for _ in range(T):
        r = theta_h - mu
        lam = np.maximum(0, W + r) - np.maximum(0, r)
        theta_v = b1 + lam.sum(1)
        g = theta_v[:, None] - lam
        mu = (1 - damping) * (np.maximum(0, W + g) - np.maximum(0, g)) + damping * mu
        theta_h = b2 + mu.sum(0)
    v = (theta_v > 0).astype(float)
    h = (b2 + v @ W > 0).astype(float)
    return {
        "tau_v": expit(theta_v),
        "tau_h": expit(theta_h),
        "gamma": np.outer(v, h),
        "log_z": b1 @ v + b2 @ h + v @ W @ h,
    }


def _ascent(W: Array, b1: Array, b2: Array, T: int, f: Callable[[Array], Array]) -> tuple[Array, Array]:
    """T sweeps of coordinate ascent on b1 v + sum_j f(b2 + v W) from v = 0; theta_v, what v_i = 1 gains, and v."""
    theta_v, v = np.zeros(len(b1)), np.zeros(len(b1))
    for _ in range(T):
        for i in range(len(b1)):
            r = b2 + v @ W - v[i] * W[i]
            theta_v[i] = b1[i] + (f(W[i] + r) - f(r)).sum()
            v[i] = theta_v[i] > 0
    return theta_v, v


def mixed_ascent(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0) -> Result:
    """Coordinate ascent on log sum_h exp(-E(v, h)), which is log_z; Gamma is that of mixed-product at a fixed point."""
    theta_v, v = _ascent(W, b1, b2, T, lambda x: np.logaddexp(0, x))
    tau_v, tau_h, M_hv = expit(theta_v), expit(b2 + v @ W), expit(W.T * v)
    gamma = pairwise_belief(W, message_h_to_v(W, M_hv, tau_h), M_hv, tau_v, tau_h)
    return {"tau_v": tau_v, "tau_h": tau_h, "gamma": gamma, "log_z": b1 @ v + np.logaddexp(0, b2 + v @ W).sum()}


def max_ascent(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0) -> Result:
    """Coordinate ascent on max_h -E(v, h), which is log_z; Gamma is v h'."""
    theta_v, v = _ascent(W, b1, b2, T, lambda x: np.maximum(0, x))
    theta_h = b2 + v @ W
    return {
        "tau_v": expit(theta_v),
        "tau_h": expit(theta_h),
        "gamma": np.outer(v, theta_h > 0),
        "log_z": b1 @ v + np.maximum(0, theta_h).sum(),
    }


# --- mean fields ----------------------------------------------------------------------------------------------


def _entropy(tau: Array) -> Any:
    t = np.clip(np.stack([tau, 1 - tau]), 1e-300, 1)
    return -(t * np.log(t)).sum()


def mean_field(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0, init: str | None = None) -> Result:
    """Naive mean field, v then h; log_z is the bound at tau_v and the tau_h that is best for it."""
    tau_h = expit(b2 + expit(b1) @ W) if init == "visible" else expit(b2)
    for _ in range(T):
        tau_v = expit(b1 + W @ tau_h)
        best_h = expit(b2 + tau_v @ W)
        tau_h = (1 - damping) * best_h + damping * tau_h
    return {
        "tau_v": tau_v,
        "tau_h": tau_h,
        "gamma": np.outer(tau_v, tau_h),
        "log_z": b1 @ tau_v + b2 @ best_h + tau_v @ W @ best_h + _entropy(tau_v) + _entropy(best_h),
    }


def tap(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0, init: str | None = None) -> Result:
    """Second-order TAP (Gabrie, Tramel & Krzakala 2015): Plefka's expansion to W^2."""
    W2 = W**2
    tau_v = expit(b1)
    tau_h = expit(b2 + tau_v @ W) if init == "visible" else expit(b2)
    for _ in range(T):
        tau_v = expit(b1 + W @ tau_h + (0.5 - tau_v) * (W2 @ (tau_h - tau_h**2)))
        new_h = expit(b2 + tau_v @ W + (0.5 - tau_h) * ((tau_v - tau_v**2) @ W2))
        tau_h = (1 - damping) * new_h + damping * tau_h
    var_v, var_h = tau_v - tau_v**2, tau_h - tau_h**2
    return {
        "tau_v": tau_v,
        "tau_h": tau_h,
        "gamma": np.outer(tau_v, tau_h) + W * np.outer(var_v, var_h),
        "log_z": b1 @ tau_v
        + b2 @ tau_h
        + tau_v @ W @ tau_h
        + _entropy(tau_v)
        + _entropy(tau_h)
        + 0.5 * var_v @ W2 @ var_h,
    }


# --- the Bethe free energy ------------------------------------------------------------------------------------


def edge_belief(W: Array, tau_v: Array, tau_h: Array) -> Any:
    """P(v_i = 1, h_j = 1) that the two beliefs of an edge imply (Welling & Teh 2001): of all tables with these margins
    the one whose odds ratio is exp(W)."""
    a, b, odds = tau_v[:, None], tau_h[None, :], np.expm1(W)
    P = 1 + odds * (a + b)
    return 2 * (1 + odds) * a * b / (P + np.sqrt(P**2 - 4 * odds * (1 + odds) * a * b))


def bethe_free_energy(W: Array, b1: Array, b2: Array, tau_v: Array, tau_h: Array) -> Any:
    """F of the beliefs: mean energy minus the entropies of the edges, corrected for the units in several edges."""
    nv, nh = W.shape
    G11 = edge_belief(W, tau_v, tau_h)
    tables = (G11, tau_v[:, None] - G11, tau_h[None, :] - G11, 1 - tau_v[:, None] - tau_h[None, :] + G11)
    entropy = -sum(xlogy(p, p).sum() for p in tables)
    entropy -= (nh - 1) * _entropy(tau_v) + (nv - 1) * _entropy(tau_h)
    return -(b1 @ tau_v + b2 @ tau_h + (W * G11).sum()) - entropy


def _half_alternation(W: Array, b1: Array, theta_v: Array, tau_h: Array, relax: float) -> Any:
    """New theta_v given tau_h: the step of csrc/kernels/descent.h towards the root of g = dF / d tau_v."""
    tau_v = expit(theta_v)
    rho = (tau_h[None, :] - edge_belief(W, tau_v, tau_h)) / (1 - tau_v)[:, None]  # P(h=1 | v=0)
    q = 1 + np.expm1(W) * rho
    covariance = edge_belief(W, tau_v, tau_h) - np.outer(tau_v, tau_h)
    R = np.sqrt((1 + np.expm1(W) * (tau_v[:, None] - tau_h)) ** 2 + 4 * np.expm1(W) * np.outer(1 - tau_v, tau_h))
    g = theta_v - b1 - np.log(q).sum(1)
    T = np.maximum((np.expm1(W) * covariance / R).sum(1), 2.0**-48)  # as the kernel, where it is lost in rounding
    kappa = np.cosh(np.abs(W).max() / 4) ** 2
    step = np.maximum(
        np.log((1 + T) / (T + np.exp(-np.abs(g)))),
        np.log1p(kappa * np.abs(g) / (1 + T)) / kappa,
    )
    step *= 1 + np.minimum(relax, np.maximum(1 - 2 * (1 + T) * step, 0))
    return theta_v - np.sign(g) * step


def bethe_path(W: Array, b1: Array, b2: Array, T: int) -> Iterator[tuple[Array, Array]]:
    """tau_v and tau_h after every half of T alternations."""
    theta_v, theta_h = b1, b2
    for t in range(T):
        relax = min(t / (t + 40), 0.8)
        theta_v = _half_alternation(W, b1, theta_v, expit(theta_h), relax)
        yield expit(theta_v), expit(theta_h)
        theta_h = _half_alternation(W.T, b2, theta_h, expit(theta_v), relax)
        yield expit(theta_v), expit(theta_h)


def bethe(W: Array, b1: Array, b2: Array, T: int, damping: float = 0.0) -> Result:
    """Descent on the Bethe free energy; log_z is minus F."""
    *_, (tau_v, tau_h) = bethe_path(W, b1, b2, T)
    return {
        "tau_v": tau_v,
        "tau_h": tau_h,
        "gamma": edge_belief(W, tau_v, tau_h),
        "log_z": -bethe_free_energy(W, b1, b2, tau_v, tau_h),
    }


# --- linear response ------------------------------------------------------------------------------------------


def bethe_hessian(W: Array, tau_v: Array, tau_h: Array) -> Any:
    """Second derivatives of the Bethe free energy by tau_v and tau_h, (nv + nh, nv + nh).

    rho = P(h = 1 | v = 0) is the root of (1 - a) al rho^2 + P rho - b = 0, the message h -> v is q = 1 + al rho.
    """

    def diagonal(al: Array, a: Array, b: Array) -> Any:
        a, b = a[:, None], b[None, :]
        P = 1 + al * (a - b)
        R = np.sqrt(P**2 + 4 * (1 - a) * al * b)
        rho = 2 * b / (P + R)
        q = 1 + al * rho
        return (1 / (a - a**2))[:, 0] + (al**2 * rho * (1 - rho) / (q * R)).sum(1), R

    al = np.expm1(W)
    (D_v, R), (D_h, _) = diagonal(al, tau_v, tau_h), diagonal(al.T, tau_h, tau_v)
    C = -al / R
    return np.block([[np.diag(D_v), C], [C.T, np.diag(D_h)]])


def linear_response(W: Array, tau_v: Array, tau_h: Array) -> Any:
    """Covariances of all units at a fixed point of sum-product, (nv + nh, nv + nh) (Welling & Teh 2003)."""
    return np.linalg.inv(bethe_hessian(W, tau_v, tau_h))


# --- truth ----------------------------------------------------------------------------------------------------


def exact(W: Array, b1: Array, b2: Array, T: int = 0, damping: float = 0.0) -> Result:
    """Enumeration of all 2^(nv + nh) states: for models of a dozen units."""
    nv, nh = W.shape
    states = np.array(list(itertools.product([0.0, 1.0], repeat=nv + nh)))
    v, h = states[:, :nv], states[:, nv:]
    minus_e = ((v @ W) * h).sum(1) + v @ b1 + h @ b2
    log_z = logsumexp(minus_e)
    p = np.exp(minus_e - log_z)
    return {"tau_v": p @ v, "tau_h": p @ h, "gamma": (v * p[:, None]).T @ h, "log_z": log_z}


def exact_covariance(W: Array, b1: Array, b2: Array) -> Any:
    """Covariances of all units, (nv + nh, nv + nh), by enumeration."""
    nv, nh = W.shape
    states = np.array(list(itertools.product([0.0, 1.0], repeat=nv + nh)))
    minus_e = ((states[:, :nv] @ W) * states[:, nv:]).sum(1) + states @ np.concatenate([b1, b2])
    return np.cov(states, rowvar=False, bias=True, aweights=np.exp(minus_e - logsumexp(minus_e)))


def joint_map(W: Array, b1: Array, b2: Array) -> tuple[float, Array, Array]:
    """max over v and h of -E, by enumeration; returns (value, v, h)."""
    best = max(((b1 @ v + np.maximum(0, b2 + v @ W).sum(), v) for v in _binary(len(b1))), key=lambda pair: pair[0])
    return best[0], best[1], (b2 + best[1] @ W > 0).astype(float)


def marginal_map(W: Array, b1: Array, b2: Array) -> tuple[float, Array]:
    """max over v of log sum_h exp(-E), by enumeration; returns (value, v)."""
    return max(((b1 @ v + np.logaddexp(0, b2 + v @ W).sum(), v) for v in _binary(len(b1))), key=lambda pair: pair[0])


# --- learning: one instance v (nv,), x (nx,) and parameters by name ---------------------------------------------


def biases(p: Result, x: Array) -> tuple[Array, Array]:
    """b1 and b2 of Section 5."""
    return p["b_v"] + p["W_vx"] @ x, p["b_h"] + p["W_hx"] @ x


def energy(p: Result, v: Array, h: Array, x: Array) -> Any:
    """E of Eq. 2."""
    return -v @ p["W_vh"] @ h - v @ p["W_vx"] @ x - h @ p["W_hx"] @ x - v @ p["b_v"] - h @ p["b_h"]


def free_energy(p: Result, v: Array, x: Array) -> Any:
    """F of Eq. 4."""
    return -np.logaddexp(0, v @ p["W_vh"] + p["W_hx"] @ x + p["b_h"]).sum() - v @ p["W_vx"] @ x - v @ p["b_v"]


def log_likelihood(p: Result, v: Array, x: Array) -> Any:
    """log p(v | x), by enumeration."""
    return -free_energy(p, v, x) - exact(p["W_vh"], *biases(p, x))["log_z"]


def mssvm_loss(p: Result, v: Array, x: Array) -> Any:
    """Eq. 6 with Hamming loss, which is linear in v: sum_i v_i + u_i (1 - 2 v_i) for a rival u; by enumeration."""
    b1, b2 = biases(p, x)
    return marginal_map(p["W_vh"], b1 + 1 - 2 * v, b2)[0] + v.sum() + free_energy(p, v, x)


def lssvm_loss(p: Result, v: Array, x: Array) -> Any:
    """Eq. 6 with max_h in place of log sum_h exp, in both terms; by enumeration."""
    b1, b2 = biases(p, x)
    truth = v @ b1 + np.maximum(0, b2 + v @ p["W_vh"]).sum()
    return joint_map(p["W_vh"], b1 + 1 - 2 * v, b2)[0] + v.sum() - truth


def _binary(n: int) -> Iterator[Array]:
    return (np.array(bits, float) for bits in itertools.product([0, 1], repeat=n))


FUNCTIONS: dict[str, Callable[..., Result]] = {
    "sum-product": sum_product,
    "mixed-product": mixed_product,
    "max-product": max_product,
    "mixed-ascent": mixed_ascent,
    "max-ascent": max_ascent,
    "mean-field": mean_field,
    "tap": tap,
    "bethe": bethe,
    "exact": exact,
}
