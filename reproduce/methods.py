"""The paper's eight methods.

A method is a learner, the options that make it this method, and the inference of its predictions: mean field for the
CD methods and MLE-MF, the belief propagation of training for the others ([1], section 6).

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """A row of the paper's tables.

    Attributes
    ----------
    name : str
    learner : str
        The learner's name, one of `crbm_fast.learners.LEARNERS`.
    inference : str or None
        The method of inference in training and prediction; None for logistic regression, which needs none.
    options : mapping
        Further options of the learner.  No recipe may change them.
    """

    name: str
    learner: str
    inference: str | None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_hidden_units(self) -> bool:
        """Whether the model has hidden units; without them it is a logistic regression for each output."""
        return self.inference is not None

    def facts(self) -> dict[str, Any]:
        """What the method is, for JSON."""
        return {"name": self.learner, **self.options, "inference": self.inference}


# In the order of the tables.
METHODS = {
    method.name: method
    for method in (
        Method("LR", "logistic", None),
        Method("CD-1", "cd", "mean-field", {"k": 1}),
        Method("CD-10", "cd", "mean-field", {"k": 10}),
        Method("CD-PercLoss", "percloss", "mean-field", {"k": 10}),
        Method("MLE-MF", "mle", "mean-field"),
        Method("MLE-BP", "mle", "sum-product"),
        Method("LSSVM", "lssvm", "max-product"),
        Method("MSSVM", "mssvm", "mixed-product"),
    )
}
