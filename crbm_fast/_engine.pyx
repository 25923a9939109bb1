"""The engine: validated arrays in, beliefs out, without the GIL.

    Core.run    -> run_messages   sum-product, max-product: a state per edge, csrc/sum_product.h, log_domain.h
                -> run_fields     mixed-product, mean-field, tap: GEMMs over chunks of instances
    Core.gibbs  -> run_fields' chunks and GEMMs, with a draw between
    enumerate_states              the exact method, in blocks, as GEMMs

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
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

cimport cython
cimport numpy as cnp

from crbm_fast._blas cimport gemm
from crbm_fast._ckernels cimport (
    CRBM_EXP, CRBM_GROUP, CRBM_PLAIN, crbm_kernels, crbm_padded, crbm_rows, table,
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

cdef enum Method:           # in this order: those with messages, then those with padded weights, then the rest
    SUM_PRODUCT
    MAX_PRODUCT
    MIXED_PRODUCT
    MEAN_FIELD
    TAP

METHODS = {
    "sum-product": SUM_PRODUCT,
    "max-product": MAX_PRODUCT,
    "mixed-product": MIXED_PRODUCT,
    "mean-field": MEAN_FIELD,
    "tap": TAP,
}

cdef enum GammaMode:
    GAMMA_NONE
    GAMMA_EACH
    GAMMA_SUM

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


cdef inline size_t lines(size_t size) noexcept nogil:
    """`size` rounded up to whole cache lines, so that the next array is aligned too."""
    return (size + 63) // 64 * 64


cdef inline char *data(object a) except? NULL:
    return NULL if a is None else <char *> cnp.PyArray_DATA(<cnp.ndarray?> a)


# What one run is about; the same for all its threads.
cdef struct Job:
    const crbm_kernels *k
    Method method
    Py_ssize_t N, nv, nh, ld, item
    const char *W              # (nv, nh)
    const char *weight         # (nv, ld) exp(W) or W
    const char *squares        # (nv, nh) W^2, for TAP
    const char *row_sum        # (nv,) sum_j W, for mixed-product
    int form
    double max_weight
    const char *b1             # (N, nv)
    const char *b2             # (N, nh)
    Py_ssize_t max_iter
    double tol
    double damping
    int gamma_mode
    # results, (N, ...); NULL where not asked for
    char *tau_v
    char *tau_h
    char *gamma
    char *messages
    int64_t *n_iter
    char *converged
    double *residual
    double *log_z
    const char *init           # (N, ...) messages to start from
    char *state                # (N, nv, ld) kept for the next warm start
    bint resume                # start from `state`
    # shared by the threads
    long next                  # piece of work to be taken next
    long turn                  # instance whose Gamma is to be added next
    long idle                  # workers that have found no more work
    int cancel
    double next_poll
    PyObject *owner


cdef void poll(Job *job) noexcept nogil:
    """Look for signals now and then; only worker 0, the calling thread, may call this."""
    cdef double now = crbm_now()
    if now < job.next_poll:
        return
    job.next_poll = now + POLL_SECONDS
    with gil:
        try:
            PyErr_CheckSignals()
        except BaseException as e:
            (<Core> job.owner).interrupt = e
            crbm_raise_flag(&job.cancel)


cdef void finish(Job *job, int worker, int team) noexcept nogil:
    """Wait, as worker 0, for the others, still looking for signals."""
    crbm_take(&job.idle)
    # if OpenMP gave fewer threads, the other workers come after this one
    if worker == 0 and crbm_team_size() == team:
        while crbm_look(&job.idle) < team and not crbm_flag(&job.cancel):
            poll(job)
            crbm_pause()


# --- sum-product and max-product: messages ------------------------------------------------------------------

# Scratch of one RBM at a time.
cdef struct Slot:
    char *msg
    char *cond
    char *part          # (groups, ld)
    char *theta_h       # (ld,), and the next two
    char *tau_h0
    char *tau_h1
    char *field_v       # (nv,)
    char *scratch       # (team, ld)
    double *edges       # (groups,)
    double *change      # (team,)
    bint track          # this sweep measures the change of the messages
    bint blind          # and tells nothing by the change of tau_v
    bint last           # this sweep leaves P(v=1 | h=1) in cond

cdef enum Task:
    SWEEP
    RESUME
    EDGES
    GAMMA_FROM_COND
    GAMMA_FROM_MESSAGES


cdef inline Py_ssize_t n_groups(const Job *job) noexcept nogil:
    return (job.nv + CRBM_GROUP - 1) // CRBM_GROUP


cdef double work_groups(Job *job, Slot *s, Py_ssize_t n, int worker, int team, Task task) noexcept nogil:
    """Do worker's share of the groups of instance n; returns the largest change seen.

    The shares are contiguous and always the same, so that a thread finds its rows in its own cache again.
    """
    cdef:
        const crbm_kernels *k = job.k
        bint log_form = job.form == CRBM_PLAIN
        Py_ssize_t groups = n_groups(job), g, first, item = job.item, ld = job.ld
        double change = 0
        char *gamma
        crbm_rows r
    memset(&r, 0, sizeof(r))
    r.theta_h, r.tau_h0, r.tau_h1 = s.theta_h, s.tau_h0, s.tau_h1
    r.nh, r.ld = job.nh, ld
    r.max_weight, r.damping = job.max_weight, job.damping
    r.scratch = s.scratch + worker * ld * item
    r.track = s.track
    for g in range(worker * groups // team, (worker + 1) * groups // team):
        first = g * CRBM_GROUP
        r.rows = min(<Py_ssize_t> CRBM_GROUP, job.nv - first)
        r.msg = s.msg + first * ld * item
        r.weight = job.weight + first * ld * item
        r.b1 = job.b1 + (n * job.nv + first) * item
        r.field_v = s.field_v + first * item
        r.tau_v = job.tau_v + (n * job.nv + first) * item
        r.part = s.part + g * ld * item
        r.cond = NULL
        if s.last and (task == SWEEP or task == GAMMA_FROM_COND):
            r.cond = s.cond + first * ld * item
        if task == SWEEP:
            if job.method == MAX_PRODUCT:
                k.max_group(&r)
            elif log_form:
                k.log_group(&r)
            else:
                k.sum_group(&r)
            # Given messages come without an earlier tau_v to compare with.  In a first iteration, and with damping,
            # saturated beliefs may rest while messages move: there the messages must not move either.
            if not s.blind:
                change = fmax(change, r.belief_change / (1 - job.damping))
            if s.track or job.damping > 0:
                change = fmax(change, r.message_change)
        elif task == RESUME:
            if log_form:
                k.log_messages(&r)
            else:
                k.sum_messages(&r)
        elif task == EDGES:
            s.edges[g] = k.log_edges(&r) if log_form else k.sum_edges(&r)
        else:
            gamma = job.gamma + first * job.nh * item
            if job.gamma_mode == GAMMA_EACH:
                gamma += n * job.nv * job.nh * item
            if task == GAMMA_FROM_COND:
                k.gamma_cond(gamma, &r, job.gamma_mode == GAMMA_SUM)
            elif log_form:
                k.log_gamma(gamma, &r, job.gamma_mode == GAMMA_SUM)
            else:
                k.sum_gamma(gamma, &r, job.gamma_mode == GAMMA_SUM)
    return change


cdef double all_groups(Job *job, Slot *s, Py_ssize_t n, int team, Task task) noexcept nogil:
    """Do `task` for every group of instance n, by `team` threads."""
    cdef:
        int w
        double change = 0
    if team == 1:
        return work_groups(job, s, n, 0, 1, task)
    for w in prange(team, num_threads=team, schedule="static", chunksize=1):
        s.change[w] = work_groups(job, s, n, w, team, task)
    for w in range(team):
        change = fmax(change, s.change[w])
    return change


cdef void solve(Job *job, Slot *s, Py_ssize_t n, int team, bint caller) noexcept nogil:
    """BP on instance n: Algorithm 1 with a stopping rule."""
    cdef:
        const crbm_kernels *k = job.k
        Py_ssize_t nv = job.nv, nh = job.nh, ld = job.ld, item = job.item, groups = n_groups(job), g
        const char *b2 = job.b2 + n * nh * item
        const char *b1 = job.b1 + n * nv * item
        bint warm = job.resume or job.init != NULL
        Py_ssize_t t = 0
        double change = 0, log_z

    if job.state != NULL:
        s.msg = job.state + n * nv * ld * item
    if job.init != NULL:
        k.pad(s.msg, job.init + n * nv * nh * item, nv, nh, ld, job.form)
    elif not job.resume:
        k.fill(s.msg, 1 if job.form == CRBM_EXP else 0, nv * ld)      # M = 0.5
    k.logistic_step(job.tau_v + n * nv * item, b1, 1, 0, nv)
    k.fill(s.tau_h1, 0.5, ld)
    if warm:
        all_groups(job, s, n, team, RESUME)
    k.close_h(s.theta_h, s.tau_h0, s.tau_h1, b2, s.part, groups if warm else 0, nh, ld)

    for t in range(1, job.max_iter + 1):
        s.track = t == 1 and (warm or job.tol > 0 or job.max_iter == 1)
        s.blind = t == 1 and warm
        s.last = (t == job.max_iter and job.damping == 0 and job.gamma_mode != GAMMA_NONE
                  and job.method == SUM_PRODUCT)
        change = all_groups(job, s, n, team, SWEEP)
        change = fmax(change, k.close_h(s.theta_h, s.tau_h0, s.tau_h1, b2, s.part, groups, nh, ld)
                      / (1 - job.damping))
        if caller:
            poll(job)
        if crbm_flag(&job.cancel) or (job.tol > 0 and change <= job.tol):
            break
    job.n_iter[n] = t
    job.residual[n] = change
    job.converged[n] = change <= job.tol
    memcpy(job.tau_h + n * nh * item, s.tau_h1, nh * item)
    if job.method == SUM_PRODUCT:
        if job.log_z != NULL:
            # Bethe: sum_i log Z_i + sum_j log Z_j - sum_ij log Z_ij, all from the newest messages
            all_groups(job, s, n, team, EDGES)
            log_z = k.node_sum(b1, s.field_v, nv) + k.softplus_sum(s.theta_h, nh)
            for g in range(groups):
                log_z -= s.edges[g]
            job.log_z[n] = log_z
        if job.gamma_mode == GAMMA_SUM:
            # Added in the order of the instances, which are taken in order: who has the lowest number never waits.
            while crbm_look(&job.turn) != n and not crbm_flag(&job.cancel):
                if caller:
                    poll(job)
                crbm_pause()
        if job.gamma_mode != GAMMA_NONE and not crbm_flag(&job.cancel):
            all_groups(job, s, n, team, GAMMA_FROM_COND if s.last else GAMMA_FROM_MESSAGES)
            crbm_take(&job.turn)
    if job.messages != NULL:
        k.unpad(job.messages + n * nv * nh * item, s.msg, nv, nh, ld, job.form)


cdef void work_instances(Job *job, Slot *s, int worker, int team) noexcept nogil:
    cdef Py_ssize_t n
    while True:
        n = crbm_take(&job.next)
        if n >= job.N or crbm_flag(&job.cancel):
            break
        solve(job, s, n, 1, worker == 0)
    finish(job, worker, team)


# --- mixed-product, mean-field, tap, Gibbs: fields ------------------------------------------------------------

# A chunk of instances is worked off together, so that its fields are GEMMs.  Rows are slots; a slot is freed as
# soon as its instance has converged, and the last one moves into it.
cdef struct Chunk:
    char *b1            # (size, nv)
    char *b2            # (size, ld)
    char *tau_v         # (size, nv)
    char *field_v       # (size, nv)  sum over h
    char *theta_v       # (size, nv)  b1 + field_v
    char *sent          # (size, nv)  what v sends to h: tau_v, or its most likely state, averaged by damping
    char *tau_h0        # (size, ld)
    char *tau_h1        # (size, ld)
    char *theta_h       # (size, ld)
    char *extra_v       # (size, nv)  TAP: variances, reactions
    char *extra_h       # (size, ld)  likewise
    char *linear_h      # (size, ld)  b2 + sent W: theta_h before TAP's reaction
    double *change      # (size,)
    Py_ssize_t *instance    # (size,)


cdef Py_ssize_t chunk_size(Py_ssize_t N) noexcept nogil:
    """Instances per chunk: a quarter of the batch, at least 20, at most 64.

    GEMMs want many rows (mean field on 100 instances: 20 ms in eighths, 14 ms in quarters), threads many chunks.
    """
    return min(min(<Py_ssize_t> 64, N), max(<Py_ssize_t> 20, (N + 3) // 4))


cdef size_t chunk_bytes(const Job *job) noexcept nogil:
    cdef size_t size = chunk_size(job.N), v = lines(size * job.nv * job.item), h = lines(size * job.ld * job.item)
    return 6 * v + 6 * h + lines(size * sizeof(double)) + lines(size * sizeof(Py_ssize_t))


cdef Chunk chunk_at(const Job *job, char *p) noexcept nogil:
    cdef:
        Chunk c
        size_t size = chunk_size(job.N), v = lines(size * job.nv * job.item), h = lines(size * job.ld * job.item)
    c.b1, c.tau_v, c.field_v, c.theta_v, c.sent, c.extra_v = p, p + v, p + 2 * v, p + 3 * v, p + 4 * v, p + 5 * v
    p += 6 * v
    c.b2, c.tau_h0, c.tau_h1, c.theta_h, c.extra_h, c.linear_h = p, p + h, p + 2 * h, p + 3 * h, p + 4 * h, p + 5 * h
    p += 6 * h
    c.change = <double *> p
    c.instance = <Py_ssize_t *> (p + lines(size * sizeof(double)))
    return c


cdef void fields_h(const Job *job, Chunk *c, Py_ssize_t m) noexcept nogil:
    """theta_h := b2 + sent W for m slots."""
    memcpy(c.theta_h, c.b2, m * job.ld * job.item)
    # theta_h = sent W + b2
    # (m, nh) = (m, nv) (nv, nh) + (m, nh)
    gemm(<int> job.item, False, False, m, job.nh, job.nv, c.sent, job.nv, job.W, job.nh, 1, c.theta_h, job.ld)


cdef void fields_v(const Job *job, Chunk *c, Py_ssize_t m, const char *h) noexcept nogil:
    """field_v := h W' for m slots; h is (m, ld)."""
    # field_v = h W'
    # (m, nv) = (m, nh) (nh, nv)
    gemm(<int> job.item, False, True, m, job.nv, job.nh, h, job.ld, job.W, job.nh, 0, c.field_v, job.nv)


cdef void copy_slot(const Job *job, Chunk *c, Py_ssize_t to, Py_ssize_t from_) noexcept nogil:
    """Move what an instance carries from one iteration to the next."""
    cdef size_t v = job.nv * job.item, h = job.ld * job.item
    memcpy(c.b1 + to * v, c.b1 + from_ * v, v)
    memcpy(c.tau_v + to * v, c.tau_v + from_ * v, v)
    memcpy(c.sent + to * v, c.sent + from_ * v, v)
    memcpy(c.b2 + to * h, c.b2 + from_ * h, h)
    memcpy(c.tau_h0 + to * h, c.tau_h0 + from_ * h, h)
    memcpy(c.tau_h1 + to * h, c.tau_h1 + from_ * h, h)
    memcpy(c.theta_h + to * h, c.theta_h + from_ * h, h)
    c.instance[to] = c.instance[from_]


cdef double slot_log_z(const Job *job, Chunk *c, Py_ssize_t s) noexcept nogil:
    cdef:
        const crbm_kernels *k = job.k
        Py_ssize_t nv = job.nv, nh = job.nh, v = s * nv * job.item, h = s * job.ld * job.item
    if job.method == MIXED_PRODUCT:
        # log sum_h exp(-E(v, h)) at the v found, which theta_v holds by now: -F(v), Eq. 4
        # linear_h = v W + b2
        # (1, nh) = (1, nv) (nv, nh) + (1, nh)
        memcpy(c.linear_h + h, c.b2 + h, nh * job.item)
        gemm(<int> job.item, False, False, 1, nh, nv, c.theta_v + v, nv, job.W, nh, 1, c.linear_h + h, nh)
        return k.dot_free(c.b1 + v, c.theta_v + v, nv) + k.softplus_sum(c.linear_h + h, nh)
    if job.method == MEAN_FIELD:
        # the bound at tau_v and the tau_h that is best for it
        return k.mean_sum(c.b1 + v, c.field_v + v, nv) + k.softplus_sum(c.linear_h + h, nh)
    # TAP: entropies + b1 tau_v + (b2 + tau_v W) tau_h + 1/2 sum_ij W_ij^2 var_i var_j
    k.variance(c.theta_h + h, c.tau_h1 + h, nh)
    return (k.entropy_sum(c.tau_v + v, nv) + k.entropy_sum(c.tau_h1 + h, nh)
            + k.dot_free(c.b1 + v, c.tau_v + v, nv) + k.dot_free(c.linear_h + h, c.tau_h1 + h, nh)
            + 0.5 * k.dot_free(c.extra_h + h, c.theta_h + h, nh))


cdef void keep(const Job *job, Chunk *c, Py_ssize_t s, char *to) noexcept nogil:
    """Write what slot s needs to go on: tau_v (for mixed-product what v sends) and tau_h."""
    cdef:
        size_t v = job.nv * job.item, h = job.nh * job.item
        char *visible = c.sent if job.method == MIXED_PRODUCT else c.tau_v
    to += c.instance[s] * (v + h)
    memcpy(to, visible + s * v, v)
    memcpy(to + v, c.tau_h1 + s * job.ld * job.item, h)


cdef void retire(const Job *job, Chunk *c, Py_ssize_t s, Py_ssize_t t) noexcept nogil:
    """Write the results of slot s, which has done t iterations."""
    cdef:
        Py_ssize_t n = c.instance[s], nv = job.nv, nh = job.nh, item = job.item
    memcpy(job.tau_v + n * nv * item, c.tau_v + s * nv * item, nv * item)
    memcpy(job.tau_h + n * nh * item, c.tau_h1 + s * job.ld * item, nh * item)
    job.n_iter[n] = t
    job.residual[n] = c.change[s]
    job.converged[n] = c.change[s] <= job.tol
    if job.messages != NULL:
        keep(job, c, s, job.messages)
    if job.state != NULL:
        keep(job, c, s, job.state)
    if job.log_z != NULL:
        job.log_z[n] = slot_log_z(job, c, s)


cdef void solve_chunk(Job *job, Chunk *c, Py_ssize_t first, Py_ssize_t m, bint caller) noexcept nogil:
    """Fixed-point iterations on instances first ... first + m - 1, v then h as in Algorithm 1."""
    cdef:
        const crbm_kernels *k = job.k
        Py_ssize_t nv = job.nv, nh = job.nh, ld = job.ld, item = job.item, s, v, h
        const char *init
        bint mixed = job.method == MIXED_PRODUCT, tap = job.method == TAP
        double change
        Py_ssize_t t
    k.fill(c.b2, 0, m * ld)
    k.fill(c.tau_h0, 0.5, m * ld)
    k.fill(c.tau_h1, 0.5, m * ld)
    for s in range(m):
        v, h = s * nv * item, s * ld * item
        c.instance[s] = first + s
        memcpy(c.b1 + v, job.b1 + (first + s) * nv * item, nv * item)
        memcpy(c.b2 + h, job.b2 + (first + s) * nh * item, nh * item)
        if job.init == NULL:
            k.logistic_step(c.tau_v + v, c.b1 + v, 1, 0, nv)
            k.logistic_step(c.tau_h1 + h, c.b2 + h, 1, 0, nh)
            k.fill(c.sent + v, 0, nv)                                  # M = 0.5
        else:
            init = job.init + (first + s) * (nv + nh) * item
            memcpy(c.tau_v + v, init, nv * item)
            memcpy(c.sent + v, init, nv * item)
            memcpy(c.tau_h1 + h, init + nv * item, nh * item)
    if mixed:
        # what v sends is all there is to start from; fractions, of a damped run, are for a damped one
        if job.damping == 0:
            k.decode(c.sent, c.sent, 0.5, m * nv)
        fields_h(job, c, m)
        for s in range(m):
            h = s * ld * item
            k.logistic_step(c.tau_h1 + h, c.theta_h + h, 1, 0, nh)
            k.logistic_step(c.tau_h0 + h, c.theta_h + h, -1, 0, nh)
    for t in range(1, job.max_iter + 1):
        # hidden -> visible, Eq. 16 or the mean field's
        if not mixed:
            fields_v(job, c, m, c.tau_h1)
        elif job.form == CRBM_EXP:
            for s in range(0, m, 8):        # 8 instances: their tau_h stay in the first-level cache
                k.mixed_field(c.field_v + s * nv * item, job.weight, job.row_sum, c.sent + s * nv * item,
                              c.tau_h0 + s * ld * item, c.tau_h1 + s * ld * item,
                              min(m - s, <Py_ssize_t> 8), nv, ld, job.max_weight)
        else:
            k.mixed_field_log(c.field_v, job.weight, c.sent, c.theta_h, m, nv, ld)
        if tap:
            # reaction_v = var_h (W^2)'
            # (m, nv) = (m, nh) (nh, nv)
            k.variance(c.extra_h, c.tau_h1, m * ld)
            gemm(<int> item, False, True, m, nv, nh, c.extra_h, ld, job.squares, nh, 0, c.extra_v, nv)
            k.onsager(c.field_v, c.extra_v, c.tau_v, m * nv)
        k.add(c.theta_v, c.b1, c.field_v, m * nv)
        for s in range(m):
            v = s * nv * item
            c.change[s] = k.logistic_step(c.tau_v + v, c.theta_v + v, 1, 0, nv)
        if mixed:
            # a state that flips sends another message, however little tau_v has moved
            k.decode(c.theta_v, c.theta_v, 0, m * nv)
            for s in range(m):
                v = s * nv * item
                if t == 1 and job.init != NULL:
                    c.change[s] = 0        # there was no tau_v before
                c.change[s] = fmax(c.change[s] / (1 - job.damping), k.max_change(c.theta_v + v, c.sent + v, nv))
            k.blend(c.sent, c.theta_v, 1 - job.damping, m * nv)
        else:
            for s in range(m):
                c.change[s] /= 1 - job.damping
            memcpy(c.sent, c.tau_v, m * nv * item)
        # visible -> hidden, Eq. 17
        fields_h(job, c, m)
        memcpy(c.linear_h, c.theta_h, m * ld * item)
        if tap:
            # reaction_h = var_v W^2
            # (m, nh) = (m, nv) (nv, nh)
            k.variance(c.extra_v, c.tau_v, m * nv)
            k.fill(c.extra_h, 0, m * ld)
            gemm(<int> item, False, False, m, nh, nv, c.extra_v, nv, job.squares, nh, 0, c.extra_h, ld)
            k.onsager(c.theta_h, c.extra_h, c.tau_h1, m * ld)
        for s in range(m):
            h = s * ld * item
            change = k.logistic_step(c.tau_h1 + h, c.theta_h + h, 1, 0 if mixed else job.damping, nh)
            if mixed:
                k.logistic_step(c.tau_h0 + h, c.theta_h + h, -1, 0, nh)
            c.change[s] = fmax(c.change[s], change / (1 - job.damping))
        if caller:
            poll(job)
        if crbm_flag(&job.cancel):
            return
        if t == job.max_iter:
            for s in range(m):
                retire(job, c, s, t)
        elif job.tol > 0:
            for s in range(m - 1, -1, -1):     # downwards: the slot that moves has been looked at
                if c.change[s] <= job.tol:
                    retire(job, c, s, t)
                    m -= 1
                    if s < m:
                        copy_slot(job, c, s, m)
            if m == 0:
                return


# --- Gibbs -----------------------------------------------------------------------------------------------------

cdef struct Draws:
    char *v             # (N, nv) IN OUT
    char *h             # (N, nh) OUT
    const char *theta_h     # (N, nh) b2 + v W where it is known already, or NULL
    uint64_t seed
    uint64_t instance
    uint64_t step
    Py_ssize_t n_steps


cdef void sample_chunk(Job *job, Draws *d, Chunk *c, Py_ssize_t first, Py_ssize_t m, bint caller) noexcept nogil:
    """n_steps of h ~ p(h | v), v ~ p(v | h) (Eq. 3) on m instances."""
    cdef:
        const crbm_kernels *k = job.k
        Py_ssize_t nv = job.nv, nh = job.nh, ld = job.ld, item = job.item, s, t
        uint64_t draw
    memcpy(c.b1, job.b1 + first * nv * item, m * nv * item)
    memcpy(c.sent, d.v + first * nv * item, m * nv * item)
    k.fill(c.b2, 0, m * ld)
    k.fill(c.tau_h1, 0, m * ld)
    for s in range(m):
        memcpy(c.b2 + s * ld * item, job.b2 + (first + s) * nh * item, nh * item)
    for t in range(d.n_steps):
        draw = 2 * (d.step + t)
        if t == 0 and d.theta_h != NULL:
            for s in range(m):
                memcpy(c.theta_h + s * ld * item, d.theta_h + (first + s) * nh * item, nh * item)
        else:
            fields_h(job, c, m)
        for s in range(m):
            k.bernoulli(c.tau_h1 + s * ld * item, c.theta_h + s * ld * item, d.seed, d.instance + first + s,
                        <uint32_t> draw, nh)
        fields_v(job, c, m, c.tau_h1)
        k.add(c.theta_v, c.b1, c.field_v, m * nv)
        for s in range(m):
            k.bernoulli(c.sent + s * nv * item, c.theta_v + s * nv * item, d.seed, d.instance + first + s,
                        <uint32_t> (draw + 1), nv)
        if caller:
            poll(job)
        if crbm_flag(&job.cancel):
            return
    memcpy(d.v + first * nv * item, c.sent, m * nv * item)
    for s in range(m):
        memcpy(d.h + (first + s) * nh * item, c.tau_h1 + s * ld * item, nh * item)


cdef void work_chunks(Job *job, Draws *d, char *room, int worker, int team) noexcept nogil:
    """Take chunks until none is left: sample them if there is something to draw, else solve them."""
    cdef:
        Py_ssize_t size = chunk_size(job.N), first
        Chunk c = chunk_at(job, room)
    while True:
        first = crbm_take(&job.next) * size
        if first >= job.N or crbm_flag(&job.cancel):
            break
        if d != NULL:
            sample_chunk(job, d, &c, first, min(size, job.N - first), worker == 0)
        else:
            solve_chunk(job, &c, first, min(size, job.N - first), worker == 0)
    finish(job, worker, team)


# --- moments: Gamma where it is an outer product ------------------------------------------------------------------

cdef void outer_rows(const Job *job, const char *a, const char *b, double beta, Py_ssize_t first) noexcept nogil:
    """Rows first ... of Gamma := a' b + beta Gamma: summed over instances, or instance by instance."""
    cdef Py_ssize_t nv = job.nv, nh = job.nh, item = job.item, n, rows = min(<Py_ssize_t> 64, nv - first)
    if job.gamma_mode == GAMMA_SUM:
        # Gamma = a' b
        # (rows, nh) = (rows, N) (N, nh)
        gemm(<int> item, True, False, rows, nh, job.N, a + first * item, nv, b, nh,
             beta, job.gamma + first * nh * item, nh)
        return
    for n in range(job.N):
        gemm(<int> item, False, False, rows, nh, 1, a + (n * nv + first) * item, 1, b + n * nh * item, nh,
             beta, job.gamma + (n * nv + first) * nh * item, nh)


cdef void outer(const Job *job, const char *a, const char *b, double beta, int team) noexcept nogil:
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

    cdef int team(self, const Job *job, Py_ssize_t small) noexcept:
        return 1 if job.N * self.nv * self.nh < small else team_of(self.n_threads)

    cdef int prepare(self, Job *job, b1, b2) except -1:
        """Fill in what every run needs."""
        memset(job, 0, sizeof(Job))
        job.k = self.k
        job.N, job.nv, job.nh, job.ld, job.item = b1.shape[0], self.nv, self.nh, self.ld, self.item
        check_size(job.N)
        job.W = data(self.W)
        job.b1, job.b2 = data(b1), data(b2)
        job.max_weight = self.max_weight
        job.owner = <PyObject *> self
        job.next_poll = crbm_now() + POLL_SECONDS
        self.interrupt = None
        return 0

    cdef int take_weights(self, Job *job) except -1:
        """Make the matrices the method reads, unless they are there."""
        cdef:
            size_t padded = self.nv * self.ld * self.item
            int form = CRBM_EXP
            char *p
        if (job.method == MAX_PRODUCT or self.max_weight > self.k.max_weight
                or (job.method == MIXED_PRODUCT and job.damping > 0)):      # then v sends fractions
            form = CRBM_PLAIN
        job.form = form
        if job.method <= MIXED_PRODUCT:
            if self.form != form:
                p = self.weight.reserve(padded)
                self.form = -1
                with nogil:
                    self.k.pad(p, job.W, self.nv, self.nh, self.ld, form)
                self.form = form
            job.weight = self.weight.start
        if job.method == MIXED_PRODUCT:
            if not self.has_row_sum:
                self.k.row_sums(self.row_sum.reserve(lines(self.nv * self.item)), job.W, self.nv, self.nh)
                self.has_row_sum = True
            job.row_sum = self.row_sum.start
        if job.method == TAP:
            if not self.has_squares:
                p = self.squares.reserve(lines(self.nv * self.nh * self.item))
                self.k.squares(p, job.W, self.nv * self.nh)
                self.has_squares = True
            job.squares = self.squares.start
        return 0

    def run(self, method, b1, b2, *, Py_ssize_t max_iter, double tol, double damping, tau_v, tau_h, n_iter, converged,
            residual, log_z=None, gamma=None, bint gamma_sum=False, messages=None, init=None,
            bint warm_start=False):
        """Run `method` on every row of b1, b2 and write the results into the arrays given.

        b1 (N, nv), b2 (N, nh); tau_v (N, nv), tau_h (N, nh), n_iter (N,) int64, converged (N,) bool, residual and
        log_z (N,) float64, gamma (N, nv, nh) or with gamma_sum (nv, nh); messages and init (N, nv, nh) log messages
        for sum-product and max-product, (N, nv + nh) beliefs for the other methods.
        """
        cdef Job job
        self.prepare(&job, b1, b2)
        job.method = METHODS[method]
        job.max_iter, job.tol, job.damping = max_iter, tol, damping
        job.tau_v, job.tau_h, job.gamma, job.messages = data(tau_v), data(tau_h), data(gamma), data(messages)
        job.n_iter, job.converged = <int64_t *> data(n_iter), data(converged)
        job.residual, job.log_z = <double *> data(residual), <double *> data(log_z)
        job.init = data(init)
        job.gamma_mode = GAMMA_NONE if gamma is None else GAMMA_SUM if gamma_sum else GAMMA_EACH
        if gamma is not None and gamma_sum:
            gamma[...] = 0
        if job.N == 0:
            return
        self.take_weights(&job)
        if job.method <= MAX_PRODUCT:
            self.run_messages(&job, warm_start)
            if job.method == MAX_PRODUCT and self.interrupt is None and (log_z is not None or gamma is not None):
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

    cdef int run_messages(self, Job *job, bint warm_start) except -1:
        cdef:
            int team = self.team(job, SMALL_MESSAGES), w, slots = 1
            Py_ssize_t groups = n_groups(job), edges = self.nv * self.nh, n
            size_t matrix = self.nv * self.ld * self.item, row = self.ld * self.item, size
            bint by_rows
            bint own_cond = job.gamma_mode != GAMMA_NONE and job.method == SUM_PRODUCT and job.damping == 0 and (
                warm_start or job.messages != NULL or job.log_z != NULL)
            Slot *s
            char *p
            char *room
        by_rows = edges >= LARGE or (job.N < 4 * team and edges >= SMALL)
        if not by_rows:
            team = min(team, job.N)
            slots = team
        if team > groups and by_rows:
            team = max(1, groups)
        if warm_start:
            key = (job.method, job.form, job.N)
            job.resume = job.init == NULL and self.state_key == key
            if not job.resume:
                self.state_key = None
                self.state.reserve(max(<size_t> 1, job.N * matrix))
            elif self.state_max > job.max_weight:
                job.max_weight = self.state_max     # the weights were larger when the messages were made
            job.state = self.state.start
        size = ((0 if warm_start else lines(matrix)) + (lines(matrix) if own_cond else 0) + groups * row + 3 * row
                + lines(self.nv * self.item) + team * row + lines(groups * sizeof(double))
                + lines(team * sizeof(double)))
        room = self.room.reserve(slots * (size + lines(sizeof(Slot))))
        s = <Slot *> room
        p = room + slots * lines(sizeof(Slot))
        for w in range(slots):
            s[w].msg = p
            if not warm_start:
                p += lines(matrix)
            s[w].cond = s[w].msg
            if own_cond:
                s[w].cond = p
                p += lines(matrix)
            s[w].part = p
            p += groups * row
            s[w].theta_h, s[w].tau_h0, s[w].tau_h1 = p, p + row, p + 2 * row
            p += 3 * row
            s[w].field_v = p
            p += lines(self.nv * self.item)
            s[w].scratch = p
            p += team * row
            s[w].edges = <double *> p
            p += lines(groups * sizeof(double))
            s[w].change = <double *> p
            p += lines(team * sizeof(double))
        if warm_start:
            self.state_key = key
            # damped messages keep a part of what they were
            self.state_max = job.max_weight if job.damping > 0 else self.max_weight
        with nogil:
            if by_rows:
                for n in range(job.N):
                    solve(job, &s[0], n, team, True)
                    if crbm_flag(&job.cancel):
                        break
            elif team == 1:
                work_instances(job, s, 0, 1)
            else:
                for w in prange(team, num_threads=team, schedule="static", chunksize=1):
                    work_instances(job, &s[w], w, team)
        return 0

    cdef int run_fields(self, Job *job, Draws *d, bint warm_start) except -1:
        cdef:
            Py_ssize_t size = chunk_size(job.N)
            int team = <int> min(<Py_ssize_t> self.team(job, SMALL_FIELDS), (job.N + size - 1) // size), w
            size_t bytes = chunk_bytes(job)
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

    cdef int gamma_of_fields(self, Job *job) except -1:
        """Gamma = v tau_h' for mixed-product (v decoded), tau_v tau_h' for mean field, plus TAP's correlation."""
        cdef:
            const crbm_kernels *k = self.k
            Py_ssize_t v = job.N * self.nv, h = job.N * self.nh, edges = self.nv * self.nh, n
            char *gamma
            char *a
            char *b
            int team = self.team(job, SMALL_FIELDS)
            size_t bytes = lines(v * self.item)
            char *room = self.room.reserve(bytes + lines(h * self.item))
        a, b = room, room + bytes
        with nogil:
            if job.method == TAP:
                # Gamma = W o (var_v var_h') + tau_v tau_h'
                k.variance(a, job.tau_v, v)
                k.variance(b, job.tau_h, h)
                outer(job, a, b, 0, team)
                for n in range(1 if job.gamma_mode == GAMMA_SUM else job.N):
                    gamma = job.gamma + n * edges * self.item
                    k.multiply(gamma, gamma, job.W, edges)
                outer(job, job.tau_v, job.tau_h, 1, team)
            elif job.method == MIXED_PRODUCT:
                k.decode(a, job.tau_v, 0.5, v)
                outer(job, a, job.tau_h, 0, team)
            else:
                outer(job, job.tau_v, job.tau_h, 0, team)
        return 0

    cdef int decode_map(self, Job *job) except -1:
        """Max-product's answer: v from its beliefs, h the best for that v; -E(v, h) and Gamma = v h'."""
        cdef:
            const crbm_kernels *k = self.k
            Py_ssize_t nv = self.nv, nh = self.nh, N = job.N, n
            size_t bytes = lines(N * nv * self.item)
            char *room = self.room.reserve(bytes + lines(N * nh * self.item))
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
            if job.gamma_mode != GAMMA_NONE:
                k.decode(h, h, 0, N * nh)
                outer(job, v, h, 0, team)
        return 0

    def gibbs(self, b1, b2, v, h, *, uint64_t seed, uint64_t instance, uint64_t step, Py_ssize_t n_steps,
              theta_h=None):
        """n_steps of blocked Gibbs sampling: v (N, nv) in and out, h (N, nh) out, entries 0 and 1.

        theta_h (N, nh), if given, is b2 + v W and is not computed again.
        """
        cdef:
            Job job
            Draws d
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
