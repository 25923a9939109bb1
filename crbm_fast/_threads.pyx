"""How many OpenMP threads a call may use, also after a fork."""

import os

cdef extern from "sync.h" nogil:
    int crbm_openmp
    int crbm_max_threads()

OPENMP = bool(crbm_openmp)

# GNU OpenMP hangs when a process that has used it forks and the child starts a parallel region.  The child of a
# process that has used threads therefore works with one; the results are the same.
cdef bint _threaded = False
cdef bint _forked = False


def _after_fork():
    global _forked
    _forked = _threaded


os.register_at_fork(after_in_child=_after_fork)


def max_threads():
    """Threads a run may have: what OpenMP says (OMP_NUM_THREADS, threadpoolctl), 1 without it or after a fork."""
    return 1 if _forked else crbm_max_threads()


cdef int allowed(int n_threads) noexcept nogil:
    """Threads that a run which may use n_threads can have in this process."""
    return 1 if _forked or not crbm_openmp else n_threads


cdef void threads_are_used() noexcept nogil:
    """Remember, before threads are started, that this process has used them."""
    global _threaded
    _threaded = True


cdef int team(int n_threads) noexcept:
    """Threads for a run that may use n_threads; more than 1 only if they are going to be started."""
    cdef int n = allowed(n_threads)
    if n > 1:
        threads_are_used()
    return n
