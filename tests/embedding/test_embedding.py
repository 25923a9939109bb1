"""The embedding interface: Cython, C, ctypes and numba meet the same functions, and these agree with the engine.

tests/c/check_embed.c tries every error code, under the sanitizers; examples/ are built and run by test_examples.py.
"""

import ctypes
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import numba
import numpy as np
import pytest
from helpers import CC, ROOT, make_rbm, run_python

import crbm_fast as cf
from crbm_fast import _reference, ctypes_api, cython_api
from crbm_fast import ctypes_api as bp

PARENT = str(Path(cf.__file__).parents[1])
METHODS = ("sum-product", "max-product", "mixed-product", "bethe")  # in the order of their numbers


def at(array):
    return None if array is None else array.ctypes.data


class Model:
    """A workspace with its arrays."""

    def __init__(self, W, b1, b2, dtype):
        self.b1, self.b2 = b1.astype(dtype), b2.astype(dtype)
        self.workspace = bp.workspace(W, dtype)
        (self.nv, self.nh), self.dtype = W.shape, dtype

    def run(self, method, *, max_iter=20, tol=0.0, damping=0.0, flags=0, gamma=False):
        tau_v, tau_h, info = np.empty(self.nv, self.dtype), np.empty(self.nh, self.dtype), np.empty(3)
        pairs = np.empty((self.nv, self.nh), self.dtype) if gamma else None
        status = bp.run(
            at(self.workspace),
            at(tau_v),
            at(tau_h),
            at(pairs),
            at(info),
            at(self.b1),
            at(self.b2),
            METHODS.index(method),
            max_iter,
            tol,
            damping,
            flags,
        )
        bp.check(status)
        return status, tau_v, tau_h, pairs, *info


# --- the same answers as the engine, and as the paper ----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (16, 8), (65, 17), (130, 40)])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("damping", [0, 0.3])
def test_beliefs_are_the_engines(rng, isa, dtype, method, shape, damping):
    """Bit for bit where there is no product with W; the next call goes on from the messages."""
    damping = damping if cf.inference.METHODS[method].damped else 0
    W, b1, b2 = (a.astype(dtype) for a in make_rbm(rng, *shape))
    model, engine = Model(W, b1, b2, dtype), cf.Engine(W, n_threads=1)
    kw = {"method": method, "max_iter": 3, "tol": 0, "damping": damping}
    close = {"rtol": 0, "atol": 0 if method != "mixed-product" else 50 * np.finfo(dtype).eps}
    for call in range(3):
        flags = bp.WARM_START if call else 0
        _, tau_v, tau_h, _, n_iter, residual, log_z = model.run(**kw, flags=flags)
        want = engine.run(b1, b2, warm_start=True, **kw)
        np.testing.assert_allclose(tau_v, want.tau_v, **close)
        np.testing.assert_allclose(tau_h, want.tau_h, **close)
        np.testing.assert_allclose(residual, want.residual, **close)
        assert n_iter == 3
        assert np.isnan(log_z)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [0.3, 30, 300])
def test_gamma_and_log_z_are_the_engines(rng, dtype, method, scale):
    W, b1, b2 = (a.astype(dtype) for a in make_rbm(rng, 20, 9, scale))
    status, tau_v, _, gamma, _, _, log_z = Model(W, b1, b2, dtype).run(method, flags=bp.LOG_Z, gamma=True, max_iter=200)
    want = cf.Engine(W).run(b1, b2, method=method, max_iter=200, tol=0, gamma=True, log_z=True)
    assert method == "bethe" or want.residual < 1e-5  # then Gamma from the messages is that of Eq. 18
    eps = 1e4 * np.finfo(dtype).eps
    np.testing.assert_allclose(tau_v, want.tau_v, atol=eps)
    np.testing.assert_allclose(gamma, want.gamma, atol=eps)
    np.testing.assert_allclose(log_z, want.log_z, rtol=eps)
    assert status == bp.OK


def test_marginals_of_a_tree_are_exact(rng, dtype):
    W, b1, b2 = make_rbm(rng, 10, 1, 1.0)
    status, tau_v, tau_h, gamma, _, _, log_z = Model(W, b1, b2, dtype).run(
        "sum-product", tol=1e-6, flags=bp.LOG_Z, gamma=True
    )
    want = cf.infer(W, b1, b2, method="exact", gamma=True, log_z=True)
    for got, truth in ((tau_v, want.tau_v), (tau_h, want.tau_h), (gamma, want.gamma), (log_z, want.log_z)):
        np.testing.assert_allclose(got, truth, rtol=1e-5)
    assert status == bp.OK


def test_unconverged_is_told_and_no_error(rng):
    model = Model(*make_rbm(rng, 30, 20, 1.5), "float64")
    status, *_, n_iter, residual, _ = model.run("sum-product", max_iter=2, tol=1e-9)
    assert status == bp.NOT_CONVERGED
    assert n_iter == 2
    assert residual > 1e-9


def test_clamped_units_are_evidence(rng, dtype):
    W, b1, b2 = (a.astype(dtype) for a in make_rbm(rng, 12, 7))
    mask, values = rng.random(12) < 0.5, rng.random(12) < 0.5
    clamped = np.where(mask, np.where(values, np.inf, -np.inf), b1)
    for method in METHODS:
        _, tau_v, tau_h, *_ = Model(W, clamped, b2, dtype).run(method)
        want = cf.Engine(W).run(b1, b2, method=method, max_iter=20, tol=0, evidence=(mask, values))
        np.testing.assert_allclose(tau_v, want.tau_v, atol=1e-6)
        np.testing.assert_allclose(tau_h, want.tau_h, atol=1e-6)
        np.testing.assert_array_equal(tau_v[mask], values[mask])


@pytest.mark.parametrize("shape", [(1, 1), (13, 5), (70, 33)])
def test_half_steps_are_a_gibbs_chain(rng, isa, shape):
    W, b1, b2 = make_rbm(rng, *shape)
    model = Model(W, b1, b2, np.dtype("float64"))
    v, h = (rng.random(shape[0]) < 0.5).astype(float), np.empty(shape[1])
    want = cf.gibbs(W, b1, b2, v=v, n_steps=30, seed=5, step=4, first_instance=7)
    for step in range(4, 34):
        bp.check(bp.sample_h(at(model.workspace), at(h), at(v), at(model.b2), 5, 7, step))
        bp.check(bp.sample_v(at(model.workspace), at(v), at(h), at(model.b1), 5, 7, step))
    np.testing.assert_array_equal(v, want.v)
    np.testing.assert_array_equal(h, want.h)


def test_free_energy_is_the_papers(rng, dtype):
    W, b1, b2 = make_rbm(rng, 6, 4, 2.0)
    model, F, log_p = Model(W, b1, b2, dtype), np.empty(1), []
    parameters = {"W_vh": W, "b_v": b1, "b_h": b2, "W_vx": np.empty((6, 0)), "W_hx": np.empty((4, 0))}
    for v in itertools.product((0, 1), repeat=6):
        states = np.array(v, dtype)
        bp.check(bp.free_energy(at(model.workspace), at(F), at(states), at(model.b1), at(model.b2)))
        want = _reference.free_energy(parameters, np.array(v, float), np.empty(0))
        np.testing.assert_allclose(F[0], want, rtol=1e-5)
        log_p.append(-F[0])
    want = cf.infer(W, b1, b2, method="exact", log_z=True).log_z
    np.testing.assert_allclose(np.logaddexp.reduce(log_p), want, rtol=1e-5)


# --- workspaces and threads ------------------------------------------------------------------------------------------


def test_a_workspace_can_be_copied(rng):
    model = Model(*make_rbm(rng, 40, 20), np.dtype("float32"))
    model.run("sum-product", max_iter=2)
    copy = bp.copy(model.workspace)
    want = model.run("sum-product", max_iter=1, flags=bp.WARM_START)
    model.workspace[:], model.workspace = 0, copy
    for got, truth in zip(model.run("sum-product", max_iter=1, flags=bp.WARM_START), want, strict=True):
        np.testing.assert_array_equal(got, truth)


def test_one_workspace_does_not_serve_two_threads(rng):
    """Whoever comes while it works is refused, and the one at work is not disturbed."""
    W, b1, b2 = make_rbm(rng, 1000, 1000, 0.01)
    model, other = Model(W, b1, b2, np.dtype("float32")), Model(W, b1, b2, np.dtype("float32"))
    want, results, refusals = other.run("sum-product", max_iter=1000), [], set()

    def attempt(max_iter):
        try:
            return model.run("sum-product", max_iter=max_iter)
        except ValueError as error:
            refusals.add(str(error))

    def work():
        while not (results and refusals) and len(results) < 50:  # the other may have been faster
            results.extend(filter(None, [attempt(1000)]))

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        attempt(1)
    worker.join()
    assert refusals == {f"crbm_fast status {bp.BUSY}: {bp.error_text(bp.BUSY).decode()}"}
    np.testing.assert_array_equal(results[0][1], want[1])


@pytest.mark.parametrize("method", METHODS)
def test_gamma_and_log_z_do_not_disturb_the_next_start(rng, dtype, method):
    """Warm starts rely on what the last run left in the workspace, sums of messages included."""
    rbm = make_rbm(rng, 70, 20)
    model, other = Model(*rbm, dtype), Model(*rbm, dtype)
    for _ in range(3):
        got = model.run(method, max_iter=2, flags=bp.WARM_START | bp.LOG_Z, gamma=True)
        want = other.run(method, max_iter=2, flags=bp.WARM_START)
        v, h, F = np.ones(70, dtype), np.empty(20, dtype), np.empty(1)
        bp.check(bp.sample_h(at(model.workspace), at(h), at(v), at(model.b2), 1, 2, 3))
        bp.check(bp.free_energy(at(model.workspace), at(F), at(v), at(model.b1), at(model.b2)))
        np.testing.assert_array_equal(got[1], want[1])
        np.testing.assert_array_equal(got[2], want[2])


def test_a_contradicted_clamp_has_probability_0(rng, dtype):
    W, b1, b2 = make_rbm(rng, 5, 3)
    b1[0], b1[1] = np.inf, -np.inf
    model, F = Model(W, b1, b2, dtype), np.empty(1)
    for v0, v1 in itertools.product((0, 1), repeat=2):
        v = np.array([v0, v1, 1, 0, 1], dtype)
        bp.check(bp.free_energy(at(model.workspace), at(F), at(v), at(model.b1), at(model.b2)))
        assert np.isfinite(F[0]) == ((v0, v1) == (1, 0))


def test_a_workspace_of_another_process_is_not_used(rng, tmp_path):
    """Unless everything happens to lie where it lay there, and then it is as good as new."""
    Model(*make_rbm(rng, 5, 3), np.dtype("float64")).workspace.tofile(tmp_path / "workspace")
    code = f"""
import numpy as np
from crbm_fast import ctypes_api as bp
w, x = bp.copy(np.fromfile({str(tmp_path / "workspace")!r}, np.uint8)), np.ones(5)
print(bp.free_energy(*(a.ctypes.data for a in (w, np.empty(1), x, x, x))))
"""
    told = run_python("-c", code)
    assert told.stdout in (f"{bp.NOT_INITIALISED}\n", f"{bp.OK}\n"), told.stderr


def test_bad_weights_get_a_clear_error():
    with pytest.raises(ValueError, match="W has shape"):
        bp.workspace(np.zeros(3))
    with pytest.raises(ValueError, match=r"W\[0, 1\] = nan"):
        bp.workspace(np.array([[0, np.nan]]))
    with pytest.raises(ValueError, match="crbm_fast status -4: nv and nh"):
        bp.check(bp.workspace_size(-1, 2, 4))


# --- other languages -------------------------------------------------------------------------------------------------


def test_numba_calls_it(rng):
    run, sample_h, sample_v = bp.run, bp.sample_h, bp.sample_v
    MIXED = bp.MIXED_PRODUCT

    @numba.njit(nogil=True)
    def work(w, tau_v, tau_h, b1, b2, v, h):
        status = run(
            w.ctypes.data,
            tau_v.ctypes.data,
            tau_h.ctypes.data,
            0,
            0,
            b1.ctypes.data,
            b2.ctypes.data,
            MIXED,
            20,
            1e-6,
            0.0,
            0,
        )
        for step in range(5):
            status |= sample_h(w.ctypes.data, h.ctypes.data, v.ctypes.data, b2.ctypes.data, 1, 2, step)
            status |= sample_v(w.ctypes.data, v.ctypes.data, h.ctypes.data, b1.ctypes.data, 1, 2, step)
        return status

    W, b1, b2 = make_rbm(rng, 9, 5)
    tau_v, tau_h, v, h = np.empty(9), np.empty(5), np.zeros(9), np.empty(5)
    assert work(bp.workspace(W), tau_v, tau_h, b1, b2, v, h) == bp.OK
    np.testing.assert_allclose(tau_v, cf.infer(W, b1, b2, method="mixed-product", tol=1e-6).tau_v, atol=1e-12)
    np.testing.assert_array_equal(v, cf.gibbs(W, b1, b2, v=np.zeros(9), n_steps=5, seed=1, first_instance=2).v)


def build_client(folder, name, header):
    """A C extension module `name` with one function, which imports the table by `header`."""
    source = folder / f"{name}.c"
    source.write_text(f"""
        #include <Python.h>
        #include "{header}"
        static PyObject *version(PyObject *self, PyObject *args)
        {{
            const crbm_fast_api *bp = crbm_fast_import();
            return bp ? PyLong_FromLong(bp->version) : NULL;
        }}
        static PyMethodDef methods[] = {{{{"version", version, METH_NOARGS, ""}}, {{0}}}};
        static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, methods}};
        PyMODINIT_FUNC PyInit_{name}(void) {{ return PyModule_Create(&module); }}
    """)
    flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-Wno-missing-field-initializers",
        "-shared",
        "-fPIC",
        f"-I{sysconfig.get_path('include')}",
        f"-I{cf.get_include()}",
    ]
    target = folder / (name + sysconfig.get_config_var("EXT_SUFFIX"))
    subprocess.run([*CC, *flags, source, "-o", target], check=True)


def build_and_run_embedded(source):
    """What a C program prints that embeds this Python."""
    config, program = sysconfig.get_config_vars(), source.with_suffix("")
    python = [
        f"-I{sysconfig.get_path('include')}",
        f"-L{config['LIBDIR']}",
        f"-Wl,-rpath,{config['LIBDIR']}",
        f"-lpython{config['LDVERSION']}",
        *config["LIBS"].split(),
        *config["SYSLIBS"].split(),
    ]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{cf.get_include()}"]
    subprocess.run([*CC, *flags, source, "-o", program, "-pthread", *python], check=True)
    # the libraries of this interpreter, be it a virtual environment or not, and this crbm_fast
    path = os.pathsep.join([PARENT, *sys.path])
    run = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHOME": sys.base_prefix},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_client_of_another_version_meets_a_clear_error(tmp_path):
    text = (Path(cf.get_include()) / "crbm_fast.h").read_text()
    for version, name in ((0, "older"), (bp.API_VERSION, "same"), (bp.API_VERSION + 1, "newer")):
        changed = re.sub(r"(#define CRBM_FAST_API_VERSION) \d+", rf"\1 {version}", text)
        (tmp_path / f"{name}.h").write_text(changed)
        build_client(tmp_path, name, f"{name}.h")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {{0}}; print({{0}}.version())"
    assert run_python("-c", code.format("same")).stdout == "1\n"
    told = run_python("-c", code.format("older")).stderr
    assert (
        "ImportError: this program was compiled for version 0 of crbm_fast's C interface; the crbm_fast installed "
        "serves versions 1 to 1: compile the program again" in told
    )
    assert "install a newer crbm_fast" in run_python("-c", code.format("newer")).stderr


@pytest.mark.parametrize(("compiler", "standard"), [("CC", "c99"), ("CXX", "c++11")])
def test_the_header_compiles_alone(tmp_path, compiler, standard):
    source = tmp_path / ("client.c" if compiler == "CC" else "client.cpp")
    # alone, and again after Python.h, which brings crbm_fast_import
    source.write_text("""
        #include "crbm_fast.h"
        #include <Python.h>
        #include "crbm_fast.h"
        const crbm_fast_api *table(void) { return crbm_fast_import(); }
        int main(void) { return crbm_fast_check(0) == CRBM_FAST_OK; }
    """)
    command = CC if compiler == "CC" else ["c++"]
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{cf.get_include()}"]
    python = ["-isystem", sysconfig.get_path("include")]
    subprocess.run([*command, *flags, *python, "-c", source, "-o", tmp_path / "client.o"], check=True)


# --- the surface does not change by accident -------------------------------------------------------------------------

SIGNATURES = {
    "error_text": "char const *(int)",
    "workspace_size": "Py_ssize_t (Py_ssize_t, Py_ssize_t, int)",
    "init": "int (void *, size_t, void const *, Py_ssize_t, Py_ssize_t, int)",
    "run": "int (void *, void *, void *, void *, crbm_fast_info *, void const *, void const *, int, int, double, "
    "double, int)",
    "sample_h": "int (void *, void *, void const *, void const *, uint64_t, uint64_t, uint64_t)",
    "sample_v": "int (void *, void *, void const *, void const *, uint64_t, uint64_t, uint64_t)",
    "free_energy": "int (void *, double *, void const *, void const *, void const *)",
}

TABLE = """
    int version; int oldest;
    const char *(*error_text)(int status);
    ptrdiff_t (*workspace_size)(ptrdiff_t nv, ptrdiff_t nh, int dtype);
    int (*init)(void *workspace, size_t size, const void *W, ptrdiff_t nv, ptrdiff_t nh, int dtype);
    int (*run)(void *workspace, void *tau_v, void *tau_h, void *gamma, crbm_fast_info *info, const void *b1,
               const void *b2, int method, int max_iter, double tol, double damping, int flags);
    int (*sample_h)(void *workspace, void *h, const void *v, const void *b2, uint64_t seed, uint64_t chain,
                    uint64_t step);
    int (*sample_v)(void *workspace, void *v, const void *h, const void *b1, uint64_t seed, uint64_t chain,
                    uint64_t step);
    int (*free_energy)(void *workspace, double *F, const void *v, const void *b1, const void *b2);
"""

CONSTANTS = {
    "API_VERSION": 1,
    "ALIGN": 64,
    "FLOAT32": 4,
    "FLOAT64": 8,
    "SUM_PRODUCT": 0,
    "MAX_PRODUCT": 1,
    "MIXED_PRODUCT": 2,
    "BETHE": 3,
    "WARM_START": 1,
    "LOG_Z": 2,
    "OK": 0,
    "NOT_CONVERGED": 1,
    "NULL_POINTER": -1,
    "MISALIGNED": -2,
    "TOO_SMALL": -3,
    "BAD_SIZE": -4,
    "BAD_DTYPE": -5,
    "NOT_INITIALISED": -6,
    "BUSY": -7,
    "BAD_OPTION": -8,
    "NOT_FINITE": -9,
    "NOT_BINARY": -10,
    "WRONG_VERSION": -11,
}


def header():
    return (Path(cf.get_include()) / "crbm_fast.h").read_text()


def words(text):
    """C without comments and spacing."""
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)).strip()


def test_signatures_of_the_cimport_surface():
    names = {name: re.search(r'"(.*)"', repr(capsule))[1] for name, capsule in cython_api.__pyx_capi__.items()}
    assert names == SIGNATURES


def test_layout_of_the_table():
    """A change here needs another CRBM_FAST_API_VERSION; a change of anything but the end, another `oldest`."""
    body = re.search(r"typedef struct crbm_fast_api \{(.*?)\} crbm_fast_api;", header(), re.DOTALL)[1]
    assert words(body) == words(TABLE)
    info = re.search(r"typedef struct crbm_fast_info \{(.*?)\}", header(), re.DOTALL)[1]
    assert words(info) == "double n_iter; double residual; double log_z;"


def test_constants_are_the_same_in_every_language():
    in_c = {name: int(value) for name, value in re.findall(r"#define CRBM_FAST_(\w+) \(?(-?\d+)\)?", header())}
    pxd = (Path(cf.__file__).parent / "cython_api.pxd").read_text()
    in_cython = {name: int(value) for name, value in re.findall(r"^    ([A-Z0-9_]+) = (-?\d+)", pxd, re.MULTILINE)}
    in_python = {name: value for name, value in vars(ctypes_api).items() if name in CONSTANTS}
    assert in_c == in_cython == in_python == CONSTANTS


def test_ctypes_has_the_types_of_the_table():
    kinds = {
        "int": ctypes.c_int,
        "double": ctypes.c_double,
        "uint64_t": ctypes.c_uint64,
        "size_t": ctypes.c_size_t,
        "ptrdiff_t": ctypes.c_ssize_t,
        "const": ctypes.c_char_p,
    }
    for result, name, arguments in re.findall(r"([\w \*]+)\(\*(\w+)\)\((.*?)\);", words(TABLE)):
        function = getattr(bp, name)
        assert function.restype is kinds[result.split()[0]], name
        wanted = [ctypes.c_void_p if "*" in a else kinds[a.split()[0]] for a in arguments.split(", ")]
        assert list(function.argtypes) == wanted, name


# --- docs/embedding.md -----------------------------------------------------------------------------------------------


def guide_example(name):
    text = (ROOT / "docs/embedding.md").read_text()
    return re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


@pytest.mark.parametrize("name", ["marginals.pyx", "beliefs.c", "marginals_numba.py", "marginals_threads.py"])
def test_examples_of_the_guide_are_short(name):
    assert len(guide_example(name).splitlines()) <= 48


def test_cython_example_of_the_guide(tmp_path, rng):
    (tmp_path / "marginals.pyx").write_text(guide_example("marginals.pyx"))
    # an editable install is not on sys.path, where Cython looks
    build = run_python("-m", "Cython.Build.Cythonize", "-i", str(tmp_path / "marginals.pyx"), PYTHONPATH=PARENT)
    assert build.returncode == 0, build.stdout + build.stderr
    W, b1, b2 = (a.astype(np.float32) for a in make_rbm(rng, 30, 10, N=20))
    spec = importlib.util.spec_from_file_location("marginals", next(tmp_path.glob("marginals*.so")))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tau_v, iterations = module.marginals(W, b1, b2[0])
    np.testing.assert_allclose(tau_v, cf.infer(W, b1, b2[0], tol=1e-4, max_iter=100).tau_v, atol=1e-3)
    assert 1 <= iterations < 50
    with pytest.raises(ValueError, match="NaN"):
        module.marginals(W, np.full_like(b1, np.nan), b2[0])


def test_c_example_of_the_guide(tmp_path):
    (tmp_path / "beliefs.c").write_text(guide_example("beliefs.c"))
    told = build_and_run_embedded(tmp_path / "beliefs.c")
    W, b1, b2 = np.array([[1, -1], [0.5, 2], [-1, 0.5]]), [0, -1, 0.5], [0.2, -0.4]
    want = cf.infer(W, b1, b2, tol=1e-9, max_iter=200, log_z=True)
    tau_v = " ".join(f"{t:.6f}" for t in want.tau_v)
    assert told.startswith(f"tau_v {tau_v}\nlog Z {want.log_z:.6f} after {want.n_iter} iterations, F -")


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("marginals_numba.py", r"largest difference between BP and 20,000 Gibbs samples: 0\.0[0-4]\d\n"),
        ("marginals_threads.py", r"largest error of the mean of four chains: 0\.0[0-2]\d\n"),
    ],
)
def test_python_examples_of_the_guide(tmp_path, name, printed):
    (tmp_path / name).write_text(guide_example(name))
    told = run_python(str(tmp_path / name))
    assert re.fullmatch(printed, told.stdout, re.DOTALL), told.stdout + told.stderr


def test_the_guide_names_every_status_and_function():
    text = (ROOT / "docs/embedding.md").read_text()
    for name in SIGNATURES:
        assert f"`{name}(" in text
    for name, value in list(CONSTANTS.items())[10:]:
        assert f"| `{name}` | {value} |" in text
