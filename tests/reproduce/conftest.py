"""`reproduce` can be imported here: from the clone, which stays behind the installed crbm_fast on the path."""

import sys

import pytest
from helpers import ROOT

sys.path.append(str(ROOT))

from helpers.reproduce import TINY, run_command

from reproduce import tasks


@pytest.fixture
def tiny(monkeypatch):
    """`--scale small` is as small as it can be."""
    monkeypatch.setitem(tasks.SCALES, "small", TINY)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A folder with the results of all runs, made by two processes, and the report."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tasks.SCALES, "small", TINY)
        assert run_command("--jobs", "2", out=out) == 0
    return out
