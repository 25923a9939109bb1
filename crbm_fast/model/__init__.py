"""Conditional restricted Boltzmann machines: parameters, and what they say about given features.

    p(v, h | x) ~ exp(v' W_vh h + v' W_vx x + h' W_hx x + v' b_v + h' b_h)          Eq. 2

Given x this is an RBM with the biases b1 = b_v + W_vx x, b2 = b_h + W_hx x (Section 5), which `inference` works on.

    parameters.py    Parameters    the five arrays, settings, and what learning computes with them, without checks
    energies.py      Energies      energies, conditional probabilities, likelihoods
    crbm.py          CRBM, RBM     predictions, samples, files

References
----------
[1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
"""

from crbm_fast.model.crbm import CRBM, RBM
from crbm_fast.model.energies import free_energy
from crbm_fast.model.parameters import PARAMETERS

__all__ = ["CRBM", "PARAMETERS", "RBM", "free_energy"]
