"""The table of inference methods, and a method together with its options.

`infer`, `Inference`, the learners, `log_partition`, the benchmark and the tests ask METHODS which methods there are and
what they can do.  The arithmetic of a method is one file of csrc/methods; `exact` is inference/exact.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from crbm_fast import _validation as check

Fallback = Literal["bethe", "mixed-ascent", "max-ascent"]

# Iterations of a prediction whose `Inference` does not say how many.
DEFAULT_MAX_ITER = 50

# How many times as many iterations a fallback may take.
FALLBACK_ITERATIONS = 10


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    name : str
    state : {"edges", "units"} or None
        What it carries from one iteration to the next, and so what `init`, `messages` and warm starts hold: a log
        message per edge, (nv, nh); a belief per unit, (nv + nh,); or nothing.
    marginals : bool
        Whether its beliefs are estimates of marginals, from which maximum likelihood can learn.
    named_inits : tuple of str
        Initial states that `init` accepts by name.
    damped : bool
        Whether it takes `damping`.
    fallback : str or None
        The method by which instances can go on that it has not converged on.
    log_z : str or None
        The name of its estimate of log Z in `CRBM.log_partition`; None if it maximises and estimates no log Z.
    """

    name: str
    state: Literal["edges", "units"] | None
    marginals: bool
    named_inits: tuple[str, ...] = ()
    damped: bool = True
    fallback: str | None = None
    log_z: str | None = None

    def state_shape(self, nv: int, nh: int) -> tuple[int, ...]:
        """The shape of what one instance carries from iteration to iteration."""
        if self.state is None:
            return ()
        return (nv, nh) if self.state == "edges" else (nv + nh,)


METHODS = {
    method.name: method
    for method in (
        Method("sum-product", state="edges", marginals=True, fallback="bethe", log_z="bethe"),
        Method("mixed-product", state="units", marginals=False, fallback="mixed-ascent"),
        Method("max-product", state="edges", marginals=False, fallback="max-ascent"),
        Method("mixed-ascent", state="units", marginals=False, damped=False),
        Method("max-ascent", state="units", marginals=False, damped=False),
        Method("mean-field", state="units", marginals=True, named_inits=("visible",), log_z="mean-field"),
        Method("tap", state="units", marginals=True, named_inits=("visible",), log_z="tap"),
        Method("bethe", state="units", marginals=True, damped=False, log_z="bethe-descent"),
        Method("exact", state=None, marginals=True, log_z="exact"),
    )
}


def method_named(name: Any) -> Method:
    """The row of that name; ValueError for any other."""
    check.check_choice("method", name, tuple(METHODS))
    return METHODS[name]


def check_options(method: Method, max_iter: Any, tol: Any, damping: Any) -> tuple[int, float, float]:
    """The options that every method has, after their checks."""
    options = (
        check.check_int("max_iter", max_iter, 1),
        check.check_real("tol", tol, 0, np.inf),
        check.check_real("damping", damping, 0, 1),
    )
    if options[2] > 0 and not method.damped:
        raise ValueError(f"damping={damping!r}: method={method.name!r} cannot oscillate; leave damping out")
    return options


def check_fallback(fallback: Any) -> None:
    """Raise ValueError unless `fallback` is None or the fallback of some method."""
    check.check_choice("fallback", fallback, (None, *(row.fallback for row in METHODS.values() if row.fallback)))


def check_named_init(init: Any, method: Method) -> None:
    """Raise ValueError unless `init` is None or an initial state that the method knows by name."""
    if init is None:
        return
    known = tuple(dict.fromkeys(name for row in METHODS.values() for name in row.named_inits))
    check.check_choice("init", init, (None, *known))
    if init not in method.named_inits:
        others = " and ".join(row.name for row in METHODS.values() if init in row.named_inits)
        raise ValueError(f"init={init!r} is for {others}; method={method.name!r} has no such initial state")


@dataclass(frozen=True)
class Inference:
    """A method of inference with its options: how a model predicts, and how a learner infers.

    Training leaves here what it used itself, because inference for training and for prediction should be the same
    ([1]_, Section 6).

    Parameters
    ----------
    method : str
        One of `METHODS`.
    max_iter : int, optional
        The largest number of iterations.  Default: 50 in a prediction, and the paper's 7 + epoch in training.
    tol : float
        An instance is finished when no belief changed by more.
    damping : float in [0, 1)
        The weight of the old message, see `infer`.
    init : {"visible"}, optional
        Where mean field and TAP begin, see `infer`.
    fallback : {"bethe", "mixed-ascent", "max-ascent"}, optional
        How instances go on that sum-product, mixed-product or max-product has not converged on, see `infer`.  With
        tol = 0, which asks for a number of iterations, none does.

    References
    ----------
    .. [1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
    """

    method: str = "sum-product"
    max_iter: int | None = None
    tol: float = 1e-3
    damping: float = 0.0
    init: Literal["visible"] | None = None
    fallback: Fallback | None = None

    def __post_init__(self) -> None:
        row = method_named(self.method)
        check_named_init(self.init, row)
        max_iter, tol, damping = check_options(row, self.iterations, self.tol, self.damping)
        check_fallback(self.fallback)
        if self.fallback not in (None, row.fallback):
            whose = next(other.name for other in METHODS.values() if other.fallback == self.fallback)
            raise ValueError(f"fallback={self.fallback!r} is for method={whose!r}; got method={self.method!r}")
        check.set_fields(self, max_iter=None if self.max_iter is None else max_iter, tol=tol, damping=damping)

    def in_epoch(self, epoch: int) -> Self:
        """The inference of that epoch of training, from 1: 7 + epoch iterations unless `max_iter` says otherwise."""
        return replace(self, max_iter=7 + epoch) if self.max_iter is None else self

    @property
    def iterations(self) -> int:
        """`max_iter`, or the 50 iterations of a prediction where it is None."""
        return DEFAULT_MAX_ITER if self.max_iter is None else self.max_iter

    def concrete(self) -> Self:
        """The inference of a prediction, whose `max_iter` is a number."""
        return replace(self, max_iter=self.iterations)
