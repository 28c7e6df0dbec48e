"""The claims on spatial context, decisions, agents and bounds: each check runs once, and everything
is asserted of that one result.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a
change of the code.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, ids
from helpers.tolerances import SOLVED
from scipy.integrate import quad
from scipy.stats import beta

from attnscope_claims.around import posterior_agents, torus_fields

NUMBERS = ("09", "12", "13", "14")


@pytest.mark.parametrize("name", ids("around", NUMBERS))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_gains_on_the_torus_to_their_printed_digits():
    w = torus_fields.symbol(64, 1)
    printed = {
        "features": [0.0540, 0.0427, 0.0063],
        "scores": [0.0767, 0.1527, 0.1336],
        "residuals": [0.0, 0.2127, 0.2842],
    }
    for made_by, digits in printed.items():
        found = torus_fields.gains(torus_fields.spectra(made_by, 0.6, w), w)
        np.testing.assert_allclose(found, digits, atol=5.01e-5)
    scores = torus_fields.spectra("scores", 0.6, w)
    by_radius = [torus_fields.gains(scores, torus_fields.symbol(64, r))[1] for r in (1, 2, 4)]
    np.testing.assert_allclose(by_radius, [0.1527, 0.1100, 0.0493], atol=5.01e-5)
    white = torus_fields.gains(
        torus_fields.spectra("scores", 0.0, w), torus_fields.symbol(64, 2)
    )
    np.testing.assert_allclose(white[1:], [0.0953, 0.0970], atol=5.01e-5)
    rook = torus_fields.symbol(64, 1, "rook")
    assert torus_fields.least_squares(0.6, rook) == pytest.approx(0.79651, abs=5.01e-6)


@pytest.mark.slow
def test_regrets_to_their_printed_digits():
    """Two swapped arms, two Bernoulli arms, the corridor."""
    for sampling, digits in ((False, 0.264894), (True, 0.354366)):
        assert posterior_agents.worst_gap(sampling)[0] == pytest.approx(digits, abs=5.01e-7)
    worst = {False: (0.270755, 0.266322, 0.265251), True: (0.356202, 0.354815, 0.354477)}
    for sampling, printed in worst.items():
        found = [posterior_agents.worst_gap(sampling, T)[0] for T in (25, 100, 400)]
        np.testing.assert_allclose(found, printed, atol=5.01e-7)
    levels = posterior_agents.sampling_probabilities(100)
    by_sampling = posterior_agents.bernoulli_regret(100, lambda t: levels[t])[[24, 49, 99]]
    np.testing.assert_allclose(by_sampling, [1.562795, 2.125815, 2.786205], atol=5.01e-7)
    greedy = posterior_agents.bernoulli_regret(100, posterior_agents.greedy_choices)
    np.testing.assert_allclose(
        greedy[[24, 49, 99]], [1.098794, 1.672408, 2.691464], atol=5.01e-7
    )
    best = [posterior_agents.optimal_policy(T)[0] for T in (25, 50, 100)]
    np.testing.assert_allclose(best, [0.997032, 1.336621, 1.748246], atol=5.01e-7)
    assert posterior_agents.corridor_optimum(200, 3, 0.08)[0] == pytest.approx(
        111.145189, abs=5.01e-7
    )
    far = posterior_agents.lookahead_rule(200, 3, 0.08, 200)
    assert posterior_agents.corridor_value(200, 3, 0.08, far) == pytest.approx(
        107.91629, abs=5.01e-6
    )


def test_probability_that_one_beta_is_the_larger():
    """One count at a time, against an integral."""
    level = posterior_agents.sampling_probabilities(21)[20]
    for n, first, second in ((7, 3, 5), (0, 0, 20), (20, 20, 0), (10, 5, 5)):
        law = beta(first + 1, n - first + 1)
        other = beta(second + 1, 20 - n - second + 1)
        density = lambda x, law=law, other=other: law.pdf(x) * other.cdf(x)
        truth = quad(density, 0, 1, epsabs=1e-12)[0]
        assert level[n][first, second] == pytest.approx(truth, abs=SOLVED)
