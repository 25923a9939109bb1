cdef void gemm(int itemsize, bint trans_a, bint trans_b, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
               const void *A, Py_ssize_t lda, const void *B, Py_ssize_t ldb,
               double beta, void *C, Py_ssize_t ldc) noexcept nogil
