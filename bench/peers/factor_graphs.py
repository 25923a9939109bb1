"""General factor-graph packages.

An RBM has a variable with two states per unit, the bias of the unit as evidence, prior or factor, and a factor
[[1, 1], [1, exp(W_ij)]] per edge.
"""

import warnings

import numpy as np

from bench.peers import Peer


def tables(W):
    """The logarithms of the factors, (nv, nh, 2, 2): W_ij where both units are on."""
    out = np.zeros((*W.shape, 2, 2))
    out[:, :, 1, 1] = W
    return out


def prepare_pgmax(W, b1, b2, T):
    import jax
    from pgmax import fgraph, fgroup, infer, vgroup

    nv, nh = W.shape
    v, h = vgroup.NDVarArray(num_states=2, shape=(nv,)), vgroup.NDVarArray(num_states=2, shape=(nh,))
    graph = fgraph.FactorGraph(variable_groups=[v, h])
    graph.add_factors(
        fgroup.PairwiseFactorGroup(
            variables_for_factors=[[v[i], h[j]] for i in range(nv) for j in range(nh)],
            log_potential_matrix=tables(W).reshape(-1, 2, 2),
        )
    )
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    start = bp.init(evidence_updates={u: np.stack([0 * b, b], axis=1) for u, b in ((v, b1), (h, b2))})

    @jax.jit
    def run(arrays):
        marginals = infer.get_marginals(bp.get_beliefs(bp.run(arrays, num_iters=T, damping=0.0, temperature=1.0)))
        return marginals[v][:, 1], marginals[h][:, 1]

    return lambda: tuple(np.asarray(t) for t in run(start))


def prepare_pomegranate(W, b1, b2, T):
    import torch
    from pomegranate.distributions import Categorical, JointCategorical
    from pomegranate.factor_graph import FactorGraph

    torch.set_num_threads(1)
    nv, nh = W.shape
    psi = np.exp(tables(W)).astype(np.float32)
    psi /= psi.sum((2, 3), keepdims=True)  # it wants distributions
    p = 1 / (1 + np.exp(-np.concatenate([b1, b2])))
    units = [Categorical([[1 - q, q]]) for q in p.tolist()]
    graph = FactorGraph(max_iter=T)
    graph.tol = -np.inf  # T iterations, never fewer
    for unit in units:
        graph.add_marginal(unit)
    for i in range(nv):
        for j in range(nh):
            factor = JointCategorical(psi[i, j].tolist())
            graph.add_factor(factor)
            graph.add_edge(units[i], factor)
            graph.add_edge(units[nv + j], factor)
    nothing = torch.zeros((1, nv + nh), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*MaskedTensors is in prototype stage")
        unknown = torch.masked.MaskedTensor(nothing, nothing.bool())

    def one():
        tau = np.array([float(q[0, 1]) for q in graph.predict_proba(unknown)])
        return tau[:nv], tau[nv:]

    return one


def prepare_factorgraph(W, b1, b2, T):
    import factorgraph

    nv, nh = W.shape
    psi = np.exp(tables(W))
    graph = factorgraph.Graph(debug=False)
    units = [graph.rv(f"{k}{i}", 2, debug=False) for k, n in (("v", nv), ("h", nh)) for i in range(n)]
    for unit, b in zip(units, np.concatenate([b1, b2]).astype(np.float64), strict=True):
        graph.factor([unit], potential=np.array([1, np.exp(b)]), debug=False)
    for i in range(nv):
        for j in range(nh):
            graph.factor([units[i], units[nv + j]], potential=psi[i, j], debug=False)

    def one():
        graph.init_messages()
        for _ in range(T):  # one by one: it would stop when changes are below 1e-5
            graph.lbp(init=False, normalize=True, max_iters=1)
        tau = np.array([p[1] for _, p in graph.rv_marginals(units, normalize=True)])
        return tau[:nv], tau[nv:]

    return one


PEERS = [
    Peer(
        "PGMax",
        prepare_pgmax,
        modules=("pgmax", "jax", "numba", "scipy"),
        schedule="flooding",
        bytes_per_edge=3000,
        slow=True,
        install='pip install --no-deps pgmax==0.6.1 && pip install "jax<0.7" numba scipy',
    ),
    Peer(
        "pomegranate",
        prepare_pomegranate,
        modules=("pomegranate", "torch"),
        schedule="flooding",
        bytes_per_edge=20_000,
        grows_with_degree=True,
        slow=True,
        install="pip install pomegranate torch==2.13.0",
    ),
    Peer(
        "factorgraph",
        prepare_factorgraph,
        "float64",
        modules=("factorgraph",),
        schedule="late",
        bytes_per_edge=5000,
        grows_with_degree=True,
        slow=True,
        install="pip install factorgraph",
    ),
]
