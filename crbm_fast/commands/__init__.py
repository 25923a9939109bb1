"""The commands of `crbm-fast`, one module each, with `add_parser` and `run`; crbm_fast/_cli.py dispatches to them.

    train.py      a model from a file of features and outputs
    predict.py    outputs for other features from that model
    shared.py     what they have in common: numbers on the command line, files of data, files to write

`demo` is crbm_fast/cli/demo.py.  A command returns its exit code; for what the user can put right it
raises `CommandError`, OSError or ValueError, with a message that names the argument, the value and the remedy.
"""
