"""Measure times that can be compared, also on a shared machine."""

import contextlib
import ctypes
import math
import os
import statistics
import time

# A measurement lasts at least this long: a thousand times the resolution of the clock, and 20 ms.
MIN_SECONDS = max(2e-2, 1e3 * time.get_clock_info("perf_counter").resolution)


def keep_freed_memory():
    """Let glibc keep freed memory, up to 2 GB, in one heap.

    Otherwise each temporary array of NumPy and PyTorch may cost a page fault per 4 kB, or may not, depending on its
    size and on what the process did before: 24 or 35 ns per edge and iteration for the paper as printed in float64.
    """
    with contextlib.suppress(AttributeError):  # another libc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-4, 0)  # M_MMAP_MAX
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


@contextlib.contextmanager
def pinned(n_threads):
    """Bind this thread, and those it starts, to the last n of its cores (the first core serves most interrupts)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[-n_threads:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def interleaved(build, repeats, rounds=3, seconds=10.0, warm=False):
    """The times per call (see `summary`) of each function of the dictionary `build()`, which are measured in turns.

    A slow moment of the machine then affects all of them.  Every round builds the functions anew, because where the
    pages of a buffer happen to lie can cost half the speed for as long as the buffer lives.  Each function is warmed up
    by a call, unless all are `warm`.  Short functions are called several times per measurement, and long ones measured
    less often: the measurements of one function take at most about `seconds`, but there is at least one.
    """
    times, calls, spent = {}, {}, {}

    def within_budget(name):
        return spent[name] + times[name][-1] * calls[name] < seconds

    def measure(name, function):
        start = time.perf_counter()
        for _ in range(calls[name]):
            function()
        elapsed = time.perf_counter() - start
        spent[name] = spent.get(name, 0) + elapsed
        return elapsed / calls[name]

    for _ in range(rounds):
        functions = build()
        for name, function in functions.items():
            if name not in calls or within_budget(name):
                if not warm:
                    function()
                calls[name] = 1
                each = measure(name, function)
                while each < 0.5:  # else one call is enough, and no pause is that long
                    each = min(each, measure(name, function))
                    if each * calls[name] >= MIN_SECONDS:
                        break
                    calls[name] = max(2 * calls[name], min(math.ceil(1.1 * MIN_SECONDS / each), 100 * calls[name]))
                    each = measure(name, function)
                times.setdefault(name, []).append(each)
        for _ in range(repeats - 1):
            for name, function in functions.items():
                if within_budget(name):
                    times[name].append(measure(name, function))
    return {name: summary(t) | {"calls": calls[name]} for name, t in times.items()}


def summary(times):
    """The minimum, the median and the spread (the distance of the quartiles over the median) of times."""
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return {"min": min(times), "median": middle, "spread": (high - low) / middle, "repeats": len(times)}
