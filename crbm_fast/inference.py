"""Inference on RBMs that share their weights: `infer` for one call, `Engine` for many.

A conditional RBM given features is an RBM with shifted biases, p(v, h) ~ exp(v' W h + b_v' v + b_h' h); everything
here is about that RBM.  A batch is N pairs of biases with one W.

    infer, gibbs ->  Engine.run, Engine.gibbs  ->  _validation, then _engine.Core (Cython, C)

References
----------
[1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
[2] Gabrie, Tramel & Krzakala, "Training Restricted Boltzmann Machines via the Thouless-Anderson-Palmer Free
    Energy", NIPS 2015.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from crbm_fast import _engine
from crbm_fast import _validation as check

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

Method = Literal["sum-product", "mixed-product", "max-product", "mean-field", "tap", "exact"]

METHODS = get_args(Method)
_PER_EDGE = ("sum-product", "max-product")
_MAX_ENUMERATED = 25


class ConvergenceWarning(UserWarning):
    """Inference on one RBM, or on nearly all instances of an epoch, stopped at `max_iter` before reaching `tol`."""


@dataclass(slots=True, eq=False, repr=False)
class Beliefs:
    """What inference found.  One RBM: vectors and numbers; a batch: one row or entry per instance.

    Attributes
    ----------
    tau_v : (nv,) or (N, nv)
        P(v_i = 1); for mixed-product and max-product the normalised (mixed) max-marginal, whose state above 1/2
        is the prediction.
    tau_h : (nh,) or (N, nh)
        P(h_j = 1), likewise.
    n_iter : int or (N,) int64
        Iterations done.
    converged : bool or (N,) bool
        Whether `residual <= tol`.
    residual : float or (N,) float64
        Largest change of a belief in the last iteration, divided by `1 - damping`, so that a damped step counts as
        the whole one.  In the first iteration, and with damping, also the largest relative change of a message v -> h
        before damping (sum-product and max-product); for mixed-product always also that of what v sends.
    gamma : (nv, nh), (N, nv, nh), or None
        E[v h'] under the method's own distribution; see `infer`.
    log_z : float, (N,) float64, or None
        Estimate of the log partition function, or of the value maximised; see `infer`.
    messages : (nv, nh), (N, nv, nh) or, for the field methods, (nv + nh,), (N, nv + nh); or None
        What `init=` takes to go on from here.
    """

    tau_v: NDArray[Any]
    tau_h: NDArray[Any]
    n_iter: Any
    converged: Any
    residual: Any
    gamma: NDArray[Any] | None = None
    log_z: Any = None
    messages: NDArray[Any] | None = None

    def __repr__(self) -> str:
        """Shapes of arrays, values of numbers."""

        def brief(value: Any) -> str:
            return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{value}"

        fields = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        return "Beliefs(" + ", ".join(f"{name}={brief(x)}" for name, x in fields if x is not None) + ")"


@dataclass(slots=True, eq=False)
class Samples:
    """States of a Gibbs chain per instance.

    Attributes
    ----------
    v : (nv,) or (N, nv)
        Visible states, 0 or 1, drawn given `h`.
    h : (nh,) or (N, nh)
        Hidden states, 0 or 1.
    step : int
        Steps done since `step=0`; pass it on to continue the chain with fresh random numbers.
    """

    v: NDArray[Any]
    h: NDArray[Any]
    step: int


class Engine:
    """Inference with one weight matrix, called again and again.

    Holds what is made from `W` once (`exp(W)`) and scratch memory, so that a repeated call allocates nothing.  `W`
    is not copied where it is a C-contiguous array of the right dtype: after changing it, call `update`.

    One engine serves one thread at a time; make one for each thread.  The GIL is released while it works, and scipy's
    BLAS, whose threads are shared by the whole process, is held to one thread per caller.  A pickled or copied engine
    starts without messages.

    Parameters
    ----------
    W : (nv, nh) array-like
        Weights between visible and hidden units.
    dtype : {"float32", "float64"}, optional
        Precision of the computation and of the results.  Default: that of `W` (float16 becomes float32, integers
        and booleans float64).
    n_threads : int, optional
        Default: the cores this process may use, or fewer if OMP_NUM_THREADS says so.  Results have the same bits for
        any number.  For sum-product and max-product, threads share a single RBM from half a million edges on, a batch
        from a quarter of a million edges in all; the other methods share out the instances of a batch, in
        pieces of 20 to 64, from a million edges on.
    """

    def __init__(self, W: ArrayLike, *, dtype: DTypeLike | None = None, n_threads: int | None = None) -> None:
        threads = check.check_threads(n_threads)
        weights = check.check_weights(W, dtype)
        self._core = _engine.Core(weights, threads)
        self._lock = threading.Lock()
        self._one = (np.empty(1, np.int64), np.empty(1, np.bool_), np.empty(1), np.empty(1))

    @property
    def shape(self) -> tuple[int, int]:
        """(nv, nh)."""
        return self._core.nv, self._core.nh

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        dtype: np.dtype[Any] = self._core.W.dtype
        return dtype

    @property
    def n_threads(self) -> int:
        """Threads used at most."""
        return self._core.n_threads

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Engine, dtype=self.dtype, n_threads=self.n_threads), (self._core.W,)

    def __repr__(self) -> str:
        nv, nh = self.shape
        return f"Engine(nv={nv}, nh={nh}, dtype={self.dtype}, n_threads={self.n_threads}, isa={self._core.isa})"

    def update(self, W: ArrayLike) -> None:
        """Take new weights of the same shape; messages kept by `warm_start` stay."""
        weights = check.check_weights(W, self.dtype)
        if weights.shape != self.shape:
            raise ValueError(f"W has shape {weights.shape}; this engine has {self.shape}")
        with self._exclusive():
            self._core.update(weights)

    def run(
        self,
        b_v: ArrayLike,
        b_h: ArrayLike,
        *,
        method: Method = "sum-product",
        max_iter: int = 50,
        tol: float = 1e-3,
        damping: float = 0.0,
        gamma: bool | Literal["sum"] = False,
        log_z: bool = False,
        messages: bool = False,
        init: Beliefs | ArrayLike | Literal["visible"] | None = None,
        warm_start: bool = False,
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
        out: Beliefs | None = None,
    ) -> Beliefs:
        """Beliefs of every instance.  The keywords are those of `infer`, and one more.

        Parameters
        ----------
        warm_start : bool
            Start from where the last call with `warm_start=True` stopped, if it had the same method and number of
            instances; keep the messages of this call for the next one (N matrices for sum-product and max-product).
        """
        core, dtype, (nv, nh) = self._core, self.dtype, self.shape
        check.check_choice("method", method, METHODS)
        max_iter = check.check_int("max_iter", max_iter, 1)
        tol = check.check_real("tol", tol, 0, np.inf)
        damping = check.check_real("damping", damping, 0, 1)
        if dtype.type(damping) == 1:
            raise ValueError(f"damping={damping!r} is 1 in {dtype}; take a smaller one")
        check.check_choice("gamma", gamma, (False, True, "sum"))
        log_z, messages = check.check_flag("log_z", log_z), check.check_flag("messages", messages)
        warm_start = check.check_flag("warm_start", warm_start)
        v, h, single = check.check_biases(b_v, b_h, (nv, nh), dtype)
        N = v.shape[0]
        clamped = None
        if evidence is not None:
            mask, values = check.check_evidence(evidence, v.shape[1:] if single else v.shape)
            clamped = np.where(mask & (values == 1), v, 0).sum(axis=1, dtype=np.float64)
            v = np.where(mask, np.where(values == 1, np.inf, -np.inf), v).astype(dtype)
        if method == "exact" and (init is not None or messages or warm_start):
            raise ValueError("method='exact' has no messages: leave out init, messages and warm_start")
        visible_first = isinstance(init, str)
        if visible_first:
            check.check_start(init, method)
            init = None
        state_shape = (nv, nh) if method in _PER_EDGE else (nv + nh,)
        start = None if init is None else self._start(init, method, (N, *state_shape), single)
        inputs = {"W": core.W, "b_v": v, "b_h": h} | ({} if start is None else {"init": start})
        b = _results(
            out,
            inputs,
            single,
            N,
            nv,
            nh,
            dtype,
            gamma=gamma,
            log_z=log_z,
            state_shape=state_shape if messages else None,
        )
        n_iter, converged, residual, z = self._one if single else (b.n_iter, b.converged, b.residual, b.log_z)
        arrays: dict[str, Any] = {
            "tau_v": b.tau_v.reshape(N, nv),
            "tau_h": b.tau_h.reshape(N, nh),
            "n_iter": n_iter,
            "converged": converged,
            "residual": residual,
            "log_z": z if log_z else None,
            "gamma": b.gamma if gamma else None,
        }
        with self._exclusive():
            if method == "exact":
                _exact(core.W, v, h, gamma_sum=gamma == "sum", **arrays)
            else:
                core.run(
                    method,
                    v,
                    h,
                    max_iter=max_iter,
                    tol=tol,
                    damping=damping,
                    gamma_sum=gamma == "sum",
                    messages=b.messages if messages else None,
                    init=start,
                    visible_first=visible_first,
                    warm_start=warm_start,
                    **arrays,
                )
            if log_z and clamped is not None:
                z += clamped
            if single:
                b.n_iter, b.converged, b.residual = int(n_iter[0]), bool(converged[0]), float(residual[0])
                if log_z:
                    b.log_z = float(z[0])
        if single and tol > 0 and not b.converged:
            check.warn(
                f"{method} stopped at residual {b.residual:.1e} > tol={tol:g} after {max_iter} iterations; raise "
                "max_iter or damping",
                ConvergenceWarning,
            )
        return b

    def _start(self, init: Any, method: str, shape: tuple[int, ...], single: bool) -> NDArray[Any]:
        """The messages of `init`, an array or the Beliefs that hold it."""
        if isinstance(init, Beliefs):
            if init.messages is None:
                raise ValueError("init has no messages; ask for them with messages=True in the earlier call")
            init = init.messages
        given = check.as_float("init", init, self.dtype)
        wanted = shape[1:] if single else shape
        if given.shape != wanted:
            raise ValueError(f"init has shape {given.shape}; expected {wanted} for method={method!r}")
        if method in _PER_EDGE:
            # The log message v_i -> h_j lies between 0 and W_ij; one made for other weights may not.
            W = self._core.W
            inside: NDArray[Any] = np.clip(given, np.minimum(W, 0), np.maximum(W, 0))
            return inside.reshape(shape)
        if ((given < 0) | (given > 1)).any():
            raise ValueError(f"init has values outside [0, 1]; method={method!r} starts from beliefs")
        return given.reshape(shape).copy()  # as above: `out` may be the Beliefs that hold it

    def gibbs(
        self,
        b_v: ArrayLike,
        b_h: ArrayLike,
        *,
        v: ArrayLike | None = None,
        n_steps: int = 1,
        seed: int = 0,
        step: int = 0,
        first_instance: int = 0,
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
        out: Samples | None = None,
    ) -> Samples:
        """Run Gibbs chains; the keywords are those of `gibbs`."""
        dtype, (nv, nh) = self.dtype, self.shape
        n_steps = check.check_int("n_steps", n_steps, 1)
        seed = check.check_int("seed", seed, 0, 2**64 - 1)
        step = check.check_int("step", step, 0, 2**31 - 1 - n_steps)
        first_instance = check.check_int("first_instance", first_instance, 0, 2**62)
        biases, h_biases, single = check.check_biases(b_v, b_h, (nv, nh), dtype)
        N = biases.shape[0]
        if v is None:
            start = independent_draws(np.zeros((N, nv), dtype), seed, first_instance)  # fair coins
        else:
            start = check.as_float("v", v, dtype)
            wanted = (nv,) if single else (N, nv)
            if start.shape != wanted:
                raise ValueError(f"v has shape {start.shape}; expected {wanted}")
            wrong = (start != 0) & (start != 1)
            if wrong.any():
                raise ValueError(f"v must hold states 0 and 1; found {start[wrong][0]}")
        if evidence is not None:
            mask, values = check.check_evidence(evidence, biases.shape[1:] if single else biases.shape)
            biases = np.where(mask, np.where(values == 1, np.inf, -np.inf), biases).astype(dtype)
            start = np.where(mask, values, start.reshape(N, nv)).astype(dtype)
        shapes = ((nv,), (nh,)) if single else ((N, nv), (N, nh))
        if out is None:
            out = Samples(np.empty(shapes[0], dtype), np.empty(shapes[1], dtype), step)
        elif not isinstance(out, Samples):
            raise TypeError(f"out is {type(out).__name__}; expected Samples")
        check.check_out("v", out.v, shapes[0], dtype)
        check.check_out("h", out.h, shapes[1], dtype)
        check.check_overlap({"v": out.v, "h": out.h}, {"W": self._core.W, "b_v": biases, "b_h": h_biases})
        with self._exclusive():
            out.v[...] = start.reshape(shapes[0])
            self._core.gibbs(
                biases, h_biases, out.v, out.h, seed=seed, instance=first_instance, step=step, n_steps=n_steps
            )
        out.step = step + n_steps
        return out

    def _exclusive(self) -> _Exclusive:
        return _Exclusive(self._lock)


class _Exclusive:
    """Holds an engine's lock, or says whose mistake it is that it cannot."""

    __slots__ = ("_lock",)

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this Engine is working for another thread; make one Engine per thread")

    def __exit__(self, *exc: object) -> None:
        self._lock.release()


def independent_draws(b_v: NDArray[Any], seed: int, first_instance: int = 0, step: int = 2**31 - 1) -> NDArray[Any]:
    """v (N, nv) drawn from the biases alone: units that no weight reaches.

    By default under a step number that no chain with the same seed has.
    """
    N, nv = b_v.shape
    v, h = np.zeros_like(b_v), np.zeros((N, 0), b_v.dtype)
    alone = _engine.Core(np.zeros((nv, 0), b_v.dtype), 1)
    alone.gibbs(b_v, h, v, h, seed=seed, instance=first_instance, step=step, n_steps=1)
    return v


def _results(
    out: Any,
    inputs: dict[str, Any],
    single: bool,
    N: int,
    nv: int,
    nh: int,
    dtype: np.dtype[Any],
    *,
    gamma: Any,
    log_z: bool,
    state_shape: tuple[int, ...] | None,
) -> Beliefs:
    """`out` after its checks, or new arrays, for everything that was asked for."""
    batch = () if single else (N,)
    wanted: dict[str, tuple[tuple[int, ...], Any]] = {
        "tau_v": ((*batch, nv), dtype),
        "tau_h": ((*batch, nh), dtype),
    }
    if not single:
        wanted |= {
            "n_iter": (batch, np.dtype(np.int64)),
            "converged": (batch, np.dtype(np.bool_)),
            "residual": (batch, np.dtype(np.float64)),
        }
        if log_z:
            wanted["log_z"] = batch, np.dtype(np.float64)
    if gamma:
        wanted["gamma"] = ((nv, nh) if gamma == "sum" else (*batch, nv, nh)), dtype
    if state_shape is not None:
        wanted["messages"] = (*batch, *state_shape), dtype
    if out is None:
        made: dict[str, Any] = {"n_iter": 0, "converged": False, "residual": np.inf}
        made |= {name: np.empty(shape, kind) for name, (shape, kind) in wanted.items()}
        return Beliefs(**made)
    if not isinstance(out, Beliefs):
        raise TypeError(f"out is {type(out).__name__}; expected Beliefs, such as an earlier call returned")
    given = {name: check.check_out(name, getattr(out, name), shape, kind) for name, (shape, kind) in wanted.items()}
    check.check_overlap(given, inputs)
    return out


def _exact(
    W: NDArray[Any],
    b_v: NDArray[Any],
    b_h: NDArray[Any],
    *,
    gamma_sum: bool,
    tau_v: Any,
    tau_h: Any,
    n_iter: Any,
    converged: Any,
    residual: Any,
    log_z: Any,
    gamma: Any,
) -> None:
    """Enumeration of the side with fewer free units, in float64."""
    W = W.astype(np.float64)
    nv, nh = W.shape
    most = int(np.isfinite(b_v).sum(axis=1).max(initial=0))
    if min(most, nh) > _MAX_ENUMERATED:
        raise ValueError(
            f"method='exact' enumerates the smaller side, at most {_MAX_ENUMERATED} units; this model has {most} free "
            f"visible and {nh} hidden ones"
        )
    if gamma_sum:
        gamma[...] = 0
    for n in range(len(b_v)):
        free, on = np.isfinite(b_v[n]), b_v[n] == np.inf
        A, a, b = W[free], b_v[n][free].astype(np.float64), b_h[n] + W[on].sum(axis=0)
        by_v = len(A) <= nh
        if not by_v:
            A, a, b = np.ascontiguousarray(A.T), b, a
        pairs = None if gamma is None else np.empty(A.shape)
        z, p_first, p_second = _engine.enumerate_states(A, a, b, pairs)
        tau_v[n] = on
        tau_v[n, free], tau_h[n] = (p_first, p_second) if by_v else (p_second, p_first)
        n_iter[n], converged[n], residual[n] = 0, True, 0
        if log_z is not None:
            log_z[n] = z
        if pairs is not None:
            full = np.zeros((nv, nh))
            full[on] = tau_h[n]
            full[free] = pairs if by_v else pairs.T
            if gamma_sum:
                gamma += full
            else:
                gamma.reshape(len(b_v), nv, nh)[n] = full


def infer(
    W: ArrayLike,
    b_v: ArrayLike,
    b_h: ArrayLike,
    *,
    method: Method = "sum-product",
    max_iter: int = 50,
    tol: float = 1e-3,
    damping: float = 0.0,
    gamma: bool | Literal["sum"] = False,
    log_z: bool = False,
    messages: bool = False,
    init: Beliefs | ArrayLike | Literal["visible"] | None = None,
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
    method : {"sum-product", "mixed-product", "max-product", "mean-field", "tap", "exact"}
        Algorithm 1 of [1]_ (Eqs. 8-18): marginals; max over v and sum over h (marginal MAP); max over both (MAP).
        Naive mean field; second-order TAP [2]_; enumeration of the smaller side (at most 25 units).
    max_iter : int
        Iterations at most; one sends all messages h -> v, then all v -> h.
    tol : float
        Stop an instance when no belief changed by more.  0 does exactly `max_iter` iterations.
    damping : float in [0, 1)
        Weight of the old v -> h message in the new one: of m(1)/m(0) for sum-product, of its logarithm for
        max-product and mixed-product (which is slower with damping); for mean field and TAP, of the old `tau_h`.
    gamma : bool or "sum"
        Also E[v h']: per instance, or summed over the batch.  Sum-product: pairwise beliefs, Eq. 18; for an
        instance stopped by `tol`, or with damping, from its newest messages, which differs from Eq. 18 by about the
        residual.  Mixed-product: v tau_h' at the predicted v (Eq. 7).  Max-product: v h' at the predicted v and the h
        that is best for it.  Mean field: tau_v tau_h'; TAP: plus W_ij var_i var_j,
        the derivative of its log Z, which leaves [0, 1] where weights are too strong for the expansion.
    log_z : bool
        Also log Z.  Sum-product: Bethe, with an error of second order in that of the messages; mean field: the lower
        bound at `tau_v`; TAP: second order in W.  Mixed-product: log sum_h exp(-E(v, h)) at the predicted v;
        max-product: -E at the predicted v and its best h; both are lower bounds of the maximum.
    messages : bool
        Also the state the next call can start from (`init`).
    init : Beliefs, array-like or "visible", optional
        Messages to start from: (nv, nh) per instance, log m(1)/m(0) of the message v_i -> h_j, for sum-product and
        max-product; one row of nv + nh for the others: tau_v (mixed-product: the states v sends) and tau_h.  Default:
        uniform messages; mean field and TAP start at tau_h = logistic(b_h), or with "visible" at
        tau_v = logistic(b_v), the prediction of the logistic part of a CRBM.  They find the mode that is near.
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
