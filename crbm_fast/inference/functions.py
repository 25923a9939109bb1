"""Inference and sampling in one call: an engine that is made, used and forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from crbm_fast.inference.beliefs import Beliefs, Gamma, Samples
from crbm_fast.inference.engine import Engine
from crbm_fast.inference.methods import Fallback

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


def infer(
    W: ArrayLike,
    b_v: ArrayLike,
    b_h: ArrayLike,
    *,
    method: str = "sum-product",
    max_iter: int = 50,
    tol: float = 1e-3,
    damping: float = 0.0,
    gamma: Gamma = False,
    log_z: bool = False,
    messages: bool = False,
    init: Beliefs | ArrayLike | Literal["visible"] | None = None,
    fallback: Fallback | None = "bethe",
    evidence: tuple[ArrayLike, ArrayLike] | None = None,
    dtype: DTypeLike | None = None,
    n_threads: int | None = None,
    out: Beliefs | None = None,
) -> Beliefs:
    """Beliefs P(v_i = 1), P(h_j = 1) of an RBM, or of a batch of RBMs that share W.

    Parameters
    ----------
    W : (nv, nh) array-like
        Weights between visible and hidden units.
    b_v : (nv,) or (N, nv) array-like
        Visible biases, of one RBM or of a batch.
    b_h : (nh,) or (N, nh) array-like
        Hidden biases.  A vector beside a batch is shared by all of it.
    method : str
        - "sum-product", "mixed-product", "max-product": Algorithm 1 of [1]_ (Eqs. 8-18), for marginals, marginal MAP
          (max over v, sum over h) and MAP (max over both);
        - "bethe": descent on the Bethe free energy, whose stationary points are the fixed points of sum-product; it
          cannot oscillate, and takes about twice as long per iteration;
        - "mixed-ascent", "max-ascent": flips of one visible unit after the other while that raises what mixed-product
          and max-product maximise; they cannot oscillate;
        - "mean-field", "tap": naive mean field, second-order TAP [2]_;
        - "exact": enumeration of the smaller side, at most 25 units.
    max_iter : int
        Iterations at most.  One sends all messages h -> v, then all v -> h; it is a step of all visible and then of all
        hidden units for "bethe" and the mean fields, a sweep over the visible units for the ascents.
    tol : float
        Stop an instance whose residual is not larger, see `Beliefs.residual`: for most methods, when no belief changed
        by more.  0 does exactly `max_iter` iterations.
    fallback : {"bethe", "mixed-ascent", "max-ascent"} or None
        With sum-product, mixed-product or max-product, in this order, and tol > 0, the instances that have not
        converged after `max_iter` iterations go on by that method, from their beliefs, for at most ten times as many;
        the others do not notice.  None, and a fallback that is another method's, is Algorithm 1 as printed.  `messages`
        remain those of the method itself.
    damping : float in [0, 1)
        Weight of the old message in the new one: of m(1)/m(0) of the messages v -> h for sum-product, of its logarithm
        for max-product; of the logarithm of the messages h -> v for mixed-product, from the second iteration on; for
        mean field and TAP, of the old `tau_h`.  "bethe" and the ascents take none: they do not need it.
    gamma : bool or "sum"
        Also pairwise beliefs P(v_i = 1, h_j = 1): per instance, or summed over the batch.  Sum-product and
        mixed-product: Eq. 18; for sum-product on an instance stopped by `tol`, or with damping, from its newest
        messages, which differs from Eq. 18 by at most about the residual; for mixed-product with the messages before
        damping, and as its messages v -> h are those of single states, it may exceed tau_h.  Bethe: what its beliefs
        imply.  Max-product: v h' at the predicted v and the h that is best for it.  Mean field: tau_v tau_h'; TAP: plus
        W_ij var_i var_j, the derivative of its log Z, which leaves [0, 1] where weights are too strong for the
        expansion.  What a max-margin gradient needs (Eq. 7) is `Beliefs.moments_at_prediction`.
    log_z : bool
        Also log Z.  Sum-product: Bethe, with an error of second order in that of the messages; bethe: minus the Bethe
        free energy of its beliefs, which rises with every iteration; mean field: the lower bound at `tau_v`; TAP:
        second order in W.  Mixed-product and its ascent: log sum_h exp(-E(v, h)) at the predicted v; max-product and
        its ascent: -E at the predicted v and its best h; both are lower bounds of the maximum.
    messages : bool
        Also the state the next call can start from (`init`).
    init : Beliefs, array-like or "visible", optional
        Messages to start from: (nv, nh) per instance, log m(1)/m(0) of the message v_i -> h_j, for sum-product and
        max-product; one row of nv + nh for the others: tau_v and tau_h.  Mixed-product and the ascents read
        only the first nv, states, rounded to 0 and 1.  Default: uniform messages; bethe starts at the logistics of the
        biases, the ascents at v = 0, mean field and TAP at tau_h = logistic(b_h), or with "visible" at tau_v =
        logistic(b_v), the prediction of the logistic part of a CRBM.  They find the mode that is near.
    evidence : (mask, values), optional
        Visible units with `mask` set are clamped to `values` (0 or 1); shapes as b_v.
    dtype : {"float32", "float64"}, optional
        Default: that of `W`.  In float32 each message has a rounding error of about 6e-8, and a unit adds up those of
        all its neighbours.
    n_threads : int, optional
        Default: the cores this process may use.  Results have the same bits for any number.
    out : Beliefs, optional
        Result of an earlier call, whose arrays are written again.  Fields not asked for are left as they are.

    Returns
    -------
    Beliefs

    Warns
    -----
    ConvergenceWarning
        When one RBM was asked for and `tol` was not reached.  A batch tells by `converged`.

    References
    ----------
    .. [1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
    .. [2] Gabrie, Tramel & Krzakala, "Training Restricted Boltzmann Machines via the Thouless-Anderson-Palmer Free
       Energy", NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import crbm_fast as cf
    >>> b = cf.infer(np.array([[2.0], [-1.0]]), b_v=[0.0, 0.0], b_h=[0.5], tol=1e-9, log_z=True)
    >>> b.tau_h.round(4), b.converged
    (array([0.8255]), True)
    """
    return Engine(W, dtype=dtype, n_threads=n_threads).run(
        b_v,
        b_h,
        method=method,
        max_iter=max_iter,
        tol=tol,
        damping=damping,
        gamma=gamma,
        log_z=log_z,
        messages=messages,
        init=init,
        fallback=fallback,
        evidence=evidence,
        out=out,
    )


def gibbs(
    W: ArrayLike,
    b_v: ArrayLike,
    b_h: ArrayLike,
    *,
    v: ArrayLike | None = None,
    n_steps: int = 1,
    seed: int = 0,
    step: int = 0,
    first_instance: int = 0,
    evidence: tuple[ArrayLike, ArrayLike] | None = None,
    dtype: DTypeLike | None = None,
    n_threads: int | None = None,
    out: Samples | None = None,
) -> Samples:
    """Samples of p(v, h) by blocked Gibbs sampling, Eq. 3: h given v, then v given h, `n_steps` times.

    One chain per instance, of which the last state is returned.

    Parameters
    ----------
    W, b_v, b_h, evidence, dtype, n_threads
        As for `infer`.
    v : (nv,) or (N, nv) array-like of 0 and 1, optional
        Where the chains start.  Default: fair coins.
    n_steps : int
        Steps of each chain.
    seed : int
        The draws depend on (seed, instance, step, unit) alone: not on the threads or on how a batch is split, and two
        calls with the same seed (the default is 0) and step draw the same numbers.
    step : int
        Number of the first step; continue a chain with the `step` of its last result.
    first_instance : int
        Number of the first row, for a batch that is worked off in parts.
    out : Samples, optional
        Result of an earlier call, whose arrays are written again.

    Returns
    -------
    Samples
    """
    return Engine(W, dtype=dtype, n_threads=n_threads).gibbs(
        b_v, b_h, v=v, n_steps=n_steps, seed=seed, step=step, first_instance=first_instance, evidence=evidence, out=out
    )
