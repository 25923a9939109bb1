"""The paper's figures, drawn from the results alone; PNG, by matplotlib (extra `plots`)."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    full = all(result["scale"]["name"] == "full" for result in found.values())  # the paper's problem
    fig, ax = _axes((6, 4))
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
        ylabel="training instances, %",
        ylim=(0, 103),
    )
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
        shades = {name: _WHITE * part[..., np.newaxis] for name, part in images.items()}
        if task.kind == "occluded":  # what is missing, not only the background's value
            shades["corrupted"][task.patches(images["clean"], "test")] = _MISSING
        if not rows:
            rows.append(("original", shades["clean"]))
        rows += [(f"{task.kind}, {task.amount}", shades["corrupted"]), (words, shades["predicted"])]
    return _montage(rows) if rows else None


# Of the demo: values of pixels (the missing ones darker than any threshold of a black and white picture), pixels of the
# picture per pixel of an image, between images, between a group of rows and the next, for the labels, and around all.
_WHITE, _MISSING = np.array([255, 255, 255], np.uint8), np.array([52, 84, 138], np.uint8)
_ZOOM, _GAP, _GROUP, _LABELS, _MARGIN = 3, 5, 16, 132, 8


def grid(n_rows: int, count: int) -> tuple[int, int, NDArray[np.intp], NDArray[np.intp]]:
    """Height and width of the demo in pixels, the tops of its rows and the lefts of its images; rows 1 and 3 begin a
    group.  Pixel (i, j) of an image is the 3x3 pixels at (top + 3 i, left + 3 j)."""
    side = 28 * _ZOOM
    row, column = np.arange(n_rows), np.arange(count)
    tops = _MARGIN + row * (side + _GAP) + (row + 1) // 2 * (_GROUP - _GAP)
    lefts = _LABELS + column * (side + _GAP)
    return int(tops[-1]) + side + _MARGIN, int(lefts[-1]) + side + _MARGIN, tops, lefts


def _montage(rows: list[tuple[str, NDArray[np.uint8]]]) -> bytes:
    """Labelled rows of images (count, 784, 3), pixel by pixel."""
    from matplotlib.figure import Figure

    height, width, tops, lefts = grid(len(rows), len(rows[0][1]))
    canvas = np.full((height, width, 3), 255, np.uint8)
    dpi = 100
    fig = Figure(figsize=(width / dpi, height / dpi), dpi=dpi)
    for top, (label, images) in zip(tops, rows, strict=True):
        for left, image in zip(lefts, images, strict=True):
            large = image.reshape(28, 28, 3).repeat(_ZOOM, axis=0).repeat(_ZOOM, axis=1)
            canvas[top : top + len(large), left : left + len(large)] = large
        fig.text(
            (_LABELS - 12) / width,
            1 - (top + 14 * _ZOOM) / height,
            label,
            ha="right",
            va="center",
            fontsize=11,
            color="0.2",
        )
    fig.figimage(canvas, zorder=-1, origin="upper")
    return _png(fig, dpi)


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


def _png(fig: Any, dpi: int = 150) -> bytes:
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()
