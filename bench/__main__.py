"""`python -m bench` runs the benchmarks, prints the results and, with --save, keeps them as JSON and pictures."""

import argparse
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path

from bench import _compare, _problems, _readme, _report, _timing
from bench._options import Options
from bench._problems import BenchError
from bench.peers import all_peers, libdai
from bench.peers.trainers import TRAINERS

SUITES = (
    "peers",
    "scaling",
    "batch",
    "convergence",
    "training",
    "threads",
    "isa",
    "memory",
    "overhead",
    "embedding",
    "samplers",
)


def parse(argv):
    """The arguments of the command line; BenchError where they contradict each other."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure crbm_fast and its alternatives on this machine.",
        epilog="examples: python -m bench --quick;  python -m bench peers --peers numba JAX --save new;  "
        "python -m bench --compare bench/results/NAME.  Exit code: 1 if --compare finds a regression, 2 for a mistake.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, small sizes: about a minute in all")
    parser.add_argument(
        "--peers", nargs="+", metavar="NAME", help="only peers whose name contains one of these (see --list), and ours"
    )
    parser.add_argument("--sizes", nargs="+", metavar="NVxNH", help="sizes for the suites peers and scaling")
    parser.add_argument("--libdai", metavar="PREFIX", help="also run libDAI as installed below PREFIX")
    parser.add_argument(
        "--save",
        type=Path,
        nargs="?",
        const=True,
        metavar="DIR",
        help="write SUITE.json and SUITE.png there (default: bench/results/MACHINE)",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="OLD",
        help="an earlier SUITE.json, or a folder of them: print what got faster or slower beyond noise",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=1.25,
        metavar="X",
        help="with --compare: exit with 1 if something of ours takes more than X times as long (1.25)",
    )
    parser.add_argument(
        "--readme",
        action="store_true",
        help="only write the tables of README.md from the saved reports (--save DIR or the default)",
    )
    parser.add_argument("--list", action="store_true", help="list the suites and the peers, installed or not, and exit")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.suites) - set(SUITES))
    if unknown:
        raise BenchError(f"no suite {unknown[0]!r}; choose from: {', '.join(SUITES)}")
    if not 1 < args.threshold < float("inf"):
        raise BenchError(f"--threshold {args.threshold:g} is not above 1")
    if args.save is True and (args.quick or args.peers or args.sizes or args.libdai):
        raise BenchError("--save without a folder keeps whole reports only; name one: --save DIR")
    if args.save and importlib.util.find_spec("matplotlib") is None:
        raise BenchError('--save draws pictures and needs matplotlib; pip install -e ".[bench]"')
    if str(args.save) in SUITES:
        raise BenchError(f"--save {args.save}: name the suites before the options, or write --save ./{args.save}")
    if isinstance(args.save, Path) and args.save.exists() and not args.save.is_dir():
        raise BenchError(f"--save {args.save} is not a folder")
    return args


def options(args):
    """The options of the suites; BenchError where the user names something that cannot be measured."""
    out = Options(quick=args.quick)
    if args.sizes:
        out.sizes = tuple(sorted({_problems.parse_size(text) for text in args.sizes}, key=lambda s: s[0] * s[1]))
        for nv, nh in out.sizes:
            why = _problems.does_not_fit(nv, nh, bytes_per_edge=8)
            if why:
                raise BenchError(f"--sizes {nv}x{nh} does not fit in memory: it {why}")
    programs = [*all_peers(args.libdai), *TRAINERS]
    for text in args.peers or ():
        named = [p for p in programs if text.lower() in p.name.lower()]
        if not named and text.lower() == "libdai":
            raise BenchError("libDAI runs from an installation of yours: --libdai PREFIX")
        if not named:
            raise BenchError(f"no peer {text!r}; python -m bench --list names them")
        if not any(p.installed for p in named):
            raise BenchError(f"{named[0].name} is not installed; {named[0].install}")
        out.requested |= {p.name for p in named}
    if args.libdai:
        out.requested |= {"libDAI"}
    chosen = [p for p in programs if p.ours or not args.peers or p.name in out.requested]
    out.peers = [p for p in chosen if p.installed and p not in TRAINERS]
    out.trainers = [p for p in chosen if p.installed and p in TRAINERS]
    out.missing = [{"case": "not installed", "who": p.name, "why": p.install} for p in chosen if not p.installed]
    return out


def list_all(args):
    """Print the suites and the peers."""
    for name in SUITES:
        doc = importlib.import_module(f"bench.bench_{name}").__doc__.splitlines()[0]
        print(f"{name:<10} {doc}")
    print()
    for peer in [*all_peers(args.libdai), *TRAINERS]:
        print(f"{peer.name:<34} {'installed' if peer.installed else 'missing: ' + peer.install}")
    if not args.libdai:
        print(f"{'libDAI':<34} {libdai.CITED_FROM}; run yours with --libdai PREFIX")


def save(report, suite, folder):
    """Write the report of a suite, and its picture if it has one; an interrupted write leaves the old report."""
    part = folder / f"{report['suite']}.json.part"
    try:
        part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        os.replace(part, folder / f"{report['suite']}.json")
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BenchError(f"--save {folder}: {error.strerror or error}") from error
    if hasattr(suite, "plot"):
        import matplotlib

        matplotlib.use("Agg")
        suite.plot(report, folder / f"{report['suite']}.png")


def run(args):
    """Run what the arguments ask for; returns the exit code."""
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
    names = tuple(dict.fromkeys(args.suites or SUITES))
    old = _compare.load(args.compare, names) if args.compare else {}
    opts = options(args)
    if folder:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".writable").touch()
            (folder / ".writable").unlink()
        except OSError as error:
            raise BenchError(f"--save {folder}: {error.strerror or error}") from error
    bars, slower, missing, trainers = [], False, opts.missing, {t.name for t in TRAINERS}
    for name in names:
        suite = importlib.import_module(f"bench.bench_{name}")
        opts.suite = name
        opts.missing = [m for m in missing if (m["who"] in trainers) == (name == "training")]
        report = suite.run(opts)
        opts.progress("")
        _report.show(report)
        if folder:
            save(report, suite, folder)
        if name in old:
            slower |= _compare.show(old[name], report, args.threshold)
        elif args.compare:
            print(f"\n{name}: {args.compare} has no report of it to compare with")
        bars += report["bars"]
    if args.quick:
        print("\nThe bars that the project sets itself are for the whole run: --quick has smaller problems.")
        return int(slower)
    missed = [b for b in bars if not b["reached"]]
    print(f"\n{len(missed)} of the {len(bars)} bars that the project sets itself were missed")
    for b in missed:
        measured = f"{_report.number_text(b['measured'])} {b['unit']}"
        print(f"  missed: {b['what']}: {measured}, bar {b['sense']} {b['bar']:,g}")
    return int(slower)


def main(argv=None):
    try:
        return run(parse(argv))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nbench: stopped; what was finished before is printed, and saved with --save", file=sys.stderr)
        return 130
    except BrokenPipeError:  # | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
