"""Time against size, from 100x50 to 20,000x10,000, for every program that can: 10 iterations on one thread."""

from functools import partial

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._options import cores
from bench._problems import SIZES, Problem, does_not_fit
from bench._report import OURS, threads
from bench._timing import interleaved, pinned
from bench.bench_peers import cited
from bench.peers import HUGE, Measurement

PAPER = (10_000, 2_000)  # "converges within a few seconds" in the paper's Matlab


def run(options):
    rows, left_out, costs = [], [], {}
    for nv, nh in sorted(options.sizes or (SIZES[:2] if options.quick else SIZES), key=np.prod):
        problem = Problem(nv, nh)
        why = does_not_fit(nv, nh, bytes_per_edge=8)
        if why:
            left_out.append({"case": problem.name, "who": "everybody", "why": why})
            continue
        with pinned(1):
            limit = 1 if options.quick else 8 if nv * nh >= HUGE else 30  # a quarter of an hour in all
            new, out = Measurement(problem, options, limit, costs).run(options.peers)
        rows += new + cited(problem)
        left_out += out
        options.progress(f"{problem.name}: to convergence")
        rows += to_convergence(problem, options)
    case = f"{Problem(*PAPER).name}, to convergence"
    t = next((r for r in rows if r["case"] == case and r["threads"] == 2), None)
    bars = [
        (
            "10,000x2,000 to convergence (tolerance 1e-3) on two threads, per 10 iterations",
            "<=",
            0.5,
            "s",
            10 * t["min"] / t["n_iter"] if t and t["converged"] else None,
        ),
    ]
    return _report.make("scaling", options, rows, left_out + options.missing, bars)


def to_convergence(problem, options):
    """Rows of our engine, until no belief changes by more than 1e-3, on one thread and on two."""
    W, b1, b2 = problem.arrays
    rows = []
    for n_threads in range(1, min(2, cores()) + 1):
        with pinned(n_threads):
            engine = cf.Engine(W, n_threads=n_threads)
            out = engine.run(b1, b2, tol=1e-3)
            functions = {"run": partial(engine.run, b1, b2, tol=1e-3, out=out)}
            stats = interleaved(functions.copy, 2 if options.quick else 7, rounds=1, seconds=4)["run"]
        rows.append(
            _report.row(
                f"{problem.name}, to convergence",
                f"{OURS}, {threads(n_threads)}, {out.n_iter} iterations",
                stats,
                problem.nv * problem.nh * out.n_iter,
                n_iter=out.n_iter,
                converged=out.converged,
                threads=n_threads,
            )
        )
    return rows


def plot(report, path):
    """Draw time against edges, both logarithmic, with one line for each program."""
    import matplotlib.pyplot as plt

    lines = {}
    for r in report["rows"]:
        if "to convergence" not in r["case"]:
            nv, nh = map(int, r["case"].split("x"))
            lines.setdefault(r["who"], []).append((nv * nh, r["min"]))
    if not lines:
        return
    families = {
        "crbm_fast": "tab:red",
        "per edge": "k",
        "libDAI": "0.5",
        "numba": "tab:green",
        "NumPy": "tab:blue",
        "PyTorch": "tab:orange",
        "JAX": "tab:purple",
        "PGMax": "tab:brown",
        "pomegranate": "tab:pink",
        "factorgraph": "tab:olive",
    }
    fig, ax = plt.subplots(figsize=(10, 6), layout="constrained")
    markers = {name: iter("os^Dv") for name in families}
    # in the legend in the order of the lines' height at the size where most have a point
    at = max({x for line in lines.values() for x, _ in line}, key=lambda x: sum(x in dict(p) for p in lines.values()))
    for who, points in sorted(lines.items(), key=lambda item: -np.interp(at, *zip(*item[1], strict=True))):
        family = next(name for name in families if who.startswith(name))
        ours = who == OURS
        ax.plot(
            *zip(*points, strict=True),
            color=families[family],
            lw=3 if ours else 1.3,
            marker=next(markers[family], "x"),
            ms=7 if ours else 5,
            ls="--" if "paper's" in who or "cited" in who else "-",
            label=who,
            zorder=3 if ours else 2,
        )
    ax.set(xscale="log", yscale="log", ylabel="seconds for 10 iterations, one thread")
    sizes = dict.fromkeys(r["case"] for r in report["rows"] if "to convergence" not in r["case"])
    ax.set_xticks([np.prod([int(n) for n in s.split("x")]) for s in sizes], [s.replace("x", "\nx ") for s in sizes])
    ax.minorticks_off()
    ax.set_xlabel("visible x hidden units (edges, logarithmic)")
    ax.grid(alpha=0.3)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
