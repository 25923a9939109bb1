"""What the paper says about the order of its methods, and whether the runs agree.

Two methods are tested on the same images, so their difference is judged by its own standard error over these images:
a difference of at most two standard errors is too close to tell.  (What another seed of training would change is not
part of the standard error.)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from reproduce import results
from reproduce.methods import METHODS
from reproduce.results import Result
from reproduce.tasks import IN_TABLES, OCCLUDED, TABLES, Task

PAPER = Path(__file__).with_name("paper.json")

Error = Literal["all", "changed"]
ERRORS: tuple[Error, Error] = ("all", "changed")
Verdict = Literal["holds", "fails", "close", "missing"]

PIXELS = 784


@cache
def paper() -> dict[str, Any]:
    """The paper's tables in percent: {"tables": {table: {"title", "cells": {task: {method: {"all", "changed"}}}}}}."""
    contents: dict[str, Any] = json.loads(PAPER.read_text(encoding="utf-8"))
    return contents


def paper_cell(task: str, method: str, error: Error) -> float | None:
    """A cell of the paper's tables in percent; None where the paper has none."""
    for table in paper()["tables"].values():
        if task in table["cells"]:
            return float(table["cells"][task][method][error])
    return None


def cell(found: Mapping[str, Result], task: str, method: str, error: Error) -> float | None:
    """The same cell of our runs in percent; None if the run was not done or failed."""
    result = found.get(f"{task}/{method}")
    if result is None or result["error"] is not None or result["test"] is None:
        return None
    value = result["test"][error]
    return None if value is None else 100 * value


@dataclass(frozen=True)
class Claim:
    """Some methods have less error than others on a task.

    Attributes
    ----------
    text : str
        What the paper says, in our words.
    task : Task
    error : {"all", "changed"}
    lower, higher : tuple of str
        Every method of `lower` has less error than every one of `higher`.
    """

    text: str
    task: Task
    error: Error
    lower: tuple[str, ...]
    higher: tuple[str, ...]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The comparisons that the claim makes, each as (lower, higher)."""
        return ((a, b) for a in self.lower for b in self.higher)


_BELOW_MLE_BP = ("LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF", "LSSVM")
_CD = ("CD-1", "CD-10", "CD-PercLoss")
_MNIST = (*TABLES["table1"], *TABLES["table2"])
_CALTECH_NOISY, _CALTECH_OCCLUDED = TABLES["table3"]
_OTHERS = {best: tuple(m for m in METHODS if m != best) for best in METHODS}

# What the paper's text says about its tables.  No comparison is in two of them.
CLAIMS = (
    *(Claim("MLE-BP is better than LR, CD, MLE-MF and LSSVM", t, "all", ("MLE-BP",), _BELOW_MLE_BP) for t in _MNIST),
    *(Claim("MLE-BP is better than MSSVM on MNIST", t, "all", ("MLE-BP",), ("MSSVM",)) for t in _MNIST),
    *(Claim("MSSVM is the best after MLE-BP on MNIST", t, "all", ("MSSVM",), _BELOW_MLE_BP) for t in _MNIST),
    Claim("MLE-BP is the best at denoising Caltech", _CALTECH_NOISY, "all", ("MLE-BP",), _OTHERS["MLE-BP"]),
    Claim("MSSVM is the best at completing Caltech", _CALTECH_OCCLUDED, "all", ("MSSVM",), _OTHERS["MSSVM"]),
    Claim("BP is better than CD, also where it is not the best", _CALTECH_NOISY, "all", ("MSSVM",), _CD),
    Claim("BP is better than CD, also where it is not the best", _CALTECH_OCCLUDED, "all", ("MLE-BP",), _CD),
    Claim("MSSVM is better than LSSVM", _CALTECH_NOISY, "all", ("MSSVM",), ("LSSVM",)),
)
# What the paper's cells say where its text says nothing.
_BEST_CHANGED = {
    **dict.fromkeys((*TABLES["table1"], OCCLUDED[8], _CALTECH_NOISY), "MLE-BP"),
    OCCLUDED[12]: "MSSVM",
    _CALTECH_OCCLUDED: "MSSVM",
}
CELLS = (
    *(
        Claim("CD-1 and CD-10 are worse than LR at completion", t, "all", ("LR",), ("CD-1", "CD-10"))
        for t in (*TABLES["table2"], _CALTECH_OCCLUDED)
    ),
    *(Claim(f"{best} is the best", t, "changed", (best,), _OTHERS[best]) for t, best in _BEST_CHANGED.items()),
    *(
        Claim("MSSVM is better than LSSVM", t, "changed", ("MSSVM",), ("LSSVM",))
        for t, best in _BEST_CHANGED.items()
        if best != "MSSVM"
    ),
)
# "MLE-BP works better than CD-10, unless the images are almost fully occluded"; "for vanilla RBMs, CD is better", which
# is 28x28.  24x24, three quarters of the pixels, is neither and not judged.
OCCLUSION_CLAIMS = (
    *(
        Claim("MLE-BP is better than CD-10 unless almost all is occluded", t, "all", ("MLE-BP",), ("CD-10",))
        for side, t in OCCLUDED.items()
        if side < 24
    ),
    Claim("CD-10 is better than MLE-BP without features", OCCLUDED[28], "all", ("CD-10",), ("MLE-BP",)),
)


def judge(found: Mapping[str, Result], claim: Claim) -> dict[tuple[str, str], Verdict]:
    """What the runs say about every comparison of a claim, {(lower, higher): verdict}."""
    return {pair: _compare(found, claim.task.name, claim.error, *pair) for pair in claim.pairs()}


def _compare(found: Mapping[str, Result], task: str, error: Error, lower: str, higher: str) -> Verdict:
    a, b = (cell(found, task, method, error) for method in (lower, higher))
    if a is None or b is None:
        return "missing"
    if abs(a - b) <= 2 * standard_error(found[f"{task}/{lower}"], found[f"{task}/{higher}"], error):
        return "close"
    return "holds" if a < b else "fails"


_COUNTS = {"all": "wrong", "changed": "wrong_changed"}


def standard_error(result: Result, other: Result | None = None, error: Error = "all") -> float:
    """The standard error of an error over the test images, or of its difference to that of another run, in percent."""
    wrong = results.unpack_counts(result["test"][_COUNTS[error]])
    if other is not None:
        theirs = results.unpack_counts(other["test"][_COUNTS[error]])
        if len(theirs) != len(wrong):
            return math.inf  # runs of two scales: their images are not the same
        wrong = wrong - theirs
    if len(wrong) < 2:
        return math.inf
    return 100 * float(wrong.std(ddof=1)) * math.sqrt(len(wrong)) / int(result["test"]["pixels"][error])


def sentence(found: Mapping[str, Result], claim: Claim) -> str:
    """What the runs say about a claim, in words; empty if none of its comparisons was run."""
    verdicts = judge(found, claim)
    if all(verdict == "missing" for verdict in verdicts.values()):
        return ""
    one = claim.lower if len(claim.lower) == 1 else claim.higher
    what = "" if claim.error == "all" else ", changed pixels"
    head = f"{claim.text}, {claim.task.title}{what}: "
    if len(verdicts) == 1:
        [(pair, verdict)] = verdicts.items()
        return f"{head}{_WORDS[verdict]}, {_numbers(found, claim, pair)}."
    parts = []
    for kind, word in _WORDS.items():
        pairs = [pair for pair, verdict in verdicts.items() if verdict == kind]
        if len(pairs) == len(verdicts) and kind == "holds":
            parts.append(f"{word} against {'both' if len(pairs) == 2 else f'all {len(pairs)}'}")
        elif pairs:
            others = [pair[1] if pair[0] in one else pair[0] for pair in pairs]
            if kind in ("fails", "close"):  # say by how much
                others = [f"{o} ({_numbers(found, claim, pair)})" for o, pair in zip(others, pairs, strict=True)]
            joint = ": " if kind == "missing" else " from " if kind == "close" else " against "
            parts.append(word + joint + ", ".join(others))
    return f"{head}{'; '.join(parts)}."


_WORDS: dict[Verdict, str] = {
    "holds": "**holds**",
    "fails": "**fails**",
    "close": "too close to tell",
    "missing": "not run",
}


def _numbers(found: Mapping[str, Result], claim: Claim, pair: tuple[str, str]) -> str:
    """Both errors of a comparison; first the one that the claim says is lower."""
    a, b = (cell(found, claim.task.name, method, claim.error) for method in pair)
    return f"{a:.3f} to {b:.3f}"


def tally(found: Mapping[str, Result], claims: tuple[Claim, ...] = CLAIMS) -> dict[Verdict, int]:
    """How many comparisons hold, fail, are too close to tell, or were not run."""
    counts: dict[Verdict, int] = {"holds": 0, "fails": 0, "close": 0, "missing": 0}
    for claim in claims:
        for verdict in judge(found, claim).values():
            counts[verdict] += 1
    return counts


def improvement(error: float, other: float) -> str:
    """By how many percent an error is less or more than another, in words."""
    percent = 100 * (1 - error / other)
    return f"{abs(percent):.1f} % {'less' if percent >= 0 else 'more'}"


def ratio_to_paper(found: Mapping[str, Result]) -> list[float]:
    """Our error divided by the paper's, for each cell "All" that was run, in increasing order."""
    ratios = []
    for task in IN_TABLES:
        for method in METHODS:
            ours, theirs = cell(found, task.name, method, "all"), paper_cell(task.name, method, "all")
            if ours is not None and theirs is not None:
                ratios.append(ours / theirs)
    return sorted(ratios)
