"""Per-edge BP in C, as a general factor-graph library does it: csrc/naive.h."""

from functools import partial

import numpy as np

from bench.peers import Peer
from crbm_fast import _naive


def prepare(cache, W, b1, b2, T):
    nv, nh = W.shape
    graph = _naive.rbm(W, b1, b2)

    def infer():
        graph.run(T, cache)
        tau = np.array([graph.belief(i)[1] for i in range(nh + nv)])
        return tau[nh:], tau[:nh]

    return infer


PEERS = [
    Peer("per edge, C", partial(prepare, False), "float64", bytes_per_edge=200, degree=True),
    Peer("per edge, C, cached products", partial(prepare, True), "float64", bytes_per_edge=200),
]
