"""The command line of the benchmark, the comparison of two reports, and how times are taken."""

import json
import os
import subprocess
import sys

import pytest
from helpers import ROOT

from bench import __main__ as main
from bench import _compare, _timing, peers
from bench._timing import pinned


def run_bench(*args):
    return subprocess.run([sys.executable, "-m", "bench", *args], cwd=ROOT, capture_output=True, text=True, check=False)


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
    monkeypatch.chdir(ROOT)
    assert main.main(argv) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_peer_that_is_not_installed_gets_the_command_that_installs_it(monkeypatch, capsys):
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
    whole = main.options(main.parse([]))
    assert {"case": "not installed", "who": "JAX jitted, our form", "why": 'pip install "jax<0.7"'} in whole.missing


def report_of(times, spread=0.02, repeats=5, **rest):
    rows = [
        {"case": "a", "who": who, "unit": "s", "min": t, "median": t, "spread": spread, "repeats": repeats, **rest}
        for who, t in times.items()
    ]
    machine, config = {"name": "m"}, {"instruction set": "x"}
    return {"suite": "overhead", "date": "today", "machine": machine, "config": config, "rows": rows}


def test_compare_tells_changes_beyond_the_noise(capsys):
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
    before = os.sched_getaffinity(0)
    with pinned(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
