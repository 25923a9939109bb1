"""The report of a suite, which has the same form for all suites: one table, one comparison and one test serve all.

suite, quick, date, machine, config      what was run, and on which machine
T, pinned, versions                      how it was run, and the versions of the peers
rows      [{case, who, unit, min, median, spread, repeats, ...}]      what was measured; the unit of times is "s";
                                         "peer" marks programs of others, "cited" what was not measured in this run
left_out  [{case, who, why}]             what was not measured, and why
bars      [{what, sense, bar, unit, measured, reached}]               the bars that the project sets itself
...       what else the suite's picture needs
"""

import datetime
import importlib.metadata
import os
import platform
import re
from pathlib import Path

import crbm_fast as cf
from bench import _problems


def make(suite, options, rows, left_out, bars, **rest):
    """A report; `bars` are (what, ">=" or "<=", bar, unit, measured), without those whose `measured` is None."""
    return {
        "suite": suite,
        "quick": options.quick,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "config": cf.show_config("dicts"),
        "T": _problems.T,
        "pinned": hasattr(os, "sched_setaffinity"),
        "versions": versions(),
        "rows": rows,
        "left_out": left_out,
        "bars": [
            {
                "what": what,
                "sense": sense,
                "bar": bar,
                "unit": unit,
                "measured": value,
                "reached": bool(value >= bar if sense == ">=" else value <= bar),
            }
            for what, sense, bar, unit, value in bars
            if value is not None
        ],
        **rest,
    }


def row(case, who, stats, updates=None, **rest):
    """A row of times; `updates` is the number of edges times iterations."""
    cost = {} if updates is None else {"updates": updates, "ns_per_edge_iteration": 1e9 * stats["min"] / updates}
    return {"case": case, "who": who, "unit": "s", **stats, **cost, **rest}


def value_row(case, who, unit, value, **rest):
    """A row of a quantity that is measured once and is not a time."""
    return {"case": case, "who": who, "unit": unit, "min": value, "median": value, "spread": 0.0, "repeats": 1, **rest}


def largest(report):
    """[(row, time / our time)] of each program at the largest size it ran, ordered by that ratio."""
    ours = {r["case"]: r["min"] for r in report["rows"] if r["who"] == OURS}
    rows = {r["who"]: r for r in sorted(report["rows"], key=lambda r: r["updates"]) if r["case"] in ours}
    return sorted(((r, r["min"] / ours[r["case"]]) for r in rows.values()), key=lambda pair: pair[1])


def ratio(a, b):
    """a / b if both were measured, else None."""
    return None if a is None or b is None else a / b


def machine():
    """What identifies this machine, for the report."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    name = re.sub(r"[^a-z0-9]+", "-", f"{model} {os.cpu_count()} cores".lower()).strip("-")
    return {"name": name, "cpu": model, "cores": os.cpu_count(), "memory": total_memory(), "system": platform.system()}


def total_memory():
    """The bytes of memory of this machine, or None where the system does not say."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


PACKAGES = ("numba", "torch", "jax", "pgmax", "pomegranate", "factorgraph", "scikit-learn", "rbms")
OURS = "crbm_fast float32"  # the time that all others are divided by


def versions():
    """{package: version} of the peers that are installed."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return out


# --- text ---------------------------------------------------------------------------------------------------------


def time_text(seconds):
    """A time with three digits and its unit."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:  # what rounds to 1
            return f"{seconds / size:.3g} {unit}" if seconds < 999.5 * size else f"{seconds / size:,.0f} {unit}"
    return f"{1e9 * seconds:.3g} ns"


def number_text(x):
    """A number with three digits, or all digits before the point."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def threads(n):
    return "1 thread" if n == 1 else f"{n} threads"


def show(report):
    """Print the tables of a report."""
    config = report["config"]
    print(
        f"\n{report['suite']}: {report['machine']['cpu']}, {report['machine']['cores']} cores; "
        f"{config['instruction set']}, {config['BLAS']}, NumPy {config['numpy']}"
    )
    for case in dict.fromkeys(r["case"] for r in report["rows"]):
        print("\n" + table(case, [r for r in report["rows"] if r["case"] == case]))
    missing = {}
    for item in report["left_out"]:
        if item["case"] == "not installed":
            missing.setdefault(item["why"], []).append(item["who"])
        else:
            print(f"  left out: {item['who']}, {item['case']}: {item['why']}")
    for install, names in missing.items():
        print(f"  not installed: {'; '.join(names)}: {install}")
    if report["bars"]:
        width = max(len(b["what"]) for b in report["bars"])
        print()
        for b in report["bars"]:
            mark = "reached" if b["reached"] else "MISSED"
            measured, bar = f"{number_text(b['measured'])} {b['unit']}", f"{b['sense']} {b['bar']:,g}"
            print(f"  {b['what']:<{width}}  {measured:>16}   bar {bar:<10} {mark}")


def table(case, rows):
    """The rows of a case as aligned columns, without the columns that no row has."""
    ours = next((r["min"] for r in rows if r["who"] == OURS and r["min"] > 0), None) if len(rows) > 1 else None
    columns = {
        case: lambda r: r["who"],
        "min": lambda r: time_text(r["min"]) if r["unit"] == "s" else f"{number_text(r['min'])} {r['unit']}",
        "median": lambda r: time_text(r["median"]) if r["unit"] == "s" else "",
        "spread": lambda r: f"{100 * r['spread']:.0f} %" if r["repeats"] > 1 else "",
        "repeats": lambda r: f"{r['repeats']}" if r["unit"] == "s" else "",
        "per edge, iteration": lambda r: (
            f"{number_text(r['ns_per_edge_iteration'])} ns" if "ns_per_edge_iteration" in r else ""
        ),
        "times ours": lambda r: "" if ours is None else f"{number_text(r['min'] / ours)} x",
        "difference": lambda r: f"{r['difference']:.0e}" if "difference" in r else "",
    }
    cells = [[title, *(text(r) for r in rows)] for title, text in columns.items()]
    cells = [c for c in cells if any(c[1:])]
    widths = [max(map(len, c)) for c in cells]
    lines = []
    for i in range(len(rows) + 1):
        name, *texts = (c[i] for c in cells)
        lines.append("  " + "   ".join([name.ljust(widths[0]), *map(str.rjust, texts, widths[1:])]).rstrip())
    return "\n".join(lines)
