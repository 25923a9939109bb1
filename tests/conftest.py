"""Shared fixtures: instruction sets, precisions, problems."""

import numpy as np
import pytest

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
