"""Belief propagation in a pool of Python threads, in two ways.

    python thread_pool.py

  - one `Engine` per thread: the comfortable way, with checks and exceptions;
  - one workspace of `ctypes_api` per thread, results at addresses: the short way, for small models and many calls.

Both work without the GIL, so the threads run at the same time, and their results have the same bits as those of one
call for the whole batch.  (Where all instances are there at once, that call is best: it has threads of its own.)

Prints for both ways the largest difference from that call, 0.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import crbm_fast as cf
from crbm_fast import ctypes_api as bp

MAX_ITER, TOL = 50, 1e-4


def pieces(N):
    """Tasks for the pool: a single instance would be less work than handing it over."""
    return [range(first, min(first + 20, N)) for first in range(0, N, 20)]


def with_engines(W, B1, B2, n_threads=2):
    """P(v = 1) of every instance (N, nv)."""
    tau_v = np.empty_like(B1)
    mine = threading.local()

    def start():
        mine.engine = cf.Engine(W, n_threads=1)  # the pool has the threads
        mine.out = None

    def infer(rows):
        for n in rows:
            mine.out = mine.engine.run(B1[n], B2[n], max_iter=MAX_ITER, tol=TOL, out=mine.out)
            tau_v[n] = mine.out.tau_v

    with ThreadPoolExecutor(n_threads, initializer=start) as pool:
        list(pool.map(infer, pieces(len(B1))))  # raises what a thread raised
    return tau_v


def with_workspaces(W, B1, B2, n_threads=2):
    """The same."""
    B1, B2 = (np.ascontiguousarray(b, W.dtype) for b in (B1, B2))  # an address does not tell the type
    tau_v, tau_h = np.empty_like(B1), np.empty_like(B2)
    v, h, b1, b2 = (a.ctypes.data for a in (tau_v, tau_h, B1, B2))
    row_v, row_h = B1.strides[0], B2.strides[0]
    mine = threading.local()

    def start():
        mine.workspace = bp.workspace(W)  # keeps the memory

    def infer(rows):
        at = mine.workspace.ctypes.data
        for n in rows:
            i, j = n * row_v, n * row_h
            bp.check(bp.run(at, v + i, h + j, None, None, b1 + i, b2 + j, bp.SUM_PRODUCT, MAX_ITER, TOL, 0, 0))

    with ThreadPoolExecutor(n_threads, initializer=start) as pool:
        list(pool.map(infer, pieces(len(B1))))
    return tau_v


def main():
    rng = np.random.default_rng(0)
    W = rng.normal(0, 0.1, (200, 100)).astype(np.float32)
    B1, B2 = (rng.normal(size=(300, n)).astype(np.float32) for n in W.shape)  # 300 instances
    one_call = cf.infer(W, B1, B2, max_iter=MAX_ITER, tol=TOL)
    for way in (with_engines, with_workspaces):
        print(f"{way.__name__}: largest difference {np.abs(way(W, B1, B2) - one_call.tau_v).max()}")


if __name__ == "__main__":
    main()
