"""The `crbm-fast` command: hands over to the commands, and turns what they raise into messages and exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from crbm_fast import DivergenceError, __version__, show_config
from crbm_fast.cli import demo
from crbm_fast.commands import predict, train
from crbm_fast.commands.shared import CommandError, add_command

EPILOG = """\
examples:
  crbm-fast demo                                           digits restored and completed, in about a minute
  crbm-fast train data.npz --out model.npz                 learn V (0 or 1) given X
  crbm-fast predict model.npz new.npz --out outputs.npz    V for other X

`crbm-fast COMMAND --help` has the options and examples of each.
"""


class _Parser(argparse.ArgumentParser):
    """Mistakes get one line, not the usage of thirty options as well."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="crbm-fast",
        description="Belief propagation on conditional restricted Boltzmann machines.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"crbm_fast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (demo, train, predict):
        module.add_parser(commands)
    add_command(
        commands,
        "info",
        _info,
        help="print the instruction set, the BLAS and the threads in use",
        description="Print the instruction set, the BLAS and the threads in use.",
        epilog="examples:\n  crbm-fast info\n  CRBM_FAST_ISA=avx2 crbm-fast info\n\nexit code: 0",
    )
    return parser


def _info(args: argparse.Namespace) -> int:
    show_config()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    0 done; 1 the work was done and failed (training diverged, memory was too small);
    2 a mistake in the command, its files or its data; 130 interrupted.
    """
    args = _parser().parse_args(argv)
    name = f"crbm-fast {args.command}"

    def show(message: Warning | str, category: type[Warning], *where: object) -> None:
        print(f"{name}: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        try:
            code: int = args.run(args)
            sys.stdout.flush()
            return code
        except BrokenPipeError:  # crbm-fast ... | head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + 13  # as the shell tells of a program that SIGPIPE ended
        except (CommandError, OSError, ValueError) as error:
            known = isinstance(error, OSError) and error.filename is not None and error.strerror is not None
            text = f"{error.filename}: {error.strerror}" if known else str(error)  # type: ignore[union-attr]
            print(f"{name}: error: {text}", file=sys.stderr)
            return 2
        except DivergenceError as error:
            print(f"{name}: error: {error}", file=sys.stderr)
            return 1
        except MemoryError as error:
            print(f"{name}: error: not enough memory: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt as stop:  # the command may say how to go on
            print(f"\n{name}: interrupted{'; ' if str(stop) else ''}{stop}", file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(main())
