"""crbm-fast: help, exit codes and what the README says of its commands."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from helpers import ROOT
from helpers.cli import run

import crbm_fast as cf
from crbm_fast._errors import ArgumentError, DivergenceError, RequirementError
from crbm_fast.cli.main import describe, exit_code, make_parser
from crbm_fast.cli.shared import CommandError

COMMANDS = ("demo", "train", "predict", "info")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_exit_codes(name, capsys):
    with pytest.raises(SystemExit) as stop:
        run(name, "--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert re.search(rf"examples:\n  .*crbm-fast {name}", text)
    assert "exit code: 0" in text
    assert max(map(len, text.splitlines())) <= 120


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit):
        run("--help")
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"^    {name}\s", text, re.MULTILINE), name


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_are_commands(name):
    """That parse: no example names an option that is gone."""
    parser = make_parser()
    text = parser._subparsers._group_actions[0].choices[name].epilog.replace("\\\n", " ")
    for line in re.findall(rf"^  (?:\w+=\w+ )?crbm-fast ({name}\b.*)", text, re.MULTILINE):
        parser.parse_args(re.split(r"  +(?=[a-zA-Z])(?!.*--)", line)[0].split())


def test_info(capsys):
    assert run("info") == 0
    assert "instruction set" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"crbm_fast {cf.__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [([], "the following arguments are required: COMMAND"), (["nonsense"], "invalid choice: 'nonsense'")],
)
def test_bad_command_lines(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_pipe_that_is_closed(data):
    """crbm-fast ... | head: no traceback."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-m", "crbm_fast.cli", "info"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT / "tests",
        timeout=120,
    )
    os.close(write)
    assert process.stderr == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (CommandError("a mistake"), "a mistake", 2),
        (CommandError("a failure", exit_code=1), "a failure", 1),
        (ArgumentError("batch_size", "is too small", value=0), "--batch-size 0 is too small", 2),
        (ArgumentError("rates", "is odd", value=0), "rates=0 is odd", 2),
        (RequirementError("batch_size", 3, "batch_size", "so"), "--batch-size 3 needs --batch-size: so", 2),
        (FileNotFoundError(2, "No such file", "a.npz"), "a.npz: No such file", 2),
        (OSError("something else"), "something else", 2),
        (ValueError("a value"), "a value", 2),
        (RuntimeError("a process died"), "a process died", 1),
        (MemoryError("7 TiB"), "not enough memory: 7 TiB", 1),
        (DivergenceError(1, 2, 3.0, "far", 0.1), "training diverged in epoch 1, batch 2: far", 1),
    ],
)
def test_errors_by_their_fields(error, text, code):
    assert describe(error, {"batch_size": "--batch-size"}).startswith(text)
    assert exit_code(error) == code


def test_no_english_is_rewritten():
    """The command line uses no regular expression at all."""
    for path in (ROOT / "crbm_fast" / "cli").glob("*.py"):
        assert not re.search(r"^(import re\b|from re\b)", path.read_text(), re.MULTILINE), path


# --- documents ------------------------------------------------------------------------------------------------------


def test_the_first_command_of_the_readme():
    """It installs extras that exist, and runs a command that exists."""
    text = (ROOT / "README.md").read_text()
    first = re.search(r"```\n(.*?)\n```", text, re.DOTALL)[1]
    extras, name = re.fullmatch(r'pip install "\.\[([a-z,]+)\]" && crbm-fast (\w+)', first).groups()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert name == "demo"
    assert project["scripts"] == {"crbm-fast": "crbm_fast.cli:main"}


def test_commands_in_the_readme_parse():
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^(?:pip install .* && )?crbm-fast (.*)$", text, re.MULTILINE)
    assert {line.split()[0] for line in lines} == set(COMMANDS) - {"info"}
    for line in lines:
        make_parser().parse_args(line.split("  ")[0].split())


def test_pictures_of_the_readme_are_there():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert "docs/demo.png" in pictures
    for path in pictures:
        assert (ROOT / path).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / "docs" / "demo.png").stat().st_size < 60_000
