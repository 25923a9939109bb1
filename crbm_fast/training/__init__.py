"""Training: `train` and its options, and the parts that the scikit-learn estimators use too.

    train.py       train: checks, then the loop            options.py     Options: every option, its check, its text
    loop.py        epochs, callbacks, checkpoints          run.py         Run: the state between epochs, one epoch
    initial.py     the logistic fit of start="logistic"    centering.py   centred coordinates
    checkpoint.py  the state of a run in a file            history.py     Epoch, History
    progress.py    the log and the progress bar

Everything random is drawn from (seed, epoch, batch), so a run that was killed and resumed from its last checkpoint ends
with the same bits as one that was not.
"""

from crbm_fast._errors import DivergenceError
from crbm_fast.training.history import Epoch, History
from crbm_fast.training.options import Options
from crbm_fast.training.train import train

__all__ = ["DivergenceError", "Epoch", "History", "Options", "train"]
