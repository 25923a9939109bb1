"""The contract of `infer` and `Engine`: results, errors, out=, evidence, init, warm start, warnings."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf
from crbm_fast import _reference

ITERATIVE = ["sum-product", "mixed-product", "max-product", "mixed-ascent", "max-ascent", "mean-field", "tap", "bethe"]
METHODS = [*ITERATIVE, "exact"]
# those whose residual is their step, and whose steps do not depend on their number
DAMPED = [m for m in ITERATIVE if cf.inference.METHODS[m].damped]


# --- shapes and types of results --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_one_rbm_gives_vectors_and_numbers(method, dtype, rng):
    W, b1, b2 = make_rbm(rng, 6, 4, scale=0.2)
    b = cf.infer(W, b1, b2, method=method, gamma=True, log_z=True, dtype=dtype)
    assert b.tau_v.shape == (6,)
    assert b.tau_h.shape == (4,)
    assert b.gamma.shape == (6, 4)
    assert b.tau_v.dtype == b.tau_h.dtype == b.gamma.dtype == dtype
    assert type(b.n_iter) is int
    assert type(b.converged) is bool
    assert type(b.residual) is float
    assert type(b.log_z) is float
    assert b.messages is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("N", [0, 1, 2, 7, 8, 9, 70])
def test_a_batch_gives_arrays_and_each_row_is_its_own_rbm(method, N, dtype, rng):
    W, b1, b2 = make_rbm(rng, 5, 7, scale=0.1, N=N)
    b = cf.infer(W, b1, b2, method=method, gamma=True, log_z=True, dtype=dtype)
    assert b.tau_v.shape == (N, 5)
    assert b.tau_h.shape == (N, 7)
    assert b.gamma.shape == (N, 5, 7)
    assert b.n_iter.shape == b.converged.shape == b.residual.shape == b.log_z.shape == (N,)
    assert b.converged.dtype == bool
    tol = 1e-6 if dtype == np.float32 else 1e-13
    for n in range(N):
        one = cf.infer(W, b1[n], b2[n], method=method, gamma=True, log_z=True, dtype=dtype)
        assert one.n_iter == b.n_iter[n]
        np.testing.assert_allclose(b.tau_v[n], one.tau_v, atol=tol)
        np.testing.assert_allclose(b.gamma[n], one.gamma, atol=tol)
        np.testing.assert_allclose(b.log_z[n], one.log_z, atol=20 * tol)


def test_what_is_not_asked_for_is_none(rng):
    b = cf.infer(*make_rbm(rng, 3, 2))
    assert b.gamma is b.log_z is b.messages is None


def test_a_vector_beside_a_batch_is_shared(rng):
    W, b1, b2 = make_rbm(rng, 5, 4, N=3)
    shared = cf.infer(W, b1, b2[0])
    for n in range(3):
        np.testing.assert_array_equal(shared.tau_v[n], cf.infer(W, b1[n], b2[0]).tau_v)
    assert cf.infer(W, b1[0], b2).tau_v.shape == (3, 5)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16", "float32"),
        ("int8", "float64"),
        ("bool", "float64"),
        ("longdouble", "float64"),
        (">f4", "float32"),
        (">f8", "float64"),
    ],
)
def test_dtype_follows_W(given, want):
    W = np.ones((2, 3)).astype(given)
    assert cf.infer(W, [0, 0], [0, 0, 0]).tau_v.dtype == want
    assert cf.Engine(W).dtype == want
    assert cf.infer(W, [0, 0], [0, 0, 0], dtype="float32").tau_v.dtype == np.float32


def test_lists_are_arrays():
    b = cf.infer([[1.0], [2.0]], [0, 1], [0])
    np.testing.assert_array_equal(b.tau_v, cf.infer(np.array([[1.0], [2.0]]), np.array([0.0, 1]), np.zeros(1)).tau_v)


# --- bad input --------------------------------------------------------------------------------------------------

GOOD = {"W": np.zeros((3, 2)), "b_v": np.zeros(3), "b_h": np.zeros(2)}


def broken(a, index, value):
    a = np.array(a, float)
    a[index] = value
    return a


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"W": broken(GOOD["W"], (1, 0), np.nan)}, ValueError, r"W\[1, 0\] = nan; expected finite"),
        ({"b_v": broken(GOOD["b_v"], 2, np.inf)}, ValueError, r"b_v\[2\] = inf"),
        ({"b_h": broken(GOOD["b_h"], 0, -np.inf)}, ValueError, r"b_h\[0\] = -inf"),
        ({"b_v": [1e39, 0, 0], "dtype": "float32"}, ValueError, r"b_v\[0\] = 1e\+39; expected at most 1e\+30 in"),
        ({"W": np.zeros(3)}, ValueError, r"W has shape \(3,\); expected \(nv, nh\)"),
        ({"W": 3.0}, ValueError, r"W has shape \(\)"),
        ({"W": np.zeros((3, 2), complex)}, TypeError, r"W has dtype complex128; expected real numbers"),
        ({"W": np.full((3, 2), None)}, TypeError, r"W has dtype object"),
        ({"W": [["a", "b"]]}, TypeError, r"W has dtype <U1"),
        ({"W": [[1, 2], [3]]}, ValueError, r"W is not an array"),
        ({"b_v": np.zeros(4)}, ValueError, r"b_v has shape \(4,\); expected \(3,\) or \(N, 3\), as W has nv=3"),
        ({"b_v": 0.0}, ValueError, r"b_v has shape \(\)"),
        ({"b_h": np.zeros((1, 1, 2))}, ValueError, r"b_h has shape \(1, 1, 2\)"),
        ({"b_v": np.zeros((4, 3)), "b_h": np.zeros((5, 2))}, ValueError, r"b_v has 4 instances and b_h has 5"),
        ({"b_h": np.zeros(2, "M8[s]")}, TypeError, r"b_h has dtype datetime64"),
        ({"b_v": np.ma.masked_array(np.zeros(3), [0, 1, 0])}, TypeError, r"b_v is a masked array"),
        ({"b_h": None}, TypeError, r"b_h is None; pass an array"),
        ({"W": np.zeros((3, 2)).T}, ValueError, r"b_v has shape \(3,\); expected .* is W transposed\?"),
        ({"method": "sum"}, ValueError, r"method='sum' is not one of: 'sum-product', 'mixed-product'"),
        ({"method": None}, ValueError, r"method=None"),
        ({"max_iter": 0}, ValueError, r"max_iter=0 is outside \[1, "),
        ({"max_iter": 2.5}, TypeError, r"max_iter=2.5 must be an integer"),
        ({"max_iter": True}, TypeError, r"max_iter=True must be an integer"),
        ({"tol": -1e-3}, ValueError, r"tol=-0.001 is outside \[0, inf\)"),
        ({"tol": np.nan}, ValueError, r"tol=nan"),
        ({"tol": "1e-3"}, TypeError, r"tol='1e-3' must be a real number"),
        ({"damping": 1}, ValueError, r"damping=1 is outside \[0, 1\)"),
        ({"damping": 1.2}, ValueError, r"damping=1.2 is outside \[0, 1\)"),
        ({"damping": -0.1}, ValueError, r"damping=-0.1"),
        ({"damping": 0.5, "method": "max-ascent"}, ValueError, "damping=0.5: method='max-ascent' cannot oscillate"),
        ({"damping": 1 - 1e-9, "dtype": "float32"}, ValueError, r"damping=0.999999999 is 1 in float32"),
        ({"gamma": "all"}, ValueError, r"gamma='all' is not one of: False, True, 'sum'"),
        ({"gamma": 1}, ValueError, r"gamma=1 "),
        ({"log_z": "yes"}, TypeError, r"log_z='yes' must be True or False"),
        ({"dtype": "float16"}, TypeError, r"dtype=float16 is not supported; use 'float32' or 'float64'"),
        ({"dtype": "nonsense"}, TypeError, r"dtype='nonsense' is not a dtype"),
        ({"n_threads": 0}, ValueError, r"n_threads=0 is outside \[1, "),
        ({"n_threads": "2"}, TypeError, r"n_threads='2' must be an integer"),
        ({"out": {}}, TypeError, r"out is dict; expected Beliefs"),
        ({"init": np.zeros((2, 3))}, ValueError, r"init has shape \(2, 3\); expected \(3, 2\)"),
        ({"init": np.full((3, 2), np.nan)}, ValueError, r"init\[0, 0\] = nan"),
        ({"init": np.full(5, 2.0), "method": "tap"}, ValueError, r"init has values outside \[0, 1\]"),
        ({"init": np.zeros((3, 2)), "method": "exact"}, ValueError, r"method='exact' has no messages"),
        ({"init": "visible"}, ValueError, "init='visible' is for mean-field.*; method='sum-product' has no such"),
        ({"init": "hidden", "method": "tap"}, ValueError, "init='hidden' is not one of: None, 'visible'"),
        ({"evidence": 3}, ValueError, r"evidence must be a pair \(mask, values\)"),
        ({"evidence": ([0, 1, 0], [0, 0, 0])}, TypeError, r"evidence mask has dtype int64; expected bool"),
        ({"evidence": (np.zeros(4, bool), 0)}, ValueError, r"evidence mask has shape \(4,\); expected \(3,\)"),
        ({"evidence": (np.ones(3, bool), 0.5)}, ValueError, r"evidence values must be 0 or 1 .*found 0.5"),
        ({"evidence": (np.ones(3, bool), np.nan)}, ValueError, r"found nan"),
        ({"evidence": ([[True], [True, False]], 0)}, ValueError, r"evidence mask is not an array"),
        ({"evidence": (np.ma.masked_array(np.ones(3, bool)), 0)}, TypeError, r"evidence mask is a masked array"),
        ({"tol": 10**400}, ValueError, r"tol=inf is outside"),
        ({"dtype": "f4,("}, TypeError, r"dtype='f4,\(' is not a dtype"),
    ],
)
def test_bad_input_gets_a_clear_error(changed, error, message):
    with pytest.raises(error, match=message):
        cf.infer(**{**GOOD, **changed})


def test_sparse_weights_get_a_clear_error():
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match=r"W is a sparse matrix; pass W.toarray\(\)"):
        cf.infer(csr_array(np.eye(3)), np.zeros(3), np.zeros(3))


# --- out= -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("N", [None, 4])
def test_out_is_written_and_returned(method, N, rng):
    W, b1, b2 = make_rbm(rng, 6, 5, scale=0.3, N=N)
    kw = {"method": method, "gamma": True, "log_z": True}
    if method != "exact":
        kw["messages"] = True
    out = cf.infer(W, -b1, b2, **kw)
    arrays = out.tau_v, out.tau_h, out.gamma
    want = cf.infer(W, b1, b2, **kw)
    got = cf.infer(W, b1, b2, out=out, **kw)
    assert got is out
    assert all(a is b for a, b in zip((out.tau_v, out.tau_h, out.gamma), arrays, strict=True))
    for name in ("tau_v", "tau_h", "gamma", "log_z", "n_iter", "converged", "residual"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("tau_v", np.zeros(4), ValueError, r"out.tau_v has shape \(4,\); expected \(3,\)"),
        ("tau_h", np.zeros(2, np.float32), TypeError, r"out.tau_h has dtype float32; expected float64"),
        ("gamma", None, TypeError, r"out.gamma is NoneType; expected an array of shape \(3, 2\)"),
        ("gamma", np.zeros((2, 3)).T, ValueError, r"out.gamma is not C-contiguous"),
        ("tau_v", "read-only", ValueError, r"out.tau_v is read-only"),
    ],
)
def test_out_is_checked_before_anything_is_written(field, value, error, message):
    out = cf.infer(**GOOD, gamma=True)
    for array in (out.tau_v, out.tau_h, out.gamma):
        array[...] = -1
    if isinstance(value, str):
        value = np.full(3, -1.0)
        value.flags.writeable = False
    setattr(out, field, value)
    with pytest.raises(error, match=message):
        cf.infer(**GOOD, gamma=True, out=out)
    for name in {"tau_v", "tau_h", "gamma"} - {field}:
        assert (getattr(out, name) == -1).all()


def test_out_may_not_share_memory_with_anything(rng):
    """Found by an attack: tau_v written over b_v gave silently wrong beliefs."""
    W, b1, b2 = make_rbm(rng, 4, 4)
    for method in ITERATIVE:
        for field, victim, name in (("tau_v", b1, "b_v"), ("tau_h", b2, "b_h"), ("gamma", W, "W")):
            out = cf.infer(W, b1, b2, method=method, gamma=True, tol=0)
            setattr(out, field, victim)
            with pytest.raises(ValueError, match=f"out.{field} shares memory with {name}"):
                cf.infer(W, b1, b2, method=method, gamma=True, tol=0, out=out)
        out = cf.infer(W, b1, b2, method=method, gamma=True, tol=0)
        out.tau_h = out.tau_v
        with pytest.raises(ValueError, match=r"out\.tau_h shares memory with out\.tau_v"):
            cf.infer(W, b1, b2, method=method, gamma=True, tol=0, out=out)


def test_exact_checks_its_size_before_anything_is_written():
    out = cf.Beliefs(np.full((2, 26), 7.0), np.full((2, 26), 7.0), np.full(2, 7), np.zeros(2, bool), np.full(2, 7.0))
    evidence = np.array([[True] * 26, [False] * 26]), 0
    with pytest.raises(ValueError, match="enumerates the smaller side"):
        cf.infer(np.zeros((26, 26)), np.zeros((2, 26)), np.zeros(26), method="exact", evidence=evidence, out=out)
    assert (out.tau_v == 7).all()
    assert (out.n_iter == 7).all()


def test_a_repeated_call_with_out_allocates_nothing(rng):
    """NumPy and Python together stay below one small array; the engine's scratch is reused."""
    W, b1, b2 = make_rbm(rng, 300, 200, scale=0.05, N=20)
    for method in ITERATIVE:
        engine = cf.Engine(W)
        kw = {"method": method, "max_iter": 3, "tol": 0, "gamma": "sum", "log_z": True}
        out = engine.run(b1, b2, **kw)
        engine.run(b1, b2, out=out, **kw)
        tracemalloc.start()
        try:
            engine.run(b1, b2, out=out, **kw)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8192, method


# --- evidence ---------------------------------------------------------------------------------------------------


def clamp(W, b1, b2, mask, values):
    """The RBM of the free units, and the constant its log Z lacks."""
    on = mask & (values == 1)
    return (W[~mask], b1[~mask], b2 + W[on].sum(0)), b1[on].sum()


@pytest.mark.parametrize("method", METHODS)
def test_evidence_is_the_conditional_rbm(method, isa, dtype, rng):
    for mask in ([0, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 0], [0] * 6):
        mask = np.array(mask, bool)
        W, b1, b2 = make_rbm(rng, 6, 5, scale=0.4)
        values = np.array([0, 1, 0, 1, 0, 1])
        (Wf, bf, bh), constant = clamp(W, b1, b2, mask, values)
        kw = {"method": method, "max_iter": 30, "tol": 0, "gamma": True, "log_z": True, "dtype": dtype}
        want = cf.infer(Wf, bf, bh, **kw)
        got = cf.infer(W, b1, b2, evidence=(mask, values), **kw)
        tol = 2e-6 if dtype == np.float32 else 1e-12
        np.testing.assert_array_equal(got.tau_v[mask], values[mask])
        np.testing.assert_allclose(got.tau_v[~mask], want.tau_v, atol=tol)
        np.testing.assert_allclose(got.tau_h, want.tau_h, atol=tol)
        np.testing.assert_allclose(got.gamma[~mask], want.gamma, atol=tol)
        np.testing.assert_allclose(got.log_z, want.log_z + constant, atol=10 * tol)
        if method not in ("max-product", "max-ascent"):
            np.testing.assert_allclose(got.gamma[mask], np.outer(values[mask], got.tau_h), atol=tol)


def test_evidence_may_differ_per_instance(rng):
    W, b1, b2 = make_rbm(rng, 5, 4, N=6)
    mask, values = rng.random((6, 5)) < 0.5, (rng.random((6, 5)) < 0.5).astype(np.uint8)
    got = cf.infer(W, b1, b2, evidence=(mask, values), gamma="sum", log_z=True)
    np.testing.assert_array_equal(got.tau_v[mask], values[mask])
    for n in range(6):
        one = cf.infer(W, b1[n], b2[n], evidence=(mask[n], values[n]), log_z=True)
        np.testing.assert_array_equal(got.tau_v[n], one.tau_v)
        assert got.log_z[n] == one.log_z
    shared = cf.infer(W, b1, b2, evidence=(mask[0], 1))
    assert (shared.tau_v[:, mask[0]] == 1).all()


# --- convergence ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", DAMPED)
def test_tol_stops_when_no_belief_moves(method, rng):
    """n_iter is the first iteration at which the reference's beliefs change by at most tol."""
    for _ in range(5):
        W, b1, b2 = make_rbm(rng, 14, 9, scale=0.3)
        got = cf.infer(W, b1, b2, method=method, tol=1e-3)
        before = {"tau_v": 1 / (1 + np.exp(-b1)), "tau_h": 1 / (1 + np.exp(-b2))}
        for t in range(1, got.n_iter + 1):
            now = _reference.run(method, W, b1, b2, t)
            change = max(np.abs(now[k] - before[k]).max() for k in ("tau_v", "tau_h"))
            assert (change <= 1e-3) == (t == got.n_iter)
            before = now
        assert got.converged
        assert got.residual == pytest.approx(change, rel=1e-6, abs=1e-12)


def test_tol_zero_runs_exactly_max_iter(rng):
    W, b1, b2 = make_rbm(rng, 4, 3, scale=0)
    for method in ITERATIVE:
        assert cf.infer(W, b1, b2, method=method, tol=0, max_iter=17).n_iter == 17


@pytest.mark.parametrize("method", DAMPED)
def test_with_damping_a_small_step_does_not_pass_for_convergence(method, rng):
    W, b1, b2 = make_rbm(rng, 14, 9, scale=0.3)
    want = cf.infer(W, b1, b2, method=method, tol=1e-12, max_iter=10_000)
    heavy = cf.infer(W, b1, b2, method=method, damping=0.99, tol=1e-3, max_iter=10_000)
    assert heavy.converged
    np.testing.assert_allclose(heavy.tau_v, want.tau_v, atol=5e-3)
    np.testing.assert_allclose(heavy.tau_h, want.tau_h, atol=5e-3)
    few = cf.infer(W, b1[None], b2[None], method=method, damping=0.99, tol=1e-3, max_iter=20, fallback=None)
    assert not few.converged[0]
    assert few.residual[0] > 1e-3


@pytest.mark.parametrize("method", ["sum-product", "max-product", "mixed-product"])
def test_a_first_iteration_that_moves_messages_is_not_convergence(method):
    """Found by an attack: saturated beliefs that had not moved yet passed for convergence at n_iter=1."""
    for W, b1, b2 in (
        ([[-36.0], [24.0]], [19.0, 25.0], [7.0]),
        ([[-6.0], [-11.0], [6.0]], [-11.0, 6.0, 10.0], [-1.0]),
    ):
        got = cf.infer(W, b1, b2, method=method)
        want = cf.infer(W, b1, b2, method=method, tol=0, max_iter=100)
        assert got.n_iter > 1
        np.testing.assert_allclose(got.tau_v, want.tau_v, atol=1e-3)


def test_max_iter_may_be_the_largest_int():
    """Found by an attack: 2**31 - 1 overflowed to no iteration at all."""
    for method in ITERATIVE:
        got = cf.infer([[1.0]], [1.0], [1.0], max_iter=2**31 - 1, method=method)
        assert 1 <= got.n_iter < 20
        assert got.converged


def test_damping_helps_mixed_product(rng):
    """Found by a newcomer: damping that left the cavity undamped made it worse."""
    W, b1, b2 = make_rbm(rng, 200, 64, scale=0.2, N=40)
    plain, damped = (cf.infer(W, b1, b2, method="mixed-product", damping=d, max_iter=200, log_z=True) for d in (0, 0.4))
    assert plain.converged.mean() < 0.9 < damped.converged.mean()
    assert damped.log_z.mean() >= plain.log_z.mean() - 0.05


def frustrated(N=None):
    """Strong antiferromagnetic ring of weights on which undamped sum-product oscillates."""
    rng = np.random.default_rng(1)
    batch = () if N is None else (N,)
    return rng.normal(0, 4, (20, 20)), np.zeros((*batch, 20)), np.zeros((*batch, 20))


def test_non_convergence_of_one_rbm_warns_once_and_is_reported():
    with pytest.warns(cf.ConvergenceWarning, match=r"sum-product stopped at residual .* after 30 iterations") as caught:
        b = cf.infer(*frustrated(), max_iter=30, fallback=None)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not b.converged
    assert b.residual > 1e-3
    assert b.n_iter == 30
    assert np.isfinite(b.tau_v).all()
    with pytest.warns(cf.ConvergenceWarning) as caught:
        cf.Engine(frustrated()[0]).run(*frustrated()[1:], max_iter=30, fallback=None)
    assert caught[0].filename == __file__


def test_a_batch_does_not_warn_and_every_instance_has_its_verdict(rng):
    W, b1, b2 = frustrated(N=8)
    b1 = b1.copy()
    b1[::2] = 500 * np.sign(rng.normal(size=20))  # saturated: trivial
    b = cf.infer(W, b1, b2, max_iter=40, fallback=None)
    assert b.converged[::2].all()
    assert (b.n_iter[::2] < 10).all()
    assert not b.converged[1::2].any()
    assert (b.n_iter[1::2] == 40).all()
    np.testing.assert_array_equal(b.converged, b.residual <= 1e-3)


def test_tol_zero_does_not_warn():
    cf.infer(*frustrated(), max_iter=5, tol=0)


# --- messages, init, warm start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.parametrize("N", [None, 3])
def test_started_from_a_fixed_point_one_iteration_confirms_it(method, N, isa, dtype, rng):
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2, N=N)
    kw = {"method": method, "dtype": dtype}
    tol = 1e-6 if dtype == np.float32 else 1e-12
    first = cf.infer(W, b1, b2, tol=tol, max_iter=500, messages=True, **kw)
    assert np.all(first.converged)
    for init in (first.messages, first.messages.tolist(), first):
        again = cf.infer(W, b1, b2, tol=10 * tol, init=init, gamma=True, **kw)
        assert np.all(again.n_iter == 1)
        assert np.all(again.converged)
        np.testing.assert_allclose(again.tau_v, first.tau_v, atol=10 * tol)


@pytest.mark.parametrize("method", ITERATIVE)
def test_a_start_that_is_no_fixed_point_is_not_confirmed(method, rng):
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2)
    first = cf.infer(W, b1, b2, method=method, messages=True)
    other = cf.infer(W, b1 + 1, b2, method=method, init=first)
    assert other.n_iter > 1
    np.testing.assert_allclose(other.tau_v, cf.infer(W, b1 + 1, b2, method=method).tau_v, atol=3e-3)


@pytest.mark.parametrize("method", ITERATIVE)
def test_messages_continue_where_they_stopped(method, isa, dtype, rng):
    """5 iterations and 5 more are 10."""
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2, N=4)
    kw = {"method": method, "tol": 0, "dtype": dtype}
    half = cf.infer(W, b1, b2, max_iter=5, messages=True, **kw)
    rest = cf.infer(W, b1, b2, max_iter=5, init=half, gamma=True, log_z=True, messages=True, **kw)
    whole = cf.infer(W, b1, b2, max_iter=10, gamma=True, log_z=True, messages=True, **kw)
    for name in ("tau_v", "tau_h", "gamma", "log_z", "messages"):
        np.testing.assert_allclose(getattr(rest, name), getattr(whole, name), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("method", [m for m in ITERATIVE if m != "bethe"])
def test_warm_start_continues_bit_by_bit(method, isa, dtype, rng):
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2, N=4)
    kw = {"method": method, "tol": 0}
    engine = cf.Engine(W, dtype=dtype)
    engine.run(b1, b2, max_iter=5, warm_start=True, **kw)
    rest = engine.run(b1, b2, max_iter=5, warm_start=True, gamma="sum", **kw)
    whole = cf.Engine(W, dtype=dtype).run(b1, b2, max_iter=10, gamma="sum", **kw)
    np.testing.assert_array_equal(rest.tau_v, whole.tau_v)
    np.testing.assert_array_equal(rest.tau_h, whole.tau_h)
    np.testing.assert_array_equal(rest.gamma, whole.gamma)


@pytest.mark.parametrize("method", ITERATIVE)
def test_warm_start_survives_new_weights(method, isa, dtype, rng):
    """Training: the messages of the old weights are a good start, whatever the step of the weights."""
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2, N=4)
    engine = cf.Engine(W, dtype=dtype)
    engine.run(b1, b2, method=method, warm_start=True)
    for factor in (1.01, 0.01, 30, 1e-3):
        engine.update(W * factor)
        got = engine.run(b1, b2, method=method, warm_start=True, max_iter=200, gamma="sum", log_z=True)
        assert np.isfinite(got.log_z).all()
        cold = cf.infer(W * factor, b1, b2, method=method, max_iter=200, dtype=dtype)
        both = got.converged & cold.converged
        if factor < 2:
            assert both.all()
            np.testing.assert_allclose(got.tau_v, cold.tau_v, atol=5e-3)


def test_warm_start_begins_anew_for_another_method_or_batch(rng):
    W, b1, b2 = make_rbm(rng, 17, 9, N=4)
    engine = cf.Engine(W)
    engine.run(b1, b2, warm_start=True, tol=0)
    for method in ("max-product", "tap", "sum-product"):
        got = engine.run(b1, b2, method=method, warm_start=True, tol=0, max_iter=2)
        np.testing.assert_array_equal(got.tau_v, cf.infer(W, b1, b2, method=method, tol=0, max_iter=2).tau_v)
    got = engine.run(b1[:2], b2[:2], warm_start=True, tol=0, max_iter=2)
    np.testing.assert_array_equal(got.tau_v, cf.infer(W, b1[:2], b2[:2], tol=0, max_iter=2).tau_v)


@pytest.mark.parametrize("method", [m for m in DAMPED if m != "mixed-product"])
def test_damped_messages_continue_where_they_stopped(method, rng):
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2, N=4)
    kw = {"method": method, "tol": 0, "damping": 0.6}
    half = cf.infer(W, b1, b2, max_iter=2, messages=True, **kw)
    rest = cf.infer(W, b1, b2, max_iter=3, init=half, **kw)
    whole = cf.infer(W, b1, b2, max_iter=5, **kw)
    np.testing.assert_allclose(rest.tau_v, whole.tau_v, atol=1e-13)
    np.testing.assert_allclose(rest.tau_h, whole.tau_h, atol=1e-13)


def test_mixed_product_starts_from_states(rng):
    """Its messages are the states that v sends, also damped; fractions are rounded; no damping at first."""
    W, b1, b2 = make_rbm(rng, 17, 9, scale=0.2, N=4)
    kw = {"method": "mixed-product", "tol": 0}
    damped = cf.infer(W, b1, b2, max_iter=3, messages=True, damping=0.6, **kw)
    np.testing.assert_array_equal(damped.messages[:, :17], damped.tau_v > 0.5)
    fractions = damped.messages.copy()
    fractions[:, :17] = 0.2 + 0.6 * fractions[:, :17]
    for T, damping in ((1, 0), (2, 0), (2, 0.6)):
        got, want = (cf.infer(W, b1, b2, max_iter=T, damping=damping, init=x, **kw) for x in (fractions, damped))
        np.testing.assert_array_equal(got.tau_v, want.tau_v)
        np.testing.assert_array_equal(got.tau_h, want.tau_h)
    once, undamped = (cf.infer(W, b1, b2, max_iter=1, damping=d, init=damped, **kw) for d in (0.6, 0))
    np.testing.assert_array_equal(once.tau_v, undamped.tau_v)


def test_damping_keeps_the_fixed_points_of_mixed_product(isa, dtype, rng):
    """What converges with damping is a fixed point without, and the other way round."""
    W, b1, b2 = make_rbm(rng, 60, 24, scale=0.2, N=30)
    for first, second in ((0, 0.6), (0.6, 0)):
        kw = {"method": "mixed-product", "dtype": dtype, "max_iter": 200}
        found = cf.infer(W, b1, b2, damping=first, tol=1e-6, messages=True, **kw)
        again = cf.infer(W, b1, b2, damping=second, tol=1e-5, init=found, **kw)
        assert found.converged.sum() > 10
        assert (again.n_iter[found.converged] <= 2).all()
        np.testing.assert_allclose(again.tau_v[found.converged], found.tau_v[found.converged], atol=1e-5)


def test_a_saturated_unit_whose_damped_field_moves_has_not_converged():
    """The field of v turns from +60 to -40: two iterations on, its damped belief is still 1."""
    W, b1, b2 = np.array([[-100.0], [200.0]]), np.array([60.0, 30.0]), np.array([-50.0])
    got = cf.infer(W, b1, b2, method="mixed-product", damping=0.9, max_iter=100)
    want = cf.infer(W, b1, b2, method="mixed-product", max_iter=100)
    assert want.converged
    assert got.converged
    np.testing.assert_array_equal(got.tau_v > 0.5, want.tau_v > 0.5)
    assert want.tau_v[0] < 0.5


def test_damped_messages_of_larger_weights_do_not_overflow(dtype):
    """Found by an attack: after the second update the range of kept, damped messages was underestimated."""
    big = {"float32": 19.5, "float64": 149}[dtype.name]
    engine = cf.Engine(np.full((64, 1), big, dtype))
    engine.run(np.full(64, 50.0), [-4 * big], warm_start=True, tol=0)
    engine.update(np.full((64, 1), 0.5, dtype))
    bias = -0.5 * 64 * big
    for _ in range(3):
        got = engine.run(np.zeros(64), [bias], max_iter=1, damping=0.9, tol=0, messages=True, warm_start=True)
        theta = bias + got.messages.astype(float).sum()
        np.testing.assert_allclose(got.tau_h[0], 1 / (1 + np.exp(-theta)), atol=1e-3)


@pytest.mark.parametrize("method", ["mean-field", "tap"])
def test_mean_fields_find_the_mode_near_their_start(method):
    """Two modes, all on and all off, which differ by the visible biases alone; half of the weights are negative."""
    W = np.repeat([[0.6, -0.6]], 20, axis=0).repeat(10, axis=1)
    b1, b2 = np.array([[0.2], [-0.2]]) * np.ones(20), -W.sum(axis=0) / 2
    for init, modes in ((None, [[0] * 20, [0] * 20]), ("visible", [[1] * 20, [0] * 20])):
        b = cf.infer(W, b1, b2, method=method, max_iter=200, init=init)
        assert b.converged.all()
        assert b.tau_v.round().tolist() == modes


def test_init_without_messages_gets_a_clear_error(rng):
    W, b1, b2 = make_rbm(rng, 3, 2)
    with pytest.raises(ValueError, match="ask for them with messages=True"):
        cf.infer(W, b1, b2, init=cf.infer(W, b1, b2))


# --- Engine -----------------------------------------------------------------------------------------------------


def test_engine_update_takes_new_weights(rng):
    W, b1, b2 = make_rbm(rng, 8, 6)
    engine = cf.Engine(np.zeros_like(W))
    for method in ITERATIVE:
        engine.run(b1, b2, method=method)
    engine.update(W)
    for method in ITERATIVE:
        np.testing.assert_array_equal(
            engine.run(b1, b2, method=method, tol=0, max_iter=4).tau_v,
            cf.infer(W, b1, b2, method=method, tol=0, max_iter=4).tau_v,
        )
    with pytest.raises(ValueError, match=r"W has shape \(6, 8\); this engine has \(8, 6\)"):
        engine.update(W.T)
    with pytest.raises(ValueError, match=r"W\[0, 0\] = nan"):
        engine.update(np.full((8, 6), np.nan))


def test_engine_pickles(rng):
    W, b1, b2 = make_rbm(rng, 8, 6)
    engine = cf.Engine(W, dtype="float32", n_threads=1)
    copy = pickle.loads(pickle.dumps(engine))
    assert repr(copy) == repr(engine)
    np.testing.assert_array_equal(copy.run(b1, b2).tau_v, engine.run(b1, b2).tau_v)


def test_beliefs_describe_themselves(rng):
    text = repr(cf.infer(*make_rbm(rng, 8, 6), gamma=True))
    assert text.startswith("Beliefs(tau_v=float64[8], tau_h=float64[6], n_iter=")
    assert "gamma=float64[8, 6]" in text
    assert "messages" not in text


def test_engine_describes_itself(rng):
    engine = cf.Engine(np.zeros((8, 6), np.float32), n_threads=2)
    assert repr(engine).startswith("Engine(nv=8, nh=6, dtype=float32, n_threads=2, isa=")
    assert engine.shape == (8, 6)
    assert engine.n_threads == 2


# --- memory layouts ---------------------------------------------------------------------------------------------


def test_any_memory_layout_gives_the_same_bits(rng, tmp_path):
    W, b1, b2 = make_rbm(rng, 12, 10, N=5)
    want = cf.infer(W, b1, b2, gamma=True)
    mapped = np.lib.format.open_memmap(tmp_path / "W.npy", "w+", W.dtype, W.shape)
    mapped[...] = W
    read_only = np.load(tmp_path / "W.npy", mmap_mode="r")
    wide = np.zeros((24, 20))
    wide[::2, ::2] = W
    frozen = b1.copy()
    frozen.flags.writeable = False
    for weights in (np.asfortranarray(W), mapped, read_only, wide[::2, ::2], W[::-1, ::-1].copy()[::-1, ::-1]):
        for biases in (np.asfortranarray(b1), frozen, np.repeat(b1, 2, axis=1)[:, ::2]):
            got = cf.infer(weights, biases, b2, gamma=True)
            np.testing.assert_array_equal(got.tau_v, want.tau_v)
            np.testing.assert_array_equal(got.gamma, want.gamma)


def test_copying_a_large_strided_array_warns(rng):
    W = np.zeros((100, 200))[:, ::2]
    with pytest.warns(cf.EfficiencyWarning, match="W is not C-contiguous") as caught:
        cf.infer(W, np.zeros(100), np.zeros(100))
    assert caught[0].filename == __file__
    with pytest.warns(cf.EfficiencyWarning, match="b_v is not C-contiguous") as caught:
        cf.Engine(np.zeros((100, 2))).run(np.zeros((100, 100)).T, np.zeros(2))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cf.infer(np.ascontiguousarray(W), np.zeros(100), np.zeros(100))


def test_unaligned_and_swapped_input(rng):
    W, b1, b2 = make_rbm(rng, 5, 4)
    raw = np.frombuffer(b"x" + W.tobytes(), np.uint8)[1:].view(np.float64).reshape(5, 4)
    assert not raw.flags.aligned
    want = cf.infer(W, b1, b2)
    np.testing.assert_array_equal(cf.infer(raw, b1, b2).tau_v, want.tau_v)
    np.testing.assert_array_equal(cf.infer(W.astype(">f8"), b1.astype(">f8"), b2).tau_v, want.tau_v)


def test_numpy_error_state_does_not_matter(rng):
    with np.errstate(all="raise"):
        cf.infer(np.ones((3, 2), np.float32), [1e-320, 0, 0], [0, 0])
        cf.infer(np.ones((3, 2)), [0, 1e300, 0], [0, 0], evidence=([True, False, False], [1, np.inf, 0]))


def test_inputs_are_not_changed(rng):
    W, b1, b2 = make_rbm(rng, 6, 5, N=3)
    copies = W.copy(), b1.copy(), b2.copy()
    for method in METHODS:
        cf.infer(W, b1, b2, method=method, gamma="sum", log_z=True, evidence=(np.array([True] + [False] * 5), 1))
    cf.gibbs(W, b1, b2, v=np.zeros((3, 6)))
    for now, then in zip((W, b1, b2), copies, strict=True):
        np.testing.assert_array_equal(now, then)
