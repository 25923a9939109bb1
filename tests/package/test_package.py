"""The package as a whole: configuration, command line, documents and stubs tell the truth."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from helpers import ROOT, run_python

import crbm_fast as cf
from crbm_fast import _ckernels


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cf.__version__ == project["version"]
    assert sorted(project["dependencies"]) == ["numpy>=2.0", "scipy>=1.13"]


def test_everything_public_is_documented():
    for name in cf.__all__:
        assert inspect.getdoc(getattr(cf, name)), name


def test_engine_run_takes_the_keywords_of_infer():
    """And warm_start; infer alone says dtype and n_threads, which an engine is made with."""
    infer, run = (set(inspect.signature(f).parameters) for f in (cf.infer, cf.Engine.run))
    assert run - infer == {"self", "warm_start"}
    assert infer - run == {"W", "dtype", "n_threads"}
    gibbs, method = (set(inspect.signature(f).parameters) for f in (cf.gibbs, cf.Engine.gibbs))
    assert method - gibbs == {"self"}
    assert gibbs - method == {"W", "dtype", "n_threads"}


@pytest.mark.parametrize("name", [path.stem for path in sorted((ROOT / "crbm_fast").glob("*.pyi"))])
def test_stubs_name_what_the_compiled_module_has(name):
    module = importlib.import_module(f"crbm_fast.{name}")
    tree = ast.parse((ROOT / "crbm_fast" / f"{name}.pyi").read_text())
    declared = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    real = {
        n
        for n, value in vars(module).items()
        if not n.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
    }
    assert declared == real


# --- configuration ------------------------------------------------------------------------------------------------


def test_show_config(capsys):
    config = cf.show_config("dicts")
    assert config["instruction set"] == _ckernels.active_isa()
    assert cf.show_config() is None
    printed = capsys.readouterr().out
    for value in config.values():
        assert value in printed
    with pytest.raises(ValueError, match="mode='yaml' is not one of"):
        cf.show_config("yaml")


@pytest.mark.parametrize("isa", _ckernels.available_isas())
def test_environment_forces_an_instruction_set(isa):
    code = "import crbm_fast as cf; print(cf.show_config('dicts')['instruction set'])"
    assert run_python("-c", code, CRBM_FAST_ISA=isa).stdout == isa + "\n"


def test_an_unknown_instruction_set_gets_a_clear_error():
    error = run_python("-c", "import crbm_fast", CRBM_FAST_ISA="mmx").stderr
    assert "instruction set 'mmx' (CRBM_FAST_ISA) is not available here; choose from: " in error


def test_importing_the_unbuilt_sources_gets_a_clear_error(tmp_path):
    package = tmp_path / "crbm_fast"
    package.mkdir()
    (package / "__init__.py").write_text((ROOT / "crbm_fast" / "__init__.py").read_text())
    run = subprocess.run(
        [sys.executable, "-S", "-c", "import crbm_fast"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "crbm_fast is not built here" in run.stderr


def test_nothing_but_numpy_and_scipy_is_imported():
    code = (
        "import sys, numpy, scipy.linalg.cython_blas, scipy.sparse, scipy.special; before = set(sys.modules);"
        "import crbm_fast;"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    imported = ast.literal_eval(run_python("-c", code).stdout)
    assert [name for name in imported if not name.startswith("_cython_")] == ["crbm_fast"]


# --- documents ----------------------------------------------------------------------------------------------------


def readme_example(name, document="README.md"):
    text = (ROOT / document).read_text()
    code = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", text, re.DOTALL)[1]
    names = {}
    exec(compile(code, document, "exec"), names)
    return names


def test_readme_example_of_inference_runs():
    names = readme_example("inference")
    assert names["b"].tau_v.shape == (784,)
    assert names["v"].shape == (1000, 784)


@pytest.mark.filterwarnings("ignore::crbm_fast.ConvergenceWarning")
def test_example_of_convergence_runs():
    """Descent goes on where plain BP stops, as the page says."""
    names = readme_example("convergence", "docs/convergence.md")
    assert names["b"].converged.all()
    W, b_v, b_h = (names[name] for name in ("W", "b_v", "b_h"))
    plain, both = (cf.infer(W, b_v, b_h, fallback=fallback) for fallback in (None, "bethe"))
    assert not plain.converged.all()
    assert both.converged.all()
    np.testing.assert_array_equal(both.fell_back, ~plain.converged)


def test_readme_example_of_samplers_runs():
    names = readme_example("samplers")
    at = (2 * names["state"].v - 1) @ names["W"][:, 0] / 64  # overlap with the pattern: 1 or -1
    assert (abs(at) > 0.9).all()
    assert abs((at > 0).mean() - 0.5) < 0.06


def test_readme_example_of_learning_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = readme_example("learning")
    assert 0.005 < names["error"] < 0.02
    logistic = cf.CRBM(64, 0, 64)
    X, V = names["X"], names["V"]
    cf.train(logistic, X[:4000], V[:4000], "logistic", epochs=10, learning_rate=0.01, validation=0.1)
    assert 0.13 < np.mean(logistic.predict(X[4000:]) != V[4000:]) < 0.16  # what the comment says
    assert len(capsys.readouterr().out.splitlines()) == 11
