"""Samplers: p stays p, modes get their shares, the same chains whatever the threads and the split."""

from dataclasses import fields, replace

import numpy as np
import pytest
from helpers import make_rbm
from scipy.stats import chisquare

import crbm_fast as cf
from crbm_fast import samplers

EVERY = [samplers.BlockedGibbs, samplers.ParallelTempering, samplers.BPMixture]
every = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)


def bimodal(nv, nh, strength=1.2, tilt=0.06):
    """All units on or all off, on the likelier: Gibbs sampling practically never goes from one to the other."""
    W = np.full((nv, nh), strength)
    return W, -W.sum(1) / 2 + tilt, -W.sum(0) / 2


def model(name):
    """(W, b_v, b_h) small enough for the enumeration of v, with loops that make BP's beliefs wrong."""
    if name == "bimodal":
        return bimodal(6, 5, strength=2, tilt=0.2)
    rng = np.random.default_rng(7)
    W = rng.normal(0, 2.5, {"more visible": (6, 4), "more hidden": (4, 7)}[name])
    return W, rng.normal(0, 0.3, W.shape[0]) - W.sum(1) / 2, rng.normal(0, 0.3, W.shape[1]) - W.sum(0) / 2


models = pytest.mark.parametrize("problem", ["more visible", "more hidden", "bimodal"])


def all_states(n):
    return (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(float)


def probabilities(W, b_v, b_h, beta=1.0):
    """p_beta of all visible states, from the sum over all hidden ones."""
    v, h = all_states(len(b_v)), all_states(len(b_h))
    energy = beta * (v - 0.5) @ W @ (h - 0.5).T + (v @ (b_v + W.sum(1) / 2))[:, None] + h @ (b_h + W.sum(0) / 2)
    p = np.exp(energy - energy.max()).sum(1)
    return p / p.sum()


def exact_draws(rng, p, N):
    return all_states(len(p).bit_length() - 1)[rng.choice(len(p), N, p=p)]


def p_value(v, p):
    """Of a chi-square test of the states v (N, nv) against p; cells that expect less than 5 are taken together."""
    counts, expected = np.bincount(v.astype(int) @ (1 << np.arange(v.shape[1])), minlength=len(p)), len(v) * p
    rare = expected < 5
    counts, expected = (np.append(a[~rare], a[rare].sum()) for a in (counts, expected))
    keep = expected > 0
    return chisquare(counts[keep], expected[keep]).pvalue if keep.sum() > 1 else 1.0


def start_exact(sampler, rbm, N, seed=1):
    """Chains, and replicas, at their stationary distribution."""
    rng = np.random.default_rng(seed)
    state = sampler.init(N, seed=seed, v=exact_draws(rng, probabilities(*rbm), N))
    if isinstance(state, samplers.TemperedState):
        hot = [exact_draws(rng, probabilities(*rbm, beta=b), N) for b in sampler.betas[1:]]
        state = replace(state, replicas=np.stack(hot).astype(state.v.dtype))
    return state


def run(sampler, state, n_steps):
    for _ in range(n_steps):
        state = sampler.step(state)
    return state


# --- the right distribution ---------------------------------------------------------------------------------------


@every
@models
def test_the_target_is_invariant(kind, problem, dtype):
    """Chains that start at p are at p after 1, 2 and 8 steps.  The strongest test: a bias cannot hide in mixing."""
    rbm = model(problem)
    sampler, p = kind(*rbm, dtype=dtype), probabilities(*rbm)
    state, done = start_exact(sampler, rbm, 20_000), 0
    for n_steps in (1, 2, 8):
        state, done = run(sampler, state, n_steps - done), n_steps
        assert p_value(state.v, p) > 1e-3
    if kind is samplers.ParallelTempering:
        for beta, v in zip(sampler.betas[1:], state.replicas, strict=True):
            assert p_value(v, probabilities(*rbm, beta=beta)) > 1e-3


class AlwaysJumps(samplers.BPMixture):
    def _accept(self, log_ratio, state):
        return np.ones(log_ratio.shape, bool)


class ForgetsQ(samplers.BPMixture):
    def _log_q(self, x):
        return np.zeros(len(x))


class ForgetsWeights(samplers.BPMixture):
    """The proposal's density of the likeliest component for that of the mixture."""

    def _log_q(self, x):
        return (self._log_none - np.log(self.weights) + x @ self._logit.T).max(axis=1)


class AlwaysSwaps(samplers.ParallelTempering):
    def _accept(self, log_ratio, state):
        return log_ratio > -np.inf


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (AlwaysJumps, "more visible"),
        (AlwaysJumps, "more hidden"),
        (ForgetsQ, "more visible"),
        (ForgetsQ, "more hidden"),
        (ForgetsWeights, "bimodal"),
        (AlwaysSwaps, "more visible"),
    ],
)
def test_the_test_of_invariance_can_fail(kind, problem):
    rbm = model(problem)
    sampler = kind(*rbm)
    state = run(sampler, start_exact(sampler, rbm, 20_000), 8)
    assert p_value(state.v, probabilities(*rbm)) < 1e-6


@every
def test_chains_come_to_the_target(kind):
    """From one state, and from fair coins."""
    rbm = model("more visible")
    sampler, p = kind(*rbm), probabilities(*rbm)
    for v in (np.ones(6), None):
        state = sampler.init(10_000, seed=5, v=v)
        assert p_value(state.v, p) < 1e-6
        assert p_value(run(sampler, state, 30).v, p) > 1e-3


def test_samplers_take_turns_on_one_state():
    """Every mixture of their steps leaves p invariant; tempering finds its replicas untouched by the others."""
    rbm = model("bimodal")
    gibbs, tempering, jumps = (kind(*rbm) for kind in EVERY)
    state = start_exact(tempering, rbm, 20_000)
    for _ in range(3):
        tempered = tempering.step(state)
        state = gibbs.step(jumps.step(tempered))
        assert isinstance(state, samplers.TemperedState)
        assert state.replicas is tempered.replicas
    assert state.step == 9
    assert p_value(state.v, probabilities(*rbm)) > 1e-3


@every
def test_evidence_is_obeyed(kind, rng):
    """The rest has the conditional distribution, whichever side is then the smaller one."""
    rbm = model("more visible")
    v = all_states(6)
    for n_clamped in (1, 3, 6):
        mask, values = np.arange(6) < n_clamped, np.array([1, 0, 1, 1, 0, 1])
        p = probabilities(*rbm) * (v[:, mask] == values[mask]).all(axis=1)
        p /= p.sum()
        sampler = kind(*rbm, evidence=(mask, values))
        assert (sampler.init(50).v[:, mask] == values[mask]).all()
        state = run(sampler, sampler.init(10_000, seed=2, v=exact_draws(rng, p, 10_000)), 20)
        assert (state.v[:, mask] == values[mask]).all()
        assert p_value(state.v, p) > 1e-3


# --- modes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 6), (6, 16)])
def test_modes_get_their_shares_where_gibbs_stays(shape):
    rbm = bimodal(*shape, tilt=0.06 * 16 / shape[0])
    share = cf.infer(*rbm, method="exact").tau_v.mean()
    assert 0.6 < share < 0.8
    N, found = 1000, {}
    for kind in EVERY:
        sampler = kind(*rbm)
        found[kind] = run(sampler, sampler.init(N, v=np.zeros(shape[0])), 100).v.mean()
    assert found.pop(samplers.BlockedGibbs) < 0.1
    for mean in found.values():
        assert abs(mean - share) < 4 * np.sqrt(share * (1 - share) / N)


def test_tempering_works_in_turns_with_another_sampler():
    """Every pair of replicas is still tried: it once went by the number of the step, which the other counts too."""
    rbm = bimodal(16, 6)
    share = cf.infer(*rbm, method="exact").tau_v.mean()
    tempering, gibbs = samplers.ParallelTempering(*rbm), samplers.BlockedGibbs(*rbm)
    state = tempering.init(1000, v=np.zeros(16))
    for _ in range(100):
        state = gibbs.step(tempering.step(state))
    assert abs(state.v.mean() - share) < 4 * np.sqrt(share * (1 - share) / 1000)


@pytest.mark.parametrize("strength", [1.2, 2.4, 4])
def test_strong_weights_do_not_mislead_the_mixture(strength):
    """Where BP is on its way for long, Bethe's log Z was far above log Z, and 1 % of the proposals were accepted."""
    rng = np.random.default_rng(0)
    W = strength * rng.choice([-1.0, 1.0], (20, 1)) * rng.choice([-1.0, 1.0], 10)
    jumps = samplers.BPMixture(W, 0.05 - W.sum(1) / 2, -W.sum(0) / 2)
    assert run(jumps, jumps.init(500), 20).accepted.mean() > 0.8


def test_bp_finds_the_modes_and_their_weights():
    rbm = bimodal(16, 6)
    jumps = samplers.BPMixture(*rbm, max_iter=50)
    assert jumps.tau_v.shape == (2, 16)
    on = jumps.tau_v.mean(axis=1) > 0.5
    share = cf.infer(*rbm, method="exact").tau_v.mean()
    assert abs(jumps.weights[on].sum() - (0.9 * share + 0.05)) < 0.02  # the bound's weights, and 0.1 equally
    state = run(jumps, jumps.init(2000), 20)
    assert state.accepted.mean() > 0.9
    # one start, one mode: the proposals lead there only
    one = samplers.BPMixture(*rbm, starts=np.ones((1, 16)))
    assert one.tau_v.shape == (1, 16)
    assert one.tau_v.min() > 0.5


def test_a_strange_mixture_costs_acceptance_alone():
    """BP stopped after one iteration, from a single state: p stays invariant all the same."""
    rbm = model("bimodal")
    jumps = samplers.BPMixture(*rbm, starts=[[1, 0, 0, 1, 1, 0]], max_iter=1)
    state = run(jumps, start_exact(jumps, rbm, 20_000), 5)
    assert state.accepted.mean() < 0.9
    assert p_value(state.v, probabilities(*rbm)) > 1e-3


def test_swaps_alternate_and_are_reported():
    rbm = model("more visible")
    tempering = samplers.ParallelTempering(*rbm, betas=[1, 0.7, 0.4, 0])
    odd = tempering.step(tempering.init(500))
    even = tempering.step(odd)
    assert odd.swapped.shape == (500, 3)
    assert odd.swapped.mean(axis=0)[[0, 2]].min() > 0.2
    assert not odd.swapped[:, 1].any()
    assert not even.swapped[:, [0, 2]].any()
    assert odd.replicas.shape == (3, 500, 6)
    # Default: a step of about 1 in |W|_F / 4
    assert len(samplers.ParallelTempering(np.zeros((3, 2)), np.zeros(3), np.zeros(2)).betas) == 2
    assert len(samplers.ParallelTempering(np.full((4, 4), 5.0), np.zeros(4), np.zeros(4)).betas) == 7
    assert len(samplers.ParallelTempering(np.full((4, 4), 1e200), np.zeros(4), np.zeros(4)).betas) == 64


# --- the same chains ----------------------------------------------------------------------------------------------


def arrays(state):
    return {f.name: getattr(state, f.name) for f in fields(state) if isinstance(getattr(state, f.name), np.ndarray)}


def assert_same(a, b, rows=slice(None)):
    for name, want in arrays(a).items():
        np.testing.assert_array_equal(want[:, rows] if name == "replicas" else want[rows], getattr(b, name), name)


@every
def test_same_bits_for_any_threads_and_the_same_chains_for_any_split(kind, dtype, rng):
    W, b_v, b_h = make_rbm(rng, 50, 30)
    N = 900  # enough for threads
    one, two = (kind(W, b_v, b_h, n_threads=n, dtype=dtype) for n in (1, 2))
    want = run(one, one.init(N, seed=42), 5)
    assert_same(want, run(two, two.init(N, seed=42), 5))
    for a, b in ((0, 37), (37, N)):
        part = run(one, one.init(b - a, seed=42, first_chain=a), 5)
        assert_same(want, part, slice(a, b))
    other = run(one, one.init(N, seed=43), 5)
    assert (other.v != want.v).any()


@every
def test_step_is_pure(kind, rng):
    """It works on read-only arrays, and does the same again from the same state."""
    sampler = kind(*make_rbm(rng, 9, 7))
    state = run(sampler, sampler.init(50, seed=3), 2)
    for array in arrays(state).values():
        array.setflags(write=False)
    first, second = sampler.step(state), sampler.step(state)
    assert_same(first, second)
    assert first.step == state.step + 1 == 3
    assert (first.v != state.v).any()
    with pytest.raises(AttributeError):
        state.step = 5


@every
def test_random_numbers_are_not_used_twice(kind):
    """Units that no weight reaches: fair coins, independent of step, chain, unit, and of those of the start."""
    sampler = kind(np.zeros((40, 3)), np.zeros(40), np.zeros(3))
    state, seen = sampler.init(400, seed=8), []
    for _ in range(4):
        seen.append(state.v.reshape(-1))
        state = sampler.step(state)
    correlation = np.corrcoef(seen)[np.triu_indices(4, 1)]
    assert np.abs(correlation).max() < 4.5 / np.sqrt(400 * 40)


@every
def test_the_sampler_keeps_its_own_weights(kind, rng):
    W, b_v, b_h = make_rbm(rng, 9, 7)
    sampler = kind(W, b_v, b_h)
    want = sampler.step(sampler.init(50))
    W[...] = 100
    assert_same(want, sampler.step(sampler.init(50)))
    kind(np.asfortranarray(np.ones((100, 90))), np.zeros(100), np.zeros(90))  # no warning: copied once


# --- edges --------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("N", [0, 1])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_empty_models(kind, shape, N):
    sampler = kind(np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[1]))
    assert run(sampler, sampler.init(N), 2).v.shape == (N, shape[0])


@every
@pytest.mark.parametrize("scale", [100, 1e20])
def test_saturated_models(kind, dtype, scale, rng):
    W, b_v, b_h = make_rbm(rng, 6, 5, scale=scale)
    sampler = kind(W.astype(dtype), b_v, b_h)
    v = run(sampler, sampler.init(20), 5).v
    assert set(np.unique(v)) <= {0, 1}
    assert v.dtype == dtype


@every
@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"b_v": np.zeros((2, 3))}, ValueError, r"b_v has shape \(2, 3\) and b_h \(2,\).*a sampler for each RBM"),
        ({"b_v": np.zeros(2)}, ValueError, r"b_v has shape \(2,\); expected \(3,\)"),
        ({"W": np.full((3, 2), np.nan)}, ValueError, r"W\[0, 0\] = nan; expected finite"),
        ({"evidence": (np.ones(3, bool), np.full(3, 0.5))}, ValueError, "evidence values must be 0 or 1"),
        ({"dtype": "int8"}, TypeError, "dtype=int8 is not supported"),
        ({"n_threads": 0}, ValueError, "n_threads=0 is outside"),
    ],
)
def test_bad_models_get_a_clear_error(kind, changed, error, message):
    arguments = {"W": np.zeros((3, 2)), "b_v": np.zeros(3), "b_h": np.zeros(2), **changed}
    with pytest.raises(error, match=message):
        kind(arguments.pop("W"), arguments.pop("b_v"), arguments.pop("b_h"), **arguments)


@every
@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"n_chains": -1}, ValueError, "n_chains=-1 is outside"),
        ({"seed": 1.5}, TypeError, "seed=1.5 must be an integer"),
        ({"first_chain": -1}, ValueError, "first_chain=-1 is outside"),
        ({"v": np.zeros(4)}, ValueError, r"v has shape \(4,\); expected \(3,\) or \(5, 3\)"),
        ({"v": np.full(3, 0.5)}, ValueError, "v must hold states 0 and 1; found 0.5"),
    ],
)
def test_bad_starts_get_a_clear_error(kind, changed, error, message):
    with pytest.raises(error, match=message):
        kind(np.zeros((3, 2)), np.zeros(3), np.zeros(2)).init(**{"n_chains": 5, **changed})


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        ("ParallelTempering", {"betas": [0.9, 0]}, ValueError, "expected at least two numbers, from 1 down"),
        ("ParallelTempering", {"betas": [1]}, ValueError, "expected at least two numbers, from 1 down"),
        ("ParallelTempering", {"betas": [1, 0.5, -0.1]}, ValueError, "expected at least two numbers, from 1 down"),
        ("ParallelTempering", {"betas": [1, 0.5, 0.5]}, ValueError, r"betas=\[1, 0.5, 0.5\] must decrease"),
        ("BPMixture", {"starts": 0}, ValueError, "starts=0 is outside"),
        ("BPMixture", {"starts": np.zeros((2, 4))}, ValueError, r"starts has shape \(2, 4\); expected \(M, 3\)"),
        ("BPMixture", {"starts": [[0, 1, 2]]}, ValueError, "starts must hold states 0 and 1; found 2"),
        ("BPMixture", {"max_iter": 0}, ValueError, "max_iter=0 is outside"),
        ("BPMixture", {"seed": -1}, ValueError, "seed=-1 is outside"),
    ],
)
def test_bad_options_get_a_clear_error(kind, options, error, message):
    with pytest.raises(error, match=message):
        getattr(samplers, kind)(np.zeros((3, 2)), np.zeros(3), np.zeros(2), **options)


def test_tempering_needs_its_replicas():
    rbm = model("more visible")
    tempering = samplers.ParallelTempering(*rbm, betas=[1, 0.5, 0])
    for other in (samplers.BlockedGibbs(*rbm), samplers.ParallelTempering(*rbm, betas=[1, 0])):
        with pytest.raises(TypeError, match="state has no replicas at 3 betas; begin with this sampler's init"):
            tempering.step(other.init(4))


@every
def test_a_state_of_another_model_gets_a_clear_error(kind):
    sampler = kind(np.zeros((3, 2)), np.zeros(3), np.zeros(2))
    state = kind(np.zeros((4, 2)), np.zeros(4), np.zeros(2)).init(5)
    with pytest.raises(ValueError, match=r"state\.v has shape \(5, 4\); expected \(N, 3\) for this sampler's model"):
        sampler.step(state)
    state = sampler.init(5)
    for changed, message in (
        ({"v": np.full((5, 3), 0.5)}, r"state\.v must hold states 0 and 1; found 0\.5"),
        ({"v": np.zeros(3)}, r"state\.v has shape \(3,\)"),
        ({"step": 2**31}, r"state\.step=2147483648 is outside"),
    ):
        with pytest.raises(ValueError, match=message):
            sampler.step(replace(state, **changed))


def test_tempering_keeps_its_own_betas():
    betas = np.array([1, 0.5, 0])
    tempering = samplers.ParallelTempering(*model("bimodal"), betas=betas)
    betas[1] = 0.9
    assert tempering.betas[1] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        tempering.betas[1] = 0.9
