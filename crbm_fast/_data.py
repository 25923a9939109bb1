"""Rows of features and outputs, converted batch by batch: arrays, memory maps, CSR matrices of any real dtype.

Table    one matrix, checked once, handed out as float rows
Data     X and V side by side, in an order drawn from a seed
affine, outer    the two products with features that learning needs, dense or sparse
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

# Rows looked at together in passes over all the data; a chunk of 1000 features is 4 MB.
CHUNK = 1024


@dataclass(frozen=True, slots=True)
class SparseRows:
    """A few rows in CSR: what _algebra takes."""

    values: NDArray[Any]
    columns: NDArray[np.intp]
    starts: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.starts) - 1


Rows = NDArray[Any] | SparseRows


class Table:
    """N rows of `width` real numbers.  The whole is never copied; `rows` converts what it is asked for.

    Parameters
    ----------
    name : str
        The argument's name, for messages.
    data : array-like, memmap or scipy.sparse matrix
    width : int
        Number of columns expected.
    dtype : float32 or float64
        What `rows` returns.
    what : str
        What the width is, for messages.
    """

    def __init__(self, name: str, data: Any, width: int, dtype: np.dtype[Any], what: str) -> None:
        self.name, self.dtype = name, dtype
        if scipy.sparse.issparse(data):
            if data.dtype.kind not in "fiub":
                raise TypeError(f"{name} has dtype {data.dtype}; expected real numbers")
            csr = data.tocsr()
            # a wrapper of its own: the check may tidy up what it looks at
            self.data = scipy.sparse.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)
            self.data.check_format(full_check=True)
        else:
            self.data = check.as_numeric(name, data)
        if self.data.ndim != 2 or self.data.shape[1] != width:
            shape = self.data.shape
            raise ValueError(f"{name} has shape {shape}; expected (N, {width}), as the model has {what}={width}")

    @property
    def sparse(self) -> bool:
        return not isinstance(self.data, np.ndarray)

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @property
    def width(self) -> int:
        return int(self.data.shape[1])

    def rows(self, index: Any) -> Rows:
        """The rows of an index array or slice, in `dtype`."""
        part = self.data[index]
        with np.errstate(all="ignore"):  # check_finite says it, with the place
            if not self.sparse:
                return np.require(part, self.dtype, ["C", "A"])
            return SparseRows(part.data.astype(self.dtype), part.indices.astype(np.intp), part.indptr.astype(np.intp))

    def chunks(self) -> Iterator[slice]:
        """Slices that cover all rows."""
        return chunks(len(self))

    def check_finite(self) -> None:
        """Raise ValueError at the first NaN, infinity or number beyond what float sums can take."""
        if self.data.dtype.kind in "iub":
            return
        for part in self.chunks():
            rows = self.rows(part)
            values = rows.values if isinstance(rows, SparseRows) else rows
            at = check.beyond(values)
            if at < 0:
                continue
            if isinstance(rows, SparseRows):
                row, column = int(np.searchsorted(rows.starts, at, "right")) - 1, int(rows.columns[at])
            else:
                row, column = divmod(at, values.shape[1])
            row += part.start
            given, limit = self.data[row, column], check.LIMITS[self.dtype]
            expected = f"at most {limit:g} in {self.dtype}" if np.isfinite(given) else "finite; remove or impute it"
            raise ValueError(f"{self.name}[{row}, {column}] = {given}; expected {expected}")

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

    def _check_entries(self, right: Callable[[Any], Any], expected: str) -> None:
        self.check_dense()
        if self.data.dtype == np.bool_:
            return
        for part in self.chunks():
            rows = self.data[part]
            wrong = ~right(rows)
            if wrong.any():
                r, c = np.argwhere(wrong)[0]
                raise ValueError(f"{self.name}[{part.start + r}, {c}] = {rows[r, c]}; expected {expected}")

    def checksum(self, crc: int = 0) -> int:
        """CRC-32 of the contents, whatever the memory layout."""
        for part in self.chunks():
            rows = self.data[part]
            for array in (rows,) if not self.sparse else (rows.data, rows.indices, rows.indptr):
                crc = zlib.crc32(np.ascontiguousarray(array).data.cast("B"), crc)
        return crc


def chunks(N: int) -> Iterator[slice]:
    """Slices of at most CHUNK that cover range(N)."""
    for start in range(0, N, CHUNK):
        yield slice(start, min(start + CHUNK, N))


def affine(X: Rows, W: NDArray[Any], b: NDArray[Any], n_threads: int) -> NDArray[Any]:
    """b + X W', (N, n) = (N, k) (k, n)."""
    out = np.empty((len(X), len(b)), b.dtype)
    out[...] = b
    if isinstance(X, SparseRows):
        _algebra.csr_product(out, X.values, X.columns, X.starts, W, n_threads=n_threads)
    else:
        _algebra.product(out, X, W, transpose_b=True, beta=1, n_threads=n_threads)
    return out


def outer(D: NDArray[Any], X: Rows, out: NDArray[Any], n_threads: int) -> None:
    """out := D' X, (n, k) = (n, N) (N, k)."""
    if isinstance(X, SparseRows):
        _algebra.csr_outer(out, D, X.values, X.columns, X.starts, n_threads=n_threads)
    else:
        _algebra.product(out, D, X, transpose_a=True, n_threads=n_threads)


def permuted(index: NDArray[np.int64], n: int, *key: int) -> NDArray[np.int64]:
    """Where a random permutation of range(n) sends `index`; the permutation depends on the key alone.

    A Feistel network on the smallest square power of two that holds n, applied again to what falls outside
    (Black & Rogaway, CT-RSA 2002).  Unlike a stored permutation it takes no memory, however large n, and any batch
    of any epoch can be found again without those before it.
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
    """Which pairs come together: a number from 1, their indices, their rows, and a seed for random draws."""

    number: int
    index: NDArray[np.int64]
    rows: NDArray[np.int64]
    seed: int


@dataclass(frozen=True)
class Data:
    """Features and outputs side by side: N pairs of rows.

    Attributes
    ----------
    X : Table or None
        Features; None for a plain RBM.
    V : Table
        Outputs.
    size : int
        Number of pairs.
    first, key
        Pair i is row `permuted(first + i, len(V), *key)` of the tables, or row i without a key: two `Data` may share
        tables, as training and validation part.
    """

    X: Table | None
    V: Table
    size: int
    first: int = 0
    key: tuple[int, ...] | None = None

    def rows(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows in the tables of the pairs `at`."""
        return at if self.key is None else permuted(self.first + at, len(self.V), *self.key)

    def take(self, rows: NDArray[np.int64]) -> tuple[Rows | None, NDArray[Any]]:
        """Features and outputs of rows of the tables."""
        V = self.V.rows(rows)
        assert not isinstance(V, SparseRows)
        return None if self.X is None else self.X.rows(rows), V

    def means(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means of the outputs and of the features, (nv,) and (nx,), summed in float64."""
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
        """All pairs once, in an order drawn from (seed, epoch)."""
        block = size * -(-CHUNK // size)  # many batches at once: a small one costs NumPy as much as a large one
        for start in range(0, self.size, block):
            index = permuted(np.arange(start, min(start + block, self.size)), self.size, seed, epoch)
            rows = self.rows(index)
            draws = np.random.SeedSequence((seed, epoch, start, 1)).generate_state(block // size, np.uint64)
            for i, first in enumerate(range(0, len(index), size)):
                part = slice(first, first + size)
                yield Minibatch(start // size + i + 1, index[part], rows[part], int(draws[i]))
