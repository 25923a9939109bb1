"""Per-edge BP in C, as a general factor-graph library does it: bench/naive.h."""

from functools import partial

from bench.naive import Graph
from bench.peers import Peer


def prepare(cache, W, b1, b2, T):
    nh = W.shape[1]
    graph = Graph.from_rbm(W, b1, b2)

    def infer():
        graph.run(T, cache)
        tau = graph.beliefs()[1::2]
        return tau[nh:], tau[:nh]

    return infer


PEERS = [
    Peer("per edge, C", partial(prepare, False), "float64", bytes_per_edge=200, grows_with_degree=True),
    Peer("per edge, C, cached products", partial(prepare, True), "float64", bytes_per_edge=200),
]
