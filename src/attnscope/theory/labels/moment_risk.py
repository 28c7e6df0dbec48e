"""The squared risk of a head on a task that others define, by the moments of its label.

notation: y the label, t the projection it reads, T the output of the head, g(t) = E[T | t]; z the
latent; u, w score and value of a token (token_kinds.py), sigma or h the head's activation.

    R = sum_z p_z { E[y^2 | z] - 2 E[y g(t) | z] + E[T^2 | z] }

The label enters through E y^2 and E[y g] alone, and g is smooth however stiff the label is: the
label's side is found once per task (quadrature.py), with a bound, as weights W on few points of t
(folded.py). Tokens are independent given z, and come in few kinds with n_a tokens each.

    componentwise   g(t) = E[sigma(lam u) w | t] + sum_{not read} m_a,      m_a = E sigma w,
                    E T^2 = sum_a n_a (q_a - m_a^2) + (sum_a n_a m_a)^2,    q_a = E sigma^2 w^2
                    (componentwise_moments.py)
    normalised      one integral over tau with kernels per kind (normalised_moments.py)

Error: the label's bounds, |E y^2| + 4 sum slack max|g|; the tail of g's interpolation times E|y|;
what two rules for the scores differ by; rounding of all terms. Of a label that was scanned, also
what the scan may have missed: a feature of width SCAN_STEP moves E y^2 by `unseen` and E[y g] by no
more than twice (unseen E g^2)^(1/2) (SCAN_STEP)^(1/2), which the same term with E T^2 covers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.predictors.attention import is_componentwise, is_normalised
from attnscope.theory.labels.componentwise_moments import componentwise_terms
from attnscope.theory.labels.label_blocks import LabelLaw, label_law
from attnscope.theory.labels.normalised_moments import normalised_terms
from attnscope.theory.labels.quadrature import LabelWeights
from attnscope.theory.labels.token_kinds import Terms

__all__ = ["METHOD_NAMES", "moment_excess", "moment_law"]

# the method that an estimate states
METHOD_NAMES = {
    "bound": "moments, bound",
    "declared": "moments, declared scale",
    "scan": "moments, scan",
}
# relative, of every term: sums of positive products of some roundings each
MOMENT_TERM_ROUNDING = 2.0**-50
LARGEST_MOMENT_ERROR = 1e-6  # relative error above which nodes replace the moments


def moment_law(task: Any, predictor: Any) -> LabelLaw:
    """The label's blocks if the moments can be used for this head, else the reason why not."""
    if getattr(task, "loss", "squared") != "squared":
        return LabelLaw(None, "its loss is not squared")
    if getattr(predictor, "heads", 1) != 1:
        return LabelLaw(None, "there are several heads")
    predictor = getattr(predictor, "head", predictor)
    if not (is_componentwise(predictor) or is_normalised(predictor)):
        return LabelLaw(
            None, f"{type(predictor).__name__} is no componentwise or normalised head"
        )
    return label_law(task)


def moment_excess(
    law: LabelLaw, predictor: Any, G: np.ndarray, lam: float
) -> tuple[float, float, str] | None:
    """(excess, error, method) at one Gram matrix of (k, v, teachers); None where the head is too
    steep for these moments.
    """
    assert law.blocks is not None
    predictor = getattr(predictor, "head", predictor)
    terms_of = componentwise_terms if is_componentwise(predictor) else normalised_terms
    value = error = size = 0.0
    for block in law.blocks:
        terms = terms_of(predictor, block, G, lam)
        if terms is None:
            return None
        label = block.weights
        p = block.probability
        value += p * (label.square - 2 * terms.cross + terms.output)
        error += p * (label.square_error + 2 * terms.cross_error + terms.output_error)
        error += p * unseen_excess(label, terms)
        size += p * (label.square + 2 * terms.size + terms.output)
    error += MOMENT_TERM_ROUNDING * size
    if error > LARGEST_MOMENT_ERROR * size and law.how == "bound":
        return None
    return value, error, METHOD_NAMES[law.how]


def unseen_excess(label: LabelWeights, terms: Terms) -> float:
    """What a scan may have missed of E y^2 - 2 E[y g]."""
    if label.unseen == 0:
        return 0.0
    share = terms.output / max(label.square, 1e-300)
    return label.unseen * (1 + np.sqrt(share))
