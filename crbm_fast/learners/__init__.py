"""Learners: each turns a minibatch into a gradient; base.py holds what they share.

mle.py       MLE        maximum likelihood, with the marginals of an inference method
cd.py        CD         k steps of Gibbs sampling from the data, a random state or the logistic part
pcd.py       PCD        chains that persist
percloss.py  PercLoss   CD-PercLoss
margin.py    MSSVM      loss-augmented marginal MAP
             LSSVM      loss-augmented MAP
logistic.py  Logistic   the logistic part alone
"""

from __future__ import annotations

from typing import Any

from crbm_fast import _validation as check
from crbm_fast.learners.base import Batch, Learner, Negative, Workspace
from crbm_fast.learners.cd import CD
from crbm_fast.learners.logistic import Logistic
from crbm_fast.learners.margin import LSSVM, MSSVM
from crbm_fast.learners.mle import MLE
from crbm_fast.learners.pcd import PCD
from crbm_fast.learners.percloss import PercLoss

LEARNERS = {kind.name: kind for kind in (MLE, CD, PCD, PercLoss, MSSVM, LSSVM, Logistic)}


def as_learner(learner: Any) -> Learner:
    """`learner` itself, or the learner of that name with its defaults."""
    if isinstance(learner, Learner):
        return learner
    check.check_choice("learner", learner, tuple(LEARNERS))
    return LEARNERS[learner]()


__all__ = [
    "CD",
    "LEARNERS",
    "LSSVM",
    "MLE",
    "MSSVM",
    "PCD",
    "Batch",
    "Learner",
    "Logistic",
    "Negative",
    "PercLoss",
    "Workspace",
    "as_learner",
]
