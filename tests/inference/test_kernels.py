"""The C kernels' elementary functions, on every instruction set, against float128 or published numbers."""

import numpy as np
import pytest
from scipy.special import expit

import crbm_fast as cf
from crbm_fast import _ckernels

TAILS = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 1000]

# name, how arguments are drawn, the truth in long double, and the largest error in ulp
FUNCTIONS = {
    "exp": (lambda rng, n: rng.uniform(-80, 80, n), np.exp, 2),
    "log": (lambda rng, n: np.exp(rng.uniform(-80, 80, n)), np.log, 2),
    "logistic": (lambda rng, n: rng.uniform(-80, 80, n), lambda x: 1 / (1 + np.exp(-x)), 4),
    "softplus": (lambda rng, n: rng.uniform(-60, 60, n), lambda x: np.logaddexp(x, 0), 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", TAILS)
def test_function_is_accurate_to_a_few_ulp(name, n, isa, dtype, rng):
    draw, truth, ulp = FUNCTIONS[name]
    x = draw(rng, n).astype(dtype)
    want = truth(x.astype(np.longdouble)).astype(dtype)
    got = _ckernels.evaluate(name, x)
    assert np.all(np.abs(got - want) <= ulp * np.spacing(np.abs(want)))


def test_functions_at_the_ends(isa, dtype):
    x = np.array([-np.inf, -1e30, -2000, 2000, 1e30, np.inf], dtype)
    np.testing.assert_array_equal(_ckernels.evaluate("exp", x), [0, 0, 0, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(_ckernels.evaluate("logistic", x), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(_ckernels.evaluate("softplus", x), np.maximum(x, 0))
    np.testing.assert_array_equal(_ckernels.evaluate("logistic", np.zeros(3, dtype)), 0.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 10.5, -10.5])
def test_first_beyond_finds_the_first(bad, isa, dtype, rng):
    x = rng.uniform(-10, 10, 5000).astype(dtype)
    x[5] = 10
    assert _ckernels.first_beyond(x, 10) == -1
    for at in (4999, 1024, 1023, 17, 0):
        x[at] = bad
        assert _ckernels.first_beyond(x, 10) == at


# --- random numbers -------------------------------------------------------------------------------------------


def philox4x32(counter, key):
    """Philox4x32-10 of Salmon et al. (2011), one block, in Python integers."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        x, y = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(y >> 32) ^ c[1] ^ k[0], y & mask, (x >> 32) ^ c[3] ^ k[1], x & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_philox_known_answers():
    """The vectors published with Random123 (kat_vectors, philox4x32 10)."""
    ones = 0xFFFFFFFF
    assert philox4x32([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox4x32([ones] * 4, [ones] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox4x32([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ]


@pytest.mark.parametrize("nh", [1, 3, 4, 5, 63, 64, 65, 130])
def test_draws_are_philox(nh, isa, dtype):
    """h ~ Bernoulli(p), p constant: each draw is its word of its block compared with p."""
    p, seed, step, first = 0.3, 0x123456789ABCDEF0, 5, 2**33 + 7
    got = cf.gibbs(
        np.zeros((1, nh), dtype),
        np.zeros((3, 1)),
        np.full((3, nh), np.log(p / (1 - p))),
        v=np.zeros((3, 1)),
        seed=seed,
        step=step,
        first_instance=first,
    ).h
    for n in range(3):
        instance = first + n
        key, low, high = [seed & 0xFFFFFFFF, seed >> 32], instance & 0xFFFFFFFF, instance >> 32
        words = [philox4x32([j // 4, 2 * step, low, high], key)[j % 4] for j in range(nh)]
        np.testing.assert_array_equal(got[n], np.array(words) / 2**32 < expit(np.log(p / (1 - p))))
