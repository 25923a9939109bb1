"""Covariances of units by linear response: how the beliefs of a fixed point of BP answer to the biases.

The pairwise belief of an edge follows from the beliefs a = tau_v, b = tau_h of its ends, so the Bethe free energy is a
function F(a, b), and its fixed points are those of BP.  There dF/da = dF/db = 0, and the derivatives of the beliefs by
the biases, which in the true distribution are the covariances, are the inverse of the Hessian H of F ([1]).  With the
standard deviations s_i = sqrt(a_i (1 - a_i)), s_j = sqrt(b_j (1 - b_j)) and the correlation r_ij of the pairwise
belief, H is 1 / (s_i s_j) times

    [[diag(d_v), -K], [-K', diag(d_h)]]     K = r / (1 - r^2)     d_v = 1 + sum_j K r     d_h = 1 + sum_i K r

whose inverse, times s_i s_j, is the covariance.  Nothing is divided by a variance, so saturated units do no harm: their
row of K is 0.  Eliminating the larger side leaves a symmetric matrix of the size of the smaller one.

Derivation.  Let E = exp(W), al = E - 1, P = 1 + al (a - b), R = sqrt(P^2 + 4 (1 - a) al b), and rho = P(h = 1 | v = 0)
the root of (1 - a) al rho^2 + P rho - b = 0, so that the message h -> v is q = 1 + al rho and dF/da = logit a - b_v -
sum_j log q.  From the quadratic, drho/da = -al rho (1 - rho) / R and drho/db = q / R; hence d^2F/da db = -al / R and
d^2F/da^2 = 1 / s^2 + sum_j al^2 rho (1 - rho) / (q R).  The inverse of the 2x2 covariance of an edge's pairwise belief
has the same -al / R off its diagonal; this makes K = s_i s_j al / R and s_i^2 al^2 rho (1 - rho) / (q R) = K r.

Stability.  Flipping h turns W into -W and b into 1 - b, so let W > 0.  With e = exp(-W), c = 1 - e,

    R e = hypot(c (a - b), sqrt(e (e + 2 c (a (1 - b) + b (1 - a))))),      al / R = c / (R e)

has no difference but a - b and overflows nowhere; r = 2 K / (1 + sqrt(1 + 4 K^2)).  Two units that are practically
always equal have K without bound, where H loses as many digits as K has: K is limited to 1e8, which moves covariances
by about 1e-8 of themselves, as the rounding of H does there.

References
----------
[1] Welling & Teh, "Linear Response for Approximate Inference", NIPS 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.special import expit

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._blas import single_thread
from crbm_fast._errors import ArgumentError, ArgumentTypeError
from crbm_fast.inference.beliefs import Beliefs
from crbm_fast.inference.engine import ConvergenceWarning, Engine
from crbm_fast.inference.evidence import clamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

# Of K = r / (1 - r^2), see above.
_MAX_COUPLING = 1e8
# The largest smaller side that is inverted as a matrix (135 MB); larger ones are left to an iteration.
_MAX_DENSE = 4096
# Entries of W that are worked on at a time.
_BLOCK = 1 << 18


@dataclass(slots=True, eq=False)
class Covariances:
    """Covariances of chosen units with all units, in float64.  One RBM; a batch has a further axis N in front.

    `k` and `m` are the shapes of the chosen visible and hidden units: numbers, or nothing for a single unit.

    Attributes
    ----------
    v_v : (k, nv)
        Cov(v_i, v_l) for the chosen visible units i.
    v_h : (k, nh)
        Cov(v_i, h_j) for the chosen visible units i.
    h_v : (m, nv)
        Cov(h_j, v_i) for the chosen hidden units j.
    h_h : (m, nh)
        Cov(h_j, h_l) for the chosen hidden units j.
    residual : float or (N,) float64
        How far the beliefs are from a fixed point: the largest difference between a belief and the one that its
        neighbours call for, beyond what the rounding of the beliefs explains, which is much where |W| is above about
        60, or 25 in float32.
    converged : bool or (N,) bool
        Whether `residual <= tol`.
    minimum : bool or (N,) bool
        Whether the Bethe free energy has a minimum there, so that all covariances together are positive definite.  If
        it has not, the fixed point is a saddle, and these are the covariances of no distribution.
    """

    v_v: NDArray[np.float64]
    v_h: NDArray[np.float64]
    h_v: NDArray[np.float64]
    h_h: NDArray[np.float64]
    residual: Any
    converged: Any
    minimum: Any


def covariance(
    W: ArrayLike,
    b_v: ArrayLike,
    b_h: ArrayLike,
    *,
    visible: Any = slice(None),
    hidden: Any = (),
    beliefs: Beliefs | None = None,
    consistent: bool = False,
    tol: float = 1e-3,
    evidence: tuple[ArrayLike, ArrayLike] | None = None,
    n_threads: int | None = None,
) -> Covariances:
    """Covariances of units under p(v, h) by linear response at a fixed point of BP, also of units that share no edge.

    They are the derivatives of the beliefs by the biases, d tau_i / d b_l ([1]_): exact where BP is exact, which it is
    on trees, and elsewhere as near to the truth as the response of BP to small changes.  All is computed in float64.

    Parameters
    ----------
    W, b_v, b_h, evidence, n_threads
        As for `infer`.  Clamped units, and others whose belief is 0 or 1, have covariance 0.
    visible, hidden : int, slice, or array-like of int or bool
        The units whose covariances with all units are wanted: anything that is an index of an axis of nv, or nh, units.
        By default all visible ones and no hidden one.
    beliefs : Beliefs, optional
        A fixed point, of sum-product BP and of these arguments.  By default it is computed, by plain BP or where that
        does not converge by descent on the Bethe free energy.  How far beliefs are from a fixed point is told in
        `residual`; elsewhere the result is the inverse of the same Hessian and no derivative.
    consistent : bool
        Linear response does not give exactly tau (1 - tau) as the variance of a unit, except on trees; the difference
        tells how much loops matter.  True keeps its correlations and takes the variances tau (1 - tau) of the beliefs.
        With weights N(0, 0.1) to N(0, 1) on 30x10 units, where BP converges, covariances of different units are nearer
        to the truth by a fifth to a third; with stronger weights no gain was seen.
    tol : float
        The residual up to which beliefs are taken for a fixed point.

    Returns
    -------
    Covariances

    Warns
    -----
    ConvergenceWarning
        When one RBM was asked for and the beliefs are no fixed point, or one that is no minimum of the Bethe free
        energy.  A batch tells by `converged` and `minimum`.

    Notes
    -----
    With up to 4096 units on the smaller side an instance takes O(nv nh min(nv, nh)) and two matrices like W; with more,
    O(nv nh) per chosen unit and iteration of MINRES.

    References
    ----------
    .. [1] Welling & Teh, "Linear Response for Approximate Inference", NIPS 2003.

    Examples
    --------
    Two visible units that share a hidden one:

    >>> import crbm_fast as cf
    >>> cov = cf.covariance([[2.0], [-1.0]], b_v=[0.0, 0.0], b_h=[0.5], hidden=0)
    >>> cov.v_v.round(4)
    array([[ 0.1512, -0.0127],
           [-0.0127,  0.2136]])
    >>> cov.h_v.round(4)
    array([ 0.0549, -0.0333])
    """
    consistent = check.check_flag("consistent", consistent)
    tol = check.check_real("tol", tol, 0, np.inf)
    engine = Engine(W, dtype=np.float64, n_threads=n_threads)
    nv, nh = engine.shape
    b1, b2, single = check.check_biases(b_v, b_h, (nv, nh), engine.dtype)
    chosen = _chosen("visible", visible, nv), _chosen("hidden", hidden, nh)
    if consistent and min(nv, nh) > _MAX_DENSE:
        problem = f"needs the variances of all units; W has {min(nv, nh)} units on its smaller side"
        raise ArgumentError("consistent", problem, f"expected at most {_MAX_DENSE}", True)
    if beliefs is None:
        found = engine.run(b1, b2, evidence=evidence, max_iter=500, tol=1e-10)
        tau_v, tau_h = found.tau_v, found.tau_h
    else:
        tau_v, tau_h = _checked_beliefs(beliefs, b1, b2, single)
    rounding = float(np.finfo(tau_v.dtype).eps)
    tau_v, tau_h = tau_v.astype(np.float64), tau_h.astype(np.float64)
    if evidence is not None:
        b1 = clamp(evidence, b1, single)[0]
    N = len(b1)
    names = (("v_v", "v_h"), ("h_v", "h_h"))
    blocks = {
        name: np.empty((N, *units.shape, n))
        for row, units in zip(names, chosen, strict=True)
        for name, n in zip(row, (nv, nh), strict=True)
    }
    residual, minimum = np.empty(N), np.empty(N, np.bool_)
    for n in range(N):
        hessian = _Hessian(engine, b1[n], b2[n], tau_v[n], tau_h[n], rounding)
        residual[n], minimum[n] = hessian.residual, hessian.minimum
        scales = hessian.scales(consistent)
        for side, units in enumerate(chosen):
            numbers = units.ravel()
            rows = scales[side][numbers, np.newaxis]
            for name, part, scale in zip(names[side], hessian.inverse_rows(numbers, side), scales, strict=True):
                blocks[name][n] = (rows * part * scale).reshape(blocks[name].shape[1:])
    converged = residual <= tol
    if not single:
        return Covariances(**blocks, residual=residual, converged=converged, minimum=minimum)
    _warn_of(residual[0], bool(minimum[0]), tol)
    told: dict[str, Any] = {
        "residual": float(residual[0]),
        "converged": bool(converged[0]),
        "minimum": bool(minimum[0]),
    }
    return Covariances(**{name: block[0] for name, block in blocks.items()}, **told)


def _warn_of(residual: float, minimum: bool, tol: float) -> None:
    """Warn if beliefs are no fixed point, or a saddle."""
    if residual > tol:
        said = f"the beliefs are no fixed point of BP: residual {residual:.1e} > tol={tol:g}"
        check.warn(f"{said}; infer with a smaller tol, more iterations or damping", ConvergenceWarning)
    elif not minimum:
        said = "the fixed point is a saddle of the Bethe free energy, where linear response gives no covariances"
        check.warn(f"{said}; infer from another init", ConvergenceWarning)


def _chosen(name: str, index: Any, n: int) -> NDArray[np.intp]:
    """The numbers of the units that an index of an axis of n units selects, in its shape."""
    empty = not isinstance(index, slice) and np.size(index) == 0
    try:
        return np.asarray(np.arange(n, dtype=np.intp)[np.zeros(0, np.intp) if empty else np.asarray(index)[()]])
    except (IndexError, TypeError) as error:
        raise ArgumentError(name, f"is no index of {n} units: {error}", value=index) from error


def _checked_beliefs(beliefs: Any, b1: Array, b2: Array, single: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """tau_v (N, nv) and tau_h (N, nh) of the user's beliefs, in the precision they came in."""
    if not isinstance(beliefs, Beliefs):
        raise ArgumentTypeError("beliefs", f"is {type(beliefs).__name__}", "expected Beliefs, such as infer returns")
    found = []
    for name, biases in (("tau_v", b1), ("tau_h", b2)):
        given = check.as_numeric(f"beliefs.{name}", getattr(beliefs, name))
        tau = check.as_float(f"beliefs.{name}", given, check.check_dtype(None, given), once=True)
        wanted = biases.shape[1:] if single else biases.shape
        if tau.shape != wanted:
            raise ArgumentError(f"beliefs.{name}", f"has shape {tau.shape}", f"expected {wanted}")
        if ((tau < 0) | (tau > 1)).any():
            raise ArgumentError(f"beliefs.{name}", "has values outside [0, 1]")
        found.append(tau.reshape(biases.shape))
    return found[0], found[1]


class _Edges:
    """The edges between visible units with beliefs a and hidden ones with beliefs b, seen as if W > 0.

    Where W < 0 this flips h; `e` is exp(-|W|), `c` is 1 - e; `P` and `R` are P e and R e of the module's description.
    """

    def __init__(self, W: Array, a: Array, b: Array) -> None:
        self.W, self.positive, self.size = W, W > 0, np.abs(W)
        self.e, self.c = np.exp(-self.size), -np.expm1(-self.size)
        self.a, self.a_is_0 = a[:, np.newaxis], 1 - a[:, np.newaxis]
        self.b, self.b_is_0 = np.where(self.positive, b, 1 - b), np.where(self.positive, 1 - b, b)
        P = self.c * (self.a - self.b)
        unequal = self.a * self.b_is_0 + self.a_is_0 * self.b  # P(v != h) without the edge
        self.R = np.hypot(P, np.sqrt(self.e) * np.sqrt(self.e + 2 * self.c * unequal))
        self.P = P + self.e

    def couplings(self) -> Array:
        """|K|, at most 1e17."""
        top = np.sqrt(self.a * self.a_is_0 * self.b * self.b_is_0) * self.c
        K = np.zeros_like(self.W)
        np.divide(top, np.maximum(self.R, 1e-17 * top), out=K, where=top > 0)
        return K

    def log_messages(self) -> Array:
        """log q = log(1 + al rho), of the messages h -> v."""
        rising = self.P > 0
        growth = np.zeros_like(self.W)
        with np.errstate(over="ignore"):  # exp(|W|), where exp(-|W|) is nearly 0
            np.divide(2 * self.b * self.c, self.P + self.R, out=growth, where=rising)
        # Elsewhere a < b, or a = b and exp(-|W|) = 0, where q is anything between 1 and exp(|W|).
        share = np.full_like(self.W, 0.5)
        np.divide(self.R - self.P, 2 * self.a_is_0, out=share, where=~rising & (self.R > self.P))
        log_q = np.where(rising, np.minimum(np.log1p(growth), self.size), self.size + np.log(self.e + share))
        return np.where(self.positive, log_q, log_q + self.W)


class _Hessian:
    """The scaled Hessian of the Bethe free energy at the beliefs of one RBM, ready to solve with."""

    def __init__(self, engine: Engine, b1: Array, b2: Array, a: Array, b: Array, rounding: float) -> None:
        W, (nv, nh) = engine.W, engine.shape
        K = np.empty((nv, nh))
        sums_v, fields_v, slopes_v = np.zeros(nv), b1.copy(), np.zeros(nv)
        sums_h, fields_h, slopes_h = np.zeros(nh), b2.copy(), np.zeros(nh)
        rows = max(1, _BLOCK // max(1, nh))
        for at in (slice(i, i + rows) for i in range(0, nv, rows)):
            edges = _Edges(W[at], a[at], b)
            size = edges.couplings()
            slopes_v[at] += size.sum(axis=1)
            slopes_h += size.sum(axis=0)
            np.minimum(size, _MAX_COUPLING, out=size)
            K[at] = np.copysign(size, W[at])
            K_r = 2 * size**2 / (1 + np.hypot(1, 2 * size))
            sums_v[at] += K_r.sum(axis=1)
            sums_h += K_r.sum(axis=0)
            fields_v[at] += edges.log_messages().sum(axis=1)
            # The messages v -> h are those of h -> v with the sides exchanged.
            fields_h += _Edges(W[at].T, b, a[at]).log_messages().sum(axis=1)
        self._a, self._b = a, b
        self._d_v, self._d_h = 1 + sums_v, 1 + sums_h
        self.residual = 0.0
        for tau, field, slope in ((a, fields_v, slopes_v), (b, fields_h, slopes_h)):
            # The derivative of expit(field) by beliefs is about the sum of |K|; beliefs carry the rounding of fields.
            off = np.abs(expit(field) - tau) - 8 * rounding * (1 + np.abs(W).max(initial=0)) * (1 + slope)
            self.residual = max(self.residual, float(off.max(initial=0)))
        self._h_small = nh <= nv
        # The sides by size: eliminating the larger one leaves a matrix of the smaller one's size.
        self._K = K if self._h_small else np.ascontiguousarray(K.T)
        self._n_threads = engine.n_threads
        self._large, self._small = (self._d_v, self._d_h) if self._h_small else (self._d_h, self._d_v)
        if len(self._small) <= _MAX_DENSE:
            schur = np.diag(self._small)
            # schur = D_S - K' D_L^-1 K
            # (S, S) = (S, S) - (S, L) (L, S)
            self._subtract(schur, self._K, self._K / self._large[:, np.newaxis], transpose=True)
            self._solve, self.minimum = _dense_solver(schur)
        else:
            self._solve, self.minimum = _iterative_solver(self._K, self._large, self._small)

    def _subtract(self, out: Array, A: Array, B: Array, *, transpose: bool = False) -> None:
        """Subtract A B, or A' B, from out."""
        np.negative(out, out=out)
        _algebra.product(out, A, B, transpose_a=transpose, beta=1, n_threads=self._n_threads)
        np.negative(out, out=out)

    def scales(self, consistent: bool) -> tuple[Array, Array]:
        """What the rows and columns of the inverse are multiplied with: standard deviations of the units."""
        s_v, s_h = (np.sqrt(tau * (1 - tau)) for tau in (self._a, self._b))
        if not consistent:
            return s_v, s_h
        inverse = self._solve(np.eye(len(self._small)))
        T = self._K / self._large[:, np.newaxis]
        small = np.diagonal(inverse)
        large = 1 / self._large + np.einsum("ij,ij->i", T @ inverse, T)
        own_v, own_h = (large, small) if self._h_small else (small, large)
        # At a saddle, where they are no variances, they may be negative.
        own_v, own_h = (np.maximum(np.abs(own), np.finfo(np.float64).eps) for own in (own_v, own_h))
        return s_v / np.sqrt(own_v), s_h / np.sqrt(own_h)

    def inverse_rows(self, units: NDArray[np.intp], side: int) -> tuple[Array, Array]:
        """Rows of the inverse for chosen visible (side 0) or hidden (side 1) units: their columns v and h."""
        m = len(units)
        large, small = np.zeros((len(self._large), m)), np.zeros((len(self._small), m))
        (large if (side == 0) == self._h_small else small)[units, np.arange(m)] = 1
        # D_L x - K y = r_L, D_S y - K' x = r_S
        # (S, m) = (S, L) (L, m), (L, m) = (L, S) (S, m)
        _algebra.product(
            small, self._K, large / self._large[:, np.newaxis], transpose_a=True, beta=1, n_threads=self._n_threads
        )
        y = np.ascontiguousarray(self._solve(small))
        _algebra.product(large, self._K, y, beta=1, n_threads=self._n_threads)
        x = large / self._large[:, np.newaxis]
        return (x.T, y.T) if self._h_small else (y.T, x.T)


def _dense_solver(schur: Array) -> tuple[Callable[[Array], Array], bool]:
    """A function that solves with the symmetric matrix schur, and whether that is positive definite."""
    with single_thread():  # LAPACK's threads wait for each other, for long where another process has a core
        try:
            factor = cho_factor(schur)
        except LinAlgError:
            values, vectors = eigh(schur)
        else:
            return partial(_cho_solve, factor), True
    # A critical point has an eigenvalue of 0 and responses without bound.
    least = np.finfo(np.float64).eps * np.abs(values).max()
    values = np.where(np.abs(values) < least, least, values)
    return lambda right: vectors @ ((vectors.T @ right) / values[:, np.newaxis]), False


def _cho_solve(factor: Any, right: Array) -> Array:
    with single_thread():
        solution: Array = cho_solve(factor, right)
    return solution


def _iterative_solver(K: Array, large: Array, small: Array) -> tuple[Callable[[Array], Array], bool]:
    """The same for D_S - K' D_L^-1 K without that matrix, scaled to a diagonal near 1; MINRES needs no definiteness."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, minres  # takes 20 ms, seldom needed

    root = np.sqrt(small)
    n = len(root)

    def product(y: Array) -> Array:
        y = y.ravel() / root
        result: Array = root * y - K.T @ ((K @ y) / large) / root
        return result

    schur = LinearOperator((n, n), product, dtype=np.float64)

    def solve(right: Array) -> Array:
        columns = np.empty(right.shape[::-1])
        for column, b in zip(columns, right.T, strict=True):
            y, stopped = minres(schur, b / root, rtol=1e-10, maxiter=20 * n)
            column[:] = y / root
            if stopped:
                check.warn(f"MINRES stopped after {stopped} iterations; the model is near-singular", ConvergenceWarning)
        return columns.T

    try:
        first = np.random.default_rng(0).normal(size=n)
        least = eigsh(schur, k=1, which="SA", v0=first, tol=1e-3, return_eigenvectors=False)[0]
    except ArpackNoConvergence:
        least = -1.0
    return solve, bool(least > 0)
