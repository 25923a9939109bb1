"""The benchmark: run `python -m bench` in a clone, with crbm_fast installed.  No other package imports this one.

__main__.py      the command line
bench_<suite>.py what a suite measures, the bars that the project sets itself, and a picture of the results
peers/           the alternatives that a user might run: one file per family, one protocol (peers/__init__.py)
_problems.py     the random RBMs that every program gets, their sizes, and what fits in memory
_options.py      the options of the command line that a suite needs
_timing.py       pinned threads, interleaved repeats, minima
_report.py       the report of a suite (the JSON) and its tables
_compare.py      the comparison of two reports of a suite
_readme.py       the README's tables, which are made from the reports
_peak.py         the peak memory of one run, measured in a process of its own
_calls.py        the allocations and GIL acquisitions of the embedding interface, likewise
_compiler.py     the user's C compiler
naive.c, .h, .py per-edge BP as a general factor-graph library does it, and its binding
machine_limits.c the speed of this machine's arithmetic and memory
embedding.c      loops of calls without Python in them
results/         the newest results, by machine
"""

import importlib.machinery
import os
import sys
from pathlib import Path

# The measurement chooses the number of threads, not a library.  Libraries read these variables when first imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

# `python -m bench` puts the clone first on the path.  Where the package was not built in place, the installed package
# must be found instead of the sources.
_clone = Path(__file__).resolve().parents[1]
if not any((_clone / f"crbm_fast/_engine{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
    sys.path = [p for p in sys.path if Path(p or ".").resolve() != _clone]
