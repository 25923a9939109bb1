"""Everything a user might try instead, on one thread: 10 iterations at the paper's 1000x500, and at 100x50.

The peers are per-edge BP as a general library does it, libDAI, factor-graph packages, the paper's matrix form in NumPy,
PyTorch and JAX, and this package's own algebra in all of them and in numba.  The beliefs of each peer are compared with
ours before it is timed.
"""

from bench import _report
from bench._problems import Problem
from bench._report import OURS
from bench._timing import pinned, summary
from bench.peers import Measurement, libdai

PAPER_SIZE = "1000x500"


def run(options):
    sizes = options.sizes or ((100, 50), (1000, 500))
    rows, left_out, costs = [], [], {}
    with pinned(1):
        for nv, nh in sizes:
            problem = Problem(nv, nh)
            new, out = Measurement(problem, options, 2 if options.quick else 120, costs, rounds=3).run(options.peers)
            rows += new + cited(problem)
            left_out += out
    return _report.make("peers", options, rows, left_out + options.missing, bars(rows))


def cited(problem):
    """The row of libDAI's cited time, if it is known for this size."""
    if problem.name not in libdai.CITED:
        return []
    stats = summary([libdai.CITED[problem.name]])
    return [_report.row(problem.name, libdai.CITED_NAME, stats, problem.updates, cited=libdai.CITED_FROM, peer=True)]


def bars(rows):
    """The bars of the suite: how many times as long as ours the peers take at the paper's size."""
    t = {r["who"]: r["min"] for r in rows if r["case"] == PAPER_SIZE}
    compilers = [t[who] for who in t if who.startswith(("numba", "PyTorch", "JAX"))]
    ours = t.get(OURS)
    what = f"{PAPER_SIZE}, 10 iterations, 1 thread: "
    return [
        (what + "per edge, products recomputed / ours", ">=", 1000, "x", _report.ratio(t.get("per edge, C"), ours)),
        (what + "libDAI, run here / ours", ">=", 50_000, "x", _report.ratio(t.get("libDAI"), ours)),
        (what + "libDAI's cited time / ours", ">=", 50_000, "x", _report.ratio(t.get(libdai.CITED_NAME), ours)),
        (
            what + "per edge, cached products / ours",
            ">=",
            20,
            "x",
            _report.ratio(t.get("per edge, C, cached products"), ours),
        ),
        (what + "best of numba, PyTorch, JAX / ours", ">=", 3, "x", _report.ratio(min(compilers, default=None), ours)),
    ]


def plot(report, path):
    """Draw how many times as long as ours each program takes, at the largest size it ran."""
    import matplotlib.pyplot as plt

    shown = [(r, ratio) for r, ratio in _report.largest(report) if r["who"] != OURS]
    if not shown:
        return
    last = max(report["rows"], key=lambda r: r["updates"])["case"]
    fig, ax = plt.subplots(figsize=(9, 0.5 + 0.3 * len(shown)), layout="constrained")
    names = [r["who"] + ("" if r["case"] == last else f" (at {r['case']})") for r, _ in shown]
    ratios = [ratio for _, ratio in shown]
    colours = ["tab:red" if "crbm_fast" in n else "0.75" if "cited" in n else "tab:blue" for n in names]
    bar = ax.barh(names, ratios, color=colours)
    ax.bar_label(bar, [f" {_report.number_text(x)} x" for x in ratios])
    ax.set(xscale="log", xlim=(0.5, 10 * max(ratios)))
    ax.axvline(1, color="tab:red", lw=1)
    ax.set_xlabel(f"times as long as {OURS}, {last} on one thread, logarithmic")
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
