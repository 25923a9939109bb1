"""Results: one JSON file per run, with all that tables, figures and comparisons need, without the parameters.

format, version     "crbm_fast run", 2
name, hash          the file is DIR/runs/<name>.json; another hash belongs to another run (runs.Run.hash)
task, method, learner, scale, recipe, seed       what was run
images              how many images each part had
epochs, best_epoch  how many epochs were trained; the one of least validation error, whose parameters were tested
convergence         null for a method that samples; else {share, max_iter}: by epoch, the share of the training
                    instances on which inference converged, and the iterations it was allowed
inference           the inference of the predictions
validation          {all}: the share of wrong pixels in the best epoch
test                {all, changed}: the paper's two errors; {wrong, wrong_changed}: the wrong pixels of each image,
                    and those that were changed (zlib, base64); pixels {all, changed}: of how many
demo                the first images of the test set: {clean, corrupted, predicted}, a bit per pixel (base64)
warnings            the warnings of training
error               null; or {type, message, final}, and then images ... warnings are missing
made                {seconds, date, ...}: what may differ when the same run is done again
"""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT, VERSION = "crbm_fast run", 2
RUNS = "runs"

Result = dict[str, Any]

# What every result has, and what one without an error has beside that.
_NEEDED = ("name", "hash", "error", "method", "scale", "made")
_NEEDED_WITHOUT_ERROR = ("epochs", "best_epoch", "convergence", "validation", "test", "demo", "warnings")


def path_of(folder: Path, name: str) -> Path:
    """The file of the result of the run of that name."""
    return folder / RUNS / f"{name}.json"


def replace_file(path: Path, contents: bytes) -> None:
    """Write a file so that under its name there is always the old or the new contents, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: Path, result: Result) -> None:
    """Write the result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (dumps({"format": FORMAT, "version": VERSION, **result}) + "\n").encode())


def read(path: Path) -> Result | None:
    """The result; None if there is no such file, ValueError if the file is something else."""
    try:
        contents = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        result = json.loads(contents)
        if not isinstance(result, dict) or result.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        if result.get("version") != VERSION:
            raise ValueError(f"it has version {result.get('version')!r}, but this program reads {VERSION}")
        missing = [key for key in _NEEDED if key not in result]
        if not missing and result["error"] is None:
            missing = [key for key in _NEEDED_WITHOUT_ERROR if key not in result]
        if missing:
            raise ValueError(f"it has no {', '.join(missing)}")
    except ValueError as error:
        raise ValueError(f"{path} is not the result of a run, or is damaged: {error}. Remove it") from error
    return result


def read_all(folder: Path) -> dict[str, Result]:
    """The results of all runs below a folder by name, those of a search left out."""
    found = {}
    for path in sorted((folder / RUNS).glob("*/*.json")):
        result = read(path)
        if result is not None:
            name = str(result["name"])
            if path != path_of(folder, name):
                raise ValueError(f"{path} is a copy of {name}.json; move it elsewhere")
            found[name] = result
    return found


def is_final(result: Result) -> bool:
    """Whether doing the run again would give the same: it was tested, or it diverged, which follows from its facts."""
    return result["error"] is None or bool(result["error"]["final"])


# --- text -----------------------------------------------------------------------------------------------------------


def dumps(value: Any, indent: int = 0) -> str:
    """JSON that is readable in a diff: a line per key, but one line for a list of plain values or a short object."""
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    line = json.dumps(value, allow_nan=False)
    nested = any(isinstance(member, Mapping | list | tuple) for member in members)
    if not nested and (not isinstance(value, Mapping) or len(line) <= 100):
        return line
    inner = "\n" + " " * (indent + 1)
    texts = [dumps(member, indent + 1) for member in members]
    if isinstance(value, Mapping):
        texts = [f"{json.dumps(str(key))}: {text}" for key, text in zip(value, texts, strict=True)]
    opened, closed = "{}" if isinstance(value, Mapping) else "[]"
    return opened + inner + ("," + inner).join(texts) + "\n" + " " * indent + closed


def number(value: Any, digits: int = 9) -> Any:
    """A float to that many digits, NaN (the share of nothing) and infinity as None; other values as they are."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


# --- arrays ---------------------------------------------------------------------------------------------------------


def pack_bits(images: NDArray[Any]) -> list[str]:
    """Rows of 0 and 1, each as a string."""
    return [base64.b64encode(row.tobytes()).decode() for row in np.packbits(images != 0, axis=1)]


def unpack_bits(rows: list[str], width: int) -> NDArray[np.uint8]:
    """The rows (n, width) that `pack_bits` was given."""
    packed = np.array([np.frombuffer(base64.b64decode(row), np.uint8) for row in rows])
    return np.unpackbits(packed, axis=1, count=width)


def pack_counts(counts: NDArray[Any]) -> str:
    """Non-negative integers below 65,536 as a string."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def unpack_counts(text: str) -> NDArray[np.int64]:
    """The integers that `pack_counts` was given."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u2").astype(np.int64)
