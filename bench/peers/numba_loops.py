"""Loops compiled by numba."""

from functools import partial

import numpy as np

from bench.peers import Peer, each


def prepare(which, W, b1, b2, T):
    from bench.peers import _numba_kernels as kernels

    nv, nh = W.shape
    run = getattr(kernels, which)
    E, m = np.exp(W), np.empty_like(W)
    # arrays of their own: with rows of one matrix LLVM does not vectorise, and `tuned` takes four times as long
    columns, rows = (tuple(np.empty(n, np.float32) for _ in range(k)) for k, n in ((4, nh), (2, nv)))
    K = kernels.factors(W)

    def one(b1, b2):
        run(E, b1, b2, T, K, m, columns, rows)
        return rows[0].copy(), columns[0].copy()

    return each(one, b1, b2)


NUMBA = {"modules": ("numba",), "install": "pip install numba", "bytes_per_edge": 8, "takes_batches": True}
PEERS = [
    Peer("numba, plain loops", partial(prepare, "plain"), **NUMBA),
    Peer("numba, tuned", partial(prepare, "tuned"), **NUMBA),
]
