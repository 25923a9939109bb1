"""Centred coordinates: training in which a change of a weight leaves the mean of what it adds alone.

    theta_v = c_v + W_vh  (h - mu_h) + W_vx (x - mu_x)          mu_x          mean of the training data
    theta_h = c_h + W_vh' (v - mu_v) + W_hx (x - mu_x)          mu_v, mu_h    that and 1/2; or 0, with centred features

is the model of Eq. 2 in other coordinates, (W, c) in place of (W, b):

    b_v = c_v - W_vh mu_h - W_vx mu_x          b_h = c_h - W_vh' mu_v - W_hx mu_x                          (1)

and by the chain rule an objective that has the gradient (dW, db) in (W, b) has in (W, c)

    dW_vh - db_v mu_h' - mu_v db_h'          dW_vx - db_v mu_x'          dW_hx - db_h mu_x'          dc = db        (2)

Optimizers often work better there: the problem is better conditioned ([1]), and what 0 and 1 mean no longer matters
([2]): a unit or feature whose states are swapped is learned alike.  Learners give (dW, db) and models keep
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
    mu_v, mu_x : (nv,) or None, (nx,)
        Means of outputs and features, in the model's dtype.  Without mu_v, outputs and hidden units stay as they are.
    trains : tuple of str
        The parameters that are learned; biases among them have a c.

    Attributes
    ----------
    c : dict
        c_v as "b_v" and c_h as "b_h", arrays to take steps on.  `fold` computes b from them, never the reverse, so that
        rounding does not add up over the steps.
    """

    def __init__(self, model: CRBM, mu_v: Array | None, mu_x: Array, trains: tuple[str, ...]) -> None:
        self._model, self._trains = model, trains
        self._mu_v = None if mu_v is None else mu_v[np.newaxis]
        self._mu_h = np.full((1, model.nh), 0.5, model.dtype)
        self._mu_x = mu_x[np.newaxis]
        with np.errstate(all="ignore"):  # training tells, with the batch
            self.c = {name: b + self._shift(name) for name, b in model.parameters().items() if self._shifts(name)}

    def transform(self, gradient: dict[str, Array]) -> None:
        """Eq. (2): from the gradient in (W, b) to that in (W, c), in place."""
        threads = self._model.threads()
        g_v, g_h = -gradient["b_v"][np.newaxis], -gradient["b_h"][np.newaxis]
        products = [("W_vx", g_v, self._mu_x), ("W_hx", g_h, self._mu_x)]
        if self._mu_v is not None:
            # [-db_v, mu_v] [mu_h, -db_h]', (nv, nh) = (nv, 2) (2, nh)
            products.append(("W_vh", np.concatenate((g_v, self._mu_v)), np.concatenate((self._mu_h, g_h))))
        for name, A, B in products:
            if name in self._trains:
                product(gradient[name], A, B, transpose_a=True, beta=1, n_threads=threads)

    def fold(self) -> None:
        """Eq. (1): the model's biases from c and its weights."""
        for name, c in self.c.items():
            np.subtract(c, self._shift(name), out=self._model.parameters()[name])

    def _shifts(self, name: str) -> bool:
        return name in ("b_v", "b_h") and name in self._trains

    def _shift(self, name: str) -> Array:
        """c - b."""
        model, threads = self._model, self._model.threads()
        shift: Array = np.empty(len(model.parameters()[name]), model.dtype)
        out = shift[np.newaxis]
        W_x = model.W_vx if name == "b_v" else model.W_hx
        product(out, self._mu_x, W_x, transpose_b=True, n_threads=threads)
        if self._mu_v is not None:
            mu, turned = (self._mu_h, True) if name == "b_v" else (self._mu_v, False)
            product(out, mu, model.W_vh, transpose_b=turned, beta=1, n_threads=threads)
        return shift
