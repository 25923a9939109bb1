"""crbm_fast itself."""

from functools import partial

import numpy as np

import crbm_fast as cf
from bench._problems import T
from bench.peers import Peer


def engine_run(arrays, dtype=np.float32, n_threads=1, **kw):
    """A repeated call of Engine.run, ready to be timed: T iterations unless `kw` says otherwise."""
    W, b1, b2 = (a.astype(dtype, copy=False) for a in arrays)
    engine = cf.Engine(W, n_threads=n_threads)
    kw = {"max_iter": T, "tol": 0, **kw}
    return partial(engine.run, b1, b2, out=engine.run(b1, b2, **kw), **kw)


def prepare(dtype, W, b1, b2, T):
    run = engine_run((W, b1, b2), dtype, max_iter=T)

    def infer():
        b = run()
        return b.tau_v, b.tau_h

    return infer


PEERS = [
    Peer("crbm_fast float32", partial(prepare, np.float32), bytes_per_edge=8, takes_batches=True, ours=True),
    Peer(
        "crbm_fast float64", partial(prepare, np.float64), "float64", bytes_per_edge=24, takes_batches=True, ours=True
    ),
]
