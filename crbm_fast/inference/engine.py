"""The engine: checked arrays in, beliefs or samples out."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from crbm_fast import _engine
from crbm_fast import _validation as check
from crbm_fast.inference.beliefs import Beliefs, Gamma, Samples, check_beliefs, layout, new_beliefs
from crbm_fast.inference.evidence import clamp
from crbm_fast.inference.exact import enumerate_instances
from crbm_fast.inference.methods import (
    FALLBACK_ITERATIONS,
    METHODS,
    Fallback,
    Inference,
    Method,
    check_fallback,
    check_named_init,
    check_options,
    method_named,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray


class ConvergenceWarning(UserWarning):
    """Inference on one RBM, or on nearly all instances of an epoch, stopped at `max_iter` before reaching `tol`."""


class Engine:
    """Inference with one weight matrix, called again and again.

    It holds what is made from `W` once (`exp(W)`) and scratch memory, so that a repeated call allocates nothing.  `W`
    is not copied where it is a C-contiguous array of the right dtype: after changing it, call `update`.

    One engine serves one thread at a time; make one for each thread.  The GIL is released while it works, and scipy's
    BLAS, whose threads are shared by the whole process, is held to one thread per caller.  A pickled or copied engine
    begins without messages.

    Parameters
    ----------
    W : (nv, nh) array-like
        Weights between visible and hidden units.
    dtype : {"float32", "float64"}, optional
        Precision of the computation and of the results.  Default: that of `W` (float16 becomes float32, integers
        and booleans float64).
    n_threads : int, optional
        Default: the cores this process may use, or fewer if OMP_NUM_THREADS says so.  Results have the same bits for
        any number.  Where a method sweeps over the edges, threads share a single RBM from half a million edges on, a
        batch from a quarter of a million edges in all; the other methods share out the instances of a batch, in pieces
        of 20 to 64, from a million edges on.
    """

    def __init__(self, W: ArrayLike, *, dtype: DTypeLike | None = None, n_threads: int | None = None) -> None:
        threads = check.check_threads(n_threads)
        weights = check.check_weights(W, dtype)
        self._core = _engine.Core(weights, threads)
        self._lock = threading.Lock()
        self._one = (np.empty(1, np.int64), np.empty(1, np.bool_), np.empty(1), np.empty(1))

    @property
    def W(self) -> NDArray[Any]:
        """The weights, (nv, nh): the array given where it was of the right kind, else a copy."""
        return self._core.W

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
        """The largest number of threads used."""
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
        self.update_checked(weights)

    def update_checked(self, W: NDArray[Any]) -> None:
        """`update` for the rest of the package: W is C-contiguous, finite, and of this engine's shape and dtype."""
        with _Exclusive(self._lock):
            self._core.update(W)

    def run(
        self,
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
        warm_start: bool = False,
        fallback: Fallback | None = "bethe",
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
        out: Beliefs | None = None,
    ) -> Beliefs:
        """Beliefs of every instance.  The keywords are those of `infer`, and one more.

        Parameters
        ----------
        warm_start : bool
            Continue from where the last call with `warm_start=True` stopped, if it had the same method and number of
            instances; keep the messages of this call for the next one (N matrices for sum-product and max-product).
        """
        dtype, (nv, nh), row = self.dtype, self.shape, method_named(method)
        max_iter, tol, damping = options = check_options(row, max_iter, tol, damping)
        check_fallback(fallback)
        falls_back = fallback is not None and fallback == row.fallback and tol > 0
        named = isinstance(init, str)
        check_named_init(init if named else None, row)
        if damping > 0 and dtype.type(damping) == 1:
            raise ValueError(f"damping={damping!r} is 1 in {dtype}; take a smaller one")
        check.check_choice("gamma", gamma, (False, True, "sum"))
        log_z, messages = check.check_flag("log_z", log_z), check.check_flag("messages", messages)
        warm_start = check.check_flag("warm_start", warm_start)
        if row.state is None and (init is not None or messages or warm_start):
            raise ValueError(f"method={method!r} has no messages: leave out init, messages and warm_start")
        v, h, single = check.check_biases(b_v, b_h, (nv, nh), dtype)
        v, constant = (v, None) if evidence is None else clamp(evidence, v, single)[:2]
        N = len(v)
        state = row.state_shape(nv, nh)
        given = None if named or init is None else self._initial_state(init, row, (N, *state), single)
        wanted = layout(None if single else N, nv, nh, dtype, gamma, log_z, state if messages else None, falls_back)
        inputs = {"W": self.W, "b_v": v, "b_h": h} | ({} if given is None else {"init": given})
        beliefs = new_beliefs(wanted) if out is None else check_beliefs(out, wanted, inputs)
        with _Exclusive(self._lock):
            self._solve(
                beliefs,
                v,
                h,
                row,
                options,
                named,
                gamma,
                log_z,
                falls_back,
                messages,
                single,
                given,
                warm_start,
                constant,
            )
        if single and tol > 0 and not beliefs.converged:
            _warn_of(beliefs, row, tol)
        return beliefs

    def run_checked(
        self,
        b1: NDArray[Any],
        b2: NDArray[Any],
        how: Inference,
        *,
        gamma: Gamma = False,
        log_z: bool = False,
        out: Beliefs | None = None,
    ) -> Beliefs:
        """`run` for the rest of the package, without its checks.

        b1 (N, nv) and b2 (N, nh) are C-contiguous, finite and of this engine's dtype, and
        `out` is what an earlier call with the same N, `gamma` and `log_z` returned.
        """
        falls_back = how.fallback is not None and how.tol > 0
        if out is None:
            out = new_beliefs(layout(len(b1), *self.shape, self.dtype, gamma, log_z, None, falls_back))
        with _Exclusive(self._lock):
            options = how.iterations, how.tol, how.damping
            self._solve(out, b1, b2, METHODS[how.method], options, how.init == "visible", gamma, log_z, falls_back)
        return out

    def _solve(
        self,
        beliefs: Beliefs,
        v: NDArray[Any],
        h: NDArray[Any],
        method: Method,
        options: tuple[int, float, float],
        visible_first: bool,
        gamma: Gamma,
        log_z: bool,
        falls_back: bool = False,
        messages: bool = False,
        single: bool = False,
        given: NDArray[Any] | None = None,
        warm_start: bool = False,
        constant: NDArray[np.float64] | None = None,
    ) -> None:
        """Write the beliefs of the biases v (N, nv), h (N, nh) into arrays that fit; `constant` is added to log Z.

        options is (max_iter, tol, damping).
        """
        N, nv = v.shape
        one = self._one if single else (beliefs.n_iter, beliefs.converged, beliefs.residual, beliefs.log_z)
        n_iter, converged, residual, z = one
        results: dict[str, Any] = {
            "tau_v": beliefs.tau_v.reshape(N, nv),
            "tau_h": beliefs.tau_h.reshape(N, h.shape[1]),
            "n_iter": n_iter,
            "converged": converged,
            "residual": residual,
            "log_z": z if log_z else None,
            "gamma": beliefs.gamma if gamma else None,
            "gamma_sum": gamma == "sum",
        }
        if single and gamma is True and beliefs.gamma is not None:
            results["gamma"] = beliefs.gamma[None]
        if method.state is None:
            enumerate_instances(self.W, v, h, **results)
        else:
            self._core.run(
                method.name,
                v,
                h,
                *options,
                messages=beliefs.messages if messages else None,
                init=given,
                visible_first=visible_first,
                warm_start=warm_start,
                defer=falls_back,
                **results,
            )
        beliefs.fell_back = beliefs.fell_back if falls_back else None
        if falls_back and method.fallback is not None:
            fell_back = self._go_on(method.fallback, v, h, options, results)
            if single:
                beliefs.fell_back = bool(fell_back[0])
            else:
                beliefs.fell_back[...] = fell_back
        if log_z and constant is not None:
            z += constant
        if single:
            beliefs.n_iter, beliefs.converged, beliefs.residual = int(n_iter[0]), bool(converged[0]), float(residual[0])
            if log_z:
                beliefs.log_z = float(z[0])

    def _go_on(
        self,
        fallback: str,
        v: NDArray[Any],
        h: NDArray[Any],
        options: tuple[int, float, float],
        results: dict[str, Any],
    ) -> NDArray[np.bool_]:
        """Let the instances of these results that have not converged go on by the fallback, and tell which they are."""
        fell_back: NDArray[np.bool_] = ~results["converged"]
        rows = np.flatnonzero(fell_back)
        if len(rows) == 0:
            return fell_back
        max_iter, tol, _ = options
        per_row = [name for name, array in results.items() if isinstance(array, np.ndarray)]
        if results["gamma_sum"]:
            per_row.remove("gamma")
        part = {name: np.empty_like(results[name], shape=(len(rows), *results[name].shape[1:])) for name in per_row}
        init = np.concatenate((results["tau_v"][rows], results["tau_h"][rows]), axis=1)
        most = FALLBACK_ITERATIONS * max_iter
        self._core.run(fallback, v[rows], h[rows], most, tol, 0, init=init, gamma_add=True, **results | part)
        part["n_iter"] += results["n_iter"][rows]
        for name, array in part.items():
            results[name][rows] = array
        return fell_back

    def _initial_state(self, init: Any, method: Method, shape: tuple[int, ...], single: bool) -> NDArray[Any]:
        """The state in `init`, an array or the Beliefs that hold it, as a new array of that shape."""
        if isinstance(init, Beliefs):
            if init.messages is None:
                raise ValueError("init has no messages; ask for them with messages=True in the earlier call")
            init = init.messages
        given = check.as_float("init", init, self.dtype)
        wanted = shape[1:] if single else shape
        if given.shape != wanted:
            raise ValueError(f"init has shape {given.shape}; expected {wanted} for method={method.name!r}")
        if method.state == "edges":
            # The log message v_i -> h_j lies between 0 and W_ij; one made for other weights may not.
            inside: NDArray[Any] = np.clip(given, np.minimum(self.W, 0), np.maximum(self.W, 0))
            return inside.reshape(shape)
        if ((given < 0) | (given > 1)).any():
            raise ValueError(f"init has values outside [0, 1]; method={method.name!r} starts from beliefs")
        return given.reshape(shape).copy()  # `out` may be the Beliefs that hold it

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
            biases, _, mask, values = clamp(evidence, biases, single)
            start = np.where(mask, values, start.reshape(N, nv)).astype(dtype)
        shapes = ((nv,), (nh,)) if single else ((N, nv), (N, nh))
        if out is None:
            out = Samples(np.empty(shapes[0], dtype), np.empty(shapes[1], dtype), step)
        elif not isinstance(out, Samples):
            raise TypeError(f"out is {type(out).__name__}; expected Samples")
        check.check_out("v", out.v, shapes[0], dtype)
        check.check_out("h", out.h, shapes[1], dtype)
        check.check_overlap({"v": out.v, "h": out.h}, {"W": self.W, "b_v": biases, "b_h": h_biases})
        out.v[...] = start.reshape(shapes[0])
        self.gibbs_checked(
            biases, h_biases, out.v, out.h, seed=seed, instance=first_instance, step=step, n_steps=n_steps
        )
        out.step = step + n_steps
        return out

    def gibbs_checked(
        self,
        b1: NDArray[Any],
        b2: NDArray[Any],
        v: NDArray[Any],
        h: NDArray[Any],
        *,
        seed: int,
        n_steps: int,
        instance: int = 0,
        step: int = 0,
        theta_h: NDArray[Any] | None = None,
    ) -> None:
        """`gibbs` for the rest of the package, without its checks: v (N, nv) in and out, h (N, nh) out.

        theta_h (N, nh), where the caller knows it, is b2 + v W and is not computed again.
        """
        with _Exclusive(self._lock):
            self._core.gibbs(b1, b2, v, h, seed=seed, instance=instance, step=step, n_steps=n_steps, theta_h=theta_h)


def _warn_of(beliefs: Beliefs, method: Method, tol: float) -> None:
    """Say that inference on one RBM has not converged, and what may help."""
    remedy = "raise max_iter"
    if beliefs.fell_back is None and method.damped:
        remedy += ", take damping" if method.fallback is None else f", take damping or fallback={method.fallback!r}"
    stopped = f"stopped at residual {beliefs.residual:.1e} > tol={tol:g} after {beliefs.n_iter} iterations"
    check.warn(f"{method.name} {stopped}; {remedy}", ConvergenceWarning)


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
