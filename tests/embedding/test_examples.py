"""The examples run as their first lines say, and what they print is true."""

import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from scipy import stats

import crbm_fast as cf

EXAMPLES = ROOT / "examples"
INSTALLED = Path(cf.__file__).parents[1]


def run(*command, cwd, **env):
    """Output of a command that must succeed; not in the clone's root, where Python finds sources that are not built."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=300,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def run_script(name, *arguments, cwd):
    return run(sys.executable, "-W", "error", EXAMPLES / name, *arguments, cwd=cwd)


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(pattern, text):
    found = re.fullmatch(pattern, text)
    assert found, text
    return [float(x) for x in found.groups()]


def test_the_readme_names_every_example():
    text = (EXAMPLES / "README.md").read_text()
    names = {p.name + "/" * p.is_dir() for p in EXAMPLES.iterdir()} - {"README.md", "__pycache__/"}
    assert set(re.findall(r"^\| \[`(.+?)`\]\((?:.+?)\)", text, re.MULTILINE)) == names


# --- scripts ------------------------------------------------------------------------------------------------------


def test_imputation(tmp_path):
    lines = run_script("imputation.py", "--png", "pictures.png", cwd=tmp_path).splitlines()
    for line in lines[1:7]:
        image, hidden, filled = line.split()
        assert filled == image
        assert all(x in (seen, "?") for x, seen in zip(hidden, image, strict=True))
    rows = (re.fullmatch(r"  (.+?) +([\d.]+)%", line).groups() for line in lines[8:])
    wrong = {name: float(percent) for name, percent in rows}
    assert wrong["mean of the pixel"] > 45
    assert wrong["best possible"] <= wrong["marginals"] < 6
    assert wrong["marginal MAP, from the marginals"] < 6
    assert wrong["marginals"] < wrong["marginal MAP, from scratch"] < 15
    assert (tmp_path / "pictures.png").read_bytes().startswith(b"\x89PNG")


def test_mcmc_loop(tmp_path):
    steps, means, deviations = run_script("mcmc_loop.py", cwd=tmp_path).splitlines()
    accepted, cold, warm = numbers(
        r"steps accepted: ([\d.]+)%; iterations of BP per step: ([\d.]+) cold, ([\d.]+) warm", steps
    )
    assert 50 < accepted < 95
    assert warm < cold
    assert numbers(r"posterior means differ from exact ones by at most ([\d.]+) standard deviations", means)[0] < 0.05
    low, high = numbers(r"standard deviations are ([\d.]+) to ([\d.]+) times the exact ones", deviations)
    assert 0.97 < low <= high < 1.03


def test_mcmc_loop_without_data_samples_the_prior():
    positions, accepted, _ = load("mcmc_loop").sample(
        np.zeros((3, 2)), np.zeros(2), np.zeros((0, 3)), 20_000, 0.4, method="sum-product"
    )
    assert 0.5 < accepted < 1
    np.testing.assert_allclose(positions.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(positions.std(axis=0), 1, atol=0.05)


def test_thread_pool(tmp_path):
    assert run_script("thread_pool.py", cwd=tmp_path).splitlines() == [
        "with_engines: largest difference 0.0",
        "with_workspaces: largest difference 0.0",
    ]


def test_numba_sampler(capsys):
    example = load("numba_sampler")
    example.main()
    first, second = capsys.readouterr().out.splitlines()
    error, expected = numbers(r"largest error of a mean: ([\d.]+), Monte Carlo error ([\d.]+)", first)
    assert error < 0.01
    assert error < 5 * expected
    assert 70 < numbers(r"jumps accepted: ([\d.]+)%", second)[0] < 100
    W, b1, b2 = np.ones((4, 3)), np.zeros(4), np.zeros(3)
    one, two = (example.sample(W, b1, b2, 200, 4, seed=3, n_threads=n)[0] for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="b1 or b2 has a NaN"):
        example.sample(W, np.full(4, np.nan), b2, 5, 1)


# --- the Cython package -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bp_sampler(tmp_path_factory):
    """The package, built against the crbm_fast that is installed."""
    build, target = (tmp_path_factory.mktemp(name) for name in ("build", "target"))
    shutil.copytree(
        EXAMPLES / "cython_sampler",
        build,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("build", "*.c", "*.so", "*.egg-info"),
    )
    # Cython looks through sys.path, where an editable installation is not.
    usual = INSTALLED.resolve() in [Path(p).resolve() for p in site.getsitepackages()]
    editable = {} if usual else {"PYTHONPATH": str(INSTALLED)}
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--target",
        target,
        build,
        cwd=build,
        **editable,
    )
    sys.path.insert(0, str(target))
    try:
        yield importlib.import_module("bp_sampler")
    finally:
        sys.path.remove(str(target))


def random_rbm(rng, nv, nh, scale):
    return rng.normal(0, scale, (nv, nh)), rng.normal(0, 0.5, nv), rng.normal(0, 0.5, nh)


def test_cython_sampler_has_the_right_distribution(bp_sampler, rng):
    """Of all v, on a model where proposals alone would be wrong: BP is bad at couplings that all pull together."""
    W = 1 + rng.normal(0, 0.3, (5, 4))
    b1, b2 = rng.normal(0, 0.1, 5) - W.sum(axis=1) / 2, -W.sum(axis=0) / 2
    states, acceptance = bp_sampler.sample(W, b1, b2, n_steps=20_000, n_chains=4, seed=1, n_threads=2)
    assert states.shape == (4, 20_000, 5)
    assert states.dtype == np.uint8
    assert 0.5 < acceptance < 0.9
    every = (np.arange(32)[:, np.newaxis] >> np.arange(5)) & 1
    minus_F = every @ b1 + np.logaddexp(0, b2 + every @ W).sum(axis=1)
    p = np.exp(minus_F - np.logaddexp.reduce(minus_F))
    apart = states[:, ::20].reshape(-1, 5)  # far enough to be independent
    counts = np.bincount(apart @ (1 << np.arange(5)), minlength=32)
    assert stats.chisquare(counts, p * len(apart)).pvalue > 1e-3


def test_cython_sampler_obeys_clamps(bp_sampler, rng):
    W, b1, b2 = random_rbm(rng, 6, 4, 1.5)
    b1[0], b1[3] = np.inf, -np.inf
    states, acceptance = bp_sampler.sample(W, b1, b2, n_steps=200, n_chains=4)
    assert states[:, :, 0].all()
    assert not states[:, :, 3].any()
    assert acceptance > 0.5


def test_cython_sampler_draws_the_same_for_any_number_of_threads(bp_sampler, rng, dtype):
    rbm = [a.astype(dtype) for a in random_rbm(rng, 17, 9, 1)]
    one, two = (bp_sampler.sample(*rbm, n_steps=50, n_chains=5, seed=7, n_threads=n)[0] for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert len({chain.tobytes() for chain in one}) == 5
    assert (bp_sampler.sample(*rbm, n_steps=50, n_chains=1, seed=8)[0] != one[:1]).any()


@pytest.mark.parametrize(("nv", "nh", "scale"), [(64, 32, 0.3), (12, 10, 1.5)])
def test_cython_sampler_and_reference_draw_the_same(bp_sampler, rng, nv, nh, scale):
    reference = importlib.import_module("bp_sampler.reference")
    rbm = random_rbm(rng, nv, nh, scale)
    states, acceptance = bp_sampler.sample(*rbm, n_steps=40, n_chains=3, seed=5)
    same, same_acceptance = reference.sample(*rbm, n_steps=40, n_chains=3, seed=5)
    np.testing.assert_array_equal(states, same)
    assert acceptance == same_acceptance


def test_cython_sampler_says_what_is_wrong(bp_sampler):
    with pytest.raises(ValueError, match="b1 or b2 has a NaN"):
        bp_sampler.sample(np.ones((2, 3)), [0, np.nan], np.zeros(3), n_steps=5)
    with pytest.raises(ValueError, match=r"b2 \(2,\)"):
        bp_sampler.sample(np.ones((2, 3)), np.zeros(2), np.zeros(2), n_steps=5)


def test_cython_sampler_prints(bp_sampler, capsys):
    importlib.import_module("bp_sampler.__main__").main()
    first, *times = capsys.readouterr().out.splitlines()
    accepted, error = numbers(r"10x8: ([\d.]+)% of the proposals accepted, largest error of a mean ([\d.]+)", first)
    assert accepted > 90
    assert error < 0.02
    for dtype, line in zip(("float32", "float64"), times, strict=True):
        numbers(rf"64x32 {dtype}: (\d+) us per sample, in Python (\d+) us, ([\d.]+) times", line)


# --- the C program ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def c_program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c_program")
    shutil.copytree(EXAMPLES / "c_program", folder, dirs_exist_ok=True)
    run("make", "-B", f"PYTHON={sys.executable}", "CFLAGS=-std=c11 -O2 -Wall -Wextra -Werror", cwd=folder)
    return folder / "bp_threads"


def test_c_program(c_program, tmp_path):
    printed = run(c_program, sys.executable, cwd=tmp_path)
    got = re.findall(r"^thread (\d) unit (\d): BP ([\d.]+)  Gibbs ([\d.]+)$", printed, re.MULTILINE)
    assert [(int(n), int(i)) for n, i, _, _ in got] == [(n, i) for n in range(2) for i in range(6)]

    # the program's model
    W, b1, b2 = np.sin(np.arange(1.0, 25)).reshape(6, 4), [0.0, 0.2, -0.4, 0.6, -0.8, 1.0], [0.3, -0.3, 0.1, -0.1]
    n_steps, engine = 20_000, cf.Engine(W)
    evidence = np.arange(6) == 0, np.array([[0], [1]])
    biases = np.tile(b1, (2, 1)), b2
    marginals = engine.run(*biases, max_iter=100, tol=1e-9, evidence=evidence)
    np.testing.assert_allclose(np.float64([x for _, _, x, _ in got]), marginals.tau_v.ravel(), atol=6e-5)
    # the chains are those of gibbs with this seed
    v, total = marginals.tau_v > 0.5, np.zeros((2, 6))
    s = engine.gibbs(*biases, v=v, n_steps=1, seed=1, evidence=evidence)
    total += s.v
    while s.step < n_steps:
        s = engine.gibbs(*biases, v=s.v, n_steps=1, seed=1, step=s.step, evidence=evidence)
        total += s.v
    np.testing.assert_allclose(np.float64([x for _, _, _, x in got]), total.ravel() / n_steps, atol=6e-5)


def test_c_program_without_crbm_fast(c_program, tmp_path):
    (tmp_path / "crbm_fast.py").write_text("raise ImportError('none here')")
    failed = subprocess.run(
        [c_program, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert failed.returncode == 1
    assert "none here" in failed.stderr
