"""C programs under the address and undefined-behaviour sanitizers."""

import re
import subprocess

from helpers import CC, ROOT

FLAGS = [
    "-std=gnu11",
    "-O1",
    "-g",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    f"-I{ROOT / 'csrc'}",
    f"-I{ROOT / 'crbm_fast/include'}",
]


def checks_passed(program, *sources):
    """Build a check program and run it; all of its checks must pass, and their number is returned."""
    subprocess.run([*CC, *FLAGS, *sources, "-lm", "-o", program], check=True)
    run = subprocess.run([program], capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return int(re.fullmatch(r"(\d+) passed, 0 failed\n", run.stdout)[1])
