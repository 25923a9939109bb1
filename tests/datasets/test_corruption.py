"""Corruptions change what they say and nothing else, and the errors are those of the paper."""

import math

import numpy as np
import pytest

from crbm_fast import datasets


@pytest.fixture
def V(rng):
    """More images than are looked at together."""
    return rng.integers(0, 2, (2500, 784), np.uint8)


@pytest.mark.parametrize(("rate", "count"), [(0, 0), (0.1, 78), (0.2, 157), (1, 784), (0.0005, 0), (0.001, 1)])
def test_flip_flips_a_share_of_each_image(V, rate, count):
    before = V.copy()
    X = datasets.flip(V, rate)
    assert X.dtype == np.uint8
    assert X.max() <= 1
    assert ((X != V).sum(axis=1) == count).all()
    np.testing.assert_array_equal(V, before)


def test_flips_are_uniform_and_independent(V):
    """Each pixel as often as any other, whatever its value; pairs of neighbours as often as chance has it."""
    N, share = len(V), 78 / 784
    flipped = datasets.flip(V, 0.1) != V
    z = (flipped.mean(axis=0) - share) / math.sqrt(share * (1 - share) / N)
    assert np.abs(z).max() < 4.5
    assert np.mean(z**2) == pytest.approx(1, abs=0.2)
    assert flipped[V == 1].mean() == pytest.approx(share, abs=0.002)
    pairs = share * 77 / 783
    both = (flipped[:, 1:] & flipped[:, :-1]).mean(), (flipped[1:] & flipped[:-1]).mean()
    assert both == pytest.approx((pairs, share**2), rel=0.03)


@pytest.mark.parametrize("size", [0, 1, 8, 12, 27, 28])
@pytest.mark.parametrize("value", [0, 1])
def test_occlude_sets_a_square(V, size, value):
    before = V.copy()
    X, where = datasets.occlude(V, size, value=value)
    assert X.dtype == np.uint8
    assert where.dtype == bool
    assert (X[where] == value).all()
    np.testing.assert_array_equal(X[~where], V[~where])
    np.testing.assert_array_equal(V, before)
    square = where.reshape(-1, 28, 28)
    rows, columns = square.any(axis=2), square.any(axis=1)
    np.testing.assert_array_equal(square, rows[:, :, np.newaxis] & columns[:, np.newaxis, :])
    for lines in (rows, columns):  # one run of `size` lines
        assert (lines.sum(axis=1) == size).all()
        assert (np.abs(np.diff(lines, axis=1, prepend=False, append=False)).sum(axis=1) == 2 * (size > 0)).all()


def test_full_occlusion_is_no_conditioning(V):
    X, where = datasets.occlude(V, 28, value=0)
    assert not X.any()
    assert where.all()


@pytest.mark.parametrize("size", [8, 12])
def test_every_place_of_a_patch_is_equally_likely(V, size):
    places = 28 - size + 1
    V = np.tile(V, (8, 1))
    corner = datasets.occlude(V, size, value=0)[1].argmax(axis=1)  # the first pixel of the patch
    counts = np.bincount(28 * (corner // 28) + corner % 28, minlength=784).reshape(28, 28)
    assert counts[:places, :places].sum() == len(V)
    expected = len(V) / places**2
    chi2 = ((counts[:places, :places] - expected) ** 2 / expected).sum()
    assert abs(chi2 - (places**2 - 1)) < 4 * math.sqrt(2 * (places**2 - 1))


def noisy(V, **how):
    X = datasets.flip(V, 0.2, **how)
    return X, X != V


def occluded(V, **how):
    return datasets.occlude(V, 12, value=1, **how)


CORRUPTIONS = (noisy, occluded)


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_a_corruption_depends_on_seed_and_index_alone(V, corrupt):
    X, where = corrupt(V, seed=5)
    np.testing.assert_array_equal(corrupt(V, seed=5)[0], X)
    assert (corrupt(V, seed=6)[1] != where).any(axis=1).mean() > 0.9
    for start, stop in ((0, 0), (0, 1), (1, 3), (1000, 1100), (1023, 2049), (2499, 2500)):
        np.testing.assert_array_equal(corrupt(V[start:stop], seed=5, first_instance=start)[0], X[start:stop])
    np.testing.assert_array_equal(corrupt(1 - V, seed=5)[1], where)  # whatever the image shows


def test_the_same_corruption_in_every_version():
    """Found once, kept: results stay comparable."""
    zeros = np.zeros((3, 784), np.uint8)
    where = datasets.flip(zeros, 0.005, seed=1).nonzero()[1].reshape(3, 4)
    assert where.tolist() == [[194, 200, 277, 667], [46, 223, 367, 619], [81, 345, 347, 602]]
    corners = datasets.occlude(zeros, 8, value=1, seed=1)[0].argmax(axis=1)
    assert corners.tolist() == [339, 64, 364]


def test_flips_of_a_lower_rate_are_among_those_of_a_higher(V):
    low, high = (datasets.flip(V, rate) != V for rate in (0.1, 0.2))
    assert (low <= high).all()


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
def test_any_dtype_and_memory_order(V, dtype):
    mine = np.asfortranarray(V[:50].astype(dtype))
    mine.flags.writeable = False
    np.testing.assert_array_equal(datasets.flip(mine, 0.1), datasets.flip(V[:50], 0.1))
    np.testing.assert_array_equal(datasets.flip(mine.tolist(), 0.1), datasets.flip(V[:50], 0.1))
    for got, want in zip(datasets.occlude(mine, 8, value=0), datasets.occlude(V[:50], 8, value=0), strict=True):
        np.testing.assert_array_equal(got, want)


ONES = np.ones((2, 784), np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: datasets.flip(ONES, 10), ValueError, r"rate=10 is outside \[0, 1\]"),
        (lambda: datasets.flip(ONES, -0.1), ValueError, r"rate=-0\.1 is outside \[0, 1\]"),
        (lambda: datasets.flip(ONES, math.nan), ValueError, "rate=nan is outside"),
        (lambda: datasets.flip(ONES, "10%"), TypeError, "rate='10%' must be a real number"),
        (lambda: datasets.flip(ONES, 0.1, seed=-1), ValueError, "seed=-1 is outside"),
        (lambda: datasets.flip(ONES, 0.1, first_instance=-1), ValueError, "first_instance=-1 is outside"),
        (lambda: datasets.flip(ONES[0], 0.1), ValueError, r"V has shape \(784,\); .* pass V\[np\.newaxis\]"),
        (lambda: datasets.flip(ONES[:, :0], 0.1), ValueError, r"V has shape \(2, 0\); expected \(N, nv\)"),
        (lambda: datasets.flip(255 * ONES, 0.1), ValueError, r"V\[0, 0\] = 255; expected 0 or 1 \(threshold"),
        (lambda: datasets.flip(ONES * 0.5, 0.1), ValueError, r"V\[0, 0\] = 0\.5; expected 0 or 1"),
        (lambda: datasets.flip(ONES * math.nan, 0.1), ValueError, r"V\[0, 0\] = nan; expected 0 or 1"),
        (lambda: datasets.flip("image", 0.1), TypeError, "V has dtype"),
        (lambda: datasets.occlude(ONES, 29, value=0), ValueError, r"size=29 is outside \[0, 28\]"),
        (lambda: datasets.occlude(ONES, -1, value=0), ValueError, r"size=-1 is outside \[0, 28\]"),
        (lambda: datasets.occlude(ONES, 8.5, value=0), TypeError, r"size=8\.5 must be an integer"),
        (lambda: datasets.occlude(ONES, 8, value=2), ValueError, r"value=2 is outside \[0, 1\]"),
        (lambda: datasets.occlude(ONES[:, 1:], 8, value=0), ValueError, r"V has shape \(2, 783\); .* a square number"),
        (lambda: datasets.error_all(ONES, ONES[:1]), ValueError, r"predicted has shape \(1, 784\); expected"),
        (lambda: datasets.error_all(ONES, ONES * 0.7), ValueError, r"predicted\[0, 0\] = 0\.7; .* probabilities"),
        (lambda: datasets.error_changed(ONES, ONES, ONES[:1]), ValueError, r"X has shape \(1, 784\)"),
    ],
)
def test_bad_arguments_of_corruptions_and_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- errors -------------------------------------------------------------------------------------------------------


def test_errors_by_hand():
    V = [[0, 0, 1, 1], [1, 1, 0, 0]]
    X = [[1, 0, 0, 1], [1, 1, 0, 1]]  # three pixels changed
    predicted = [[0, 1, 0, 1], [1, 1, 0, 0]]  # two wrong, one of them changed
    assert datasets.error_all(V, predicted) == 2 / 8
    assert datasets.error_changed(V, predicted, X) == pytest.approx(1 / 3)
    assert datasets.error_all(V, np.array(predicted, bool)) == 2 / 8
    assert math.isnan(datasets.error_changed(V, predicted, V))
    assert math.isnan(datasets.error_all(ONES[:0], ONES[:0]))


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_errors_of_predicting_what_was_given(V, corrupt):
    """Copying X is wrong at the changed pixels and nowhere else; predicting V nowhere."""
    X, _ = corrupt(V)
    assert datasets.error_all(V, X) == (X != V).mean()
    assert datasets.error_changed(V, X, X) == 1
    assert datasets.error_all(V, V) == datasets.error_changed(V, V, X) == 0
