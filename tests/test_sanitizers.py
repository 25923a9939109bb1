"""The C code under the address and undefined-behaviour sanitizers: tests/c/."""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MACHINE = {"AMD64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
ALL = json.loads((ROOT / "csrc/isas.json").read_text())
ISAS = ALL.get(MACHINE, ALL["other"])
FLAGS = ["-std=gnu11", "-O1", "-g", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{ROOT / 'csrc'}"]  # fmt: skip


CC = shlex.split(os.environ.get("CC") or shutil.which("cc") or "gcc")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    out = tmp_path_factory.mktemp("sanitize")
    jobs = []
    for isa, how in ISAS.items():
        for bits in (32, 64):
            obj = out / f"{isa}_{bits}.o"
            define = [f"-DCRBM_ISA={isa}", f"-DCRBM_REAL={bits}", f"-DVBYTES={how['bytes']}"]
            jobs.append([*CC, *FLAGS, *how["flags"], *define, "-c", ROOT / "csrc/kernels.c", "-o", obj])
    have = [f"-DCRBM_HAVE_{isa}" for isa in ISAS]
    jobs.append([*CC, *FLAGS, *have, "-c", ROOT / "csrc/dispatch.c", "-o", out / "dispatch.o"])
    jobs.append([*CC, *FLAGS, "-c", ROOT / "tests/c/check_kernels.c", "-o", out / "check.o"])
    for job in jobs:
        subprocess.run(job, check=True)
    subprocess.run([*CC, *FLAGS, *sorted(out.glob("*.o")), "-lm", "-o", out / "check"], check=True)
    return out / "check"


def test_kernels_under_sanitizers(program):
    run = subprocess.run([program], capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    count = re.search(r"(\d+) passed, 0 failed", run.stdout)
    assert count
    assert int(count[1]) > 1000


def test_naive_graphs_under_sanitizers(tmp_path):
    sources = [ROOT / "csrc/naive.c", ROOT / "tests/c/check_naive.c"]
    subprocess.run([*CC, *FLAGS, *sources, "-lm", "-o", tmp_path / "check"], check=True)
    run = subprocess.run([tmp_path / "check"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert re.fullmatch(r"\d{4} passed, 0 failed\n", run.stdout)


def test_every_kernel_is_checked():
    """A kernel added to the table must be called in check_kernels.c."""
    header = (ROOT / "csrc/crbm.h").read_text()
    names = re.findall(r"\(\*(\w+)\)\(", header)
    assert len(names) > 30
    text = (ROOT / "tests/c/check_kernels.c").read_text()
    assert [name for name in names if f"k->{name}(" not in text] == []
