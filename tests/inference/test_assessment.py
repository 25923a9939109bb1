"""Every claim of an assessment, on a model that is made to have the property, and on one that has it not."""

import sys
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from helpers import make_crbm, make_rbm

import crbm_fast as cf
from crbm_fast.assessment import signs_and_cycles

FAST = {"n_chains": 20, "n_betas": 50}


def centred(W, rng, spread=0.5):
    """Biases that favour no state of a unit, but for a little."""
    return W, -W.sum(1) / 2 + rng.normal(0, spread, W.shape[0]), -W.sum(0) / 2 + rng.normal(0, spread, W.shape[1])


def two_modes(nv, nh, rng):
    """A stored pattern and its complement, equally likely."""
    return centred(rng.choice([-1.0, 1.0], (nv, 1)) * np.ones(nh), rng, spread=0)


def flipped(W, rng):
    return W * rng.choice([-1, 1], (W.shape[0], 1)) * rng.choice([-1, 1], W.shape[1])


def twice(answer):
    """The answer for two instances, from that for one; fields of another length are left as they are."""
    double = {
        name: {key: np.repeat(x, 2, axis=0) for key, x in value.items()} if isinstance(value, dict) else value
        for name, value in ((field.name, getattr(answer, field.name)) for field in fields(answer))
    }
    return replace(
        answer,
        **{name: np.repeat(x, 2) if isinstance(x, np.ndarray) and len(x) == 1 else x for name, x in double.items()},
    )


@pytest.fixture(scope="module")
def weak():
    """An assessment in which nothing is wrong, without enumeration."""
    return cf.assess(*make_rbm(np.random.default_rng(1), 25, 21, scale=0.1), n_betas=100)


@pytest.fixture(scope="module")
def weak_exact():
    """The same with enumeration."""
    return cf.assess(*make_rbm(np.random.default_rng(1), 12, 10, scale=0.1), **FAST)


# --- signs and cycles ---------------------------------------------------------------------------------------------


def test_signs_and_cycles_are_those_of_all_flips(rng):
    """Against every flip of small matrices with zeros; each answer comes up often."""
    seen = []
    for _ in range(300):
        W = rng.choice([-2.0, 0, 0, 0.5], (rng.integers(1, 5), rng.integers(0, 5)))
        if rng.random() < 0.3:
            W = flipped(np.abs(W), rng)
        flips = (np.array(s)[:, None] * W for s in product([-1, 1], repeat=W.shape[0]))
        balanced = any(((V >= 0).all(0) | (V <= 0).all(0)).all() for V in flips)
        # a graph without cycles loses all its edges when units with at most one are taken away again and again
        left = W != 0
        for _ in range(sum(W.shape)):
            left = left & (left.sum(1, keepdims=True) > 1) & (left.sum(0) > 1)
        assert signs_and_cycles(W) == (balanced, not left.any())
        seen.append((balanced, not left.any()))
    assert min(seen.count(answer) for answer in [(True, True), (True, False), (False, False)]) > 20
    assert (False, True) not in seen


def test_tiny_weights_are_edges_and_zeros_are_none():
    W = np.array([[1.0, 1.0], [1.0, -1e-300]])
    assert signs_and_cycles(W) == (False, False)
    W[1, 1] = -0.0
    assert signs_and_cycles(W) == (True, True)


def test_a_long_path_is_a_tree(rng):
    W = flipped(np.eye(300) + np.eye(300, k=1), rng)
    assert signs_and_cycles(W) == (True, True)
    W[-1, 0] = 1  # closes the cycle
    assert signs_and_cycles(W) in [(True, False), (False, False)]
    W[-1, 0] = -1 if signs_and_cycles(W)[0] else 1
    assert signs_and_cycles(W) == (False, False)


# --- claims, on models made for them ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 12), (12, 1), (5, 5)])
def test_a_tree(shape, rng):
    """One unit on a side, or a path with zero weights: all but mean field and TAP agree with enumeration."""
    W = rng.normal(0, 2, shape)
    if shape == (5, 5):
        W *= np.eye(5) + np.eye(5, k=1)
    answer = cf.assess(*centred(W, rng))
    truth = answer.log_z["exact"]
    assert answer.tree
    for method in ("sum-product", "bethe"):
        np.testing.assert_allclose(answer.log_z[method], truth, atol=1e-6)
        assert answer.difference(method, "exact")[1] < 1e-5
    assert abs(answer.log_z["ais"] - truth) < 5 * answer.std_error
    assert answer.log_z["mean-field"] < truth
    assert "Bethe is exact: the weights make no cycle." in answer.verdict
    assert answer.marginals_trusted.all()
    assert answer.log_z_trusted.all()
    np.testing.assert_allclose(answer.inconsistency, 0, atol=1e-5)


@pytest.mark.parametrize("scale", [0.3, 1, 3])
def test_balanced_signs_make_bethe_a_lower_bound(scale, rng):
    W = flipped(np.abs(rng.normal(0, scale, (10, 8))) * (rng.random((10, 8)) < 0.7), rng)
    _, b1, b2 = centred(W, rng)
    answer = cf.assess(W, b1 + rng.normal(0, 1, (8, 10)), b2, **FAST)
    assert answer.balanced
    assert "Bethe's log Z is a proven lower bound: the signs of W are balanced." in answer.verdict
    assert (answer.log_z["bethe"] <= answer.log_z["exact"] + 1e-6).all()
    assert (answer.log_z["mean-field"] <= answer.log_z["bethe"] + 1e-4).all()
    W[np.unravel_index(np.abs(W).argmax(), W.shape)] *= -1
    other = cf.assess(W, b1, b2, **FAST)
    assert not other.balanced
    assert "Bethe's log Z is no bound: the signs of W are frustrated." in other.verdict


def test_a_frustrated_square_has_a_log_z_above_the_truth(rng):
    """2x2 with one negative weight: Bethe's log Z is no lower bound, and one that is balanced has a lower one."""
    W = np.array([[4.0, 4.0], [4.0, -4.0]])
    square = cf.assess(*centred(W, rng, 0), **FAST)
    assert not square.balanced
    assert not square.tree
    assert square.log_z["bethe"] > square.log_z["exact"] + 0.1
    even = cf.assess(*centred(np.array([[4.0, -4.0], [4.0, -4.0]]), rng, 0), **FAST)
    assert even.balanced
    assert even.log_z["bethe"] < even.log_z["exact"] - 0.01


@pytest.mark.parametrize("nh", [16, 24])
def test_two_modes_are_found(nh, rng):
    """With enumeration and without: AIS misses the complement as BP does, and only the starts tell."""
    answer = cf.assess(*two_modes(64, nh, rng), **FAST)
    assert answer.fixed_points.tolist() == [2]
    assert answer.distance[0] > 0.99
    assert "2 fixed points are found from 20 starts, with tau_v up to 1 apart." in answer.verdict
    assert answer.verdict[-2:] == ["Do not trust the marginals.", "Do not trust log Z."]
    if nh == 16:
        assert answer.log_z_error[0] == pytest.approx(-np.log(2), abs=1e-3)
        assert answer.difference("bethe", "exact")[0] > 0.49


def test_what_is_said_of_fixed_points(weak):
    cases = (
        (
            [0, 0],
            [0, 5],
            "No fixed point is found from 20 starts on all 2 instances. As few as 0 of the starts converge.",
        ),
        ([1, 0], [20, 20], "One fixed point is found from 20 starts on 1 of 2 instances."),
        (
            [1, 3],
            [20, 20],
            "More than one fixed point is found from 20 starts on 1 of 2 instances. At most 3, with tau_v",
        ),
        (
            [2, 3],
            [20, 7],
            "More than one fixed point is found from 20 starts on all 2 instances. At most 3, with tau_v",
        ),
    )
    for counts, converged, said in cases:
        found = {"fixed_points": np.array(counts), "starts_converged": np.array(converged)}
        assert twice(replace(weak, **found)).verdict[3].startswith(said)


def test_one_mode_is_one_fixed_point(rng):
    W, b1, b2 = two_modes(64, 16, rng)
    answer = cf.assess(W / 20, b1 / 20, b2 / 20, **FAST)
    assert answer.fixed_points.tolist() == [1]
    assert answer.distance.tolist() == [0]
    assert "One fixed point is found from 20 starts." in answer.verdict


def test_a_saturated_model(rng):
    """Strong biases: everything is finite, all methods agree, and one state is said to be the answer."""
    W, b1, b2 = make_rbm(rng, 30, 12, scale=3)
    b1[:] = 200 * rng.choice([-1, 1], 30)
    answer = cf.assess(W, b1, b2, **FAST)
    assert answer.saturated.tolist() == [1]
    assert "99% of the beliefs tau_v are near 0 or 1, practically one state." in answer.verdict
    assert answer.marginals_trusted.all()
    assert answer.log_z_trusted.all()
    assert answer.inconsistency < 1e-10
    for method in answer.tau_v:
        assert np.isfinite(answer.log_z[method]).all()
        assert answer.difference(method, "exact")[1] < 1e-6
    assert not any("one state" in line for line in cf.assess(W, b1 / 200, b2, **FAST).verdict)


def test_plain_bp_that_does_not_converge(rng):
    W, b1, b2 = centred(rng.normal(0, 2, (40, 16)), rng)
    answer = cf.assess(W, b1 + rng.normal(0, 0.1, (4, 40)), b2, **FAST)
    assert not answer.converged["sum-product"].any()
    assert (answer.residual["sum-product"] > 1e-3).all()
    assert "Plain BP does not converge on any of 4 instances." in answer.verdict
    assert answer.converged["bethe"].all()
    assert (answer.residual["bethe"] <= 1e-5).all()
    assert "Descent on the Bethe free energy converges on all 4 instances." in answer.verdict


def test_weights_up_to_the_limit_give_numbers(rng, dtype):
    for weight in (30, 1000, 1e30):
        W = rng.choice([-weight, 0, weight], (6, 5)).astype(dtype)
        answer = cf.assess(W, rng.choice([-weight, 0, weight], (3, 6)), np.zeros(5), max_iter=50, **FAST)
        for values in (*answer.log_z.values(), *answer.tau_v.values(), answer.std_error, answer.inconsistency):
            assert np.isfinite(values).all()
        assert "nan" not in str(answer)


def test_the_error_bar_of_ais_over_seeds(rng):
    """Thirty seeds: their errors have the size that the bars say."""
    W, b1, b2 = make_rbm(rng, 12, 8, scale=1)
    answers = [cf.assess(W, b1, b2, seed=seed, n_starts=1, n_betas=100) for seed in range(30)]
    z = np.array([(a.log_z["ais"] - a.log_z["exact"]) / a.std_error for a in answers])
    assert np.abs(z).max() < 4
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5
    assert len(np.unique(z)) == 30


# --- the rules, one by one ----------------------------------------------------------------------------------------


def changed(values, name, shift):
    """A dictionary of arrays with one of them shifted."""
    return values | {name: values[name] + shift}


def test_nothing_wrong_is_trusted(weak, weak_exact):
    for answer in (weak, weak_exact):
        assert answer.verdict[-2:] == ["Trust the marginals.", "Trust log Z."]
    assert weak.reference == "ais"
    assert weak_exact.reference == "exact"
    assert "Bethe's log Z agrees with AIS." in weak.verdict[4]
    assert "Bethe's log Z agrees with enumeration." in weak_exact.verdict[4]


def test_marginals_need_every_condition(weak, weak_exact):
    for change in (
        {"fixed_points": np.array([2])},
        {"fixed_points": np.array([0])},
        {"starts_converged": np.array([9])},
        {"minimum": np.array([False])},
    ):
        assert not replace(weak, **change).marginals_trusted.any()
        assert replace(weak_exact, **change).marginals_trusted.all()  # the truth is known
    for answer in (weak, weak_exact):
        late = answer.converged | {"sum-product": np.array([False])}
        assert replace(answer, converged=late).marginals_trusted.all()  # by descent
        late |= {"bethe": np.array([False])}
        assert not replace(answer, converged=late).marginals_trusted.any()
    assert replace(weak, starts_converged=np.array([10])).marginals_trusted.all()
    assert replace(weak, inconsistency=np.array([0.0099])).marginals_trusted.all()
    assert not replace(weak, inconsistency=np.array([0.0101])).marginals_trusted.any()
    assert replace(weak_exact, inconsistency=np.array([0.5])).marginals_trusted.all()  # the truth is known
    level = replace(weak, log_z=weak.log_z | {"sum-product": weak.log_z["ais"]}, std_error=np.array([0.01]))
    for shift, error, trusted in ((-0.099, 0.01, 1), (-0.101, 0.01, 0), (-0.149, 0.05, 1), (9, 0.05, 1), (0, 0.31, 0)):
        off = replace(level, log_z=changed(level.log_z, "sum-product", shift), std_error=np.array([error]))
        assert off.marginals_trusted.all() == trusted
    exact = weak_exact.tau_v["sum-product"]
    for shift, trusted in ((0.0099, True), (0.0101, False)):
        near = replace(weak_exact, tau_v=weak_exact.tau_v | {"exact": exact + shift})
        assert near.marginals_trusted.all() == trusted


def test_log_z_needs_every_condition(weak, weak_exact):
    level = replace(weak, log_z=weak.log_z | {"sum-product": weak.log_z["ais"]}, std_error=np.array([0.01]))
    for shift, error, trusted in (
        (0.099, 0.01, True),
        (-0.101, 0.01, False),
        (0.149, 0.05, True),
        (0.151, 0.05, False),
    ):
        off = replace(level, log_z=changed(level.log_z, "sum-product", shift), std_error=np.array([error]))
        assert off.log_z_trusted.all() == trusted
        assert any("disagrees with AIS" in line for line in off.verdict) != trusted
    wide = replace(level, std_error=np.array([0.31]))
    assert not wide.reference_holds.any()
    assert not wide.log_z_trusted.any()
    assert "AIS cannot judge log Z, as its standard error is up to 0.31." in wide.verdict
    assert not replace(level, fixed_points=np.array([2])).log_z_trusted.any()
    assert not replace(level, starts_converged=np.array([9])).log_z_trusted.any()
    exact = replace(weak_exact, fixed_points=np.array([2]), std_error=np.array([0.9]))
    assert exact.log_z_trusted.all()  # enumeration misses nothing
    off = replace(exact, log_z=changed(exact.log_z, "exact", 0.15))
    assert not off.log_z_trusted.any()
    assert any("Bethe's log Z disagrees with enumeration. The largest difference is 0.15" in s for s in off.verdict)


def test_ais_below_a_lower_bound_has_missed_a_mode(weak):
    level = replace(weak, std_error=np.array([0.01]), balanced=False)
    low = replace(level, log_z=level.log_z | {"mean-field": level.log_z["ais"] + 0.11})
    assert not low.reference_holds.any()
    assert "AIS cannot judge log Z, as it is below a lower bound: its chains have missed a mode." in low.verdict
    near = replace(level, log_z=level.log_z | {"mean-field": level.log_z["ais"] + 0.09})
    assert near.reference_holds.all()
    above = level.log_z | {"bethe": level.log_z["ais"] + 0.2}
    assert replace(level, log_z=above).reference_holds.all()  # no bound
    assert not replace(level, log_z=above, balanced=True).reference_holds.any()  # a proven one


def test_on_trees_convergence_is_enough(weak):
    tree = replace(
        weak, tree=True, fixed_points=np.array([3]), inconsistency=np.array([1.0]), std_error=np.array([9.0])
    )
    assert tree.marginals_trusted.all()
    assert tree.log_z_trusted.all()
    late = replace(tree, converged=tree.converged | {"sum-product": np.array([False])})
    assert late.log_z_trusted.all()  # by descent
    late = replace(late, converged=late.converged | {"bethe": np.array([False])})
    assert not late.marginals_trusted.any()
    assert not late.log_z_trusted.any()


# --- instances, models --------------------------------------------------------------------------------------------


def test_instances_are_drawn(rng):
    W, b1, b2 = make_rbm(rng, 8, 6, N=30)
    answer = cf.assess(W, b1, b2, n_instances=4, seed=3, **FAST)
    assert answer.n_instances == 30
    assert answer.instances.shape == (4,)
    assert (np.diff(answer.instances) > 0).all()
    np.testing.assert_allclose(
        answer.log_z["exact"], cf.infer(W, b1, b2, method="exact", log_z=True).log_z[answer.instances]
    )
    assert str(answer).startswith("4 of 30 instances\n")
    again = cf.assess(W, b1, b2, n_instances=4, seed=3, **FAST)
    np.testing.assert_array_equal(again.log_z["ais"], answer.log_z["ais"])
    assert again.instances.tolist() == answer.instances.tolist()
    other = cf.assess(W, b1, b2, n_instances=4, seed=4, **FAST)
    assert other.instances.tolist() != answer.instances.tolist()
    every = cf.assess(W, b1[:3], b2[:3], **FAST)
    assert every.instances.tolist() == [0, 1, 2]


def test_of_a_model(rng):
    model = make_crbm(rng, 8, 6, 5, dtype="float64")
    X = rng.normal(size=(30, 5))
    answer = model.assess(X, n_instances=4, seed=3, **FAST)
    want = cf.assess(model.W_vh, *model.biases(X), n_instances=4, seed=3, **FAST)
    assert answer.instances.tolist() == want.instances.tolist()
    assert answer.n_instances == 30
    for name, values in want.log_z.items():
        np.testing.assert_allclose(answer.log_z[name], values, atol=1e-6)
    rbm = cf.RBM.from_parameters(model.W_vh, b_v=model.b_v)
    assert rbm.assess(**FAST).instances.tolist() == [0]
    with pytest.raises(ValueError, match="X has no instances"):
        model.assess(X[:0])
    with pytest.raises(ValueError, match="X is missing"):
        model.assess()
    with pytest.raises(ValueError, match="not finite, or beyond"):
        cf.CRBM.from_parameters(model.W_vh, W_vx=np.full((8, 5), 1e200)).assess(np.full((1, 5), 1e200))


# --- what it prints and draws -------------------------------------------------------------------------------------


def test_it_prints_an_aligned_table_and_the_verdict(rng):
    answer = cf.assess(*centred(rng.normal(0, 0.5, (12, 8)), rng), **FAST)
    assert repr(answer) == "Assessment(1 of 1 instances)"
    table, said = str(answer).split("\n\n")
    lines = table.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*answer.tau_v, "AIS"]
    assert list(answer.tau_v) == ["sum-product", "bethe", "mean-field", "tap", "exact"]
    end = lines[0].index("log Z") + len("log Z")
    for line, name in zip(lines[1:], answer.log_z, strict=True):
        assert float(line[:end].split()[1]) == pytest.approx(answer.log_z[name][0], abs=5.1e-4)
        assert line[end - 1].isdigit()
        assert line[end : end + 2] == "  "
    assert [" ".join(line.split()) for line in said.split("* ")[1:]] == answer.verdict
    assert all(len(line) <= 100 for line in str(answer).splitlines())


def test_differences_are_those_of_tau_v(weak_exact):
    mean, most = weak_exact.difference("bethe", "mean-field")
    apart = np.abs(weak_exact.tau_v["bethe"] - weak_exact.tau_v["mean-field"])
    np.testing.assert_allclose(mean, apart.mean(1))
    np.testing.assert_allclose(most, apart.max(1))
    with pytest.raises(ValueError, match="second='ais' is not one of: 'sum-product', 'bethe'"):
        weak_exact.difference("bethe", "ais")


def test_the_plot_has_every_pair_of_methods(weak_exact, tmp_path):
    fig = weak_exact.plot()
    names = list(weak_exact.tau_v)
    shown = [ax for ax in fig.axes if ax.get_visible()]
    assert len(shown) == len(names) * (len(names) - 1) // 2
    assert {ax.get_xlabel() for ax in shown} - {""} == {f"tau_v, {name}" for name in names[:-1]}
    assert {ax.get_ylabel() for ax in shown} - {""} == {f"tau_v, {name}" for name in names[1:]}
    dots = shown[0].collections[0].get_offsets()
    np.testing.assert_allclose(dots, np.stack([weak_exact.tau_v[n].ravel() for n in names[:2]], axis=1))
    fig.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_without_matplotlib_the_plot_says_what_to_install(weak, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'plot needs matplotlib: pip install "crbm_fast\[plots\]"'):
        weak.plot()


@pytest.mark.parametrize(
    ("kw", "message"),
    [
        ({"n_instances": 0}, "n_instances=0 is outside"),
        ({"n_starts": 0}, "n_starts=0 is outside"),
        ({"n_chains": 1}, "n_chains=1 is outside"),
        ({"max_iter": 0}, "max_iter=0 is outside"),
        ({"tol": -1}, "tol=-1 is outside"),
        ({"seed": -1}, "seed=-1 is outside"),
        ({"b_v": np.zeros((0, 2))}, "b_v has no instances"),
        ({"b_v": np.zeros(3)}, r"b_v has shape \(3,\)"),
        ({"W": np.zeros((0, 2)), "b_v": np.zeros(0)}, r"W has shape \(0, 2\); expected at least one visible unit"),
    ],
)
def test_errors(kw, message):
    with pytest.raises(ValueError, match=message):
        cf.assess(**{"W": np.zeros((2, 2)), "b_v": np.zeros(2), "b_h": np.zeros(2)} | kw)


def test_no_hidden_units():
    answer = cf.assess(np.zeros((3, 0)), np.arange(3.0), np.zeros(0), **FAST)
    assert answer.tree
    np.testing.assert_allclose(answer.log_z["bethe"], np.logaddexp(0, np.arange(3)).sum())
