"""The paper's experiments: eight methods, three tables, three figures.  `crbm-fast reproduce` runs them.

    tasks.py      Task, Scale      which images, corrupted how, and how many of them
    methods.py    Method, Recipe   which learner with which hyperparameters    data/hyperparameters.json
    runs.py       Run, plan        task x method; which runs a table or figure needs, in which order
    runner.py     perform          train, choose the epoch, test; several processes, killed and resumed
    results.py    read_all         one JSON per run, all that the rest needs
    claims.py     judge            what the paper says of the methods, and whether the runs agree
    figures.py, report.py          PNG; Markdown and HTML, beside the paper's  data/paper.json
    command.py                     `crbm-fast reproduce`

Nothing else in the package imports this, but for the command line: `crbm-fast demo` is six runs of it.
"""

from crbm_fast.experiments.methods import METHODS, Method, Recipe, recipe
from crbm_fast.experiments.report import write_report
from crbm_fast.experiments.results import read_all
from crbm_fast.experiments.runner import perform
from crbm_fast.experiments.runs import TARGETS, Run, plan
from crbm_fast.experiments.tasks import SCALES, TASKS, Scale, Task

__all__ = [
    "METHODS",
    "SCALES",
    "TARGETS",
    "TASKS",
    "Method",
    "Recipe",
    "Run",
    "Scale",
    "Task",
    "perform",
    "plan",
    "read_all",
    "recipe",
    "write_report",
]
