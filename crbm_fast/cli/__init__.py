"""The command `crbm-fast`: a module for each of its commands, with `add_parser` and `run`.

    main.py       dispatches to the commands, and turns what they raise into messages and exit codes
    demo.py       restores and completes digits: logistic regression, mean field and BP side by side, and a picture
    train.py      learns a model from a file of features and outputs; its flags are made from `training.Options`
    predict.py    predicts outputs for other features with that model
    info.py       shows what this installation runs on
    shared.py     what they have in common: parsers, files of data, files to write

A command returns its exit code; for what the user can put right it raises `CommandError`, one of crbm_fast._errors,
OSError or ValueError.
"""

from crbm_fast.cli.main import main

__all__ = ["main"]
