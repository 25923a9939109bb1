"""Where the files of a data set are: a path given, CRBM_FAST_DATA, the user's cache, or a download into the cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CRBM_FAST_DATA"


@dataclass(frozen=True)
class Source:
    """A data set outside the package.

    Attributes
    ----------
    name : str
        For messages.
    layouts : tuple of tuples of str
        File names; all of one tuple are needed, each as it is or with .gz.
    url : str
        The folder to download from.
    downloads : mapping
        {file name: sha256}, in the order of a layout.
    arrays : mapping
        {array: sha256}, of the contents (`_read.sha256`): whoever packed a file, it is the data set or is refused.
    """

    name: str
    layouts: tuple[tuple[str, ...], ...]
    url: str
    downloads: Mapping[str, str]
    arrays: Mapping[str, str]


def cache() -> Path:
    """The user's cache, which is `pooch.os_cache("crbm_fast")`; looked into without pooch, too."""
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches/crbm_fast"))
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache"), "crbm_fast")


def find(source: Source, path: str | os.PathLike[str] | None, download: bool) -> list[Path]:
    """The files of one layout, or the one file that `path` names; FileNotFoundError says what to put where."""
    places = {cache(): "the cache"}
    if path is not None:
        try:
            given = Path(os.path.expanduser(path))
        except TypeError as error:
            raise TypeError(f"path={path!r} must be the name of a folder or file") from error
        if given.is_file():
            return [given]
        places = {given: "path"}
    elif os.environ.get(VARIABLE):
        places = {Path(os.path.expanduser(os.environ[VARIABLE])): VARIABLE, **places}
    for folder in places:
        for layout in source.layouts:
            files = [_file(folder, name) for name in layout]
            if all(files):
                return [file for file in files if file]
    cause: Exception | None = None
    if path is not None:
        why = "Nothing else was tried, as path was given."
    elif not download:
        why = "Nothing was downloaded, as download=False."
    else:
        try:
            return _download(source)
        except ImportError as error:
            cause, why = error, 'The download needs pooch: pip install "crbm_fast[data]"'
        except (OSError, ValueError) as error:  # no connection, no such page, no space; a wrong checksum
            cause, why = error, f"The download failed: {error}"
    wanted = ", or ".join(", ".join(layout) for layout in source.layouts)
    looked = "\n".join(f"  {folder} ({name}): {_lacking(source, folder)}" for folder, name in places.items())
    raise FileNotFoundError(
        f"{source.name} was not found: {wanted} (.gz will do) in\n{looked}\n{why}\n"
        f"By hand: put {', '.join(source.downloads)} from {source.url} into one of these folders, or into any other "
        f"and name that by path= or {VARIABLE}. load_digits() needs no file."
    ) from cause


def _file(folder: Path, name: str) -> Path | None:
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


def _lacking(source: Source, folder: Path) -> str:
    """What keeps a folder from having the data set."""
    if not folder.is_dir():
        return "no such folder"
    for layout in source.layouts:
        missing = [name for name in layout if _file(folder, name) is None]
        if len(missing) < len(layout):
            return "it lacks " + ", ".join(missing)
    return "no such file"


def _download(source: Source) -> list[Path]:
    """Into the cache.  pooch moves a file there when it is whole and its checksum right: never half a file."""
    import pooch

    return [
        Path(pooch.retrieve(source.url + name, f"sha256:{checksum}", fname=name, path=cache()))
        for name, checksum in source.downloads.items()
    ]
