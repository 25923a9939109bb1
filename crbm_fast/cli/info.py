"""`crbm-fast info`: what this installation runs on."""

from __future__ import annotations

import argparse
from typing import Any

from crbm_fast._config import show_config
from crbm_fast.cli.shared import add_command

EPILOG = """\
examples:
  crbm-fast info
  CRBM_FAST_ISA=avx2 crbm-fast info

exit code: 0"""


def add_parser(commands: Any) -> None:
    """Add `info` to the subparsers."""
    text = "print the instruction set, the BLAS and the threads in use"
    add_command(commands, "info", run, help=text, description=f"{text.capitalize()}.", epilog=EPILOG)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    show_config()
    return 0
