"""The exact method: sums over all states of the side with fewer free units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast._enumeration import enumerate_states

# 2^25 states of the enumerated side take about a minute.
MAX_ENUMERATED = 25


def enumerate_instances(
    W: NDArray[Any],
    b_v: NDArray[Any],
    b_h: NDArray[Any],
    *,
    gamma_sum: bool,
    tau_v: Any,
    tau_h: Any,
    n_iter: Any,
    converged: Any,
    residual: Any,
    log_z: Any,
    gamma: Any,
) -> None:
    """Write the exact beliefs of every instance into the arrays given, by enumeration of its smaller side in float64.

    W (nv, nh), b_v (N, nv), where +-inf clamps, b_h (N, nh); the results are those of `_engine.Core.run`.
    """
    W = W.astype(np.float64)
    nv, nh = W.shape
    most = int(np.isfinite(b_v).sum(axis=1).max(initial=0))
    if min(most, nh) > MAX_ENUMERATED:
        raise ValueError(
            f"method='exact' enumerates the smaller side, at most {MAX_ENUMERATED} units; this model has {most} free "
            f"visible and {nh} hidden ones"
        )
    if gamma_sum:
        gamma[...] = 0
    for n in range(len(b_v)):
        free, on = np.isfinite(b_v[n]), b_v[n] == np.inf
        A, a, b = W[free], b_v[n][free].astype(np.float64), b_h[n] + W[on].sum(axis=0)
        by_v = len(A) <= nh
        if not by_v:
            A, a, b = np.ascontiguousarray(A.T), b, a
        pairs = None if gamma is None else np.empty(A.shape)
        z, p_first, p_second = enumerate_states(A, a, b, pairs)
        tau_v[n] = on
        tau_v[n, free], tau_h[n] = (p_first, p_second) if by_v else (p_second, p_first)
        n_iter[n], converged[n], residual[n] = 0, True, 0
        if log_z is not None:
            log_z[n] = z
        if pairs is not None:
            full = np.zeros((nv, nh))
            full[on] = tau_h[n]
            full[free] = pairs if by_v else pairs.T
            if gamma_sum:
                gamma += full
            else:
                gamma.reshape(len(b_v), nv, nh)[n] = full
