"""Per-edge belief propagation as a general factor-graph library does it (csrc/naive.h): what the benchmark compares
with and the tests hold the engine to.  Slow on purpose, and not part of the public interface.
"""

from cpython.exc cimport PyErr_CheckSignals

import operator

import numpy as np

cdef extern from "naive.h" nogil:
    enum:
        CRBM_GRAPH_STATES
    const double CRBM_GRAPH_RATIO
    enum crbm_cavity:
        CRBM_RECOMPUTE
        CRBM_CACHE
    ctypedef struct crbm_graph
    crbm_graph *crbm_graph_new(const int *states, Py_ssize_t n)
    void crbm_graph_free(crbm_graph *g)
    void crbm_graph_set_potential(crbm_graph *g, Py_ssize_t i, const double *potential)
    int crbm_graph_add_factor(crbm_graph *g, Py_ssize_t i, Py_ssize_t j, const double *table)
    void crbm_graph_reset(crbm_graph *g)
    void crbm_graph_iterate(crbm_graph *g, crbm_cavity cavity)
    void crbm_graph_belief(double *belief, const crbm_graph *g, Py_ssize_t i)


cdef class Graph:
    """A pairwise factor graph; `states` lists the number of states of each variable."""

    cdef crbm_graph *graph
    cdef object states
    cdef bint busy              # a run, which has no GIL, is under way

    def __cinit__(self, states):
        cdef int[::1] counts
        self.states = tuple(operator.index(s) for s in states)
        for s in self.states:
            if not 1 <= s <= CRBM_GRAPH_STATES:
                raise ValueError(f"a variable has from 1 to {CRBM_GRAPH_STATES} states; got {s}")
        counts = np.array([*self.states, 1], np.intc)       # one more, so that there is an address
        self.graph = crbm_graph_new(&counts[0], len(self.states))
        if self.graph == NULL:
            raise MemoryError("no memory for the graph")

    def __dealloc__(self):
        crbm_graph_free(self.graph)

    def set_potential(self, Py_ssize_t i, potential):
        """potential (states_i,): positive."""
        cdef const double[::1] p = _positive("potential", potential, (self.states[self.check(i)],))
        crbm_graph_set_potential(self.graph, i, &p[0])

    def add_factor(self, Py_ssize_t i, Py_ssize_t j, table):
        """table (states_i, states_j): positive."""
        if self.check(i) == self.check(j):
            raise ValueError(f"a factor joins two variables; both are {i}")
        cdef const double[:, ::1] t = _positive("table", table, (self.states[i], self.states[j]))
        if np.max(t) / np.min(t) > CRBM_GRAPH_RATIO:
            raise ValueError(f"entries of the table differ by more than a factor of {CRBM_GRAPH_RATIO:g}")
        if crbm_graph_add_factor(self.graph, i, j, &t[0, 0]) != 0:
            raise MemoryError("no memory for another factor")

    def run(self, Py_ssize_t n_iter, bint cache=False):
        """`n_iter` iterations from uniform messages.

        For each message anew, the product of all others is multiplied up; with `cache` the product of all is made
        once for a variable and the one message divided out.
        """
        cdef Py_ssize_t _t
        if n_iter < 0:
            raise ValueError(f"n_iter={n_iter} is negative")
        self.check_idle()
        self.busy = True
        try:
            with nogil:
                crbm_graph_reset(self.graph)
                for _t in range(n_iter):
                    crbm_graph_iterate(self.graph, CRBM_CACHE if cache else CRBM_RECOMPUTE)
                    with gil:
                        PyErr_CheckSignals()
        finally:
            self.busy = False

    def belief(self, Py_ssize_t i):
        """(states_i,): the marginal of variable i."""
        cdef double[::1] p = np.empty(self.states[self.check(i)])
        crbm_graph_belief(&p[0], self.graph, i)
        return np.asarray(p)

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError("this Graph is working for another thread")
        return 0

    cdef Py_ssize_t check(self, Py_ssize_t i) except -1:
        self.check_idle()
        if not 0 <= i < len(self.states):
            raise IndexError(f"no variable {i} among {len(self.states)}")
        return i


def rbm(W, b1, b2):
    """An RBM as such a graph: hidden units first, so that an iteration is one of the paper's Algorithm 1."""
    cdef Py_ssize_t i, j, nv = len(b1), nh = len(b2)
    cdef const double[:, ::1] E = _positive("exp(W)", np.exp(np.asarray(W, np.float64)), (nv, nh))
    cdef const double[::1] e = _positive("exp(b)", np.exp(np.concatenate([b2, b1], dtype=np.float64)), (nh + nv,))
    cdef double[4] numbers = [1, 1, 1, 1]       # a table, whose end is a potential
    if np.abs(W).max(initial=0) > np.log(CRBM_GRAPH_RATIO):
        raise ValueError(f"W goes to {np.abs(W).max()}; at most {np.log(CRBM_GRAPH_RATIO):.1f} is possible here")
    cdef Graph graph = Graph([2] * (nh + nv))
    for i in range(nh + nv):
        numbers[3] = e[i]
        crbm_graph_set_potential(graph.graph, i, &numbers[2])
    for i in range(nv):
        for j in range(nh):
            numbers[3] = E[i, j]
            if crbm_graph_add_factor(graph.graph, nh + i, j, &numbers[0]) != 0:
                raise MemoryError("no memory for another factor")
    return graph


def _positive(name, a, shape):
    """`a` as contiguous doubles of that shape."""
    out = np.ascontiguousarray(a, np.float64)
    if out.shape != shape:
        raise ValueError(f"{name} has shape {out.shape}; expected {shape}")
    if not (np.isfinite(out) & (out > 0)).all():
        raise ValueError(f"{name} must be positive and finite")
    return out
