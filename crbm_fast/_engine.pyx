"""The engine: validated arrays in, beliefs out, without the GIL.

    Core.run    -> run_messages   sum-product, max-product: a state per edge
                -> run_fields     mixed-product, mean-field, tap: GEMMs over chunks of instances
    Core.gibbs  -> run_fields' chunks and GEMMs, with a draw between
    enumerate_states              the exact method, in blocks, as GEMMs

The iterations themselves are C, csrc/solver.c; this module brings memory, threads, BLAS and the look for signals.

Callers (inference.py) have checked every argument: arrays are C-contiguous, of the engine's dtype and of the
right shape.  A clamped visible unit has the bias +-inf.

Threads.  Work is cut into pieces that do not depend on the number of threads -- instances, groups of CRBM_GROUP
rows, chunks of instances -- and partial sums are added in the order of the pieces, so results have the same
bits for any `n_threads`.  The calling thread is always worker 0; it looks for signals from time to time.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from cython.parallel cimport prange
from libc.math cimport exp, fmax, log
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

cimport cython
cimport numpy as cnp

from crbm_fast._blas cimport gemm
from crbm_fast._ckernels cimport crbm_kernels, crbm_padded, table
from crbm_fast._solver cimport (
    CRBM_GAMMA_EACH, CRBM_GAMMA_NONE, CRBM_GAMMA_SUM, CRBM_MAX_PRODUCT, CRBM_MEAN_FIELD, CRBM_MIXED_PRODUCT,
    CRBM_SUM_PRODUCT, CRBM_TAP, crbm_chunk, crbm_draws, crbm_form_for, crbm_groups, crbm_job, crbm_lay_chunk,
    crbm_lay_slot, crbm_lines, crbm_sample_chunk, crbm_slot, crbm_solve, crbm_solve_chunk, crbm_work_groups,
)
from crbm_fast._threads cimport team as team_of

from crbm_fast._blas import check_size, single_thread

cnp.import_array()

cdef extern from "sync.h" nogil:
    long crbm_take(long *next)
    long crbm_look(long *word)
    void crbm_pause()
    void crbm_raise_flag(int *flag)
    int crbm_flag(int *flag)
    double crbm_now()
    int crbm_team_size()

cdef extern from "memory.h" nogil:
    void *crbm_alloc(size_t bytes)

METHODS = {
    "sum-product": CRBM_SUM_PRODUCT,
    "max-product": CRBM_MAX_PRODUCT,
    "mixed-product": CRBM_MIXED_PRODUCT,
    "mean-field": CRBM_MEAN_FIELD,
    "tap": CRBM_TAP,
}

# Seconds between two looks for Ctrl-C.
cdef double POLL_SECONDS = 0.05

# From this many edges on, even a batch is worked off one RBM after the other, its rows shared by the threads:
# the working set stays that of one RBM, and worker 0 sees every iteration (and so Ctrl-C).
cdef Py_ssize_t LARGE = 1 << 22
# Below this many edges the rows of one RBM are not shared: a sweep takes 150 microseconds, and where another
# process has one of the cores, waiting for that thread takes milliseconds.
cdef Py_ssize_t SMALL = 1 << 19
# Below this many edges in the whole batch one thread does it all, within a millisecond or so: where another process
# has one of the cores, waiting for that thread takes longer than the work.
cdef Py_ssize_t SMALL_MESSAGES = 1 << 18
cdef Py_ssize_t SMALL_FIELDS = 1 << 20


@cython.internal
cdef class Buffer:
    """Aligned memory that only grows; freed with its owner."""
    cdef char *start
    cdef size_t size

    def __dealloc__(self):
        free(self.start)

    cdef char *reserve(self, size_t size) except NULL:
        if size > self.size or self.start == NULL:
            free(self.start)
            self.size = 0
            self.start = <char *> crbm_alloc(size)
            if self.start == NULL:
                raise MemoryError(f"cannot allocate {size / 1e6:.0f} MB for inference")
            self.size = size
        return self.start


cdef inline char *data(object a) except? NULL:
    return NULL if a is None else <char *> cnp.PyArray_DATA(<cnp.ndarray?> a)


# --- what a job borrows: signals, threads, products -------------------------------------------------------------

cdef void poll(crbm_job *job) noexcept nogil:
    """Look for signals now and then; only worker 0, the calling thread, may call this."""
    cdef double now = crbm_now()
    if now < job.next_poll:
        return
    job.next_poll = now + POLL_SECONDS
    with gil:
        try:
            PyErr_CheckSignals()
        except BaseException as e:
            (<Core> <PyObject *> job.lender).interrupt = e
            crbm_raise_flag(&job.cancel)


cdef void finish(crbm_job *job, int worker, int team) noexcept nogil:
    """Wait, as worker 0, for the others, still looking for signals."""
    crbm_take(&job.idle)
    # if OpenMP gave fewer threads, the other workers come after this one
    if worker == 0 and crbm_team_size() == team:
        while crbm_look(&job.idle) < team and not crbm_flag(&job.cancel):
            poll(job)
            crbm_pause()


cdef double share_groups(crbm_job *job, crbm_slot *s, Py_ssize_t n, int team, int task) noexcept nogil:
    """Do `task` for every group of instance n, by `team` threads."""
    cdef:
        int w
        double change = 0
    for w in prange(team, num_threads=team, schedule="static", chunksize=1):
        s.change[w] = crbm_work_groups(job, s, n, w, team, task)
    for w in range(team):
        change = fmax(change, s.change[w])
    return change


cdef void times_W(const crbm_job *job, void *out, const void *v, const void *M, double beta,
                  Py_ssize_t m) noexcept nogil:
    # out = v M + beta out
    # (m, nh) = (m, nv) (nv, nh) + (m, nh)
    gemm(<int> job.item, False, False, m, job.nh, job.nv, v, job.nv, M, job.ldw, beta, out, job.ld)


cdef void times_W_transposed(const crbm_job *job, void *out, const void *h, const void *M,
                             Py_ssize_t m) noexcept nogil:
    # out = h M'
    # (m, nv) = (m, nh) (nh, nv)
    gemm(<int> job.item, False, True, m, job.nv, job.nh, h, job.ld, M, job.ldw, 0, out, job.nv)


# --- what each thread does ----------------------------------------------------------------------------------------

cdef void work_instances(crbm_job *job, crbm_slot *s, int worker, int team) noexcept nogil:
    cdef Py_ssize_t n
    while True:
        n = crbm_take(&job.next)
        if n >= job.N or crbm_flag(&job.cancel):
            break
        crbm_solve(job, s, n, 1, worker == 0)
    finish(job, worker, team)


cdef Py_ssize_t chunk_size(Py_ssize_t N) noexcept nogil:
    """Instances per chunk: a quarter of the batch, at least 20, at most 64.

    GEMMs want many rows (mean field on 100 instances: 20 ms in eighths, 14 ms in quarters), threads many chunks.
    """
    return min(min(<Py_ssize_t> 64, N), max(<Py_ssize_t> 20, (N + 3) // 4))


cdef void work_chunks(crbm_job *job, crbm_draws *d, char *room, int worker, int team) noexcept nogil:
    """Take chunks until none is left: sample them if there is something to draw, else solve them."""
    cdef:
        Py_ssize_t size = chunk_size(job.N), first
        crbm_chunk c
    crbm_lay_chunk(&c, room, job, size)
    while True:
        first = crbm_take(&job.next) * size
        if first >= job.N or crbm_flag(&job.cancel):
            break
        if d != NULL:
            crbm_sample_chunk(job, d, &c, first, min(size, job.N - first), worker == 0)
        else:
            crbm_solve_chunk(job, &c, first, min(size, job.N - first), worker == 0)
    finish(job, worker, team)


# --- moments: Gamma where it is an outer product ------------------------------------------------------------------

cdef void outer_rows(const crbm_job *job, const char *a, const char *b, double beta, Py_ssize_t first) noexcept nogil:
    """Rows first ... of Gamma := a' b + beta Gamma: summed over instances, or instance by instance."""
    cdef Py_ssize_t nv = job.nv, nh = job.nh, item = job.item, n, rows = min(<Py_ssize_t> 64, nv - first)
    if job.gamma_mode == CRBM_GAMMA_SUM:
        # Gamma = a' b
        # (rows, nh) = (rows, N) (N, nh)
        gemm(<int> item, True, False, rows, nh, job.N, a + first * item, nv, b, nh,
             beta, job.gamma + first * nh * item, nh)
        return
    for n in range(job.N):
        gemm(<int> item, False, False, rows, nh, 1, a + (n * nv + first) * item, 1, b + n * nh * item, nh,
             beta, job.gamma + (n * nv + first) * nh * item, nh)


cdef void outer(const crbm_job *job, const char *a, const char *b, double beta, int team) noexcept nogil:
    cdef Py_ssize_t block
    for block in prange((job.nv + 63) // 64, num_threads=team, schedule="static"):
        outer_rows(job, a, b, beta, block * 64)


# --- the class ----------------------------------------------------------------------------------------------------

cdef class Core:
    """Weights, the buffers made from them, and scratch; one run at a time."""

    cdef:
        const crbm_kernels *k
        readonly object W
        readonly Py_ssize_t nv, nh
        readonly int n_threads
        Py_ssize_t ld, item
        double max_weight
        int form                     # what `weight` holds, or -1
        bint has_squares, has_row_sum
        Buffer weight, squares, row_sum, room, state
        object state_key             # method, form and N of what `state` holds
        double state_max             # max |log message| of what `state` holds
        object interrupt

    def __init__(self, W, n_threads):
        self.weight, self.squares, self.row_sum = Buffer(), Buffer(), Buffer()
        self.room, self.state = Buffer(), Buffer()
        self.k = table(W.itemsize)
        self.n_threads = n_threads
        self.update(W)

    def update(self, W):
        """Take new weights: C-contiguous, finite, of this core's dtype."""
        self.W = W
        self.nv, self.nh = W.shape
        self.item = self.k.itemsize
        self.ld = crbm_padded(self.nh, self.item)
        cdef const char *W0 = data(W)
        cdef Py_ssize_t edges = self.nv * self.nh
        with nogil:
            self.max_weight = self.k.max_abs(W0, edges)
        self.form = -1
        self.has_squares = self.has_row_sum = False
        check_size(self.nv, self.ld)

    @property
    def isa(self):
        return self.k.isa.decode()

    cdef int team(self, const crbm_job *job, Py_ssize_t small) noexcept:
        return 1 if job.N * self.nv * self.nh < small else team_of(self.n_threads)

    cdef int prepare(self, crbm_job *job, b1, b2) except -1:
        """Fill in what every run needs."""
        memset(job, 0, sizeof(crbm_job))
        job.k = self.k
        job.N, job.nv, job.nh, job.ld, job.item = b1.shape[0], self.nv, self.nh, self.ld, self.item
        check_size(job.N)
        job.W, job.ldw = data(self.W), self.nh
        job.b1, job.b2 = data(b1), data(b2)
        job.max_weight = self.max_weight
        job.to_h, job.to_v, job.share, job.poll = times_W, times_W_transposed, share_groups, poll
        job.lender = <PyObject *> self
        job.next_poll = crbm_now() + POLL_SECONDS
        self.interrupt = None
        return 0

    cdef int take_weights(self, crbm_job *job) except -1:
        """Make the matrices the method reads, unless they are there."""
        cdef:
            size_t padded = self.nv * self.ld * self.item
            int form = crbm_form_for(job)
            char *p
        job.form = form
        if job.method <= CRBM_MIXED_PRODUCT:
            if self.form != form:
                p = self.weight.reserve(padded)
                self.form = -1
                with nogil:
                    self.k.pad(p, job.W, self.nv, self.nh, self.ld, form)
                self.form = form
            job.weight = self.weight.start
        if job.method == CRBM_MIXED_PRODUCT:
            if not self.has_row_sum:
                self.k.row_sums(self.row_sum.reserve(crbm_lines(self.nv * self.item)), job.W, self.nv, self.nh)
                self.has_row_sum = True
            job.row_sum = self.row_sum.start
        if job.method == CRBM_TAP:
            if not self.has_squares:
                p = self.squares.reserve(crbm_lines(self.nv * self.nh * self.item))
                self.k.squares(p, job.W, self.nv * self.nh)
                self.has_squares = True
            job.squares = self.squares.start
        return 0

    def run(self, method, b1, b2, *, Py_ssize_t max_iter, double tol, double damping, tau_v, tau_h, n_iter, converged,
            residual, log_z=None, gamma=None, bint gamma_sum=False, messages=None, init=None,
            bint visible_first=False, bint warm_start=False):
        """Run `method` on every row of b1, b2 and write the results into the arrays given.

        b1 (N, nv), b2 (N, nh); tau_v (N, nv), tau_h (N, nh), n_iter (N,) int64, converged (N,) bool, residual and
        log_z (N,) float64, gamma (N, nv, nh) or with gamma_sum (nv, nh); messages and init (N, nv, nh) log messages
        for sum-product and max-product, (N, nv + nh) beliefs for the other methods; visible_first: see solver.h.
        """
        cdef crbm_job job
        self.prepare(&job, b1, b2)
        job.method = METHODS[method]
        job.max_iter, job.tol, job.damping = max_iter, tol, damping
        job.tau_v, job.tau_h, job.gamma, job.messages = data(tau_v), data(tau_h), data(gamma), data(messages)
        job.n_iter, job.converged = <int64_t *> data(n_iter), data(converged)
        job.residual, job.log_z = <double *> data(residual), <double *> data(log_z)
        job.init, job.visible_first = data(init), visible_first
        job.gamma_mode = CRBM_GAMMA_NONE if gamma is None else CRBM_GAMMA_SUM if gamma_sum else CRBM_GAMMA_EACH
        if gamma is not None and gamma_sum:
            gamma[...] = 0
        if job.N == 0:
            return
        self.take_weights(&job)
        if job.method <= CRBM_MAX_PRODUCT:
            self.run_messages(&job, warm_start)
            if job.method == CRBM_MAX_PRODUCT and self.interrupt is None and (log_z is not None or gamma is not None):
                with single_thread():
                    self.decode_map(&job)
        else:
            with single_thread():
                self.run_fields(&job, NULL, warm_start)
                if gamma is not None and self.interrupt is None:
                    self.gamma_of_fields(&job)
        self.raise_interrupt()

    cdef int raise_interrupt(self) except -1:
        if self.interrupt is not None:
            error, self.interrupt, self.state_key = self.interrupt, None, None
            raise error
        return 0

    cdef int run_messages(self, crbm_job *job, bint warm_start) except -1:
        cdef:
            int team = self.team(job, SMALL_MESSAGES), w, slots = 1
            Py_ssize_t groups = crbm_groups(job.nv), edges = self.nv * self.nh, n
            size_t size
            bint by_rows
            # else P(v=1 | h=1) may overwrite the messages
            bint own_cond = (job.gamma_mode != CRBM_GAMMA_NONE and job.method == CRBM_SUM_PRODUCT and job.damping == 0
                             and (warm_start or job.messages != NULL or job.log_z != NULL))
            crbm_slot one
            crbm_slot *s
            char *room
        by_rows = edges >= LARGE or (job.N < 4 * team and edges >= SMALL)
        if not by_rows:
            team = min(team, job.N)
            slots = team
        if by_rows and team > groups:
            team = max(1, groups)
        if warm_start:
            key = (job.method, job.form, job.N)
            job.resume = job.init == NULL and self.state_key == key
            if not job.resume:
                self.state_key = None
                self.state.reserve(<size_t> (job.N * self.nv * self.ld * self.item))
            elif self.state_max > job.max_weight:
                job.max_weight = self.state_max     # the weights were larger when the messages were made
            job.state = self.state.start
        size = crbm_lay_slot(&one, NULL, job, team, not warm_start, own_cond)
        room = self.room.reserve(slots * (size + crbm_lines(sizeof(crbm_slot))))
        s = <crbm_slot *> room
        room += slots * crbm_lines(sizeof(crbm_slot))
        for w in range(slots):
            crbm_lay_slot(&s[w], room + w * size, job, team, not warm_start, own_cond)
        if warm_start:
            self.state_key = key
            # damped messages keep a part of what they were
            self.state_max = job.max_weight if job.damping > 0 else self.max_weight
        with nogil:
            if by_rows:
                for n in range(job.N):
                    crbm_solve(job, &s[0], n, team, True)
                    if crbm_flag(&job.cancel):
                        break
            elif team == 1:
                work_instances(job, s, 0, 1)
            else:
                for w in prange(team, num_threads=team, schedule="static", chunksize=1):
                    work_instances(job, &s[w], w, team)
        return 0

    cdef int run_fields(self, crbm_job *job, crbm_draws *d, bint warm_start) except -1:
        cdef:
            Py_ssize_t size = chunk_size(job.N)
            int team = <int> min(<Py_ssize_t> self.team(job, SMALL_FIELDS), (job.N + size - 1) // size), w
            crbm_chunk one
            size_t bytes = crbm_lay_chunk(&one, NULL, job, size)
            char *room = self.room.reserve(team * bytes)
        if warm_start:
            key = (job.method, job.N)
            if job.init == NULL and self.state_key == key:
                job.init = self.state.start
            else:
                self.state_key = None
                self.state.reserve(<size_t> (job.N * (self.nv + self.nh) * self.item))
            job.state = self.state.start
            self.state_key = key
        with nogil:
            if team == 1:
                work_chunks(job, d, room, 0, 1)
            else:
                for w in prange(team, num_threads=team, schedule="static", chunksize=1):
                    work_chunks(job, d, room + w * bytes, w, team)
        return 0

    cdef int gamma_of_fields(self, crbm_job *job) except -1:
        """Gamma = v tau_h' for mixed-product (v decoded), tau_v tau_h' for mean field, plus TAP's correlation."""
        cdef:
            const crbm_kernels *k = self.k
            Py_ssize_t v = job.N * self.nv, h = job.N * self.nh, edges = self.nv * self.nh, n
            char *gamma
            char *a
            char *b
            int team = self.team(job, SMALL_FIELDS)
            size_t bytes = crbm_lines(v * self.item)
            char *room = self.room.reserve(bytes + crbm_lines(h * self.item))
        a, b = room, room + bytes
        with nogil:
            if job.method == CRBM_TAP:
                # Gamma = W o (var_v var_h') + tau_v tau_h'
                k.variance(a, job.tau_v, v)
                k.variance(b, job.tau_h, h)
                outer(job, a, b, 0, team)
                for n in range(1 if job.gamma_mode == CRBM_GAMMA_SUM else job.N):
                    gamma = job.gamma + n * edges * self.item
                    k.multiply(gamma, gamma, job.W, edges)
                outer(job, job.tau_v, job.tau_h, 1, team)
            elif job.method == CRBM_MIXED_PRODUCT:
                k.decode(a, job.tau_v, 0.5, v)
                outer(job, a, job.tau_h, 0, team)
            else:
                outer(job, job.tau_v, job.tau_h, 0, team)
        return 0

    cdef int decode_map(self, crbm_job *job) except -1:
        """Max-product's answer: v from its beliefs, h the best for that v; -E(v, h) and Gamma = v h'."""
        cdef:
            const crbm_kernels *k = self.k
            Py_ssize_t nv = self.nv, nh = self.nh, N = job.N, n
            size_t bytes = crbm_lines(N * nv * self.item)
            char *room = self.room.reserve(bytes + crbm_lines(N * nh * self.item))
            char *v = room
            char *h = room + bytes
            int team = self.team(job, SMALL_FIELDS)
        with nogil:
            k.decode(v, job.tau_v, 0.5, N * nv)
            memcpy(h, job.b2, N * nh * self.item)
            # h = v W + b2
            # (N, nh) = (N, nv) (nv, nh) + (N, nh)
            gemm(<int> self.item, False, False, N, nh, nv, v, nv, job.W, nh, 1, h, nh)
            if job.log_z != NULL:
                for n in range(N):
                    job.log_z[n] = (k.dot_free(job.b1 + n * nv * self.item, v + n * nv * self.item, nv)
                                    + k.relu_sum(h + n * nh * self.item, nh))
            if job.gamma_mode != CRBM_GAMMA_NONE:
                k.decode(h, h, 0, N * nh)
                outer(job, v, h, 0, team)
        return 0

    def gibbs(self, b1, b2, v, h, *, uint64_t seed, uint64_t instance, uint64_t step, Py_ssize_t n_steps,
              theta_h=None):
        """n_steps of blocked Gibbs sampling: v (N, nv) in and out, h (N, nh) out, entries 0 and 1.

        theta_h (N, nh), if given, is b2 + v W and is not computed again.
        """
        cdef:
            crbm_job job
            crbm_draws d
        self.prepare(&job, b1, b2)
        if job.N == 0:
            return
        d.v, d.h, d.theta_h = data(v), data(h), data(theta_h)
        d.seed, d.instance, d.step, d.n_steps = seed, instance, step, n_steps
        with single_thread():
            self.run_fields(&job, &d, False)
        self.raise_interrupt()


# --- exact --------------------------------------------------------------------------------------------------------

def enumerate_states(A, a, b, gamma=None):
    """Sum over all states of the first side of an RBM with weights A (na, nb), biases a (na,), b (nb,), float64.

    Returns log Z, P(first = 1), P(second = 1) and fills gamma (na, nb) with P(both = 1).

    States come in blocks of 2^10 whose fields are one GEMM; sums are kept relative to the largest weight so far.
    """
    cdef:
        const crbm_kernels *k = table(8)
        Py_ssize_t na = A.shape[0], nb = A.shape[1], low = min(na, 10), size = 1 << low, blocks = 1 << (na - low)
        Py_ssize_t block, s, i, j
        double top = -float("inf"), new_top, scale, z = 0, block_z, high_bias
    states = (np.arange(size)[:, None] >> np.arange(low) & 1).astype(np.float64)
    fields, bias = states @ A[:low], states @ a[:low]
    theta, p, w = np.empty((size, nb)), np.zeros((size, nb)), np.empty(size)
    p_a, p_b, block_b = np.zeros(na), np.zeros(nb), np.empty((1, nb))
    base, counts = np.empty(nb), np.empty((1, low))
    weighted, pairs = np.empty((size, low)), np.zeros((na, nb)) if gamma is None else gamma
    pairs[...] = 0
    cdef:
        double[:, ::1] A_ = A, states_ = states, fields_ = fields, theta_ = theta, weighted_ = weighted
        double[:, ::1] pairs_ = pairs, block_b_ = block_b, counts_ = counts
        double[::1] a_ = a, b_ = b, bias_ = bias, w_ = w, p_a_ = p_a, p_b_ = p_b, base_ = base
        bint want_pairs = gamma is not None
        char *theta0 = data(theta)
        char *p0 = data(p)
        char *w0 = data(w)
        char *states0 = data(states)
        char *weighted0 = data(weighted)
        char *pairs0 = data(pairs)
        char *block_b0 = data(block_b)
        char *counts0 = data(counts)
    for block in range(blocks):
        if block % 64 == 0:
            PyErr_CheckSignals()
        with nogil:
            high_bias = 0
            base_[:] = b_
            for i in range(low, na):
                if block >> (i - low) & 1:
                    high_bias += a_[i]
                    for j in range(nb):
                        base_[j] += A_[i, j]
            new_top = top
            for s in range(size):
                for j in range(nb):
                    theta_[s, j] = fields_[s, j] + base_[j]
                # log weight of a state = -F, Eq. 4
                w_[s] = bias_[s] + high_bias + k.softplus_sum(theta0 + s * nb * 8, nb)
                new_top = fmax(new_top, w_[s])
            if new_top > top:
                scale = exp(top - new_top)
                z *= scale
                for i in range(na):
                    p_a_[i] *= scale
                    for j in range(nb):
                        pairs_[i, j] *= scale
                for j in range(nb):
                    p_b_[j] *= scale
                top = new_top
            block_z = 0
            for s in range(size):
                w_[s] = exp(w_[s] - top)
                block_z += w_[s]
                for i in range(low):
                    weighted_[s, i] = w_[s] * states_[s, i]
            z += block_z
            k.logistic_step(p0, theta0, 1, 0, size * nb)
            # E[second] = w' p, E[first] = w' states
            # (1, nb) = (1, size) (size, nb), (1, low) = (1, size) (size, low)
            gemm(8, False, False, 1, nb, size, w0, size, p0, nb, 0, block_b0, nb)
            gemm(8, False, False, 1, low, size, w0, size, states0, low, 0, counts0, low)
            for j in range(nb):
                p_b_[j] += block_b_[0, j]
            for i in range(low):
                p_a_[i] += counts_[0, i]
            if want_pairs:
                # E[first second'] = (w states)' p
                # (low, nb) = (low, size) (size, nb)
                gemm(8, True, False, low, nb, size, weighted0, low, p0, nb, 1, pairs0, nb)
            for i in range(low, na):
                if block >> (i - low) & 1:
                    p_a_[i] += block_z
                    if want_pairs:
                        for j in range(nb):
                            pairs_[i, j] += block_b_[0, j]
    if gamma is not None:
        gamma /= z
    return top + log(z), p_a / z, p_b / z
