"""The comparison of two reports of one suite: what got faster or slower beyond the noise of both."""

import json

from bench._problems import BenchError
from bench._report import number_text


def load(path, names):
    """The reports {suite: report} of a JSON file, or of a folder of them."""
    try:
        files = [path] if path.is_file() else [path / f"{name}.json" for name in names]
        files = [f for f in files if f.is_file()]
    except OSError as error:
        raise BenchError(f"--compare {path}: {error.strerror}") from error
    if not files:
        raise BenchError(f"--compare {path}: there is no report of {' or '.join(names)}")
    reports = {}
    for file in files:
        try:
            report = json.loads(file.read_text(encoding="utf-8"))
            reports[str(report["suite"])] = report
            report["date"], report["machine"]["name"], report["config"]["instruction set"]
            for r in report["rows"]:
                {r["case"], r["who"], r["unit"], r["min"] + r["spread"] + r["repeats"]}
                if not 0 <= r["min"] < float("inf"):
                    raise ValueError(f"min {r['min']}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BenchError(f"--compare {file}: this is not a report of the benchmark ({error!r})") from error
    if not set(reports) & set(names):
        raise BenchError(f"--compare {path} is of the suite {', '.join(reports)}; run that one")
    return reports


def changes(old, new):
    """What both reports measured, as [(row, new minimum / old minimum, noise)].

    The noise is the mean of the two spreads, but at least 5 %, at least 25 % of times with fewer than 3 repeats (whose
    spread says nothing), and at most 100 %.
    """
    before = {(r["case"], r["who"], r["unit"]): r for r in old["rows"]}
    out = []
    for row in new["rows"]:
        past = before.get((row["case"], row["who"], row["unit"]))
        if past and past["min"] > 0 and "cited" not in row:
            few = row["unit"] == "s" and min(past["repeats"], row["repeats"]) < 3
            noise = min(1.0, max(0.25 if few else 0.05, (past["spread"] + row["spread"]) / 2))
            out.append((row, row["min"] / past["min"], noise))
    return out


def show(old, new, threshold):
    """Print the comparison; returns whether anything of ours exceeds both `threshold` and the noise."""
    print(f"\n{new['suite']}, against {old['date']}:")
    for key in ("machine", "config"):
        differ = sorted(k for k in old[key] | new[key] if old[key].get(k) != new[key].get(k))
        if differ:
            texts = (f"{k} {old[key].get(k)} -> {new[key].get(k)}" for k in differ)
            print(f"  note: not the same {key}: {', '.join(texts)}")
    if old.get("quick") != new.get("quick"):
        print("  note: one of them is --quick")
    found = changes(old, new)
    bad = not found
    if not found:
        print("  nothing in common: other sizes, or one of them with --quick")
    for row, ratio, noise in found:
        if max(ratio, 1 / ratio if ratio else 1) > 1 + noise:
            past = ratio > max(threshold, 1 + noise) and "peer" not in row
            bad |= past
            words = ("slower", "faster", "time") if row["unit"] == "s" else ("more", "less", "memory")
            word = words[0].upper() if past else words[0] if ratio > 1 else words[1]
            print(
                f"  {word}: {row['case']}, {row['who']}: {number_text(ratio)} x the {words[2]} "
                f"(noise {100 * noise:.0f} %)"
            )
    within = sum(max(ratio, 1 / ratio if ratio else 1) <= 1 + noise for _, ratio, noise in found)
    gone = {(r["case"], r["who"]) for r in old["rows"]} - {(r["case"], r["who"]) for r in new["rows"]}
    print(f"  {within} of {len(found)} rows within the noise" + (f"; {len(gone)} not measured now" if gone else ""))
    return bad
