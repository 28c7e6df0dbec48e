"""Limits and invariances of the exact Bayes risk and location error; values by second routes:
tests/numerics/test_bayes_integral.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pmfs import uniform, zipf
from helpers.tolerances import EXACT, INTEGRAL, SOLVED, THREE_DIGITS
from scipy import special

import attnscope.numerics.integrals.bayes_integral as bayes_integral
import attnscope.numerics.integrals.mellin as mellin
import attnscope.numerics.integrals.saddle_exponent as saddle_exponent
from attnscope.numerics.integrals.bayes_integral import bayes_excess, location_error


@pytest.mark.parametrize(
    "pmf",
    [
        uniform(2),
        uniform(7),
        uniform(10**6),
        zipf(5),
        zipf(300),
        (np.array([0.999, 0.0005]), np.array([1, 2])),
    ],
)
def test_no_information(pmf):
    """signal = 0, gamma = 1: the posterior is the prior; R_B = 1 - sum pi^2 for every alignment."""
    expected = np.log(np.sum(pmf[1] * pmf[0] * (1 - pmf[0])))
    assert bayes_excess(9, 1.0, 0.0, *pmf).log_value == pytest.approx(expected, abs=SOLVED)
    assert bayes_excess(9, 1.0, 0.0, *pmf, 0.7).log_value == pytest.approx(
        expected, abs=SOLVED
    )
    assert location_error(9, 1.0, 0.0, *pmf).log_value == pytest.approx(expected, abs=SOLVED)


def test_one_position_has_no_error():
    assert bayes_excess(5, 0.7, 1.0, *uniform(1)) == (-np.inf, 0.0)
    assert location_error(5, 0.7, 1.0, *uniform(1)) == (-np.inf, 0.0)


@pytest.mark.parametrize("alignment", [0.0, 0.6])
def test_grouping_and_order_do_not_matter(alignment):
    probs = np.array([0.4, 0.1, 0.05])
    counts = np.array([1, 4, 4])
    whole = bayes_excess(12, 0.8, 2.0, probs, counts, alignment).log_value
    split = bayes_excess(
        12,
        0.8,
        2.0,
        np.array([0.1, 0.05, 0.4, 0.1, 0.05]),
        np.array([1, 1, 1, 3, 3]),
        alignment,
    ).log_value
    # probabilities that differ in the last digits stay separate groups: the cross-group sums must
    # reproduce the within-group ones
    nudged = bayes_excess(
        12,
        0.8,
        2.0,
        np.array([0.1, 0.05, 0.4, 0.1 + 1e-16, 0.05 + 1e-16]),
        np.array([1, 1, 1, 3, 3]),
        alignment,
    ).log_value
    assert split == pytest.approx(whole, abs=EXACT)
    assert nudged == pytest.approx(whole, abs=INTEGRAL)


def test_interpolation_agrees_with_direct_evaluation(monkeypatch):
    """Many distinct probabilities are interpolated;
    the same integral with phi computed at each argument.
    """
    for dim, gamma, signal, alignment in (
        (6, 0.6, 1.0, 0.0),
        (50, 1.3, 4.0, 0.5),
        (3000, 0.95, 30.0, 0.9),
        (2, 3.0, 0.5, 1.0),
    ):
        probs, counts = zipf(30)
        table = bayes_excess(dim, gamma, signal, probs, counts, alignment)
        with monkeypatch.context() as patch:
            patch.setattr(bayes_integral, "DIRECT_PAIRS", np.inf)
            direct = bayes_excess(dim, gamma, signal, probs, counts, alignment)
        assert abs(table.log_value - direct.log_value) < 2e-11 + 0.1 * table.relative_error


def test_length_increases_the_risk_at_most_linearly():
    for dim, gamma, signal in (
        (2, 0.3, 1.0),
        (20, 1.0, 3.0),
        (100, 1.6, 2.0),
        (5000, 0.9, 20.0),
    ):
        logs = [
            bayes_excess(dim, gamma, signal, *uniform(length)).log_value
            for length in (2, 3, 10, 300, 10**4, 10**6)
        ]
        assert np.all(np.diff(logs) > 0)
        assert np.all(
            np.array(logs)
            <= np.log(np.array([2, 3, 10, 300, 10**4, 10**6]) - 1.0) + logs[0] + 1e-9
        )
        assert np.all(np.array(logs) <= 2 * np.log(gamma))


@pytest.mark.parametrize("alignment", [0.0, 0.8])
@pytest.mark.parametrize("dim", [10, 1000])
def test_gamma_one_is_not_special(dim, alignment):
    """log R_B is differentiable in gamma at 1, from both sides and through every x."""

    def at(x):
        return bayes_excess(dim, 1 + x, 5**0.5, *uniform(10), alignment).log_value

    slope = (at(1e-4) - at(-1e-4)) / 2e-4
    for x in (1e-6, -1e-6, 1e-9, -1e-9, 1e-12, -1e-12):
        exact_x = (1 + x) - 1
        assert at(x) - at(0.0) == pytest.approx(
            slope * exact_x, abs=THREE_DIGITS * abs(slope * exact_x) + 2e-12
        )


def test_alignment_interpolates_between_the_orthogonal_and_the_parallel_risk():
    """R_B(c) = (1 - c^2) R_B(0) + c^2 R_B(1), and the sign of c is immaterial."""
    arguments = (7, 0.6, 1.5, *zipf(6))
    zero, one = (np.exp(bayes_excess(*arguments, c).log_value) for c in (0.0, 1.0))
    for c in (0.3, -0.3, 0.9):
        assert np.exp(bayes_excess(*arguments, c).log_value) == pytest.approx(
            (1 - c * c) * zero + c * c * one, rel=SOLVED
        )


def test_polygamma_helpers():
    y = np.geomspace(1e-3, 100, 400)
    for lean in (-0.57, 0.0, 0.57):
        z = 0.3 + y * (1j + lean)
        assert np.abs(mellin._digamma(z) - special.psi(z)).max() < 1e-12
    x = np.geomspace(1e-9, 1e4, 300)
    assert np.abs(saddle_exponent._trigamma(x) / special.polygamma(1, x) - 1).max() < 1e-9
