"""The problems of the benchmark: random RBMs, which are the same for every program."""

import os
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import crbm_fast as cf

T = 10  # iterations, as in the paper's comparison with libDAI
SIZES = ((100, 50), (784, 256), (1000, 500), (10_000, 2_000), (20_000, 10_000))


class BenchError(Exception):
    """The user asked for something that cannot be done; the message says why."""


@dataclass(frozen=True)
class Problem:
    """A random RBM W (nv, nh), b1 (nv,), b2 (nh,) in float32; with N, a batch of biases b1 (N, nv), b2 (N, nh)."""

    nv: int
    nh: int
    N: int | None = None
    strength: float = 1.0

    @property
    def scale(self):
        """The standard deviation of W; that of the biases is 1.

        Up to 1000x500 it is 0.05, with which libDAI was timed.  Beyond, it decreases as the norm of such a matrix
        grows, so that BP converges alike at all sizes.
        """
        return self.strength * 0.05 * min(1, (1000**0.5 + 500**0.5) / (self.nv**0.5 + self.nh**0.5))

    @property
    def name(self):
        return f"{self.nv}x{self.nh}"

    @property
    def updates(self):
        """The number of edges times T iterations times instances."""
        return self.nv * self.nh * T * (self.N or 1)

    @cached_property
    def arrays(self):
        rng = np.random.default_rng(0)
        batch = () if self.N is None else (self.N,)
        W = rng.standard_normal((self.nv, self.nh), np.float32)
        W *= np.float32(self.scale)
        return W, *(rng.standard_normal((*batch, n), np.float32) for n in (self.nv, self.nh))

    def beliefs(self, schedule, n_iter=T):
        """tau_v and tau_h after n_iter iterations of a schedule, by the engine (in float64 up to 2^25 edges).

        paper     all h -> v, then all v -> h: Algorithm 1
        flooding  all messages at once, from the old ones, which start uniform.  On a bipartite graph that is two runs
                  of Algorithm 1 that do not see each other, one begun by h and one by v, at half an iteration a step
        late      the same in a graph whose biases are factors that also send their first message in the first
                  iteration: all others then send sum_x exp(W x y) / 2 and go on from there
        """
        if schedule not in ("paper", "flooding", "late"):
            raise ValueError(f"no schedule {schedule!r}")
        dtype = np.float64 if self.nv * self.nh <= 2**25 else np.float32
        W, b1, b2 = (a.astype(dtype) for a in self.arrays)
        if schedule == "paper":
            b = cf.infer(W, b1, b2, max_iter=n_iter, tol=0, n_threads=1)
            return b.tau_v, b.tau_h
        steps = n_iter - (schedule == "late")
        kw = {"max_iter": (steps + 1) // 2, "tol": 0, "n_threads": 1}
        init = np.log1p(np.exp(W)) - np.log(2).astype(dtype) if schedule == "late" else None
        by_h = cf.infer(W, b1, b2, init=init, **kw)
        by_v = cf.infer(W.T.copy(), b2, b1, init=None if init is None else init.T.copy(), **kw)
        return (by_v.tau_h, by_h.tau_h) if steps % 2 == 0 else (by_h.tau_v, by_v.tau_v)


def parse_size(text):
    """The size (nv, nh) that "1000x500" means."""
    match = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", text)
    if not match:
        raise BenchError(f"{text!r} is not a size; write visible x hidden units, such as 1000x500")
    return int(match[1]), int(match[2])


def memory_free():
    """The bytes that this process may still use, or all there are; infinite where the system does not say."""
    if sys.platform == "linux":
        with open("/proc/meminfo") as f:
            free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
        try:
            group = Path("/sys/fs/cgroup")
            cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.MULTILINE)
            used = int((group / "memory.current").read_text()) - int(cache[1])
            return min(free, int((group / "memory.max").read_text()) - used)
        except (OSError, ValueError, TypeError):  # no such group, no such line, or "max"
            return free
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return float("inf")


def does_not_fit(nv, nh, bytes_per_edge):
    """Why a program that needs so many bytes beside W, or the beliefs it is compared with, does not fit; or None."""
    reference = 36 if nv * nh <= 2**25 else 24  # W, exp(W) and messages in float64, or float32 and W'
    need, free = nv * nh * (4 + max(bytes_per_edge, reference)), memory_free()
    return None if need < 0.9 * free else f"needs about {need / 1e9:.1f} GB; {free / 1e9:.1f} GB are free"
