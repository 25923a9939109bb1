"""Tasks: the corruptions are the paper's, and so are the splits and the model."""

import itertools
import os

import numpy as np
import pytest
from helpers.reproduce import TINY

from reproduce.tasks import SCALES, TASKS, Scale


@pytest.mark.parametrize("name", TASKS)
def test_corruptions_are_the_papers(name):
    """Exactly 10 or 20 % of the pixels, one square inside the image, the background's value."""
    task = TASKS[name]
    parts = task.load(TINY)
    background = 1 if task.data == "caltech" else 0
    for X, V in parts.values():
        assert (V[:, [0, 27, 756, 783]] == background).all()  # corners: outside of every digit
        changed = X != V
        if task.kind == "noisy":
            assert set(changed.sum(axis=1)) == {{10: 78, 20: 157}[task.level]}
        else:
            assert (X[changed] == background).all()
            for i in np.flatnonzero(changed.any(axis=1)):
                rows, columns = np.nonzero(changed[i].reshape(28, 28))
                assert np.ptp(rows) < task.level
                assert np.ptp(columns) < task.level
    assert [len(V) for _, V in parts.values()] == [60, 20, 30]


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.level < 28])
def test_no_two_parts_share_their_corruption(name):
    changed = [X[:20] != V[:20] for X, V in TASKS[name].load(TINY).values()]
    for a, b in itertools.combinations(changed, 2):
        assert not np.array_equal(a, b)


def test_both_kinds_of_corruption_are_checked():
    assert {task.kind for task in TASKS.values()} == {"noisy", "occluded"}


def test_the_whole_image_is_occluded_at_28():
    X, _ = TASKS["mnist-occluded-28"].load(TINY)["test"]
    assert not X.any()


@pytest.mark.parametrize(
    ("file", "name", "sizes", "inside"),
    [
        ("mnist.npz", "mnist-occluded-12", (50_000, 10_000, 10_000), 0),
        ("caltech101_silhouettes.npz", "caltech-occluded-12", (4_100, 2_264, 2_307), 1),
    ],
)
def test_splits_at_full_scale(file, name, sizes, inside):
    if not os.path.isfile(os.path.join(os.environ.get("CRBM_FAST_DATA", ""), file)):
        pytest.skip(f"no {file} in CRBM_FAST_DATA")
    parts = TASKS[name].load(SCALES["full"])
    assert tuple(len(V) for _, V in parts.values()) == sizes
    X, V = parts["test"]
    assert set(np.unique(X[X != V])) == {inside}


def test_the_full_model_is_the_papers():
    full = SCALES["full"]
    assert full == Scale("full", nh=256, digits=False, train=None, validation=None, test=None, keywords={})
