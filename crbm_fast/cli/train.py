"""`crbm-fast train`: `crbm_fast.train` on the arrays of a file; its flags are made from `training.Options`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crbm_fast._errors import DivergenceError, RequirementError, command_line_notation
from crbm_fast.cli.shared import CommandError, add_command, check_out, natural, read_data, threads
from crbm_fast.learners import LEARNERS
from crbm_fast.model import CRBM, RBM
from crbm_fast.training import Options, train
from crbm_fast.training.options import documentation, fields, flags

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
# Where a command differs from the function: given again, it goes on.
DEFAULTS = {"resume": True}


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
    add("--hidden", dest="nh", type=natural, metavar="NH", help=f"hidden units (default {HIDDEN}; 0 for logistic)")
    add("--dtype", choices=("float32", "float64"), default="float32", help="precision (default float32)")
    add("--threads", type=threads, metavar="N", help="threads (default: the cores there are); same bits for any N")
    for name in flags():
        add_option(parser, name)


def add_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the flag of a training option."""
    flag, default, text = flags()[name], DEFAULTS.get(name, fields()[name].default), documentation(name).summary
    text = text[0].lower() + text[1:]
    if default is not None:
        shown = {True: "yes", False: "no"}[default] if isinstance(default, bool) else default
        text += f" (default {shown:g})" if isinstance(shown, float) else f" (default {shown})"
    keywords: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
    if flag.parse is not None:
        keywords = {"type": flag.parse, "metavar": flag.metavar, "choices": flag.choices}
    parser.add_argument(f"--{name.replace('_', '-')}", default=default, help=text.replace("%", "%%"), **keywords)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    given = {name: getattr(args, name) for name in flags()}
    given["resume"] = args.resume and args.checkpoint is not None
    options = Options(**given)
    check_out("--out", args.out, force=args.force, others={"DATA": args.data, "--checkpoint": args.checkpoint})
    if args.checkpoint is not None:
        check_out("--checkpoint", args.checkpoint, force=True, others={"DATA": args.data})
        if args.checkpoint.exists() and not zipfile.is_zipfile(args.checkpoint):
            raise CommandError(f"--checkpoint {args.checkpoint} exists and is no checkpoint; name another file")
    model, X, V = _model(args)
    write = command_line_notation(args.flags)
    try:
        with _epochs_on_stderr():
            history = train(model, X, V, args.learner, **vars(options))
    except RequirementError as error:
        if error.requirement != "features":
            raise
        needy = write(error.argument, error.value)
        raise CommandError(f"{needy} needs features, but {args.data} has no X") from error
    except DivergenceError as error:
        raise CommandError(f"{error.phrase(write)} {args.out} was not written.", exit_code=1) from error
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
    nh = args.nh
    if nh is None:
        nh = HIDDEN if "W_vh" in LEARNERS[args.learner].trains else 0
    keywords = {"seed": args.seed, "dtype": args.dtype, "n_threads": args.threads}
    model = RBM(V.shape[1], nh, **keywords) if X is None else CRBM(V.shape[1], nh, X.shape[1], **keywords)
    return model, X, V


@contextlib.contextmanager
def _epochs_on_stderr() -> Iterator[None]:
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
