"""An epoch of training: how much of it is spent in C and BLAS, how it scales, against scikit-learn, and its memory.

The data are noisy copies of strokes in a 28 x 28 image, so that sizes and the work of BP are those of the paper's
denoising task without its data.
"""

import contextlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._timing import interleaved
from crbm_fast import _algebra, _engine, inference

SIDE, NH, BATCH = 28, 256, 40
N = 4000


def images(n, seed=0):
    """V: strokes, three random thick lines per image; X: the same with 10 % of the pixels flipped.  uint8."""
    rng = np.random.default_rng(seed)
    yx = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), -1).reshape(-1, 2)
    V = np.zeros((n, SIDE * SIDE), bool)
    for _ in range(3):
        a, b = rng.uniform(4, SIDE - 4, (2, n, 1, 2))
        t = np.clip(((yx - a) * (b - a)).sum(-1) / ((b - a) ** 2).sum(-1), 0, 1)[..., None]
        V |= ((yx - a - t * (b - a)) ** 2).sum(-1) < 1.5**2
    X = V ^ (rng.random(V.shape) < 0.1)
    return X.astype(np.uint8), V.astype(np.uint8)


def mle_epoch(data, n_threads):
    """An epoch that starts from a model some epochs old, ready to be timed."""
    X, V = data
    model = cf.CRBM(V.shape[1], NH, X.shape[1], n_threads=n_threads)
    cf.train(model, X, V, "mle", epochs=2, batch_size=BATCH, start="logistic")
    start = model.copy()

    def epoch():
        for name, p in start.parameters().items():
            model.parameters()[name][...] = p
        return cf.train(model, X, V, "mle", epochs=1, batch_size=BATCH)

    return epoch


# --- time inside the compiled code ------------------------------------------------------------------------------


@contextlib.contextmanager
def stopwatch():
    """Yields a list whose sum is the time spent in calls of the compiled modules while the context lasts."""
    seconds = []

    def timed(function):
        def call(*args, **kw):
            start = time.perf_counter()
            try:
                return function(*args, **kw)
            finally:
                seconds.append(time.perf_counter() - start)

        return call

    class Core(_engine.Core):
        run, gibbs, update = (timed(f) for f in (_engine.Core.run, _engine.Core.gibbs, _engine.Core.update))

    names = ("product", "logistic", "softplus_sums", "sum_squares", "momentum_step", "adam_step")
    kept, kept_core = {n: getattr(_algebra, n) for n in names}, inference._engine
    try:
        for n in names:
            setattr(_algebra, n, timed(kept[n]))
        inference._engine = type("timed", (), {"Core": Core, "enumerate_states": _engine.enumerate_states})
        yield seconds
    finally:
        for n in names:
            setattr(_algebra, n, kept[n])
        inference._engine = kept_core


def share_inside(data, repeats):
    """Largest share of an epoch's wall time inside C and BLAS, one thread, and the phases of that epoch."""
    best, phases = 0.0, {}
    epoch = mle_epoch(data, 1)
    for _ in range(repeats):
        with stopwatch() as seconds:
            start = time.perf_counter()
            history = epoch()
            wall = time.perf_counter() - start
        if sum(seconds) / wall > best:
            best, phases = sum(seconds) / wall, history[0].seconds
    return best, phases


# --- against scikit-learn ---------------------------------------------------------------------------------------


def rbm_epochs(V, dtype, batch_size):
    """An epoch of scikit-learn's BernoulliRBM and of RBM by CD-1 with the same sizes, one thread each."""
    from sklearn.neural_network import BernoulliRBM
    from threadpoolctl import threadpool_limits

    V = V.astype(dtype)
    kw = {"learning_rate": 0.01, "batch_size": batch_size}
    theirs = BernoulliRBM(NH, n_iter=1, random_state=0, **kw)
    ours = cf.RBM(V.shape[1], NH, dtype=dtype, n_threads=1)
    sgd = cf.optimizers.SGD(momentum=0.0)

    def fit():
        with threadpool_limits(1):
            theirs.fit(V)

    return {
        f"BernoulliRBM, {dtype}, batch {batch_size}": fit,
        f"RBM, {dtype}, batch {batch_size}": lambda: cf.train(ours, None, V, "cd", epochs=1, optimizer=sgd, **kw),
    }


# --- memory -------------------------------------------------------------------------------------------------------

MEMORY = """
import sys
import numpy as np
import crbm_fast as cf
N = int(sys.argv[1])
def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key)) * 1024
rng = np.random.default_rng(0)
X = rng.integers(0, 2, (N, 128), dtype=np.uint8)
kw = dict(epochs=1, batch_size=100, validation=0.1)
cf.train(cf.CRBM(128, 32, 128, n_threads=1), X[:2000], X[:2000], **kw)        # code and libraries are loaded
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")                                                              # peak := now
before = status("VmRSS")
cf.train(cf.CRBM(128, 32, 128, n_threads=1), X, X, **kw)
print(status("VmHWM") - before)
"""


def bytes_per_instance():
    """Growth of the peak memory of training per instance, beyond the data; None off Linux."""
    if sys.platform != "linux":
        return None
    small, large = 400_000, 800_000
    peak = [
        int(subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True,
                           cwd=tempfile.gettempdir()).stdout)
        for n in (small, large)
    ]  # fmt: skip
    return max(0, peak[1] - peak[0]) / (large - small)


# --- the report -----------------------------------------------------------------------------------------------------


def run(quick=False):
    """Measure everything; returns the report as a dictionary."""
    repeats, data, many = (1 if quick else 4), images(N), images(3 * N)[1]
    share, phases = share_inside(data, 1 + repeats)
    times = interleaved(
        lambda: {
            "mle, 1 thread": mle_epoch(data, 1),
            "mle, 2 threads": mle_epoch(data, 2),
        },
        repeats, rounds=2,
    ) | interleaved(
        lambda: {
            name: f
            for dtype in ("float32", "float64")
            for size in (10, BATCH)
            for name, f in rbm_epochs(many, dtype, size).items()
        },
        repeats, rounds=2,
    )  # fmt: skip
    s = {name: t["min"] for name, t in times.items()}
    size = f"{SIDE * SIDE} outputs, {NH} hidden units"
    rows = [
        (f"mle epoch, {size}, {SIDE * SIDE} features, batch {BATCH}: in C and BLAS", ">=", 85, "%", 100 * share),
        ("that epoch on two threads against one", ">=", 1.7, "x", s["mle, 1 thread"] / s["mle, 2 threads"]),
        *(
            (f"cd-1 epoch of RBM, {size}, batch {b}, 1 thread: BernoulliRBM {theirs} / ours {ours}", ">=", 3, "x",
             s[f"BernoulliRBM, {theirs}, batch {b}"] / s[f"RBM, {ours}, batch {b}"])
            for theirs, ours in (("float64", "float32"), ("float32", "float32"), ("float64", "float64"))
            for b in (10, BATCH)
        ),
        ("memory of training beyond the data, per further instance", "<=", 1, "bytes", bytes_per_instance()),
    ]  # fmt: skip
    for name, t in times.items():
        t["instances"] = len(many if "RBM" in name else data[0])
    return _report.make("training", quick, rows, instances=len(data[0]), batch_size=BATCH, phases=phases, times=times)


def show(report):
    """Print the report."""
    _report.show_machine(report)
    print(f"{'an epoch':<40}{'instances':>12}{'min':>12}{'median':>12}{'per instance':>16}")
    for name, t in report["times"].items():
        each = 1e6 * t["min"] / t["instances"]
        print(f"  {name:<38}{t['instances']:>12}{t['min']:>10.3f} s{t['median']:>10.3f} s{each:>13.1f} us")
    total = report["phases"]["total"]
    parts = ", ".join(f"{name} {100 * t / total:.1f} %" for name, t in report["phases"].items() if name != "total")
    print(f"\nan mle epoch on one thread: {parts}\n")
    _report.show_bars(report)


def plot(report, path):
    """Where an epoch's time goes, and how long one of BernoulliRBM and of ours takes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(10, 2.8), layout="constrained", width_ratios=[1, 1.2])
    phases = {name: t for name, t in report["phases"].items() if name != "total"}
    per_batch = 1e3 * report["batch_size"] / report["instances"]
    bars = axes[0].barh(list(phases), [per_batch * t for t in phases.values()], color="tab:blue")
    axes[0].bar_label(bars, [f" {per_batch * t:.2f}" for t in phases.values()])
    axes[0].set_xlabel(f"ms per batch of {report['batch_size']}, one thread")
    axes[0].set_title("MLE with sum-product BP, 784 / 256 / 784")
    axes[0].margins(x=0.15)
    rbm = {name: 1e6 * t["min"] / t["instances"] for name, t in report["times"].items() if "RBM" in name}
    colours = ["0.6" if name.startswith("Bernoulli") else "tab:red" for name in rbm]
    bars = axes[1].barh(list(rbm), list(rbm.values()), color=colours)
    axes[1].bar_label(bars, [f" {t:.0f}" for t in rbm.values()])
    axes[1].set(xlabel="microseconds per instance, one thread", title="Plain RBM, 784 / 256, CD-1 and scikit-learn")
    axes[1].margins(x=0.15)
    for ax in axes:
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
