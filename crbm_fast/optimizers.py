"""Optimizers: gradient ascent on the parameters, each step one pass in C.

    SGD, Adam    how a gradient becomes a step
    SCHEDULES    how the learning rate changes over the epochs
    average      a moving average of the parameters over the steps

`weight_decay` belongs to the objective, mean log-likelihood (or minus loss) - weight_decay/2 |W|^2, so it means the
same for every optimizer; biases are not decayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _algebra
from crbm_fast import _validation as check

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """The options of an optimizer.  Its state is a dictionary of arrays that `first_state` makes and `step` changes."""

    learning_rate: float

    name: ClassVar[str]

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the arrays that the state has for each parameter."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        check.set_fields(self, learning_rate=check.check_positive("learning_rate", self.learning_rate))

    def first_state(self, parameters: Arrays) -> dict[str, NDArray[Any]]:
        """The state before the first step."""
        return {f"{kept}.{name}": np.zeros_like(p) for kept in self.state_names for name, p in parameters.items()}

    def step(
        self,
        parameters: Arrays,
        gradient: Arrays,
        state: Arrays,
        *,
        t: int,
        factor: float,
        rates: Mapping[str, float],
        weight_decay: float,
        n_threads: int,
    ) -> tuple[float, float]:
        """Take a step, in place.

        Parameters
        ----------
        parameters, gradient : mapping of arrays
            By name; every parameter has a gradient of its shape.
        state : mapping of arrays
            What `first_state` made and earlier steps changed.
        t : int
            Number of the step, from 1.
        factor : float
            Factor of the learning rate.
        rates : mapping of floats
            Further factors for some of the parameters.
        weight_decay : float
        n_threads : int

        Returns
        -------
        change : float
            The largest absolute change of an entry.
        norm : float
            Norm of the gradient, weight decay included.  If it is not finite, the parameters are lost.
        """
        changes, squares = zip(
            *(
                self._step_on(
                    p,
                    gradient[name],
                    {kept: state[f"{kept}.{name}"] for kept in self.state_names},
                    t=t,
                    rate=factor * rates.get(name, 1.0) * self.learning_rate,
                    decay=weight_decay if name.startswith("W") else 0.0,
                    n_threads=n_threads,
                )
                for name, p in parameters.items()
            ),
            strict=True,
        )
        return max(changes), math.sqrt(sum(squares))

    def _step_on(
        self, p: NDArray[Any], g: NDArray[Any], state: Arrays, *, t: int, rate: float, decay: float, n_threads: int
    ) -> tuple[float, float]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Gradient ascent with momentum: u := momentum u + g, then p := p + learning_rate u.

    Parameters
    ----------
    learning_rate : float
    momentum : float in [0, 1)
    """

    learning_rate: float = 0.05
    momentum: float = 0.9

    name: ClassVar[str] = "sgd"

    @property
    def state_names(self) -> tuple[str, ...]:
        return ("velocity",) if self.momentum > 0 else ()

    def __post_init__(self) -> None:
        check.set_fields(self, momentum=check.check_real("momentum", self.momentum, 0, 1))
        super().__post_init__()

    def _step_on(
        self, p: NDArray[Any], g: NDArray[Any], state: Arrays, *, t: int, rate: float, decay: float, n_threads: int
    ) -> tuple[float, float]:
        return _algebra.momentum_step(
            p, state.get("velocity"), g, rate=rate, momentum=self.momentum, decay=decay, n_threads=n_threads
        )


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam [1]_.

    Parameters
    ----------
    learning_rate : float
    beta1, beta2 : float in [0, 1)
        Decay of the running means of the gradient and of its square.
    epsilon : float

    References
    ----------
    .. [1] Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    learning_rate: float = 0.002
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    name: ClassVar[str] = "adam"

    @property
    def state_names(self) -> tuple[str, ...]:
        return "mean", "square"

    def __post_init__(self) -> None:
        check.set_fields(
            self,
            beta1=check.check_real("beta1", self.beta1, 0, 1),
            beta2=check.check_real("beta2", self.beta2, 0, 1),
            epsilon=check.check_real("epsilon", self.epsilon, 1e-30, np.inf),  # not 0 in float32
        )
        super().__post_init__()

    def _step_on(
        self, p: NDArray[Any], g: NDArray[Any], state: Arrays, *, t: int, rate: float, decay: float, n_threads: int
    ) -> tuple[float, float]:
        correction = math.sqrt(1 - self.beta2**t)
        return _algebra.adam_step(
            p,
            state["mean"],
            state["square"],
            g,
            rate=rate * correction / (1 - self.beta1**t),
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon * correction,
            decay=decay,
            n_threads=n_threads,
        )


def average(averages: Arrays, parameters: Arrays, *, t: int, decay: float, n_threads: int) -> None:
    """Update exponential moving averages, in place, by the parameters after step number t, from 1.

    averages := decay averages + (1 - decay) parameters; until t reaches 1 / (1 - decay) they are plain means of all
    parameters so far, those before the first step included.
    """
    for name, p in parameters.items():
        # a += rate (p - a): a momentum step without momentum, on the gradient p with weight decay 1
        _algebra.momentum_step(
            averages[name], None, p, rate=max(1 - decay, 1 / (t + 1)), momentum=0, decay=1, n_threads=n_threads
        )


OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {kind.name: kind for kind in (SGD, Adam)}

# {name: function of (epoch, epochs), from 1, that gives a factor of the learning rate}
SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant": lambda e, E: 1.0,
    "linear": lambda e, E: 1 - (e - 1) / E,
    "cosine": lambda e, E: 0.5 * (1 + math.cos(math.pi * (e - 1) / E)),
}


def as_optimizer(optimizer: Any, learning_rate: float | None) -> Optimizer:
    """`optimizer` itself, or the one of that name; with another learning rate if one is given."""
    if isinstance(optimizer, Optimizer):
        chosen = optimizer
    else:
        check.check_choice("optimizer", optimizer, tuple(OPTIMIZERS))
        chosen = OPTIMIZERS[optimizer]()
    return chosen if learning_rate is None else replace(chosen, learning_rate=learning_rate)


def as_schedule(schedule: Any) -> Callable[[int, int], float]:
    """`schedule` itself, a function of (epoch, epochs), or the one of that name."""
    if callable(schedule):
        return schedule  # type: ignore[no-any-return]
    check.check_choice("schedule", schedule, tuple(SCHEDULES))
    return SCHEDULES[schedule]
