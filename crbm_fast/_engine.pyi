from typing import Any

import numpy as np
from numpy.typing import NDArray

METHOD_NUMBERS: dict[str, int]

class Core:
    W: NDArray[Any]
    nv: int
    nh: int
    n_threads: int
    def __init__(self, W: NDArray[Any], n_threads: int) -> None: ...
    @property
    def isa(self) -> str: ...
    def update(self, W: NDArray[Any]) -> None: ...
    def run(
        self,
        method: str,
        b1: NDArray[Any],
        b2: NDArray[Any],
        max_iter: int,
        tol: float,
        damping: float,
        *,
        tau_v: NDArray[Any],
        tau_h: NDArray[Any],
        n_iter: NDArray[np.int64],
        converged: NDArray[np.bool_],
        residual: NDArray[np.float64],
        log_z: NDArray[np.float64] | None = None,
        gamma: NDArray[Any] | None = None,
        gamma_sum: bool = False,
        gamma_add: bool = False,
        messages: NDArray[Any] | None = None,
        init: NDArray[Any] | None = None,
        visible_first: bool = False,
        warm_start: bool = False,
        defer: bool = False,
    ) -> None: ...
    def gibbs(
        self,
        b1: NDArray[Any],
        b2: NDArray[Any],
        v: NDArray[Any],
        h: NDArray[Any],
        *,
        seed: int,
        instance: int,
        step: int,
        n_steps: int,
        theta_h: NDArray[Any] | None = None,
    ) -> None: ...
