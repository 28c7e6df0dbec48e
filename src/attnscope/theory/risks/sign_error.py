"""The error of a head as a classifier, for tasks whose labels are classes.

    sign_error(task, predictor, overlaps) = P(sign T(X) != Y),   Y in {-1, 1}

for planted tasks with one teacher xi and no value, SparseTokenClassification among them:
kappa = k.xi and theta = v.xi, while eta = nu = 0. An output of exactly 0 has no sign and is wrong.
No formula for this probability is known; it is estimated by the share of wrong signs among drawn
sequences, with its binomial error (numerics/border/sampled_estimate.py). A head has no threshold of
its own; the task has the errors of tests with a threshold and of Bayes' rule (`bayes_error`,
`max_test_error`, ...).
"""

from __future__ import annotations

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate
from attnscope.predictors.attention import Predictor
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask, has_classes
from attnscope.theory.overlaps import Overlaps, checked_overlaps
from attnscope.theory.risk import unchecked_risk
from attnscope.theory.routes.table import checked_predictor

__all__ = ["sign_error"]


def sign_error(
    task: PlantedTask,
    predictor: Predictor,
    overlaps: Overlaps,
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """Probability that the sign of the head's output is not the label, at the given overlaps.

    Args:
        task: a planted task whose labels are classes, as SparseTokenClassification.
        predictor: one head, at an inverse temperature.
        overlaps: numbers or arrays that broadcast; kappa, theta and rho count.
        samples: sequences drawn, at a cost that does not depend on the dimension.
        seed: of the draws.

    >>> from attnscope.predictors.attention import LinearAttention
    >>> from attnscope.tasks.planted.sparse_tokens import SparseTokenClassification
    >>> task = SparseTokenClassification(dim=200, length=10, strength=5.0)
    >>> plain = LinearAttention(0.0, offset=1.0)  # the sum of all X_l.v: a coin where Y = -1
    >>> found = sign_error(task, plain, Overlaps(0.0, 0.0, 1.0, 0.0, 0.0))
    >>> abs(found.value - (0.5 + 0.05692) / 2) < 5 * found.error  # Phi(-5/sqrt(10)) = 0.05692
    True
    """
    of = "sign_error"
    if not has_classes(task):
        must = "a planted task whose labels are classes"
        raise bad("task", of, must, task, "risk(task, predictor, overlaps)")
    lam = constant_inverse_temperature(checked_predictor(predictor, of), of)
    o = checked_overlaps(overlaps, task, of)
    samples = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    return unchecked_risk(task, predictor, o, lam, "auto", samples, seed)
