"""The engine: validated arrays in, beliefs out, without the GIL.

Core runs the solver (csrc/solver.c) on NumPy's arrays.  The methods themselves are C; this module is their host: it
brings memory, threads, BLAS and Python's signals.

Callers (crbm_fast.inference) have checked every argument: arrays are C-contiguous, of the engine's dtype and of the
right shape.  A clamped visible unit has the bias +-inf.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

cimport cython
cimport numpy as cnp

from crbm_fast._blas cimport gemm
from crbm_fast._ckernels cimport crbm_kernels, crbm_padded, table
from crbm_fast._solver cimport (
    CRBM_GAMMA_EACH, CRBM_GAMMA_NONE, CRBM_GAMMA_SUM, CRBM_N_METHODS, CRBM_NEEDS_ROW_SUM, CRBM_NEEDS_SQUARES,
    CRBM_NEEDS_WEIGHT, CRBM_STATE_EDGES, crbm_draws, crbm_run, crbm_solver, crbm_solver_for,
)
from crbm_fast._threads cimport allowed, threads_are_used

from crbm_fast._blas import check_size, single_thread

cnp.import_array()

cdef extern from "sync.h" nogil:
    void crbm_raise_flag(int *flag)
    double crbm_now()
    int crbm_team_size()

cdef extern from "memory.h" nogil:
    void *crbm_alloc(size_t bytes)

# The methods of the solver: {name: number}.
METHOD_NUMBERS = {(<bytes> crbm_solver_for(8).methods[i].name).decode(): i for i in range(CRBM_N_METHODS)}

# Seconds between two looks for Ctrl-C.
cdef double POLL_SECONDS = 0.05


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


# --- the host of a run: signals, threads, products ----------------------------------------------------------------

cdef void poll(crbm_run *run) noexcept nogil:
    """Check for signals now and then; only the calling thread may call this."""
    cdef double now = crbm_now()
    if now < run.next_poll:
        return
    run.next_poll = now + POLL_SECONDS
    with gil:
        try:
            PyErr_CheckSignals()
        except BaseException as e:
            (<Core> <PyObject *> run.host.context).interrupt = e
            crbm_raise_flag(&run.cancel)


cdef void in_parallel(void (*task)(void *, int, int) noexcept nogil, void *argument, int count) noexcept nogil:
    cdef int i
    threads_are_used()
    for i in prange(count, num_threads=count, schedule="static", chunksize=1):
        task(argument, i, crbm_team_size())


cdef void product(const crbm_run *run, int transpose_a, int transpose_b, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
                  const void *A, Py_ssize_t lda, const void *B, Py_ssize_t ldb, double beta, void *C,
                  Py_ssize_t ldc) noexcept nogil:
    gemm(run.problem.k.itemsize, transpose_a, transpose_b, m, n, k, A, lda, B, ldb, beta, C, ldc)


# --- the class ----------------------------------------------------------------------------------------------------

cdef class Core:
    """Weights, the matrices made from them, and scratch; one run at a time."""

    cdef:
        const crbm_kernels *k
        const crbm_solver *solver
        readonly object W
        readonly Py_ssize_t nv, nh
        readonly int n_threads
        Py_ssize_t ld
        double max_weight
        dict made                    # {(need, form): Buffer} of what is made from W
        set current                  # those made from the W of now
        Buffer room, state
        object state_key             # method, form and N of what `state` holds
        double state_max             # max |log message| of what `state` holds
        object interrupt

    def __init__(self, W, n_threads):
        self.made, self.current = {}, set()
        self.room, self.state = Buffer(), Buffer()
        self.k = table(W.itemsize)
        self.solver = crbm_solver_for(W.itemsize)
        self.n_threads = n_threads
        self.update(W)

    def update(self, W):
        """Take new weights: C-contiguous, finite, of this core's dtype."""
        self.W = W
        self.nv, self.nh = W.shape
        self.ld = crbm_padded(self.nh, self.k.itemsize)
        cdef const char *W0 = data(W)
        cdef Py_ssize_t edges = self.nv * self.nh
        with nogil:
            self.max_weight = self.k.max_abs(W0, edges)
        self.current.clear()
        check_size(self.nv, self.ld)

    @property
    def isa(self):
        return self.k.isa.decode()

    def run(self, method, b1, b2, Py_ssize_t max_iter, double tol, double damping, *, tau_v, tau_h, n_iter, converged,
            residual, log_z=None, gamma=None, bint gamma_sum=False, bint gamma_add=False, messages=None, init=None,
            bint visible_first=False, bint warm_start=False, bint defer=False):
        """Run `method` on every row of b1, b2 and write the results into the arrays given.

        b1 (N, nv), b2 (N, nh); tau_v (N, nv), tau_h (N, nh), n_iter (N,) int64, converged (N,) bool, residual and
        log_z (N,) float64, gamma (N, nv, nh) or with gamma_sum (nv, nh); messages and init (N, nv, nh) log messages
        or (N, nv + nh) beliefs, as the method has them; gamma_add: the sum is added to what `gamma` holds;
        visible_first, defer: see solver.h.
        """
        cdef:
            crbm_run run
            char *room
        self.begin(&run, b1, b2)
        run.method = self.solver.methods[<int> METHOD_NUMBERS[method]]
        run.options.max_iter, run.options.tol, run.options.damping = max_iter, tol, damping
        run.options.init, run.options.visible_first, run.options.defer = data(init), visible_first, defer
        run.options.gamma = CRBM_GAMMA_NONE if gamma is None else CRBM_GAMMA_SUM if gamma_sum else CRBM_GAMMA_EACH
        run.results.tau_v, run.results.tau_h = data(tau_v), data(tau_h)
        run.results.n_iter, run.results.converged = <int64_t *> data(n_iter), data(converged)
        run.results.residual, run.results.log_z = <double *> data(residual), <double *> data(log_z)
        run.results.gamma, run.results.messages = data(gamma), data(messages)
        if gamma is not None and gamma_sum and not gamma_add:
            gamma[...] = 0
        if run.problem.N == 0:
            return
        self.take_weights(&run)
        if warm_start:
            self.take_state(&run)
        room = self.room.reserve(self.solver.workspace(&run))
        if self.solver.uses_products(&run):
            with single_thread(), nogil:
                self.solver.solve(&run, room)
        else:
            with nogil:
                self.solver.solve(&run, room)
        self.raise_interrupt()

    def gibbs(self, b1, b2, v, h, *, uint64_t seed, uint64_t instance, uint64_t step, Py_ssize_t n_steps,
              theta_h=None):
        """n_steps of blocked Gibbs sampling: v (N, nv) in and out, h (N, nh) out, entries 0 and 1.

        theta_h (N, nh), if given, is b2 + v W and is not computed again.
        """
        cdef:
            crbm_run run
            crbm_draws draws
            char *room
        self.begin(&run, b1, b2)
        if run.problem.N == 0:
            return
        draws.v, draws.h, draws.theta_h = data(v), data(h), data(theta_h)
        draws.seed, draws.instance, draws.step, draws.n_steps = seed, instance, step, n_steps
        room = self.room.reserve(self.solver.sampling_workspace(&run))
        with single_thread(), nogil:
            self.solver.sample(&run, &draws, room)
        self.raise_interrupt()

    cdef int begin(self, crbm_run *run, b1, b2) except -1:
        """Fill in what every run needs."""
        memset(run, 0, sizeof(crbm_run))
        run.problem.k, run.problem.N = self.k, b1.shape[0]
        run.problem.nv, run.problem.nh, run.problem.ld = self.nv, self.nh, self.ld
        run.problem.W, run.problem.ldw, run.problem.max_weight = data(self.W), self.nh, self.max_weight
        run.problem.b1, run.problem.b2 = data(b1), data(b2)
        run.host.n_threads, run.host.context = allowed(self.n_threads), <PyObject *> self
        run.host.product, run.host.in_parallel, run.host.poll = product, in_parallel, poll
        run.next_poll = crbm_now() + POLL_SECONDS
        self.interrupt = None
        check_size(run.problem.N)
        return 0

    cdef int take_weights(self, crbm_run *run) except -1:
        """Make the matrices the method reads, unless they are there."""
        cdef int form = run.method.form(&run.problem, &run.options), needs = run.method.needs
        run.problem.form = form
        if needs & CRBM_NEEDS_WEIGHT:
            run.problem.weight = self.prepared(run, CRBM_NEEDS_WEIGHT, form)
        if needs & CRBM_NEEDS_ROW_SUM:
            run.problem.row_sum = self.prepared(run, CRBM_NEEDS_ROW_SUM, 0)
        if needs & CRBM_NEEDS_SQUARES:
            run.problem.squares = self.prepared(run, CRBM_NEEDS_SQUARES, 0)
        return 0

    cdef char *prepared(self, crbm_run *run, int need, int form) except NULL:
        """What is needed, made anew if W has changed since."""
        key = need, form
        cdef Buffer buffer = self.made.setdefault(key, Buffer())
        cdef char *p = buffer.reserve(self.solver.prepared_bytes(&run.problem, need))
        if key not in self.current:
            with nogil:
                self.solver.prepare(&run.problem, need, p)
            self.current.add(key)
        return p

    cdef int take_state(self, crbm_run *run) except -1:
        """Resume from the state of the last such run if it fits, and keep that of this one."""
        cdef:
            bint edges = run.method.state == CRBM_STATE_EDGES
            Py_ssize_t size = self.nv * self.ld if edges else self.nv + self.nh
        key = (run.method.name, run.problem.form if edges else 0, run.problem.N)
        run.options.resume = run.options.init == NULL and self.state_key == key
        if not run.options.resume:
            self.state_key = None
            self.state.reserve(<size_t> (run.problem.N * size * self.k.itemsize))
        elif edges:        # the weights may have been larger when the messages were made
            run.problem.max_weight = max(run.problem.max_weight, self.state_max)
        run.results.state = self.state.start
        self.state_key = key
        # damped messages keep a part of what they were
        self.state_max = run.problem.max_weight if run.options.damping > 0 else self.max_weight
        return 0

    cdef int raise_interrupt(self) except -1:
        if self.interrupt is not None:
            error, self.interrupt, self.state_key = self.interrupt, None, None
            raise error
        return 0
