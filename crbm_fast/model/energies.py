"""Energies, conditional probabilities and likelihoods of a model, Eqs. 2 to 4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Matrix, chunks
from crbm_fast.annealing import ais
from crbm_fast.inference import METHODS
from crbm_fast.model.parameters import Parameters, check_fields

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def free_energy(v: NDArray[Any], b1: NDArray[Any], theta_h: NDArray[Any]) -> NDArray[np.float64]:
    """F(v) of Eq. 4, (N,), from the states (N, nv), b1 and the fields theta_h = b2 + v W_vh (N, nh).  Unchecked."""
    linear: NDArray[np.float64] = (v * b1).sum(axis=1, dtype=np.float64)
    return -linear - _algebra.softplus_sums(theta_h)


def check_keywords(given: dict[str, Any], known: tuple[str, ...]) -> None:
    """Raise TypeError for a keyword that is not among the known ones."""
    for name in given:
        if name not in known:
            raise TypeError(f"unknown keyword {name!r}; expected one of: {', '.join(known)}")


class Energies(Parameters):
    """What a model says about given states of its units."""

    def biases(self, X: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Biases of the RBM given x, Section 5: b1 = b_v + W_vx x (N, nv) and b2 = b_h + W_hx x (N, nh).

        Each is one product.  Without features (nx = 0, X None) there is one pair (1, nv), (1, nh) that all instances
        share.
        """
        features = self.check_features(X)
        return self.checked_biases(features, slice(0, 1 if features is None else len(features)))

    def energy(self, V: ArrayLike, H: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        """E(v, h, x) of Eq. 2 for every instance, (N,)."""
        v, h = self.check_units("V", V), self.check_units("H", H)
        v.check_states()
        h.check_states()
        features = self.check_features(X, len(v))
        if len(h) != len(v):
            raise ValueError(f"V has {len(v)} instances and H has {len(h)}; expected the same number")
        E = np.empty(len(v))
        for at, states, b1, b2 in self._chunks(v, features):
            h_ = np.asarray(h.rows(at))
            theta_v = check_fields(self.fields_v(h_, b1), "b1 + W_vh h")
            E[at] = -(states * theta_v).sum(axis=1, dtype=np.float64) - (h_ * b2).sum(axis=1, dtype=np.float64)
        return E

    def free_energy(self, V: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        """F(v, x) = -log sum_h exp(-E(v, h, x)), Eq. 4, for every instance, (N,)."""
        v = self.check_units("V", V)
        v.check_states()
        F = np.empty(len(v))
        for at, states, b1, b2 in self._chunks(v, self.check_features(X, len(v))):
            F[at] = free_energy(states, b1, check_fields(self.fields_h(states, b2), "b2 + v W_vh"))
        return F

    def conditional_h(self, V: ArrayLike, X: Any = None) -> NDArray[Any]:
        """P(h_j = 1 | v, x), Eq. 3, (N, nh).  V may hold probabilities in place of states."""
        v = self.check_units("V", V)
        v.check_probabilities()
        out = np.empty((len(v), self.nh), self.dtype)
        for at, values, _, b2 in self._chunks(v, self.check_features(X, len(v))):
            _algebra.logistic(check_fields(self.fields_h(values, b2, out[at]), "b2 + v W_vh"))
        return out

    def conditional_v(self, H: ArrayLike, X: Any = None) -> NDArray[Any]:
        """P(v_i = 1 | h, x), Eq. 3, (N, nv).  H may hold probabilities in place of states."""
        h = self.check_units("H", H)
        h.check_probabilities()
        out = np.empty((len(h), self.nv), self.dtype)
        for at, values, b1, _ in self._chunks(h, self.check_features(X, len(h))):
            _algebra.logistic(check_fields(self.fields_v(values, b1, out[at]), "b1 + W_vh h"))
        return out

    def _chunks(
        self, units: Matrix, features: Matrix | None
    ) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Slices that cover all instances, with the units' values, b1 and b2 of each."""
        for at in units.chunks():
            yield at, np.asarray(units.rows(at)), *self.checked_biases(features, at)

    def log_partition(self, X: Any = None, *, method: str = "bethe", **options: Any) -> NDArray[np.float64]:
        """log Z(x) for every instance, (N,); one number for a model without features.

        Parameters
        ----------
        X : (N, nx) array-like or CSR matrix
        method : {"exact", "bethe", "bethe-descent", "mean-field", "tap", "ais"}
            Enumeration; the Bethe estimate at what sum-product BP ends with, converged or not, and at a minimum of the
            Bethe free energy; mean field (a lower bound); TAP; annealed importance sampling.
        **options
            Those of `infer` (`max_iter`, `tol`, `damping`; by default 200 iterations to 1e-6) or of `ais`
            (`n_chains`, `n_betas`, `seed`), which also gives error bars when called directly.
        """
        by_log_z = {row.log_z: row.name for row in METHODS.values() if row.log_z is not None}
        check.check_choice("method", method, (*by_log_z, "ais"))
        if method in by_log_z:
            check_keywords(options, ("max_iter", "tol", "damping"))
            options = {"max_iter": 200, "tol": 1e-6} | options
        features = self.check_features(X)
        out = np.empty(1 if features is None else len(features))
        engine = self.engine()
        for at in chunks(len(out)):
            b1, b2 = self.checked_biases(features, at)
            if method in by_log_z:
                out[at] = engine.run(b1, b2, method=by_log_z[method], log_z=True, fallback=None, **options).log_z
            else:
                out[at] = ais(self.W_vh, b1, b2, first_instance=at.start, n_threads=engine.n_threads, **options).log_z
        return out

    def log_likelihood(
        self, V: ArrayLike, X: Any = None, *, method: str = "bethe", **options: Any
    ) -> NDArray[np.float64]:
        """log p(v | x) = -F(v, x) - log Z(x) for every instance, (N,); the keywords are those of `log_partition`.

        -F is exact (Eq. 4); log Z is the method's estimate.  Mean field's log Z is too small, so its log-likelihood is
        too large.
        """
        return -self.free_energy(V, X) - self.log_partition(X, method=method, **options)
