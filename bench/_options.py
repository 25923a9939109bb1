"""The options of a suite."""

import os
import sys
from dataclasses import dataclass, field


@dataclass
class Options:
    """What the command line passes to a suite."""

    quick: bool = False
    sizes: tuple | None = None  # None: the suite has sizes of its own
    peers: list = field(default_factory=list)  # the installed peers, see bench.peers
    trainers: list = field(default_factory=list)  # likewise, for the suite training
    missing: list = field(default_factory=list)  # the peers that are not installed, as `left_out` of a report
    requested: frozenset = frozenset()  # names of peers that the user asked for, which may therefore take long
    suite: str = ""
    single_size: tuple = (1000, 500)  # of the single RBM and of the RBM with a batch; tests make them small
    batch_size: tuple = (784, 256)

    def progress(self, what):
        """Show a line on a terminal, in place of the line before; nothing is written elsewhere."""
        if sys.stderr and sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{self.suite}: {what}" if what else "\r\033[K")
            sys.stderr.flush()


def cores():
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
