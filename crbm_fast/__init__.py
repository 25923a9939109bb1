"""crbm_fast: belief propagation on conditional restricted Boltzmann machines, fast and exact to the paper.

    inference  ->  _engine (Cython)  ->  _ckernels -> csrc/ (C, SIMD)
        |                            ->  _blas     -> scipy.linalg.cython_blas
        +-> _validation              every check of user input
    _reference                       the paper in NumPy, for tests and benchmarks

Start with `infer`.
"""

try:
    import crbm_fast._engine  # noqa: F401
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("crbm_fast._"):
        raise
    raise ImportError(
        "crbm_fast is not built here. In a clone of the repository Python finds the sources before an installed "
        "package: run `pip install -e .`, or work from another directory."
    ) from error

from crbm_fast._config import show_config
from crbm_fast._validation import EfficiencyWarning
from crbm_fast.inference import Beliefs, ConvergenceWarning, Engine, Samples, gibbs, infer

__version__ = "0.1.0"

__all__ = [
    "Beliefs",
    "ConvergenceWarning",
    "EfficiencyWarning",
    "Engine",
    "Samples",
    "gibbs",
    "infer",
    "show_config",
]
