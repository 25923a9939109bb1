"""Annealed importance sampling: log Z by sampling, to check the estimates of belief propagation.

References
----------
[1] Neal, "Annealed importance sampling", Statistics and Computing 11, 2001.
[2] Salakhutdinov & Murray, "On the quantitative analysis of deep belief networks", ICML 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast.inference import Engine, independent_draws

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

# Number of chains that advance together; their states take 4 MB with 1000 units.
_CHAINS = 1024


@dataclass(slots=True, eq=False)
class AIS:
    """An estimate of log Z and its standard error.

    Attributes
    ----------
    log_z : float or (N,) float64
        log of the mean importance weight; the mean, not its log, is unbiased.
    std_error : float or (N,) float64
        Standard error of `log_z`, from the spread of the weights over the chains.  It does not account for modes that
        no chain has visited.
    """

    log_z: Any
    std_error: Any


def ais(
    W: ArrayLike,
    b_v: ArrayLike,
    b_h: ArrayLike,
    *,
    n_chains: int = 100,
    n_betas: int = 1000,
    seed: int = 0,
    first_instance: int = 0,
    dtype: DTypeLike | None = None,
    n_threads: int | None = None,
) -> AIS:
    """log Z of an RBM, or of a batch of RBMs that share W, by annealed importance sampling.

    Chains start at W = 0, where Z is known, and pass through `n_betas` models p_k ~ exp(beta_k v' W h + b_v' v +
    b_h' h), beta_k = k / n_betas, with a step of Gibbs sampling at each ([1]_, [2]_).

    Parameters
    ----------
    W, b_v, b_h, dtype, n_threads
        As for `infer`.
    n_chains : int
        Chains per instance, at least 2; the error falls as 1 / sqrt(n_chains).
    n_betas : int
        Models each chain passes through; more for stronger weights.
    seed : int
        The random numbers depend on (seed, instance, chain) alone.
    first_instance : int
        Number of the first row, for a batch that is processed in parts.

    Returns
    -------
    AIS

    Examples
    --------
    >>> import numpy as np
    >>> import crbm_fast as cf
    >>> W, b_v, b_h = np.array([[2.0], [-1.0]]), [0.0, 0.0], [0.5]
    >>> estimate = cf.ais(W, b_v, b_h)
    >>> truth = cf.infer(W, b_v, b_h, method="exact", log_z=True).log_z
    >>> bool(abs(estimate.log_z - truth) < 4 * estimate.std_error)
    True

    References
    ----------
    .. [1] Neal, "Annealed importance sampling", Statistics and Computing 11, 2001.
    .. [2] Salakhutdinov & Murray, "On the quantitative analysis of deep belief networks", ICML 2008.
    """
    n_chains = check.check_int("n_chains", n_chains, 2)
    n_betas = check.check_int("n_betas", n_betas, 1, 2**30)
    seed = check.check_int("seed", seed, 0, 2**64 - 1)
    first_instance = check.check_int("first_instance", first_instance, 0, 2**40)
    engine = Engine(W, dtype=dtype, n_threads=n_threads)
    weights = check.check_weights(W, engine.dtype)
    b1, b2, single = check.check_biases(b_v, b_h, engine.shape, engine.dtype)
    N = len(b1)
    log_w = np.empty((N, n_chains))
    flat = log_w.reshape(-1)
    for begin in range(0, N * n_chains, _CHAINS):
        rows = np.arange(begin, min(begin + _CHAINS, N * n_chains))
        instance = rows // n_chains
        first = first_instance * n_chains + begin
        flat[rows] = _anneal(engine, weights, b1[instance], b2[instance], n_betas, seed, first)
    top = log_w.max(axis=1, keepdims=True)
    w = np.exp(log_w - top)
    mean = w.mean(axis=1)
    log_z = top[:, 0] + np.log(mean) + _algebra.softplus_sums(b1) + _algebra.softplus_sums(b2)
    error = w.std(axis=1, ddof=1) / mean / np.sqrt(n_chains)
    return AIS(float(log_z[0]), float(error[0])) if single else AIS(log_z, error)


def _anneal(
    engine: Engine, W: NDArray[Any], b1: NDArray[Any], b2: NDArray[Any], n_betas: int, seed: int, first: int
) -> NDArray[np.float64]:
    """The log importance weight of each row's chain, sum_k log p*_k+1(v_k) - log p*_k(v_k) with h summed out."""
    v = independent_draws(b1, seed, first)
    log_w, field = np.zeros(len(v)), np.empty_like(b2)
    for k in range(n_betas):
        beta, after = k / n_betas, (k + 1) / n_betas
        # field = v W
        # (N, nh) = (N, nv) (nv, nh)
        _algebra.product(field, v, W, n_threads=engine.n_threads)
        log_w += _algebra.softplus_sums(b2 + field * field.dtype.type(after))
        log_w -= _algebra.softplus_sums(b2 + field * field.dtype.type(beta))
        if k + 1 < n_betas:
            engine.update(W * W.dtype.type(after))
            v = engine.gibbs(b1, b2, v=v, seed=seed, step=k, first_instance=first).v
    return log_w
