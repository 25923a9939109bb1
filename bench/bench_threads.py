"""Speed-up by threads, up to the number of cores: a batch at 784x256 and one RBM of 10,000x2,000."""

from bench import _report
from bench._options import cores
from bench._problems import Problem
from bench._timing import interleaved, pinned
from bench.peers.engine import engine_run


def run(options):
    most = cores()
    counts = sorted({*(2**k for k in range(8) if 2**k <= most), most})
    batch = Problem(*options.batch_size, N=20 if options.quick else 100)
    large = Problem(2000, 1000) if options.quick else Problem(10_000, 2_000)
    rows = []
    for problem in (batch, large):
        case = problem.name + (f", batch of {problem.N}" if problem.N else "")
        options.progress(case)
        gamma = "sum" if problem.N else True
        with pinned(most):
            times = interleaved(
                lambda p=problem, gamma=gamma: {n: engine_run(p.arrays, n_threads=n, gamma=gamma) for n in counts},
                2 if options.quick else 7,
                seconds=1 if options.quick else 6,
            )
        rows += [_report.row(case, _report.threads(n), t, problem.updates, threads=n) for n, t in times.items()]
    t = {r["threads"]: r["min"] for r in rows if r["case"] == rows[0]["case"]}
    bars = [(f"two threads against one, {rows[0]['case']}", ">=", 1.8, "x", _report.ratio(t[1], t.get(2)))]
    return _report.make("threads", options, rows, [], bars)


def plot(report, path):
    """Draw the speed-up against the number of threads."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    most = max(r["threads"] for r in report["rows"])
    ax.plot([1, most], [1, most], color="0.7", lw=1, ls="--", label="ideal")
    for case, colour in zip(dict.fromkeys(r["case"] for r in report["rows"]), ("tab:red", "tab:blue"), strict=True):
        rows = [r for r in report["rows"] if r["case"] == case]
        speed = [rows[0]["min"] / r["min"] for r in rows]
        ax.plot([r["threads"] for r in rows], speed, "o-", color=colour, label=case)
        ax.annotate(
            f"{speed[-1]:.2f} x", (most, speed[-1]), (0, 6), textcoords="offset points", color=colour, ha="right"
        )
    ax.set(xlabel="threads", ylabel="times as fast as one thread", xticks=[r["threads"] for r in rows])
    ax.set_ylim(0, 1.1 * most)
    ax.legend(frameon=False, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
