"""train(): the loop, its history, early stopping, the same bits for any number of threads, divergence."""

import itertools
import logging
import pickle

import numpy as np
import pytest
from helpers.learning import ALL_OF_IT, assert_same_parameters, denoising, fit

import crbm_fast as cf
from crbm_fast.learners import LEARNERS, MLE
from crbm_fast.optimizers import SGD, Adam
from crbm_fast.training import Options
from crbm_fast.training.train import check_pair, split

# --- the loop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "sgd", SGD(momentum=0.0), Adam(beta1=0.5)])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", lambda epoch, epochs: 1 / epoch])
def test_likelihood_rises(optimizer, schedule):
    X, V = denoising()
    rate = 0.02 if optimizer == "adam" or isinstance(optimizer, Adam) else 0.2
    model, _ = fit("mle", epochs=0)
    before = model.log_likelihood(V, X, method="exact").mean()
    model, _ = fit(MLE("exact"), epochs=8, optimizer=optimizer, schedule=schedule, learning_rate=rate)
    assert model.log_likelihood(V, X, method="exact").mean() > before + 1


RATES = {"W_vx": 0.3, "b_h": 2}


def test_one_step_of_each_optimizer_is_its_formula(rng):
    """The gradient is that of test_learners; here the step, in float64, twice to see the state."""
    X, V = rng.normal(size=(10, 3)), rng.random((10, 4)) < 0.5
    adam = Adam(learning_rate=0.1, beta1=0.7, beta2=0.9, epsilon=0.01)
    for optimizer in (SGD(learning_rate=0.1, momentum=0.8), adam):
        model = cf.CRBM(4, 2, 3, dtype="float64", scale=0.3)
        mine = {name: p.copy() for name, p in model.parameters().items()}
        u = {name: np.zeros_like(p) for name, p in mine.items()}
        s = {name: np.zeros_like(p) for name, p in mine.items()}
        for t in (1, 2):
            gradient = exact_gradient(mine, X, V)
            for name, p in mine.items():
                g = gradient[name] - (0.05 * p if name.startswith("W") else 0)
                rate = 0.1 * RATES.get(name, 1)
                if isinstance(optimizer, SGD):
                    u[name] = 0.8 * u[name] + g
                    p += rate * u[name]
                else:
                    u[name] = 0.7 * u[name] + 0.3 * g
                    s[name] = 0.9 * s[name] + 0.1 * g**2
                    p += rate * (u[name] / (1 - 0.7**t)) / (np.sqrt(s[name] / (1 - 0.9**t)) + 0.01)
        cf.train(
            model, X, V, MLE("exact"), epochs=2, batch_size=10, optimizer=optimizer, weight_decay=0.05, rates=RATES
        )
        for name, p in mine.items():
            np.testing.assert_allclose(model.parameters()[name], p, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("decay", [0, 0.7, 0.999])
@pytest.mark.parametrize("units", [True, False])
def test_averaging_and_centering_are_their_formulas(rng, decay, units):
    """Six steps of plain gradient ascent in centred coordinates, replayed in NumPy with the average."""
    X, V = rng.normal(2, 1, size=(10, 3)), rng.random((10, 4)) < 0.7
    mu_x, mu_v, mu_h = X.mean(axis=0), V.mean(axis=0) * units, np.full(2, 0.5 * units)
    model = cf.CRBM(4, 2, 3, dtype="float64", scale=0.3)
    p = {name: a.copy() for name, a in model.parameters().items()}
    c_v, c_h = p["W_vh"] @ mu_h + p["W_vx"] @ mu_x, p["W_vh"].T @ mu_v + p["W_hx"] @ mu_x
    average = {name: a.copy() for name, a in p.items()}
    seen = []
    for t in range(1, 7):
        g = exact_gradient(p, X, V)
        p["W_vh"] += 0.1 * (g["W_vh"] - np.outer(g["b_v"], mu_h) - np.outer(mu_v, g["b_h"]) - 0.05 * p["W_vh"])
        p["W_vx"] += 0.03 * (g["W_vx"] - np.outer(g["b_v"], mu_x) - 0.05 * p["W_vx"])
        p["W_hx"] += 0.1 * (g["W_hx"] - np.outer(g["b_h"], mu_x) - 0.05 * p["W_hx"])
        c_v += 0.1 * g["b_v"]
        c_h += 0.2 * g["b_h"]
        p["b_v"], p["b_h"] = c_v - p["W_vh"] @ mu_h - p["W_vx"] @ mu_x, c_h - p["W_vh"].T @ mu_v - p["W_hx"] @ mu_x
        for name, a in average.items():
            a += max(1 - decay, 1 / (t + 1)) * (p[name] - a)
        seen.append({name: a.copy() for name, a in average.items()})
    got = []
    cf.train(
        model,
        X,
        V,
        MLE("exact"),
        epochs=6,
        batch_size=10,
        optimizer=SGD(learning_rate=0.1, momentum=0),
        weight_decay=0.05,
        rates=RATES,
        centering="all" if units else "features",
        averaging=decay,
        callbacks=[lambda e, m: got.append({name: a.copy() for name, a in m.parameters().items()})],
    )
    for ours, theirs in zip(got, seen, strict=True):
        for name, a in theirs.items():
            np.testing.assert_allclose(ours[name], a, atol=1e-12, err_msg=name)
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(p, got[-1][name])


@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_every_learner_learns_with_all_of_it(learner):
    _, before = fit(learner, epochs=1, learning_rate=1e-9)
    model, history = fit(learner, epochs=8, start="logistic", **ALL_OF_IT)
    assert history[-1].train_error < 0.5 * before[0].train_error
    X, V = denoising()
    assert history[-1].train_error == np.mean(model.predict(X) != V)


def test_the_best_epoch_is_one_of_the_average():
    X, V = denoising(60)
    valid, seen = denoising(200, seed=9), {}
    model, history = fit(
        "cd",
        data=(X, V),
        epochs=30,
        validation=valid,
        learning_rate=0.05,
        centering="all",
        averaging=0.95,
        callbacks=[lambda e, m: seen.update({e.epoch: (np.mean(m.predict(valid[0]) != valid[1]), m.copy())})],
    )
    assert history.column("valid_error") == [error for error, _ in seen.values()]
    assert_same_parameters(model, seen[history.best_epoch][1])
    np.testing.assert_allclose(
        history[-1].weight_norm,
        np.sqrt(sum((p.astype(float) ** 2).sum() for p in seen[30][1].parameters().values())),
        rtol=1e-6,
    )


def test_a_rate_of_0_keeps_a_block():
    start, _ = fit(epochs=0)
    for name in ("W_vh", "W_hx", "b_v"):
        model, _ = fit(rates={name: 0}, weight_decay=0.1)
        for block, p in model.parameters().items():
            assert np.array_equal(p, start.parameters()[block]) == (block == name)


def exact_gradient(p, X, V):
    """Eq. 5 and Appendix A by enumeration, averaged over the data."""
    from crbm_fast import _reference as ref

    out = {name: np.zeros_like(a) for name, a in p.items()}
    for x, v in zip(X, V.astype(float), strict=True):
        b1, b2 = ref.biases(p, x)
        r = ref.exact(p["W_vh"], b1, b2)
        mu = 1 / (1 + np.exp(-(b2 + v @ p["W_vh"])))
        out["W_vh"] += (np.outer(v, mu) - r["gamma"]) / len(X)
        out["W_vx"] += np.outer(v - r["tau_v"], x) / len(X)
        out["W_hx"] += np.outer(mu - r["tau_h"], x) / len(X)
        out["b_v"] += (v - r["tau_v"]) / len(X)
        out["b_h"] += (mu - r["tau_h"]) / len(X)
    return out


def test_history_tells_what_happened():
    model, history = fit(MLE(cf.Inference(tol=1e-3)), validation=0.25, epochs=5)
    assert history.column("epoch") == [1, 2, 3, 4, 5]
    assert history.column("max_iter") == [8, 9, 10, 11, 12]  # T = 7 + epoch
    for e in history:
        assert 0 <= e.train_error < 0.6
        assert 0 <= e.valid_error < 0.6
        assert 0 <= e.converged <= 1
        assert 1 <= e.n_iter <= e.max_iter
        assert e.gradient_norm > 0
        assert e.learning_rate == 0.02
        phases = {"data", "biases", "positive", "negative", "gradient", "step", "evaluation"}
        assert set(e.seconds) == phases | {"total"}
        assert sum(e.seconds[p] for p in phases) <= e.seconds["total"]
    np.testing.assert_allclose(
        history[-1].weight_norm, np.sqrt(sum((p.astype(float) ** 2).sum() for p in fit_last(5).values())), rtol=1e-6
    )
    assert repr(history) == f"History(5 epochs, best_epoch={history.best_epoch})"
    with pytest.raises(ValueError, match="name='loss' is not one of: 'epoch', 'train_error'"):
        history.column("loss")
    lines = str(history).splitlines()
    assert len(lines) == 6
    assert len({len(line) for line in lines}) == 1  # aligned
    assert sum("*" in line for line in lines) == 1  # the best epoch
    assert model.inference == cf.Inference("sum-product", 7 + history.best_epoch)


def fit_last(epochs):
    """The parameters after the last epoch, not those of the best one."""
    kept = {}

    def keep(epoch, model):
        kept.update({name: p.copy() for name, p in model.parameters().items()})

    fit(MLE(cf.Inference(tol=1e-3)), validation=0.25, epochs=epochs, callbacks=[keep])
    return kept


def test_errors_in_the_history_are_those_of_predict():
    X, V = denoising()
    X_valid, V_valid = denoising(100, seed=5)
    model, history = fit(validation=(X_valid, V_valid), epochs=1)
    assert history[0].valid_error == np.mean(model.predict(X_valid) != V_valid)
    assert history[0].train_error == np.mean(model.predict(X) != V)  # fewer than 1000: all of them


def test_sampling_learners_have_no_convergence():
    _, history = fit("cd", epochs=1)
    assert history[0].converged is None
    assert history[0].n_iter is None
    assert "-" in str(history)


def test_the_history_of_max_margin_learners_counts_rivals_below_the_truth():
    _, history = fit("mssvm", epochs=2)
    assert all(0 <= e.below_truth <= 1 for e in history)
    lines = str(history).splitlines()
    assert lines[0].endswith("below truth %")
    assert len({len(line) for line in lines}) == 1  # aligned
    _, history = fit("mle", epochs=1)
    assert history[0].below_truth is None
    assert "truth" not in str(history)


def test_early_stopping_restores_the_best_parameters():
    X, V = denoising(60)
    valid = denoising(200, seed=9)
    seen = {}

    def keep(epoch, model):
        seen[epoch.epoch] = {name: p.copy() for name, p in model.parameters().items()}

    model, history = fit(
        "cd", data=(X, V), epochs=200, validation=valid, patience=5, callbacks=[keep], learning_rate=0.05
    )
    assert len(history) < 200
    assert len(history) == history.best_epoch + 5
    errors = history.column("valid_error")
    assert errors[history.best_epoch - 1] == min(errors)
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(p, seen[history.best_epoch][name])
    assert model.inference.max_iter == 7 + history.best_epoch
    assert np.mean(model.predict(valid[0]) != valid[1]) == min(errors)


def test_a_validation_fraction_is_set_aside():
    """Training on 80 % never sees the rest: labels there can be anything."""
    X, V = denoising()
    model = cf.CRBM(12, 2, 12)
    data, valid = split(model, check_pair(model, X, V), Options(validation=0.2, seed=3))
    rows = [set(part.rows(np.arange(part.size)).tolist()) for part in (data, valid)]
    assert len(rows[0]) == 240
    assert len(rows[1]) == 60
    assert rows[0] | rows[1] == set(range(300))
    inside = np.array(sorted(rows[1]))
    V_wrong = V.copy()
    V_wrong[inside] = 1 - V_wrong[inside]
    a, _ = fit("mle", validation=0.2, seed=3, epochs=1)
    b, _ = fit("mle", validation=0.2, seed=3, epochs=1, data=(X, V_wrong))
    assert_same_parameters(a, b)


def test_logistic_start():
    """W_vx and b_v begin near the logistic fit: less error after one epoch, W_vh still as it was drawn."""
    _, cold = fit(epochs=1, learning_rate=0.002)
    _, warm = fit(epochs=1, learning_rate=0.002, start="logistic")
    assert warm[0].train_error < 0.5 * cold[0].train_error
    _, long = fit("logistic", epochs=300)
    assert warm[0].train_error < 1.5 * long[-1].train_error + 0.01
    model, _ = fit(epochs=0, start="logistic")
    np.testing.assert_array_equal(model.W_vh, cf.CRBM(12, 8, 12, scale=0.1).W_vh)
    assert model.W_vx.any()


def test_callbacks_can_stop():
    calls = []
    _, history = fit(epochs=10, callbacks=[lambda e, m: calls.append(e.epoch), lambda e, m: e.epoch == 3])
    assert calls == [1, 2, 3]
    assert len(history) == 3


def test_nothing_prints_and_logging_tells(capfd, caplog):
    with caplog.at_level(logging.INFO, logger="crbm_fast"):
        fit(validation=0.2, epochs=2)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""
    assert len(caplog.records) == 2
    assert "mle epoch 1: training error" in caplog.records[0].getMessage()
    assert "validation error" in caplog.records[0].getMessage()


def test_progress_bar_on_demand(capfd):
    fit(epochs=2, progress=True)
    _, err = capfd.readouterr()
    assert "mle" in err
    assert "20/20" in err
    assert "train" in err


# --- the same bits ------------------------------------------------------------------------------------------------


def test_same_seed_same_bits_other_seed_other_bits():
    a, _ = fit("cd", seed=1)
    b, _ = fit("cd", seed=1)
    c, _ = fit("cd", seed=2)
    assert_same_parameters(a, b)
    assert not np.array_equal(a.W_vh, c.W_vh)


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_same_bits_for_any_number_of_threads(rng, name):
    """At a size where products, steps and inference are all shared by the threads."""
    X, V = rng.random((80, 400)) < 0.5, rng.random((80, 200)) < 0.3
    kw = {"data": (X, V), "nh": 100, "epochs": 2, "batch_size": 80}
    for more in ({}, ALL_OF_IT):
        models = [fit(name, n_threads=n, **kw, **more)[0] for n in (1, 2, 3)]
        assert_same_parameters(models[0], models[1])
        assert_same_parameters(models[0], models[2])


# --- divergence ---------------------------------------------------------------------------------------------------


def test_divergence_stops_with_what_to_try(tmp_path):
    X, V = denoising()
    path = tmp_path / "run.npz"
    model = cf.CRBM(12, 8, 12, scale=0.1)
    cf.train(model, X, V, epochs=2, checkpoint=path, optimizer="sgd", learning_rate=0.1)
    good = model.copy()
    with pytest.raises(cf.DivergenceError) as error:
        cf.train(model, X, V, epochs=4, optimizer="sgd", learning_rate=1e7)
    raised = error.value
    assert (raised.epoch, raised.batch, raised.learning_rate, raised.checkpoint) == (1, 1, 1e7, None)
    assert raised.norm > 0
    assert "a step changed a parameter by" in raised.reason
    assert "Lower learning_rate (1e+07)" in str(raised)
    assert str(pickle.loads(pickle.dumps(raised))) == str(raised)
    assert_same_parameters(model, good)
    assert len(cf.train(model, X, V, epochs=2, checkpoint=path, resume=True, optimizer="sgd", learning_rate=0.1)) == 2


def test_features_of_absurd_size_diverge_with_an_error():
    X, V = denoising()
    for centering in (None, "features", "all"):
        with pytest.raises(cf.DivergenceError, match="scale the features"):
            fit(data=(X * 1e25, V), optimizer="sgd", centering=centering)


def test_a_logistic_start_that_diverges_leaves_the_model_alone():
    X, V = denoising()
    model = cf.CRBM(12, 8, 12)
    before = model.copy()
    with pytest.raises(cf.DivergenceError, match="leave out start") as error:
        cf.train(model, X * 1e29, V, start="logistic")
    assert (error.value.epoch, error.value.batch, error.value.learning_rate) == (1, 1, None)
    assert_same_parameters(model, before)


def test_inference_that_never_converges_is_said():
    with pytest.warns(cf.ConvergenceWarning, match=r"converged on 0.0 % of the instances only.*damping"):
        fit(MLE(cf.Inference(max_iter=1, tol=1e-9)))


def test_errors_of_callers_are_not_divergence():
    def fail(epoch, model):
        raise FloatingPointError("mine")

    with pytest.raises(FloatingPointError, match="mine"):
        fit(callbacks=[fail])
    with np.errstate(all="raise"):
        fit(learning_rate=20.0)


def test_overflow_on_validation_data_is_divergence():
    _, V = denoising()
    with pytest.raises(cf.DivergenceError) as error:
        fit(epochs=30, learning_rate=0.5, validation=(np.full((5, 12), 9e29), V[:5]))
    assert "the biases b + W x overflow" in error.value.reason


def test_absurd_weight_decay_is_divergence():
    for optimizer in ("adam", "sgd"):
        with pytest.raises(cf.DivergenceError, match="weight_decay"):
            fit(weight_decay=1e30, optimizer=optimizer)


def test_large_weights_can_be_trained():
    """Squares of 1e19 overflow in float32; the norm does not."""
    X, V = denoising()
    model = cf.CRBM(12, 8, 12)
    model.W_vh = np.full((12, 8), 1e20)
    history = cf.train(model, X, V, epochs=1)
    np.testing.assert_allclose(history[0].weight_norm, 1e20 * np.sqrt(96), rtol=1e-3)


def test_saturated_training_stays_finite():
    """Large steps drive units into saturation; no NaN comes out."""
    for name, centering in itertools.product(LEARNERS, (None, "features", "all")):
        model, history = fit(name, epochs=5, learning_rate=20.0, optimizer="adam", centering=centering)
        assert all(np.isfinite(p).all() for p in model.parameters().values())
        assert np.isfinite(history.column("gradient_norm")).all()
