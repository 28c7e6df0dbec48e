"""Cosines of a matrix against NumPy's and mpmath's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from helpers.tolerances import FEW_ROUNDINGS

from attnscope.numerics.compiled.cosines import cosines


@pytest.mark.parametrize("scale", [1e-8, 1.0, 30.0, 1e4])
def test_against_numpy(scale):
    x = scale * np.random.default_rng(0).standard_normal((50, 7))
    out = np.empty_like(x)
    cosines(x, out)
    np.testing.assert_allclose(out, np.cos(x), rtol=0, atol=5e-15 + 4e-16 * scale * 4)


def test_at_the_multiples_of_a_quarter_turn():
    x = np.arange(-40, 41)[None] * (np.pi / 2)
    out = np.empty_like(x)
    cosines(x, out)
    exact = [float(mpmath.cos(mpmath.mpf(float(a)))) for a in x[0]]
    np.testing.assert_allclose(out[0], exact, rtol=0, atol=5e-15 + 4e-16 * np.abs(x).max())


def test_in_place_and_into_a_part_of_a_wider_array():
    x = np.random.default_rng(1).standard_normal((9, 4))
    wide = np.full((9, 6), 7.0)
    expected = np.cos(x)
    cosines(x, wide[:, :4])
    assert np.all(wide[:, 4:] == 7.0)
    cosines(x, x)
    np.testing.assert_array_equal(wide[:, :4], x)
    np.testing.assert_allclose(x, expected, rtol=0, atol=FEW_ROUNDINGS)
    cosines(np.empty((3, 0)), np.empty((3, 0)))
