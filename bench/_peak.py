"""Measure the peak memory of one run, in a process of its own (Linux): prints the bytes beyond inputs and results.

python -m bench._peak engine NV NH N THREADS GAMMA [METHOD]     N = 0: one RBM
python -m bench._peak peer NAME NV NH
python -m bench._peak training N                         instances of 128 outputs
"""

import ctypes
import gc
import sys

import numpy as np

import crbm_fast as cf
from bench._problems import Problem, T
from bench.peers import all_peers


def status(key):
    """A size in bytes from the kernel's account of this process."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key)) * 1024


def peak(function):
    """The largest growth of the resident memory while `function` runs."""
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the peak is now the present size
    before = status("VmRSS")
    kept = function()
    after = status("VmHWM")
    del kept
    return after - before


def engine(nv, nh, N, threads, gamma, method="sum-product"):
    W, b1, b2 = Problem(nv, nh, N or None).arrays
    kw = {"max_iter": 3, "tol": 0, "method": method} | ({"gamma": "sum" if N else True} if gamma else {})
    batch = (N,) if N else ()
    out = cf.Beliefs(
        np.ones((*batch, nv), "f4"),
        np.ones((*batch, nh), "f4"),
        np.ones(N, "i8"),
        np.ones(N, bool),
        np.ones(N),
        np.ones((nv, nh), "f4") if gamma else None,
    )
    small = cf.Engine(W[:40, :30].copy(), n_threads=threads)  # code, threads and libraries are loaded
    small.run(np.zeros((8, 40), "f4"), np.zeros(30, "f4"), max_iter=3, tol=0)
    return peak(lambda: cf.Engine(W, n_threads=threads).run(b1, b2, out=out, **kw))


def peer(name, nv, nh):
    chosen = next(p for p in all_peers() if p.name == name)
    arrays = Problem(nv, nh).arrays

    def run():
        infer = chosen.prepare(*arrays, T)
        infer()
        return infer

    run()  # libraries are loaded and compilers have run for this size
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return peak(run)


def training(N):
    X = np.random.default_rng(0).integers(0, 2, (N, 128), dtype=np.uint8)
    kw = {"epochs": 1, "batch_size": 100, "validation": 0.1, "progress": False}
    cf.train(cf.CRBM(128, 32, 128, n_threads=1), X[:2000], X[:2000], **kw)  # code and libraries are loaded
    return peak(lambda: cf.train(cf.CRBM(128, 32, 128, n_threads=1), X, X, **kw))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    run = {"engine": engine, "peer": peer, "training": training}[kind]
    print(run(*(int(a) if a.isdigit() else a for a in rest)))
