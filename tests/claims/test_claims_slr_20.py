"""Finite samples against the Cramér-Rao limit;
what the claim's measured route rests on, by itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, evidence, ids

from attnscope_claims.slr import slr_20_finite_samples as claim


@pytest.mark.parametrize("name", ids("slr", ("20",)))
class TestClaim(ClaimContract):
    """The check runs once, at seed 0."""


def test_finite_n_factor_is_that_of_least_squares():
    """q(n) against simulated least squares with intercept; 5 standard errors, fixed seed."""
    n, runs = 100, 3000
    rng = np.random.default_rng(4)
    d = claim.DIM
    regret = np.empty(runs)
    for i in range(runs):
        x = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
        gap = np.linalg.lstsq(x, rng.standard_normal(n), rcond=None)[0]
        regret[i] = gap @ gap
    predicted = (d + 1) / n * claim.excess_factor(n)
    assert abs(regret.mean() - predicted) < 5 * regret.std(ddof=1) / np.sqrt(runs)
    assert abs(regret.mean() - predicted) < 0.05 * predicted  # the test could have failed


@pytest.mark.slow
def test_moments_alone_are_far_from_the_limit_and_passes_help():
    figure = evidence(ids("slr", ("20",))[0]).figure
    moments, one, two, ten = (mark.y for mark in figure.panels[0].marks[1:])
    assert (moments > 10 * ten).all() and (one > ten).all() and (two > 0.99 * ten).all()
