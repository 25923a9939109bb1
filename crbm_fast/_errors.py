"""Errors as data: what is wrong is in fields, and each surface phrases them in its own notation.

`str(error)` speaks to a Python programmer: "damping=1.2 is outside [0, 1)".  The command line calls `phrase` with its
own notation and gets "--damping 1.2 is outside [0, 1)" from the same fields.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

# In place of a value that a message should not show.
NOT_SHOWN: Any = type("NotShown", (), {"__repr__": lambda self: "NOT_SHOWN", "__reduce__": lambda self: "NOT_SHOWN"})()


class Notation(Protocol):
    """How a surface writes an argument, alone or with a value."""

    def __call__(self, argument: str, value: Any = NOT_SHOWN) -> str: ...


def python_notation(argument: str, value: Any = NOT_SHOWN) -> str:
    """`argument`, or `argument=value` as in a call."""
    if value is NOT_SHOWN:
        return argument
    return f"{argument}={_short(value) or repr(value)}"


def command_line_notation(flags: Mapping[str, str]) -> Notation:
    """The notation of a command: `--option`, or `--option value`; other arguments are written as in Python.

    Parameters
    ----------
    flags : mapping
        {argument: its flag, such as "--batch-size"}.
    """

    def write(argument: str, value: Any = NOT_SHOWN) -> str:
        if argument not in flags:
            return python_notation(argument, value)
        flag = flags[argument]
        if value is False:
            return flag.replace("--", "--no-", 1)
        return flag if value is NOT_SHOWN or value is True else f"{flag} {_short(value) or value}"

    return write


def _short(value: Any) -> str:
    """A short text for a float or a dtype; empty for other values."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, np.dtype) else ""


class PhrasedError(Exception):
    """An error with fields, which are its `args`, so that it can be pickled; its message is `phrase()`."""

    def phrase(self, write: Notation = python_notation) -> str:
        """The message, in which `write` spells the arguments."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.phrase()


class _AnyArgumentError(PhrasedError):
    def __init__(self, argument: str, problem: str, hint: str = "", value: Any = NOT_SHOWN) -> None:
        super().__init__(argument, problem, hint, value)
        self.argument, self.problem, self.hint, self.value = argument, problem, hint, value

    def phrase(self, write: Notation = python_notation) -> str:
        return f"{write(self.argument, self.value)} {self.problem}{self.hint and '; '}{self.hint}"


class ArgumentError(_AnyArgumentError, ValueError):
    """An argument has a value that cannot be used.

    Attributes
    ----------
    argument : str
        Its name.
    problem : str
        What is wrong with it, a verb and its object: "is outside [0, 1)".
    hint : str
        What was expected, or what to do; may be empty.
    value : object
        The value; NOT_SHOWN where `problem` describes it.
    """


class ArgumentTypeError(_AnyArgumentError, TypeError):
    """An argument has the wrong type; the attributes are those of `ArgumentError`."""


class EntryError(PhrasedError, ValueError):
    """An entry of an array cannot be used.

    Attributes
    ----------
    argument : str
        Name of the array.
    index : tuple of int
        Where the entry is.
    value : number
    expected : str
        What it should be, and perhaps what to do.
    """

    def __init__(self, argument: str, index: tuple[int, ...], value: Any, expected: str) -> None:
        super().__init__(argument, index, value, expected)
        self.argument, self.index, self.value, self.expected = argument, index, value, expected

    def phrase(self, write: Notation = python_notation) -> str:
        index = ", ".join(str(int(i)) for i in self.index)
        return f"{self.argument}[{index}] = {self.value}; expected {self.expected}"


class RequirementError(PhrasedError, ValueError):
    """An argument needs something that is not there.

    Attributes
    ----------
    argument : str
    value : object
        NOT_SHOWN where any value of the argument would need it.
    requirement : str
        Another argument, or "features" of the model.
    reason : str
        Why it is needed, or how one can tell that it is missing.
    """

    def __init__(self, argument: str, value: Any, requirement: str, reason: str) -> None:
        super().__init__(argument, value, requirement, reason)
        self.argument, self.value, self.requirement, self.reason = argument, value, requirement, reason

    def phrase(self, write: Notation = python_notation) -> str:
        return f"{write(self.argument, self.value)} needs {write(self.requirement)}: {self.reason}"


class CorruptedFileError(PhrasedError, ValueError):
    """A file was not written by crbm_fast, or is damaged.

    Attributes
    ----------
    path : str
    reason : str
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def phrase(self, write: Notation = python_notation) -> str:
        return f"{self.path} is not a file of crbm_fast, or is damaged: {self.reason}"


class FileVersionError(PhrasedError, ValueError):
    """A file was written by a version of crbm_fast whose format this one does not read.

    Attributes
    ----------
    path : str
    kind : str
        "crbm_fast model" or "crbm_fast checkpoint".
    version, readable : int
        The format's version in the file, and the one that can be read.
    """

    def __init__(self, path: str, kind: str, version: int, readable: int) -> None:
        super().__init__(path, kind, version, readable)
        self.path, self.kind, self.version, self.readable = path, kind, version, readable

    def phrase(self, write: Notation = python_notation) -> str:
        remedy = "upgrade crbm_fast"
        if self.version < self.readable:
            remedy = f"finish the run with the crbm_fast that began it, or start anew with {write('resume', False)}"
        return (
            f"{self.path} is a {self.kind} of version {self.version}, but this crbm_fast reads version "
            f"{self.readable}; {remedy}"
        )


class OtherRunError(PhrasedError, ValueError):
    """A checkpoint belongs to a run with other arguments.

    Attributes
    ----------
    path : str
        The checkpoint.
    argument : str
        An argument that differs.
    before, now : object
        What it was in that run, and what it is.
    """

    def __init__(self, path: str, argument: str, before: Any, now: Any) -> None:
        super().__init__(path, argument, before, now)
        self.path, self.argument, self.before, self.now = path, argument, before, now

    def phrase(self, write: Notation = python_notation) -> str:
        return (
            f"checkpoint {self.path} is of another run: {write(self.argument)} was {self.before} and is {self.now}; "
            f"call with the same arguments, or with {write('resume', False)} to start anew"
        )


class DivergenceError(PhrasedError, ArithmeticError):
    """Training left the range of finite, sensible numbers; the model has the parameters of the last whole epoch.

    Attributes
    ----------
    epoch, batch : int
        Where it happened, counted from 1.
    norm : float
        Norm of the gradient.
    reason : str
        What happened.
    learning_rate : float or None
        The learning rate of the optimizer; None if the quick logistic fit of start="logistic" diverged.
    checkpoint : str or None
        File that has the last whole epoch, too.
    """

    def __init__(
        self,
        epoch: int,
        batch: int,
        norm: float,
        reason: str,
        learning_rate: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        checkpoint = None if checkpoint is None else os.fspath(checkpoint)
        super().__init__(epoch, batch, norm, reason, learning_rate, checkpoint)
        self.epoch, self.batch, self.norm, self.reason = epoch, batch, norm, reason
        self.learning_rate, self.checkpoint = learning_rate, checkpoint

    def phrase(self, write: Notation = python_notation) -> str:
        """What happened and what to try; `str` adds what became of the model."""
        initial = self.learning_rate is None
        remedies = f"Scale the features to about [-1, 1], or leave out {write('start')}."
        if not initial:
            remedies = (
                f"Lower {write('learning_rate')} ({self.learning_rate:g}), scale the features to about [-1, 1], or "
                f"look at {write('weight_decay')}."
            )
        return (
            f"{'the logistic start' if initial else 'training'} diverged in epoch {self.epoch}, batch {self.batch}: "
            f"{self.reason}; the gradient has the norm {self.norm:.3g}. {remedies}"
        )

    def __str__(self) -> str:
        if self.learning_rate is None:
            return f"{self.phrase()} The model is as it was."
        kept = "." if self.checkpoint is None else f", and so has the checkpoint {self.checkpoint}."
        return f"{self.phrase()} The model has the parameters of epoch {self.epoch - 1}{kept}"
