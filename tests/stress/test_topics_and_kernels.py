"""Topic mixtures, learning curves of kernels: their stress test, and its references against values
known otherwise.

Sampled settings: those of intrinsic_dimension alone, each a false alarm with probability 5.7e-7.
"""

import math

import pytest
from helpers.families import family_tests
from helpers.tolerances import EXACT, LAST_DIGIT

from stress.references import kernel_curves, topic_mixture

test_quick, test_long = family_tests("topic_mixture", "kernel_curves")


def test_a_document_by_hand():
    """Two words of one topic of two: 1/2 (alpha + 1)/(2 alpha + 1) over v^2."""
    found = topic_mixture.log_document(3, 0.5, (2, 0))
    assert found == pytest.approx(math.log(0.5 * 1.5 / 2 / 9), rel=LAST_DIGIT)
    assert topic_mixture.predictive(3, 0.5, (1, 0)) == pytest.approx([0.25, 1 / 12])


def test_attention_that_is_sure_of_the_shown_word():
    """A shown word that is always right and never diluted leaves nothing."""
    risk, bayes = topic_mixture.attention_risks(2, 2, 0.7, 4, 1.0, (60.0, 60.0))
    assert risk < 1e-40 and bayes == 0


def test_inverse_gamma_moments():
    """E 1/Gamma(n) = 1/(n-1), E 1/chi2_n = 1/(n-2)."""
    for n in (3, 20, 5000):
        own = kernel_curves.layer(1, n, 1.0, shared=False)
        assert own == pytest.approx(1 / (n - 2), rel=EXACT)
    shared = kernel_curves.layer(3, 5, 1.0, shared=True)
    assert shared == pytest.approx((2 / 4 + 1 / 3) / 3, rel=EXACT)
