"""`python -m bench`: run the benchmarks, print them, and keep them as JSON and pictures if asked."""

import argparse
import importlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench import _compare, _problems, _readme, _report, _timing
from bench._problems import BenchError
from bench.peers import all_peers

SUITES = ("peers", "scaling", "batch", "training", "threads", "isa", "memory", "overhead")


@dataclass
class Options:
    """What the command line asks of a suite."""

    quick: bool = False
    sizes: tuple | None = None                           # None: those of the suite
    peers: list = field(default_factory=list)            # the installed ones
    missing: list = field(default_factory=list)          # the others, as `left_out` of a report
    suite: str = ""
    single: tuple = (1000, 500)                          # the sizes most figures are of; tests make them small
    batch: tuple = (784, 256)

    def progress(self, what):
        """One line on a terminal, overwritten; a line each elsewhere would be noise."""
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{self.suite}: {what}" if what else "\r\033[K")
            sys.stderr.flush()


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure crbm_fast, and what else one might use, on this machine.",
        epilog="examples: python -m bench --quick;  python -m bench peers --peers numba JAX --save;  "
        "python -m bench --compare bench/results/NAME",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, small sizes: about a minute in all")
    parser.add_argument("--peers", nargs="+", metavar="NAME",
                        help="only peers whose name contains one of these (see --list); ours is always there")
    parser.add_argument("--sizes", nargs="+", metavar="NVxNH", help="sizes for the suites peers and scaling")
    parser.add_argument("--libdai", metavar="PREFIX", help="also run libDAI as installed below PREFIX")
    parser.add_argument("--save", type=Path, nargs="?", const=True, metavar="DIR",
                        help="write SUITE.json and SUITE.png there (default: bench/results/MACHINE)")
    parser.add_argument("--compare", type=Path, metavar="OLD",
                        help="an earlier SUITE.json or a folder of them: tell what got faster or slower beyond noise")
    parser.add_argument("--threshold", type=float, default=1.25, metavar="X",
                        help="with --compare: exit with 1 if something takes more than X times as long (default 1.25)")
    parser.add_argument("--readme", action="store_true",
                        help="only make the tables of README.md anew from what was saved (--save DIR or the default)")
    parser.add_argument("--list", action="store_true", help="list the suites and peers, installed or not, and end")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.suites) - set(SUITES))
    if unknown:
        raise BenchError(f"no suite {unknown[0]!r}; choose from: {', '.join(SUITES)}")
    if not args.threshold > 1:
        raise BenchError(f"--threshold {args.threshold:g} is not above 1")
    return args


def options(args):
    out = Options(quick=args.quick)
    if args.sizes:
        out.sizes = tuple(_problems.parse_size(text) for text in args.sizes)
        for nv, nh in out.sizes:
            why = _problems.does_not_fit(nv, nh, bytes_per_edge=8)
            if why:
                raise BenchError(f"--sizes {nv}x{nh} does not fit in memory: it {why}")
    peers = all_peers(args.libdai)
    for text in args.peers or ():
        named = [p for p in peers if text.lower() in p.name.lower()]
        if not named:
            raise BenchError(f"no peer {text!r}; python -m bench --list names them")
        absent = [p for p in named if not p.installed]
        if absent:
            raise BenchError(f"{absent[0].name} is not installed; {absent[0].install}")
    if args.peers:
        peers = [p for p in peers if p.ours or any(text.lower() in p.name.lower() for text in args.peers)]
    out.peers = [p for p in peers if p.installed]
    out.missing = [{"case": "not installed", "who": p.name, "why": p.install} for p in peers if not p.installed]
    return out


def list_all(args):
    for name in SUITES:
        doc = importlib.import_module(f"bench.bench_{name}").__doc__.splitlines()[0]
        print(f"{name:<10} {doc}")
    print()
    for peer in all_peers(args.libdai):
        print(f"{peer.name:<34} {'installed' if peer.installed else 'missing: ' + peer.install}")


def save(report, suite, folder):
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{report['suite']}.json.part"
    part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(part, folder / f"{report['suite']}.json")
    if hasattr(suite, "plot"):
        import matplotlib

        matplotlib.use("Agg")
        suite.plot(report, folder / f"{report['suite']}.png")


def run(args):
    if args.list:
        list_all(args)
        return 0
    results = Path(__file__).parent / "results" / _report.machine()["name"]
    folder = results if args.save is True else args.save
    if args.readme:
        readme = Path(__file__).parents[1] / "README.md"
        readme.write_text(_readme.update(readme.read_text(encoding="utf-8"), folder or results), encoding="utf-8")
        return 0
    _timing.keep_freed_memory()
    names = args.suites or SUITES
    old = _compare.load(args.compare, names) if args.compare else {}
    opts = options(args)
    bars, slower = [], False
    for name in names:
        suite = importlib.import_module(f"bench.bench_{name}")
        opts.suite = name
        report = suite.run(opts)
        opts.progress("")
        _report.show(report)
        if folder:
            save(report, suite, folder)
        if name in old:
            slower |= _compare.show(old[name], report, args.threshold)
        bars += report["bars"]
    missed = [b for b in bars if not b["reached"]]
    print(f"\n{len(bars) - len(missed)} bars reached, {len(missed)} missed")
    for b in missed:
        measured = f"{_report.number_text(b['measured'])} {b['unit']}"
        print(f"  missed: {b['what']}: {measured}, bar {b['sense']} {b['bar']:,g}")
    if args.compare:
        return int(slower)
    return 1 if missed else 0


def main(argv=None):
    try:
        return run(parse(argv))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
