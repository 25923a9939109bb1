"""Threads, the GIL, signals and forks."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf
from crbm_fast import _blas, _threads

ITERATIVE = ["sum-product", "mixed-product", "max-product", "mixed-ascent", "max-ascent", "mean-field", "tap"]


@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.parametrize("shape", [(800, 700, 1), (760, 700, 3), (40, 30, 900), (33, 17, 9)])
def test_same_bits_for_any_number_of_threads(method, shape, dtype, rng):
    nv, nh, N = shape
    W, b1, b2 = make_rbm(rng, nv, nh, N=N)
    kw = {"method": method, "max_iter": 8, "tol": 1e-4, "log_z": True, "dtype": dtype}
    for gamma in (True, "sum"):
        want = cf.infer(W, b1, b2, n_threads=1, gamma=gamma, **kw)
        for n_threads in (2, 3, 8):
            got = cf.infer(W, b1, b2, n_threads=n_threads, gamma=gamma, **kw)
            for name in ("tau_v", "tau_h", "gamma", "log_z", "n_iter", "converged", "residual"):
                np.testing.assert_array_equal(getattr(got, name), getattr(want, name), err_msg=name)


def test_same_bits_for_a_large_rbm_and_a_batch_of_it(rng):
    """Rows shared by threads (from 2^19 edges on), or instances shared by threads: the sums are the same."""
    W, b1, b2 = make_rbm(rng, 800, 700, N=9)
    batch = cf.infer(W, b1, b2, n_threads=2, tol=0, max_iter=5, gamma=True)
    one = cf.infer(W, b1[3], b2[3], n_threads=2, tol=0, max_iter=5, gamma=True)
    np.testing.assert_array_equal(batch.tau_v[3], one.tau_v)
    np.testing.assert_array_equal(batch.gamma[3], one.gamma)


def test_many_python_threads_with_an_engine_each(rng):
    problems = [make_rbm(np.random.default_rng(i), 60, 40, N=110) for i in range(12)]
    want = [cf.infer(*p, gamma="sum", log_z=True) for p in problems]

    def work(i):
        W, b1, b2 = problems[i % 12]
        method = ITERATIVE[i % len(ITERATIVE)]
        engine = cf.Engine(W, n_threads=1 + i % 2)
        engine.run(b1, b2, method=method)
        return engine.run(b1, b2, gamma="sum", log_z=True)

    with ThreadPoolExecutor(8) as pool:
        for i, got in enumerate(pool.map(work, range(96))):
            np.testing.assert_array_equal(got.tau_v, want[i % 12].tau_v)
            np.testing.assert_array_equal(got.gamma, want[i % 12].gamma)
            np.testing.assert_array_equal(got.log_z, want[i % 12].log_z)


def test_an_engine_refuses_a_second_thread(rng):
    """Whichever of the two comes while the other one works."""
    W, b1, b2 = make_rbm(rng, 400, 300)
    engine = cf.Engine(W, n_threads=1)
    refusals, done = set(), []

    def attempt(max_iter):
        try:
            return engine.run(b1, b2, max_iter=max_iter, tol=0)
        except RuntimeError as error:
            refusals.add(str(error))

    def work():
        while not (done and refusals) and len(done) < 50:
            done.extend(filter(None, [attempt(10_000)]))

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        attempt(1)
    worker.join()
    assert refusals == {"this Engine is working for another thread; make one Engine per thread"}


@pytest.mark.parametrize("method", ITERATIVE)
def test_the_gil_is_released(method, rng):
    """While one long call works, this thread keeps running Python: it sees the call unfinished many times."""
    W, b1, b2 = make_rbm(rng, 500, 400, N=8)
    done = threading.Event()

    def work():
        try:
            cf.infer(W, b1, b2, method=method, max_iter=200, tol=0, n_threads=1)
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    seen = 0
    while not done.is_set():
        time.sleep(0.001)
        seen += 1
    thread.join()
    assert seen >= 10


INTERRUPT = """
import signal, sys, threading, time, os
import numpy as np
import crbm_fast as cf
method, threads = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
for N in (1, 20):
    nv, nh = (300, 25) if method == "exact" else (800, 700) if N == 1 else (784, 256)
    W, b1, b2 = rng.normal(0, 0.02, (nv, nh)), rng.normal(size=(N, nv)), rng.normal(size=(N, nh))
    engine = cf.Engine(W, n_threads=threads)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    try:
        if method == "gibbs":
            engine.gibbs(b1, b2, n_steps=2**30)
        else:
            engine.run(b1, b2, method=method, max_iter=2**30, tol=0, warm_start=method != "exact")
    except KeyboardInterrupt:
        late = time.perf_counter() - start - 0.3
        again = engine.run(b1, b2, max_iter=3, tol=0, warm_start=True)      # the engine still works
        want = cf.infer(W, b1, b2, max_iter=3, tol=0)
        print("interrupted", np.array_equal(again.tau_v, want.tau_v), late < 1)
"""


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("method", [*ITERATIVE, "gibbs", "exact"])
def test_ctrl_c_stops_a_long_call_within_a_second(method, n_threads):
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPT, method, str(n_threads)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=os.path.dirname(__file__),
        check=False,
    )
    assert run.stdout == 2 * "interrupted True True\n", run.stderr


def _infer_in_child(problem):
    return cf.infer(*problem, n_threads=2).tau_v


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_forked_child_can_infer(rng):
    """GNU OpenMP alone would hang here."""
    problem = make_rbm(rng, 300, 200, N=8)
    want = _infer_in_child(problem)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for got in pool.map_async(_infer_in_child, [problem] * 4).get(timeout=60):
            np.testing.assert_array_equal(got, want)


def test_blas_threads_are_restored(rng):
    """The engine borrows scipy's BLAS for one thread per caller and gives it back as it was."""
    assert _blas.switch_name() is not None
    before = _blas._get_threads()
    with _blas.single_thread():
        assert _blas._get_threads() == 1
        with _blas.single_thread():
            assert _blas._get_threads() == 1
        assert _blas._get_threads() == 1
    assert _blas._get_threads() == before
    with pytest.raises(ZeroDivisionError), _blas.single_thread():
        1 / 0  # noqa: B018
    assert _blas._get_threads() == before


def test_threads_are_built_in():
    assert _threads.OPENMP
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
