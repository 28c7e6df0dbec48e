"""Claims beyond-08 and beyond-09: each check runs once, and everything is asserted of that one
result.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a
change of the code.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, evidence, ids
from helpers.tolerances import EXACT, FEW_ROUNDINGS, INTEGRAL, LAST_DIGIT

import attnscope as at
from attnscope.claims.compare import wilson
from attnscope_claims.beyond.beyond_09_bayes_softmax import KINDS, SETTINGS, task
from attnscope_claims.beyond.two_directions import gauges


@pytest.mark.parametrize("name", ids("beyond", ("09",)))
class TestQuickClaim(ClaimContract):
    """Runs in seconds, at seed 0."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ids("beyond", ("08",)))
class TestTrainingClaim(ClaimContract):
    """Trains 96 runs, at seed 0."""


@pytest.mark.slow
def test_the_fraction_of_specialised_runs_is_that_of_an_independent_simulation():
    """17 of 24 there (another engine, other seeds), same step size: difference of two fractions
    within 4 standard errors (false alarm 1e-4).
    """
    (name,) = ids("beyond", ("08",))
    here = evidence(name).comparisons[0].predicted / 32
    pooled = (17 + 32 * here) / 56
    assert 0 < here < 1 and abs(here - 17 / 24) < 4 * np.sqrt(
        pooled * (1 - pooled) * (1 / 24 + 1 / 32)
    )


def test_wilson_interval():
    """Against its definition: the p at which (count/n - p)^2 = z^2 p (1 - p)/n."""
    low, high = wilson(25, 32)
    for p in (low, high):
        assert (25 / 32 - p) ** 2 == pytest.approx(1.96**2 * p * (1 - p) / 32, rel=INTEGRAL)
    assert low < 25 / 32 < high and wilson(0, 10)[0] == pytest.approx(0, abs=LAST_DIGIT)


def test_gauges_have_the_teachers_form():
    planted = at.MultiDirection(9, 4, 2)
    form = lambda K, V: sum(np.outer(k, v) + np.outer(v, k) for k, v in zip(K, V))
    forms = [form(*pair) for pair in gauges(planted).values()]
    for S in forms[1:]:
        np.testing.assert_allclose(S, forms[0], atol=FEW_ROUNDINGS)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_every_kind_by_hand(kind):
    """Against sums over tokens, one at a time."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((2, 2, 4))
    p = rng.standard_normal(2 if "head" not in kind and "softmax-1" not in kind else 6)
    p = p[:3] if kind == "one head" else p
    got = KINDS[kind](u, p, np)
    for i, l in np.ndindex(2, 4):
        if kind in ("Bayes-softmax", "no bias"):
            e = np.exp(u[i] + p[:, None])
            want = e[:, l].sum() / e.sum()
        elif kind == "one head":
            e = np.exp(p[1] * u[i, 0] + p[2] * u[i, 1])
            want = p[0] * e[l] / e.sum()
        else:
            bias = p[4:] if kind == "softmax-1, bias" else np.zeros(2)
            e = np.exp(p[:2, None] * u[i] + bias[:, None])
            want = (p[2:4] * e[:, l] / (e.sum(1) + (kind != "plain heads"))).sum()
        assert got[i, l] == pytest.approx(want, rel=EXACT)


def test_the_table_of_settings():
    assert [task(name).spikes for name in SETTINGS] == [2, 4, 2, 2, 4]
    assert task("unequal").bias == pytest.approx([np.log(0.3) - 8, np.log(0.7) - 3])
