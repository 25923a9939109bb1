"""An epoch of training: how much of it is spent in C and BLAS, how it scales, against scikit-learn, and its memory.

The data are noisy copies of strokes in a 28 x 28 image, so that sizes and the work of BP are those of the paper's
denoising task without its data.
"""

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
import time

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._timing import interleaved, pinned
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


# --- against other packages -----------------------------------------------------------------------------------------


def rbm_epochs(V, dtype, batch_size):
    """An epoch of scikit-learn's BernoulliRBM and of RBM by CD-1 with the same sizes, one thread each."""
    from sklearn.neural_network import BernoulliRBM

    V = V.astype(dtype)
    kw = {"learning_rate": 0.01, "batch_size": batch_size}
    theirs = BernoulliRBM(NH, n_iter=1, random_state=0, **kw)
    ours = cf.RBM(V.shape[1], NH, dtype=dtype, n_threads=1)
    sgd = cf.optimizers.SGD(momentum=0.0)
    return {
        f"BernoulliRBM, {dtype}, batch {batch_size}": lambda: theirs.fit(V),
        f"RBM, {dtype}, batch {batch_size}": lambda: cf.train(ours, None, V, "cd", epochs=1, optimizer=sgd, **kw),
    }


RBMS = "pip install rbms torch==2.13.0 h5py"


def rbms_epoch(V, batch_size):
    """An epoch of the package rbms (PyTorch, float32) by CD-1: the body of its training loop, without its files."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    torch.set_num_threads(1)
    data, ones = torch.from_numpy(V.astype(np.float32)), torch.ones(batch_size)
    generator = torch.Generator().manual_seed(0)
    model = BBRBM(1e-2 * torch.randn(V.shape[1], NH, generator=generator), torch.zeros(V.shape[1]), torch.zeros(NH))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, maximize=True)

    @torch.no_grad()
    def epoch():
        for indices in torch.randperm(len(data), generator=generator).split(batch_size):
            batch = data[indices], ones[: len(indices)]
            chains = model.init_chains(len(indices), weights=batch[1], start_v=batch[0])
            sgd.zero_grad(set_to_none=False)
            fit_batch_pcd(batch, chains, model, gibbs_steps=1, beta=1.0, centered=False)
            sgd.step()

    return {f"rbms, float32, batch {batch_size}": epoch}


def installed(*modules):
    return all(importlib.util.find_spec(m) is not None for m in modules)


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


def run(options):
    quick = options.quick
    repeats, n = (1, N // 10) if quick else (4, N)
    rounds = 1 if quick else 2
    data, many = images(n), images(3 * n)[1]
    left_out = []
    with pinned(1):
        options.progress("an mle epoch, inside")
        share, phases = share_inside(data, 1 + repeats)
    with pinned(2):
        options.progress("an mle epoch, threads")
        mle = interleaved(lambda: {_report.threads(k): mle_epoch(data, k) for k in (1, 2)}, repeats, rounds)
    batches = [(dtype, size) for dtype in ("float32", "float64") for size in (10, BATCH)]

    def others():
        out = {}
        for dtype, size in batches:
            if installed("sklearn"):
                out |= rbm_epochs(many, dtype, size)
            if installed("rbms", "torch", "h5py") and dtype == "float32":
                out |= rbms_epoch(many, size)
        return out

    for module, who, how in (("sklearn", "BernoulliRBM", 'pip install ".[sklearn]"'), ("rbms", "rbms", RBMS)):
        if not installed(module):
            left_out.append({"case": "not installed", "who": who, "why": how})
    options.progress("a cd-1 epoch of plain RBMs")
    with pinned(1):
        times = interleaved(others, repeats, rounds)
    size = f"{SIDE * SIDE} outputs, {NH} hidden units"
    rows = [_report.row(f"mle epoch, {size}, {SIDE * SIDE} features, batch {BATCH}", who, t, instances=n)
            for who, t in mle.items()]  # fmt: skip
    rows += [_report.row(f"cd-1 epoch, {size}, 1 thread", who, t, instances=3 * n) for who, t in times.items()]
    s = {r["who"]: r["min"] for r in rows}
    bars = [
        (f"mle epoch, {size}, {SIDE * SIDE} features, batch {BATCH}: in C and BLAS", ">=", 85, "%", 100 * share),
        ("that epoch on two threads against one", ">=", 1.7, "x", s["1 thread"] / s["2 threads"]),
        *(
            (f"cd-1 epoch of RBM, {size}, batch {b}, 1 thread: BernoulliRBM {theirs} / ours {ours}", ">=", 3, "x",
             _report.ratio(s.get(f"BernoulliRBM, {theirs}, batch {b}"), s.get(f"RBM, {ours}, batch {b}")))
            for theirs, ours in (("float64", "float32"), ("float32", "float32"), ("float64", "float64"))
            for b in (10, BATCH)
        ),
    ]  # fmt: skip
    options.progress("memory of training")
    growth = None if quick else bytes_per_instance()
    bars.append(("memory of training beyond the data, per further instance", "<=", 1, "bytes", growth))
    versions = _report.versions(("scikit-learn", "rbms", "torch"))
    return _report.make(
        "training", options, rows, left_out, bars, versions=versions, phases=phases, instances=n, batch_size=BATCH
    )


def plot(report, path):
    """Where an epoch's time goes, and how long one of plain RBMs takes, by package."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=[1, 1.2])
    phases = {name: t for name, t in report["phases"].items() if name != "total"}
    per_batch = 1e3 * report["batch_size"] / report["instances"]
    bars = axes[0].barh(list(phases), [per_batch * t for t in phases.values()], color="tab:blue")
    axes[0].bar_label(bars, [f" {per_batch * t:.2f}" for t in phases.values()])
    axes[0].set_xlabel(f"ms per batch of {report['batch_size']}, one thread")
    axes[0].set_title("MLE with sum-product BP, 784 / 256 / 784")
    rbm = {r["who"]: 1e6 * r["min"] / r["instances"] for r in report["rows"] if r["case"].startswith("cd-1")}
    colours = ["tab:red" if name.startswith("RBM") else "0.6" for name in rbm]
    bars = axes[1].barh(list(rbm), list(rbm.values()), color=colours)
    axes[1].bar_label(bars, [f" {t:.0f}" for t in rbm.values()])
    axes[1].set(xlabel="microseconds per instance, one thread", title="Plain RBM, 784 / 256, CD-1 (RBM: crbm_fast)")
    for ax in axes:
        ax.margins(x=0.15)
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
