"""The engine inside other programs: what a call through the C table costs, allocates and locks, and how it scales.

embedding.c   loops of calls without Python in them, which are compiled here
_calls.py     counts allocations and GIL acquisitions in a process of its own
examples/cython_sampler   the same sampler in Cython, by cimport, and in Python, by Engine.run
"""

import ctypes
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._compiler import compile_c
from bench._options import cores
from bench._problems import Problem, T
from bench._timing import interleaved, pinned, summary
from crbm_fast import _ckernels

ROOT = Path(__file__).parents[1]
SMALL, MIDDLE = (16, 8), (64, 32)
CALLS = 1000  # that one call from Python makes: 3 to 10 ms
# that each thread makes: 0.2 s, long enough for the scheduler to give each thread a core
CALLS_OF_THREADS = 20_000


def load(path, kind=ctypes.CDLL):
    """The compiled embedding.c, with the types of its functions."""
    library = kind(str(path))
    model = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t]
    loop = [*model, ctypes.c_int, ctypes.c_long]
    for function, result, arguments in (
        (library.calls_through_table, ctypes.c_double, loop),
        (library.kernels_alone, ctypes.c_double, loop),
        (library.calls_by_threads, ctypes.c_double, [*loop, ctypes.c_int]),
        (
            library.rounds_without_gil,
            ctypes.c_long,
            [*model, ctypes.c_long, ctypes.c_int, ctypes.c_double, ctypes.c_void_p],
        ),
    ):
        function.restype, function.argtypes = result, arguments
    return library


def pointer(capsule):
    """The address in a capsule."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def function_table():
    """The address of crbm_fast's table of functions, found as a C program finds it (crbm_fast.h)."""
    importlib.import_module("crbm_fast.cython_api")  # PyCapsule_Import imports no module of a package
    find = ctypes.pythonapi.PyCapsule_Import
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    return find(b"crbm_fast.cython_api._C_API", 0)


@functools.cache
def weights(nv, nh):
    return Problem(nv, nh).arrays[0]


def model(nv, nh):
    """The arguments of the loops of embedding.c that describe a model."""
    return function_table(), weights(nv, nh).ctypes.data, nv, nh


def build(folder):
    """Compile embedding.c; returns the path of the shared library, or None if that failed."""
    path = Path(folder, "embedding.so")
    include = [f"-I{ROOT / 'csrc'}", f"-I{cf.get_include()}"]
    done = compile_c(
        "-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread", *include, ROOT / "bench/embedding.c", "-ldl", "-o", path
    )
    return path if done else None


def run(options):
    rows, left_out, bars = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = build(folder)
        if path is None:
            left_out.append({"case": "C", "who": "loops of calls", "why": "no C compiler, or it failed"})
        else:
            library = load(path)
            options.progress("a call")
            beyond, _ = (one_call(options, library, size, rows) for size in (SMALL, MIDDLE))
            options.progress("threads")
            both = threads(options, library, rows)
            bars += [
                (f"{name(SMALL)}: a BP call through the C table, beyond the kernels", "<=", 1, "us", 1e6 * beyond),
                (f"{name(MIDDLE)}: two OS threads with a workspace each against one", ">=", 1.8, "x", both),
            ]
            options.progress("allocations and the GIL")
            bars += counts(path, rows, left_out)
        options.progress("the same sampler in Cython and in Python")
        bars += both_samplers(options, folder, rows, left_out)
    return _report.make("embedding", options, rows, left_out, bars)


def name(size):
    return f"{size[0]}x{size[1]}, {T} iterations"


def measured(options, functions):
    """The times per call of functions that each make CALLS calls."""
    with pinned(1):
        times = interleaved(lambda: functions, *((2, 1) if options.quick else (15, 3)), seconds=4)
    return {who: per_call(t) for who, t in times.items()}


def per_call(t):
    return t | {"min": t["min"] / CALLS, "median": t["median"] / CALLS}


def one_call(options, library, size, rows):
    """Rows of a call through the table and without it; returns the seconds of a call beyond the kernels."""
    bp, *W = model(*size)
    kernels = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(pointer(_ckernels.__pyx_capi__["active"]))(4)
    weights, b1, b2 = Problem(*size).arrays
    engine, kw = cf.Engine(weights, n_threads=1), {"max_iter": T, "tol": 0}
    out = engine.run(b1, b2, **kw)
    times = measured(
        options,
        {
            "the kernels alone": lambda: library.kernels_alone(kernels, *W, T, CALLS),
            "through the C table": lambda: library.calls_through_table(bp, *W, T, CALLS),
            "Engine.run, out=": lambda: [engine.run(b1, b2, out=out, **kw) for _ in range(CALLS)],
        },
    )
    case = f"{name(size)}, one call"
    rows += [_report.row(case, who, t, size[0] * size[1] * T) for who, t in times.items()]
    return times["through the C table"]["min"] - times["the kernels alone"]["min"]


def threads(options, library, rows):
    """Rows of calls by one and by two OS threads; returns the ratio of their calls per second."""
    counts, times = ([1, 2] if cores() > 1 else [1]), {}
    with pinned(counts[-1]):
        for _ in range(2 if options.quick else 9):
            for c in counts:
                seconds = library.calls_by_threads(*model(*MIDDLE), T, CALLS_OF_THREADS, c)
                times.setdefault(c, []).append(seconds / CALLS_OF_THREADS)
    case = f"{name(MIDDLE)}, one call of each OS thread"
    for c, t in times.items():
        rows.append(_report.row(case, _report.threads(c), summary(t), calls=CALLS_OF_THREADS, threads=c))
    return _report.ratio(2 * min(times[1]), min(times[2])) if 2 in times else None


def both_samplers(options, folder, rows, left_out):
    """Rows and bars of examples/cython_sampler, built with the crbm_fast in use, and of the same around Engine.run."""
    source, target = Path(folder, "source"), Path(folder, "target")
    shutil.copytree(ROOT / "examples/cython_sampler", source, ignore=shutil.ignore_patterns("build", "*.c", "*.so"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    env = {**os.environ, "PYTHONPATH": str(Path(cf.__file__).parents[1])}  # Cython looks for the pxd on sys.path
    done = subprocess.run(
        [*pip, "--target", target, source], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    case = f"{MIDDLE[0]}x{MIDDLE[1]}, a sample of the Metropolis-Hastings sampler of examples/cython_sampler"
    if done.returncode != 0:
        why = f"not built, needs setuptools and Cython: {(done.stderr.splitlines() or ['?'])[-1]}"
        left_out.append({"case": case, "who": "both", "why": why})
        return []
    sys.path.insert(0, str(target))
    try:
        from bp_sampler import reference, sample
    finally:
        sys.path.remove(str(target))
    rng = np.random.default_rng(0)
    shapes = ((0.3, MIDDLE), (0.5, MIDDLE[0]), (0.5, MIDDLE[1]))
    rbm = [rng.normal(0, scale, shape).astype(np.float32) for scale, shape in shapes]
    n = 20
    functions = {
        "Cython, cimport cython_api": lambda: sample(*rbm, n_steps=n, seed=1),
        "Python, Engine.run(warm_start=True, out=)": lambda: reference.sample(*rbm, n_steps=n, seed=1),
    }
    with pinned(1):
        times = interleaved(lambda: functions, *((2, 1) if options.quick else (9, 3)), seconds=4)
    rows += [_report.row(case, who, t | {"min": t["min"] / n, "median": t["median"] / n}) for who, t in times.items()]
    cython, python = (t["min"] for t in times.values())
    what = f"{MIDDLE[0]}x{MIDDLE[1]} float32, one chain: a sampler that cimports BP against the same around Engine.run"
    return [(what, ">=", 5, "x", python / cython)]


def counts(path, rows, left_out):
    """Rows and bars of allocations and of rounds that wait for the GIL."""
    env = {**os.environ, "LD_PRELOAD": str(path)}
    counted = subprocess.run(
        [sys.executable, "-m", "bench._calls", str(path)],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    case = "10,000 rounds of run, sample_h, sample_v, free_energy"
    if counted.returncode != 0:
        why = f"failed: {(counted.stderr.splitlines() or ['?'])[-1]}"
        left_out.append({"case": case, "who": "counts", "why": why})
        return []
    found = json.loads(counted.stdout)
    n, allocations = found["nothing"]
    noticed = found["allocate"][1] == 10_000, found["take the GIL"][0] == 0
    if not noticed[0]:
        left_out.append({"case": case, "who": "allocations", "why": "the counter does not count here (not glibc?)"})
    rows += [
        _report.value_row(case, "rounds done while another thread held the GIL", "rounds", n),
        _report.value_row(case, "allocations in them", "allocations", allocations),
        _report.value_row(case, "control: rounds done that take the GIL", "rounds", found["take the GIL"][0]),
        _report.value_row(case, "control: allocations in rounds with one each", "allocations", found["allocate"][1]),
    ]
    return [
        (f"allocations in {case}", "<=", 0, "allocations", allocations if noticed[0] and allocations >= 0 else None),
        (f"of {case}, those that wait for the GIL", "<=", 0, "rounds", 10_000 - n if noticed[1] else None),
    ]
