"""Two reports of one suite: what got faster or slower, beyond the noise of both."""

import json

from bench._problems import BenchError
from bench._report import number_text


def load(path, names):
    """{suite: report} of a JSON file or of a folder of them."""
    files = [path] if path.is_file() else [path / f"{name}.json" for name in names]
    files = [f for f in files if f.is_file()]
    if not files:
        raise BenchError(f"--compare {path}: there is no report of {' or '.join(names)}")
    reports = {}
    for file in files:
        try:
            report = json.loads(file.read_text(encoding="utf-8"))
            reports[report["suite"]] = report
            report["rows"], report["machine"]["name"], report["config"]["instruction set"]
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(f"--compare {file}: this is not a report of the benchmark ({error!r})") from error
    if not set(reports) & set(names):
        raise BenchError(f"--compare {path} is of the suite {', '.join(reports)}; run that one")
    return reports


def changes(old, new):
    """[(case, who, new over old, noise)] of what both measured: the minima, and how far apart noise may put them.

    The noise of a minimum is taken to be half the spread of its repeats, in either report, and 5 % at least.
    """
    before = {(r["case"], r["who"], r["unit"]): r for r in old["rows"]}
    out = []
    for row in new["rows"]:
        past = before.get((row["case"], row["who"], row["unit"]))
        if past and past["min"] > 0 and "cited" not in row:
            noise = max(0.05, (past["spread"] + row["spread"]) / 2)
            out.append((row["case"], row["who"], row["min"] / past["min"], noise))
    return out


def show(old, new, threshold):
    """Print the comparison; whether anything of ours is slower by more than `threshold` and the noise."""
    print(f"\n{new['suite']}, against {old['date']}:")
    for key in ("machine", "config"):
        if old[key] != new[key]:
            differ = sorted(k for k in old[key] | new[key] if old[key].get(k) != new[key].get(k))
            texts = (f"{k} {old[key].get(k)} -> {new[key].get(k)}" for k in differ)
            print(f"  note: not the same {key}: {', '.join(texts)}")
    found = changes(old, new)
    bad = False
    for case, who, ratio, noise in found:
        if max(ratio, 1 / ratio) > 1 + noise:
            past = ratio > max(threshold, 1 + noise)
            bad |= past
            word = "SLOWER" if past else "slower" if ratio > 1 else "faster"
            print(f"  {word}: {case}, {who}: {number_text(ratio)} x the time (noise {100 * noise:.0f} %)")
    within = sum(max(ratio, 1 / ratio) <= 1 + noise for *_, ratio, noise in found)
    print(f"  {within} of {len(found)} rows within the noise")
    return bad
