"""crbm_fast: belief propagation on conditional restricted Boltzmann machines, fast and exact to the paper.

    cli, estimators  ->  training  ->  learners, optimizers  ->  model  ->  assessment  ->  annealing, inference
    samplers  ->  model, inference                                           Python: Markov chains
    inference ->  _engine    ->  _ckernels -> csrc/ (C, SIMD)                Cython: beliefs, samples
    the rest  ->  _algebra   ->  _blas     -> scipy.linalg.cython_blas       Cython: products, steps
    cython_api, ctypes_api   ->  _ckernels, csrc/embed.c: the same BP inside other programs' loops, without Python
    _validation   every check of user input      _errors  what is raised, as data
    _data         rows of X and V, batch by batch
    _files        models and checkpoints         _reference   the paper in NumPy, for tests and benchmarks
    datasets      images to learn from, and their corruptions
    cli           the command line, and estimators, for scikit-learn; not imported with the package

Start with `infer`, or with `CRBM` and `train`.
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

from crbm_fast import datasets, learners, optimizers, samplers
from crbm_fast._config import __version__, get_include, show_config
from crbm_fast._validation import EfficiencyWarning
from crbm_fast.annealing import AIS, ais
from crbm_fast.assessment import Assessment, assess
from crbm_fast.inference import (
    Beliefs,
    ConvergenceWarning,
    Covariances,
    Engine,
    Inference,
    Samples,
    covariance,
    gibbs,
    infer,
)
from crbm_fast.model import CRBM, RBM
from crbm_fast.training import DivergenceError, Epoch, History, train

__all__ = [
    "AIS",
    "CRBM",
    "RBM",
    "Assessment",
    "Beliefs",
    "ConvergenceWarning",
    "Covariances",
    "DivergenceError",
    "EfficiencyWarning",
    "Engine",
    "Epoch",
    "History",
    "Inference",
    "Samples",
    "__version__",
    "ais",
    "assess",
    "covariance",
    "datasets",
    "get_include",
    "gibbs",
    "infer",
    "learners",
    "optimizers",
    "samplers",
    "show_config",
    "train",
]
