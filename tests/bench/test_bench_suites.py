"""Every suite runs at toy size; the committed results are complete, and the README's tables are made from them."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT

from bench import __main__ as main
from bench import _readme, bench_training
from crbm_fast import _algebra, _engine

RESULTS = ROOT / "bench/results"

TOY = """
import json, sys
from bench import __main__ as main, bench_convergence, bench_memory, bench_training
from bench.peers import all_peers
from bench.peers.trainers import TRAINERS
main._timing.MIN_SECONDS = 1e-3
bench_training.SIDE, bench_training.NH, bench_training.N = 8, 6, 1200
bench_memory.CASES = {k: (80, 40, N and 8, *rest) for k, (_, _, N, *rest) in bench_memory.CASES.items()}
bench_convergence.KNOWN, bench_convergence.BATCH = ((6, 4), (60, 16)), (24, 16)
suite, folder = sys.argv[1:]
few = ("crbm_fast", "per edge", "NumPy")
options = main.Options(quick=True, sizes=((20, 10), (30, 20)), single_size=(30, 20), batch_size=(24, 16),
                       peers=[p for p in all_peers() if p.name.startswith(few)],
                       trainers=[t for t in TRAINERS if t.installed])
module = main.importlib.import_module(f"bench.bench_{suite}")
report = module.run(options)
main._report.show(report)
main.save(report, module, main.Path(folder))
"""


SUITES = (
    "peers",
    "scaling",
    "batch",
    "convergence",
    "training",
    "threads",
    "isa",
    "memory",
    "overhead",
    "embedding",
    "samplers",
)
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


def test_the_stopwatch_sees_what_an_epoch_computes(monkeypatch):
    """What training computes in compiled code goes through the modules that the stopwatch times, and is timed."""
    before = dict(vars(_algebra)), _engine.Core
    monkeypatch.setattr(bench_training, "SIDE", 10)
    epoch = bench_training.mle_epoch(bench_training.images(200), 1)
    with bench_training.stopwatch() as seconds:
        epoch()
    assert seconds.keys() >= {"run", "update", "product", "adam_step"}
    assert (dict(vars(_algebra)), _engine.Core) == before


# --- committed results --------------------------------------------------------------------------------------------


def machines():
    return sorted(p for p in RESULTS.iterdir() if p.is_dir())


@pytest.mark.parametrize("folder", machines(), ids=lambda p: p.name)
def test_committed_results_are_whole(folder):
    assert main.SUITES == SUITES
    reports = {path.stem: path for path in folder.glob("*.json")}
    assert reports.keys() <= set(SUITES)
    for suite, path in reports.items():
        report = json.loads(path.read_text())
        check_schema(report, suite)
        assert not report["quick"]
        assert report["machine"]["name"] == folder.name


def test_every_suite_has_a_committed_result():
    assert {path.stem for folder in machines() for path in folder.glob("*.json")} == set(SUITES)


def test_readme_figures_are_those_of_the_committed_results():
    readme = (ROOT / "README.md").read_text()
    folder = next(f for f in machines() if f"bench/results/{f.name}/" in readme)
    assert _readme.update(readme, folder) == readme
    assert readme.count("<!-- measured: ") == readme.count("<!-- end -->") == 2
    for picture in ("scaling.png", "peers.png"):
        assert f"bench/results/{folder.name}/{picture}" in readme
        assert (folder / picture).exists()
