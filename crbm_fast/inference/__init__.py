"""Inference on RBMs that share their weights: `infer` for one call, `Engine` for many.

A conditional RBM given features is an RBM with shifted biases, p(v, h) ~ exp(v' W h + b_v' v + b_h' h); everything
here is about that RBM.  A batch is N pairs of biases with one W.

    methods.py    METHODS, the one table of inference methods; Inference, a method with its options
    beliefs.py    Beliefs and Samples: what inference and Gibbs sampling return
    evidence.py   visible units whose states are known
    exact.py      the method that enumerates
    engine.py     Engine          ->  _validation, then _engine.Core (Cython, C)
    functions.py  infer, gibbs    ->  Engine
    covariance.py covariances by linear response at a fixed point of BP
"""

from crbm_fast.inference.beliefs import Beliefs, Samples
from crbm_fast.inference.covariance import Covariances, covariance
from crbm_fast.inference.engine import ConvergenceWarning, Engine, independent_draws
from crbm_fast.inference.functions import gibbs, infer
from crbm_fast.inference.methods import METHODS, Inference, Method

__all__ = [
    "METHODS",
    "Beliefs",
    "ConvergenceWarning",
    "Covariances",
    "Engine",
    "Inference",
    "Method",
    "Samples",
    "covariance",
    "gibbs",
    "independent_draws",
    "infer",
]
