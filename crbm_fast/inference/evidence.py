"""Visible units whose states are known: to the engine, a unit with the bias +-inf is clamped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _validation as check

Evidence = tuple[Any, Any]


def clamp(
    evidence: Evidence, b_v: NDArray[Any], single: bool
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[Any]]:
    """Visible biases (N, nv) with the known units clamped.

    Returns
    -------
    biases : (N, nv)
        +inf where a unit is known to be 1, -inf where it is known to be 0, b_v elsewhere.
    constant : (N,)
        What the clamped units contribute to log Z by their biases alone.
    mask, values : (N, nv)
        Which units are known, and their states.
    """
    mask, values = check.check_evidence(evidence, b_v.shape[1:] if single else b_v.shape)
    on = mask & (values == 1)
    constant: NDArray[np.float64] = np.where(on, b_v, 0).sum(axis=1, dtype=np.float64)
    biases = np.where(mask, np.where(on, np.inf, -np.inf), b_v).astype(b_v.dtype)
    return biases, constant, mask, values
