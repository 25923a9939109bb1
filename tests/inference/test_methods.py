"""The table of methods: the C solver, the reference and everything that asks agree about what there is."""

import dataclasses

import numpy as np
import pytest
from helpers import ROOT, make_rbm

import crbm_fast as cf
from crbm_fast import _engine, _reference
from crbm_fast.inference import METHODS, Inference, methods


def test_every_method_has_a_row_and_every_row_a_method():
    iterative = [row.name for row in METHODS.values() if row.state is not None]
    assert sorted(_engine.METHOD_NUMBERS) == sorted(iterative)
    assert sorted(METHODS) == sorted(_reference.FUNCTIONS)
    assert [row.name for row in METHODS.values() if row.state is None] == ["exact"]


def test_every_method_is_a_file_of_its_own():
    files = {path.stem for path in (ROOT / "csrc/methods").glob("*.h")} - {"method", "edges", "fields", "list"}
    assert {name.replace("-", "_") for name in _engine.METHOD_NUMBERS} == files


@pytest.mark.parametrize("row", METHODS.values(), ids=lambda row: row.name)
def test_the_row_tells_what_the_method_does(rng, row):
    """State, named initial states and log Z are what the row says."""
    W, b1, b2 = make_rbm(rng, 7, 5, N=3)
    if row.state is None:
        with pytest.raises(ValueError, match="has no messages"):
            cf.infer(W, b1, b2, method=row.name, messages=True)
    else:
        kept = cf.infer(W, b1, b2, method=row.name, messages=True)
        assert kept.messages.shape == (3, *row.state_shape(7, 5))
        cf.infer(W, b1, b2, method=row.name, init=kept)
    if "visible" in row.named_inits:
        cf.infer(W, b1, b2, method=row.name, init="visible")
    else:
        with pytest.raises(ValueError, match="init"):
            cf.infer(W, b1, b2, method=row.name, init="visible")
    if row.log_z is not None:
        model = cf.RBM.from_parameters(W, b_v=b1[0], b_h=b2[0])
        log_z = model.log_partition(method=row.log_z)
        want = cf.infer(W, b1[0], b2[0], method=row.name, log_z=True, max_iter=200, tol=1e-6).log_z
        np.testing.assert_allclose(log_z, want, rtol=1e-6)


def test_marginals_are_marginals_where_the_row_says_so(rng):
    """At weak coupling, methods with marginals are close to the truth."""
    W, b1, b2 = make_rbm(rng, 6, 5, scale=0.3)
    truth = cf.infer(W, b1, b2, method="exact").tau_v
    for row in (row for row in METHODS.values() if row.marginals):
        error = np.abs(cf.infer(W, b1, b2, method=row.name, max_iter=500, tol=1e-9).tau_v - truth).max()
        assert error < 0.03, row.name


def test_a_row_is_seen_everywhere(monkeypatch):
    """A new row is accepted by Inference, and by MLE if it has marginals, without another edit."""
    row = dataclasses.replace(METHODS["mean-field"], name="new")
    monkeypatch.setitem(methods.METHODS, "new", row)
    assert Inference("new", init="visible").method == "new"
    assert cf.learners.MLE("new").inference.method == "new"
    monkeypatch.setitem(methods.METHODS, "new", dataclasses.replace(row, marginals=False, named_inits=()))
    with pytest.raises(ValueError, match="new"):
        cf.learners.MLE("new")
    with pytest.raises(ValueError, match="init"):
        Inference("new", init="visible")


def test_iterations_of_an_inference():
    assert Inference().in_epoch(3).max_iter == 10
    assert Inference(max_iter=5).in_epoch(3).max_iter == 5
    assert Inference().concrete().max_iter == 50
    assert Inference(max_iter=5).concrete() == Inference(max_iter=5)
