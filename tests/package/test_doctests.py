"""The examples in the docstrings run and print what they say, in every module of the package."""

import doctest
import importlib
import pkgutil

import pytest
from helpers import ROOT

import crbm_fast

MODULES = ["crbm_fast", *sorted(m.name for m in pkgutil.walk_packages(crbm_fast.__path__, "crbm_fast."))]


def source_of(name):
    """The text of a module: Python, Cython, or the __init__.py of a package."""
    path = ROOT.joinpath(*name.split("."))
    candidates = path.with_suffix(".py"), path.with_suffix(".pyx"), path / "__init__.py"
    return next(p for p in candidates if p.is_file()).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in MODULES if ">>> " in source_of(name)])
def test_docstring_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


def test_compiled_modules_are_searched_for_examples():
    """Finding none in _engine means that there is none: its docstrings are seen."""
    assert "crbm_fast._engine" in MODULES
    module = importlib.import_module("crbm_fast._engine")
    searched = {test.name for test in doctest.DocTestFinder(exclude_empty=False).find(module)}
    assert "crbm_fast._engine.Core.run" in searched
