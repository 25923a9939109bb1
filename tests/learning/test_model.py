"""CRBM and RBM: energies, conditionals, predictions, samples, likelihoods; shapes, sparse features, errors."""

import numpy as np
import pytest
import scipy.sparse
from helpers import make_crbm
from scipy.special import expit

import crbm_fast as cf
from crbm_fast import _reference as ref
from crbm_fast.inference import METHODS


def numpy_parameters(model):
    return {name: p.astype(np.float64) for name, p in model.parameters().items()}


@pytest.fixture
def small(rng, dtype):
    """A model of 5 + 4 units and 3 features, 7 instances; tolerance for comparisons with float64."""
    model = make_crbm(rng, 5, 4, 3, dtype=dtype)
    X, V, H = rng.normal(size=(7, 3)), rng.random((7, 5)) < 0.5, rng.random((7, 4)) < 0.5
    return model, X, V, H, {"float32": 2e-5, "float64": 1e-12}[dtype.name]


# --- Eqs. 2-4 against the reference -------------------------------------------------------------------------------


def test_biases(small):
    model, X, _, _, tol = small
    b1, b2 = model.biases(X)
    for n, x in enumerate(X):
        want = ref.biases(numpy_parameters(model), x)
        np.testing.assert_allclose(b1[n], want[0], atol=tol)
        np.testing.assert_allclose(b2[n], want[1], atol=tol)
    assert b1.dtype == b2.dtype == model.dtype


def test_energy_and_free_energy(small):
    model, X, V, H, tol = small
    p = numpy_parameters(model)
    E, F = model.energy(V, H, X), model.free_energy(V, X)
    for n in range(len(X)):
        v, h = V[n].astype(float), H[n].astype(float)
        np.testing.assert_allclose(E[n], ref.energy(p, v, h, X[n]), atol=10 * tol)
        np.testing.assert_allclose(F[n], ref.free_energy(p, v, X[n]), atol=10 * tol)


def test_free_energy_is_the_energy_with_h_summed_out(small):
    model, X, V, _, tol = small
    states = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    E = np.stack([model.energy(V, np.tile(h, (len(V), 1)), X) for h in states])
    np.testing.assert_allclose(model.free_energy(V, X), -np.log(np.exp(-E).sum(axis=0)), atol=20 * tol)


def test_conditionals(small):
    model, X, V, H, tol = small
    p = numpy_parameters(model)
    b1, b2 = p["b_v"] + X @ p["W_vx"].T, p["b_h"] + X @ p["W_hx"].T
    np.testing.assert_allclose(model.conditional_h(V, X), expit(b2 + V @ p["W_vh"]), atol=tol)
    np.testing.assert_allclose(model.conditional_v(H, X), expit(b1 + H @ p["W_vh"].T), atol=tol)


# --- predictions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sum-product", "mixed-product", "max-product", "mean-field", "tap", "exact"])
def test_predictions_are_those_of_the_engine(rng, method):
    model = make_crbm(rng, 5, 4, 3)
    X = rng.normal(size=(1500, 3))  # more than a chunk
    b = cf.infer(model.W_vh, *model.biases(X), method=method, max_iter=30, tol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(X, method=method, max_iter=30, tol=1e-5), b.tau_v)
    predicted = model.predict(X, method=method, max_iter=30, tol=1e-5)
    np.testing.assert_array_equal(predicted, b.tau_v > 0.5)
    assert predicted.dtype == np.uint8


def test_prediction_uses_the_models_own_inference(rng):
    model = make_crbm(rng, 5, 4, 3, scale=2)
    X = rng.normal(size=(20, 3))
    default = model.predict_proba(X)
    model.inference = cf.Inference("mean-field", 3, 0.0)
    spelled_out = model.predict_proba(X, method="mean-field", max_iter=3, tol=0)
    np.testing.assert_array_equal(model.predict_proba(X), spelled_out)
    assert not np.array_equal(model.predict_proba(X), default)


def test_where_mean_field_starts_is_kept(rng, tmp_path):
    model = make_crbm(rng, 5, 4, 3, scale=2)
    X = rng.normal(size=(20, 3))
    default = model.predict_proba(X, method="mean-field", max_iter=2, tol=0)
    model.inference = cf.Inference("mean-field", 2, 0.0, init="visible")
    b = cf.infer(model.W_vh, *model.biases(X), method="mean-field", max_iter=2, tol=0, init="visible")
    model.save(tmp_path / "m.npz")
    for got in (model, cf.CRBM.load(tmp_path / "m.npz")):
        np.testing.assert_array_equal(got.predict_proba(X), b.tau_v)
        np.testing.assert_array_equal(got.predict_proba(X, init=None), default)
        got.predict(X, method="sum-product")  # which has no such start
    with pytest.raises(ValueError, match="init='visible' is for mean-field"):
        model.predict(X, method="sum-product", init="visible")


def test_evidence_is_obeyed_and_helps(rng):
    model = make_crbm(rng, 5, 4, 3)
    X, V = rng.normal(size=(9, 3)), rng.random((9, 5)) < 0.5
    mask = np.array([True, False, False, True, False])
    proba = model.predict_proba(X, method="exact", evidence=(mask, V))
    np.testing.assert_array_equal(proba[:, mask], V[:, mask])
    # P(v_1 = 1 | v_0, v_3, x) by Bayes' rule from the whole distribution
    states = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    for n in range(len(X)):
        w = np.exp(-model.free_energy(states, np.tile(X[n], (32, 1))))
        w = w * (states[:, mask] == V[n, mask]).all(axis=1)
        np.testing.assert_allclose(proba[n], w @ states / w.sum(), atol=1e-5)


def test_sample_frequencies(rng):
    """Gibbs samples of many equal instances against enumeration; a wrong bias fails."""
    model = make_crbm(rng, 4, 3, 2)
    x = rng.normal(size=2)
    V = model.sample(np.tile(x, (20000, 1)), n_steps=100, seed=3)
    truth = model.predict_proba(x[None], method="exact")[0].astype(float)
    sigma = np.sqrt(truth * (1 - truth) / len(V))
    assert (np.abs(V.mean(axis=0) - truth) < 4 * sigma).all()
    model.b_v[0] += 0.5
    wrong = model.predict_proba(x[None], method="exact")[0].astype(float)
    assert (np.abs(V.mean(axis=0) - wrong) > 8 * sigma).any()


def test_sample_does_not_depend_on_the_split(rng):
    model = make_crbm(rng, 6, 4, 2)
    X = rng.normal(size=(2100, 2))
    once = model.sample(X, n_steps=3, seed=5)
    np.testing.assert_array_equal(once[:1024], model.sample(X[:1024], n_steps=3, seed=5))
    one = model.copy()
    one.n_threads = 1
    np.testing.assert_array_equal(once, one.sample(X, n_steps=3, seed=5))


# --- likelihood ---------------------------------------------------------------------------------------------------


def test_exact_log_likelihood(small):
    model, X, V, _, tol = small
    got = model.log_likelihood(V, X, method="exact")
    want = [ref.log_likelihood(numpy_parameters(model), v.astype(float), x) for v, x in zip(V, X, strict=True)]
    np.testing.assert_allclose(got, want, atol=20 * tol)


def test_probabilities_sum_to_one(rng):
    model = make_crbm(rng, 5, 3, 2, dtype="float64")
    states = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    X = np.tile(rng.normal(size=2), (32, 1))
    np.testing.assert_allclose(np.exp(model.log_likelihood(states, X, method="exact")).sum(), 1, rtol=1e-12)


def test_bethe_is_close_where_coupling_is_weak(rng):
    model = make_crbm(rng, 8, 6, 3, scale=0.1, dtype="float64")
    X, V = rng.normal(size=(20, 3)), rng.random((20, 8)) < 0.5
    exact = model.log_likelihood(V, X, method="exact")
    assert np.abs(model.log_likelihood(V, X, method="bethe") - exact).max() < 1e-3
    mean_field = model.log_likelihood(V, X, method="mean-field")
    assert (mean_field >= exact - 1e-9).all()  # mean field's log Z is a lower bound
    assert np.abs(mean_field - exact).max() > np.abs(model.log_likelihood(V, X) - exact).max()


def test_log_partition_asks_the_table_of_methods(rng):
    model = make_crbm(rng, 5, 3, 2, scale=0.1, dtype="float64")
    X = rng.normal(size=(4, 2))
    names = {method.log_z: name for name, method in METHODS.items() if method.log_z is not None}
    assert {"exact", "bethe", "mean-field", "tap"} <= names.keys()
    for log_z, name in names.items():
        b = cf.infer(model.W_vh, *model.biases(X), method=name, max_iter=200, tol=1e-6, log_z=True)
        np.testing.assert_array_equal(model.log_partition(X, method=log_z), b.log_z)
    with pytest.raises(ValueError, match=r"method='max-product' is not one of: .*'bethe'.*'ais'"):
        model.log_partition(X, method="max-product")


# --- what learning computes with a model ----------------------------------------------------------------------------


def test_fields_are_written_into_the_arrays_given(small):
    model, X, V, H, tol = small
    p = numpy_parameters(model)
    rows, v, h = (np.ascontiguousarray(a, model.dtype) for a in (X, V, H))
    out = np.empty((7, 5), model.dtype), np.empty((7, 4), model.dtype)
    for given in (None, out):
        b1, b2 = model.biases_of(rows, out=given)
        np.testing.assert_array_equal(b1, model.biases(X)[0])
        np.testing.assert_array_equal(b2, model.biases(X)[1])
    assert b1 is out[0]
    assert b2 is out[1]
    theta_h, theta_v = np.empty_like(b2), np.empty_like(b1)
    assert model.fields_h(v, b2, theta_h) is theta_h
    assert model.fields_v(h, b1, theta_v) is theta_v
    np.testing.assert_allclose(theta_h, b2 + V @ p["W_vh"], atol=tol)
    np.testing.assert_allclose(theta_v, b1 + H @ p["W_vh"].T, atol=tol)
    np.testing.assert_array_equal(model.fields_h(v, b2), theta_h)
    np.testing.assert_array_equal(model.fields_v(h, b1), theta_v)


def test_biases_of_a_plain_rbm_are_repeated(rng):
    rbm = cf.RBM.from_parameters(rng.normal(size=(5, 4)), b_v=rng.normal(size=5), b_h=rng.normal(size=4))
    b1, b2 = rbm.biases_of(None, 3)
    np.testing.assert_array_equal(b1, np.tile(rbm.b_v, (3, 1)))
    np.testing.assert_array_equal(b2, np.tile(rbm.b_h, (3, 1)))
    assert not np.shares_memory(b1, rbm.b_v)


def test_an_engine_of_the_model_shares_its_weights(rng):
    model = make_crbm(rng, 5, 4, 3)
    assert np.shares_memory(model.engine().W, model.W_vh)
    model.n_threads = 1
    assert model.engine().n_threads == model.threads() == 1


# --- plain RBM ----------------------------------------------------------------------------------------------------


def test_an_rbm_is_a_crbm_whose_features_are_zero(rng):
    W, b_v, b_h = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4)
    rbm = cf.RBM.from_parameters(W, b_v=b_v, b_h=b_h)
    crbm = cf.CRBM.from_parameters(W, b_v=b_v, b_h=b_h, W_vx=np.ones((5, 2)), W_hx=np.ones((4, 2)))
    V, zero = rng.random((6, 5)) < 0.5, np.zeros((6, 2))
    np.testing.assert_array_equal(rbm.free_energy(V), crbm.free_energy(V, zero))
    np.testing.assert_array_equal(rbm.conditional_h(V), crbm.conditional_h(V, zero))
    np.testing.assert_array_equal(rbm.predict_proba()[0], crbm.predict_proba(zero)[3])
    np.testing.assert_allclose(rbm.log_likelihood(V, method="exact"), crbm.log_likelihood(V, zero, method="exact"))
    assert rbm.log_partition(method="exact").shape == (1,)
    assert rbm.sample(n_samples=9, n_steps=2).shape == (9, 5)
    assert rbm.sample(v=V, n_steps=2).shape == (6, 5)


def test_evidence_gives_an_rbm_instances(rng):
    rbm = cf.RBM.from_parameters(rng.normal(size=(5, 4)))
    values = rng.random((7, 5)) < 0.5
    out = rbm.predict_proba(evidence=(np.arange(5) < 3, values))
    np.testing.assert_array_equal(out[:, :3], values[:, :3])


# --- sparse features, layouts, dtypes -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array])
def test_sparse_features(rng, dtype, make):
    model = make_crbm(rng, 5, 4, 50, dtype=dtype)
    X = rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.1)
    V = rng.random((30, 5)) < 0.5
    tol = {"float32": 1e-5, "float64": 1e-13}[dtype.name]
    for a, b in zip(model.biases(make(X)), model.biases(X), strict=True):
        np.testing.assert_allclose(a, b, atol=tol)
    np.testing.assert_allclose(model.free_energy(V, make(X)), model.free_energy(V, X), atol=10 * tol)
    np.testing.assert_array_equal(model.predict(make(X)), model.predict(X))


@pytest.mark.parametrize("kind", ["uint8", "bool", "int64", "float16", ">f8"])
def test_features_of_any_dtype(rng, kind):
    model = make_crbm(rng, 5, 4, 3)
    X = (rng.random((10, 3)) < 0.5).astype(kind)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.astype(np.float32)))


def test_strided_and_read_only_input(rng):
    model = make_crbm(rng, 5, 4, 3)
    big = rng.normal(size=(20, 6))
    X = big[::2, ::2]
    X.flags.writeable = False
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.copy()))


def test_empty_batches(rng):
    model = make_crbm(rng, 5, 4, 3)
    none = np.zeros((0, 3))
    assert model.predict(none).shape == (0, 5)
    assert model.log_likelihood(np.zeros((0, 5)), none).shape == (0,)
    assert model.sample(none).shape == (0, 5)


# --- the object ---------------------------------------------------------------------------------------------------


def test_parameters_are_assigned_by_value(rng):
    model = make_crbm(rng, 5, 4, 3)
    W = rng.normal(size=(5, 4))
    model.W_vh = W
    W[0, 0] = 99
    assert model.W_vh[0, 0] != 99
    with pytest.raises(ValueError, match=r"b_v has shape \(4,\); expected \(5,\)"):
        model.b_v = np.zeros(4)
    with pytest.raises(ValueError, match=r"b_h\[1\] = nan"):
        model.b_h = [0, np.nan, 0, 0]


def test_initial_parameters():
    model = cf.CRBM(50, 40, 30, scale=0.1, seed=4)
    assert abs(model.W_vh.std() - 0.1) < 0.01
    assert not model.W_vx.any()
    np.testing.assert_array_equal(model.W_vh, cf.CRBM(50, 40, 30, scale=0.1, seed=4).W_vh)
    assert repr(model) == "CRBM(nv=50, nh=40, nx=30, dtype=float32)"
    assert repr(cf.RBM(3, 2)) == "RBM(nv=3, nh=2, dtype=float32)"


def test_copy_is_independent(rng):
    model = make_crbm(rng, 5, 4, 3)
    twin = model.copy()
    twin.b_v += 1
    assert not np.array_equal(twin.b_v, model.b_v)
    assert twin.inference == model.inference


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda m: m.predict(np.zeros((2, 4))), ValueError, r"X has shape \(2, 4\); expected \(N, 3\), as .* nx=3"),
        (lambda m: m.predict(np.zeros(3)), ValueError, r"X has shape \(3,\)"),
        (lambda m: m.predict(), ValueError, "X is missing; this model has nx=3 features"),
        (lambda m: m.predict([[0, 0, np.nan]]), ValueError, r"X\[0, 2\] = nan; expected finite"),
        (lambda m: m.predict(np.array([["a", "b", "c"]])), TypeError, "expected real numbers"),
        (lambda m: m.predict(np.zeros((2, 3)), method="magic"), ValueError, "method='magic' is not one of"),
        (lambda m: m.predict(np.zeros((2, 3)), tolerance=1), TypeError, "unknown keyword 'tolerance'; expected one of"),
        (lambda m: m.predict(np.zeros((2, 3)), max_iter=0), ValueError, "max_iter=0 is outside"),
        (lambda m: m.predict(np.zeros((2, 3)), max_iter=2.5), TypeError, "max_iter=2.5 must be an integer"),
        (lambda m: m.predict(np.zeros((2, 3)), evidence=3), ValueError, "evidence must be a pair"),
        (lambda m: cf.RBM(5, 4).predict(evidence=3), ValueError, "evidence must be a pair"),
        (lambda m: m.log_partition(np.zeros((2, 3)), gamma=True), TypeError, "unknown keyword 'gamma'"),
        (lambda m: m.log_likelihood(np.full((2, 5), 7), np.zeros((2, 3))), ValueError, r"V\[0, 0\] = 7"),
        (lambda m: m.energy(np.zeros((2, 5)), -np.ones((2, 4)), np.zeros((2, 3))), ValueError, r"H\[0, 0\] = -1.0"),
        (lambda m: m.conditional_h(scipy.sparse.eye_array(5), np.zeros((5, 3))), TypeError, "V is a sparse matrix"),
        (lambda m: m.conditional_v(np.zeros((2, 9)), np.zeros((2, 3))), ValueError, r"expected \(N, 4\), as .* nh=4"),
        (lambda m: m.free_energy(np.zeros((3, 5)), np.zeros((2, 3))), ValueError, "X has 2 instances; expected 3"),
        (lambda m: m.energy(np.zeros((3, 5)), np.zeros((2, 4)), np.zeros((3, 3))), ValueError, "H has 2"),
        (lambda m: m.log_likelihood(np.zeros((3, 5)), np.zeros((3, 3)), method="bp"), ValueError, "method='bp'"),
        (lambda m: m.sample(np.zeros((2, 3)), n_samples=4), ValueError, "n_samples is for a model without features"),
        (lambda m: m.sample(np.zeros((2, 3)), v=np.zeros((3, 5))), ValueError, "v has 3 rows; expected 2"),
        (lambda m: m.sample(np.zeros((2, 3)), v=np.full((2, 5), 0.5)), ValueError, "states 0 and 1"),
        (lambda m: cf.RBM(5, 4).free_energy(np.zeros((1, 5)), np.zeros((1, 1))), ValueError, "no features"),
        (lambda m: cf.CRBM(0, 4, 3), ValueError, "nv=0 is outside"),
        (lambda m: cf.CRBM(5, 4, 3, dtype="float16"), TypeError, "float16"),
        (lambda m: cf.CRBM(5, 4, 3, scale=-1), ValueError, "scale=-1"),
        (lambda m: cf.CRBM(5, 4, 3, scale=1e300), ValueError, "scale=1e\\+300 is outside"),
        (lambda m: m.conditional_h(np.full((1, 5), 1.5), np.zeros((1, 3))), ValueError, r"V\[0, 0\] = 1.5; expected"),
        (lambda m: setattr(m, "inference", None), TypeError, "inference=None must be an Inference"),
        (lambda m: cf.CRBM(5, 4, 3, n_threads=0), ValueError, "n_threads=0"),
        (lambda m: cf.CRBM.from_parameters(np.zeros(5)), ValueError, r"W_vh has shape \(5,\); expected \(nv, nh\)"),
        (lambda m: cf.CRBM.from_parameters(np.zeros((5, 4)), W_vx=np.zeros((4, 3))), ValueError, "W_vx has shape"),
        (lambda m: cf.RBM.from_parameters(np.zeros((5, 4)), W_vx=np.zeros((5, 3))), ValueError, "no features"),
        (lambda m: cf.Inference(damping=1.0), ValueError, r"damping=1 is outside \[0, 1\)"),
    ],
)
def test_errors(rng, call, kind, message):
    with pytest.raises(kind, match=message):
        call(make_crbm(rng, 5, 4, 3))


def test_overflow_is_an_error_not_a_number():
    big = [[1e20, -1e20]]
    model = cf.CRBM.from_parameters(np.zeros((2, 1)), W_hx=big, W_vx=big * 2, dtype="float32")
    x = [[1e20, 1e20]]
    for call in (
        model.biases,
        model.predict,
        lambda x: model.free_energy([[0, 1]], x),
        lambda x: model.energy([[0, 1]], [[1]], x),
        lambda x: model.conditional_h([[0, 1]], x),
        lambda x: model.conditional_v([[1]], x),
        model.log_partition,
        model.sample,
    ):
        with pytest.raises(ValueError, match="scale the features or the weights"):
            call(x)
    broken = cf.CRBM(2, 1, 2)
    broken.W_vh[0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        broken.conditional_h([[1, 1]], [[0, 0]])


def test_fortran_order_is_copied_without_a_word(rng):
    W = np.asfortranarray(rng.normal(size=(100, 90)))
    model = cf.CRBM.from_parameters(W)
    model.W_vh = W
    np.testing.assert_array_equal(model.W_vh, W)


def test_harmless_underflow_is_no_error(rng):
    with np.errstate(all="raise"):
        make_crbm(rng, 5, 4, 3).predict(rng.normal(size=(4, 3)) * 1e-300)


def test_a_sparse_matrix_with_wrong_indices_is_refused(rng):
    X = scipy.sparse.csr_array(np.eye(3))
    X.indices = X.indices + 7
    with pytest.raises(ValueError, match="indices"):
        make_crbm(rng, 5, 4, 3).predict(X)
