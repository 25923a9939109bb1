"""`python -m bench`: run the benchmarks, print them, and keep them as JSON and pictures if asked."""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from bench import _report

SUITES = ("inference", "training")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, epilog="example: python -m bench training --quick"
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{' or '.join(SUITES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: one minute instead of five")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write SUITE.json and SUITE.png here")
    parser.add_argument("--markdown", action="store_true", help="also print the tables as the README has them")
    args = parser.parse_args()
    unknown = sorted(set(args.suites) - set(SUITES))
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; choose from: {', '.join(SUITES)}")
    reached = missed = 0
    for name in args.suites or SUITES:
        suite = importlib.import_module(f"bench.bench_{name}")
        report = suite.run(args.quick)
        suite.show(report)
        if args.save:
            args.save.mkdir(parents=True, exist_ok=True)
            part = args.save / f"{name}.json.part"
            part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            os.replace(part, args.save / f"{name}.json")
            suite.plot(report, args.save / f"{name}.png")
        if args.markdown:
            print("\n" + _report.markdown(report))
        print()
        reached += sum(row["reached"] for row in report["bars"])
        missed += sum(not row["reached"] for row in report["bars"])
    print(f"{reached} bars reached, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
