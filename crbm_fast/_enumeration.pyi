import numpy as np
from numpy.typing import NDArray

def enumerate_states(
    A: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    gamma: NDArray[np.float64] | None = None,
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]: ...
