"""Times that can be compared on a shared machine."""

import statistics
import time


def interleaved(functions, repeats, min_seconds=2e-2):
    """Shortest and median seconds per call of each function, all measured in turns.

    A slow moment of the machine then hits all of them.  Functions shorter than `min_seconds` are called several times
    per measurement.
    """
    counts = {}
    for name, function in functions.items():
        function()  # warm up
        start = time.perf_counter()
        function()
        counts[name] = max(1, round(min_seconds / (time.perf_counter() - start)))
    times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                function()
            times[name].append((time.perf_counter() - start) / counts[name])
    return {name: {"min": min(t), "median": statistics.median(t)} for name, t in times.items()}
