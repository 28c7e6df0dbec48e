"""Maps of tiles and decisions: their stress test, and its references against values known
otherwise.

Sampled settings: those of the errors of spatial_context, each a false alarm with probability
5.7e-7 if its estimate were normal; their seeds are fixed.
"""

import pytest
from helpers.families import family_tests
from helpers.tolerances import SOLVED

from stress.references import decisions, tiles

test_quick, test_long = family_tests("tiles", "decisions")


def test_endless_gains_of_white_features_by_hand():
    """Coefficient 0: neighbours explain nothing, and half of the variance is the noise's."""
    for made_by in ("features", "scores", "residuals"):
        found = tiles.endless_gains(made_by, 0.0, 0.0, 1)
        assert found == pytest.approx((0.5, 0.0, 0.0, 0.0), abs=SOLVED)
    # y = x + c Wx + e with white x: Wx explains c^2/8 of 2 + c^2/8
    found = tiles.endless_gains("features", 0.0, 0.8, 1)
    assert found[1] == pytest.approx(0.08 / 2.08, abs=SOLVED)


def test_regret_references_agree_where_they_meet():
    """Counted against drawn: the references' own errors, six standard errors."""
    arguments = (5, 9.0, 1.0, (0.0, 0.7, 1.6), 2.0, (0.2, 0.3, 0.5))
    counted, _ = decisions.regret(*arguments, 0)
    for c in range(3):
        value, error = decisions._drawn(c, *arguments, 1)
        assert abs(value - counted[c]) < error


def test_counted_regret_of_one_token_by_hand():
    """One token, always taken: E(U - tau)^2 (b + u)/2 for one class of two."""
    counted, _ = decisions.regret(1, 3.0, 1.0, (0.0, 0.0), 2.0, (0.4, 0.6), 0)
    assert counted == pytest.approx([2 * (1 / 12 + 1 / 16)] * 2, rel=1e-12)
