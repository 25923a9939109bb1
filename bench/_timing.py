"""Times that can be compared on a shared machine."""

import contextlib
import ctypes
import os
import statistics
import time

# A measurement lasts at least this long: a thousand times the resolution of the clock, and 20 ms.
MIN_SECONDS = max(2e-2, 1e3 * time.get_clock_info("perf_counter").resolution)


def keep_freed_memory():
    """Let glibc keep freed blocks of up to 32 MB, the most it can.

    Otherwise each temporary array of NumPy and PyTorch may cost a page fault per 4 kB, or may not, depending on what
    the process did before: 24 or 35 ns per edge and iteration for the paper's form in float64.  Their best case.
    """
    with contextlib.suppress(AttributeError):                            # another libc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)                                            # M_MMAP_THRESHOLD
        mallopt(-1, 1 << 30)                                             # M_TRIM_THRESHOLD


@contextlib.contextmanager
def pinned(n_threads):
    """Hold this thread, and those it starts, to the last n of its cores (the first one serves most interrupts)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(cores)[-n_threads:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def interleaved(build, repeats, rounds=3, seconds=10.0, warm=False):
    """Times per call of each function of the dictionary `build()`, measured in turns; see `summary`.

    A slow moment of the machine then hits all of them.  Every round builds them anew: where the pages of a buffer
    happen to lie can cost half the speed for as long as it lives.  Short functions are called several times per
    measurement, long ones measured less often: `seconds` is what one function may take in all, but it is called
    twice in any case, to warm up (unless they are `warm`) and to be measured.
    """
    times, calls = {}, {}

    def measure(name, function):
        start = time.perf_counter()
        for _ in range(calls[name]):
            function()
        return (time.perf_counter() - start) / calls[name]

    for _ in range(rounds):
        functions = build()
        for name, function in functions.items():
            if sum(times.get(name, ())) < seconds:
                if not warm:
                    function()
                calls[name] = 1
                one = measure(name, function)
                calls[name] = max(1, round(MIN_SECONDS / one))
                if calls[name] == 1:
                    times.setdefault(name, []).append(one)
        for _ in range(repeats):
            for name, function in functions.items():
                taken = times.setdefault(name, [])
                if not taken or (sum(taken) + taken[-1]) * calls[name] < seconds:
                    taken.append(measure(name, function))
    return {name: summary(t) | {"calls": calls[name]} for name, t in times.items()}


def summary(times):
    """Minimum, median, and spread: the distance of the quartiles over the median."""
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return {"min": min(times), "median": middle, "spread": (high - low) / middle, "repeats": len(times)}
