from typing import Any

import numpy as np
from numpy.typing import NDArray

def product(
    out: NDArray[Any],
    A: NDArray[Any],
    B: NDArray[Any],
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    beta: float = 0,
    n_threads: int = 1,
) -> None: ...
def csr_product(
    out: NDArray[Any],
    values: NDArray[Any],
    columns: NDArray[np.intp],
    starts: NDArray[np.intp],
    W: NDArray[Any],
    *,
    n_threads: int = 1,
) -> None: ...
def csr_outer(
    out: NDArray[Any],
    D: NDArray[Any],
    values: NDArray[Any],
    columns: NDArray[np.intp],
    starts: NDArray[np.intp],
    *,
    n_threads: int = 1,
) -> None: ...
def logistic(theta: NDArray[Any]) -> None: ...
def softplus_sums(theta: NDArray[Any]) -> NDArray[np.float64]: ...
def sum_squares(x: NDArray[Any], *, n_threads: int = 1) -> float: ...
def momentum_step(
    p: NDArray[Any],
    velocity: NDArray[Any] | None,
    g: NDArray[Any],
    *,
    rate: float,
    momentum: float,
    decay: float,
    n_threads: int = 1,
) -> tuple[float, float]: ...
def adam_step(
    p: NDArray[Any],
    m: NDArray[Any],
    s: NDArray[Any],
    g: NDArray[Any],
    *,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    n_threads: int = 1,
) -> tuple[float, float]: ...
