"""crbm_fast itself."""

from functools import partial

import numpy as np

import crbm_fast as cf
from bench.peers import Peer


def prepare(dtype, W, b1, b2, T, n_threads=1):
    b1, b2 = b1.astype(dtype), b2.astype(dtype)
    engine = cf.Engine(W, dtype=dtype, n_threads=n_threads)
    kw = {"max_iter": T, "tol": 0}
    out = engine.run(b1, b2, **kw)

    def infer():
        b = engine.run(b1, b2, out=out, **kw)
        return b.tau_v, b.tau_h

    return infer


PEERS = [
    Peer("crbm_fast float32", partial(prepare, np.float32), bytes_per_edge=8, batch=True, ours=True),
    Peer("crbm_fast float64", partial(prepare, np.float64), "float64", bytes_per_edge=24, batch=True),
]
