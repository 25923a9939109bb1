"""An epoch of training: the share of C and BLAS, threads, the comparison with scikit-learn and rbms, and memory.

The data are noisy copies of strokes in a 28 x 28 image, so that the sizes and the work of BP are those of the paper's
denoising task, without its data.
"""

import collections
import contextlib
import sys
import time
from functools import partial

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._options import cores
from bench._timing import interleaved, pinned
from bench.bench_memory import peak
from bench.peers.trainers import reconstruction
from crbm_fast import _algebra, _engine

SIDE, NH, BATCH = 28, 256, 40
N = 4000


def images(n, seed=0):
    """X and V as uint8: V has three random thick lines per image, and X is V with 10 % of the pixels flipped."""
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
    """A call, ready to be timed, that trains for one epoch from a model that is already some epochs old."""
    X, V = data
    model = cf.CRBM(V.shape[1], NH, X.shape[1], n_threads=n_threads)
    cf.train(model, X, V, "mle", epochs=2, batch_size=BATCH, start="logistic", progress=False)
    start = model.copy()

    def epoch():
        for name, p in start.parameters().items():
            model.parameters()[name][...] = p
        return cf.train(model, X, V, "mle", epochs=1, batch_size=BATCH, progress=False)

    return epoch


# --- time inside the compiled code ------------------------------------------------------------------------------


@contextlib.contextmanager
def stopwatch():
    """Measure the compiled modules while the context lasts; yields {function: seconds spent in its calls}."""
    seconds = collections.defaultdict(float)

    def timed(name, function):
        def call(*args, **kw):
            start = time.perf_counter()
            try:
                return function(*args, **kw)
            finally:
                seconds[name] += time.perf_counter() - start

        return call

    class TimedCore(_engine.Core):
        run, gibbs, update = (timed(n, getattr(_engine.Core, n)) for n in ("run", "gibbs", "update"))

    functions = {n: f for n, f in vars(_algebra).items() if getattr(f, "__module__", None) == _algebra.__name__}
    core = _engine.Core
    try:
        for name, function in functions.items():
            setattr(_algebra, name, timed(name, function))
        _engine.Core = TimedCore
        yield seconds
    finally:
        for name, function in functions.items():
            setattr(_algebra, name, function)
        _engine.Core = core


def share_inside(data, repeats):
    """The largest share of an epoch's wall time spent in C and BLAS, on one thread, and the phases of that epoch."""
    best, phases = 0.0, {}
    epoch = mle_epoch(data, 1)
    for _ in range(repeats):
        with stopwatch() as seconds:
            start = time.perf_counter()
            history = epoch()
            wall = time.perf_counter() - start
        share = sum(seconds.values()) / wall
        if share > best:
            best, phases = share, history[0].seconds
    return best, phases


# --- the report -----------------------------------------------------------------------------------------------------


def run(options):
    quick = options.quick
    repeats, rounds, n = (1, 1, N // 10) if quick else (4, 2, N)
    data, many = images(n), images(3 * n)[1]
    with pinned(1):
        options.progress("an mle epoch, inside")
        share, phases = share_inside(data, 1 + repeats)
    counts = range(1, min(2, cores()) + 1)
    with pinned(2):
        options.progress("an mle epoch, threads")
        mle = interleaved(lambda: {_report.threads(k): mle_epoch(data, k) for k in counts}, repeats, rounds)
    options.progress("cd-1 epochs of plain RBMs")
    with pinned(1):
        others, left_out = plain_rbms(options, many, repeats, rounds)
    size = f"{SIDE * SIDE} outputs, {NH} hidden units"
    rows = [
        _report.row(f"mle epoch, {size}, {SIDE * SIDE} features, batch {BATCH}", who, t, instances=n)
        for who, t in mle.items()
    ]
    rows += [
        _report.row(
            f"cd-1 epoch, {size}, batch {b}, 1 thread",
            trainer.name,
            t,
            instances=3 * n,
            reconstruction=error,
            **({} if trainer.ours else {"peer": True}),
        )
        for (trainer, b), (t, error) in others.items()
    ]
    s = {(trainer.name, b): t["min"] for (trainer, b), (t, _) in others.items()}
    bars = [
        (f"mle epoch, {size}, {SIDE * SIDE} features, batch {BATCH}: in C and BLAS", ">=", 85, "%", 100 * share),
        (
            "that epoch on two threads against one",
            ">=",
            1.7,
            "x",
            _report.ratio(mle["1 thread"]["min"], mle["2 threads"]["min"] if len(counts) > 1 else None),
        ),
        *(
            (
                f"cd-1 epoch of RBM, {size}, batch {b}, 1 thread: BernoulliRBM {theirs} / ours {ours}",
                ">=",
                3,
                "x",
                _report.ratio(s.get((f"BernoulliRBM {theirs}", b)), s.get((f"RBM {ours}", b))),
            )
            for theirs, ours in (("float64", "float32"), ("float32", "float32"), ("float64", "float64"))
            for b in (10, BATCH)
        ),
    ]
    options.progress("memory of training")
    growth = None if quick or sys.platform != "linux" else bytes_per_instance()
    bars.append(("memory of training beyond the data, per further instance", "<=", 1, "bytes", growth))
    left_out += options.missing
    return _report.make("training", options, rows, left_out, bars, phases=phases, instances=n, batch_size=BATCH)


def plain_rbms(options, V, repeats, rounds):
    """{(trainer, batch size): (times of an epoch, reconstruction error after it)}, and what is left out.

    A trainer's time counts if its first epoch brings the error to at most 1.25 times ours, as all do the same CD-1.
    """
    epochs, errors, left_out = {}, {}, []
    for b in (10, BATCH):
        for trainer in options.trainers:
            options.progress(f"cd-1, batch {b}: {trainer.name}")
            try:
                errors[trainer, b] = reconstruction(V[:500], trainer.prepare(V, NH, b)())
            except Exception as error:  # anything may go wrong in other people's code, and is then reported
                why = f"failed: {type(error).__name__}: {error}".splitlines()[0]
                left_out.append({"case": f"batch {b}", "who": trainer.name, "why": why})
                continue
            ours = errors[options.trainers[0], b]
            if errors[trainer, b] <= 1.25 * ours:
                epochs[trainer, b] = partial(trainer.prepare, V, NH, b)
            else:
                why = f"DISAGREES: error of reconstruction {errors[trainer, b]:.3f}, ours {ours:.3f}"
                left_out.append({"case": f"batch {b}", "who": trainer.name, "why": why})
    times = interleaved(lambda: {key: prepare() for key, prepare in epochs.items()}, repeats, rounds)
    return {key: (t, errors[key]) for key, t in times.items()}, left_out


def bytes_per_instance():
    """The growth of the peak memory of training per instance, beyond the data; None where it cannot be measured."""
    small, large = 400_000, 800_000
    peaks = [peak("training", n) for n in (small, large)]
    return None if None in peaks else max(0, peaks[1] - peaks[0]) / (large - small)


def plot(report, path):
    """Draw how the time of an epoch is spent, and how long an epoch of a plain RBM takes in each package."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=[1, 1.2])
    phases = {name: t for name, t in report["phases"].items() if name != "total"}
    per_batch = 1e3 * report["batch_size"] / report["instances"]
    bars = axes[0].barh(list(phases), [per_batch * t for t in phases.values()], color="tab:blue")
    axes[0].bar_label(bars, [f" {per_batch * t:.2f}" for t in phases.values()])
    axes[0].set_xlabel(f"ms per batch of {report['batch_size']}, one thread")
    axes[0].set_title("MLE with sum-product BP, 784 / 256 / 784")
    rows = [r for r in report["rows"] if r["case"].startswith("cd-1")]
    rbm = {f"{r['who']},{r['case'].split(',')[-2]}": 1e6 * r["min"] / r["instances"] for r in rows}
    colours = ["tab:red" if name.startswith("RBM") else "0.6" for name in rbm]
    bars = axes[1].barh(list(rbm), list(rbm.values()), color=colours)
    axes[1].bar_label(bars, [f" {t:.0f}" for t in rbm.values()])
    axes[1].set(xlabel="microseconds per instance, one thread", title="Plain RBMs by CD-1 (red: ours)")
    for ax in axes:
        ax.margins(x=0.15)
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
