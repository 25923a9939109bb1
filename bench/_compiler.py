"""The user's C compiler, for the C files of the benchmark."""

import atexit
import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench._problems import BenchError


def compile_c(*arguments):
    """Run cc (or $CC) with these arguments and return whether it exists and succeeded."""
    try:
        cc = shlex.split(os.environ.get("CC") or shutil.which("cc") or "")
    except ValueError:
        return False
    try:
        command = [*cc, *map(str, arguments)]
        return bool(cc) and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@functools.cache
def build_folder():
    """A temporary folder for compiled files, which is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="crbm_fast_bench_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def load_library(source, *flags):
    """Compile the C file `source` of this folder with these flags, once per process, and load it (`ctypes.PyDLL`)."""
    path = build_folder() / f"{Path(source).stem}.so"
    if not compile_c("-shared", "-fPIC", *flags, Path(__file__).with_name(source), "-lm", "-o", path):
        raise BenchError(f"bench/{source} was not compiled; install a C compiler, or name yours by the variable CC")
    return ctypes.PyDLL(str(path))
