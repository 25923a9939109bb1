"""What the command line asks of a suite."""

import os
import sys
from dataclasses import dataclass, field


@dataclass
class Options:
    quick: bool = False
    sizes: tuple | None = None  # None: those of the suite
    peers: list = field(default_factory=list)  # the installed ones: see bench.peers
    trainers: list = field(default_factory=list)  # likewise, for the suite training
    missing: list = field(default_factory=list)  # those that are not, as `left_out` of a report
    asked: frozenset = frozenset()  # names the user asked for: they may take their time
    suite: str = ""
    single: tuple = (1000, 500)  # the sizes most figures are of; tests make them small
    batch: tuple = (784, 256)

    def progress(self, what):
        """One line on a terminal, overwritten; nothing elsewhere."""
        if sys.stderr and sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{self.suite}: {what}" if what else "\r\033[K")
            sys.stderr.flush()


def cores():
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
