"""A picture of small images in labelled rows, pixel by pixel; matplotlib writes it (extra `plots`)."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

# The colours of a pixel that is 1, and of one that is missing: darker than any threshold of a black and white picture.
WHITE, MISSING = np.array([255, 255, 255], np.uint8), np.array([52, 84, 138], np.uint8)

# In pixels of the picture: a pixel of an image, the space between two images and between two groups of rows, the width
# of the labels, and the margin around everything.
_ZOOM, _GAP, _GROUP, _LABELS, _MARGIN = 3, 5, 16, 132, 8


def grid(n_rows: int, n_images: int) -> tuple[int, int, NDArray[np.intp], NDArray[np.intp]]:
    """The height and width of a montage, the tops of its rows and the left ends of its images, in pixels.

    Rows 1, 3, ... begin a group.  Pixel (i, j) of an image is the 3x3 pixels at (top + 3 i, left + 3 j).
    """
    side = 28 * _ZOOM
    row, column = np.arange(n_rows), np.arange(n_images)
    tops = _MARGIN + row * (side + _GAP) + (row + 1) // 2 * (_GROUP - _GAP)
    lefts = _LABELS + column * (side + _GAP)
    return int(tops[-1]) + side + _MARGIN, int(lefts[-1]) + side + _MARGIN, tops, lefts


def montage(rows: list[tuple[str, NDArray[np.uint8]]]) -> bytes:
    """A PNG of labelled rows of images (n_images, 784, 3)."""
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
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()
