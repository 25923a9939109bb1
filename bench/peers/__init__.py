"""What else a user might run for sum-product BP on an RBM.  Every peer is a `Peer`; `PEERS` lists them all.

    engine.py         crbm_fast itself
    naive.py          per-edge BP in C (csrc/naive.c), recomputing and with cached products
    arrays.py         NumPy, PyTorch and JAX, with the array forms of forms.py
    numba_loops.py    loops compiled by numba: as one would write them, and as fast as we could make them
    factor_graphs.py  PGMax, pomegranate, factorgraph
    libdai.py         libDAI: times it took elsewhere (cited), and a driver for an installation of yours
"""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench._problems import Problem, T, does_not_fit
from bench._report import row, time_text
from bench._timing import interleaved, summary


@dataclass(frozen=True)
class Peer:
    """One way to run T iterations of BP.

    `prepare(W, b1, b2, T)` takes float32 arrays and returns a function without arguments that runs the iterations and
    returns (tau_v, tau_h): what is timed.  What depends on the weights alone (exp(W), a graph) is made in `prepare`.
    """

    name: str
    prepare: Callable
    dtype: str = "float32"
    modules: tuple[str, ...] = ()            # what must be importable
    install: str = ""                        # and the command that makes it so
    schedule: str = "paper"                  # see Problem.beliefs
    bytes_per_edge: float = 12               # memory beside W, roughly
    degree: bool = False                     # the cost of an edge grows with the number of neighbours
    batch: bool = False                      # also takes b1 (N, nv), b2 (N, nh)
    compiles: bool = False                   # the first call is not like the others
    slow: bool = False                       # seconds to compile, to build or to run even at 100x50: not in --quick
    ours: bool = False

    def work(self, problem):
        """What its time is in proportion to."""
        return problem.updates * ((problem.nv + problem.nh) if self.degree else 1)

    @property
    def installed(self):
        return all(importlib.util.find_spec(m) is not None for m in self.modules)

    @property
    def tolerance(self):
        """Largest difference of a belief that still counts as rounding; in float32, the paper's own tolerance of BP."""
        return 1e-3 if self.dtype == "float32" else 1e-9


def each(one, b1, b2):
    """`one(b1, b2)` for one instance, or for every instance of a batch, as a function without arguments."""
    if b1.ndim == 1:
        return lambda: one(b1, b2)
    return lambda: tuple(zip(*(one(v, h) for v, h in zip(b1, b2, strict=True)), strict=True))


def measure(peers, problem, options, limit, costs, rounds):
    """Rows and left_out of a report: T iterations on one problem by every peer that can, one thread each.

    A peer is left out where it would take longer than `limit` seconds by its cost per edge on the problem before
    (`costs`, brought up to date here) or on a small one, or more memory than there is; where its beliefs are not ours;
    where it fails.
    """
    functions, first, truth, times, rows, left_out = {}, {}, {}, {}, [], []
    small = Problem(20, 10)

    def leave_out(peer, why):
        left_out.append({"case": problem.name, "who": peer.name, "why": why})

    for peer in peers:
        options.progress(f"{problem.name}: {peer.name}")
        why = does_not_fit(problem.nv, problem.nh, peer.bytes_per_edge)
        if peer.slow and options.quick:
            why = "takes too long for --quick"
        if why:
            leave_out(peer, why)
            continue
        try:
            if peer.name not in costs and peer.degree and problem.nv * problem.nh > 5000:
                infer, start = peer.prepare(*small.arrays, T), time.perf_counter()
                infer()
                costs[peer.name] = (time.perf_counter() - start) / peer.work(small)
            expected = costs.get(peer.name, 0) * peer.work(problem)
            if expected > limit:
                leave_out(peer, f"would take about {time_text(expected)}")
                continue
            start = time.perf_counter()
            functions[peer] = peer.prepare(*problem.arrays, T)
            prepared = time.perf_counter() - start
            if peer.schedule not in truth:
                truth[peer.schedule] = problem.beliefs(peer.schedule)
            start = time.perf_counter()
            beliefs = functions[peer]()
            once = time.perf_counter() - start
            first[peer] = prepared, difference(beliefs, truth[peer.schedule])
        except Exception as error:  # anything may go wrong in other people's code, and is then reported
            functions.pop(peer, None)
            leave_out(peer, f"failed: {type(error).__name__}: {error}".splitlines()[0])
            continue
        rounding = truth[peer.schedule][0].dtype == np.float32         # ours, on the largest problems
        if not first[peer][1] <= (1e-3 if rounding else peer.tolerance):
            functions.pop(peer)
            leave_out(peer, f"DISAGREES: a belief differs by {first[peer][1]:.1e} from ours")
        elif once > 2 and not peer.compiles:             # nothing to warm up, and no reason to wait again
            functions.pop(peer)
            times[peer] = summary([once]) | {"calls": 1}

    def build():
        """Those that are quickly made are made anew."""
        return {peer: peer.prepare(*problem.arrays, T) if first[peer][0] < 0.2 else f for peer, f in functions.items()}

    options.progress(f"{problem.name}: {len(functions)} in turns")
    once = problem.nv * problem.nh >= 2**24
    times |= interleaved(
        (lambda: functions) if once else build, repeats=1 if options.quick else 5, rounds=1 if once else rounds,
        seconds=1 if options.quick else 4, warm=once,
    )  # fmt: skip
    for peer, stats in times.items():
        costs[peer.name] = stats["min"] / peer.work(problem)
        rows.append(row(problem.name, peer.name, stats, problem.updates, difference=first[peer][1], dtype=peer.dtype)
                    | ({"ours": True} if peer.ours else {}))  # fmt: skip
    return sorted(rows, key=lambda r: r["min"]), left_out


def difference(a, b):
    """Largest difference of a belief; infinite where one is not a number."""
    worst = max(float(np.abs(np.asarray(x, np.float64) - y).max()) for x, y in zip(a, b, strict=True))
    return worst if worst == worst else float("inf")


def all_peers(libdai=None):
    """Every peer, ours first; with the prefix of a libDAI installation, that one too."""
    from bench.peers import arrays, engine, factor_graphs, naive, numba_loops
    from bench.peers import libdai as libdai_

    rest = [*naive.PEERS, *numba_loops.PEERS, *arrays.PEERS, *factor_graphs.PEERS]
    return [*engine.PEERS, *rest, *([libdai_.peer(libdai)] if libdai else [])]
