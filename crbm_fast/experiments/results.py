"""One JSON file per run: all that tables, figures and comparisons need, without the parameters.

format, version     "crbm_fast run", 1
name, hash          DIR/runs/<name>.json; another hash is another run (runs.Run.hash)
task, method, learner, scale, recipe, seed       what was run
images              how many in each part
history             {quantity: one number per epoch}, `Epoch` column by column
best_epoch          the epoch of least validation error, whose parameters were tested
inference           of the predictions
validation          {all}: share of wrong pixels in the best epoch
test                {all, changed}: the paper's two errors; {wrong, wrong_changed}: the wrong pixels of each image,
                    and those that were changed (zlib, base64); pixels {all, changed}: of how many
demo                the first images of the test set: {clean, corrupted, predicted}, a bit per pixel (base64)
warnings            of training
error               null, or {type, message, final} in place of history ... warnings
made                {seconds, date, ...}: what may differ when the same run is done again
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _files

FORMAT, VERSION = "crbm_fast run", 1
RUNS = "runs"

Result = dict[str, Any]

# what every result has, and what one without an error has beside that
_NEEDED = ("name", "hash", "error", "method", "scale", "made")
_NEEDED_WHOLE = ("history", "best_epoch", "validation", "test", "demo", "warnings")


def path_of(folder: Path, name: str) -> Path:
    """Where the result of the run of that name is."""
    return folder / RUNS / f"{name}.json"


def write(path: Path, result: Result) -> None:
    """Write the file, atomically."""
    with _files.replacing(path) as file:
        file.write((dumps({"format": FORMAT, "version": VERSION, **result}) + "\n").encode())


def read(path: Path) -> Result | None:
    """The result; None if there is no such file, ValueError if it is none of ours."""
    try:
        contents = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        result = json.loads(contents)
        if not isinstance(result, dict) or result.get("format") != FORMAT:
            raise ValueError(f"it is no {FORMAT!r}")
        if result.get("version") != VERSION:
            raise ValueError(f"version {result.get('version')!r}, but this crbm_fast reads {VERSION}")
        lacking = [key for key in _NEEDED if key not in result]
        if not lacking and result["error"] is None:
            lacking = [key for key in _NEEDED_WHOLE if key not in result]
        if lacking:
            raise ValueError(f"it has no {', '.join(lacking)}")
    except ValueError as error:
        raise ValueError(f"{path} is not the result of a run, or is damaged: {error}. Remove it") from error
    return result


def read_all(folder: Path) -> dict[str, Result]:
    """{name: result} of all runs below a folder, searches left out."""
    found = {}
    for path in sorted((folder / RUNS).glob("*/*.json")):
        result = read(path)
        if result is not None:
            name = str(result["name"])
            if path != path_of(folder, name):
                raise ValueError(f"{path} is a copy of {name}.json; move it elsewhere")
            found[name] = result
    return found


# --- text -----------------------------------------------------------------------------------------------------------


def dumps(value: Any, indent: int = 0) -> str:
    """JSON with a line per key, but a list of plain values, or a short object of them, on one: readable in a diff."""
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


def columns(rows: list[dict[str, Any]], digits: int = 9) -> dict[str, Any]:
    """[{a: 1, b: {c: 2}}, ...] -> {a: [1, ...], b: {c: [2, ...]}}; `seconds` to 4 digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out: dict[str, Any] = {}
    for name in names:
        places = 4 if name == "seconds" else digits
        values = [row.get(name) for row in rows]
        if any(isinstance(value, dict) for value in values):
            out[name] = columns([value or {} for value in values], places)
        else:
            out[name] = [number(value, places) for value in values]
    return out


def number(value: Any, digits: int = 9) -> Any:
    """A float to that many digits, NaN (nothing to take the share of) and infinity as None; others as they are."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


# --- arrays ---------------------------------------------------------------------------------------------------------


def pack_bits(images: NDArray[Any]) -> list[str]:
    """Rows of 0 and 1, a string each."""
    return [base64.b64encode(row.tobytes()).decode() for row in np.packbits(images != 0, axis=1)]


def unpack_bits(rows: list[str], width: int) -> NDArray[np.uint8]:
    """What `pack_bits` was given, (n, width)."""
    packed = np.array([np.frombuffer(base64.b64decode(row), np.uint8) for row in rows])
    return np.unpackbits(packed, axis=1, count=width)


def pack_counts(counts: NDArray[Any]) -> str:
    """Non-negative integers below 65,536 in a string."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def unpack_counts(text: str) -> NDArray[np.int64]:
    """What `pack_counts` was given."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u2").astype(np.int64)
