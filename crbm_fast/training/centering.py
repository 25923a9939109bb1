"""Centred coordinates, in which a change of a weight does not change the mean of what the weight adds to a field.

    theta_v = c_v + W_vh  (h - mu_h) + W_vx (x - mu_x)          mu_x          mean of the training data
    theta_h = c_h + W_vh' (v - mu_v) + W_hx (x - mu_x)          mu_v, mu_h    that and 1/2; or 0, with centred features

is the model of Eq. 2 in other coordinates, (W, c) in place of (W, b):

    b_v = c_v - W_vh mu_h - W_vx mu_x          b_h = c_h - W_vh' mu_v - W_hx mu_x                          (1)

and by the chain rule an objective that has the gradient (dW, db) in (W, b) has in (W, c)

    dW_vh - db_v mu_h' - mu_v db_h'          dW_vx - db_v mu_x'          dW_hx - db_h mu_x'          dc = db        (2)

Optimizers often work better there: the problem is better conditioned ([1]), and what 0 and 1 mean no longer matters
([2]): a unit or feature whose states are swapped is learned in the same way.  Learners compute (dW, db) and models keep
(W, b), so neither knows of this; features are never centred themselves, which would fill a sparse matrix.

References
----------
[1] Montavon & Mueller, "Deep Boltzmann machines and the centering trick", Neural Networks: Tricks of the Trade, 2012.
[2] Melchior, Fischer & Wiskott, "How to center deep Boltzmann machines", JMLR 17, 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast._algebra import product
from crbm_fast.model import CRBM

Array = NDArray[Any]


class Centering:
    """The coordinates c of a model whose weights others change.

    Parameters
    ----------
    model : CRBM
    trains : tuple of str
        The parameters that are learned; biases among them have a c.
    units : bool
        Whether outputs and hidden units are centred as well as features.

    Attributes
    ----------
    c : dict
        c_v as "b_v" and c_h as "b_h", arrays to take steps on.  After each `fold` computes b from them; c is not
        computed from b again, so rounding does not add up over the steps.
    """

    def __init__(self, model: CRBM, trains: tuple[str, ...], *, units: bool) -> None:
        self._model, self._trains, self._units = model, trains, units
        self._mean_v, self._mean_h, self._mean_x = (
            np.full((1, n), value, model.dtype) for n, value in ((model.nv, 0.0), (model.nh, 0.5), (model.nx, 0.0))
        )
        self.c = {name: model.parameters()[name].copy() for name in ("b_v", "b_h") if name in trains}

    def set_means(self, mean_v: Array, mean_x: Array) -> None:
        """Choose the coordinates by the means of outputs and features, (nv,) and (nx,); the model stays what it is."""
        self._mean_v[0], self._mean_x[0] = mean_v, mean_x
        self.unfold()

    def unfold(self) -> None:
        """Eq. (1) reversed: c from the model's biases and weights."""
        with np.errstate(all="ignore"):  # training reports an overflow, and in which batch
            for name, c in self.c.items():
                np.add(self._model.parameters()[name], self._shift(name), out=c)

    def arrays(self) -> dict[str, Array]:
        """All arrays of the state, by name; writing to them sets it."""
        means = {"mean_x": self._mean_x[0]} | ({"mean_v": self._mean_v[0]} if self._units else {})
        return self.c | means

    def transform(self, gradient: dict[str, Array]) -> None:
        """Eq. (2): from the gradient in (W, b) to that in (W, c), in place."""
        threads = self._model.threads()
        g_v, g_h = -gradient["b_v"][np.newaxis], -gradient["b_h"][np.newaxis]
        products = [("W_vx", g_v, self._mean_x), ("W_hx", g_h, self._mean_x)]
        if self._units:
            # [-db_v, mu_v] [mu_h, -db_h]', (nv, nh) = (nv, 2) (2, nh)
            products.append(("W_vh", np.concatenate((g_v, self._mean_v)), np.concatenate((self._mean_h, g_h))))
        for name, A, B in products:
            if name in self._trains:
                product(gradient[name], A, B, transpose_a=True, beta=1, n_threads=threads)

    def fold(self) -> None:
        """Eq. (1): the model's biases from c and its weights."""
        for name, c in self.c.items():
            np.subtract(c, self._shift(name), out=self._model.parameters()[name])

    def _shift(self, name: str) -> Array:
        """c - b."""
        model, threads = self._model, self._model.threads()
        shift: Array = np.empty(len(model.parameters()[name]), model.dtype)
        out = shift[np.newaxis]
        W_x = model.W_vx if name == "b_v" else model.W_hx
        product(out, self._mean_x, W_x, transpose_b=True, n_threads=threads)
        if self._units:
            mean, transposed = (self._mean_h, True) if name == "b_v" else (self._mean_v, False)
            product(out, mean, model.W_vh, transpose_b=transposed, beta=1, n_threads=threads)
        return shift
