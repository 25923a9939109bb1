"""Shared fixtures: instruction sets, precisions, problems."""

import numpy as np
import pytest

import crbm_fast
from crbm_fast import _ckernels


@pytest.fixture(params=_ckernels.available_isas())
def isa(request):
    """Each instruction set this machine can run, in force for one test."""
    before = _ckernels.active_isa()
    _ckernels.use_isa(request.param)
    yield request.param
    _ckernels.use_isa(before)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(20170420)


def make_rbm(rng, nv, nh, scale=None, bias=1.0, N=None):
    """(W, b1, b2) in float64; the default scale keeps BP in the regime where it converges."""
    scale = min(0.5, 2 / np.sqrt(nv + nh)) if scale is None else scale
    batch = () if N is None else (N,)
    return rng.normal(0, scale, (nv, nh)), rng.normal(0, bias, (*batch, nv)), rng.normal(0, bias, (*batch, nh))


def make_crbm(rng, nv, nh, nx, scale=0.7, dtype="float32"):
    """A model with random parameters of that size everywhere."""
    shapes = {"W_vx": (nv, nx), "W_hx": (nh, nx), "b_v": (nv,), "b_h": (nh,)}
    rest = {name: rng.normal(0, scale, shape) for name, shape in shapes.items()}
    return crbm_fast.CRBM.from_parameters(rng.normal(0, scale, (nv, nh)), **rest, dtype=dtype)
