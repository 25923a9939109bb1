"""The options of training: the one place where each is named, typed, defaulted, documented and checked.

`train`'s signature and documentation, the parameters of the scikit-learn estimators, the flags of `crbm-fast train` and
what a checkpoint compares before a run goes on are all made from the fields of `Options`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from crbm_fast import _validation as check
from crbm_fast._errors import NOT_SHOWN, ArgumentError, ArgumentTypeError, RequirementError
from crbm_fast.model import CRBM, PARAMETERS
from crbm_fast.optimizers import OPTIMIZERS, SCHEDULES, Optimizer, as_optimizer, as_schedule
from crbm_fast.training.history import Epoch

Callback = Callable[[Epoch, CRBM], Any]
Check = Callable[[str, Any], Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Flag:
    """How an option is written on a command line; its text there is the first sentence of its documentation.

    Parameters
    ----------
    parse : callable, optional
        It makes the value from the text; None for a flag that is set or not.
    metavar : str, optional
        What stands for the value in the help.
    choices : sequence of str, optional
        The texts that are allowed.
    """

    parse: Callable[[str], Any] | None = str
    metavar: str | None = None
    choices: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Documentation:
    """What is written about an option: its type as numpydoc writes it, and sentences."""

    type: str
    text: str

    @property
    def summary(self) -> str:
        """The first sentence, without its full stop."""
        return self.text.split(". ")[0].removesuffix(".")


def _option(
    default: Any,
    type_: str,
    text: str,
    check: Check,
    *,
    flag: Flag | None = None,
    same_in_resumed_run: bool = True,
) -> Any:
    """A field of `Options`; `check` gets its name and value, None excepted if that is the default."""
    return dataclasses.field(
        default=default,
        metadata={
            "documentation": Documentation(type_, text),
            "check": check,
            "flag": flag,
            "same_in_resumed_run": same_in_resumed_run,
        },
    )


# --- checks: functions of (name, value) that return the value; NumPy's numbers become plain ones


def _integer(low: int, high: int = 2**31 - 1) -> Check:
    return lambda name, value: check.check_int(name, value, low, high)


def _real(below: float = math.inf) -> Check:
    return lambda name, value: check.check_real(name, value, 0, below)


def _choice(*choices: str) -> Check:
    return lambda name, value: check.check_choice(name, value, choices)


def _optimizer(name: str, value: Any) -> Any:
    as_optimizer(value, None)
    return value


def _schedule(name: str, value: Any) -> Any:
    as_schedule(value)
    return value


def _rates(name: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(name, "must be a mapping such as {'W_vx': 0.05}", value=value)
    for key in value:
        if key not in PARAMETERS:
            raise ArgumentError(name, f"has the key {key!r}", f"expected some of: {', '.join(PARAMETERS)}")
    return {key: check.check_real(f"{name}[{key!r}]", value[key], 0, math.inf) for key in value}


def _validation(name: str, value: Any) -> Any:
    if not isinstance(value, tuple | list):
        return check.check_real(name, value, 0, 1)
    if len(value) != 2:
        raise ArgumentError(name, "must be a pair (X, V) or a fraction of the training data")
    return tuple(value)


def _callbacks(name: str, value: Any) -> tuple[Callback, ...]:
    found = tuple(value) if isinstance(value, Iterable) and not callable(value) else (None,)
    if not all(callable(callback) for callback in found):
        raise ArgumentTypeError(name, "must be a list of functions of (epoch, model)", value=value)
    return found


def _path(name: str, value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError as error:
        raise ArgumentTypeError(name, "must be a path", value=value) from error


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """The options of `train`, checked.

    Parameters
    ----------
    {options}
    """

    epochs: int = _option(
        20, "int", "Passes over the data.", _integer(0), flag=Flag(int, "N"), same_in_resumed_run=False
    )
    batch_size: int = _option(40, "int", "Instances per step.", _integer(1), flag=Flag(int, "N"))
    optimizer: str | Optimizer = _option(
        "adam",
        '{"adam", "sgd"} or Optimizer',
        "How a gradient becomes a step.",
        _optimizer,
        flag=Flag(choices=tuple(OPTIMIZERS)),
    )
    learning_rate: float | None = _option(
        None,
        "float, optional",
        "Learning rate, in place of the optimizer's own.",
        check.check_positive,
        flag=Flag(float, "RATE"),
    )
    schedule: str | Callable[[int, int], float] = _option(
        "constant",
        '{"constant", "linear", "cosine"} or callable',
        "How the learning rate changes over the epochs. A callable gets (epoch, epochs) and returns a factor of it.",
        _schedule,
        flag=Flag(choices=tuple(SCHEDULES)),
    )
    weight_decay: float = _option(
        0.0,
        "float",
        "Strength of weight decay. The objective is the mean over instances minus weight_decay / 2 |W|^2; biases are "
        "left out.",
        _real(),
        flag=Flag(float, "DECAY"),
    )
    rates: Mapping[str, float] | None = _option(
        None,
        "mapping of str to float, optional",
        'Factors of the learning rate for some of "W_vh", "W_vx", "W_hx", "b_v", "b_h". After start="logistic" W_vx is '
        'nearly right: {"W_vx": 0.05} lets the others move fast without spoiling it.',
        _rates,
    )
    centering: str | None = _option(
        None,
        '{"features", "all"}, optional',
        'Take the steps in centred coordinates. In these W acts on deviations, x - mean(x), and with "all" also '
        'v - mean(v) and h - 1/2, and "b_v" and "b_h" of `rates` are the biases there. The objective and '
        "the model remain what they are, but features that are mostly 0, or mostly 1, are often fitted in fewer "
        "epochs; see the notes of `train`.",
        _choice("features", "all"),
        flag=Flag(choices=("features", "all")),
    )
    averaging: float | None = _option(
        None,
        "float in [0, 1), optional",
        "Follow the parameters by a moving average that forgets at this rate per step, such as 0.999. For the first "
        "1 / (1 - averaging) steps it is a plain mean. The errors, the best epoch and the model are then those of the "
        "average, which has less of the noise that a high learning rate brings.",
        _real(1),
        flag=Flag(float, "DECAY"),
    )
    validation: tuple[Any, Any] | float | None = _option(
        None,
        "float in (0, 1) or (X, V), optional",
        "Fraction of the training data to set aside for the validation error. A pair (X, V) is other data to measure "
        "it on. With either, the model ends with the parameters of the epoch whose validation error was lowest.",
        _validation,
        flag=Flag(float, "FRACTION"),
    )
    patience: int | None = _option(
        None,
        "int, optional",
        "Stop after this many epochs without a lower validation error.",
        _integer(1),
        flag=Flag(int, "N"),
        same_in_resumed_run=False,
    )
    start: str | None = _option(
        None,
        '{"logistic"}, optional',
        "Begin by a quick logistic fit of W_vx and b_v. The first epochs then have less error, and BP, which sees "
        "strong evidence from the start, converges on more instances. (At least 3 epochs and 2000 steps of Adam, but "
        "at most 100 epochs, with centred features; a weight decay of 0.0005 if training has none.)",
        _choice("logistic"),
        flag=Flag(choices=("logistic",)),
    )
    seed: int = _option(
        0,
        "int",
        "Seed of everything random. Same seed, same data, same version and machine: same bits, for any number of "
        "threads.",
        _integer(0, 2**63 - 1),
        flag=Flag(int, "N"),
    )
    checkpoint: str | os.PathLike[str] | None = _option(
        None,
        "path, optional",
        "File that is written, atomically, after each epoch.",
        _path,
        flag=Flag(Path, "FILE"),
        same_in_resumed_run=False,
    )
    resume: bool = _option(
        False,
        "bool",
        "Go on from the checkpoint if it exists. The arguments must be those of the interrupted run, but {changeable} "
        'and the model\'s initial parameters and `n_threads` may differ (the schedules "linear" and "cosine" depend on '
        "`epochs`).",
        check.check_flag,
        flag=Flag(None),
        same_in_resumed_run=False,
    )
    callbacks: Sequence[Callback] = _option(
        (),
        "sequence of callables",
        "Each is called as callback(epoch, model) after an epoch; if it returns True, training ends.",
        _callbacks,
        same_in_resumed_run=False,
    )
    progress: bool | None = _option(
        None,
        "bool, optional",
        "Show a progress bar, by tqdm. Default: if tqdm is installed and stderr is a terminal.",
        check.check_flag,
        same_in_resumed_run=False,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                check.set_fields(self, **{field.name: field.metadata["check"](field.name, value)})
        if self.patience is not None and self.validation is None:
            raise RequirementError("patience", NOT_SHOWN, "validation", "it watches the validation error")
        if self.resume and self.checkpoint is None:
            raise RequirementError("resume", True, "checkpoint", "that is the file to resume from")

    def check_model(self, model: CRBM) -> None:
        """Raise RequirementError if an option supposes features and the model has none."""
        for name, value in (("start", "logistic"), ("centering", "features")):
            if getattr(self, name) == value and model.nx == 0:
                raise RequirementError(name, value, "features", "this model has nx=0")

    def make_optimizer(self) -> Optimizer:
        """The optimizer, at `learning_rate` if that is given."""
        return as_optimizer(self.optimizer, self.learning_rate)

    def capped(self, epoch: int) -> int:
        """`epoch`, but at most `epochs`: a run that goes on beyond its end, as a stream does, stays as it ended."""
        return min(epoch, max(1, self.epochs))

    def factor(self, epoch: int) -> float:
        """Factor of the learning rate in this epoch, from 1."""
        factor = as_schedule(self.schedule)(self.capped(epoch), self.epochs)
        return check.check_real("schedule(epoch, epochs)", factor, 0, math.inf)

    def identity(self) -> dict[str, Any]:
        """What must be the same in a resumed run, in a form that JSON can hold; `validation` is for the caller."""
        found = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata["same_in_resumed_run"]
        }
        del found["learning_rate"], found["validation"]
        found["optimizer"] = repr(self.make_optimizer())
        found["schedule"] = self.schedule if isinstance(self.schedule, str) else "callable"
        return found


# --- what others make of the fields -----------------------------------------------------------------------------


def fields() -> dict[str, dataclasses.Field[Any]]:
    """The fields of `Options` by name."""
    return {field.name: field for field in dataclasses.fields(Options)}


def flags() -> dict[str, Flag]:
    """{option: its flag} of all options that can be given on a command line."""
    return {name: field.metadata["flag"] for name, field in fields().items() if field.metadata["flag"] is not None}


def documentation(name: str) -> Documentation:
    """What is written about an option."""
    found: Documentation = fields()[name].metadata["documentation"]
    if "{changeable}" in found.text:
        changeable = [f"`{name}`" for name, field in fields().items() if not field.metadata["same_in_resumed_run"]]
        found = dataclasses.replace(found, text=found.text.replace("{changeable}", ", ".join(changeable)))
    return found


def numpydoc(names: Sequence[str], indent: str = "    ") -> str:
    """Entries for the section "Parameters" of a docstring."""
    entries = []
    for name in names:
        found = documentation(name)
        text = textwrap.fill(found.text, 120, initial_indent=indent + "    ", subsequent_indent=indent + "    ")
        entries.append(f"{indent}{name} : {found.type}\n{text}")
    return "\n".join(entries)


def documented(function: F) -> F:
    """Write the entries of options into a docstring, in place of lines {options} (all of them) and {name} (one)."""
    lines = []
    for line in (function.__doc__ or "").split("\n"):
        word = line.strip()
        name = word[1:-1] if word.startswith("{") and word.endswith("}") else ""
        names = list(fields()) if name == "options" else [name] if name in fields() else []
        lines.append(numpydoc(names, line[: line.index("{")]) if names else line)
    function.__doc__ = "\n".join(lines)
    return function


def signature_with_options(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function of **options with the options one by one."""
    mine = inspect.signature(function)
    own = [p for p in mine.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return mine.replace(parameters=[*own, *inspect.signature(Options).parameters.values()])


documented(Options)
