"""What every suite reports: a table of bars, the machine, and how both are shown."""

import os
import platform
from pathlib import Path

import crbm_fast as cf


def make(suite, quick, rows, **rest):
    """A report: `rows` are (what, ">=" or "<=", bar, unit, measured); what could not be measured (None) is left out."""
    bars = [
        {"what": what, "sense": sense, "bar": bar, "unit": unit, "measured": value,
         "reached": bool(value >= bar if sense == ">=" else value <= bar)}
        for what, sense, bar, unit, value in rows
        if value is not None
    ]  # fmt: skip
    return {
        "suite": suite, "machine": machine(), "config": cf.show_config("dicts"), "quick": quick, **rest, "bars": bars,
    }  # fmt: skip


def machine():
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count()}


def show_machine(report):
    config = report["config"]
    print(f"{report['machine']['cpu']}, {report['machine']['cores']} cores; {config['instruction set']}, "
          f"{config['BLAS']}, NumPy {config['numpy']}\n")  # fmt: skip


def show_bars(report):
    width = max(len(row["what"]) for row in report["bars"])
    for row in report["bars"]:
        mark = "reached" if row["reached"] else "MISSED"
        bar = f"{row['sense']} {row['bar']:.4g}"
        print(f"{row['what']:<{width}}  {row['measured']:8.2f} {row['unit']:<9} bar {bar:<8} {mark}")


def markdown(report):
    """The table the README shows: every figure of it comes from the committed JSON."""
    lines = ["| what | bar | measured |", "| --- | --- | --- |"]
    for row in report["bars"]:
        digits = ".0f" if row["measured"] >= 50 else ".2f"
        measured = f"{row['measured']:{digits}} {row['unit']}" + ("" if row["reached"] else " (missed)")
        lines.append(f"| {row['what']} | {row['sense']} {row['bar']:.4g} | {measured} |")
    return "\n".join(lines)
