"""The architecture: imports go down, nothing touches another module's private names, modules and functions stay short.

Each rule is a function from source trees to the places that break it.  For each there are two tests: the repository
breaks it nowhere, and a small tree that breaks it on purpose is found out.
"""

import ast
import io
import tokenize
from pathlib import Path

import pytest
from helpers import ROOT

TREES = ("crbm_fast", "bench", "reproduce")

# The rooms of crbm_fast from the bottom up.  A room may import from the layers below it and from itself, not from its
# neighbours in the same layer; only the helpers may import each other.
HELPERS = ("_config", "_data", "_errors", "_files", "_validation")
LAYERS = (
    ("_algebra", "_blas", "_ckernels", "_engine", "_enumeration", "_threads"),  # compiled
    HELPERS,
    ("inference", "cython_api", "_reference"),
    ("annealing", "ctypes_api"),
    ("assessment",),
    ("model",),
    ("learners", "samplers", "optimizers", "datasets"),
    ("training",),
    ("crbm_fast",),  # crbm_fast/__init__.py, which re-exports the layers below
    ("estimators",),
    ("cli",),
)
RANKS = {room: rank for rank, layer in enumerate(LAYERS) for room in layer}

# Private names of other libraries, for which these have no public one.
ALLOWED = {
    "sys._getframe",  # documented by Python
    "torch._dynamo",  # the only home of recompile_limit
}

MAX_MODULE, MAX_FUNCTION = 400, 60
REASON = f"Longer than {MAX_FUNCTION} lines because "


# --- reading source -----------------------------------------------------------------------------------------------


def sources(root, *trees, suffixes=(".py",)):
    """(path relative to root, text) of every source file of the trees that there are."""
    for tree in trees:
        for path in sorted(Path(root, tree).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(root), path.read_text(encoding="utf-8")


def module_name(path):
    """The dotted name of a file: crbm_fast/model/__init__.py is crbm_fast.model."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(root, name):
    """Whether there is a package or a source file, compiled or not, of that dotted name."""
    path = Path(root, *name.split("."))
    return path.is_dir() or any(path.with_suffix(suffix).exists() for suffix in (".py", ".pyx"))


def imported(root, path, tree):
    """(line, dotted name) of every module that a file imports, in functions and for type checkers too."""
    package = module_name(path).split(".")
    package = package if path.stem == "__init__" else package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield node.lineno, whole if is_module(root, whole) else source


def code_lines(text):
    """The numbers of the lines that hold code: neither blank nor comment nor part of a docstring."""
    lines, statement = set(), []
    layout = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            if any(part.type != tokenize.STRING for part in statement):  # a string alone is a docstring
                lines.update(n for part in statement for n in range(part.start[0], part.end[0] + 1))
            statement = []
        elif token.type not in layout:
            statement.append(token)
    return lines


# --- the rules ----------------------------------------------------------------------------------------------------


def room(name):
    """The room of a dotted name inside crbm_fast."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def upward_imports(root):
    """Imports that do not go down the layers, and modules without a layer."""
    found = []
    for path, text in sources(root, "crbm_fast"):
        mine = room(module_name(path))
        if mine not in RANKS:
            found.append(f"{path}: {mine} is in no layer")
            continue
        for line, name in imported(root, path, ast.parse(text)):
            if name.split(".")[0] != "crbm_fast":
                continue
            theirs = room(name)
            sideways = theirs == mine or {mine, theirs} <= set(HELPERS)
            if not sideways and RANKS.get(theirs, len(LAYERS)) >= RANKS[mine]:
                found.append(f"{path}:{line}: {mine} imports {name}")
    return found


def crossed_imports(root):
    """Imports of bench or reproduce by each other or by the package."""
    return [
        f"{path}:{line}: {path.parts[0]} imports {name}"
        for path, text in sources(root, *TREES)
        for line, name in imported(root, path, ast.parse(text))
        if name.split(".")[0] in {"bench", "reproduce"} - {path.parts[0]}
    ]


def is_private(name):
    return name.startswith("_") and not name.endswith("_")


def owns(node):
    """Whether an expression is the object or the class whose method this is: self, cls, super(), type(self)."""
    if isinstance(node, ast.Call):
        node = node.args[0] if ast.unparse(node.func) == "type" and node.args else node.func
    return isinstance(node, ast.Name) and node.id in ("self", "cls", "super")


def private_names(root, *trees):
    """Private attributes of anything but self, by a dot or by getattr, and imports of private names from modules."""
    found = []
    for path, text in sources(root, *trees):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and is_private(node.attr) and not owns(node.value):
                touched = ast.unparse(node)
                if touched not in ALLOWED and not is_module(root, touched):
                    found.append(f"{path}:{node.lineno}: {touched}")
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "delattr", "hasattr"):
                target, name = node.args[:2]
                if isinstance(name, ast.Constant) and is_private(str(name.value)) and not owns(target):
                    found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found += [
                    f"{path}:{node.lineno}: from {node.module} import {alias.name}"
                    for alias in node.names
                    if is_private(alias.name) and not is_module(root, f"{node.module}.{alias.name}")
                ]
    return found


def long_modules(root, *trees):
    """Modules of more than MAX_MODULE lines of code, Cython's too."""
    counts = {path: len(code_lines(text)) for path, text in sources(root, *trees, suffixes=(".py", ".pyx"))}
    return [f"{path}: {count} lines of code" for path, count in counts.items() if count > MAX_MODULE]


def long_functions(root, *trees):
    """Functions of more than MAX_FUNCTION lines of code whose docstring gives no reason."""
    found = []
    for path, text in sources(root, *trees):
        code = code_lines(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = sum(node.lineno <= line <= node.end_lineno for line in code)
                if count > MAX_FUNCTION and REASON not in " ".join((ast.get_docstring(node) or "").split()):
                    found.append(f"{path}:{node.lineno}: {node.name} has {count} lines of code")
    return found


# --- the repository keeps them ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lambda: upward_imports(ROOT), id="imports go down"),
        pytest.param(lambda: crossed_imports(ROOT), id="bench and reproduce stand apart"),
        pytest.param(lambda: private_names(ROOT, *TREES), id="no private name of another module"),
        pytest.param(lambda: long_modules(ROOT, *TREES), id="no long module"),
        pytest.param(lambda: long_functions(ROOT, *TREES), id="no long function"),
    ],
)
def test_the_architecture(found):
    places = found()
    assert not places, "\n" + "\n".join(places)


def test_every_room_is_there():
    """A layer names nothing that has gone."""
    rooms = [f"crbm_fast.{name}" for name in RANKS if name != "crbm_fast"]
    assert [name for name in rooms if not is_module(ROOT, name)] == []


# --- and the rules can fail ---------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    """write(path, text) makes a file of a small repository, which has crbm_fast/_validation.py to begin with."""

    def write(path, text=""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return tmp_path

    write("crbm_fast/_validation.py")
    write("crbm_fast/training/__init__.py")
    write("crbm_fast/inference/__init__.py")
    write("crbm_fast/model/__init__.py")
    return write


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("crbm_fast/inference/engine.py", "from crbm_fast.model import CRBM"),
        ("crbm_fast/inference/engine.py", "from crbm_fast import model"),
        ("crbm_fast/inference/engine.py", "import crbm_fast.model"),
        ("crbm_fast/inference/engine.py", "from ..model import CRBM"),
        ("crbm_fast/inference/engine.py", "def f():\n    from crbm_fast.model import CRBM"),
        ("crbm_fast/inference/engine.py", "from crbm_fast import __version__"),
        ("crbm_fast/_validation.py", "import crbm_fast.inference"),
        ("crbm_fast/learners/mle.py", "from crbm_fast.samplers import State"),
        ("crbm_fast/model/__init__.py", "import crbm_fast.forgotten"),
        ("crbm_fast/forgotten.py", ""),
    ],
)
def test_an_upward_import_is_found(write, path, text):
    assert upward_imports(write(path)) == [] or path == "crbm_fast/forgotten.py"
    assert len(upward_imports(write(path, text))) == 1


def test_a_downward_import_is_no_upward_one(write):
    write("crbm_fast/_files.py", "from crbm_fast import _validation")
    write("crbm_fast/training/run.py", "import numpy\nfrom crbm_fast.model import CRBM\nfrom . import options")
    write("crbm_fast/__init__.py", "from crbm_fast.training import train")
    assert (
        upward_imports(write("crbm_fast/cli/main.py", "import crbm_fast as cf\nfrom crbm_fast import training")) == []
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("crbm_fast/model/a.py", "import bench"),
        ("bench/a.py", "from reproduce.tasks import TASKS"),
        ("reproduce/a.py", "import bench.timing as timing"),
    ],
)
def test_a_crossed_import_is_found(write, path, text):
    assert crossed_imports(write(path, "import crbm_fast")) == []
    assert len(crossed_imports(write(path, text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "engine._core.run()",
        "def f(self, other):\n    return self.x == other._x",
        "from crbm_fast.training import _Run",
        "from crbm_fast import training\ntraining._line()",
        'getattr(engine, "_core")',
        "setattr(engine, '_core', None)",
        "type(other)._x",
        "f()._x",
        "self.engine._core",
    ],
)
def test_a_private_name_is_found(write, text):
    assert len(private_names(write("bench/a.py", text), "bench")) == 1


def test_own_and_public_names_are_no_private_ones(write):
    root = write(
        "crbm_fast/model/a.py",
        "import sys\n"
        "import crbm_fast._validation\n"
        "from crbm_fast import __version__\n"
        "from crbm_fast import _validation as check\n"
        "from crbm_fast._validation import check_int\n"
        "class A:\n"
        "    def f(self):\n"
        "        self._x = super()._x + type(self)._y + getattr(self, '_z')\n"
        "        return crbm_fast._validation.check_int, sys._getframe(1), Struct._fields_, self.__class__\n",
    )
    assert private_names(root, "crbm_fast") == []


def function(lines, docstring):
    return f'def f():\n    """{docstring}"""\n' + "    x = 1\n" * (lines - 1)


def test_a_long_module_is_found(write):
    comments = '"""A docstring\n\nof several lines.\n"""\n\n# A comment.\n\n'
    for suffix in (".py", ".pyx"):
        assert long_modules(write(f"bench/a{suffix}", comments + "x = 1\n" * MAX_MODULE), "bench") == []
        assert len(long_modules(write(f"bench/a{suffix}", comments + "x = 1\n" * (MAX_MODULE + 1)), "bench")) == 1
        write(f"bench/a{suffix}")
    text = "x = [\n" + "    1,\n" * MAX_MODULE + "]\n"
    assert len(long_modules(write("bench/a.py", text), "bench")) == 1  # one statement, many lines


def test_a_long_function_is_found(write):
    excuse = REASON + "it is a table."
    assert long_functions(write("bench/a.py", function(MAX_FUNCTION, "Short.")), "bench") == []
    assert len(long_functions(write("bench/a.py", function(MAX_FUNCTION + 1, "Long.")), "bench")) == 1
    assert long_functions(write("bench/a.py", function(MAX_FUNCTION + 1, excuse)), "bench") == []
    assert long_functions(write("bench/a.py", function(MAX_FUNCTION + 1, excuse.replace(" ", "\n    "))), "bench") == []
