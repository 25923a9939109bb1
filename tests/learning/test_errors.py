"""Errors are data: fields, two notations, pickles; nothing but the fields is needed to phrase them."""

import pickle

import numpy as np
import pytest

import crbm_fast as cf
from crbm_fast import _errors
from crbm_fast import _validation as check
from crbm_fast._errors import (
    NOT_SHOWN,
    ArgumentError,
    ArgumentTypeError,
    CorruptedFileError,
    DivergenceError,
    EntryError,
    FileVersionError,
    OtherRunError,
    PhrasedError,
    RequirementError,
    command_line_notation,
)

FLAGS = {name: f"--{name.replace('_', '-')}" for name in ("damping", "batch_size", "resume", "patience", "validation")}
FLAGS |= {"learning_rate": "--learning-rate", "weight_decay": "--weight-decay", "start": "--start", "nh": "--hidden"}

# error, what Python says, what the command line says
CASES = [
    (
        ArgumentError("damping", "is outside [0, 1)", value=1.2),
        "damping=1.2 is outside [0, 1)",
        "--damping 1.2 is outside [0, 1)",
    ),
    (
        ArgumentError("X", "has shape (3,)", "expected (N, 4)"),
        "X has shape (3,); expected (N, 4)",
        "X has shape (3,); expected (N, 4)",
    ),
    (
        ArgumentTypeError("batch_size", "must be an integer", value="many"),
        "batch_size='many' must be an integer",
        "--batch-size many must be an integer",
    ),
    (
        ArgumentError("nh", "is outside [0, 9]", value=10),
        "nh=10 is outside [0, 9]",
        "--hidden 10 is outside [0, 9]",
    ),
    (EntryError("V", (3, 1), 2.0, "0 or 1"), "V[3, 1] = 2.0; expected 0 or 1", "V[3, 1] = 2.0; expected 0 or 1"),
    (
        RequirementError("patience", NOT_SHOWN, "validation", "it watches the validation error"),
        "patience needs validation: it watches the validation error",
        "--patience needs --validation: it watches the validation error",
    ),
    (
        CorruptedFileError("a.npz", "it has compressed members"),
        "a.npz is not a file of crbm_fast, or is damaged: it has compressed members",
        "a.npz is not a file of crbm_fast, or is damaged: it has compressed members",
    ),
    (
        FileVersionError("a.npz", "crbm_fast checkpoint", 1, 2),
        "a.npz is a crbm_fast checkpoint of version 1, but this crbm_fast reads version 2; finish the run with the "
        "crbm_fast that began it, or start anew with resume=False",
        "a.npz is a crbm_fast checkpoint of version 1, but this crbm_fast reads version 2; finish the run with the "
        "crbm_fast that began it, or start anew with --no-resume",
    ),
    (
        OtherRunError("a.npz", "batch_size", 40, 5),
        "checkpoint a.npz is of another run: batch_size was 40 and is 5; call with the same arguments, or with "
        "resume=False to start anew",
        "checkpoint a.npz is of another run: --batch-size was 40 and is 5; call with the same arguments, or with "
        "--no-resume to start anew",
    ),
    (
        DivergenceError(3, 2, 1e9, "a step changed a parameter by 5e+03", 0.1),
        "training diverged in epoch 3, batch 2: a step changed a parameter by 5e+03; the gradient has the norm 1e+09. "
        "Lower learning_rate (0.1), scale the features to about [-1, 1], or look at weight_decay. The model has the "
        "parameters of epoch 2.",
        "training diverged in epoch 3, batch 2: a step changed a parameter by 5e+03; the gradient has the norm 1e+09. "
        "Lower --learning-rate (0.1), scale the features to about [-1, 1], or look at --weight-decay.",
    ),
    (
        DivergenceError(1, 2, np.inf, "the biases overflow"),
        "the logistic start diverged in epoch 1, batch 2: the biases overflow; the gradient has the norm inf. Scale "
        "the features to about [-1, 1], or leave out start. The model is as it was.",
        "the logistic start diverged in epoch 1, batch 2: the biases overflow; the gradient has the norm inf. Scale "
        "the features to about [-1, 1], or leave out --start.",
    ),
]


@pytest.mark.parametrize(("error", "python", "command"), CASES, ids=lambda case: type(case).__name__)
def test_each_surface_phrases_the_fields(error, python, command):
    """The only test that pins whole sentences: others look at fields."""
    assert str(error) == python
    assert error.phrase(command_line_notation(FLAGS)) == command


@pytest.mark.parametrize("error", [case[0] for case in CASES], ids=repr)
def test_errors_survive_a_pickle(error):
    """As between processes."""
    restored = pickle.loads(pickle.dumps(error))
    assert type(restored) is type(error)
    assert vars(restored) == vars(error)
    assert str(restored) == str(error)


def test_every_error_is_in_the_table_above():
    kinds = {kind for kind in vars(_errors).values() if isinstance(kind, type) and issubclass(kind, PhrasedError)}
    shown = {type(error) for error, *_ in CASES}
    assert {kind for kind in kinds if not kind.__subclasses__()} == shown


def test_old_handlers_still_catch_them():
    kinds = {ArgumentError: ValueError, ArgumentTypeError: TypeError, EntryError: ValueError}
    kinds |= {RequirementError: ValueError, CorruptedFileError: ValueError, FileVersionError: ValueError}
    kinds |= {OtherRunError: ValueError, DivergenceError: ArithmeticError}
    for kind, base in kinds.items():
        assert issubclass(kind, base), kind
    assert cf.DivergenceError is DivergenceError


def test_a_checkpoint_is_named_where_there_is_one():
    error = DivergenceError(3, 2, 1.0, "far", 0.1, "run.npz")
    assert str(error).endswith("The model has the parameters of epoch 2, and so has the checkpoint run.npz.")


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (lambda: check.check_int("k", 2.5, 1), "k", 2.5),
        (lambda: check.check_int("k", True, 1), "k", True),
        (lambda: check.check_int("k", 0, 1), "k", 0),
        (lambda: check.check_real("tol", 2, 0, 1), "tol", 2.0),
        (lambda: check.check_real("tol", 10**400, 0, 1), "tol", np.inf),
        (lambda: check.check_real("tol", "x", 0, 1), "tol", "x"),
        (lambda: check.check_positive("rate", 0), "rate", 0.0),
        (lambda: check.check_choice("method", "bp", ("a", "b")), "method", "bp"),
        (lambda: check.check_flag("resume", 1), "resume", 1),
        (lambda: check.check_dtype("int8"), "dtype", np.dtype("int8")),
        (lambda: check.check_dtype("nonsense"), "dtype", "nonsense"),
        (lambda: check.as_numeric("W", None), "W", NOT_SHOWN),
        (lambda: check.check_weights(np.ones(3), None), "W", NOT_SHOWN),
    ],
)
def test_checks_raise_data(call, argument, value):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as error:
        call()
    assert error.value.argument == argument
    assert error.value.value is value or error.value.value == value
    assert error.value.problem


@pytest.mark.parametrize(
    ("call", "index", "value"),
    [
        (lambda: check.as_states("V", [[0, 1], [1, 3]]), (1, 1), 3),
        (lambda: check.as_float("V", [[0.0, np.inf]], np.dtype("float32")), (0, 1), np.inf),
    ],
)
def test_checks_of_arrays_say_where(call, index, value):
    with pytest.raises(EntryError) as error:
        call()
    assert (error.value.argument, error.value.index, error.value.value) == ("V", index, value)
