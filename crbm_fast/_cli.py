"""The `crbm-fast` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from crbm_fast import __version__, show_config
from crbm_fast.experiments import command as reproduce


def _at_least(low: int, kind: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if number < low:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {kind} integer")
    return number


_positive = partial(_at_least, 1, "positive")
_seed = partial(_at_least, 0, "non-negative")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="crbm-fast", description="Belief propagation on conditional restricted Boltzmann machines."
    )
    parser.add_argument("--version", action="version", version=f"crbm_fast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="infer a random RBM and compare with the paper's matrix form in NumPy",
        epilog="example: crbm-fast demo --visible 784 --hidden 256",
    )
    demo.add_argument("--visible", type=_positive, default=1000, metavar="NV", help="visible units (default 1000)")
    demo.add_argument("--hidden", type=_positive, default=500, metavar="NH", help="hidden units (default 500)")
    demo.add_argument("--iterations", type=_positive, default=10, metavar="T", help="iterations (default 10)")
    demo.add_argument("--seed", type=_seed, default=0, help="seed of the random RBM (default 0)")
    reproduce.add_parser(commands, _positive)
    commands.add_parser("info", help="print the instruction set, the BLAS and the threads in use")
    args = parser.parse_args(argv)
    if args.command == "info":
        show_config()
        return 0
    if args.command == "reproduce":
        return reproduce.run(args)
    from crbm_fast._demo import demo as run

    return run(args.visible, args.hidden, args.iterations, args.seed)


if __name__ == "__main__":
    sys.exit(main())
