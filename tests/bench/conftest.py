"""`bench` can be imported here: from the clone, which stays behind the installed crbm_fast on the path."""

import os
import sys

from helpers import ROOT

sys.path.append(str(ROOT))
_environment = dict(os.environ)
import bench  # noqa: E402, F401

os.environ.clear()
os.environ.update(_environment)  # bench sets the number of threads of its process, which the other tests do not want
