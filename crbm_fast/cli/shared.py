"""What commands share: parsers, files of data, files to write."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _files
from crbm_fast import _validation as check


class CommandError(Exception):
    """What to tell the user, who made a mistake (exit code 2), or whose work has failed (1)."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Parser(argparse.ArgumentParser):
    """A parser that remembers its flags, and that answers a mistake by one line, without the usage of thirty options.

    Attributes
    ----------
    flags : dict
        {argument: its flag, such as "--batch-size"}.
    """

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.flags: dict[str, str] = {}
        super().__init__(*args, **kw)
        self.set_defaults(flags=self.flags)

    def add_argument(self, *names: Any, **kw: Any) -> argparse.Action:
        """As in argparse."""
        action = super().add_argument(*names, **kw)
        if action.option_strings:
            self.flags[action.dest] = action.option_strings[0]
        return action

    def error(self, message: str) -> NoReturn:
        """End the program."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], **texts: str) -> Parser:
    """The parser of a command among the subparsers; description and epilog keep their lines."""
    parser: Parser = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **texts)
    parser.set_defaults(run=run)
    return parser


# --- numbers --------------------------------------------------------------------------------------------------------


def integer(low: int, high: int, kind: str) -> Callable[[str], int]:
    """A parser of the integers from `low` to `high`; `kind` says in messages what they are: "a positive integer"."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}")
        return number

    return parse


positive = integer(1, 2**63 - 1, "a positive integer")
natural = integer(0, 2**63 - 1, "a non-negative integer")
threads = integer(1, 1024, "an integer from 1 to 1024")


# --- files ----------------------------------------------------------------------------------------------------------


def read_data(path: Path) -> dict[str, NDArray[Any]]:
    """X (N, nx) and V (N, nv), or the one that the .npz has: real numbers, as many rows in both; V as uint8, 0 or 1.

    Runs no code of the file.
    """
    remedy = "make it with numpy.savez(FILE, X=X, V=V)"
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise CommandError(f"{path} holds one array without a name; {remedy}")
            names = list(archive)
            arrays = {name: np.asarray(archive[name]) for name in ("X", "V") if name in names}
    except (CommandError, MemoryError, OSError):
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds
        reason = "it holds Python objects, which may run code" if "allow_pickle" in str(error) else str(error)
        raise CommandError(f"{path} is not an .npz of plain arrays, or is damaged: {reason}; {remedy}") from error
    if not arrays:
        found = f"it has {', '.join(names)}" if names else "it is empty"
        raise CommandError(f"{path} has neither X (features) nor V (outputs), {found}; {remedy}")
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise CommandError(f"{path}: {name} has dtype {array.dtype}; expected real numbers")
        if array.ndim != 2 or array.size == 0:
            raise CommandError(f"{path}: {name} has shape {array.shape}; expected (instances, columns), none of them 0")
    if len({len(array) for array in arrays.values()}) > 1:
        rows = " and ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise CommandError(f"{path}: {rows} rows; expected an instance in each row of both")
    if "V" in arrays:
        try:
            arrays["V"] = check.as_states("V", arrays["V"])
        except ValueError as error:
            raise CommandError(f"{path}: {error}") from error
    return arrays


def check_out(option: str, path: Path, *, force: bool, others: Mapping[str, Path | None]) -> None:
    """Raise CommandError, before any work is done, if `path` cannot be written or should not be.

    Parameters
    ----------
    option : str
        The option that names the file, such as "--out".
    path : Path
    force : bool
        Whether an existing file may be replaced.
    others : mapping
        {how it is called: path} of the command's other files.
    """
    for name, other in others.items():
        if other is not None and os.path.realpath(path) == os.path.realpath(other):
            raise CommandError(f"{option} {path} is also {name}; name another file")
    folder = path.absolute().parent
    try:
        _files.check_folder(path)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or f"there is no folder {folder}"
        raise CommandError(f"{option} {path} cannot be written: {reason}") from error
    if path.exists() and not path.is_file():
        raise CommandError(f"{option} {path} is not a file")
    if path.exists() and not force:
        raise CommandError(f"{option} {path} exists; name another file, or add --force to replace it")
