"""The version, and what this installation runs on."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy

from crbm_fast import _blas, _ckernels, _threads
from crbm_fast._validation import check_choice, check_threads

__version__ = "0.1.0"


def get_include() -> str:
    """The directory of crbm_fast.h, for a C compiler: see docs/embedding.md."""
    return str(Path(__file__).with_name("include"))


def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, Any] | None:
    """Print the instruction set chosen, the BLAS and the threads.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        Print, or return the same as a dictionary.
    """
    check_choice("mode", mode, ("stdout", "dicts"))
    blas = scipy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    config = {
        "crbm_fast": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "instruction set": _ckernels.active_isa(),
        "available here": ", ".join(_ckernels.available_isas()),
        "BLAS": f"{blas.get('name', 'unknown')} {blas.get('version', '')} (through scipy)",
        "BLAS thread switch": _blas.switch_name() or "none: BLAS keeps its own number of threads",
        "threads": f"{check_threads(None)} (OpenMP)" if _threads.OPENMP else "1 (built without OpenMP)",
    }
    if mode == "dicts":
        return config
    width = max(map(len, config))
    for name, value in config.items():
        print(f"{name:<{width}}  {value}")
    return None
