"""The order of minibatches, and matrices handed out row by row."""

import numpy as np
import pytest
import scipy.sparse

from crbm_fast._data import CHUNK, Data, Matrix, SparseRows, permuted


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097])
def test_permuted_is_a_permutation(n):
    got = permuted(np.arange(n), n, 1, 2)
    np.testing.assert_array_equal(np.sort(got), np.arange(n))
    np.testing.assert_array_equal(permuted(np.arange(n)[n // 2 :], n, 1, 2), got[n // 2 :])  # any part alone


def test_permutations_look_random():
    """Over many keys every position goes everywhere equally often (chi-square), and neighbours part."""
    n, keys = 12, 6000
    permutations = np.stack([permuted(np.arange(n), n, 7, key) for key in range(keys)])
    counts = np.stack([np.bincount(permutations[:, i], minlength=n) for i in range(n)])
    chi2 = ((counts - keys / n) ** 2 / (keys / n)).sum()
    dof = (n - 1) ** 2
    assert abs(chi2 - dof) < 5 * np.sqrt(2 * dof)
    follows = np.mean(np.diff(permutations, axis=1) == 1)  # i -> j, i + 1 -> j + 1: (n - 1) / n / (n - 1) of the time
    assert abs(follows - 1 / n) < 5 * np.sqrt(1 / n / (keys * (n - 1)))


def test_permutations_of_a_large_range_take_no_memory():
    n = 10**15
    got = permuted(np.arange(5) + 10**14, n, 3)
    assert ((got >= 0) & (got < n)).all()
    assert len(set(got.tolist())) == 5


@pytest.mark.parametrize(("n", "size"), [(1, 1), (10, 3), (3000, 7), (3000, 5000), (CHUNK * 2 + 1, CHUNK), (2500, 1)])
def test_minibatches(n, size):
    matrix = Matrix("V", np.zeros((n + 10, 1)), 1, np.dtype(np.float32), "nv")
    for data in (Data(None, matrix, n), Data(None, matrix, n, 10, (7,))):
        batches = list(data.minibatches(size, seed=5, epoch=2))
        assert [b.number for b in batches] == list(range(1, -(-n // size) + 1))
        assert {len(b.index) for b in batches[:-1]} <= {size}
        together = np.concatenate([b.index for b in batches])
        np.testing.assert_array_equal(np.sort(together), np.arange(n))
        np.testing.assert_array_equal(np.concatenate([b.rows for b in batches]), data.rows(together))
        assert len({b.seed for b in batches}) == len(batches)
        if n > 100:
            other = np.concatenate([b.index for b in data.minibatches(size, seed=5, epoch=3)])
            assert not np.array_equal(together, other)


def test_a_matrix_hands_out_rows(rng):
    X = rng.random((20, 5)) < 0.3
    dense = Matrix("X", X, 5, np.dtype(np.float32), "nx")
    sparse = Matrix("X", scipy.sparse.csr_array(X), 5, np.dtype(np.float32), "nx")
    index = np.array([3, 19, 3, 0])
    np.testing.assert_array_equal(dense.rows(index), X[index])
    rows = sparse.rows(index)
    assert isinstance(rows, SparseRows)
    assert len(rows) == 4
    back = scipy.sparse.csr_array((rows.values, rows.columns, rows.indptr), shape=(4, 5)).toarray()
    np.testing.assert_array_equal(back, X[index])
    assert rows.values.dtype == np.float32


def test_means(rng, dtype):
    """Of the training part alone; dense and sparse, with and without features."""
    X, V = rng.normal(3, 1, (2500, 4)) * (rng.random((2500, 4)) < 0.5), rng.random((2500, 3)) < 0.3
    outputs = Matrix("V", V, 3, dtype, "nv")
    for features in (X, scipy.sparse.csr_array(X)):
        whole = Data(Matrix("X", features, 4, dtype, "nx"), outputs, 2500)
        part = Data(whole.X, outputs, 2000, 100, (1, 0))
        for data, rows in ((whole, np.arange(2500)), (part, part.rows(np.arange(2000)))):
            v, x = data.means()
            assert v.dtype == x.dtype == dtype
            np.testing.assert_allclose(v, V[rows].mean(axis=0), rtol=1e-6)
            np.testing.assert_allclose(x, X[rows].mean(axis=0), rtol=1e-6)
    assert Data(None, outputs, 2500).means()[1].shape == (0,)


def test_checksums_see_the_contents_and_not_the_layout(rng):
    X = rng.integers(0, 9, (3000, 4))
    crc = [Matrix("X", a, 4, np.dtype(np.float32), "nx").checksum() for a in (X, np.asfortranarray(X), X[::-1][::-1])]
    assert crc[0] == crc[1] == crc[2]
    Y = X.copy()
    Y[2999, 3] += 1
    assert Matrix("X", Y, 4, np.dtype(np.float32), "nx").checksum() != crc[0]
