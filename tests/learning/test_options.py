"""Options: each option checks itself, and everything that has options takes them from there."""

import dataclasses
import inspect
import re

import numpy as np
import pytest
from helpers.learning import denoising, fit

import crbm_fast as cf
from crbm_fast._errors import ArgumentError, ArgumentTypeError, RequirementError
from crbm_fast.cli.main import make_parser
from crbm_fast.cli.train import DEFAULTS
from crbm_fast.estimators import CRBMClassifier, RBMTransformer
from crbm_fast.optimizers import Adam
from crbm_fast.training import Options
from crbm_fast.training import options as module
from crbm_fast.training.options import documentation, fields, flags

# A value of each option other than its default, and another.
OTHERS = {
    "epochs": (3, 4),
    "batch_size": (7, 8),
    "optimizer": ("sgd", Adam(beta1=0.5)),
    "learning_rate": (0.1, 1),
    "schedule": ("cosine", lambda epoch, epochs: 1.0),
    "weight_decay": (0.1, 1),
    "rates": ({"b_h": 2}, {"W_vx": 0.05}),
    "centering": ("features", "all"),
    "averaging": (0.9, 0),
    "validation": (0.2, denoising(5)),
    "patience": (2, 3),
    "start": ("logistic", "logistic"),
    "seed": (5, 2**63 - 1),
    "checkpoint": ("run.npz", b"run.npz"),
    "resume": (True, np.True_),
    "callbacks": ([print], (print, repr)),
    "progress": (True, False),
}
NEEDED = {"patience": {"validation": 0.5}, "resume": {"checkpoint": "run.npz"}}


# --- each checks itself -------------------------------------------------------------------------------------------


def test_options_are_frozen_and_named_by_keyword():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().epochs = 3
    with pytest.raises(TypeError):
        Options(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        cf.train(cf.CRBM(2, 2, 2), None, None, epoch=3)


@pytest.mark.parametrize("name", list(fields()))
def test_good_values_are_kept(name):
    for value in OTHERS[name]:
        options = Options(**NEEDED.get(name, {}) | {name: value})
        assert getattr(options, name) is not None
        assert all(
            getattr(options, other) == field.default
            for other, field in fields().items()
            if other not in {name, *NEEDED.get(name, {})}
        )


@pytest.mark.parametrize("name", list(fields()))
def test_every_option_refuses_nonsense_by_its_name(name):
    for nonsense in (object(), -1.5):
        with pytest.raises((ArgumentError, ArgumentTypeError)) as error:
            Options(**NEEDED.get(name, {}) | {name: nonsense})
        assert error.value.argument == name
        assert error.value.value is nonsense or error.value.value == nonsense
        assert name in str(error.value)


@pytest.mark.parametrize("name", [name for name, field in fields().items() if field.default is not None])
def test_none_is_refused_where_it_is_not_the_default(name):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as error:
        Options(**{name: None})
    assert error.value.argument == name


def test_numbers_of_numpy_become_plain_ones():
    options = Options(epochs=np.int64(3), averaging=np.float32(0.5), seed=np.uint8(3), rates={"W_vx": np.float32(0.5)})
    assert [type(getattr(options, name)) for name in ("epochs", "averaging", "seed")] == [int, float, int]
    assert type(options.rates["W_vx"]) is float


@pytest.mark.parametrize(
    ("kw", "kind", "message"),
    [
        ({"epochs": -1}, ValueError, "epochs=-1 is outside"),
        ({"epochs": 2.5}, TypeError, "epochs=2.5 must be an integer"),
        ({"batch_size": 0}, ValueError, "batch_size=0"),
        ({"learning_rate": 0}, ValueError, "learning_rate=0 must be above 0"),
        ({"learning_rate": -0.1}, ValueError, "learning_rate=-0.1"),
        ({"learning_rate": float("nan")}, ValueError, "learning_rate=nan"),
        ({"optimizer": "lbfgs"}, ValueError, "optimizer='lbfgs' is not one of: 'sgd', 'adam'"),
        ({"schedule": "warm"}, ValueError, "schedule='warm' is not one of"),
        ({"schedule": lambda e, E: -1.0}, ValueError, "schedule"),
        ({"weight_decay": -1}, ValueError, "weight_decay=-1"),
        ({"centering": True}, ValueError, "centering=True is not"),
        ({"averaging": 1}, ValueError, r"averaging=1 is outside \[0, 1\)"),
        ({"averaging": True}, TypeError, "averaging=True must be a real number"),
        ({"rates": 0.1}, TypeError, "rates=0.1 must be a mapping such as {'W_vx': 0.05}"),
        ({"rates": {"W": 0.1}}, ValueError, "rates has the key 'W'; expected some of: W_vh, W_vx"),
        ({"rates": {"W_vx": -1}}, ValueError, r"rates\['W_vx'\]=-1 is outside"),
        ({"rates": {"W_vx": "slow"}}, TypeError, r"rates\['W_vx'\]='slow' must be a real number"),
        ({"validation": 1.5}, ValueError, "validation=1.5"),
        ({"validation": 0.0001}, ValueError, "leaves no instance on one side"),
        ({"validation": (1, 2, 3)}, ValueError, "validation must be a pair"),
        ({"patience": 3}, ValueError, "patience needs validation"),
        ({"patience": 0, "validation": 0.1}, ValueError, "patience=0"),
        ({"start": "svm"}, ValueError, "start='svm'"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"resume": True}, ValueError, "resume=True needs checkpoint"),
        ({"learner": "bp"}, ValueError, "learner='bp' is not one of: 'mle'"),
        ({"checkpoint": "/nonexistent/run.npz"}, FileNotFoundError, "run.npz' cannot be written: there is no folder"),
        ({"callbacks": print}, TypeError, "must be a list of functions"),
        ({"callbacks": ["x"]}, TypeError, "must be a list of functions"),
        ({"progress": "yes"}, TypeError, "progress='yes' must be True or False"),
        ({"resume": 1, "checkpoint": "run.npz"}, TypeError, "resume=1 must be True or False"),
        ({"checkpoint": 3}, TypeError, "checkpoint=3 must be a path"),
        ({"optimizer": Adam(epsilon=1e-8), "learning_rate": "fast"}, TypeError, "learning_rate='fast'"),
    ],
)
def test_bad_hyperparameters(kw, kind, message):
    """In train(), before anything is changed."""
    with pytest.raises(kind, match=message):
        fit(**kw)


@pytest.mark.parametrize(
    ("kw", "argument", "requirement"),
    [
        ({"patience": 3}, "patience", "validation"),
        ({"resume": True}, "resume", "checkpoint"),
        ({"start": "logistic"}, "start", "features"),
        ({"centering": "features"}, "centering", "features"),
        ({"learner": "logistic"}, "learner", "features"),
    ],
)
def test_what_an_option_needs(kw, argument, requirement):
    with pytest.raises(RequirementError) as error:
        cf.train(cf.RBM(12, 3), None, denoising()[1], **kw)
    assert (error.value.argument, error.value.requirement) == (argument, requirement)


def test_a_run_beyond_its_end_stays_as_it_ended():
    options = Options(epochs=4, schedule="linear")
    assert [options.factor(epoch) for epoch in range(1, 7)] == [1, 0.75, 0.5, 0.25, 0.25, 0.25]
    assert [options.capped(epoch) for epoch in (1, 4, 5)] == [1, 4, 4]
    assert Options(epochs=0).capped(1) == 1
    with pytest.raises(ArgumentError, match="schedule"):
        Options(schedule=lambda epoch, epochs: -1.0).factor(1)


# --- everything derives from them -----------------------------------------------------------------------------------


def entries(docstring):
    """{name: text} of the section Parameters of a docstring."""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n[A-Z]\w+\n-+\n|\Z)", inspect.cleandoc(docstring), re.DOTALL)[1]
    found = {}
    for line in section.splitlines():
        if line and not line.startswith(" "):
            name = line.split(" : ")[0]
            found[name] = ""
        else:
            found[name] += line.strip() + " "
    return found


def test_the_signature_of_train_is_that_of_options():
    mine, theirs = inspect.signature(cf.train).parameters, inspect.signature(Options).parameters
    assert list(mine)[:4] == ["model", "X", "V", "learner"]
    assert {name: (p.kind, p.default) for name, p in mine.items() if name in theirs} == {
        name: (p.kind, p.default) for name, p in theirs.items()
    }
    assert len(mine) == 4 + len(theirs)


@pytest.mark.parametrize("documented", [cf.train, Options, CRBMClassifier, RBMTransformer])
def test_documentation_is_that_of_options(documented):
    found = entries(documented.__doc__)
    assert set(found) >= set(inspect.signature(documented).parameters) - {"self"}
    assert max(map(len, documented.__doc__.splitlines())) <= 120
    assert not re.search(r"^ *{\w+}$", documented.__doc__, re.MULTILINE)
    own = {"learning_rate", "batch_size", "optimizer", "start"} if documented is RBMTransformer else set()
    shared = [name for name in found if name in fields() and name not in own]
    assert shared
    for name in shared:
        assert found[name].strip() == documentation(name).text, name


def test_the_parameters_of_the_classifier_are_options():
    """Or of the model and of scikit-learn; a new option must become a parameter, or be named here."""
    parameters = CRBMClassifier().get_params()
    own = {"n_hidden", "learner", "validation_fraction", "dtype", "n_jobs", "random_state", "verbose"}
    elsewhere = {"validation", "seed", "progress", "checkpoint", "resume", "callbacks"}
    assert set(parameters) - own == set(fields()) - elsewhere
    differ = {"epochs", "batch_size", "learning_rate", "weight_decay"}
    for name in set(fields()) - elsewhere - differ:
        assert parameters[name] == fields()[name].default, name
    assert all(parameters[name] != fields()[name].default for name in differ)


def test_the_parameters_of_the_transformer_are_options():
    parameters = RBMTransformer().get_params()
    own = {"n_components", "n_iter", "learner", "n_jobs", "random_state", "verbose"}
    assert set(parameters) - own == {"learning_rate", "batch_size", "optimizer", "weight_decay"}
    assert parameters["weight_decay"] == Options.weight_decay


def command_line():
    """The parser of `crbm-fast train`, and what it makes of no options."""
    args = make_parser().parse_args(["train", "data.npz", "--out", "m.npz"])
    return args.flags, vars(args)


def test_the_flags_of_the_command_are_options(capsys):
    """Those that can be written as text; a new option has a flag, or is named here."""
    names, given = command_line()
    assert set(fields()) - set(flags()) == {"rates", "callbacks", "progress"}
    for name in flags():
        assert names[name] == f"--{name.replace('_', '-')}"
        assert given[name] == DEFAULTS.get(name, fields()[name].default), name
    own = {"help", "out", "force", "learner", "nh", "dtype", "threads"}
    assert set(names) == set(flags()) | own
    with pytest.raises(SystemExit):
        make_parser().parse_args(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in flags():
        assert documentation(name).summary[1:] in text.replace("- ", "-"), name


def test_a_new_option_shows_up_everywhere(monkeypatch, capsys):
    """One field, and signature, documentation, flags and the identity of a run have it."""
    field = module._option(
        0.25, "float", "Share of the soup. More is better.", module._real(1), flag=module.Flag(float, "S")
    )
    larger = dataclasses.make_dataclass(
        "Options", [("soup", float, field)], bases=(Options,), frozen=True, kw_only=True, eq=False
    )
    monkeypatch.setattr(module, "Options", larger)
    assert module.signature_with_options(lambda model, **options: None).parameters["soup"].default == 0.25

    @module.documented
    def documented():
        """Parameters
        ----------
        {options}
        """

    assert entries(documented.__doc__)["soup"].strip() == "Share of the soup. More is better."
    assert larger().identity()["soup"] == 0.25
    with pytest.raises(ArgumentError, match=r"soup=2 is outside \[0, 1\)"):
        larger(soup=2)
    args = make_parser().parse_args(["train", "data.npz", "--out", "m.npz", "--soup", "0.5"])
    assert args.soup == 0.5
    with pytest.raises(SystemExit):
        make_parser().parse_args(["train", "--help"])
    assert re.search(r"--soup S\s+share of the soup \(default 0.25\)", capsys.readouterr().out)
