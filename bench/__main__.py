"""`python -m bench`: run the benchmark, print it, and keep it as JSON if asked."""

import argparse
import json
import os
import sys
from pathlib import Path

from bench import bench_inference


def main():
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats: half a minute instead of two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report here")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the comparison here (needs matplotlib)")
    parser.add_argument("--markdown", action="store_true", help="also print the table as the README has it")
    args = parser.parse_args()
    report = bench_inference.run(args.quick)
    bench_inference.show(report)
    if args.json:
        part = args.json.with_name(args.json.name + ".part")
        part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        os.replace(part, args.json)
    if args.plot:
        bench_inference.plot(report, args.plot)
    if args.markdown:
        print("\n" + bench_inference.markdown(report))
    missed = sum(not row["reached"] for row in report["bars"])
    print(f"\n{len(report['bars']) - missed} bars reached, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
