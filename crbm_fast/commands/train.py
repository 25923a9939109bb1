"""`crbm-fast train`: `crbm_fast.train` on the arrays of a file, its options those of the function."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from crbm_fast.commands.shared import CommandError, add_command, check_out, natural, positive, read_data, real, threads
from crbm_fast.learners import LEARNERS
from crbm_fast.model import CRBM, RBM
from crbm_fast.optimizers import Adam
from crbm_fast.training import DivergenceError, train

EPILOG = """\
DATA is an .npz with V (N, nv), outputs of 0 and 1, and X (N, nx), features of any real numbers; without X the model is
a plain RBM. From Python: numpy.savez("data.npz", X=X, V=V). The history of the epochs is printed at the end; with
--validation the model is that of the epoch marked *.

examples:
  crbm-fast train data.npz --out model.npz --validation 0.1
  crbm-fast train data.npz --out model.npz --hidden 256 --epochs 30 --learning-rate 0.01 --schedule linear \\
      --start logistic --centering features --averaging 0.999 --weight-decay 0.001 --validation 0.1
  crbm-fast train data.npz --out svm.npz --learner mssvm --validation 0.1 --patience 5
  crbm-fast train data.npz --out model.npz --checkpoint run.npz        killed, the same command goes on where it was

Afterwards: crbm-fast predict model.npz new.npz --out outputs.npz, or crbm_fast.CRBM.load("model.npz") in Python.

exit code: 0 the model is there, 1 training diverged, 2 a mistake in the command, its files or its data, 130 interrupted
"""

HIDDEN = 100


def add_parser(commands: Any) -> None:
    """Add `train` to the subparsers."""
    parser = add_command(
        commands,
        "train",
        run,
        help="learn a model from features and outputs in a file",
        description="Learn a conditional RBM, outputs V given features X, and write it to a file.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("data", type=Path, metavar="DATA.npz", help="the arrays X and V, or V alone")
    add("--out", type=Path, required=True, metavar="MODEL.npz", help="file of the trained model")
    add("--force", action="store_true", help="replace MODEL.npz if it exists")
    add(
        "--learner",
        choices=tuple(LEARNERS),
        default="mle",
        help="mle: maximum likelihood by BP; mssvm, lssvm: max-margin by BP; cd, pcd, percloss: contrastive "
        "divergence; logistic: regression without hidden units (default mle)",
    )
    add("--hidden", type=natural, metavar="NH", help=f"hidden units (default {HIDDEN}; 0 for logistic)")
    add("--epochs", type=natural, default=20, metavar="N", help="passes over the data (default 20)")
    add("--batch-size", type=positive, default=40, metavar="N", help="instances per step (default 40)")
    add(
        "--learning-rate",
        type=real(0, np.inf, above=True),
        metavar="RATE",
        help=f"of Adam (default {Adam().learning_rate:g})",
    )
    add(
        "--schedule",
        choices=("constant", "linear", "cosine"),
        default="constant",
        help="how the learning rate falls over the epochs (default constant)",
    )
    add(
        "--weight-decay",
        type=real(0, np.inf),
        default=0.0,
        metavar="DECAY",
        help="the objective loses DECAY / 2 |W|^2 (default 0)",
    )
    add("--start", choices=("logistic",), help="begin with a quick logistic fit; BP then converges more often")
    add("--centering", choices=("features", "all"), help="take steps in centred coordinates")
    add("--averaging", type=real(0, 1), metavar="DECAY", help="moving average of the parameters, such as 0.999")
    add(
        "--validation",
        type=real(0, 1, above=True),
        metavar="FRACTION",
        help="share of the instances to set aside; the model is then that of the best epoch",
    )
    add("--patience", type=positive, metavar="N", help="stop after N epochs without a lower validation error")
    add("--seed", type=natural, default=0, help="of the initial weights and everything random (default 0)")
    add("--dtype", choices=("float32", "float64"), default="float32", help="precision (default float32)")
    add("--threads", type=threads, metavar="N", help="at most (default: the cores there are); same bits for any N")
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="written after each epoch; if it exists, training goes on from it",
    )
    add(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="go on from the checkpoint (the default), or start anew",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if args.patience is not None and args.validation is None:
        raise CommandError("--patience needs --validation FRACTION: it watches the validation error")
    check_out("--out", args.out, force=args.force, others={"DATA": args.data, "--checkpoint": args.checkpoint})
    if args.checkpoint is not None:
        check_out("--checkpoint", args.checkpoint, force=True, others={"DATA": args.data})
        if args.checkpoint.exists() and not zipfile.is_zipfile(args.checkpoint):
            raise CommandError(f"--checkpoint {args.checkpoint} exists and is no checkpoint; name another file")
    model, X, V = _model(args)
    try:
        with _told():
            history = train(
                model,
                X,
                V,
                args.learner,
                epochs=args.epochs,
                batch_size=args.batch_size,
                learning_rate=args.learning_rate,
                schedule=args.schedule,
                weight_decay=args.weight_decay,
                start=args.start,
                centering=args.centering,
                averaging=args.averaging,
                validation=args.validation,
                patience=args.patience,
                seed=args.seed,
                checkpoint=args.checkpoint,
                resume=args.resume and args.checkpoint is not None,
            )
    except ValueError as error:
        raise CommandError(_as_options(str(error))) from error
    except DivergenceError as error:
        # "The model has the parameters of epoch 3": of no use here, nothing is written
        text = _as_options(str(error)).split(" The model ")[0]
        raise DivergenceError(f"{text} {args.out} was not written.", error.epoch, error.batch, error.norm) from None
    except KeyboardInterrupt:
        again = "the same command with --checkpoint FILE could have gone on"
        if args.checkpoint is not None:
            again = "the same command goes on from the last whole epoch"
        raise KeyboardInterrupt(f"{args.out} was not written; {again}") from None
    model.save(args.out)
    print(history)
    print(f"wrote {args.out}: {model}")
    return 0


def _model(args: argparse.Namespace) -> tuple[CRBM, Any, Any]:
    """The model before training, X (or None) and V."""
    arrays = read_data(args.data)
    if "V" not in arrays:
        raise CommandError(f"{args.data} has no V, the outputs to learn; make it with numpy.savez(FILE, X=X, V=V)")
    X, V = arrays.get("X"), arrays["V"]
    for option, value in (("--start", args.start), ("--learner", args.learner)):
        if X is None and value == "logistic":
            raise CommandError(f"{option} logistic needs features, but {args.data} has no X")
    nh = args.hidden if args.hidden is not None else 0 if args.learner == "logistic" else HIDDEN
    keywords = {"seed": args.seed, "dtype": args.dtype, "n_threads": args.threads}
    model = RBM(V.shape[1], nh, **keywords) if X is None else CRBM(V.shape[1], nh, X.shape[1], **keywords)
    return model, X, V


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """A line per epoch on stderr where `train` shows no bar."""
    if sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None:
        yield
        return
    logger, handler = logging.getLogger("crbm_fast"), logging.StreamHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _as_options(message: str) -> str:
    """A message of `train` with the names that the user knows."""
    message = message.replace("resume=False", "--no-resume").replace("validation=", "--validation ")
    return re.sub(r"\b(learning|batch|weight)_(rate|size|decay)\b", r"--\1-\2", message)
