"""Blocked Gibbs sampling: the right distribution, the same draws whatever the threads and the split."""

import hashlib

import numpy as np
import pytest
from helpers import make_rbm
from scipy.stats import chisquare

import crbm_fast as cf
from crbm_fast import _reference


def joint_counts(samples, nv, nh):
    bits = np.concatenate([samples.v, samples.h], axis=1).astype(int)
    return np.bincount(bits @ (1 << np.arange(nv + nh)), minlength=1 << (nv + nh))


def joint_probabilities(W, b1, b2):
    nv, nh = W.shape
    states = (np.arange(1 << (nv + nh))[:, None] >> np.arange(nv + nh) & 1).astype(float)
    v, h = states[:, :nv], states[:, nv:]
    w = np.exp(((v @ W) * h).sum(1) + v @ b1 + h @ b2)
    return w / w.sum()


def test_stationary_distribution_is_the_rbm(isa, dtype, rng):
    """Many independent chains: their last states pass a chi-square test, and fail it for a wrong bias."""
    W, b1, b2 = make_rbm(rng, 3, 2, scale=1)
    N = 40_000
    samples = cf.gibbs(W, np.tile(b1, (N, 1)), b2, n_steps=40, seed=3, dtype=dtype)
    counts = joint_counts(samples, 3, 2)
    assert chisquare(counts, N * joint_probabilities(W, b1, b2)).pvalue > 1e-3
    wrong = b1 + np.array([0.3, 0, 0])
    assert chisquare(counts, N * joint_probabilities(W, wrong, b2)).pvalue < 1e-6


def test_one_step_draws_from_the_conditionals(isa, dtype, rng):
    """Eq. 3: h given v, then v given that h."""
    W, b1, b2 = make_rbm(rng, 6, 5, scale=0.7)
    v0 = np.array([1, 0, 1, 1, 0, 0])
    N = 50_000
    s = cf.gibbs(W, np.tile(b1, (N, 1)), b2, v=np.tile(v0, (N, 1)), seed=11, dtype=dtype)
    p_h = 1 / (1 + np.exp(-(b2 + v0 @ W)))
    assert np.abs(s.h.mean(0) - p_h).max() < 5 * 0.5 / np.sqrt(N)
    p_v = 1 / (1 + np.exp(-(b1 + s.h @ W.T)))
    assert np.abs((s.v - p_v).mean(0)).max() < 5 * 0.5 / np.sqrt(N)
    correlation = ((s.v - p_v).T @ (s.h - p_h)) / N
    assert np.abs(correlation).max() < 5 * 0.25 / np.sqrt(N)


def test_moments_agree_with_enumeration(rng):
    W, b1, b2 = make_rbm(rng, 6, 4, scale=0.6)
    N = 50_000
    s = cf.gibbs(W, np.tile(b1, (N, 1)), b2, n_steps=60, seed=5)
    want = _reference.exact(W, b1, b2)
    error = 5 * 0.5 / np.sqrt(N)
    assert np.abs(s.v.mean(0) - want["tau_v"]).max() < error
    assert np.abs(s.h.mean(0) - want["tau_h"]).max() < error
    assert np.abs(s.v.T @ s.h / N - want["gamma"]).max() < error


def test_draws_are_those_of_earlier_versions(isa, dtype):
    """The numbers behind a seed are a promise: this is what version 0.1 drew."""
    v = cf.gibbs(np.zeros((301, 0)), np.linspace(-3, 3, 301), np.zeros(0), seed=9, step=2, dtype=dtype).v
    assert hashlib.sha256(v.astype(np.uint8).tobytes()).hexdigest()[:16] == "703bb4191c052c56"


def test_same_draws_for_any_threads_split_and_isa(dtype, rng):
    W, b1, b2 = make_rbm(rng, 50, 30, N=700)  # enough for threads
    want = cf.gibbs(W, b1, b2, n_steps=5, seed=42, n_threads=1, dtype=dtype)
    for n_threads in (2, 3, 8):
        got = cf.gibbs(W, b1, b2, n_steps=5, seed=42, n_threads=n_threads, dtype=dtype)
        np.testing.assert_array_equal(got.v, want.v)
        np.testing.assert_array_equal(got.h, want.h)
    for a, b in ((0, 37), (37, 700)):
        part = cf.gibbs(W, b1[a:b], b2[a:b], n_steps=5, seed=42, first_instance=a, dtype=dtype)
        np.testing.assert_array_equal(part.v, want.v[a:b])


def test_same_draws_on_every_instruction_set(isa, dtype, rng):
    W, b1, b2 = make_rbm(rng, 50, 30, N=10)
    got = cf.gibbs(W, b1, b2, n_steps=3, seed=1, dtype=dtype)
    # stored sums of the draws, equal for all; a probability within rounding of a draw would be needed to differ
    assert (int(got.v.sum()), int(got.h.sum())) == EXPECTED[dtype.name]


EXPECTED = {"float32": (246, 160), "float64": (246, 160)}


def test_a_chain_continues_from_its_step(rng):
    W, b1, b2 = make_rbm(rng, 20, 10, N=7)
    whole = cf.gibbs(W, b1, b2, n_steps=9, seed=8)
    half = cf.gibbs(W, b1, b2, n_steps=4, seed=8)
    rest = cf.gibbs(W, b1, b2, v=half.v, n_steps=5, seed=8, step=half.step)
    np.testing.assert_array_equal(rest.v, whole.v)
    np.testing.assert_array_equal(rest.h, whole.h)
    assert whole.step == rest.step == 9
    other = cf.gibbs(W, b1, b2, n_steps=9, seed=9)
    assert (other.v != whole.v).any()


def test_one_chain_and_out(rng):
    W, b1, b2 = make_rbm(rng, 20, 10)
    one = cf.gibbs(W, b1, b2, seed=4)
    assert one.v.shape == (20,)
    assert one.h.shape == (10,)
    assert set(np.unique(one.v)) <= {0, 1}
    engine = cf.Engine(W)
    got = engine.gibbs(b1, b2, seed=4, out=one)
    assert got is one
    with pytest.raises(ValueError, match=r"out.v has shape \(20,\); expected \(2, 20\)"):
        engine.gibbs(np.zeros((2, 20)), b2, out=one)
    with pytest.raises(TypeError, match="out is dict; expected Samples"):
        engine.gibbs(b1, b2, out={})


def test_evidence_is_obeyed(rng):
    W, b1, b2 = make_rbm(rng, 5, 3, scale=1)
    mask, values = np.array([1, 0, 0, 1, 0], bool), np.array([1, 0, 0, 0, 0])
    N = 40_000
    s = cf.gibbs(W, np.tile(b1, (N, 1)), b2, n_steps=40, seed=3, evidence=(mask, values))
    assert (s.v[:, mask] == values[mask]).all()
    want = cf.infer(W, b1, b2, method="exact", evidence=(mask, values))
    assert np.abs(s.v.mean(0) - want.tau_v).max() < 5 * 0.5 / np.sqrt(N)
    assert np.abs(s.h.mean(0) - want.tau_h).max() < 5 * 0.5 / np.sqrt(N)


def test_saturated_probabilities_are_obeyed(isa, dtype):
    s = cf.gibbs(np.zeros((2, 2)), np.tile([1000, -1000], (500, 1)), [-1000, 1000], n_steps=3, dtype=dtype)
    assert (s.v == [1, 0]).all()
    assert (s.h == [0, 1]).all()


def test_the_default_start_is_fair_and_seeded(rng):
    v = cf.gibbs(np.zeros((40, 1)), np.zeros((500, 40)), np.zeros(1), seed=1).v
    assert abs(v.mean() - 0.5) < 5 * 0.5 / np.sqrt(v.size)


@pytest.mark.parametrize("N", [0, 1])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 2)])
def test_empty_models(shape, N):
    s = cf.gibbs(np.zeros(shape), np.zeros((N, shape[0])), np.zeros((N, shape[1])))
    assert s.v.shape == (N, shape[0])
    assert s.h.shape == (N, shape[1])


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"v": np.full(3, 0.5)}, ValueError, "v must hold states 0 and 1; found 0.5"),
        ({"v": np.zeros(4)}, ValueError, r"v has shape \(4,\); expected \(3,\)"),
        ({"n_steps": 0}, ValueError, "n_steps=0 is outside"),
        ({"seed": -1}, ValueError, "seed=-1 is outside"),
        ({"seed": 1.5}, TypeError, "seed=1.5 must be an integer"),
        ({"step": -1}, ValueError, "step=-1 is outside"),
    ],
)
def test_bad_input_gets_a_clear_error(changed, error, message):
    with pytest.raises(error, match=message):
        cf.gibbs(np.zeros((3, 2)), np.zeros(3), np.zeros(2), **changed)
