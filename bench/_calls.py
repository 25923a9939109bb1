"""Count the allocations and GIL acquisitions of 10,000 rounds of calls, in a process with the counter preloaded.

    LD_PRELOAD=LIBRARY python -m bench._calls LIBRARY

It prints {control: [rounds completed while another thread held the GIL, allocations]} as JSON.  The controls show
that both would be noticed: one allocates in every round, and one takes the GIL.
"""

import ctypes
import json
import sys

from bench import bench_embedding as suite

ROUNDS, SIZE = 10_000, (16, 8)


def main(path):
    library = suite.load(path, ctypes.PyDLL)  # keeps the GIL
    out = {}
    for number, control in enumerate(("nothing", "allocate", "take the GIL")):
        allocated = ctypes.c_long()
        done = library.rounds_without_gil(
            *suite.model(*SIZE), ROUNDS, number, 5.0 if number < 2 else 0.2, ctypes.byref(allocated)
        )
        out[control] = [done, allocated.value]
    print(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1])
