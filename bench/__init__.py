"""Benchmarks: `python -m bench` from a clone with crbm_fast installed.  Nothing imports this package.

    bench_inference.py   the engine against the paper's matrix form, and its own limits
    bench_training.py    an epoch: how much of it is C and BLAS, threads, scikit-learn's RBM, memory
    _timing.py           interleaved repeats, minima
    _report.py           bars, machine, tables
    machine_limits.c     what this machine's arithmetic and memory can do
    results/             the newest results, as JSON, for a named machine
"""

import sys
from pathlib import Path

# `python -m bench` puts the clone first on the path; where the package was not built in place, the installed one
# must be found instead of the sources.
_clone = Path(__file__).resolve().parents[1]
if not list((_clone / "crbm_fast").glob("_engine.*.so")):
    sys.path = [p for p in sys.path if Path(p or ".").resolve() != _clone]
