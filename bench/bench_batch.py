"""A batch of 100 instances at 784x256 that share their weights, on one thread: our methods, peers one by one."""

from functools import partial

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._problems import Problem, T
from bench._timing import interleaved, pinned
from bench.peers import measure

METHODS = ("sum-product", "mixed-product", "max-product", "mean-field", "tap")


def run(options):
    problem = Problem(*options.batch, N=5 if options.quick else 100)
    case = f"{problem.name}, batch of {problem.N}"
    with pinned(1):
        peers = [p for p in options.peers if p.batch]
        rows, left_out = measure(peers, problem, options, limit=60, costs={}, rounds=1)
        options.progress("our methods")
        own = interleaved(
            lambda: {
                **{f"{method}, float32": engine_run(problem, method=method) for method in METHODS},
                "sum-product, float64": engine_run(problem, np.float64),
            },
            2 if options.quick else 7, seconds=1 if options.quick else 5,
        )  # fmt: skip
    for r in rows:
        r["case"] = case
    rows += [_report.row(f"{case}, Gamma summed", who, t, problem.updates) for who, t in own.items()]
    s = {who: t["min"] for who, t in own.items()}
    base = s["sum-product, float32"]
    bars = [
        (f"{case}, Gamma summed: mixed-product against sum-product", ">=", 2, "x", base / s["mixed-product, float32"]),
        ("that batch: float64 / float32", "<=", 2.5, "x", s["sum-product, float64"] / base),
        ("that batch, per edge and iteration", "<=", 0.35, "ns", 1e9 * base / problem.updates),
    ]
    return _report.make("batch", options, rows, left_out, bars)


def engine_run(problem, dtype=np.float32, n_threads=1, **kw):
    """A repeated call of Engine.run, ready to be timed: T iterations and Gamma, summed over a batch."""
    W, b1, b2 = (a.astype(dtype) for a in problem.arrays)
    engine = cf.Engine(W, n_threads=n_threads)
    kw = {"max_iter": T, "tol": 0, "gamma": True if problem.N is None else "sum", **kw}
    return partial(engine.run, b1, b2, out=engine.run(b1, b2, **kw), **kw)
