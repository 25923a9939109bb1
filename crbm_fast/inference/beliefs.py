"""What inference and Gibbs sampling return, and the arrays that they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _validation as check

Gamma = bool | Literal["sum"]


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
        The number of iterations done, those of a fallback included.
    converged : bool or (N,) bool
        Whether `residual <= tol`.
    residual : float or (N,) float64
        The largest change of a belief in the last iteration, divided by `1 - damping`, so that a damped step counts as
        the whole one.  In the first iteration, and with damping, also the largest relative change of a message v -> h
        before damping (sum-product and max-product).  For mixed-product the change that its messages make before
        damping, in the beliefs and in what v sends.  For descent (bethe) how far the odds of a
        unit were from those that its neighbours call for, 1 - smaller / larger, which neither small steps nor saturated
        beliefs hide; for coordinate ascent (mixed-ascent, max-ascent) what the best
        flip gains.
    gamma : (nv, nh), (N, nv, nh), or None
        Pairwise beliefs P(v_i = 1, h_j = 1); see `infer`.
    log_z : float, (N,) float64, or None
        The estimate of the log partition function, or of the value maximised; see `infer`.
    fell_back : bool, (N,) bool, or None
        Which instances went on by `fallback`; None where there was none.
    messages : (nv, nh), (N, nv, nh) or, for methods with a belief per unit, (nv + nh,), (N, nv + nh); or None
        The state from which `init=` continues; after a fallback still that of the method itself.
    """

    tau_v: NDArray[Any]
    tau_h: NDArray[Any]
    n_iter: Any
    converged: Any
    residual: Any
    gamma: NDArray[Any] | None = None
    log_z: Any = None
    messages: NDArray[Any] | None = None
    fell_back: Any = None

    def moments_at_prediction(self) -> NDArray[Any]:
        """v tau_h' at the predicted v, (nv, nh), summed over a batch.

        After mixed-product, tau_h is E[h | v] at that v, and these are the moments in the gradient of Eq. 7.
        """
        v = np.atleast_2d(self.tau_v > 0.5).astype(self.tau_h.dtype)
        moments: NDArray[Any] = v.T @ np.atleast_2d(self.tau_h)
        return moments

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


Layout = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]

_INT, _BOOL, _DOUBLE = np.dtype(np.int64), np.dtype(np.bool_), np.dtype(np.float64)


def layout(
    N: int | None,
    nv: int,
    nh: int,
    dtype: np.dtype[Any],
    gamma: Gamma,
    log_z: bool,
    state: tuple[int, ...] | None,
    fallback: bool = False,
) -> Layout:
    """Shape and dtype of every array of the `Beliefs` of N instances, or of one RBM where N is None.

    `state` is the shape of an instance's messages, or None where they are not asked for.
    """
    batch = () if N is None else (N,)
    wanted: Layout = {"tau_v": ((*batch, nv), dtype), "tau_h": ((*batch, nh), dtype)}
    if N is not None:
        wanted |= {"n_iter": (batch, _INT), "converged": (batch, _BOOL), "residual": (batch, _DOUBLE)}
        if log_z:
            wanted["log_z"] = batch, _DOUBLE
        if fallback:
            wanted["fell_back"] = batch, _BOOL
    if gamma:
        wanted["gamma"] = ((nv, nh) if gamma == "sum" else (*batch, nv, nh)), dtype
    if state is not None:
        wanted["messages"] = (*batch, *state), dtype
    return wanted


def new_beliefs(wanted: Layout) -> Beliefs:
    """Beliefs with new arrays."""
    made: dict[str, Any] = {"n_iter": 0, "converged": False, "residual": np.inf}
    return Beliefs(**made | {name: np.empty(shape, kind) for name, (shape, kind) in wanted.items()})


def check_beliefs(out: Any, wanted: Layout, inputs: dict[str, Any]) -> Beliefs:
    """The user's `out`, if every array fits and shares no memory with the inputs."""
    if not isinstance(out, Beliefs):
        raise TypeError(f"out is {type(out).__name__}; expected Beliefs, such as an earlier call returned")
    given = {name: check.check_out(name, getattr(out, name), shape, kind) for name, (shape, kind) in wanted.items()}
    check.check_overlap(given, inputs)
    return out
