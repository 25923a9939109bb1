"""Samplers on peaked posteriors with many modes: effective samples per second of Gibbs, tempering and jumps by BP.

The effective number of samples of a chain is the number of independent draws whose mean would have the mean squared
error of the chain's: var / MSE, both against the exact distribution, which small hidden layers allow to enumerate.  A
chain that stays in its mode has about one, however long it runs.  Chains start from fair coins, nothing is discarded,
and the time that BPMixture takes to find its mixture counts.  With 100 chains the MSE is known to about 14 %.  (That
many chains count as many times only while what the start adds to the error is small beside its spread.)
"""

import time

import numpy as np

from bench import _report
from bench._timing import pinned
from crbm_fast import samplers

NV, NH, PATTERNS, CHAINS = 64, 16, 4, 100
GAINS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
STRENGTHS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Jumps are accepted less and less often with more units, as fewer of them agree throughout a mode.
SIZES = ((NV, NH), (64, 32), (196, 50))
# Numbers of steps, with which each sampler takes a second or two.
SAMPLERS = {"BlockedGibbs": 8000, "ParallelTempering": 800, "BPMixture": 2000}


def stored(gain):
    """An RBM that stores patterns and their complements: one broad mode below gain 1, sharp modes from 1.5 on."""
    rng = np.random.default_rng(0)
    xi = rng.choice([-1.0, 1.0], (PATTERNS, NV))
    W = np.ascontiguousarray(4 * gain * np.sqrt(PATTERNS / (NV * NH)) * xi[np.arange(NH) % PATTERNS].T)
    return W, 0.3 * rng.normal(size=NV) / np.sqrt(NV) - W.sum(1) / 2, -W.sum(0) / 2, 2 * xi[0] / NV


def random_weights(strength, nv=NV, nh=NH):
    """An RBM with independent weights, without structure: modes that a product of beliefs resembles less and less."""
    rng = np.random.default_rng(0)
    W = 4 * strength * rng.normal(size=(nv, nh)) / (nv * nh) ** 0.25
    b_v, b_h = 0.3 * rng.normal(size=nv) - W.sum(1) / 2, 0.3 * rng.normal(size=nh) - W.sum(0) / 2
    return W, b_v, b_h, rng.choice([-2.0, 2.0], nv) / nv


def moments(W, b_v, b_h, c):
    """The mean and the variance of v' c, whose distribution is a mixture over all states of h."""
    h = (np.arange(2**NH)[:, None] >> np.arange(NH) & 1).astype(float)
    theta = b_v + h @ W.T
    log_p = h @ b_h + np.logaddexp(0, theta).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    tau = 1 / (1 + np.exp(-theta))
    mean = tau @ c
    return p @ mean, p @ (mean**2 + (tau * (1 - tau)) @ c**2) - (p @ mean) ** 2


def effective(name, problem, exact, steps):
    """The effective samples of CHAINS chains per second, and of one chain per step; `exact` is what `moments` says."""
    *model, c = problem
    mean, variance = exact
    start = time.perf_counter()
    sampler = getattr(samplers, name)(*model, n_threads=1)
    state, total = sampler.init(CHAINS, seed=1), np.zeros(CHAINS)
    for _ in range(steps):
        state = sampler.step(state)
        total += state.v @ c
    seconds = time.perf_counter() - start
    samples = variance / np.mean((total / steps - mean) ** 2)
    return CHAINS * samples / seconds, samples / steps


def accepted(nv, nh):
    """The percentage of BPMixture's jumps that are accepted with random weights of strength 1."""
    sampler = samplers.BPMixture(*random_weights(1.0, nv, nh)[:3], n_threads=1)
    state, found = sampler.init(CHAINS, seed=1), []
    for _ in range(100):
        state = sampler.step(state)
        found.append(state.accepted.mean())
    return 100 * float(np.mean(found[20:]))


def run(options):
    rows = []
    sweeps = [
        (f"{PATTERNS} stored patterns", "gain", stored, GAINS),
        ("random weights", "strength", random_weights, STRENGTHS),
    ]
    with pinned(1):
        for what, word, make, values in sweeps:
            for value in values[-2:] if options.quick else values:
                options.progress(f"{what}, {word} {value:g}")
                problem = make(value)
                exact = moments(*problem)
                for name, steps in SAMPLERS.items():
                    rate, per_step = effective(name, problem, exact, steps // 20 if options.quick else steps)
                    case = f"{NV}x{NH}, {what}, {word} {value:g}: effective samples per second of {CHAINS} chains"
                    rows.append(
                        _report.value_row(case, name, "samples/s", rate, per_step=per_step, sweep=what, strength=value)
                    )
        for nv, nh in SIZES[:1] if options.quick else SIZES:
            options.progress(f"jumps at {nv}x{nh}")
            case = "random weights, strength 1: jumps of BPMixture that are accepted"
            rows.append(_report.value_row(case, f"{nv}x{nh}", "%", accepted(nv, nh)))
    return _report.make("samplers", options, rows, [], [])


def plot(report, path):
    """Draw the effective samples per second against the sharpness of the modes."""
    import matplotlib.pyplot as plt

    labels = {
        "BlockedGibbs": "blocked Gibbs",
        "ParallelTempering": "parallel tempering",
        "BPMixture": "Gibbs with BP's jumps",
    }
    report = report | {"rows": [r for r in report["rows"] if "sweep" in r]}
    sweeps = list(dict.fromkeys(r["sweep"] for r in report["rows"]))
    fig, axes = plt.subplots(1, len(sweeps), figsize=(9, 3.8), layout="constrained", sharey=True)
    titles = (f"{NV}x{NH}, {PATTERNS} stored patterns and their complements", f"{NV}x{NH}, random weights")
    for ax, sweep, title in zip(axes, sweeps, titles, strict=True):
        for name, colour in zip(labels, ("tab:blue", "tab:orange", "tab:red"), strict=True):
            points = [(r["strength"], r["min"]) for r in report["rows"] if (r["sweep"], r["who"]) == (sweep, name)]
            ax.plot(*zip(*points, strict=True), "o-", color=colour, label=labels[name])
        ax.set(xlabel="strength of the weights", yscale="log", title=title)
        ax.title.set_fontsize(10)
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("effective samples per second")
    axes[0].legend(frameon=False)
    fig.savefig(path, dpi=150)
    plt.close(fig)
