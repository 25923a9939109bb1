"""Times that can be compared on a shared machine."""

import statistics
import time


def interleaved(build, repeats, rounds=3, min_seconds=2e-2):
    """Shortest and median seconds per call of each function of the dictionary `build()`, all measured in turns.

    A slow moment of the machine then hits all of them.  Every round builds them anew: where the pages of a buffer
    happen to lie can cost half the speed for as long as it lives.  Functions shorter than `min_seconds` are called
    several times per measurement.
    """
    times = {}
    for _ in range(rounds):
        functions, counts = build(), {}
        for name, function in functions.items():
            function()  # warm up
            start = time.perf_counter()
            function()
            counts[name] = max(1, round(min_seconds / (time.perf_counter() - start)))
        for _ in range(repeats):
            for name, function in functions.items():
                start = time.perf_counter()
                for _ in range(counts[name]):
                    function()
                times.setdefault(name, []).append((time.perf_counter() - start) / counts[name])
    return {name: {"min": min(t), "median": statistics.median(t)} for name, t in times.items()}
