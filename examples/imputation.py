# %% [markdown]
# Missing data: an RBM learns what 6x6 images of bars and stripes look like, and fills in pixels that are hidden.
#
#     python imputation.py                      (a few seconds)
#     python imputation.py --png pictures.png   (needs matplotlib)
#
# Prints an image as it is, with pixels hidden, and filled in; then the fraction of hidden pixels that each way of
# filling in gets wrong: the mean of the pixel, marginals, marginal MAP, and the best that anybody could do.

# %%
import sys

import numpy as np

import crbm_fast as cf

SIDE, rng = 6, np.random.default_rng(0)


def patterns(lines):
    """Images (2 n, 36): for each row of `lines` (n, 6) one with these rows and one with these columns."""
    rows = np.repeat(lines[:, :, np.newaxis], SIDE, axis=2)
    return np.concatenate([rows, rows.transpose(0, 2, 1)]).reshape(-1, SIDE * SIDE)


V = patterns(rng.random((1500, SIDE)) < 0.5)  # to learn from
truth = patterns(rng.random((250, SIDE)) < 0.5)  # to fill in
known = rng.random(truth.shape) < 0.5  # the pixels that are seen

# %% [markdown]
# Learning by contrastive divergence: with nothing seen, BP settles on one of the 126 patterns instead of averaging over
# them.  With half of the pixels seen few patterns are left, and BP is nearly right.

# %%
rbm = cf.RBM(nv=SIDE * SIDE, nh=48)
cf.train(rbm, None, V, "cd", epochs=30, learning_rate=0.005)

# %% [markdown]
# `evidence=(mask, values)` clamps the pixels under the mask; values elsewhere are not looked at.  A batch has a row of
# each per image; the biases are the same for all images.
#
# Sum-product gives the probability that a hidden pixel is on.  Mixed-product looks for the best image as a whole, with
# the hidden units summed out (marginal MAP).  It stops at the first image that is better than its neighbours, so it
# matters where it starts: `init=` takes the marginals.

# %%
b_v, b_h = np.tile(rbm.b_v, (len(truth), 1)), rbm.b_h
given = {"evidence": (known, truth), "max_iter": 100}
marginals = cf.infer(rbm.W_vh, b_v, b_h, **given)
cold = cf.infer(rbm.W_vh, b_v, b_h, method="mixed-product", **given)
start = np.concatenate([marginals.tau_v, marginals.tau_h], axis=1)
warm = cf.infer(rbm.W_vh, b_v, b_h, method="mixed-product", init=start, **given)

# %% [markdown]
# The data are simple enough to know the right answer: the mean of all patterns that agree with what is seen.

# %%
every = patterns((np.arange(2**SIDE)[:, np.newaxis] >> np.arange(SIDE)) & 1)
agree = ((every == truth[:, np.newaxis]) | ~known[:, np.newaxis]).all(axis=2).astype(float)
right = agree @ every / agree.sum(axis=1, keepdims=True)

# %%
filled = {
    "mean of the pixel": np.broadcast_to(V.mean(axis=0), truth.shape),
    "marginals": marginals.tau_v,
    "marginal MAP, from scratch": cold.tau_v,
    "marginal MAP, from the marginals": warm.tau_v,
    "best possible": right,
}
wrong = {name: np.mean((p > 0.5) != truth, where=~known) for name, p in filled.items()}


def lines(image, shades):
    return ["".join(shades[x] for x in row) for row in image.reshape(SIDE, SIDE)]


n = np.argmin(np.abs(known.mean(axis=1) - 0.4) + np.abs(truth.mean(axis=1) - 0.5))  # 40 % seen, half of it on
print("  image    hidden   filled in")
columns = truth[n].astype(int), np.where(known[n], truth[n], 2), (marginals.tau_v[n] > 0.5).astype(int)
for row in zip(*(lines(image, ".#?") for image in columns), strict=True):
    print("  " + "   ".join(row))
print("hidden pixels filled in wrongly")
for name, fraction in wrong.items():
    print(f"  {name:<32} {fraction:6.1%}")

# %%
if sys.argv[1:2] == ["--png"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.2))
    pictures = truth[n], np.where(known[n], truth[n], 0.5), marginals.tau_v[n]
    for axes, image, title in zip(figure.subplots(1, 3), pictures, ("image", "hidden", "marginals"), strict=True):
        axes.imshow(image.reshape(SIDE, SIDE), cmap="gray_r", vmin=0, vmax=1)
        axes.set(title=title, xticks=[], yticks=[])
    figure.savefig(sys.argv[2])
