"""What we say the paper says holds in the paper; what the runs say is judged by its standard error."""

import numpy as np
from helpers.reproduce import fake_result

from reproduce import claims, tasks
from reproduce.methods import METHODS


def test_the_papers_cells():
    cells = {
        ("mnist-noisy-10", "LR", "all"): 1.960,
        ("mnist-noisy-10", "MLE-BP", "changed"): 10.718,
        ("mnist-noisy-20", "CD-PercLoss", "all"): 3.970,
        ("mnist-noisy-20", "MSSVM", "changed"): 10.627,
        ("mnist-occluded-8", "CD-10", "changed"): 67.925,
        ("mnist-occluded-8", "MLE-BP", "all"): 1.329,
        ("mnist-occluded-12", "MSSVM", "changed"): 35.712,
        ("mnist-occluded-12", "CD-1", "all"): 3.983,
        ("caltech-noisy-20", "MLE-MF", "all"): 5.617,
        ("caltech-noisy-20", "LSSVM", "changed"): 11.468,
        ("caltech-occluded-12", "MSSVM", "all"): 4.534,
        ("caltech-occluded-12", "CD-10", "changed"): 21.087,
    }
    for cell, value in cells.items():
        assert claims.paper_cell(*cell) == value
    assert claims.paper_cell("mnist-occluded-16", "CD-10", "all") is None
    for table in claims.paper()["tables"].values():
        for by_method in table["cells"].values():
            assert list(by_method) == list(METHODS)


def paper_as_results():
    found = {}
    for table in claims.paper()["tables"].values():
        for task, by_method in table["cells"].items():
            for method, cell in by_method.items():
                found[f"{task}/{method}"] = fake_result(task, method, cell["all"], cell["changed"])
    return found


def test_what_we_say_the_paper_says_holds_in_the_paper():
    everything = (*claims.CLAIMS, *claims.CELLS)
    counts = claims.tally(paper_as_results(), everything)
    assert counts["fails"] == counts["close"] == counts["missing"] == 0
    compared = [(c.task, c.error, *pair) for c in everything for pair in c.pairs()]
    assert counts["holds"] == len(compared) == len(set(compared)) > 100
    for claim in everything:
        assert "**holds**" in claims.sentence(paper_as_results(), claim)


def test_claims_that_fail_say_so():
    found = paper_as_results()
    claim = claims.CLAIMS[0]
    assert (claim.task, claim.lower) == (tasks.NOISY_10, ("MLE-BP",))
    found["mnist-noisy-10/CD-10"] = fake_result("mnist-noisy-10", "CD-10", 1.5, 10)
    found["mnist-noisy-10/LR"] = fake_result(
        "mnist-noisy-10", "LR", 1.69, 10, wrong=(0, 1000)
    )  # a large standard error
    found["mnist-noisy-10/LSSVM"]["error"] = {"type": "DivergenceError", "message": "", "final": True}
    text = claims.sentence(found, claim)
    assert text == (
        "MLE-BP is better than LR, CD, MLE-MF and LSSVM, Noisy (10 %): **holds** against CD-1, CD-PercLoss, MLE-MF; "
        "**fails** against CD-10 (1.688 to 1.500); too close to tell from LR (1.688 to 1.690); not run: LSSVM."
    )
    assert claims.sentence({}, claim) == ""
    single = next(c for c in claims.CLAIMS if c.higher == ("MSSVM",))
    found["mnist-noisy-10/MSSVM"] = fake_result("mnist-noisy-10", "MSSVM", 1.2, 10)
    text = claims.sentence(found, single)
    assert text == "MLE-BP is better than MSSVM on MNIST, Noisy (10 %): **fails**, 1.688 to 1.200."


def test_the_standard_error_is_that_of_paired_differences(rng):
    a, b = rng.poisson(20, 500), rng.poisson(20, 500)
    one, other = fake_result("t", "a", 1, 1, a), fake_result("t", "b", 1, 1, a + b)
    np.testing.assert_allclose(claims.standard_error(one), 100 * a.std(ddof=1) / 500**0.5 / 784)
    np.testing.assert_allclose(claims.standard_error(one, other), 100 * b.std(ddof=1) / 500**0.5 / 784)
    np.testing.assert_allclose(claims.standard_error(one, other, "changed"), 100 * b.std(ddof=1) / 500**0.5 / 10)
    assert claims.standard_error(one, fake_result("t", "b", 1, 1, (1, 2))) == np.inf  # other images


def test_improvement_in_words():
    assert claims.improvement(1.688, 1.760) == "4.1 % less"
    assert claims.improvement(1.1, 1.0) == "10.0 % more"
