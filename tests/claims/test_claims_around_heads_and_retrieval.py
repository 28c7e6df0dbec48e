"""The claims on linear attention and on retrieval from examples: each check runs once, and
everything is asserted of that one result.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and the seed is fixed, so a
failure here is a change of the code.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, ids

from attnscope.estimators.linear_attention.fewest_heads import generic_heads
from attnscope_claims.around import around_03_optimum_over_heads as optimum


@pytest.mark.parametrize("name", ids("around", ("03", "04", "05")))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_closed_forms_to_their_printed_digits():
    closed = [optimum.closed_excess(L) for L in (4, 16, 64)]
    np.testing.assert_allclose(closed, [1.545455, 0.629630, 0.186813], atol=5.01e-7)
    bayes = [optimum.TASK.bayes_risk(L).excess for L in (4, 16, 64)]
    np.testing.assert_allclose(bayes, [0.54669, 0.06077, 0.01244], atol=5.01e-6)
    assert 2 * optimum.one_head(16)[0, 0, 3, 0] == pytest.approx(0.049383, abs=5.01e-7)
    assert optimum.certificate_parts(16).min() == 32


def test_counts_of_heads():
    assert [generic_heads(D) for D in (2, 3, 4, 5, 6, 7, 8)] == [2, 4, 7, 10, 13, 17, 22]
    assert generic_heads(4, outputs=1, queries=3) == 3
