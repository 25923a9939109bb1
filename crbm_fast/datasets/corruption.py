"""Corrupted images X for clean images V, and the errors of predicting V from X, as in the paper's experiments [1]_.

What happens to an image depends on (seed, the image's index) alone: not on how a set is split in batches, nor on the
version of NumPy, which may change its distributions but never the raw bits of a generator.

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017, section 6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crbm_fast import _validation as check
from crbm_fast._data import chunks

# Each corruption has a random stream of its own, so that flips and patches of one seed are independent.
_FLIP, _OCCLUDE = 0, 1


def flip(V: ArrayLike, rate: float, *, seed: int = 0, first_instance: int = 0) -> NDArray[np.uint8]:
    """Noisy images: a share `rate` of the pixels of each image is flipped.

    Of nv pixels, round(rate nv) are flipped (of 784: 78 at 10 %, 157 at 20 %); all choices are equally likely.  With
    the same seed, the pixels flipped at a lower rate are among those flipped at a higher one.

    Parameters
    ----------
    V : array-like, (N, nv)
        Clean images, 0 or 1.
    rate : float
        From 0 to 1; the paper uses 0.1 and 0.2.
    seed : int
        The seed of the noise.  Give training, validation and test set different seeds, or their i-th images share
        their noise.
    first_instance : int
        The index of the first image, where V is part of a set: parts are corrupted as the whole would be.

    Returns
    -------
    X : ndarray of uint8, (N, nv)
        The noisy images; `X != V` are the changed pixels.
    """
    X = check.as_states("V", V).copy()
    N, nv = X.shape
    count = round(check.check_real("rate", rate, 0, 1, closed=True) * nv)
    draws = _Draws(seed, _FLIP, first_instance, nv)
    for part in chunks(N):
        rows = X[part]
        where = np.argpartition(draws(len(rows)), count - 1, axis=1)[:, :count]  # the places of the smallest numbers
        np.put_along_axis(rows, where, 1 - np.take_along_axis(rows, where, 1), 1)
    return X


def occlude(
    V: ArrayLike, size: int, *, value: int, seed: int = 0, first_instance: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Images with a missing patch: a square of size x size pixels is set to `value` in each image.

    The square is inside the image; all places are equally likely.

    Parameters
    ----------
    V : array-like, (N, nv)
        Clean images, 0 or 1, square, row by row.
    size : int
        The side of the square, from 0 to 28 for images of 28x28; the paper uses 8 and 12.
    value : int
        0 or 1; the paper uses the background (`Splits.background`), 0 for MNIST and 1 for Caltech.
    seed, first_instance : int
        As for `flip`.

    Returns
    -------
    X : ndarray of uint8, (N, nv)
        The occluded images; `X != V` are the changed pixels, as most of a patch had the background's value before.
    where : ndarray of bool, (N, nv)
        The patches.  `model.predict(X, evidence=(~where, X))` keeps what is known.
    """
    V = check.as_states("V", V)
    N, nv = V.shape
    side = math.isqrt(nv)
    if side**2 != nv:
        raise ValueError(f"V has shape {V.shape}; expected (N, nv) with nv a square number, as 784 = 28 x 28")
    size, value = check.check_int("size", size, 0, side), check.check_int("value", value, 0, 1)
    draws = _Draws(seed, _OCCLUDE, first_instance, 2)(N)
    # 53 bits make a number in [0, 1); (N, 2, 1): the first row and the first column of each patch
    corner = np.floor((draws >> np.uint64(11)) * 2.0**-53 * (side - size + 1))[:, :, np.newaxis]
    inside = (np.arange(side) >= corner) & (np.arange(side) < corner + size)
    where = (inside[:, 0, :, np.newaxis] & inside[:, 1, np.newaxis, :]).reshape(N, nv)
    return np.where(where, np.uint8(value), V), where


class _Draws:
    """Random 64-bit integers, `width` for each instance; a call returns those of the next n instances."""

    def __init__(self, seed: Any, stream: int, first: Any, width: int) -> None:
        seed = check.check_int("seed", seed, 0, 2**63 - 1)
        first = check.check_int("first_instance", first, 0, 2**63 - 1)
        self.width = width
        self.bits = np.random.PCG64DXSM(np.random.SeedSequence(seed, spawn_key=(stream,)))
        self.bits.advance(first * width)

    def __call__(self, n: int) -> NDArray[np.uint64]:
        return self.bits.random_raw(n * self.width).reshape(n, self.width)


def error_all(V: ArrayLike, predicted: ArrayLike) -> float:
    """The paper's "All": the share of wrong pixels among all pixels.

    Parameters
    ----------
    V, predicted : array-like, (N, nv)
        Clean images and the predicted ones, 0 or 1.

    Returns
    -------
    float
        0 to 1 (the paper gives percent); NaN without pixels.
    """
    wrong = _differ(V, predicted, "predicted")
    return float(wrong.mean()) if wrong.size else math.nan


def error_changed(V: ArrayLike, predicted: ArrayLike, X: ArrayLike) -> float:
    """The paper's "Changed": the share of wrong pixels among those that the corruption changed, X != V.

    Pixels of a patch that had the patch's value before are not changed.  If they counted, the errors of the paper's
    Table 2 on these pixels would exceed those on all.

    Parameters
    ----------
    V, predicted, X : array-like, (N, nv)
        Clean, predicted and corrupted images, 0 or 1.

    Returns
    -------
    float
        0 to 1 (the paper gives percent); NaN if nothing was changed.
    """
    wrong, changed = _differ(V, predicted, "predicted"), _differ(V, X, "X")
    return float(wrong[changed].mean()) if changed.any() else math.nan


def _differ(V: ArrayLike, other: ArrayLike, name: str) -> NDArray[np.bool_]:
    """Where two sets of images differ."""
    clean, states = check.as_states("V", V), check.as_states(name, other)
    if clean.shape != states.shape:
        raise ValueError(f"{name} has shape {states.shape}; expected {clean.shape}, as V has")
    return np.not_equal(clean, states)
