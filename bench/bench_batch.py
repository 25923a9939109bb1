"""A batch of 100 instances at 784x256 that share their weights, on one thread: each of our methods, and each peer."""

import numpy as np

from bench import _report
from bench._problems import Problem
from bench._timing import interleaved, pinned
from bench.peers import Measurement
from bench.peers.engine import engine_run
from crbm_fast.inference import METHODS

ITERATIVE = [method.name for method in METHODS.values() if method.state is not None]  # enumeration has no iterations


def run(options):
    problem = Problem(*options.batch_size, N=5 if options.quick else 100)
    case = f"{problem.name}, batch of {problem.N}"
    with pinned(1):
        peers = [p for p in options.peers if p.takes_batches]
        rows, left_out = Measurement(problem, options, limit=60, costs={}).run(peers)
        options.progress("our methods")
        own = interleaved(
            lambda: {
                **{f"{m}, float32": engine_run(problem.arrays, method=m, gamma="sum") for m in ITERATIVE},
                "sum-product, float64": engine_run(problem.arrays, np.float64, gamma="sum"),
            },
            2 if options.quick else 7,
            seconds=1 if options.quick else 5,
        )
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
