"""Claims around-01 and 02: each check runs once, at seed 0.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a
change of the code.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, ids

from attnscope.tasks.exchangeable.drifting_map import DriftingMap
from attnscope.theory.exchangeable.memory import memory_curve
from attnscope_claims.around import around_01_forget_gate as forget
from attnscope_claims.around import around_02_local_linear as local
from attnscope_claims.around.blind_memories import best_rivals, error_at_rest


@pytest.mark.parametrize("name", ids("around", ("01", "02")))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


@pytest.mark.slow
def test_the_table_of_best_errors():
    """Gated linear, delta without a gate: five printed digits; Kalman and the ratios: within 5
    standard errors of theirs and the rounding of the note.
    """
    printed = {
        ("normal", 0.999): (1.0099, 0.25708, 0.2247),
        ("normal", 0.99): (2.7331, 1.4811, 1.028),
        ("normal", 0.9): (5.5931, 6.8672, 4.466),
        ("sphere", 0.999): (0.12462, 0.06842, 0.06547),
        ("sphere", 0.99): (0.33785, 0.25125, 0.2186),
        ("sphere", 0.9): (0.69442, 0.85449, 0.6347),
    }
    for (law, decay), (linear, delta, kalman) in printed.items():
        task = DriftingMap(8, 1, 1.0, 0.5, decay, law)
        assert best_rivals(task) == (
            pytest.approx(linear, rel=5e-5),
            pytest.approx(delta, rel=1e-4),
        )
        mean, error = forget._kalman(task, 600, 0)
        assert abs(mean - kalman) < 5 * error + 0.002 * kalman


def test_least_squares_that_forgets_ties_with_the_delta_rule_on_unit_keys():
    """The note's .0669 +- .0009, .2303 +- .0032, .651 +- .009 at factors .97 .93 .70."""
    noted = (
        (0.999, 0.97, 0.0669, 9e-4),
        (0.99, 0.93, 0.2303, 3.2e-3),
        (0.9, 0.7, 0.651, 9e-3),
    )
    for a, g, value, error in noted:
        task = DriftingMap(8, 1, 1.0, 0.5, a, "sphere")
        found = memory_curve(task, 400, decay=g, rule="least squares", samples=100)
        assert abs(found.excess - value) < 5 * (error + found.error)
        best = memory_curve(task, 400).excess
        assert 0.97 * best < found.excess + 5 * found.error
        assert found.excess - 5 * found.error < 1.03 * best


def test_the_printed_noise_of_a_local_fit():
    assert local.NOISE**2 * local._variance(3, 0.25) / 1024 == pytest.approx(
        0.00247, abs=5e-6
    )
    assert local.NOISE**2 * local._variance(3, 0.25) / 64 == pytest.approx(0.03956, abs=5e-6)


def test_rest_is_the_limit_of_the_curve():
    """The error at rest that the search minimises, against the recursion of 4000 tokens."""
    for law in ("normal", "sphere"):
        task = DriftingMap(8, 1, 1.0, 0.5, 0.99, law)
        step = 0.05 if law == "normal" else 0.4
        for gate in (0.97, 0.99, 1.0):
            rest = error_at_rest(task, gate, gate * step, step)
            assert memory_curve(task, 4000, step, gate).excess == pytest.approx(
                rest, rel=1e-10
            )
        rest = error_at_rest(task, 0.97, 0.0, step)
        linear = memory_curve(task, 4000, step, 0.97, "linear")
        assert linear.excess == pytest.approx(rest, rel=1e-10)
