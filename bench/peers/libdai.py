"""libDAI (C++): the times it took elsewhere, and how to run the user's installation (`--libdai PREFIX`)."""

import os
import shutil
import subprocess
import tempfile
import weakref
from functools import partial
from pathlib import Path

import numpy as np

from bench._problems import BenchError
from bench.peers import Peer

# Seconds of BP::run for 10 iterations of libDAI 0.3, g++ -O3, one EPYC core at about 3.2 GHz, W ~ N(0, 0.05^2), without
# building the graph; the better of its two domains (linear fails at 1000x500) and of its schedules PARALL and SEQFIX.
CITED = {"50x25": 0.015, "100x50": 0.09, "200x100": 0.67, "400x200": 6.5, "784x256": 43.0, "1000x500": 166.0}
CITED_NAME = "libDAI 0.3 (cited)"
CITED_FROM = "libDAI 0.3, 10 iterations, best of its schedules and domains, measured once on an EPYC core at 3.2 GHz"


def peer(prefix):
    """The installation below `prefix` (include/dai, lib) as a peer."""
    return Peer(
        "libDAI",
        partial(prepare, compile_driver(prefix)),
        "float64",
        schedule="late",
        grows_with_degree=True,
        bytes_per_edge=1500,
    )


def compile_driver(prefix):
    """Compile the driver; returns its path, which exists for as long as this process."""
    prefix = Path(prefix)
    if not (prefix / "include/dai/bp.h").exists():
        raise BenchError(f"--libdai {prefix}: no include/dai/bp.h below it; give the prefix libDAI was installed to")
    cxx = (os.environ.get("CXX") or shutil.which("c++") or "").split()
    if not cxx or not shutil.which(cxx[0]):
        raise BenchError("--libdai needs a C++ compiler; install one or set CXX")
    folder = tempfile.TemporaryDirectory(prefix="crbm_fast_libdai")
    program = Path(folder.name, "libdai_driver")
    source = Path(__file__).with_name("libdai_driver.cpp")
    libraries = [f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", "-ldai", "-lgmpxx", "-lgmp"]
    run = subprocess.run(
        [*cxx, "-O3", "-w", str(source), f"-I{prefix / 'include'}", "-o", str(program), *libraries],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        why = f"the driver does not build; libDAI needs Boost and GMP\n{run.stderr[-2000:]}"
        raise BenchError(f"--libdai {prefix}: {why}")
    _folders.append(folder)
    return program


_folders = []  # removed when the process ends


def prepare(program, W, b1, b2, T):
    nv, nh = W.shape
    with tempfile.NamedTemporaryFile(suffix=".rbm") as f:
        np.array([nv, nh], np.int64).tofile(f)
        for a in (W, b1, b2):
            a.astype(np.float64).tofile(f)
        f.flush()
        process = subprocess.Popen([program, f.name, str(T)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = process.stdout.readline()
    if not ready.startswith(b"ready"):
        raise RuntimeError(f"the libDAI driver ended with exit code {process.wait()}")

    def infer():
        process.stdin.write(b"run\n")
        process.stdin.flush()
        answer = process.stdout.read(8 * (nv + nh))
        if len(answer) < 8 * (nv + nh):
            raise RuntimeError(f"the libDAI driver ended with exit code {process.wait()}")
        tau = np.frombuffer(answer)
        return tau[:nv], tau[nv:]

    weakref.finalize(infer, end, process)
    return infer


def end(process):
    process.kill()
    process.communicate()
