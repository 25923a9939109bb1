"""Gradients, losses and small problems for the tests of learning."""

from dataclasses import dataclass

import numpy as np

import crbm_fast as cf
from crbm_fast import _reference as ref
from crbm_fast._data import Matrix
from crbm_fast.learners import LSSVM, MSSVM, Batch, Negative, Workspace
from crbm_fast.model import PARAMETERS


def gradient(model, learner, X, V, *, epoch=1, seed=0, state=None):
    """The gradient of a batch, by name, and the negative phase."""
    out = {name: np.full_like(p, np.nan) for name, p in model.parameters().items()}
    rows = None if X is None else Matrix("X", X, model.nx, model.dtype, "nx").rows(slice(None))
    state = learner.first_state(model, len(V), len(V)) if state is None else state
    V = np.ascontiguousarray(V, model.dtype)
    batch = Batch(rows, V, np.arange(len(V)), epoch, seed, state, Workspace(model))
    low = learner.gradient(model, model.engine(), batch, out)
    return {name: g for name, g in out.items() if name in learner.trains and g.size}, low


def finite_differences(objective, model, X, V, names=PARAMETERS):
    """Central differences of the mean of objective(parameters, v, x), in float64."""
    p = {name: a.astype(np.float64) for name, a in model.parameters().items()}
    X = np.zeros((len(V), 0)) if X is None else X
    V = V.astype(float)

    def mean():
        return np.mean([objective(p, v, x) for v, x in zip(V, X, strict=True)])

    out = {}
    for name in names:
        out[name] = np.empty_like(p[name])
        for i in np.ndindex(p[name].shape):
            kept, values = p[name][i], []
            for step in (1e-5, -1e-5):
                p[name][i] = kept + step
                values.append(mean())
            p[name][i] = kept
            out[name][i] = (values[0] - values[1]) / 2e-5
    return out


def assert_same(got, want, atol):
    assert got.keys() >= {name for name, g in want.items() if g.size}
    for name, g in want.items():
        if g.size:
            np.testing.assert_allclose(got[name], g, atol=atol, err_msg=name)


# Every option that changes what a step is.
ALL_OF_IT = {"centering": "all", "averaging": 0.9, "rates": {"W_vx": 0.5, "b_v": 2}}


@dataclass(frozen=True)
class EnumeratedMSSVM(MSSVM):
    def negative(self, engine, batch):
        b1 = batch.b1 + 1 - 2 * batch.V
        return Negative(np.array([ref.marginal_map(engine.W, *b)[1] for b in zip(b1, batch.b2, strict=True)]))


@dataclass(frozen=True)
class EnumeratedLSSVM(LSSVM):
    def negative(self, engine, batch):
        b1 = batch.b1 + 1 - 2 * batch.V
        return Negative(np.array([ref.joint_map(engine.W, *b)[1] for b in zip(b1, batch.b2, strict=True)]))


def denoising(N=300, nv=12, flips=0.1, seed=0):
    """Noisy copies of a handful of patterns, as uint8."""
    rng = np.random.default_rng(seed)
    P = rng.random((6, nv)) < 0.5
    V = P[rng.integers(6, size=N)]
    return (V ^ (rng.random(V.shape) < flips)).astype(np.uint8), V.astype(np.uint8)


def fit(learner="mle", *, nh=8, dtype="float32", n_threads=None, data=None, **kw):
    X, V = denoising() if data is None else data
    model = cf.CRBM(V.shape[1], nh, X.shape[1], scale=0.1, dtype=dtype, n_threads=n_threads)
    history = cf.train(model, X, V, learner, **{"epochs": 4, "batch_size": 32, "learning_rate": 0.02} | kw)
    return model, history


def assert_same_parameters(a, b):
    for name, p in a.parameters().items():
        np.testing.assert_array_equal(p, b.parameters()[name], err_msg=name)
