"""Benchmarks: `python -m bench` from a clone with crbm_fast installed.  Nothing imports this package.

__main__.py      the command line
bench_<suite>.py what a suite measures, the bars it holds itself to, its picture
peers/           what else a user might run: one file per family, one protocol (peers/__init__.py)
_problems.py     the random RBMs everyone gets, the sizes, what fits in memory
_options.py      what the command line asks of a suite
_timing.py       pinned threads, interleaved repeats, minima
_report.py       a suite's report (the JSON), its tables
_compare.py      two reports of a suite: what got faster or slower
_readme.py       the README's tables, made from the reports
_peak.py         peak memory of one run, in a process of its own
_calls.py        allocations and GIL acquisitions of the embedding interface, likewise
_compiler.py     the user's C compiler
machine_limits.c what this machine's arithmetic and memory can do
embedding.c      loops of calls without Python in them
results/         the newest results, by machine
"""

import importlib.machinery
import os
import sys
from pathlib import Path

# Threads are what a measurement says, never what a library chooses.  Read when the libraries are first imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

# `python -m bench` puts the clone first on the path; where the package was not built in place, the installed one
# must be found instead of the sources.
_clone = Path(__file__).resolve().parents[1]
if not any((_clone / f"crbm_fast/_engine{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
    sys.path = [p for p in sys.path if Path(p or ".").resolve() != _clone]
