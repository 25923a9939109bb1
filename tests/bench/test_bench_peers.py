"""Every installed peer computes what it is compared for; one that does not is reported and not timed."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT

from bench._options import Options
from bench._problems import Problem
from bench.bench_memory import peak
from bench.peers import Measurement, Peer, all_peers, difference, engine, libdai
from bench.peers.trainers import TRAINERS

INSTALLED = [p for p in all_peers() if p.installed]
ALL_PEERS = os.environ.get("CRBM_FAST_ALL_PEERS") == "1"  # .ci/run installs them all


@pytest.mark.skipif(not ALL_PEERS, reason="CRBM_FAST_ALL_PEERS=1 says that all peers are installed")
def test_all_peers_are_installed():
    assert [p.name for p in [*all_peers(), *TRAINERS] if not p.installed] == []


def rounding(peer):
    return 1e-5 if peer.dtype == "float32" else 1e-12


@pytest.mark.filterwarnings("ignore")  # other people's code
@pytest.mark.parametrize("peer", INSTALLED, ids=lambda p: p.name)
@pytest.mark.parametrize("T", [2, 3])
def test_peer_computes_the_messages_of_its_schedule(peer, T):
    """Iteration by iteration: one more or one less would be far off."""
    problem = Problem(12, 7, strength=10)
    beliefs = peer.prepare(*problem.arrays, T)()
    assert difference(beliefs, problem.beliefs(peer.schedule, T)) < rounding(peer)
    assert difference(beliefs, problem.beliefs(peer.schedule, T + 1)) > 3 * rounding(peer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", [p for p in INSTALLED if p.takes_batches], ids=lambda p: p.name)
def test_peer_computes_every_instance_of_a_batch(peer):
    problem = Problem(12, 7, N=3, strength=10)
    beliefs = peer.prepare(*problem.arrays, 2)()
    assert difference(beliefs, problem.beliefs(peer.schedule, 2)) < rounding(peer)


def flooding(W, b1, b2, steps, late):
    """All messages at once, edge by edge, in the plainest way: the truth for Problem.beliefs."""
    nv, nh = W.shape
    to_v, to_h = np.ones((nv, nh)), np.ones((nv, nh))  # m(1) / m(0) of h -> v and v -> h
    for t in range(steps):
        bias_v, bias_h = (0 * b1, 0 * b2) if late and t == 0 else (b1, b2)
        new_v, new_h = np.empty_like(to_v), np.empty_like(to_h)
        for i in range(nv):
            for j in range(nh):
                h = np.exp(bias_h[j]) * np.prod(np.delete(to_h[:, j], i))
                v = np.exp(bias_v[i]) * np.prod(np.delete(to_v[i], j))
                new_v[i, j] = (1 + np.exp(W[i, j]) * h) / (1 + h)
                new_h[i, j] = (1 + np.exp(W[i, j]) * v) / (1 + v)
        to_v, to_h = new_v, new_h
    odds_v, odds_h = np.exp(b1) * to_v.prod(1), np.exp(b2) * to_h.prod(0)
    return odds_v / (1 + odds_v), odds_h / (1 + odds_h)


# late, 1: nobody stops before the biases arrive
@pytest.mark.parametrize(
    ("schedule", "steps"), [(s, n) for s in ("flooding", "late") for n in (1, 2, 3, 6, 7) if (s, n) != ("late", 1)]
)
def test_beliefs_of_parallel_schedules(schedule, steps):
    problem = Problem(5, 4, strength=20)  # every step shows
    want = flooding(*(a.astype(np.float64) for a in problem.arrays), steps, schedule == "late")
    for a, b in zip(problem.beliefs(schedule, steps), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_peer_that_disagrees_or_fails_is_reported_and_not_timed():
    def wrong(W, b1, b2, T):
        return lambda: (np.full(len(b1), 0.5), np.full(len(b2), 0.5))

    def broken(W, b1, b2, T):
        raise OSError("no such thing\nand more")

    def tires(W, b1, b2, T):
        answers = iter(2 * [engine.PEERS[0].prepare(W, b1, b2, T)()])
        return lambda: next(answers)

    def drifts(W, b1, b2, T):
        answers = iter(2 * [engine.PEERS[0].prepare(W, b1, b2, T)()])
        return lambda: next(answers, (0 * b1, 0 * b2))

    def nan(W, b1, b2, T):
        return lambda: (np.full(len(b1), np.nan), np.full(len(b2), 0.5))

    peers = [
        engine.PEERS[0],
        Peer("wrong", wrong),
        Peer("broken", broken),
        Peer("nan", nan),
        Peer("tires", tires),
        Peer("drifts", drifts),
        Peer("greedy", wrong, bytes_per_edge=1e15),
    ]

    def measure(peers, costs, **options):
        return Measurement(Problem(9, 8), Options(quick=True, **options), 10, costs).run(peers)

    rows, left_out = measure(peers, {})
    assert [r["who"] for r in rows] == ["crbm_fast float32"]
    why = {item["who"]: item["why"] for item in left_out}
    assert why["wrong"].startswith("DISAGREES: a belief differs by ")
    assert why["nan"] == "DISAGREES: a belief differs by inf from ours"
    assert why["broken"] == "failed: OSError: no such thing"
    assert why["tires"].startswith("failed: StopIteration")
    assert why["drifts"].startswith("DISAGREES")
    assert why["greedy"].startswith("needs about 72000")
    costs = {"crbm_fast float32": 0.1}
    rows, left_out = measure(peers[:1], costs)
    assert (rows, left_out[0]["why"]) == ([], "would take about 72 s")
    rows, left_out = measure(peers[:1], costs, requested=frozenset(["crbm_fast float32"]))
    assert (len(rows), left_out) == (1, [])
    assert costs["crbm_fast float32"] < 1e-3  # brought up to date


@pytest.mark.parametrize(("nv", "nh"), [(6, 5), (30, 20)])
def test_libdai_driver_speaks_with_a_stand_in(nv, nh, tmp_path):
    """The driver, how it is compiled and talked to; libDAI itself is not to be had from a package registry."""
    (tmp_path / "include/dai").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "include/dai/bp.h").write_bytes((ROOT / "tests/bench/fake_libdai.h").read_bytes())
    (tmp_path / "include/dai/factorgraph.h").write_text('#include "bp.h"\n')
    for name in ("dai", "gmp", "gmpxx"):
        (tmp_path / "empty.c").write_text("")
        subprocess.run(["cc", "-c", tmp_path / "empty.c", "-o", tmp_path / "empty.o"], check=True)
        subprocess.run(["ar", "rc", tmp_path / f"lib/lib{name}.a", tmp_path / "empty.o"], check=True)
    peer, problem = libdai.peer(tmp_path), Problem(nv, nh)
    infer = peer.prepare(*problem.arrays, 6)
    for _ in range(2):
        assert difference(infer(), problem.beliefs(peer.schedule, 6)) < 1e-12


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize("args", [("peer", "NumPy float32, our form", 300, 200), ("training", 3000)])
def test_peak_memory_is_measured_in_a_process_of_its_own(args):
    size = peak(*args)
    assert 2e5 < size < 1e8  # a matrix of 300x200 is 240,000 bytes
