"""The per-edge yardstick of the benchmark: right on any pairwise graph, and the engine's equal on RBMs."""

import itertools

import numpy as np
import pytest
from helpers import ROOT, make_rbm
from helpers.sanitizers import checks_passed

import crbm_fast as cf
from bench import _compiler, naive
from bench._problems import BenchError
from bench.naive import Graph


def marginals_by_enumeration(states, potentials, tables):
    """[(states_i,)] of prod_i potential_i prod_ij table_ij."""
    out = [np.zeros(s) for s in states]
    for x in itertools.product(*map(range, states)):
        p = np.prod([potentials[i][x[i]] for i in range(len(x))])
        p *= np.prod([table[x[i], x[j]] for (i, j), table in tables.items()])
        for i, value in enumerate(x):
            out[i][value] += p
    return [p / p.sum() for p in out]


@pytest.mark.parametrize("cache", [False, True])
def test_a_tree_with_any_number_of_states_is_exact(cache, rng):
    """0 - 2 - 1,  2 - 4 - 3:  neither binary nor bipartite by number."""
    states = (2, 3, 4, 1, 16)
    potentials = [rng.uniform(0.1, 9, s) for s in states]
    tables = {(i, j): rng.uniform(0.1, 9, (states[i], states[j])) for i, j in [(0, 2), (2, 1), (2, 4), (4, 3)]}
    graph = Graph(states)
    for i, p in enumerate(potentials):
        graph.set_potential(i, p)
    for (i, j), table in tables.items():
        graph.add_factor(i, j, table)
    graph.run(5, cache)
    for i, truth in enumerate(marginals_by_enumeration(states, potentials, tables)):
        np.testing.assert_allclose(graph.belief(i), truth, rtol=1e-13)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(
    ("nv", "nh", "scale", "T"), [(1, 1, 1, 1), (3, 2, 1, 2), (17, 40, 0.5, 7), (70, 33, 5, 3), (0, 3, 1, 2)]
)
def test_equals_the_engine_iteration_by_iteration(nv, nh, scale, T, cache, rng):
    W, b1, b2 = make_rbm(rng, nv, nh, scale=scale)
    graph = Graph.from_rbm(W, b1, b2)
    graph.run(T, cache)
    graph.run(T, cache)  # a run starts from uniform messages
    tau = graph.beliefs().reshape(-1, 2)[:, 1]
    np.testing.assert_array_equal(tau, [graph.belief(i)[1] for i in range(nh + nv)])
    want = cf.infer(W, b1, b2, max_iter=T, tol=0)
    np.testing.assert_allclose(tau[nh:], want.tau_v, rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(tau[:nh], want.tau_h, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("cache", [False, True])
def test_many_strong_neighbours_do_not_underflow(cache):
    """4,000 messages of 1e-8 and their inverses: their product would pass 1e-30000 on the way."""
    W = np.where(np.arange(4000) < 2000, 18.0, -18.0)[:, None]
    b1 = np.where(np.arange(4000) < 2000, 30.0, 3.0)
    graph = Graph.from_rbm(W, b1, [0.5])
    graph.run(2, cache)
    want = cf.infer(W, b1, [0.5], max_iter=2, tol=0)
    np.testing.assert_allclose(graph.belief(0)[1], want.tau_h[0], rtol=1e-9)
    np.testing.assert_allclose(graph.beliefs()[3::2], want.tau_v, rtol=1e-9)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(("n", "strength"), [(1000, 1.5), (100, 10.0), (64, 20.0)])
def test_a_state_far_behind_may_come_back(n, strength, cache):
    """n neighbours against a state, then more for it: a bug once had it at 0 for good."""
    W = np.r_[np.full(n, -strength), np.full(n + n // 5, strength)][:, None]
    b1 = np.full(len(W), 30.0)
    graph = Graph.from_rbm(W, b1, [0.5])
    graph.run(2, cache)
    want = cf.infer(W, b1, [0.5], max_iter=2, tol=0)
    np.testing.assert_allclose(graph.belief(0)[1], want.tau_h[0], rtol=1e-9)
    np.testing.assert_allclose(graph.beliefs()[3::2], want.tau_v, rtol=1e-9)


def test_entries_may_be_as_large_as_they_come():
    graph = Graph([2, 2])
    graph.add_factor(0, 1, np.full((2, 2), 1.7e308))
    graph.set_potential(0, [1e-300, 1.7e308])
    graph.run(2)
    np.testing.assert_array_equal(graph.belief(1), [0.5, 0.5])
    np.testing.assert_array_equal(graph.belief(0), [0, 1])


@pytest.mark.parametrize("cache", [False, True])
def test_the_message_left_out_may_be_the_one_before_a_scaling(cache, rng):
    """A hub of three states with 64 leaves, each of which leaves one state at 1e-9: a bug once gave NaN."""
    graph = Graph([3] + [2] * 64)
    tables = [np.full((3, 2), 1e-9) for _ in range(64)]
    for k, table in enumerate(tables):
        table[k % 3] = rng.uniform(0.5, 1, 2)
        graph.add_factor(0, 1 + k, table)
    graph.run(2, cache)
    hub = np.exp(sum(np.log(t.sum(1)) for t in tables) - 64 * np.log(1e-6))
    np.testing.assert_allclose(graph.belief(0), hub / hub.sum(), rtol=1e-9)
    for k, table in enumerate(tables):
        rest = sum(np.log(t.sum(1)) for i, t in enumerate(tables) if i != k)
        leaf = np.exp(rest - rest.max()) @ table
        np.testing.assert_allclose(graph.belief(1 + k), leaf / leaf.sum(), rtol=1e-9)


def test_bad_graphs_get_a_clear_error(rng):
    for states in ([2, 17], [2, 0], [2**40]):
        with pytest.raises(ValueError, match=rf"a variable has from 1 to 16 states; got {states[-1]}$"):
            Graph(states)
    with pytest.raises(ValueError, match="n_iter=-1 is negative"):
        Graph([2]).run(-1)
    graph = Graph([2, 3])
    with pytest.raises(IndexError, match="no variable 2 among 2"):
        graph.belief(2)
    with pytest.raises(ValueError, match=r"potential has shape \(3,\); expected \(2,\)"):
        graph.set_potential(0, np.ones(3))
    with pytest.raises(ValueError, match="table must be positive and finite"):
        graph.add_factor(0, 1, np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"table differ by more than a factor of 1e\+09"):
        graph.add_factor(0, 1, [[1, 1, 1], [1, 1, 1e10]])
    with pytest.raises(ValueError, match="a factor joins two variables; both are 1"):
        graph.add_factor(1, 1, np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"W has an entry of size 30\.0; expected at most 20\.7"):
        Graph.from_rbm([[30.0]], [0.0], [0.0])


def test_limits_are_those_of_the_header():
    header = (ROOT / "bench/naive.h").read_text()
    assert f"#define CRBM_GRAPH_STATES {naive.MAX_STATES} " in header
    assert f"#define CRBM_GRAPH_RATIO {naive.MAX_RATIO:.0e} ".replace("e+0", "e") in header
    assert f"CRBM_RECOMPUTE = {naive.RECOMPUTE}," in header
    assert f"CRBM_CACHE = {naive.CACHE} " in header


def test_without_a_compiler_the_message_says_so(monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(BenchError, match=r"bench/machine_limits\.c was not compiled; install a C compiler"):
        _compiler.load_library("machine_limits.c")


def test_graphs_under_sanitizers(tmp_path):
    sources = f"-I{ROOT / 'bench'}", ROOT / "bench/naive.c", ROOT / "tests/bench/check_naive.c"
    assert checks_passed(tmp_path / "check", *sources) > 1000
