"""The C code under the address and undefined-behaviour sanitizers: tests/c/."""

import json
import platform
import re
import subprocess

import pytest
from helpers import CC, ROOT
from helpers.sanitizers import FLAGS, checks_passed

MACHINE = {"AMD64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
ALL = json.loads((ROOT / "csrc/isas.json").read_text())
ISAS = ALL.get(MACHINE, ALL["other"])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The object files of all kernels and their dispatch."""
    out = tmp_path_factory.mktemp("sanitize")
    jobs = []
    for isa, how in ISAS.items():
        for bits in (32, 64):
            obj = out / f"{isa}_{bits}.o"
            define = [f"-DCRBM_ISA={isa}", f"-DCRBM_REAL={bits}", f"-DVBYTES={how['bytes']}"]
            jobs.append([*CC, *FLAGS, *how["flags"], *define, "-c", ROOT / "csrc/kernels/kernels.c", "-o", obj])
    have = [f"-DCRBM_HAVE_{isa}" for isa in ISAS]
    jobs.append([*CC, *FLAGS, *have, "-c", ROOT / "csrc/dispatch.c", "-o", out / "dispatch.o"])
    for job in jobs:
        subprocess.run(job, check=True)
    return sorted(out.glob("*.o"))


@pytest.mark.slow
def test_kernels_under_sanitizers(kernels, tmp_path):
    assert checks_passed(tmp_path / "check", *kernels, ROOT / "tests/c/check_kernels.c") > 1000


@pytest.mark.slow
def test_embedding_under_sanitizers(kernels, tmp_path):
    solvers = []
    for bits in (32, 64):
        solvers.append(tmp_path / f"solver_{bits}.o")
        define = f"-DCRBM_REAL={bits}"
        subprocess.run([*CC, *FLAGS, define, "-c", ROOT / "csrc/solver.c", "-o", solvers[-1]], check=True)
    sources = [ROOT / "csrc/embed.c", ROOT / "tests/c/check_embed.c"]
    assert checks_passed(tmp_path / "check", *kernels, *solvers, *sources) > 1000


def test_every_kernel_is_checked():
    """A kernel added to the table must be called in check_kernels.c."""
    header = (ROOT / "csrc/crbm.h").read_text()
    names = re.findall(r"\(\*(\w+)\)\(", header)
    assert len(names) > 30
    text = (ROOT / "tests/c/check_kernels.c").read_text()
    assert [name for name in names if f"k->{name}(" not in text] == []
