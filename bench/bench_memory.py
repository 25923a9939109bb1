"""The peak memory beyond inputs and results: ours up to 20,000x10,000, and that of the peers at 1000x500."""

import json
import subprocess
import sys
from pathlib import Path

from bench import _report
from bench._problems import Problem, does_not_fit
from bench._report import OURS

CASES = {  # what: (nv, nh, N, threads, with Gamma)
    "one RBM of 8000x4000, Gamma": (8000, 4000, 0, 1, 1),
    "batch of 64 at 2000x1000, Gamma summed, 2 threads": (2000, 1000, 64, 2, 1),
    "one RBM of 20000x10000, 2 threads": (20_000, 10_000, 0, 2, 0),
}


def run(options):
    rows, left_out = [], []
    if sys.platform != "linux":
        left_out.append({"case": "memory", "who": "everybody", "why": "is measured on Linux only"})
        return _report.make("memory", options, rows, left_out, [])
    cases = {k: v for k, v in CASES.items() if not options.quick or v[0] < 10_000}
    for what, (nv, nh, N, threads, gamma) in cases.items():
        options.progress(what)
        why = does_not_fit(nv, nh, 12 + 4 * gamma)
        if why:
            left_out.append({"case": what, "who": OURS, "why": why})
            continue
        size = peak("engine", nv, nh, N, threads, gamma)
        if size is None:
            left_out.append({"case": what, "who": OURS, "why": "could not be measured"})
            continue
        rows.append(row(what, OURS, "GB", size, nv * nh))
    problem = Problem(*options.single_size)
    for peer in () if options.quick else options.peers:
        if peer.grows_with_degree:
            continue  # they take minutes to hours at this size
        options.progress(f"{problem.name}: {peer.name}")
        size = peak("peer", peer.name, problem.nv, problem.nh)
        if size is None:
            left_out.append({"case": problem.name, "who": peer.name, "why": "could not be measured"})
            continue
        flag = {} if peer.ours else {"peer": True}
        rows.append(row(problem.name, peer.name, "MB", size, problem.nv * problem.nh, **flag))
    m = {r["case"]: r for r in rows}
    one, batch, large = (m.get(what) for what in CASES)
    bars = [
        # on top of whole matrices come vectors and the sums of groups of rows, 1/64 of a matrix for each slot
        ("peak memory beyond input and output, one RBM of 8000x4000", "<=", 2, "matrices", one and one["matrices"]),
        ("peak memory, batch of 64 at 2000x1000, 2 threads", "<=", 3, "matrices", batch and batch["matrices"]),
        ("peak memory beyond W and biases, one RBM of 20,000x10,000", "<=", 3, "GB", large and large["min"]),
    ]
    return _report.make("memory", options, rows, left_out, bars)


def row(case, who, unit, size, edges, **rest):
    """A row of `size` bytes, given in GB or MB and as a number of float32 matrices of that many edges."""
    value = size / {"GB": 1e9, "MB": 1e6}[unit]
    return _report.value_row(case, who, unit, value, matrices=size / (4 * edges), **rest)


def peak(*args):
    """The bytes that `_peak.py` measures for these arguments; None if it fails."""
    run = subprocess.run(
        [sys.executable, "-m", "bench._peak", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    if run.returncode != 0:
        print(f"bench._peak {' '.join(map(str, args))}: {(run.stderr.splitlines() or ['?'])[-1]}", file=sys.stderr)
        return None
    return json.loads(run.stdout.splitlines()[-1])
