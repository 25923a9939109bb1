"""The C compiler of the user, for what a suite needs compiled."""

import os
import shlex
import shutil
import subprocess


def compile_c(*arguments):
    """Run cc (or $CC) with these arguments; whether it is there and succeeded."""
    try:
        cc = shlex.split(os.environ.get("CC") or shutil.which("cc") or "")
    except ValueError:
        return False
    try:
        command = [*cc, *map(str, arguments)]
        return bool(cc) and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
