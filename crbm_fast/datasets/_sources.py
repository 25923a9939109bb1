"""Where the files of a data set are: at a given path, in CRBM_FAST_DATA or in the user's cache, or to be downloaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CRBM_FAST_DATA"


@dataclass(frozen=True)
class Source:
    """A data set that does not come with the package.

    Attributes
    ----------
    name : str
        The name that messages use.
    layouts : tuple of tuples of str
        File names; all files of one tuple are needed, each as it is or with .gz.
    url : str
        The folder to download from.
    downloads : mapping
        {file name: sha256}, in the order of a layout.
    arrays : mapping
        {array: sha256} of the contents (`_files.sha256`), which do not depend on who packed the file.
    """

    name: str
    layouts: tuple[tuple[str, ...], ...]
    url: str
    downloads: Mapping[str, str]
    arrays: Mapping[str, str]


def cache() -> Path:
    """The user's cache: the folder `pooch.os_cache("crbm_fast")`, which is searched without pooch, too."""
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches/crbm_fast"))
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache"), "crbm_fast")


def find(source: Source, path: str | os.PathLike[str] | None, download: bool) -> list[Path]:
    """The files of one layout, or the one file that `path` names; FileNotFoundError says what to put where."""
    folders = {cache(): "the cache"}
    if path is not None:
        try:
            given = Path(os.path.expanduser(path))
        except TypeError as error:
            raise TypeError(f"path={path!r} must be the name of a folder or file") from error
        if given.is_file():
            return [given]
        folders = {given: "path"}
    elif os.environ.get(VARIABLE):
        folders = {Path(os.path.expanduser(os.environ[VARIABLE])): VARIABLE, **folders}
    for folder in folders:
        for layout in source.layouts:
            files = [_file(folder, name) for name in layout]
            if all(files):
                return [file for file in files if file]
    cause: Exception | None = None
    if path is not None:
        reason = "Nothing else was tried, as path was given."
    elif not download:
        reason = "Nothing was downloaded, as download=False."
    else:
        try:
            return _download(source)
        except ImportError as error:
            cause, reason = error, 'The download needs pooch: pip install "crbm_fast[data]"'
        except (OSError, ValueError) as error:  # no connection, no such page, no space; a wrong checksum
            cause, reason = error, f"The download failed: {error}"
    wanted = ", or ".join(", ".join(layout) for layout in source.layouts)
    searched = "\n".join(f"  {folder} ({name}): {_what_is_missing(source, folder)}" for folder, name in folders.items())
    raise FileNotFoundError(
        f"{source.name} was not found: {wanted} (.gz will do) in\n{searched}\n{reason}\n"
        f"By hand: put {', '.join(source.downloads)} from {source.url} into one of these folders, or into any other "
        f"and name that by path= or {VARIABLE}. load_digits() needs no file."
    ) from cause


def _file(folder: Path, name: str) -> Path | None:
    """The file of that name, as it is or gzipped, if the folder has it."""
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


def _what_is_missing(source: Source, folder: Path) -> str:
    """What the folder lacks of the data set."""
    if not folder.is_dir():
        return "no such folder"
    for layout in source.layouts:
        missing = [name for name in layout if _file(folder, name) is None]
        if len(missing) < len(layout):
            return "it lacks " + ", ".join(missing)
    return "no such file"


def _download(source: Source) -> list[Path]:
    """Download the files into the cache, where pooch moves a file only once it is complete and its checksum right."""
    import pooch

    return [
        Path(pooch.retrieve(source.url + name, f"sha256:{checksum}", fname=name, path=cache()))
        for name, checksum in source.downloads.items()
    ]
