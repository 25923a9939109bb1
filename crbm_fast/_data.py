"""Features and outputs, converted batch by batch from arrays, memory maps and CSR matrices of any real dtype.

Matrix           one matrix of the user's, checked once and handed out as rows of floats
Data             X and V side by side, in an order that is drawn from a seed
affine, outer    the two products with features that learning needs, for dense and for sparse rows
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._errors import EntryError

# Number of rows that a pass over all the data converts at a time; with 1000 features they take 4 MB.
CHUNK = 1024


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Some rows of a sparse matrix in CSR format, in the types that `_algebra` takes."""

    values: NDArray[Any]
    columns: NDArray[np.intp]
    indptr: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.indptr) - 1


Rows = NDArray[Any] | SparseRows


class Matrix:
    """A matrix that a user passed, (N, width).  It is never copied as a whole: `rows` converts what is asked for.

    Parameters
    ----------
    name : str
        The name of the user's argument, for messages.
    data : array-like, memmap or scipy.sparse matrix
    width : int
        The number of columns that is expected.
    dtype : float32 or float64
        The type of what `rows` returns.
    size_name : str
        The name of the model's size that `width` is, "nv", "nh" or "nx", for messages.
    """

    def __init__(self, name: str, data: Any, width: int, dtype: np.dtype[Any], size_name: str) -> None:
        self.name, self.dtype = name, dtype
        if scipy.sparse.issparse(data):
            if data.dtype.kind not in "fiub":
                raise TypeError(f"{name} has dtype {data.dtype}; expected real numbers")
            csr = data.tocsr()
            # check_format may sort and merge entries in place, so it gets a matrix object of its own
            self.data = scipy.sparse.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)
            self.data.check_format(full_check=True)
        else:
            self.data = check.as_numeric(name, data)
        if self.data.ndim != 2 or self.data.shape[1] != width:
            shape = self.data.shape
            raise ValueError(f"{name} has shape {shape}; expected (N, {width}), as the model has {size_name}={width}")

    @property
    def sparse(self) -> bool:
        """Whether `rows` returns SparseRows."""
        return not isinstance(self.data, np.ndarray)

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.data.shape[1])

    def rows(self, index: Any) -> Rows:
        """The rows at an index array or slice, converted to `dtype`; dense ones are C-contiguous."""
        part = self.data[index]
        with np.errstate(all="ignore"):  # check_finite reports an overflow, and where it is
            if not self.sparse:
                return np.require(part, self.dtype, ["C", "A"])
            return SparseRows(part.data.astype(self.dtype), part.indices.astype(np.intp), part.indptr.astype(np.intp))

    def chunks(self) -> Iterator[slice]:
        """Slices that cover all rows, in order."""
        return chunks(len(self))

    def check_finite(self) -> None:
        """Raise ValueError at the first NaN, infinity or number so large that sums may overflow."""
        if self.data.dtype.kind in "iub":
            return
        for part in self.chunks():
            rows = self.rows(part)
            values = rows.values if isinstance(rows, SparseRows) else rows
            at = check.beyond(values)
            if at < 0:
                continue
            if isinstance(rows, SparseRows):
                row, column = int(np.searchsorted(rows.indptr, at, "right")) - 1, int(rows.columns[at])
            else:
                row, column = divmod(at, values.shape[1])
            row += part.start
            given, limit = self.data[row, column], check.LIMITS[self.dtype]
            expected = f"at most {limit:g} in {self.dtype}" if np.isfinite(given) else "finite; remove or impute it"
            raise EntryError(self.name, (row, column), given, expected)

    def check_dense(self) -> None:
        """Raise TypeError for a sparse matrix."""
        if self.sparse:
            raise TypeError(f"{self.name} is a sparse matrix; pass {self.name}.toarray()")

    def check_probabilities(self) -> None:
        """Raise ValueError at the first entry outside [0, 1]."""
        self._check_entries(lambda rows: (rows >= 0) & (rows <= 1), "a number in [0, 1]")

    def check_states(self) -> None:
        """Raise ValueError at the first entry that is neither 0 nor 1."""
        self._check_entries(lambda rows: (rows == 0) | (rows == 1), "0 or 1 (threshold grey values, binarise labels)")

    def _check_entries(self, is_valid: Callable[[Any], Any], expected: str) -> None:
        self.check_dense()
        if self.data.dtype == np.bool_:
            return
        for part in self.chunks():
            rows = self.data[part]
            wrong = ~is_valid(rows)
            if wrong.any():
                r, c = np.argwhere(wrong)[0]
                raise EntryError(self.name, (part.start + int(r), int(c)), rows[r, c], expected)

    def checksum(self, crc: int = 0) -> int:
        """CRC-32 of the contents, which does not depend on the memory layout; `crc` is that of what came before."""
        for part in self.chunks():
            rows = self.data[part]
            for array in (rows,) if not self.sparse else (rows.data, rows.indices, rows.indptr):
                crc = zlib.crc32(np.ascontiguousarray(array).data.cast("B"), crc)
        return crc


def chunks(N: int) -> Iterator[slice]:
    """Slices of at most CHUNK rows that cover range(N)."""
    for start in range(0, N, CHUNK):
        yield slice(start, min(start + CHUNK, N))


def affine(X: Rows, W: NDArray[Any], b: NDArray[Any], n_threads: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """b + X W', (N, n) = (N, k) (k, n), written into `out`.  Unchecked."""
    if out is None:
        out = np.empty((len(X), len(b)), b.dtype)
    out[...] = b
    if isinstance(X, SparseRows):
        _algebra.csr_product(out, X.values, X.columns, X.indptr, W, n_threads=n_threads)
    else:
        _algebra.product(out, X, W, transpose_b=True, beta=1, n_threads=n_threads)
    return out


def outer(D: NDArray[Any], X: Rows, out: NDArray[Any], n_threads: int) -> None:
    """out := D' X, (n, k) = (n, N) (N, k).  Unchecked."""
    if isinstance(X, SparseRows):
        _algebra.csr_outer(out, D, X.values, X.columns, X.indptr, n_threads=n_threads)
    else:
        _algebra.product(out, D, X, transpose_a=True, n_threads=n_threads)


def permuted(index: NDArray[np.int64], n: int, *key: int) -> NDArray[np.int64]:
    """The values of a random permutation of range(n) at `index`; the permutation depends on `key` alone.

    It is a Feistel network on the smallest power of four that is at least n, applied again to values that fall
    outside range(n) (Black & Rogaway, CT-RSA 2002).  Unlike a stored permutation it takes no memory, however large n
    is, and any batch of any epoch can be computed without those before it.
    """
    half = np.uint64(max(1, ((max(n, 2) - 1).bit_length() + 1) // 2))
    mask = np.uint64((1 << int(half)) - 1)
    keys = np.random.SeedSequence(key).generate_state(6, np.uint64)
    x = np.array(index, np.uint64)
    outside = np.arange(x.size)
    while outside.size:
        left, right = x[outside] >> half, x[outside] & mask
        for k in keys:
            left, right = right, left ^ (_mix(right ^ k) & mask)
        x[outside] = left << half | right
        outside = outside[x[outside] >= n]
    return x.astype(np.int64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Which pairs of features and outputs a minibatch consists of.

    Attributes
    ----------
    number : int
        The minibatch's number within the epoch, from 1.
    index : (n,) int64
        The indices of its pairs in `Data`.
    rows : (n,) int64
        The rows of the matrices in which these pairs are.
    seed : int
        The seed of the random numbers that its gradient takes.
    """

    number: int
    index: NDArray[np.int64]
    rows: NDArray[np.int64]
    seed: int


@dataclass(frozen=True)
class Data:
    """Features and outputs side by side: N pairs of rows.

    Attributes
    ----------
    X : Matrix or None
        Features; None for a model without features.
    V : Matrix
        Outputs.
    size : int
        Number of pairs.
    first : int
    key : tuple of int or None
        Pair i is row `permuted(first + i, len(V), *key)` of both matrices, or row i where the key is None.  So the
        training and the validation part can share the matrices that they were cut from.
    """

    X: Matrix | None
    V: Matrix
    size: int
    first: int = 0
    key: tuple[int, ...] | None = None

    def rows(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the matrices in which the pairs `at` are."""
        return at if self.key is None else permuted(self.first + at, len(self.V), *self.key)

    def take(self, rows: NDArray[np.int64]) -> tuple[Rows | None, NDArray[Any]]:
        """Features and outputs of the given rows of the matrices, converted."""
        V = self.V.rows(rows)
        assert not isinstance(V, SparseRows)
        return None if self.X is None else self.X.rows(rows), V

    def means(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means of the outputs (nv,) and of the features (nx,) over all pairs, summed in float64."""
        v, x = np.zeros(self.V.width), np.zeros(0 if self.X is None else self.X.width)
        for part in chunks(self.size):
            X, V = self.take(self.rows(np.arange(part.start, part.stop)))
            v += V.sum(axis=0, dtype=np.float64)
            if isinstance(X, SparseRows):
                x += np.bincount(X.columns, X.values, len(x))
            elif X is not None:
                x += X.sum(axis=0, dtype=np.float64)
        return (v / self.size).astype(self.V.dtype), (x / self.size).astype(self.V.dtype)

    def minibatches(self, size: int, seed: int, epoch: int) -> Iterator[Minibatch]:
        """All pairs once, in minibatches of `size`, in an order that is drawn from (seed, epoch)."""
        # Many minibatches are drawn at once: for a small one NumPy takes as long as for a large one.
        block = size * -(-CHUNK // size)
        for start in range(0, self.size, block):
            index = permuted(np.arange(start, min(start + block, self.size)), self.size, seed, epoch)
            rows = self.rows(index)
            draws = np.random.SeedSequence((seed, epoch, start, 1)).generate_state(block // size, np.uint64)
            for i, first in enumerate(range(0, len(index), size)):
                part = slice(first, first + size)
                yield Minibatch(start // size + i + 1, index[part], rows[part], int(draws[i]))
