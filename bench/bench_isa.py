"""Every instruction set that this CPU can run, compared with NumPy and with the limits of the machine.

NumPy's exponentials of doubles are vectorised for AVX-512 only, so the comparison with NumPy is made twice: with the
machine as it is, and with NumPy and crbm_fast both restricted to AVX2.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench import _report
from bench._compiler import compile_c
from bench._problems import Problem, T
from bench._report import OURS
from bench._timing import interleaved, keep_freed_memory, pinned
from bench.peers.engine import engine_run
from crbm_fast import _ckernels, _reference

HERE = Path(__file__).parent
BATCH = 100
# Per edge and iteration of sum-product (csrc/kernels/sum_product.h): 6 multiplications, 3 multiply-adds, 3 additions
# and a division are 16 operations in 12 instructions and the division; m and E = exp(W) are read and m is written.
FLOPS, INSTRUCTIONS, BYTES = 16, 12, 12
# crbm_fast._reference computes Eqs. 13-18 as the paper prints them; it is slower than peers/forms.py, which computes
# exp(W) only once.
PRINTED = "NumPy float64, the paper as printed"


def run(options):
    rows, left_out = [], []
    one, batch = Problem(*options.single_size), Problem(*options.batch_size, N=10 if options.quick else BATCH)
    with pinned(1):
        rows += by_isa(options, batch)
        options.progress("against NumPy")
        rows += against_numpy(options, one, batch, f"against NumPy, {_ckernels.active_isa()} as it is")
        options.progress("against NumPy, both with AVX2")
        rows += against_numpy_as_avx2(options, left_out)
        options.progress("the machine's limits")
        sizes = [Problem(784, 256), Problem(1000, 500), *([] if options.quick else [Problem(10_000, 2_000)])]
        limits = machine_limits([p.nv * p.nh for p in sizes])
        options.progress("sizes under the roof")
        roof = interleaved(
            lambda: {p.name: engine_run(p.arrays) for p in sizes}, 2 if options.quick else 7, rounds=2, seconds=4
        )
    rows += [_report.row("one RBM, no Gamma", p.name, roof[p.name], p.updates) for p in sizes]
    bars = []
    for case in dict.fromkeys(r["case"] for r in rows if "against NumPy" in r["case"]):
        t = {r["who"]: r["ns_per_edge_iteration"] for r in rows if r["case"] == case}
        for p in (one, batch):
            what = p.name + (f", batch of {p.N}, per instance" if p.N else "")
            what += f": T=10 and Gamma, NumPy float64 / ours float32, {case.split(', ', 1)[1]}"
            ratio = t[f"{PRINTED}, {p.name}"] / t[f"{OURS}, {p.name}"]
            bars.append((what, ">=", 100, "x", ratio))
    if limits is None:
        left_out.append({"case": "roofline", "who": "the machine's limits", "why": "no C compiler, or it failed"})
    return _report.make("isa", options, rows, left_out, bars, limits=limits)


def by_isa(options, batch):
    """Rows: the batch with each instruction set and precision."""
    rows, active = [], _ckernels.active_isa()
    case = f"{batch.name}, batch of {batch.N}, Gamma summed"

    def build():
        functions = {}
        for isa in _ckernels.available_isas():
            _ckernels.use_isa(isa)  # for engines made from now on
            for dtype in (np.float32, np.float64):
                functions[isa, np.dtype(dtype).name] = engine_run(batch.arrays, dtype, gamma="sum")
        _ckernels.use_isa(active)
        return functions

    options.progress("instruction sets")
    times = interleaved(build, 2 if options.quick else 7, seconds=1 if options.quick else 4)
    for (isa, dtype), t in times.items():
        rows.append(_report.row(case, f"{isa}, {dtype}", t, batch.updates))
    return rows


def numpy_run(problem):
    """A call, ready to be timed, of the paper's matrix form: T iterations and Gamma, float64, one instance."""
    W, b1, b2 = Problem(problem.nv, problem.nh).arrays
    args = [a.astype(np.float64) for a in (W, b1, b2)]
    return lambda: _reference.sum_product(*args, T, log_z=False)


def against_numpy(options, one, batch, case):
    """Rows: the paper's matrix form and the engine, T iterations and Gamma, one instance and a batch."""
    times = interleaved(
        lambda: {
            (f"{PRINTED}, {one.name}", one.updates): numpy_run(one),
            (f"{OURS}, {one.name}", one.updates): engine_run(one.arrays, gamma=True),
            (f"{PRINTED}, {batch.name}", batch.updates // batch.N): numpy_run(batch),
            (f"{OURS}, {batch.name}", batch.updates): engine_run(batch.arrays, gamma="sum"),
        },
        1 if options.quick else 9,
        rounds=1 if options.quick else 3,
        seconds=1 if options.quick else 8,
    )
    return [
        _report.row(case, who, t, updates, **({} if who.startswith(OURS) else {"peer": True}))
        for (who, updates), t in times.items()
    ]


def against_numpy_as_avx2(options, left_out):
    """The same rows from a process that is restricted to AVX2; none if there is no AVX2, or nothing better."""
    if "avx2" not in _ckernels.available_isas() or _ckernels.available_isas()[0] == "avx2":
        return []
    from numpy._core._multiarray_umath import __cpu_dispatch__

    wide = [name for name in __cpu_dispatch__ if name.startswith(("AVX512", "X86_V4"))]
    environment = {"CRBM_FAST_ISA": "avx2", "NPY_DISABLE_CPU_FEATURES": " ".join(wide)}
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.bench_isa",
            str(int(options.quick)),
            *map(str, options.single_size + options.batch_size),
        ],
        env={**os.environ, **environment},
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        why = f"failed: {(run.stderr.splitlines() or ['?'])[-1]}"
        left_out.append({"case": "against NumPy, both with AVX2", "who": "everybody", "why": why})
        return []
    return json.loads(run.stdout)


def machine_limits(sizes):
    """The speed of multiply-add, division and sweep on one core with the instruction set in use; None without cc."""
    isas = json.loads((HERE.parent / "csrc/isas.json").read_text())
    how = next(m[_ckernels.active_isa()] for m in isas.values() if _ckernels.active_isa() in m)
    flags = [*how["flags"], f"-DVBYTES={how['bytes']}"]
    with tempfile.TemporaryDirectory() as d:
        program = Path(d, "limits")
        source = HERE / "machine_limits.c"
        if not compile_c("-O3", "-std=gnu11", "-ffp-contract=fast", *flags, source, "-o", program):
            return None
        try:
            run = subprocess.run([str(program), *map(str, sizes)], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return json.loads(run.stdout)


def plot(report, path):
    """The roofline: what one core could do at each ratio of operations to bytes, and what sum-product reaches."""
    limits = report["limits"]
    if limits is None:
        return
    import matplotlib.pyplot as plt

    fma = 2 / limits["multiply_add_ns"]  # 10^9 operations per second
    # what the mix of FLOPS allows, if the division shares no time with the rest, and if it hides behind it entirely
    arithmetic = INSTRUCTIONS * limits["multiply_add_ns"], limits["division_ns"]
    mixed = FLOPS / sum(arithmetic), FLOPS / max(arithmetic)
    fig, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    x = np.geomspace(0.3, 20, 200)
    rows = [r for r in report["rows"] if r["case"] == "one RBM, no Gamma"]
    colours = ("tab:blue", "tab:green", "tab:orange")[: len(rows)]
    for (edges, ns), r, colour in zip(limits["sweep_ns_per_byte"].items(), rows, colours, strict=True):
        megabytes, cost = 2 * 4 * int(edges) / 1e6, r["ns_per_edge_iteration"]
        ax.plot(
            x,
            np.minimum(x / ns, fma),
            color=colour,
            lw=1.5,
            label=f"memory: {1 / ns:.0f} GB/s where {megabytes:.3g} MB are swept ({r['who']})",
        )
        ax.plot(
            FLOPS / BYTES,
            FLOPS / cost,
            "o",
            color=colour,
            ms=8,
            mec="k",
            zorder=3,
            label=f"crbm_fast, {r['who']}: {FLOPS / cost:.0f} GFLOP/s, {cost:.2f} ns per edge",
        )
    ax.axhline(fma, color="0.3", lw=1.5)
    ax.text(19, fma, f"multiply-add peak {fma:.0f} GFLOP/s", ha="right", va="bottom", fontsize=8)
    ax.axhspan(*mixed, color="tab:red", alpha=0.15, lw=0)
    note = "the most this mix allows: with the division\nhidden behind the rest, or waited for"
    ax.text(19, mixed[1], note, ha="right", va="top", fontsize=8)
    ax.set(xscale="log", yscale="log", xlabel="operations per byte moved", ylabel="GFLOP/s, one core")
    ax.legend(fontsize=7.5, frameon=False, loc="lower right")
    ax.grid(alpha=0.3, which="both")
    ax.set_title(f"{report['machine']['cpu']}, {report['config']['instruction set']}, float32", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)


if __name__ == "__main__":  # the process that against_numpy_as_avx2 starts
    from bench._options import Options

    keep_freed_memory()
    quick, *sizes = map(int, sys.argv[1:])
    chosen = Options(quick=bool(quick))
    with pinned(1):
        both = Problem(*sizes[:2]), Problem(*sizes[2:], N=10 if quick else BATCH)
        print(json.dumps(against_numpy(chosen, *both, "against NumPy, both with AVX2")))
