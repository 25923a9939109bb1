"""Annealed importance sampling against enumeration, and its error bars."""

import numpy as np
import pytest
from helpers import make_rbm

import crbm_fast as cf


def test_exact_without_coupling(rng):
    b1, b2 = rng.normal(size=5), rng.normal(size=4)
    estimate = cf.ais(np.zeros((5, 4)), b1, b2, n_chains=3, n_betas=2)
    np.testing.assert_allclose(estimate.log_z, np.logaddexp(0, b1).sum() + np.logaddexp(0, b2).sum(), rtol=1e-12)
    assert estimate.std_error == 0


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_within_its_error_bars(rng, scale):
    W, b1, b2 = make_rbm(rng, 8, 6, scale=scale, N=30)
    estimate = cf.ais(W, b1, b2, n_chains=200, n_betas=300, seed=1)
    truth = cf.infer(W, b1, b2, method="exact", log_z=True).log_z
    z = (estimate.log_z - truth) / estimate.std_error
    assert (np.abs(z) < 4).all()
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5  # the bars are neither too short nor too long
    assert estimate.std_error.max() < 0.2
    # the test can fail: a bias off by 0.3 leaves the bars
    b1_wrong = b1.copy()
    b1_wrong[:, 0] += 0.3
    wrong = cf.infer(W, b1_wrong, b2, method="exact", log_z=True).log_z
    assert (np.abs(estimate.log_z - wrong) / estimate.std_error).max() > 6


def test_more_temperatures_shrink_the_error(rng):
    W, b1, b2 = make_rbm(rng, 8, 6, scale=2.0)
    errors = [cf.ais(W, b1, b2, n_betas=n, seed=2).std_error for n in (5, 50, 500)]
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]


def test_same_numbers_for_any_split_and_threads(rng):
    W, b1, b2 = make_rbm(rng, 8, 6, N=30)
    a = cf.ais(W, b1, b2, n_chains=50, n_betas=10, seed=3, n_threads=1)  # 1500 chains: two parts
    b = cf.ais(W, b1, b2, n_chains=50, n_betas=10, seed=3, n_threads=2)
    first = cf.ais(W, b1[:4], b2[:4], n_chains=50, n_betas=10, seed=3)
    np.testing.assert_array_equal(a.log_z, b.log_z)
    np.testing.assert_array_equal(a.log_z[:4], first.log_z)


def test_rows_beyond_a_chunk_have_draws_of_their_own(rng):
    model = cf.CRBM.from_parameters(rng.normal(size=(3, 2)), W_vx=np.ones((3, 1)), W_hx=np.ones((2, 1)))
    log_z = model.log_partition(np.ones((1100, 1)), method="ais", n_chains=2, n_betas=3)
    assert len(np.unique(log_z)) > 500
    assert not np.array_equal(log_z[:76], log_z[1024:])


def test_of_a_model(rng):
    model = cf.CRBM.from_parameters(rng.normal(size=(6, 5)), W_vx=rng.normal(size=(6, 3)), W_hx=rng.normal(size=(5, 3)))
    X, V = rng.normal(size=(4, 3)), rng.random((4, 6)) < 0.5
    got = model.log_likelihood(V, X, method="ais", n_chains=300, n_betas=200)
    np.testing.assert_allclose(got, model.log_likelihood(V, X, method="exact"), atol=0.1)


@pytest.mark.parametrize(
    ("kw", "message"),
    [({"n_chains": 1}, "n_chains=1 is outside"), ({"n_betas": 0}, "n_betas=0"), ({"seed": -1}, "seed=-1")],
)
def test_errors(kw, message):
    with pytest.raises(ValueError, match=message):
        cf.ais(np.zeros((2, 2)), np.zeros(2), np.zeros(2), **kw)


def test_saturated_models_give_numbers(rng):
    W, b1, b2 = make_rbm(rng, 6, 5, scale=100)
    estimate = cf.ais(W.astype(np.float32), b1, b2, n_betas=20)
    assert np.isfinite(estimate.log_z)
    assert np.isfinite(estimate.std_error)
