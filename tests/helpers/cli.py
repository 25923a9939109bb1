"""Commands, run in this process."""

import numpy as np

from crbm_fast.cli import main


def run(*args):
    """The exit code of a command."""
    return main([str(arg) for arg in args])


def fails(capsys, *args):
    """The one line of a command that ends with exit code 2."""
    try:
        code = run(*args)
    except SystemExit as stop:  # argparse
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith(f"crbm-fast {args[0]}: error: ")
    assert err.count("\n") == 1
    return err


def load(path):
    """X and V of a file."""
    with np.load(path) as archive:
        return archive["X"], archive["V"]
