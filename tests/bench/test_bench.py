"""The benchmark cannot rot: every suite at toy size, every peer installed, the command line, the README's tables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench/results"


@pytest.fixture(autouse=True)
def bench_can_be_imported(monkeypatch):
    """From the clone, behind the installed package."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])


def run_bench(*args):
    return subprocess.run([sys.executable, "-m", "bench", *args], cwd=ROOT, capture_output=True, text=True, check=False)


# --- suites -------------------------------------------------------------------------------------------------------

TOY = """
import json, sys
from bench import __main__ as main, bench_memory, bench_training
from bench.peers import all_peers
from bench.peers.trainers import TRAINERS
bench_training.SIDE, bench_training.NH, bench_training.N = 8, 6, 1200
bench_memory.CASES = {k: (80, 40, N and 8, *rest) for k, (_, _, N, *rest) in bench_memory.CASES.items()}
suite, folder = sys.argv[1:]
few = ("crbm_fast", "per edge", "NumPy")
options = main.Options(quick=True, sizes=((20, 10), (30, 20)), single=(30, 20), batch=(24, 16),
                       peers=[p for p in all_peers() if p.name.startswith(few)],
                       trainers=[t for t in TRAINERS if t.installed])
module = main.importlib.import_module(f"bench.bench_{suite}")
report = module.run(options)
main._report.show(report)
main.save(report, module, main.Path(folder))
"""


SUITES = ("peers", "scaling", "batch", "training", "threads", "isa", "memory", "overhead", "embedding", "samplers")
PICTURES = {"peers", "scaling", "training", "threads", "isa", "samplers"}


@pytest.mark.parametrize("suite", SUITES)
def test_suite_runs_at_toy_size(suite, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", TOY, suite, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    report = json.loads((tmp_path / f"{suite}.json").read_text())
    check_schema(report, suite)
    assert report["rows"]
    for r in report["rows"]:
        assert r["who"] in run.stdout
    assert (tmp_path / f"{suite}.png").exists() == (suite in PICTURES)


def check_schema(report, suite):
    head = {
        "suite": str,
        "quick": bool,
        "date": str,
        "machine": dict,
        "config": dict,
        "T": int,
        "pinned": bool,
        "versions": dict,
        "rows": list,
        "left_out": list,
        "bars": list,
    }
    for key, kind in head.items():
        assert isinstance(report[key], kind), key
    assert report["suite"] == suite
    assert report["machine"].keys() >= {"name", "cpu", "cores", "memory"}
    assert report["config"].keys() >= {"crbm_fast", "numpy", "instruction set", "BLAS", "threads"}
    for r in report["rows"]:
        assert r.keys() >= {"case", "who", "unit", "min", "median", "spread", "repeats"}
        assert 0 <= r["min"] <= r["median"] < np.inf
        assert r["spread"] >= 0
        assert r["repeats"] >= 1
        assert r["unit"] in ("s", "GB", "MB", "rounds", "allocations", "samples/s", "%")
        assert ("calls" in r) == (r["unit"] == "s" and "cited" not in r)
    assert len({(r["case"], r["who"]) for r in report["rows"]}) == len(report["rows"])
    for item in report["left_out"]:
        assert item.keys() == {"case", "who", "why"}
    for b in report["bars"]:
        assert b.keys() == {"what", "sense", "bar", "unit", "measured", "reached"}
        assert np.isfinite(b["measured"])
        assert b["reached"] == (b["measured"] >= b["bar"] if b["sense"] == ">=" else b["measured"] <= b["bar"])


# --- peers --------------------------------------------------------------------------------------------------------


def installed_peers():
    """Imports bench for the first time; what that does to the environment is undone."""
    environment, path = dict(os.environ), list(sys.path)
    try:
        sys.path.append(str(ROOT))
        from bench.peers import all_peers, trainers

        peers = all_peers()
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
    if os.environ.get("CRBM_FAST_ALL_PEERS") == "1":  # .ci/run installs them all
        assert [p.name for p in [*peers, *trainers.TRAINERS] if not p.installed] == []
    return [p for p in peers if p.installed]


@pytest.mark.filterwarnings("ignore")  # other people's code
@pytest.mark.parametrize("peer", installed_peers(), ids=lambda p: p.name)
@pytest.mark.parametrize("T", [2, 3])
def test_peer_computes_the_messages_of_its_schedule(peer, T):
    """Iteration by iteration: one more or one less would be far off."""
    from bench._problems import Problem
    from bench.peers import difference

    problem = Problem(12, 7, strength=10)
    tight = 1e-5 if peer.dtype == "float32" else 1e-12
    beliefs = peer.prepare(*problem.arrays, T)()
    assert difference(beliefs, problem.beliefs(peer.schedule, T)) < tight
    assert difference(beliefs, problem.beliefs(peer.schedule, T + 1)) > 3 * tight
    if peer.batch:
        problem = Problem(12, 7, N=3, strength=10)
        assert difference(peer.prepare(*problem.arrays, T)(), problem.beliefs(peer.schedule, T)) < tight


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
    from bench._problems import Problem

    problem = Problem(5, 4, strength=20)  # every step shows
    want = flooding(*(a.astype(np.float64) for a in problem.arrays), steps, schedule == "late")
    for a, b in zip(problem.beliefs(schedule, steps), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_peer_that_disagrees_or_fails_is_reported_and_not_timed():
    from bench._options import Options
    from bench._problems import Problem
    from bench.peers import Measurement, Peer, engine

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
    rows, left_out = measure(peers[:1], costs, asked=frozenset(["crbm_fast float32"]))
    assert (len(rows), left_out) == (1, [])
    assert costs["crbm_fast float32"] < 1e-3  # brought up to date


FAKE_LIBDAI = """
// Just enough of libDAI's interface for the driver: parallel updates with libDAI's messages from factors to variables.
#pragma once
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>
namespace dai {
struct Exception : std::runtime_error { using std::runtime_error::runtime_error; };
struct Var { std::size_t label; Var(std::size_t l, std::size_t) : label(l) {} };
struct VarSet {
    std::vector<std::size_t> labels;
    VarSet(const Var &a) : labels{a.label} {}
    VarSet(const Var &a, const Var &b) : labels{a.label, b.label} {}
};
struct Factor {
    VarSet vars; std::vector<double> p;
    Factor(const VarSet &v, double x) : vars(v), p(1u << v.labels.size(), x) {}
    void set(std::size_t i, double x) { p[i] = x; }
    double operator[](std::size_t i) const { return p[i]; }
};
struct FactorGraph { std::vector<Factor> factors; FactorGraph(const std::vector<Factor> &f) : factors(f) {} };
struct PropertySet { std::string text; PropertySet(const std::string &s) : text(s) {} };
struct BP {
    FactorGraph g; int maxiter; bool logdomain; std::size_t n = 0;
    std::vector<double> m;                   // (factor, end): log of m(1) / m(0)
    BP(const FactorGraph &graph, const PropertySet &p) : g(graph) {
        for (auto key : {"tol=0", "updates=PARALL", "verbose=0"})
            if (p.text.find(key) == std::string::npos) throw Exception(key);
        maxiter = std::stoi(p.text.substr(p.text.find("maxiter=") + 8));
        logdomain = p.text.find("logdomain=1") != std::string::npos;
        for (auto &f : g.factors) for (auto l : f.vars.labels) n = std::max(n, l + 1);
    }
    void init() { m.assign(2 * g.factors.size(), 0); }
    std::vector<double> totals() const {
        std::vector<double> t(n, 0);
        for (std::size_t f = 0; f < g.factors.size(); f++)
            for (std::size_t e = 0; e < g.factors[f].vars.labels.size(); e++)
                t[g.factors[f].vars.labels[e]] += m[2 * f + e];
        return t;
    }
    double run() {
        if (!logdomain && n > 40) throw Exception("Quantity not normalizable");
        for (int it = 0; it < maxiter; it++) {
            auto t = totals(), old = m;
            for (std::size_t f = 0; f < g.factors.size(); f++) {
                auto &F = g.factors[f]; auto &l = F.vars.labels;
                if (l.size() == 1) m[2 * f] = std::log(F.p[1] / F.p[0]);
                else for (int e = 0; e < 2; e++) {
                    double o = std::exp(t[l[1 - e]] - old[2 * f + 1 - e]);
                    m[2 * f + e] = std::log((F.p[e ? 2 : 1] + F.p[3] * o) / (F.p[0] + F.p[e ? 1 : 2] * o));
                }
            }
        }
        return 0;
    }
    Factor beliefV(std::size_t i) const {
        Factor b(Var(i, 2), 0); double o = std::exp(totals()[i]);
        b.set(0, 1 / (1 + o)); b.set(1, o / (1 + o)); return b;
    }
};
}
"""


@pytest.mark.parametrize(("nv", "nh"), [(6, 5), (30, 20)])
def test_libdai_driver_speaks_with_a_stand_in(nv, nh, tmp_path):
    """The driver, how it is compiled and talked to; libDAI itself is not to be had from a package registry."""
    from bench._problems import Problem
    from bench.peers import difference, libdai

    (tmp_path / "include/dai").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "include/dai/bp.h").write_text(FAKE_LIBDAI)
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
    from bench.bench_memory import peak

    size = peak(*args)
    assert 2e5 < size < 1e8  # a matrix of 300x200 is 240,000 bytes


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nonsense"], "bench: no suite 'nonsense'; choose from: peers, scaling, "),
        (["--peers", "nobody"], "bench: no peer 'nobody'; python -m bench --list names them"),
        (["--sizes", "10by10"], "bench: '10by10' is not a size; write visible x hidden units, such as 1000x500"),
        (["--sizes", "9999999x9999999"], "bench: --sizes 9999999x9999999 does not fit in memory: it needs about 2"),
        (["--libdai", "nowhere"], "bench: --libdai nowhere: no include/dai/bp.h below it"),
        (["--compare", "nowhere"], "bench: --compare nowhere: there is no report of peers or scaling"),
        (["--threshold", "0.5"], "bench: --threshold 0.5 is not above 1"),
        (["--threshold", "nan"], "bench: --threshold nan is not above 1"),
        (["--quick", "--save"], "bench: --save without a folder keeps whole reports only; name one: --save DIR"),
        (["--save", "peers"], "bench: --save peers: name the suites before the options, or write --save ./peers"),
        (["--save", "README.md"], "bench: --save README.md is not a folder"),
    ],
)
def test_what_cannot_be_done_gets_a_clear_message(argv, message, capsys, monkeypatch):
    from bench import __main__ as main

    monkeypatch.chdir(ROOT)
    assert main.main(argv) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_peer_that_is_not_installed_gets_the_command_that_installs_it(monkeypatch, capsys):
    from bench import __main__ as main
    from bench import peers

    find_spec = peers.importlib.util.find_spec
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None if name == "jax" else find_spec(name))
    assert main.main(["--peers", "jax"]) == 2
    assert capsys.readouterr().err == 'bench: JAX jitted, paper\'s form is not installed; pip install "jax<0.7"\n'
    assert main.main(["--list"]) == 0
    out = capsys.readouterr().out
    assert "libDAI                             libDAI 0.3, 10 iterations" in out
    assert "rbms float32" in out
    assert 'JAX jitted, our form               missing: pip install "jax<0.7"' in out
    assert "per edge, C                        installed" in out
    chosen = main.options(main.parse(["--peers", "NumPy"]))
    assert {p.name.split()[0] for p in chosen.peers} == {"crbm_fast", "NumPy"}
    assert {p.name.split()[0] for p in chosen.trainers} == {"RBM"}
    everybody = main.options(main.parse([]))
    assert {"case": "not installed", "who": "JAX jitted, our form", "why": 'pip install "jax<0.7"'} in everybody.missing


def report_of(times, spread=0.02, repeats=5, **rest):
    rows = [
        {"case": "a", "who": who, "unit": "s", "min": t, "median": t, "spread": spread, "repeats": repeats, **rest}
        for who, t in times.items()
    ]
    machine, config = {"name": "m"}, {"instruction set": "x"}
    return {"suite": "overhead", "date": "today", "machine": machine, "config": config, "rows": rows}


def test_compare_tells_changes_beyond_the_noise(capsys):
    from bench import _compare

    old = report_of({"same": 1.0, "faster": 1.0, "bit slower": 1.0, "slower": 1.0, "gone": 1.0})
    new = report_of({"same": 1.04, "faster": 0.5, "bit slower": 1.2, "slower": 1.3, "new": 1.0})
    assert _compare.show(old, new, threshold=1.25)
    out = capsys.readouterr().out
    assert "faster: a, faster: 0.5 x the time" in out
    assert "slower: a, bit slower: 1.2 x the time" in out
    assert "SLOWER: a, slower: 1.3 x the time" in out
    assert "1 of 4 rows within the noise; 1 not measured now" in out
    assert not _compare.show(old, new, threshold=1.35)
    assert not _compare.show(old, report_of({"slower": 1.3}, peer=True), threshold=1.25)  # not ours
    assert not _compare.show(old, report_of({"slower": 1.24}, repeats=1), threshold=1.1)  # who knows
    assert _compare.show(old, report_of({"slower": 1.3}, repeats=1), threshold=1.1)
    assert not _compare.show(old, report_of({"slower": 1.3}, spread=0.8), threshold=1.25)  # noise
    assert "note: not the same machine: name m -> n" not in out
    new["machine"] = {"name": "n"}
    _compare.show(old, new, threshold=2)
    assert "note: not the same machine: name m -> n" in capsys.readouterr().out


def test_compare_on_the_command_line(tmp_path, monkeypatch, capsys):
    from bench import __main__ as main

    monkeypatch.setattr(main._timing, "keep_freed_memory", lambda: None)  # for good, and this process goes on
    quick = ["overhead", "--quick", "--save", str(tmp_path)]
    monkeypatch.setattr(main.importlib.import_module("bench.bench_overhead"), "SIZES", ((16, 8),))
    main.main(quick)
    file = tmp_path / "overhead.json"
    report = json.loads(file.read_text())
    for r in report["rows"]:
        r["min"] /= 100
    file.write_text(json.dumps(report))
    assert main.main(["overhead", "--quick", "--compare", str(file)]) == 1
    for r in report["rows"]:
        r["min"] *= 10_000
    file.write_text(json.dumps(report))
    assert main.main(["overhead", "--quick", "--compare", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main.main(["peers", "--compare", str(file)]) == 2
    assert "is of the suite overhead; run that one" in capsys.readouterr().err
    file.write_text("{}")
    assert main.main(["overhead", "--compare", str(file)]) == 2
    assert "this is not a report of the benchmark" in capsys.readouterr().err


def test_python_dash_m_bench(tmp_path):
    run = run_bench("--list")
    assert run.returncode == 0, run.stderr
    assert "peers      Everything a user might try instead" in run.stdout
    run = run_bench("nonsense")
    assert run.returncode == 2
    assert run.stderr.startswith("bench: no suite 'nonsense'")


# --- timing -------------------------------------------------------------------------------------------------------


def test_interleaved_takes_turns_and_keeps_to_its_budget(monkeypatch):
    from bench import _timing

    clock = [0.0]
    monkeypatch.setattr(_timing.time, "perf_counter", lambda: clock[0])
    order = []

    def takes(name, seconds):
        def function():
            order.append(name)
            clock[0] += seconds

        return function

    def build():
        return {"short": takes("short", 1e-3), "long": takes("long", 3.0)}

    times = _timing.interleaved(build, repeats=4, rounds=1, seconds=10)
    assert times["short"]["min"] == pytest.approx(1e-3)
    assert times["short"]["calls"] == 22  # 20 ms and a bit
    assert times["short"]["repeats"] == 4
    assert times["long"]["calls"] == 1
    assert times["long"]["repeats"] == 3  # 3 s each, and 10 s in all
    assert order == (["short"] * (1 + 2 + 2 * 22) + ["long"] * 2 + (["short"] * 22 + ["long"]) * 2 + ["short"] * 22)
    times = _timing.interleaved(build, repeats=4, rounds=3, seconds=10)
    assert times["short"]["repeats"] == 12
    assert times["long"]["repeats"] == 3  # also over the rounds
    assert _timing.summary([3.0]) == {"min": 3.0, "median": 3.0, "spread": 0.0, "repeats": 1}
    assert _timing.summary([1.0, 2.0, 3.0])["spread"] == 0.5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="macOS cannot pin threads")
def test_pinned_holds_and_lets_go():
    from bench._timing import pinned

    before = os.sched_getaffinity(0)
    with pinned(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


# --- what is committed ----------------------------------------------------------------------------------------------


def machines():
    return sorted(p for p in RESULTS.iterdir() if p.is_dir())


@pytest.mark.parametrize("folder", machines(), ids=lambda p: p.name)
def test_committed_results_are_whole(folder):
    from bench import __main__ as main

    assert main.SUITES == SUITES
    for suite in SUITES:
        report = json.loads((folder / f"{suite}.json").read_text())
        check_schema(report, suite)
        assert not report["quick"]
        assert report["machine"]["name"] == folder.name


def test_readme_figures_are_those_of_the_committed_results():
    from bench import _readme

    readme = (ROOT / "README.md").read_text()
    folder = next(f for f in machines() if f"bench/results/{f.name}/" in readme)
    assert _readme.update(readme, folder) == readme
    assert readme.count("<!-- measured: ") == readme.count("<!-- end -->") == 2
    for picture in ("scaling.png", "peers.png"):
        assert f"bench/results/{folder.name}/{picture}" in readme
        assert (folder / picture).exists()
