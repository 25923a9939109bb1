"""`crbm-fast predict`: the outputs that a trained model gives for the features of a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from crbm_fast import _files
from crbm_fast.cli.shared import CommandError, add_command, check_out, read_data, threads
from crbm_fast.datasets import error_all
from crbm_fast.inference import METHODS
from crbm_fast.model import CRBM

EPILOG = """\
MODEL is what `crbm-fast train` or model.save has written. DATA is an .npz with X (N, nx); if it has V (N, nv), too, the
share of wrong outputs is printed. Inference is that of training unless an option says otherwise.

examples:
  crbm-fast predict model.npz new.npz --out outputs.npz            an .npz with V (N, nv), uint8
  crbm-fast predict model.npz new.npz --out proba.npy --proba      P(v = 1 | x), (N, nv), as a plain .npy
  crbm-fast predict model.npz test.npz                             the error alone
  crbm-fast predict model.npz test.npz --method mixed-product --max-iter 100

exit code: 0 done, 2 a mistake in the command, its files or its data, 130 interrupted
"""


def add_parser(commands: Any) -> None:
    """Add `predict` to the subparsers."""
    parser = add_command(
        commands,
        "predict",
        run,
        help="outputs of a trained model for other features",
        description="Predict the outputs V for features X by a trained model.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL.npz", help="the trained model")
    add("data", type=Path, metavar="DATA.npz", help="the array X; with V, the error is printed")
    add("--out", type=Path, metavar="FILE", help="an .npz with V (with --proba, proba), or a .npy of it alone")
    add("--force", action="store_true", help="replace FILE if it exists")
    add("--proba", action="store_true", help="write probabilities in place of 0 and 1")
    add(
        "--method",
        choices=tuple(METHODS),
        metavar="METHOD",
        help="inference, in place of that of training: " + ", ".join(METHODS),
    )
    add("--max-iter", type=int, metavar="N", help="iterations of the inference at most")
    add("--tol", type=float, metavar="TOL", help="the inference ends when no belief changes by more")
    add("--damping", type=float, metavar="D", help="damping of its messages")
    add("--threads", type=threads, metavar="N", help="threads (default: the cores there are); same bits for any N")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if args.out is not None:
        if args.out.suffix not in (".npy", ".npz"):
            raise CommandError(f"--out {args.out} ends neither in .npz nor in .npy, the formats there are")
        check_out("--out", args.out, force=args.force, others={"MODEL": args.model, "DATA": args.data})
    model = CRBM.load(args.model, n_threads=args.threads)
    if model.nx == 0:
        raise CommandError(
            f"{args.model} is a model without features: there is nothing to predict from; "
            "crbm_fast.RBM.load(FILE).sample() draws from it"
        )
    arrays = read_data(args.data)
    X, V = arrays.get("X"), arrays.get("V")
    for name, array, width in (("X", X, model.nx), ("V", V, model.nv)):
        if array is not None and array.shape[1] != width:
            raise CommandError(f"{args.data}: {name} has {array.shape[1]} columns; {args.model} has {width}")
    if X is None:
        raise CommandError(f"{args.data} has no X, the features; make it with numpy.savez(FILE, X=X)")
    if args.out is None and V is None:
        raise CommandError(f"nothing to do: name a file for the outputs, --out FILE; {args.data} has no V to compare")
    chosen = {name: getattr(args, name) for name in ("method", "max_iter", "tol", "damping")}
    how = {name: value for name, value in chosen.items() if value is not None}
    result = model.predict_proba(X, **how) if args.proba else model.predict(X, **how)
    if args.out is not None:
        with _files.replacing(args.out) as file:
            if args.out.suffix == ".npy":
                np.save(file, result, allow_pickle=False)
            else:
                np.savez(file, allow_pickle=False, **{"proba" if args.proba else "V": result})
        print(f"wrote {args.out}: {'probabilities' if args.proba else 'outputs'} {result.shape}, {result.dtype}")
    if V is not None:
        error = error_all(V, result > 0.5)
        print(f"{100 * error:.3f} % of the outputs wrong, on {len(V)} instances of {model.nv}")
    return 0
