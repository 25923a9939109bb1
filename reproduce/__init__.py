"""The paper's experiments: eight methods, three tables and three figures.  `python -m reproduce` runs them.

    tasks.py      Task, Scale      which images, how they are corrupted, and how many of them are used
    methods.py    Method           which learner, with which inference
    recipes.py    Recipe           with which hyperparameters                               recipes.json
    runs.py       Run, plan        a method on a task; the runs that a table or figure needs, in order
    execute.py    execute          one run: train, choose the epoch, test, write the result
    runner.py     perform          many runs: joblib's workers on this machine, or a dask cluster
    results.py    read_all         one JSON file per run, which has all that the report needs
    claims.py     judge            what the paper says about its methods, and whether the runs agree    paper.json
    figures.py, report.py          the pictures; report.md and report.html from templates/
    command.py                     `python -m reproduce`
    search.py                      `python -m reproduce.search` finds the recipes           search_log.json

It is a program beside the package crbm_fast, run from a clone, and is not installed.
"""

import sys
from pathlib import Path

# `python -m reproduce` puts the clone first on the path; an installed crbm_fast must be found before the sources there,
# which may not be built.  Worker processes get the same path.
_clone = Path(__file__).resolve().parents[1]
sys.path = [p for p in sys.path if Path(p or ".").resolve() != _clone] + [str(_clone)]
