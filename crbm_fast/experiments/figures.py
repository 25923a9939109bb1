"""The paper's figures, drawn from the results alone; PNG, by matplotlib (extra `plots`)."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from crbm_fast.experiments import claims, results
from crbm_fast.experiments.results import Result
from crbm_fast.experiments.runs import CONVERGENCE, DEMO, OCCLUSION_METHODS
from crbm_fast.experiments.tasks import OCCLUDED

HINT = 'figures need matplotlib: pip install "crbm_fast[plots]"'

_COLOURS = {"MLE-BP": "tab:blue", "CD-10": "tab:orange"}


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(found: Mapping[str, Result]) -> dict[str, bytes]:
    """{target: PNG} of each figure whose runs were done."""
    drawn = {"fig-occlusion": occlusion(found), "fig-convergence": convergence(found), "fig-demo": demo(found)}
    return {name: png for name, png in drawn.items() if png is not None}


def occlusion(found: Mapping[str, Result]) -> bytes | None:
    """Test error against the side of the missing square."""
    lines = {}
    for method in OCCLUSION_METHODS:
        cells = {side: claims.cell(found, task.name, method, "all") for side, task in OCCLUDED.items()}
        lines[method] = {side: error for side, error in cells.items() if error is not None}
    if not any(lines.values()):
        return None
    full = all(result["scale"]["name"] == "full" for result in found.values())      # the paper's problem
    fig, ax = _axes((6, 4))
    for method, points in lines.items():
        ax.plot(list(points), list(points.values()), "o-", color=_COLOURS[method], label=method)
        paper = {side: claims.paper_cell(task.name, method, "all") for side, task in OCCLUDED.items()}
        known = {side: error for side, error in paper.items() if error is not None}
        if full:
            ax.plot(
                list(known), list(known.values()), "D", color=_COLOURS[method], fillstyle="none", markersize=8,
                label=f"{method}, paper's Table 2",
            )  # fmt: skip
    ax.set(
        xlabel="missing patch, pixels", ylabel="wrong pixels of the test set, %", xticks=list(OCCLUDED), ylim=(0, None)
    )
    ax.set_xticklabels([f"{side}x{side}" for side in OCCLUDED])
    ax.legend(frameon=False)
    return _png(fig)


def convergence(found: Mapping[str, Result]) -> bytes | None:
    """Share of the training instances on which BP converged, by epoch."""
    task, method = CONVERGENCE
    result = _done(found, f"{task.name}/{method}")
    if result is None:
        return None
    history = result["history"]
    fig, ax = _axes((6, 4))
    shares = [100 * share for share in history["converged"]]
    ax.plot(history["epoch"], shares, "o-", color=_COLOURS[method], markersize=4, label="converged")
    ax.axvline(result["best_epoch"], color="0.6", linestyle=":", label="best on validation")
    limits = history["max_iter"]
    ax.set(
        xlabel=f"epoch (BP has {limits[0]} iterations in the first, {limits[-1]} in the last)",
        ylabel="training instances, %", ylim=(0, 103),
    )  # fmt: skip
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, loc="lower left")
    return _png(fig)


def demo(found: Mapping[str, Result]) -> bytes | None:
    """Test images: original, noisy, restored, occluded, completed; rows of an incomplete half are left out."""
    rows: list[tuple[str, Any]] = []
    for (task, method), words in zip(DEMO, ("restored", "completed"), strict=True):
        result = _done(found, f"{task.name}/{method}")
        if result is None or result["demo"] is None:
            continue
        images = {name: results.unpack_bits(part, claims.PIXELS) for name, part in result["demo"].items()}
        if not rows:
            rows.append(("original", images["clean"]))
        rows += [(f"{task.kind}, {task.amount}", images["corrupted"]), (words, images["predicted"])]
    if not rows:
        return None
    from matplotlib.figure import Figure

    count = len(rows[0][1])
    fig = Figure(figsize=(1.3 + 0.95 * count, 0.95 * len(rows)), layout="constrained")
    axes = np.atleast_2d(fig.subplots(len(rows), count))
    for row, (label, images) in zip(axes, rows, strict=True):
        for ax, image in zip(row, images, strict=True):
            ax.imshow(image.reshape(28, 28), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
        row[0].set_ylabel(label, rotation=0, ha="right", va="center")
    return _png(fig)


def _done(found: Mapping[str, Result], name: str) -> Result | None:
    result = found.get(name)
    return None if result is None or result["error"] is not None else result


def _axes(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    fig = Figure(figsize=size, layout="constrained")
    ax = fig.subplots()
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    return fig, ax


def _png(fig: Any) -> bytes:
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=150, metadata={"Software": None})
    return out.getvalue()
