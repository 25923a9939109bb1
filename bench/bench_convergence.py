"""Where plain BP does not converge: descent on the Bethe free energy and the fallback to it, on one thread."""

import numpy as np

import crbm_fast as cf
from bench import _report
from bench._problems import Problem
from bench._timing import interleaved, pinned
from bench.bench_memory import peak
from bench.peers.engine import engine_run

# Random models: sizes and strengths are drawn between these, uniformly in their logarithms.
SIZES, STRENGTHS, MODELS = ((10, 8), (300, 100)), (0.1, 3.0), 1000
# Models of which the truth is known, and how many instances of each.
KNOWN, KNOWN_STRENGTHS, INSTANCES = ((10, 8), (20, 12), (60, 16)), (0.1, 0.3, 1.0, 3.0), 150
BATCH = 784, 256

# How each of them is asked; 500 iterations at most.
METHODS = {
    "bethe": {"method": "bethe"},
    "plain": {"fallback": None},
    "damped by 0.5": {"damping": 0.5, "fallback": None},
    "mean field": {"method": "mean-field"},
}


def hard(rng, nv, nh, strength, N):
    """A batch with weights N(0, strength^2) and biases that favour no state but for N(0, 0.5^2)."""
    W = rng.normal(0, strength, (nv, nh))
    return W, rng.normal(0, 0.5, (N, nv)) - W.sum(1) / 2, rng.normal(0, 0.5, (N, nh)) - W.sum(0) / 2


def between(rng, low, high):
    return np.exp(rng.uniform(np.log(low), np.log(high)))


def convergence(count):
    """{method: the iterations to 1e-6 on each random model, or None where 500 are not enough}."""
    rng = np.random.default_rng(0)
    iterations = {name: [] for name in METHODS}
    for _ in range(count):
        nv, nh = (round(between(rng, a, b)) for a, b in zip(*SIZES, strict=True))
        arrays = hard(rng, nv, nh, between(rng, *STRENGTHS), 1)
        for name, how in METHODS.items():
            b = cf.infer(*arrays, max_iter=500, tol=1e-6, n_threads=1, **how)
            iterations[name].append(int(b.n_iter[0]) if b.converged[0] else None)
    return iterations


def errors(count):
    """The mean error of tau_v in each setting, {(size, strength): {method: error}}."""
    rng = np.random.default_rng(1)
    found = {}
    for nv, nh in KNOWN:
        for strength in KNOWN_STRENGTHS:
            sums = dict.fromkeys(METHODS, 0.0)
            for _ in range(count):
                arrays = hard(rng, nv, nh, strength, 1)
                truth = cf.infer(*arrays, method="exact").tau_v
                for name, how in METHODS.items():
                    sums[name] += np.abs(cf.infer(*arrays, max_iter=500, tol=1e-6, **how).tau_v - truth).mean()
            found[f"{nv}x{nh}, N(0, {strength:g}^2)"] = {name: total / count for name, total in sums.items()}
    return found


def falling_back(problem):
    """A batch, in float32, of which plain BP fails on 5 % and needs about ten iterations for the others."""
    rng = np.random.default_rng(2)
    W, b1, b2 = hard(rng, problem.nv, problem.nh, 6 / np.sqrt(problem.nv), problem.N)
    easy = np.arange(problem.N) % 20 != 0
    b1[easy] = rng.normal(0, 16, (easy.sum(), problem.nv))
    return tuple(a.astype(np.float32) for a in (W, b1, b2))


def run(options):
    few = options.quick
    problem = Problem(*BATCH, N=20 if few else 100)
    case = f"{problem.name}, batch of {problem.N}"
    with pinned(1):
        options.progress("random models")
        iterations = convergence(30 if few else MODELS)
        options.progress("models of which the truth is known")
        wrong = errors(2 if few else INSTANCES)
        options.progress(case)
        arrays = falling_back(problem)
        fell_back = cf.infer(*arrays, n_threads=1).fell_back.mean()
        times = interleaved(
            lambda: {
                "sum-product": engine_run(problem.arrays),
                "bethe": engine_run(problem.arrays, method="bethe"),
                "some fail, without fallback": engine_run(arrays, max_iter=50, tol=1e-3, fallback=None),
                "some fail, with fallback": engine_run(arrays, max_iter=50, tol=1e-3),
            },
            2 if few else 7,
        )
    rows = []
    for name, counts in iterations.items():
        done = [n for n in counts if n is not None]
        most = {"median_iterations": int(np.median(done)), "most_iterations": max(done)} if done else {}
        rows.append(_report.value_row(f"{len(counts)} random models", name, "%", 100 * len(done) / len(counts), **most))
    for setting, by_method in wrong.items():
        rows += [_report.value_row(f"error of tau_v, {setting}", m, "%", 100 * e) for m, e in by_method.items()]
    for name, t in times.items():
        rows.append(_report.row(case, name, t, problem.updates if "fail" not in name else None))
    size = None if few else peak("engine", 2000, 1000, 64, 2, 0, "bethe")
    return _report.make("convergence", options, rows, [], bars(case, rows, wrong, times, fell_back, size))


def bars(case, rows, wrong, times, fell_back, size):
    """The bars, from what `run` has measured; `fell_back` is a share, `size` in bytes."""
    share = next(r["min"] for r in rows if r["who"] == "bethe" and r["case"].endswith("random models"))
    s = {name: t["min"] for name, t in times.items()}
    worst = max(e["bethe"] - min(e["plain"], e["damped by 0.5"]) for e in wrong.values())
    hard = wrong["60x16, N(0, 1^2)"]
    fallback = s["some fail, with fallback"] / s["some fail, without fallback"]
    matrices = size and size / (4 * 2000 * 1000)
    return [
        ("random models on which descent converges", ">=", 100, "%", share),
        ("error of tau_v above plain or damped BP's, worst setting", "<=", 0.1, "%", 100 * worst),
        ("error of tau_v by descent / by plain BP, 60x16, N(0, 1^2)", "<=", 0.5, "x", hard["bethe"] / hard["plain"]),
        (f"{case}: an alternation / an iteration", "<=", 4, "x", s["bethe"] / s["sum-product"]),
        (f"{case}, {100 * fell_back:.0f} % fall back / without fallback", "<=", 1.5, "x", fallback),
        ("peak memory of descent, batch of 64 at 2000x1000", "<=", 1.1, "matrices", matrices),
    ]
