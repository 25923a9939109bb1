"""The engine's own figures: against the paper's matrix form in NumPy, and against the limits of the machine.

Every row is a bar of the project: what is measured, what it must reach, what it reached in this run.  Ratios are
of times measured in turns in one process, on the threads named; minima of the repeats.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._timing import interleaved
from crbm_fast import _ckernels, _reference

HERE = Path(__file__).parent
T = 10
BATCH = 100


def problem(nv, nh, N=None, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    batch = () if N is None else (N,)
    W = rng.normal(0, 0.05, (nv, nh))
    return tuple(a.astype(dtype) for a in (W, rng.normal(size=(*batch, nv)), rng.normal(size=(*batch, nh))))


def engine_run(nv, nh, N=None, dtype=np.float32, n_threads=1, **kw):
    """A repeated call of Engine.run, ready to be timed."""
    W, b_v, b_h = problem(nv, nh, N, dtype)
    engine = cf.Engine(W, n_threads=n_threads)
    kw = {"max_iter": T, "tol": 0, "gamma": True if N is None else "sum", **kw}
    out = engine.run(b_v, b_h, **kw)
    return lambda: engine.run(b_v, b_h, out=out, **kw)


def numpy_run(nv, nh):
    """The paper's matrix form: T iterations and Gamma, float64, one instance."""
    args = problem(nv, nh, dtype=np.float64)
    return lambda: _reference.sum_product(*args, T, log_z=False)


def against_numpy(quick):
    """Times of the paper's matrix form and of the engine, on one thread."""
    return with_cost(
        interleaved(
            lambda: {
                "numpy 1000x500": numpy_run(1000, 500),
                "1000x500": engine_run(1000, 500),
                "numpy 784x256": numpy_run(784, 256),
                "784x256 batch": engine_run(784, 256, BATCH),
            },
            repeats=2 if quick else 9,
        )
    )


# NumPy's exponentials and logarithms of doubles are vectorised for AVX-512 only.  This environment makes any
# x86 machine one with AVX2, for NumPy and for crbm_fast alike.
def as_avx2():
    from numpy._core._multiarray_umath import __cpu_dispatch__

    wide = [name for name in __cpu_dispatch__ if name.startswith(("AVX512", "X86_V4"))]
    return {"CRBM_FAST_ISA": "avx2", "NPY_DISABLE_CPU_FEATURES": " ".join(wide)}


def against_numpy_as_avx2(quick):
    """The same in a process of its own, held to AVX2; None where there is no AVX2."""
    if "avx2" not in _ckernels.available_isas():
        return None
    if _ckernels.available_isas()[0] == "avx2":
        return against_numpy(quick)
    code = f"import json; from bench import bench_inference as b; print(json.dumps(b.against_numpy({quick})))"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **as_avx2()}, cwd=HERE.parent, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


def among_ourselves(quick):
    """Times of the engine's methods, precisions, threads and sizes."""
    return with_cost(
        interleaved(
            lambda: {
                "784x256 batch": engine_run(784, 256, BATCH),
                "784x256 batch, 2 threads": engine_run(784, 256, BATCH, n_threads=2),
                "784x256 batch, float64": engine_run(784, 256, BATCH, dtype=np.float64),
                "784x256 batch, mixed-product": engine_run(784, 256, BATCH, method="mixed-product"),
                "784x256 batch, max-product": engine_run(784, 256, BATCH, method="max-product"),
                "784x256 batch, mean-field": engine_run(784, 256, BATCH, method="mean-field"),
                "784x256 batch, tap": engine_run(784, 256, BATCH, method="tap"),
                "10000x2000": engine_run(10_000, 2_000),
                "10000x2000, 2 threads": engine_run(10_000, 2_000, n_threads=2),
                "16x8, 1 iteration": engine_run(16, 8, max_iter=1),
            },
            repeats=2 if quick else 9,
        )
    )


def with_cost(times):
    return {name: t | {"ns_per_edge_iteration": 1e9 * t["min"] / edges(name)} for name, t in times.items()}


def edges(name):
    """Edges times iterations (times instances) of a row."""
    nv, nh = (int(n) for n in name.removeprefix("numpy ").split()[0].rstrip(",").split("x"))
    return nv * nh * (BATCH if "batch" in name else 1) * (1 if "1 iteration" in name else T)


MEMORY = """
import resource, sys
import numpy as np
import crbm_fast as cf
nv, nh, N, threads = map(int, sys.argv[1:])
def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key)) * 1024
rng = np.random.default_rng(0)
W = rng.normal(0, 0.05, (nv, nh)).astype("f4")
batch = () if N == 0 else (N,)
b_v, b_h = rng.normal(size=(*batch, nv)).astype("f4"), rng.normal(size=(*batch, nh)).astype("f4")
kw = dict(max_iter=3, tol=0, gamma="sum" if N else True)
small = cf.Engine(W[:40, :30].copy(), n_threads=threads)      # code, threads and libraries are loaded
small.run(np.zeros((8, 40), "f4"), np.zeros(30, "f4"), max_iter=3, tol=0, gamma="sum")
out = cf.Beliefs(np.ones((*batch, nv), "f4"), np.ones((*batch, nh), "f4"), np.ones(N, "i8"), np.ones(N, bool),
                 np.ones(N), np.ones((nv, nh), "f4"))
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")                                               # peak := now
before = status("VmRSS")
cf.Engine(W, n_threads=threads).run(b_v, b_h, out=out, **kw)
print((status("VmHWM") - before) / (4 * nv * nh))
"""


def peak_memory(nv, nh, N, threads):
    """Peak memory of an engine and a run beyond inputs and outputs, in nv x nh float32 matrices; None off Linux."""
    if sys.platform != "linux":
        return None
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(nv), str(nh), str(N), str(threads)],
        capture_output=True, text=True, check=True, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    return float(run.stdout)


def machine_limits():
    """Multiply-add, division and sweep speed of one core, compiled for the instruction set in use."""
    cc = shlex.split(os.environ.get("CC") or shutil.which("cc") or "")
    if not cc:
        return None
    isas = json.loads((HERE.parent / "csrc/isas.json").read_text())
    how = next(m[_ckernels.active_isa()] for m in isas.values() if _ckernels.active_isa() in m)
    flags = [*how["flags"], f"-DVBYTES={how['bytes']}"]
    with tempfile.TemporaryDirectory() as d:
        program = Path(d, "limits")
        source = str(HERE / "machine_limits.c")
        subprocess.run([*cc, "-O3", "-std=gnu11", "-ffp-contract=fast", *flags, source, "-o", str(program)], check=True)
        sizes = [str(784 * 256), str(1000 * 500), str(10_000 * 2_000)]
        return json.loads(subprocess.run([str(program), *sizes], capture_output=True, check=True).stdout)


def bars(native, avx2, ours, memory):
    """Rows of the report: what is measured, what it must reach, what it reached."""
    s = {name: row["min"] for name, row in ours.items()}
    ns = {name: row["ns_per_edge_iteration"] for name, row in ours.items()}
    rows = []
    for t, where in ((avx2, "AVX2"), (native, _ckernels.active_isa() + " as it is")):
        if t is not None:
            rows += [
                (f"1000x500, T=10 and Gamma: NumPy float64 / ours float32, 1 thread, {where}", ">=", 100, "x",
                 t["numpy 1000x500"]["min"] / t["1000x500"]["min"]),
                (f"784x256, batch of 100, Gamma summed, per instance: likewise, {where}", ">=", 100, "x",
                 t["numpy 784x256"]["min"] / (t["784x256 batch"]["min"] / BATCH)),
            ]  # fmt: skip
    rows += [
        ("two threads against one, that batch", ">=", 1.8, "x", s["784x256 batch"] / s["784x256 batch, 2 threads"]),
        ("per edge and iteration, 10,000x2,000 / 784x256", "<=", 2.5, "x", ns["10000x2000"] / ns["784x256 batch"]),
        ("mixed-product against sum-product, that batch", ">=", 2, "x",
         s["784x256 batch"] / s["784x256 batch, mixed-product"]),
        ("float64 / float32, that batch", "<=", 2.5, "x", s["784x256 batch, float64"] / s["784x256 batch"]),
        # on top of whole matrices come vectors and the sums of groups of rows, 1/64 of a matrix for each slot
        ("peak memory beyond input and output, one RBM of 8000x4000", "<=", 2, "matrices", memory["one"]),
        ("peak memory, batch of 64 at 2000x1000, 2 threads", "<=", 3, "matrices", memory["batch"]),
        ("Engine.run on 16x8, 1 iteration", "<=", 20, "us", 1e6 * s["16x8, 1 iteration"]),
        ("per edge and iteration, 784x256 batch with Gamma, 1 thread", "<=", 0.35, "ns", ns["784x256 batch"]),
    ]  # fmt: skip
    return rows


def run(quick=False):
    """Measure everything; returns the report as a dictionary."""
    native, avx2, ours = against_numpy(quick), against_numpy_as_avx2(quick), among_ourselves(quick)
    memory = {"one": peak_memory(8000, 4000, 0, 1), "batch": peak_memory(2000, 1000, 64, 2)}
    return _report.make(
        "inference", quick, bars(native, avx2, ours, memory), limits=machine_limits(), against_numpy=native,
        against_numpy_as_avx2=avx2, times=ours,
    )  # fmt: skip


def show(report):
    """Print the report."""
    config, limits = report["config"], report["limits"]
    _report.show_machine(report)
    for title, times in (
        (f"against the paper's matrix form, {config['instruction set']}", report["against_numpy"]),
        ("the same, NumPy and crbm_fast held to AVX2", report["against_numpy_as_avx2"]),
        ("the engine", report["times"]),
    ):
        if times:
            print(f"{title:<46}{'min':>12}{'median':>12}{'per edge, iteration':>22}")
            for name, t in times.items():
                print(f"  {name:<44}{1e3 * t['min']:>9.3f} ms{1e3 * t['median']:>9.3f} ms"
                      f"{t['ns_per_edge_iteration']:>19.3f} ns")  # fmt: skip
            print()
    if limits:
        sizes = ", ".join(f"{12 * v:.3f} ns at {int(n):,}" for n, v in limits["sweep_ns_per_byte"].items())
        print(f"one core's limits, per edge: 9 multiply-adds {9 * limits['multiply_add_ns']:.3f} ns, "
              f"1 division {limits['division_ns']:.3f} ns; 12 bytes moved {sizes} edges")  # fmt: skip
    print()
    _report.show_bars(report)


def plot(report, path):
    """Cost per edge and iteration of who does the same job, 1000x500, 10 iterations and Gamma."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    job = 1000 * 500 * 10
    t = {name: row["ns_per_edge_iteration"] for name, row in report["against_numpy"].items()}
    isa = report["config"]["instruction set"]
    rows = [
        ("libDAI, C++ (the paper's laptop)", 1e9 * 297.4 / job, "0.75"),
        ("the paper's Matlab (its laptop)", 1e9 * 0.5 / job, "0.75"),
        ("the paper's matrix form, NumPy float64", t["numpy 1000x500"], "0.45"),
        (f"crbm_fast float32, 1 thread, {isa}", t["1000x500"], "tab:red"),
    ]
    fig, ax = plt.subplots(figsize=(8, 2.4), layout="constrained")
    names, values, colours = zip(*rows, strict=True)
    bars = ax.barh(names, values, color=colours)
    ax.bar_label(bars, [f" {v:,.0f} ns" if v > 10 else f" {v:.2f} ns" for v in values])
    ax.set(xscale="log", xlim=(0.1, 1e6))
    ax.set_xlabel("ns per edge and iteration, logarithmic (1000 visible x 500 hidden units)")
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
