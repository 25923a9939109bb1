"""The paper's figures, drawn from the results alone, as PNG; matplotlib draws them (extra `plots`)."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from crbm_fast.cli.picture import MISSING, WHITE, montage
from reproduce import claims, results
from reproduce.results import Result
from reproduce.runs import CONVERGENCE, DEMO, OCCLUSION_METHODS
from reproduce.tasks import OCCLUDED

HINT = 'figures need matplotlib: pip install "crbm_fast[plots]"'

_COLOURS = {"MLE-BP": "tab:blue", "CD-10": "tab:orange"}


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(found: Mapping[str, Result]) -> dict[str, bytes]:
    """The figures whose runs were done, {target: PNG}."""
    drawn = {"fig-occlusion": occlusion(found), "fig-convergence": convergence(found), "fig-demo": demo(found)}
    return {name: png for name, png in drawn.items() if png is not None}


def occlusion(found: Mapping[str, Result]) -> bytes | None:
    """The test error against the side of the missing square."""
    lines = {}
    for method in OCCLUSION_METHODS:
        cells = {side: claims.cell(found, task.name, method, "all") for side, task in OCCLUDED.items()}
        lines[method] = {side: error for side, error in cells.items() if error is not None}
    if not any(lines.values()):
        return None
    full = all(result["scale"]["name"] == "full" for result in found.values())  # the paper's problem
    fig, ax = _axes()
    for method, points in lines.items():
        ax.plot(list(points), list(points.values()), "o-", color=_COLOURS[method], label=method)
        paper = {side: claims.paper_cell(task.name, method, "all") for side, task in OCCLUDED.items()}
        known = {side: error for side, error in paper.items() if error is not None}
        if full:
            ax.plot(
                list(known),
                list(known.values()),
                "D",
                color=_COLOURS[method],
                fillstyle="none",
                markersize=8,
                label=f"{method}, paper's Table 2",
            )
    ax.set(
        xlabel="missing patch, pixels", ylabel="wrong pixels of the test set, %", xticks=list(OCCLUDED), ylim=(0, None)
    )
    ax.set_xticklabels([f"{side}x{side}" for side in OCCLUDED])
    ax.legend(frameon=False)
    return _png(fig)


def convergence(found: Mapping[str, Result]) -> bytes | None:
    """The share of the training instances on which BP converged, by epoch."""
    task, method = CONVERGENCE
    result = _done(found, f"{task.name}/{method}")
    if result is None:
        return None
    shares, limits = ([*result["convergence"][name]] for name in ("share", "max_iter"))
    fig, ax = _axes()
    epochs = range(1, len(shares) + 1)
    ax.plot(epochs, [100 * share for share in shares], "o-", color=_COLOURS[method], markersize=4, label="converged")
    ax.axvline(result["best_epoch"], color="0.6", linestyle=":", label="best on validation")
    ax.set(
        xlabel=f"epoch (BP has {limits[0]} iterations in the first, {limits[-1]} in the last)",
        ylabel="training instances, %",
        ylim=(0, 103),
    )
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, loc="lower left")
    return _png(fig)


def demo(found: Mapping[str, Result]) -> bytes | None:
    """Test images: original, noisy, restored, occluded, completed; without the rows of a run that was not done."""
    rows: list[tuple[str, Any]] = []
    for (task, method), predicted in zip(DEMO, ("restored", "completed"), strict=True):
        result = _done(found, f"{task.name}/{method}")
        if result is None or result["demo"] is None:
            continue
        images = {name: results.unpack_bits(part, claims.PIXELS) for name, part in result["demo"].items()}
        shades = {name: WHITE * part[..., np.newaxis] for name, part in images.items()}
        if task.kind == "occluded":  # show what is missing, not only the background's value
            shades["corrupted"][task.patches(images["clean"], "test")] = MISSING
        if not rows:
            rows.append(("original", shades["clean"]))
        rows += [(f"{task.kind}, {task.amount}", shades["corrupted"]), (predicted, shades["predicted"])]
    return montage(rows) if rows else None


def _done(found: Mapping[str, Result], name: str) -> Result | None:
    result = found.get(name)
    return None if result is None or result["error"] is not None else result


def _axes() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    fig = Figure(figsize=(6, 4), layout="constrained")
    ax = fig.subplots()
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    return fig, ax


def _png(fig: Any) -> bytes:
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=150, metadata={"Software": None})
    return out.getvalue()
