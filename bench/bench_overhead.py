"""Calls with small models, whose overhead exceeds their arithmetic: microseconds per call on one thread."""

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._problems import Problem
from bench._timing import interleaved, pinned

SIZES = ((16, 8), (64, 32), (128, 64), (256, 128))


def calls(nv, nh):
    """{(what, iterations times instances): a call, ready to be timed}, of one iteration unless `what` says more."""
    W, b1, b2 = Problem(nv, nh).arrays
    engine = cf.Engine(W, n_threads=1)
    kw = {"max_iter": 1, "tol": 0}
    out = engine.run(b1, b2, **kw)
    with_gamma = engine.run(b1, b2, gamma=True, **kw)
    many = np.tile(b1, (100, 1)), np.tile(b2, (100, 1))
    batch = engine.run(*many, **kw)
    return {
        ("Engine.run, out=", 1): lambda: engine.run(b1, b2, out=out, **kw),
        ("Engine.run, out=, Gamma", 1): lambda: engine.run(b1, b2, out=with_gamma, gamma=True, **kw),
        ("Engine.run", 1): lambda: engine.run(b1, b2, **kw),
        ("Engine.run, out=, 10 iterations", 10): lambda: engine.run(b1, b2, max_iter=10, tol=0, out=out),
        ("Engine.run, out=, batch of 100", 100): lambda: engine.run(*many, out=batch, **kw),
        ("infer", 1): lambda: cf.infer(W, b1, b2, n_threads=1, **kw),
    }


def run(options):
    rows = []
    with pinned(1):
        for nv, nh in SIZES:
            options.progress(f"{nv}x{nh}")
            repeats, rounds = (2, 1) if options.quick else (9, 3)
            times = interleaved(lambda nv=nv, nh=nh: calls(nv, nh), repeats, rounds)
            rows += [_report.row(f"{nv}x{nh}", who, t, nv * nh * work) for (who, work), t in times.items()]
    smallest = next((r["min"] for r in rows if (r["case"], r["who"]) == ("16x8", "Engine.run, out=, Gamma")), None)
    bars = [("Engine.run on 16x8, 1 iteration and Gamma", "<=", 20, "us", smallest and 1e6 * smallest)]
    return _report.make("overhead", options, rows, [], bars)
