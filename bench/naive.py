"""Per-edge belief propagation as a general factor-graph library does it (naive.h), called through ctypes.

The benchmark compares with it, and the tests use it as a second opinion on the engine.  It is slow on purpose.
naive.c is compiled by the user's C compiler when the first graph is made.
"""

import ctypes
import functools
import operator
import weakref

import numpy as np

from bench._compiler import load_library

# The optimisation of the kernels (setup.py), so that the comparison is one of algorithms.
FLAGS = ("-std=c11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
MAX_STATES = 16  # CRBM_GRAPH_STATES
MAX_RATIO = 1e9  # CRBM_GRAPH_RATIO
RECOMPUTE, CACHE = 0, 1  # enum crbm_cavity


@functools.cache
def library():
    """The compiled naive.c with the types of its functions."""
    graph, index = ctypes.c_void_p, ctypes.c_ssize_t
    numbers = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    counts = np.ctypeslib.ndpointer(np.intc, flags="C_CONTIGUOUS")
    signatures = {
        "new": (graph, [counts, index]),
        "new_rbm": (graph, [numbers, numbers, numbers, index, index]),
        "free": (None, [graph]),
        "set_potential": (None, [graph, index, numbers]),
        "add_factor": (ctypes.c_int, [graph, index, index, numbers]),
        "reset": (None, [graph]),
        "iterate": (None, [graph, ctypes.c_int]),
        "belief": (None, [numbers, graph, index]),
        "beliefs": (None, [numbers, graph]),
    }
    loaded = load_library("naive.c", *FLAGS)
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, f"crbm_graph_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(loaded, name, function)
    return loaded


class Graph:
    """A pairwise factor graph.

    Parameters
    ----------
    states : sequence of int
        The number of states of each variable, from 1 to 16.
    """

    def __init__(self, states):
        self.states = tuple(operator.index(s) for s in states)
        for s in self.states:
            if not 1 <= s <= MAX_STATES:
                raise ValueError(f"a variable has from 1 to {MAX_STATES} states; got {s}")
        self.own(library().new(np.array(self.states, np.intc), len(self.states)))

    @classmethod
    def from_rbm(cls, W, b1, b2):
        """The graph of an RBM with hidden units first, so that an iteration is one of the paper's Algorithm 1."""
        nv, nh = len(b1), len(b2)
        largest = np.abs(W).max(initial=0)
        if largest > np.log(MAX_RATIO):
            raise ValueError(f"W has an entry of size {largest}; expected at most {np.log(MAX_RATIO):.1f}")
        exp_W = positive("exp(W)", np.exp(np.asarray(W, np.float64)), (nv, nh))
        exp_b1 = positive("exp(b1)", np.exp(np.asarray(b1, np.float64)), (nv,))
        exp_b2 = positive("exp(b2)", np.exp(np.asarray(b2, np.float64)), (nh,))
        graph = cls.__new__(cls)
        graph.states = (2,) * (nh + nv)
        graph.own(library().new_rbm(exp_W, exp_b2, exp_b1, nv, nh))
        return graph

    def own(self, address):
        """Keep the C object for as long as this one lives."""
        if address is None:
            raise MemoryError("there is no memory for the graph")
        self.address = address
        weakref.finalize(self, library().free, address)

    def set_potential(self, i, potential):
        """Give variable i the potential (states_i,), which is positive."""
        library().set_potential(self.address, i, positive("potential", potential, (self.n_states(i),)))

    def add_factor(self, i, j, table):
        """Join variables i and j by the table (states_i, states_j), which is positive."""
        if i == j:
            raise ValueError(f"a factor joins two variables; both are {i}")
        table = positive("table", table, (self.n_states(i), self.n_states(j)))
        if table.max() / table.min() > MAX_RATIO:
            raise ValueError(f"entries of the table differ by more than a factor of {MAX_RATIO:g}")
        if library().add_factor(self.address, i, j, table) != 0:
            raise MemoryError("there is no memory for another factor")

    def run(self, n_iter, cache=False):
        """Run `n_iter` iterations from uniform messages.

        Each message takes the product of all the others, which is multiplied anew; with `cache`, the product of all
        is made once for each variable, and the one message is divided out.
        """
        if n_iter < 0:
            raise ValueError(f"n_iter={n_iter} is negative")
        library().reset(self.address)
        for _ in range(n_iter):
            library().iterate(self.address, CACHE if cache else RECOMPUTE)

    def belief(self, i):
        """The marginal (states_i,) of variable i."""
        belief = np.empty(self.n_states(i))
        library().belief(belief, self.address, i)
        return belief

    def beliefs(self):
        """The marginals of all variables, one after another: (sum of all states,)."""
        beliefs = np.empty(sum(self.states))
        library().beliefs(beliefs, self.address)
        return beliefs

    def n_states(self, i):
        if not 0 <= i < len(self.states):
            raise IndexError(f"no variable {i} among {len(self.states)}")
        return self.states[i]


def positive(name, a, shape):
    """`a` as C-contiguous doubles; an error unless it has that shape and is positive and finite."""
    out = np.ascontiguousarray(a, np.float64)
    if out.shape != shape:
        raise ValueError(f"{name} has shape {out.shape}; expected {shape}")
    if not (np.isfinite(out) & (out > 0)).all():
        raise ValueError(f"{name} must be positive and finite")
    return out
