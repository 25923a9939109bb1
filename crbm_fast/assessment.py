"""How far to trust an answer: methods, starts and bounds against each other, and a verdict by stated rules.

References
----------
[1] Ruozzi, "The Bethe partition function of log-supermodular graphical models", NIPS 2012.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._errors import ArgumentError
from crbm_fast.annealing import ais
from crbm_fast.inference import Beliefs, Covariances, Engine, covariance, independent_draws

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

_METHODS = ("sum-product", "bethe", "mean-field", "tap")

# A model with as many units on its smaller side is enumerated, in about a second per instance.
_MAX_ENUMERATED = 20

# The rules of the verdict, in the docstring of `assess`.
_APART = 0.01  # of fixed points
_MARGINALS = 0.01  # mean error of tau_v, or of the variances that stands in for it
_NATS = 0.1
_STD_ERRORS = 3
_MAX_STD_ERROR = 0.3  # about ten of the chains carry the estimate; a single one would make it 1
_SATURATED, _SATURATED_SHARE = 1e-3, 0.99


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assessment:
    """How far to trust the answers for M instances; printed, a table and a verdict in words.

    Rules and thresholds are those of `assess`.  Dictionaries have a key per method: "sum-product", "bethe",
    "mean-field", "tap"; "exact" where the model can be enumerated; `log_z` also has "ais".

    Attributes
    ----------
    instances : (M,) int
        The rows that were assessed.
    n_instances : int
        The rows that were given.
    log_z : dict of str to (M,)
        Estimates of log Z.  That of mean field is a lower bound.
    std_error : (M,)
        The standard error of AIS.
    tau_v : dict of str to (M, nv)
        P(v_i = 1).
    converged : dict of str to (M,) bool
        Whether the method reached `tol`.
    residual : dict of str to (M,)
        The largest change of a belief in the last iteration.
    balanced : bool
        Whether flipping units makes W non-negative, so that Bethe's log Z is a lower bound.
    tree : bool
        Whether the non-zero weights make no cycle, so that Bethe is exact.
    n_starts : int
        The random starts of each instance.
    starts_converged : (M,) int
        How many of them converged.
    fixed_points : (M,) int
        How many different minima of the Bethe free energy they, plain BP and descent have led to; what has not
        converged does not count.
    distance : (M,)
        The largest difference of a tau_v between two of them; 0 for one.
    minimum : (M,) bool
        Whether the answer is at a minimum of the Bethe free energy, not at a saddle.
    inconsistency : (M,)
        The mean difference between the variances of the v_i by linear response (`covariance`) and tau_v (1 - tau_v).
    saturated : (M,)
        The share of tau_v within 0.001 of 0 or 1.
    reference_holds : (M,) bool
        Whether the reference, enumeration or AIS, is good enough to judge log Z by.
    marginals_trusted, log_z_trusted : (M,) bool
        The verdict.
    """

    instances: NDArray[np.intp]
    n_instances: int
    log_z: dict[str, NDArray[np.float64]]
    std_error: NDArray[np.float64]
    tau_v: dict[str, NDArray[Any]]
    converged: dict[str, NDArray[np.bool_]]
    residual: dict[str, NDArray[np.float64]]
    balanced: bool
    tree: bool
    n_starts: int
    starts_converged: NDArray[np.intp]
    fixed_points: NDArray[np.intp]
    distance: NDArray[np.float64]
    minimum: NDArray[np.bool_]
    inconsistency: NDArray[np.float64]
    saturated: NDArray[np.float64]

    @property
    def reference(self) -> str:
        """The method that log Z is judged by: "exact", or "ais" where enumeration is not possible."""
        return "exact" if "exact" in self.log_z else "ais"

    @property
    def log_z_error(self) -> NDArray[np.float64]:
        """Bethe's log Z minus that of the reference, (M,)."""
        return self._answer(self.log_z) - self.log_z[self.reference]

    @property
    def reference_holds(self) -> NDArray[np.bool_]:
        if self.reference == "exact":
            return np.ones(len(self.instances), np.bool_)
        holds: NDArray[np.bool_] = (self.std_error <= _MAX_STD_ERROR) & ~self._missed_mode()
        return holds

    @property
    def marginals_trusted(self) -> NDArray[np.bool_]:
        trusted: NDArray[np.bool_] = self._answer(self.converged)
        if self.tree:
            return trusted
        if self.reference == "exact":
            return trusted & (self._apart(self._answer(self.tau_v), self.tau_v["exact"])[0] <= _MARGINALS)
        complete = self.reference_holds & (self.log_z_error >= -self._tolerance())
        return trusted & self.minimum & self._one_fixed_point() & complete & (self.inconsistency <= _MARGINALS)

    @property
    def log_z_trusted(self) -> NDArray[np.bool_]:
        if self.tree:
            return self._answer(self.converged)
        trusted: NDArray[np.bool_] = self.reference_holds & self._log_z_agrees()
        return trusted if self.reference == "exact" else trusted & self._one_fixed_point()

    def difference(self, first: str, second: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean and the largest difference of tau_v between two methods, each (M,)."""
        for name, method in (("first", first), ("second", second)):
            check.check_choice(name, method, tuple(self.tau_v))
        return self._apart(self.tau_v[first], self.tau_v[second])

    @staticmethod
    def _apart(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        apart = np.abs(x - y.astype(np.float64))
        return apart.mean(axis=1), apart.max(axis=1)

    def _answer(self, by_method: dict[str, NDArray[Any]]) -> NDArray[Any]:
        return bethe_answer(by_method, self.converged["sum-product"])

    def _one_fixed_point(self) -> NDArray[np.bool_]:
        one: NDArray[np.bool_] = (self.fixed_points == 1) & (2 * self.starts_converged >= self.n_starts)
        return one

    def _tolerance(self) -> NDArray[np.float64]:
        """The difference from the reference at which log Z is still said to agree, (M,)."""
        errors = np.zeros_like(self.std_error) if self.reference == "exact" else self.std_error
        return np.maximum(_NATS, _STD_ERRORS * errors)

    def _log_z_agrees(self) -> NDArray[np.bool_]:
        return np.abs(self.log_z_error) <= self._tolerance()

    def _missed_mode(self) -> NDArray[np.bool_]:
        """Where AIS is below a lower bound of log Z."""
        bound = self.log_z["mean-field"]
        if self.balanced:
            bound = np.maximum(bound, self.log_z["bethe"])
        missed: NDArray[np.bool_] = self.log_z["ais"] < bound - np.maximum(_STD_ERRORS * self.std_error, _NATS)
        return missed

    @property
    def verdict(self) -> list[str]:
        """A sentence for each finding; the last says what to trust."""
        found = [
            _say(self.converged["sum-product"], "Plain BP converges", "Plain BP does not converge"),
            _say(
                self.converged["bethe"],
                "Descent on the Bethe free energy converges",
                "Descent on the Bethe free energy does not converge",
            ),
            self._about_bound(),
            self._about_fixed_points(),
            self._about_log_z(),
            self._about_marginals(),
        ]
        sharp = self.saturated >= _SATURATED_SHARE
        if sharp.any():
            share = f"{_SATURATED_SHARE:.0%}"
            found.append(_say(sharp, f"{share} of the beliefs tau_v are near 0 or 1, practically one state,"))
        found.append(_say(self.marginals_trusted, "Trust the marginals", "Do not trust the marginals"))
        found.append(_say(self.log_z_trusted, "Trust log Z", "Do not trust log Z"))
        return found

    def _about_bound(self) -> str:
        if self.tree:
            return "Bethe is exact: the weights make no cycle."
        if self.balanced:
            return "Bethe's log Z is a proven lower bound: the signs of W are balanced."
        return "Bethe's log Z is no bound: the signs of W are frustrated."

    def _about_fixed_points(self) -> str:
        most, starts = int(self.fixed_points.max()), f"from {self.n_starts} starts"
        found = f"is found {starts}"
        apart = f"with tau_v up to {self.distance.max():.2g} apart"
        if most == 0:
            said = _say(self.fixed_points == 0, f"No fixed point {found}")
        elif most == 1:
            said = _say(self.fixed_points == 1, f"One fixed point {found}")
        elif len(self.fixed_points) == 1:
            said = f"{most} fixed points are found {starts}, {apart}."
        else:
            said = _say(self.fixed_points > 1, f"More than one fixed point {found}")
            said = f"{said} At most {most}, {apart}."
        least = int(self.starts_converged.min())
        return said if least == self.n_starts else f"{said} As few as {least} of the starts converge."

    def _about_log_z(self) -> str:
        name = {"exact": "enumeration", "ais": "AIS"}[self.reference]
        missed = self._missed_mode()
        if self.reference == "ais" and missed.any():
            return _say(missed, "AIS cannot judge log Z, as it is below a lower bound: its chains have missed a mode")
        if not self.reference_holds.all():
            large = f"AIS cannot judge log Z, as its standard error is up to {self.std_error.max():.2g},"
            return _say(~self.reference_holds, large)
        agrees = _say(self._log_z_agrees(), f"Bethe's log Z agrees with {name}", f"Bethe's log Z disagrees with {name}")
        return f"{agrees} The largest difference is {np.abs(self.log_z_error).max():.2g}."

    def _about_marginals(self) -> str:
        if self.reference == "exact":
            mean, most = self._apart(self._answer(self.tau_v), self.tau_v["exact"])
            return f"Bethe's tau_v differ from the truth by {mean.max():.4f} in the mean and {most.max():.4f} at most."
        small = _say(
            self.inconsistency <= _MARGINALS, "Cycles change marginals little", "Cycles may change marginals much"
        )
        return f"{small} Variances by linear response are off by up to {self.inconsistency.max():.4f} in the mean."

    def __repr__(self) -> str:
        return f"Assessment({len(self.instances)} of {self.n_instances} instances)"

    def __str__(self) -> str:
        nearest = "exact" if self.reference == "exact" else "bethe"
        name = {"exact": "exact", "ais": "AIS"}[self.reference]
        rows = [("method", "log Z", f"- {name}", "tau_v mean", f"max from {nearest}", "converged", "residual")]
        for method in self.tau_v:
            mean, most = self.difference(method, nearest)
            off = self.log_z[method] - self.log_z[self.reference]
            own = method == nearest
            rows.append(
                (
                    method,
                    f"{self.log_z[method].mean():.3f}",
                    "" if method == self.reference else f"{off.mean():+.3f}",
                    "" if own else f"{mean.mean():.4f}",
                    "" if own else f"{most.max():.4f}",
                    f"{self.converged[method].sum()} of {len(self.instances)}",
                    f"{self.residual[method].max():.1e}",
                )
            )
        rows.append(("AIS", f"{self.log_z['ais'].mean():.3f}", f"+-{self.std_error.max():.3f}", "", "", "", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(w) if at == 0 else cell.rjust(w)
                for at, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        head = [] if len(self.instances) == 1 else [f"{len(self.instances)} of {self.n_instances} instances"]
        said = [textwrap.fill(line, 100, initial_indent="* ", subsequent_indent="  ") for line in self.verdict]
        return "\n".join([*head, *(line.rstrip() for line in lines), "", *said])

    def plot(self) -> Any:
        """The marginals tau_v of every method against those of every other: a matplotlib Figure (extra `plots`).

        A dot is a visible unit of an instance; on the diagonal, the two methods agree.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError('plot needs matplotlib: pip install "crbm_fast[plots]"') from error
        names = list(self.tau_v)
        side = len(names) - 1
        fig = Figure(figsize=(2.2 * side + 0.6, 2.2 * side + 0.6), layout="constrained")
        axes: Any = fig.subplots(side, side, sharex=True, sharey=True, squeeze=False)
        size = np.clip(4000 / self.tau_v[names[0]].size, 2, 20)
        for row, column in np.ndindex(side, side):
            ax = axes[row, column]
            if column > row:
                ax.set_visible(False)
                continue
            x, y = names[column], names[row + 1]
            ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, zorder=0)
            ax.scatter(self.tau_v[x], self.tau_v[y], s=size, alpha=0.5, linewidths=0)
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            if row == side - 1:
                ax.set_xlabel(f"tau_v, {x}")
            if column == 0:
                ax.set_ylabel(f"tau_v, {y}")
        return fig


def _say(flags: NDArray[np.bool_], yes: str, no: str = "") -> str:
    """A sentence that says on how many instances it is so: `yes`, or `no` where there is none."""
    n, count = len(flags), int(flags.sum())
    if n == 1:
        return (yes if count else no).rstrip(",") + "."
    if count == 0:
        return f"{no} on any of {n} instances." if " not " in no else f"{no} on all {n} instances."
    return f"{yes} on {f'all {n}' if count == n else f'{count} of {n}'} instances."


def assess(
    W: ArrayLike,
    b_v: ArrayLike,
    b_h: ArrayLike,
    *,
    n_instances: int = 10,
    n_starts: int = 20,
    max_iter: int = 1000,
    tol: float = 1e-5,
    n_chains: int = 100,
    n_betas: int = 1000,
    seed: int = 0,
    dtype: DTypeLike | None = None,
    n_threads: int | None = None,
) -> Assessment:
    """How far to trust inference on an RBM, or on a batch of RBMs that share W.

    Computes log Z and marginals by plain BP, by descent on the Bethe free energy, mean field, TAP and, up to 20 units
    on the smaller side, enumeration; log Z by annealed importance sampling; and looks for further fixed points from
    random starts.  Of a batch, `n_instances` are drawn for all this.  Bethe's answer is that of plain BP where it
    converges, and that of descent elsewhere.

    The verdict follows from these rules:

    - Bethe is exact if the non-zero weights make no cycle.  Its log Z is a lower bound if flipping units (v to 1 - v)
      makes W non-negative ([1]_), that is if every cycle has an even number of negative weights.
    - Fixed points are minima of the Bethe free energy; two are different if a belief differs by more than 0.01.
    - The reference for log Z is enumeration, else AIS.  AIS cannot judge where its standard error is above 0.3, or
      where it is lower than a lower bound of log Z (mean field's, or a proven one) by more than 3 standard errors and
      0.1.
    - There is one fixed point if at least half of the starts converged, and no two of them, plain BP and descent ended
      at different ones.
    - log Z is trusted if the reference can judge and Bethe's differs from it by at most 0.1 or 3 standard errors; where
      the reference is AIS, which may miss the same mode as BP, only if there is one fixed point.
    - With enumeration, marginals are trusted if Bethe's converged and its tau_v are at most 0.01 from the truth in the
      mean.
    - Without, marginals are trusted if Bethe's converged to a minimum, there is one fixed point, variances by linear
      response are at most 0.01 from tau_v (1 - tau_v) in the mean, as they differ where cycles matter, and AIS can
      judge and does not find more probability, that is a log Z above Bethe's by more than 0.1 or 3 standard errors.
    - On trees, both are trusted if Bethe's converged.

    Parameters
    ----------
    W, b_v, b_h, dtype, n_threads
        As for `infer`.
    n_instances : int
        How many instances of a batch are drawn, without replacement; AIS takes by far the longest on each.
    n_starts : int
        Random states v from which descent looks for fixed points, for each instance.
    max_iter, tol
        Of all iterative methods.
    n_chains, n_betas
        Of `ais`.
    seed : int
        Of the instances drawn, the random starts and AIS.

    Returns
    -------
    Assessment

    Notes
    -----
    Without enumeration a verdict is a guess by these rules.  Measured on 288 random instances of 10x8 to 60x14 units,
    weights N(0, 0.1) to N(0, 3), half of them with tau_v within 0.01 of the truth in the mean: of the 141 whose
    marginals it trusted, unaware of the truth, 94 % were, and none was off by more than 0.12; 16 good ones were
    rejected.

    References
    ----------
    .. [1] Ruozzi, "The Bethe partition function of log-supermodular graphical models", NIPS 2012.

    Examples
    --------
    One hidden unit makes a tree:

    >>> import crbm_fast as cf
    >>> answer = cf.assess([[2.0], [-1.0]], b_v=[0.0, 0.0], b_h=[0.5])
    >>> answer.verdict[2]
    'Bethe is exact: the weights make no cycle.'
    >>> bool(abs(answer.log_z["bethe"] - answer.log_z["exact"])[0] < 1e-6)
    True
    """
    n_starts = check.check_int("n_starts", n_starts, 1)
    engine = Engine(W, dtype=dtype, n_threads=n_threads)
    b1, b2, _ = check.check_biases(b_v, b_h, engine.shape, engine.dtype)
    if engine.shape[0] == 0:
        raise ArgumentError("W", f"has shape {engine.shape}", "expected at least one visible unit")
    if len(b1) == 0:
        raise ArgumentError("b_v", "has no instances", "expected at least one")
    rows = draw_instances(len(b1), n_instances, seed)
    v, h = np.ascontiguousarray(b1[rows]), np.ascontiguousarray(b2[rows])
    names = [*_METHODS, *(["exact"] if min(engine.shape) <= _MAX_ENUMERATED else [])]
    found = {
        name: engine.run(v, h, method=name, max_iter=max_iter, tol=tol, fallback=None, log_z=True) for name in names
    }
    sampled = ais(engine.W, v, h, n_chains=n_chains, n_betas=n_betas, seed=seed, n_threads=engine.n_threads)
    balanced, tree = signs_and_cycles(engine.W)
    bethe = found["sum-product"], found["bethe"]
    starts_converged, counts, apart = _fixed_points(engine, v, h, bethe, n_starts, max_iter, tol, seed)
    answer, response = _linear_response(engine, v, h, *bethe)
    tau_v = answer.tau_v.astype(np.float64)
    variances = np.diagonal(response.v_v, axis1=1, axis2=2)
    return Assessment(
        instances=rows,
        n_instances=len(b1),
        log_z={name: b.log_z for name, b in found.items()} | {"ais": sampled.log_z},
        std_error=sampled.std_error,
        tau_v={name: b.tau_v for name, b in found.items()},
        converged={name: b.converged for name, b in found.items()},
        residual={name: b.residual for name, b in found.items()},
        balanced=balanced,
        tree=tree,
        n_starts=n_starts,
        starts_converged=starts_converged,
        fixed_points=counts,
        distance=apart,
        minimum=response.minimum,
        inconsistency=np.abs(variances - tau_v * (1 - tau_v)).mean(axis=1),
        saturated=(np.minimum(tau_v, 1 - tau_v) <= _SATURATED).mean(axis=1),
    )


def draw_instances(N: int, n_instances: int, seed: int) -> NDArray[np.intp]:
    """The rows of a batch of N that are assessed, in order: all, or `n_instances` drawn without replacement."""
    n_instances = check.check_int("n_instances", n_instances, 1)
    seed = check.check_int("seed", seed, 0, 2**64 - 1)
    drawn = np.random.default_rng(seed).choice(N, min(N, n_instances), replace=False)
    return np.sort(drawn).astype(np.intp)


def signs_and_cycles(W: NDArray[Any]) -> tuple[bool, bool]:
    """Whether flipping units makes W non-negative, and whether its non-zero weights make no cycle."""
    signs = np.sign(W).astype(np.int8)
    v, h = (np.zeros(n, np.int8) for n in W.shape)  # 1: stays, -1: is flipped, 0: not yet reached
    components = 0
    for first in range(len(v)):
        if v[first]:
            continue
        v[first], reached = 1, np.array([first])
        components += 1
        while reached.size:
            for edges, here, there in ((signs, v, h), (signs.T, h, v)):
                rows = edges[reached]
                new = np.flatnonzero((there == 0) & (rows != 0).any(axis=0))
                if new.size:
                    via = (rows[:, new] != 0).argmax(axis=0)
                    there[new] = rows[via, new] * here[reached[via]]
                reached = new
    components += int((h == 0).sum())
    balanced = bool((v[:, np.newaxis] * signs * h >= 0).all())
    return balanced, int(np.count_nonzero(signs)) == sum(W.shape) - components


def _linear_response(
    engine: Engine, b1: NDArray[Any], b2: NDArray[Any], plain: Beliefs, descent: Beliefs
) -> tuple[Beliefs, Covariances]:
    """Bethe's answer, and the covariances of its visible units."""
    pairs = (plain.tau_v, descent.tau_v), (plain.tau_h, descent.tau_h)
    tau_v, tau_h = (bethe_answer({"sum-product": x, "bethe": y}, plain.converged) for x, y in pairs)
    answer = replace(plain, tau_v=tau_v, tau_h=tau_h)
    return answer, covariance(engine.W, b1, b2, beliefs=answer, n_threads=engine.n_threads)


def bethe_answer(by_method: dict[str, NDArray[Any]], plain_converged: NDArray[np.bool_]) -> NDArray[Any]:
    """What plain BP says where it converged, and descent elsewhere, of values (M,) or (M, n) by method."""
    plain, descent = by_method["sum-product"], by_method["bethe"]
    return np.where(plain_converged.reshape(-1, *[1] * (plain.ndim - 1)), plain, descent)


def _fixed_points(
    engine: Engine,
    b1: NDArray[Any],
    b2: NDArray[Any],
    known: tuple[Beliefs, ...],
    n_starts: int,
    max_iter: int,
    tol: float,
    seed: int,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Descent from random states: how many converge, how many minima they and the known beliefs are, how far apart."""
    nv, dtype = engine.shape[0], engine.dtype
    v = independent_draws(np.zeros((n_starts, nv), dtype), seed)
    counts, starts_converged, apart = np.zeros(len(b1), np.intp), np.zeros(len(b1), np.intp), np.zeros(len(b1))
    for n in range(len(b1)):
        tau_h, tau_v = np.tile(b2[n], (n_starts, 1)), np.tile(b1[n], (n_starts, 1))
        # tau_h = logistic(v W + b2), tau_v = logistic(tau_h W' + b1)
        # (N, nh) = (N, nv) (nv, nh), (N, nv) = (N, nh) (nh, nv)
        _algebra.product(tau_h, v, engine.W, beta=1, n_threads=engine.n_threads)
        _algebra.logistic(tau_h)
        _algebra.product(tau_v, tau_h, engine.W, transpose_b=True, beta=1, n_threads=engine.n_threads)
        _algebra.logistic(tau_v)
        init = np.concatenate([tau_v, tau_h], axis=1)
        b = engine.run(np.tile(b1[n], (n_starts, 1)), b2[n], method="bethe", init=init, max_iter=max_iter, tol=tol)
        reached = [np.concatenate([x.tau_v[n], x.tau_h[n]]) for x in known if x.converged[n]]
        kept: list[NDArray[Any]] = []
        for tau in (*reached, *np.concatenate([b.tau_v, b.tau_h], axis=1)[b.converged]):
            if all(np.abs(tau - other).max() > _APART for other in kept):
                kept.append(tau)
        if kept:
            points = np.array(kept)
            beliefs = replace(b, tau_v=points[:, :nv], tau_h=points[:, nv:])
            rows = np.tile(b1[n], (len(points), 1))
            stable = covariance(engine.W, rows, b2[n], visible=(), beliefs=beliefs, n_threads=engine.n_threads)
            kept = list(points[stable.minimum])
        counts[n], starts_converged[n] = len(kept), b.converged.sum()
        apart[n] = max((np.abs(x[:nv] - y[:nv]).max() for x, y in combinations(kept, 2)), default=0)
    return starts_converged, counts, apart
