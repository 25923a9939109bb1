"""What several rooms of the tests share: where things are, a Python elsewhere, random models."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import crbm_fast

ROOT = Path(__file__).parents[2]
CC = shlex.split(os.environ.get("CC") or shutil.which("cc") or "gcc")


def run_python(*args, **env):
    """Python elsewhere than in the clone, so that the installed package is found."""
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "tests",
        timeout=120,
        env={**os.environ, **env},
    )


def make_rbm(rng, nv, nh, scale=None, bias=1.0, N=None):
    """(W, b1, b2) in float64; the default scale keeps BP in the regime where it converges."""
    scale = min(0.5, 2 / np.sqrt(nv + nh)) if scale is None else scale
    batch = () if N is None else (N,)
    return rng.normal(0, scale, (nv, nh)), rng.normal(0, bias, (*batch, nv)), rng.normal(0, bias, (*batch, nh))


def make_crbm(rng, nv, nh, nx, scale=0.7, dtype="float32"):
    """A model with random parameters of that size everywhere."""
    shapes = {"W_vx": (nv, nx), "W_hx": (nh, nx), "b_v": (nv,), "b_h": (nh,)}
    rest = {name: rng.normal(0, scale, shape) for name, shape in shapes.items()}
    return crbm_fast.CRBM.from_parameters(rng.normal(0, scale, (nv, nh)), **rest, dtype=dtype)
