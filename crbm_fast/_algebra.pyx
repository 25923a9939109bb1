"""What learning computes between two inferences: products of matrices, sums over rows, steps of the parameters.

Callers have checked every argument: arrays are C-contiguous, of one dtype (float32 or float64) and of the right
shape; the indices of a sparse matrix are in range.

Threads.  Each result is cut into pieces that depend on its shape alone; a piece is one call of BLAS or of a kernel,
and sums over pieces are taken in their order.  Results have the same bits for any `n_threads`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t

import numpy as np

cimport numpy as cnp

from crbm_fast._blas cimport gemm
from crbm_fast._ckernels cimport crbm_kernels, table
from crbm_fast._threads cimport team

from crbm_fast._blas import check_size, single_thread

cnp.import_array()

ctypedef fused real:
    float
    double

# Elements per piece of a vector: 256 kB of float, so that four arrays of a step stay in a second-level cache.
cdef Py_ssize_t PIECE = 1 << 16
# Multiply-adds below which starting threads (10 microseconds) costs more than it gives.
cdef Py_ssize_t SMALL = 1 << 18
# Share of nonzeros below which adding up rows beats BLAS.
cdef double SPARSE = 0.5


cdef inline char *data(object a) except? NULL:
    return <char *> cnp.PyArray_DATA(<cnp.ndarray?> a)


cdef inline Py_ssize_t tile(Py_ssize_t n) noexcept nogil:
    """Width of the pieces a side of n is cut into: about 12 of them, whole vectors, none narrower than 48."""
    return max(<Py_ssize_t> 48, (n + 11) // 12 + 15) // 16 * 16


def product(out, A, B, *, bint transpose_a=False, bint transpose_b=False, double beta=0, int n_threads=1):
    """out := op(A) op(B) + beta out, (m, n) = (m, k) (k, n); op transposes or not."""
    cdef:
        Py_ssize_t m = out.shape[0], n = out.shape[1], k = A.shape[0] if transpose_a else A.shape[1]
        Py_ssize_t lda = A.shape[1], ldb = B.shape[1], rows, columns, across, pieces, p, i, j
        int item = out.itemsize, threads
        char *C = data(out)
        const char *A0 = data(A)
        const char *B0 = data(B)
    check_size(m, n, k)
    if m == 0 or n == 0:
        return
    if not transpose_b and k < 1 << 31 and nonzeros(A) < SPARSE * A.size:
        sparse_product(out, A, B, transpose_a, beta, n_threads)
        return
    # the longer side is cut: the other operand is packed anew for each piece
    rows, columns = (tile(m), n) if m >= n else (m, tile(n))
    across = (n + columns - 1) // columns
    pieces = (m + rows - 1) // rows * across
    threads = 1 if m * n * k < SMALL else team(<int> min(<Py_ssize_t> n_threads, pieces))
    with single_thread(), nogil:
        for p in prange(pieces, num_threads=threads, schedule="static", chunksize=1):
            i, j = p // across * rows, p % across * columns
            gemm(item, transpose_a, transpose_b, min(rows, m - i), min(columns, n - j), k,
                 A0 + (i if transpose_a else i * lda) * item, lda, B0 + (j * ldb if transpose_b else j) * item, ldb,
                 beta, C + (i * n + j) * item, n)


cdef Py_ssize_t nonzeros(A) except -1:
    cdef:
        const crbm_kernels *k = table(A.itemsize)
        const char *A0 = data(A)
        Py_ssize_t size = A.size, count
    with nogil:
        count = k.nonzeros(A0, size)
    return count


cdef int sparse_product(out, A, B, bint transpose_a, double beta, int n_threads) except -1:
    """`product` row by row, from the nonzeros of op(A) alone."""
    cdef:
        const crbm_kernels *kernels = table(out.itemsize)
        Py_ssize_t m = out.shape[0], n = out.shape[1], k = B.shape[0], item = kernels.itemsize
        Py_ssize_t step = item if transpose_a else A.shape[1] * item, stride = A.shape[1] if transpose_a else 1
        Py_ssize_t first, last, r, w
        int threads = 1 if m * n * k < SMALL else team(<int> min(<Py_ssize_t> n_threads, m))
        char *C = data(out)
        const char *A0 = data(A)
        const char *B0 = data(B)
        char *values
        int32_t *index
    scratch = np.empty((threads, k), out.dtype), np.empty((threads, k), np.int32)
    values, index = data(scratch[0]), <int32_t *> data(scratch[1])
    for w in prange(threads, nogil=True, num_threads=threads, schedule="static", chunksize=1):
        first, last = w * m // threads, (w + 1) * m // threads
        for r in range(first, last):
            kernels.combine_rows(C + r * n * item, A0 + r * step, stride, B0, n, beta, values + w * k * item,
                                 index + w * k, k, n)
    return 0


def csr_product(real[:, ::1] out, const real[::1] values, const Py_ssize_t[::1] columns, const Py_ssize_t[::1] starts,
                const real[:, ::1] W, *, int n_threads=1):
    """out += X W', (N, n) = (N, k) (k, n), for X (N, k) in CSR."""
    cdef:
        Py_ssize_t N = out.shape[0], n = out.shape[1], r, i, e
        int threads = 1 if values.shape[0] * n < SMALL else team(n_threads)
        real sum
    for r in prange(N, nogil=True, num_threads=threads, schedule="static"):
        for i in range(n):
            sum = 0
            for e in range(starts[r], starts[r + 1]):
                sum = sum + values[e] * W[i, columns[e]]
            out[r, i] += sum


def csr_outer(real[:, ::1] out, const real[:, ::1] D, const real[::1] values, const Py_ssize_t[::1] columns,
              const Py_ssize_t[::1] starts, *, int n_threads=1):
    """out := D' X, (n, k) = (n, N) (N, k), for X (N, k) in CSR."""
    cdef:
        Py_ssize_t n = out.shape[0], N = D.shape[0], r, i, e
        int threads = 1 if values.shape[0] * n < SMALL else team(n_threads)
    for i in prange(n, nogil=True, num_threads=threads, schedule="static"):
        out[i, :] = 0
        for r in range(N):
            for e in range(starts[r], starts[r + 1]):
                out[i, columns[e]] += D[r, i] * values[e]


def logistic(theta):
    """theta := 1 / (1 + exp(-theta)), in place."""
    cdef:
        const crbm_kernels *k = table(theta.itemsize)
        Py_ssize_t n = theta.size
        char *p = data(theta)
    with nogil:
        k.logistic_step(p, p, 1, 0, n)


def softplus_sums(theta):
    """sum_j log(1 + exp(theta_nj)) of each row, (N,) float64."""
    cdef:
        const crbm_kernels *k = table(theta.itemsize)
        Py_ssize_t N = theta.shape[0], row = theta.shape[1], r
        char *p = data(theta)
        double[::1] sums
    out = np.empty(N)
    sums = out
    with nogil:
        for r in range(N):
            sums[r] = k.softplus_sum(p + r * row * k.itemsize, row)
    return out


# --- steps of the parameters --------------------------------------------------------------------------------------

cdef inline Py_ssize_t piece_size(Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    return min(PIECE, n - i * PIECE)


def sum_squares(x, *, int n_threads=1):
    """sum of x^2 over all elements, in float64."""
    cdef:
        const crbm_kernels *k = table(x.itemsize)
        Py_ssize_t n = x.size, pieces = (n + PIECE - 1) // PIECE, stride = PIECE * k.itemsize, i
        int threads = team(<int> max(<Py_ssize_t> 1, min(<Py_ssize_t> n_threads, pieces)))
        char *x0 = data(x)
        double[::1] part = np.empty(pieces)
        double total = 0
    for i in prange(pieces, nogil=True, num_threads=threads, schedule="static", chunksize=1):
        part[i] = k.sum_squares(x0 + i * stride, piece_size(i, n))
    for i in range(pieces):
        total += part[i]
    return total


cdef summary(double[::1] change, double[::1] squares):
    cdef:
        double most = 0, total = 0
        Py_ssize_t i
    for i in range(change.shape[0]):
        most = max(most, change[i])
        total += squares[i]
    return most, total


def momentum_step(p, velocity, g, *, double rate, double momentum, double decay, int n_threads=1):
    """See csrc/kernels/optimizers.h; `velocity` may be None without momentum.

    Returns the largest |change| and |g'|^2.
    """
    cdef:
        const crbm_kernels *k = table(p.itemsize)
        Py_ssize_t n = p.size, pieces = (n + PIECE - 1) // PIECE, stride = PIECE * k.itemsize, i
        int threads = team(<int> max(<Py_ssize_t> 1, min(<Py_ssize_t> n_threads, pieces)))
        char *p0 = data(p)
        char *v0 = NULL if velocity is None else data(velocity)
        const char *g0 = data(g)
        double[::1] change = np.empty(pieces), squares = np.empty(pieces)
    for i in prange(pieces, nogil=True, num_threads=threads, schedule="static", chunksize=1):
        change[i] = k.momentum_step(p0 + i * stride, NULL if v0 == NULL else v0 + i * stride, g0 + i * stride,
                                    rate, momentum, decay, &squares[i], piece_size(i, n))
    return summary(change, squares)


def adam_step(p, m, s, g, *, double rate, double beta1, double beta2, double epsilon, double decay,
              int n_threads=1):
    """See csrc/kernels/optimizers.h.  Returns the largest |change| and |g'|^2."""
    cdef:
        const crbm_kernels *k = table(p.itemsize)
        Py_ssize_t n = p.size, pieces = (n + PIECE - 1) // PIECE, stride = PIECE * k.itemsize, i
        int threads = team(<int> max(<Py_ssize_t> 1, min(<Py_ssize_t> n_threads, pieces)))
        char *p0 = data(p)
        char *m0 = data(m)
        char *s0 = data(s)
        const char *g0 = data(g)
        double[::1] change = np.empty(pieces), squares = np.empty(pieces)
    for i in prange(pieces, nogil=True, num_threads=threads, schedule="static", chunksize=1):
        change[i] = k.adam_step(p0 + i * stride, m0 + i * stride, s0 + i * stride, g0 + i * stride,
                                rate, beta1, beta2, epsilon, decay, &squares[i], piece_size(i, n))
    return summary(change, squares)
