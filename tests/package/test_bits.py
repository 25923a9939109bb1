"""The same bits as before, case by case, where the digests were made; see bits.py."""

import json

import bits
import numpy as np
import pytest


@pytest.mark.slow
def test_results_have_the_same_bits():
    kept = json.loads(bits.FILE.read_text())
    if kept["environment"] != bits.environment():
        pytest.skip(f"the digests were made elsewhere: {kept['environment']}")
    assert bits.differences(bits.compute(), kept["digests"]) == []


def test_the_comparison_can_fail():
    a = np.linspace(0, 1, 9)
    b = np.nextafter(a, 2)
    assert bits.digest(a) != bits.digest(b)
    assert bits.digest(a) != bits.digest(a.astype(np.float32))
    assert bits.digest(a) != bits.digest(a.reshape(3, 3))
    assert bits.differences({"x": "1", "y": "2"}, {"x": "1", "y": "3", "z": "4"}) == ["y", "z"]
