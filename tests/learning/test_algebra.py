"""The products, sums and steps between two inferences, against NumPy, at sizes next to the tile and piece sizes."""

import numpy as np
import pytest
import scipy.sparse

from crbm_fast import _algebra
from crbm_fast._data import Matrix

TOL = {"float32": 2e-4, "float64": 1e-11}


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1),
        (5, 7, 3),
        (40, 784, 33),
        (784, 40, 65),
        (257, 300, 17),
        (64, 64, 0),
        (0, 5, 3),
        (5, 0, 3),
        (1000, 3, 2),
    ],
)
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True), (True, True)])
def test_product(rng, dtype, shape, transpose):
    m, n, k = shape
    A, B, C = (rng.normal(size=s).astype(dtype) for s in ((m, k), (k, n), (m, n)))
    for beta in (0, 1, -0.5):
        outs = []
        for threads in (1, 2, 5):
            out = C.copy()
            _algebra.product(
                out,
                A.T.copy() if transpose[0] else A,
                B.T.copy() if transpose[1] else B,
                transpose_a=transpose[0],
                transpose_b=transpose[1],
                beta=beta,
                n_threads=threads,
            )
            outs.append(out)
            np.testing.assert_array_equal(out, outs[0])  # the same bits for any number of threads
        np.testing.assert_allclose(outs[0], A.astype(float) @ B + beta * C.astype(float), atol=TOL[dtype.name])


@pytest.mark.parametrize("density", [0, 0.2, 0.49, 0.51, 1])  # below a half, rows are added up instead
@pytest.mark.parametrize("shape", [(40, 256, 784), (30, 255, 33), (3, 1, 50), (1, 700, 9)])
def test_product_with_states(rng, dtype, isa, density, shape):
    m, n, k = shape
    A = (rng.random((m, k)) < density) * rng.choice([1, 1, 0.5, -2], (m, k))
    B, C = rng.normal(size=(k, n)).astype(dtype), rng.normal(size=(m, n)).astype(dtype)
    for transpose in (False, True):
        given = np.ascontiguousarray(A.T if transpose else A, dtype)
        for beta in (0, -0.5):
            outs = [C.copy() for _ in range(3)]
            for out, threads in zip(outs, (1, 2, 5), strict=True):
                _algebra.product(out, given, B, transpose_a=transpose, beta=beta, n_threads=threads)
                np.testing.assert_array_equal(out, outs[0])
            np.testing.assert_allclose(outs[0], A @ B.astype(float) + beta * C, atol=TOL[dtype.name])


@pytest.mark.parametrize("density", [0, 0.05, 1])
def test_sparse_products(rng, dtype, density):
    X = scipy.sparse.csr_array(rng.normal(size=(50, 700)) * (rng.random((50, 700)) < density))
    rows = Matrix("X", X, 700, dtype, "nx").rows(slice(None))
    W, D = rng.normal(size=(33, 700)).astype(dtype), rng.normal(size=(50, 33)).astype(dtype)
    for threads in (1, 3):
        out = np.ones((50, 33), dtype)
        _algebra.csr_product(out, rows.values, rows.columns, rows.indptr, W, n_threads=threads)
        np.testing.assert_allclose(out, 1 + X @ W.T.astype(float), atol=TOL[dtype.name])
        out = np.full((33, 700), np.nan, dtype)
        _algebra.csr_outer(out, D, rows.values, rows.columns, rows.indptr, n_threads=threads)
        np.testing.assert_allclose(out, D.T.astype(float) @ X.toarray(), atol=TOL[dtype.name])


def test_logistic_and_softplus(rng, dtype, isa):
    theta = rng.normal(0, 30, (9, 17)).astype(dtype)
    np.testing.assert_allclose(
        _algebra.softplus_sums(theta), np.logaddexp(0, theta.astype(float)).sum(axis=1), rtol=1e-6
    )
    p = theta.copy()
    _algebra.logistic(p)
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-theta.astype(float))), rtol=1e-5, atol=1e-30)
    assert _algebra.softplus_sums(np.zeros((3, 0), dtype)).tolist() == [0, 0, 0]


SIZES = [0, 1, 15, 16, 17, 1000, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 200_003]


@pytest.mark.parametrize("n", SIZES)
def test_sum_of_squares(rng, dtype, isa, n):
    x = rng.normal(size=n).astype(dtype)
    got = [_algebra.sum_squares(x, n_threads=t) for t in (1, 3)]
    assert got[0] == got[1]
    np.testing.assert_allclose(got[0], (x.astype(float) ** 2).sum(), rtol=1e-6)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("momentum", [0, 0.9])
def test_momentum_step(rng, dtype, isa, n, momentum):
    p, u, g = (rng.normal(size=n).astype(dtype) for _ in range(3))
    want_u = momentum * u.astype(float) + g - 0.01 * p
    want_p = p + 0.1 * want_u
    for threads in (1, 3):
        q, w = p.copy(), u.copy()
        change, squares = _algebra.momentum_step(q, w, g, rate=0.1, momentum=momentum, decay=0.01, n_threads=threads)
        np.testing.assert_allclose(w, want_u, atol=1e-6)
        np.testing.assert_allclose(q, want_p, atol=1e-6)
        np.testing.assert_allclose(change, np.abs(0.1 * want_u).max(initial=0), rtol=1e-5)
        np.testing.assert_allclose(squares, ((g - 0.01 * p.astype(float)) ** 2).sum(), rtol=1e-5)
    if momentum == 0:
        q = p.copy()
        _algebra.momentum_step(q, None, g, rate=0.1, momentum=0, decay=0.01)
        np.testing.assert_allclose(q, want_p, atol=1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_adam_step(rng, dtype, isa, n):
    p, m, g = (rng.normal(size=n).astype(dtype) for _ in range(3))
    s = rng.random(n).astype(dtype)
    d = g - 0.01 * p.astype(float)
    want_m, want_s = 0.9 * m + 0.1 * d, 0.99 * s + 0.01 * d**2
    step = 0.1 * want_m / (np.sqrt(want_s) + 1e-3)
    for threads in (1, 3):
        q, mm, ss = p.copy(), m.copy(), s.copy()
        change, squares = _algebra.adam_step(
            q, mm, ss, g, rate=0.1, beta1=0.9, beta2=0.99, epsilon=1e-3, decay=0.01, n_threads=threads
        )
        np.testing.assert_allclose(mm, want_m, atol=1e-6)
        np.testing.assert_allclose(ss, want_s, atol=1e-6)
        np.testing.assert_allclose(q, p + step, atol=2e-5)
        np.testing.assert_allclose(change, np.abs(step).max(initial=0), rtol=1e-4)
        np.testing.assert_allclose(squares, (d**2).sum(), rtol=1e-5)
