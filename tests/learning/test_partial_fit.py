"""partial_fit: k calls with the same data are k epochs of fit, whatever the options; what these mean for a stream."""

import pickle

import numpy as np
import pytest
from helpers.estimators import QUICK, labelled, topics

import crbm_fast as cf
from crbm_fast.estimators import CRBMClassifier
from crbm_fast.learners import MLE
from crbm_fast.optimizers import Adam
from crbm_fast.training.options import fields


@pytest.fixture(scope="module")
def labels():
    return labelled()


def assert_same_model(one, other):
    for name, p in one.model_.parameters().items():
        np.testing.assert_array_equal(p, other.model_.parameters()[name], err_msg=name)
    assert one.model_.inference == other.model_.inference


# --- as many epochs of fit ----------------------------------------------------------------------------------------

# Every parameter that is a training option, with other values than the default.
OPTIONS = [
    {},
    {"epochs": 7},
    {"batch_size": 33},
    {"learning_rate": None},
    {"optimizer": "sgd"},
    {"optimizer": Adam(beta1=0.5)},
    {"schedule": "linear"},
    {"schedule": "cosine"},
    {"schedule": lambda epoch, epochs: 1 / epoch},
    {"weight_decay": 0.1},
    {"rates": {"W_vx": 0.1, "b_h": 3}},
    {"centering": "features"},
    {"centering": "all"},
    {"averaging": 0.9},
    {"start": "logistic"},
    {"validation_fraction": 0.3},
    {"validation_fraction": 0.3, "patience": 1},
    {
        "centering": "all",
        "averaging": 0.9,
        "rates": {"W_vx": 0.1},
        "start": "logistic",
        "schedule": "linear",
        "validation_fraction": 0.3,
        "optimizer": "sgd",
        "weight_decay": 0.01,
    },
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "defaults")
@pytest.mark.parametrize("learner", ["mle", "cd"])
def test_calls_with_the_same_data_are_epochs_of_fit(labels, learner, options):
    """To the bit, errors and best epoch included."""
    X, Y = labels
    parameters = QUICK | {"epochs": 4, "learner": learner} | options
    whole, calls = CRBMClassifier(**parameters).fit(X, Y), CRBMClassifier(**parameters)
    for _ in range(len(whole.history_)):
        calls.partial_fit(X, Y)
    assert_same_model(whole, calls)
    for name in ("epoch", "train_error", "valid_error", "gradient_norm", "weight_norm", "learning_rate", "max_iter"):
        assert calls.history_.column(name) == whole.history_.column(name), name
    assert calls.history_.best_epoch == whole.history_.best_epoch


def test_the_table_above_has_every_option():
    """A new option is tried in a stream, too."""
    parameters = {"validation_fraction" if name == "validation" else name for name in fields()}
    assert parameters & set(CRBMClassifier().get_params()) == {name for options in OPTIONS for name in options}


def test_patience_ended_a_fit_above(labels):
    """So the table has a run that stops early."""
    X, Y = labels
    fitted = CRBMClassifier(**QUICK | {"epochs": 4}, learner="cd", validation_fraction=0.3, patience=1).fit(X, Y)
    assert len(fitted.history_) == fitted.history_.best_epoch + 1 < 4


def test_the_chains_of_pcd_start_anew(labels):
    """They belong to instances, and those of the next call are others."""
    X, Y = labels
    parameters = QUICK | {"epochs": 2, "learner": "pcd"}
    whole, calls = CRBMClassifier(**parameters).fit(X, Y), CRBMClassifier(**parameters)
    calls.partial_fit(X, Y).partial_fit(X, Y)
    assert (calls.model_.W_vh != whole.model_.W_vh).any()
    calls.partial_fit(X[:50], Y[:50])  # another number of them


@pytest.mark.parametrize("learner", ["mle", "mssvm", "cd"])
def test_partial_fit_is_an_epoch(labels, learner):
    """k calls with all data are k epochs of `fit`, to the bit."""
    X, Y = labels
    whole = CRBMClassifier(**QUICK | {"epochs": 3}, learner=learner).fit(X, Y)
    steps = CRBMClassifier(**QUICK | {"epochs": 3}, learner=learner)
    for _ in range(3):
        steps.partial_fit(X, Y)
    np.testing.assert_array_equal(steps.predict_proba(X), whole.predict_proba(X))
    assert steps.history_.column("train_error") == whole.history_.column("train_error")
    assert steps.model_.inference == whole.model_.inference
    # later calls go on, without more and more iterations
    before = steps.model_.W_vh.copy()
    steps.partial_fit(X, Y)
    assert (steps.model_.W_vh != before).any()
    assert steps.model_.inference == whole.model_.inference


def test_partial_fit_learns_from_a_stream(rng):
    """As well as from an epoch over the whole, in as many steps."""
    X, Y = topics(rng, 2000)
    X_test, Y_test = topics(rng, 1000)
    stream = CRBMClassifier(batch_size=10, random_state=0)
    for first in range(0, 2000, 50):
        stream.partial_fit(X[first : first + 50], Y[first : first + 50])
    whole = CRBMClassifier(batch_size=10, epochs=1, random_state=0).fit(X, Y)
    error, want = ((classifier.predict(X_test) != Y_test).mean() for classifier in (stream, whole))
    assert error < want + 0.02  # seen: 0.28 to 0.30 both; 0.44 without looking at x
    assert stream.history_[-1].epoch == 40


def test_partial_fit_keeps_its_labels(labels):
    X, Y = labels
    y = np.array(["no", "yes"])[Y[:, 0]]
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        CRBMClassifier().partial_fit(X, y)
    classifier = CRBMClassifier(**QUICK).partial_fit(X[y == "no"], y[y == "no"], classes=["yes", "no"])
    np.testing.assert_array_equal(classifier.classes_, ["no", "yes"])
    with pytest.raises(ValueError, match=r"y has the class .*'maybe'.*; expected one of"):
        classifier.partial_fit(X, np.where(y == "no", "maybe", "yes"))
    with pytest.raises(ValueError, match="y has 5 labels; expected 1"):
        classifier.partial_fit(X, Y)
    with pytest.raises(ValueError, match="y has 4 labels; expected 5"):
        CRBMClassifier(**QUICK).partial_fit(X, Y).partial_fit(X, Y[:, :4])


# --- a stream -----------------------------------------------------------------------------------------------------


def test_schedule_and_iterations_stay_as_they_ended(labels):
    X, Y = labels
    stream = CRBMClassifier(**QUICK | {"epochs": 3, "learning_rate": 0.03}, learner="mle", schedule="linear")
    for _ in range(5):
        stream.partial_fit(X, Y)
    np.testing.assert_allclose(stream.history_.column("learning_rate"), [0.03, 0.02, 0.01, 0.01, 0.01])
    assert stream.history_.column("max_iter") == [8, 9, 10, 10, 10]


def test_centering_keeps_the_means_of_the_first_call(labels):
    X, Y = labels
    stream = CRBMClassifier(**QUICK, centering="all").partial_fit(X[:100], Y[:100])
    for _ in range(2):
        stream.partial_fit(X[100:], Y[100:])
        kept = stream._state.arrays["centering"]
        np.testing.assert_allclose(kept["mean_x"], X[:100].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(kept["mean_v"], Y[:100].mean(axis=0), atol=1e-12)


def test_the_average_goes_on_over_calls(labels):
    """It is that of a run over the same steps."""
    X, Y = labels
    seen = []
    stream = CRBMClassifier(**QUICK | {"batch_size": 50}, learner="mle", averaging=0.6, weight_decay=0)
    for part in (slice(0, 50), slice(50, 100), slice(100, 150)):
        before = stream.model_.W_vh.copy() if seen else None
        stream.partial_fit(X[part], Y[part])
        iterate = stream._state.arrays["iterate"]["W_vh"]
        seen.append((before, stream.model_.W_vh.copy(), iterate.copy()))
    for t, (before, average, iterate) in enumerate(seen[1:], 2):
        np.testing.assert_allclose(average, before + max(0.4, 1 / (t + 1)) * (iterate - before), atol=1e-12)


def test_a_logistic_start_is_made_once_of_the_first_data(labels):
    X, Y = labels
    tiny = QUICK | {"learning_rate": 1e-12}
    stream = CRBMClassifier(**tiny, start="logistic").partial_fit(X[:100], Y[:100])
    first = stream.model_.W_vx.copy()
    assert first.any()
    stream.partial_fit(X[100:], Y[100:])
    np.testing.assert_allclose(stream.model_.W_vx, first, atol=1e-9)


def test_validation_in_a_stream(labels):
    """A part of each call is set aside; the model is that of the best call, and training goes on from the latest."""
    X, Y = labels
    stream, plain = (CRBMClassifier(**QUICK, learner="cd", validation_fraction=f) for f in (0.3, None))
    models, latest = [], []
    for call in range(6):
        part = slice(30 * call, 30 * call + 30)
        stream.partial_fit(X[part], Y[part])
        models.append(stream.model_.W_vh.copy())
        latest.append(stream._state.arrays["parameter"]["W_vh"].copy())
        plain.partial_fit(X[part], Y[part])
    errors, best = stream.history_.column("valid_error"), stream.history_.best_epoch
    assert errors[best - 1] == min(errors)
    np.testing.assert_array_equal(models[-1], latest[best - 1])
    assert len({W.tobytes() for W in latest}) == 6
    assert plain.history_.column("valid_error") == [None] * 6
    # what was set aside was not learned from
    assert (plain.model_.W_vh != latest[-1]).any()
    # no longer wanted, it goes: the model is again that of the latest call
    stream.set_params(validation_fraction=None).partial_fit(X, Y)
    assert stream.history_.best_epoch is None
    np.testing.assert_array_equal(stream.model_.W_vh, stream._state.arrays["parameter"]["W_vh"])


def test_patience_ends_a_stream_with_a_warning(labels):
    X, Y = labels
    stream = CRBMClassifier(**QUICK, learner="cd", validation_fraction=0.3, patience=2)
    for _ in range(50):
        stream.partial_fit(X, Y)
        if len(stream.history_) - stream.history_.best_epoch == 2:
            break
    else:
        pytest.fail("the validation error went on falling")
    before, calls = stream.model_.W_vh.copy(), len(stream.history_)
    with pytest.warns(UserWarning, match=r"patience=2 calls.*set patience=None"):
        stream.partial_fit(X, Y)
    assert len(stream.history_) == calls
    np.testing.assert_array_equal(stream.model_.W_vh, before)
    stream.set_params(patience=None).partial_fit(X, Y)  # as the warning says
    assert len(stream.history_) == calls + 1


# --- changes between calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", OPTIONS[1:], ids=lambda options: ", ".join(options))
def test_an_option_that_changes_takes_effect_in_the_next_call(labels, change):
    X, Y = labels
    parameters = QUICK | {"learner": "mle", "schedule": "linear", "centering": "features", "averaging": 0.5}
    stream = CRBMClassifier(**parameters).partial_fit(X, Y)
    stream.set_params(**change).partial_fit(X, Y)
    stream.partial_fit(X, Y)
    assert len(stream.history_) == 3
    assert all(np.isfinite(p).all() for p in stream.model_.parameters().values())


@pytest.mark.parametrize("before", [None, "features", "all"])
@pytest.mark.parametrize("after", [None, "features", "all"])
@pytest.mark.parametrize("averaging", [None, 0.5])
def test_other_coordinates_are_the_same_model(labels, before, after, averaging):
    """A step of next to nothing changes nothing, whatever the coordinates were and are."""
    X, Y = labels
    stream = CRBMClassifier(**QUICK, learner="mle", centering=before, averaging=averaging).partial_fit(X + 2, Y)
    latest = stream._state.arrays["iterate" if averaging else "parameter"]
    kept = {name: p.copy() for name, p in latest.items()}
    stream.set_params(centering=after, learning_rate=1e-12, averaging=None if averaging is None else 0.0)
    stream.partial_fit(X - 3, Y)
    for name, p in stream.model_.parameters().items():
        np.testing.assert_allclose(p, kept[name], atol=1e-8, err_msg=name)


@pytest.mark.parametrize("centering", [None, "features", "all"])
@pytest.mark.parametrize(("before", "after"), [(None, 0.5), (0.5, None)])
def test_averaging_that_is_switched_goes_on_from_the_model(labels, centering, before, after):
    X, Y = labels
    stream = CRBMClassifier(**QUICK, learner="mle", centering=centering, averaging=before).partial_fit(X + 2, Y)
    model = stream.model_.copy()
    stream.set_params(averaging=after, learning_rate=1e-12).partial_fit(X + 2, Y)
    for name, p in stream.model_.parameters().items():
        np.testing.assert_allclose(p, model.parameters()[name], atol=1e-8, err_msg=name)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_fit_leaves_no_memory_of_the_optimizer(labels, optimizer):
    """A call after fit is the first epoch of a new run of its model, but counts on."""
    X, Y = labels
    fitted = CRBMClassifier(**QUICK | {"epochs": 3}, learner=MLE(cf.Inference(max_iter=9)), optimizer=optimizer)
    model = fitted.fit(X, Y).model_.copy()
    fitted.partial_fit(X, Y)
    assert fitted.history_.column("epoch") == [1, 2, 3, 4]
    assert fitted._state.steps == 13  # of the fourth epoch alone
    assert (fitted.model_.W_vh != model.W_vh).any()


def test_partial_fit_after_a_fit_that_stopped_early(labels):
    X, Y = labels
    classifier = CRBMClassifier(**QUICK, validation_fraction=0.2, patience=2).fit(X, Y)
    assert classifier.history_.best_epoch is not None
    epochs = len(classifier.history_)
    assert epochs < 20
    classifier.partial_fit(X, Y)  # patience begins anew
    assert classifier.history_.best_epoch == epochs + 1
    classifier.set_params(validation_fraction=None, patience=None)
    for parameters in ({}, {"optimizer": "sgd"}, {"learner": "pcd"}, {"learner": "logistic"}, {"batch_size": 7}):
        classifier.set_params(**parameters).partial_fit(X, Y)
        assert classifier.history_.best_epoch is None  # the model has moved on
    assert len(classifier.history_) == epochs + 6
    assert not classifier.model_.W_vh.any()  # of "logistic"


def test_a_stream_goes_on_from_a_pickle(labels):
    X, Y = labels
    stream = CRBMClassifier(**QUICK, centering="all", averaging=0.9, validation_fraction=0.3).partial_fit(X, Y)
    twin = pickle.loads(pickle.dumps(stream))
    assert_same_model(stream.partial_fit(X, Y), twin.partial_fit(X, Y))


def test_divergence_in_a_stream_forgets_the_call(labels):
    """What was remembered before it is still there."""
    X, Y = labels
    options = {"centering": "all", "averaging": 0.9, "optimizer": "sgd"}
    stream, other = (CRBMClassifier(**QUICK, **options).partial_fit(X, Y) for _ in range(2))
    with pytest.raises(cf.DivergenceError) as error:
        stream.partial_fit(1e160 * X, Y)
    assert error.value.epoch == 2
    assert_same_model(stream, other)
    assert_same_model(stream.partial_fit(X, Y), other.partial_fit(X, Y))
