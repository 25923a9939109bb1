"""The tables of README.md between <!-- measured: X --> and <!-- end -->, which are made from the saved reports."""

import json
import re

from bench._problems import BenchError
from bench._report import OURS, largest, number_text, time_text

BLOCK = re.compile(r"(<!-- measured: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def update(text, folder):
    """The text of README.md with the tables of the reports in `folder`."""
    try:
        reports = {f.stem: json.loads(f.read_text(encoding="utf-8")) for f in sorted(folder.glob("*.json"))}
        if "peers" not in reports or any(r["quick"] for r in reports.values()):
            raise BenchError(f"{folder} has no whole run; python -m bench --save makes one")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{folder}: these are not reports of the benchmark ({error!r})") from error
    tables = {"peers": lambda: peers(reports["peers"]), "bars": lambda: bars(reports.values())}
    return BLOCK.sub(lambda m: m[1] + tables[m[2]]() + "\n" + m[3], text)


def peers(report):
    """Each program at the largest size it ran, ordered by its cost per edge."""
    cells = [("who", "size", "10 iterations", "per edge and iteration", "times ours"), ("---", "---", *["---:"] * 3)]
    for r, ratio in largest(report):
        name, cost = f"**{r['who']}**" if r["who"] == OURS else r["who"], number_text(r["ns_per_edge_iteration"])
        cells.append((name, r["case"], time_text(r["min"]), f"{cost} ns", number_text(ratio)))
    return "\n".join("| " + " | ".join(c) + " |" for c in cells)


def bars(reports):
    """The table of every bar of every suite."""
    lines = ["| suite | what | bar | measured |", "| --- | --- | --- | --- |"]
    for report in reports:
        for b in report["bars"]:
            measured = f"{number_text(b['measured'])} {b['unit']}" + ("" if b["reached"] else " **(missed)**")
            lines.append(f"| {report['suite']} | {b['what']} | {b['sense']} {b['bar']:,g} | {measured} |")
    return "\n".join(lines)
