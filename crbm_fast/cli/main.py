"""`crbm-fast`: hands over to the commands, and turns what they raise into messages and exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from crbm_fast import __version__
from crbm_fast._errors import DivergenceError, PhrasedError, command_line_notation
from crbm_fast.cli import demo, info, predict, train
from crbm_fast.cli.shared import CommandError, Parser

EPILOG = """\
examples:
  crbm-fast demo                                           digits restored and completed, in about a minute
  crbm-fast train data.npz --out model.npz                 learn V (0 or 1) given X
  crbm-fast predict model.npz new.npz --out outputs.npz    V for other X

`crbm-fast COMMAND --help` has the options and examples of each.
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(
        prog="crbm-fast",
        description="Belief propagation on conditional restricted Boltzmann machines.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"crbm_fast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (demo, train, predict, info):
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    0 done; 1 the work was done and failed (training diverged, a process died, memory was too small); 2 a mistake in the
    command, its files or its data; 130 interrupted.
    """
    args = make_parser().parse_args(argv)
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
            return 128 + 13  # as the shell reports a program that SIGPIPE ended
        except KeyboardInterrupt as stop:  # the command may say how to go on
            print(f"\n{name}: interrupted{'; ' if str(stop) else ''}{stop}", file=sys.stderr)
            return 130
        except (CommandError, OSError, ValueError, DivergenceError, RuntimeError, MemoryError) as error:
            print(f"{name}: error: {describe(error, args.flags)}", file=sys.stderr)
            return exit_code(error)


def describe(error: BaseException, flags: dict[str, str]) -> str:
    """What to tell the user, who knows arguments by their flags."""
    if isinstance(error, PhrasedError):
        return error.phrase(command_line_notation(flags))
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    return f"not enough memory: {error}" if isinstance(error, MemoryError) else str(error)


def exit_code(error: BaseException) -> int:
    """2 for what the user can put right before the work begins, otherwise 1; RuntimeError: a process died."""
    if isinstance(error, CommandError):
        return error.exit_code
    return 1 if isinstance(error, DivergenceError | RuntimeError | MemoryError) else 2
