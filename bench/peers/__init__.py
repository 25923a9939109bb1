"""The programs that a user might run for sum-product BP on an RBM.  Each is a `Peer`, and `all_peers` lists them.

engine.py         crbm_fast itself
naive.py          per-edge BP in C (bench/naive.c), recomputing and with cached products
arrays.py         NumPy, PyTorch and JAX, with the array forms of forms.py
numba_loops.py    loops compiled by numba: as one would write them, and as fast as we could make them
factor_graphs.py  PGMax, pomegranate, factorgraph
libdai.py         libDAI: times that were measured elsewhere (cited), and a driver for the user's installation
trainers.py       packages that train plain RBMs, for the suite training
"""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench._problems import Problem, T, does_not_fit
from bench._report import row, time_text
from bench._timing import interleaved, summary

HUGE = 2**24  # from this many edges on, peers are measured one at a time: together they would not fit in memory
REQUESTED_LIMIT = 600  # seconds that a peer may take which the user asked for by name


@dataclass(frozen=True)
class Peer:
    """One way to run T iterations of BP.

    `prepare(W, b1, b2, T)` takes float32 arrays and returns a function without arguments, which runs the iterations and
    returns (tau_v, tau_h); this function is timed.  What depends on the weights alone (exp(W), a graph) is made in
    `prepare`.
    """

    name: str
    prepare: Callable
    dtype: str = "float32"
    modules: tuple[str, ...] = ()  # the modules that must be importable
    install: str = ""  # the command that installs them
    schedule: str = "paper"  # see Problem.beliefs
    bytes_per_edge: float = 12  # memory beside W, roughly
    grows_with_degree: bool = False  # whether the cost of an edge grows with the number of neighbours
    takes_batches: bool = False  # whether it also takes b1 (N, nv), b2 (N, nh)
    slow: bool = False  # whether it takes seconds even at 100x50, and so is not in --quick
    ours: bool = False

    def work(self, problem):
        """The number of operations that its time is in proportion to."""
        return problem.updates * ((problem.nv + problem.nh) if self.grows_with_degree else 1)

    @property
    def installed(self):
        return all(importlib.util.find_spec(m) is not None for m in self.modules)

    @property
    def tolerance(self):
        """The largest difference of a belief that counts as rounding."""
        return 1e-4 if self.dtype == "float32" else 1e-9


def each(one, b1, b2):
    """`one(b1, b2)` for one instance, or for every instance of a batch, as a function without arguments."""
    if b1.ndim == 1:
        return lambda: one(b1, b2)
    return lambda: tuple(zip(*(one(v, h) for v, h in zip(b1, b2, strict=True)), strict=True))


# --- measuring ------------------------------------------------------------------------------------------------------


class LeftOutError(Exception):
    """A peer is not measured on a problem; the message says why."""


class Measurement:
    """The measurement of T iterations on one problem by every peer that can, on one thread each.

    `run` returns the rows and left_out of a report.  A peer is left out if its beliefs are not ours, if it fails, if it
    needs more memory than there is, or if it would take longer than `limit` seconds, judged by its cost per edge on the
    problem before (`costs`, which is passed from one problem to the next) or on a small one.
    """

    def __init__(self, problem, options, limit, costs, rounds=1):
        self.problem, self.options, self.limit, self.costs, self.rounds = problem, options, limit, costs, rounds
        self.seconds = 1 if options.quick else 4  # that the measurements of one peer may take
        self.truth, self.differences, self.last = {}, {}, {}

    def run(self, peers):
        functions, times, left_out = {}, {}, []

        def leave_out(peer, why):
            left_out.append({"case": self.problem.name, "who": peer.name, "why": str(why)})

        for peer in peers:
            self.options.progress(f"{self.problem.name}: {peer.name}")
            try:
                self.admit(peer)
                infer, prepared, once = self.try_out(peer)
                if peer.grows_with_degree and once > 5:  # they compile nothing, and one call is long enough
                    times[peer] = summary([once]) | {"calls": 1}
                elif self.problem.nv * self.problem.nh >= HUGE:
                    times |= self.time({peer: infer}.copy, 3, 1, warm=True)
                else:
                    functions[peer] = infer, prepared
                del infer
            except LeftOutError as why:
                leave_out(peer, why)

        def build():
            """Prepare anew each peer whose preparation takes less than 0.2 s, less than its measurement."""
            anew = {p: prepared < 0.2 for p, (_, prepared) in functions.items()}
            return {p: p.prepare(*self.problem.arrays, T) if anew[p] else f for p, (f, _) in functions.items()}

        self.options.progress(f"{self.problem.name}: {len(functions)} peers in turns")
        times |= self.time(build, 2 if self.options.quick else 5, self.rounds)
        for peer in list(times):
            try:
                self.compare(peer, self.last.get(peer))
            except LeftOutError as why:
                times.pop(peer)
                leave_out(peer, why)
        for peer, stats in times.items():
            self.costs[peer.name] = stats["min"] / peer.work(self.problem)
        rows = [
            row(
                self.problem.name,
                peer.name,
                stats,
                self.problem.updates,
                difference=self.differences[peer],
                dtype=peer.dtype,
                **({} if peer.ours else {"peer": True}),
            )
            for peer, stats in times.items()
        ]
        return sorted(rows, key=lambda r: r["min"]), left_out

    def time(self, build, repeats, rounds, warm=False):
        """As `interleaved`; keeps the last result of each peer, or its failure, for the comparison afterwards."""

        def kept(peer, infer):
            def call():
                if not isinstance(self.last.get(peer), LeftOutError):
                    try:
                        self.last[peer] = self.guard(infer)
                    except LeftOutError as failure:
                        self.last[peer] = failure

            return call

        return interleaved(lambda: {p: kept(p, f) for p, f in build().items()}, repeats, rounds, self.seconds, warm)

    def admit(self, peer):
        """Raise LeftOutError where the peer needs too much time or memory."""
        problem = self.problem
        if peer.slow and self.options.quick and peer.name not in self.options.requested:
            raise LeftOutError("takes too long for --quick")
        why = does_not_fit(problem.nv, problem.nh, peer.bytes_per_edge)
        if why:
            raise LeftOutError(why)
        if peer.name not in self.costs and peer.grows_with_degree and problem.nv * problem.nh > 5000:
            small = Problem(60, 40)  # large enough for the products to dominate
            infer = self.guard(peer.prepare, *small.arrays, T)
            start = time.perf_counter()
            self.guard(infer)
            self.costs[peer.name] = (time.perf_counter() - start) / peer.work(small)
        expected = self.costs.get(peer.name, 0) * peer.work(problem)
        if expected > (REQUESTED_LIMIT if peer.name in self.options.requested else self.limit):
            raise LeftOutError(f"would take about {time_text(expected)}")

    def try_out(self, peer):
        """Call a peer and compare its beliefs; returns the function to time, the seconds to prepare and to call it."""
        start = time.perf_counter()
        infer = self.guard(peer.prepare, *self.problem.arrays, T)
        prepared = time.perf_counter() - start
        start = time.perf_counter()
        self.last[peer] = self.guard(infer)
        once = time.perf_counter() - start
        self.compare(peer, self.last[peer])
        return infer, prepared, once

    def compare(self, peer, beliefs):
        """Raise LeftOutError unless the beliefs of the peer are ours."""
        if isinstance(beliefs, LeftOutError):
            raise beliefs
        if peer.schedule not in self.truth:
            self.truth[peer.schedule] = self.problem.beliefs(peer.schedule)
        truth = self.truth[peer.schedule]
        self.differences[peer] = self.guard(difference, beliefs, truth)
        tolerance = 1e-4 if truth[0].dtype == np.float32 else peer.tolerance  # on the largest, ours is float32
        if not self.differences[peer] <= tolerance:
            raise LeftOutError(f"DISAGREES: a belief differs by {self.differences[peer]:.1e} from ours")

    def guard(self, function, *args):
        """Call the function; LeftOutError if it fails."""
        try:
            return function(*args)
        except (Exception, SystemExit) as error:  # anything may go wrong in other people's code, and is reported
            raise LeftOutError(f"failed: {type(error).__name__}: {error}".splitlines()[0]) from error


def difference(a, b):
    """The largest difference of two beliefs; infinite if one of them is not a number."""
    worst = max(float(np.abs(np.asarray(x, np.float64) - y).max()) for x, y in zip(a, b, strict=True))
    return worst if worst == worst else float("inf")


def all_peers(libdai=None):
    """Every peer, ours first; libDAI is among them if the prefix of an installation is given."""
    from bench.peers import arrays, engine, factor_graphs, naive, numba_loops
    from bench.peers import libdai as libdai_

    rest = [*naive.PEERS, *numba_loops.PEERS, *arrays.PEERS, *factor_graphs.PEERS]
    return [*engine.PEERS, *rest, *([libdai_.peer(libdai)] if libdai else [])]
