cdef int allowed(int n_threads) noexcept nogil
cdef void threads_are_used() noexcept nogil
cdef int team(int n_threads) noexcept
