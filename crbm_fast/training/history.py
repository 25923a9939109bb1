"""What happened in a run, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crbm_fast import _validation as check


@dataclass(frozen=True)
class Epoch:
    """What happened in an epoch of training.

    Attributes
    ----------
    epoch : int
        Its number, from 1.
    train_error : float
        Fraction of wrong outputs on a sample of 1000 training instances.  A model without features is measured by the
        reconstruction v -> P(h | v) -> v.
    valid_error : float or None
        The same on the validation set, if there is one.
    converged : float or None
        Fraction of training instances on which inference reached `tol`; None for sampling learners.
    n_iter : float or None
        Mean iterations of inference in training.
    max_iter : int
        The largest number of iterations.
    gradient_norm : float
        Norm of the objective's gradient, weight decay included; mean over the batches.
    weight_norm : float
        Norm of all parameters together, after the epoch.
    learning_rate : float
        The learning rate of this epoch.
    seconds : dict
        Time by phase: data, biases, positive, negative, gradient, step, evaluation; and total.
    below_truth : float or None
        Fraction of training instances for which a max-margin learner found no rival that scores as high as the truth,
        see `learners.MSSVM`; None for other learners.
    """

    epoch: int
    train_error: float
    valid_error: float | None
    converged: float | None
    n_iter: float | None
    max_iter: int
    gradient_norm: float
    weight_norm: float
    learning_rate: float
    seconds: dict[str, float]
    below_truth: float | None = None


class History(list[Epoch]):
    """The epochs of a run, in order: a list.  Printed, it is a table in which * marks the best epoch.

    Attributes
    ----------
    best_epoch : int or None
        Epoch with the lowest validation error, whose parameters the model has; None without validation.
    """

    def __init__(self, epochs: Iterable[Epoch] = (), best_epoch: int | None = None) -> None:
        super().__init__(epochs)
        self.best_epoch = best_epoch

    def column(self, name: str) -> list[Any]:
        """One attribute of every epoch, such as "valid_error"."""
        check.check_choice("name", name, tuple(Epoch.__dataclass_fields__))
        return [getattr(epoch, name) for epoch in self]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, best_epoch={self.best_epoch})"

    def __str__(self) -> str:
        def percent(x: float | None) -> str:
            return "-" if x is None else f"{100 * x:.3f}"

        margin = any(e.below_truth is not None for e in self)
        rows = [
            "epoch  train %  valid %  converged %  iterations  |gradient|   |weights|  seconds"
            + "  below truth %" * margin
        ]
        for e in self:
            n_iter = "-" if e.n_iter is None else f"{e.n_iter:.1f}"
            converged = "-" if e.converged is None else f"{100 * e.converged:.1f}"
            mark = "*" if e.epoch == self.best_epoch else " "
            rows.append(
                f"{e.epoch:5d}{mark} {percent(e.train_error):>7}  {percent(e.valid_error):>7}  {converged:>11}"
                f"  {n_iter:>4} of {e.max_iter:<3d} {e.gradient_norm:10.3g}  {e.weight_norm:10.4g}"
                f"  {e.seconds['total']:7.2f}" + f"  {percent(e.below_truth):>13}" * margin
            )
        return "\n".join(rows)
