cdef int team(int n_threads) noexcept
