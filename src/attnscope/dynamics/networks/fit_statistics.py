"""What a fitted attention model is worth: its covariance, the generalisation gap, and the parts of
its excess risk.

notation: R = population risk, R_train = mean over the n fitted sequences; theta^ the fit, theta*
the minimiser of R.

Statistics of a fit (standard, M-estimation): with H the Hessian of the population risk at its
minimiser theta*, and J the covariance of one sequence's gradient, the fit theta^ on n sequences has
covariance H^-1 J H^-1/n, and

    [R(theta^) - R(theta*)] + [R_train(theta*) - R_train(theta^)]  =  tr(H^-1 J)/n + o(1/n)
        (Takeuchi).

The left side is the gap R(theta^) - R_train(theta^) without the noise R_train(theta*) - R(theta*)
that does not depend on the fit: `generalisation_gap`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attnscope.dynamics.networks.attention_model import (
    AttentionParameters,
    Contexts,
    Pass,
    checked_contexts,
    checked_parameters,
    losses,
)
from attnscope.errors import bad
from attnscope.numerics.border import validation as check

__all__ = ["Decomposition", "Sandwich", "excess_risk", "generalisation_gap", "sandwich"]

DIFFERENCE_STEP = (
    1e-4  # step of the central differences of gradients: errors of 1e-8 relative
)


class Decomposition(NamedTuple):
    """excess = approximation + generalisation + optimisation, each with the standard error of its
    estimate on the test contexts.
    """

    approximation: float
    generalisation: float
    optimisation: float
    errors: tuple[float, float, float]

    @property
    def excess(self) -> float:
        """Risk over the Bayes risk."""
        return self.approximation + self.generalisation + self.optimisation


class Sandwich(NamedTuple):
    """covariance of sqrt(n) (fit - minimiser) (p, p), and Takeuchi's trace tr(H^-1 J):
    n times the generalisation gap.
    """

    covariance: np.ndarray
    trace: float


def sandwich(
    parameters: AttentionParameters, contexts: Contexts, label_noise: float = 0.0
) -> Sandwich:
    """Asymptotic covariance and Takeuchi trace at a minimiser, estimated from contexts independent
    of any fit.

    `label_noise`: standard deviation of independent noise that the fitted targets have and those of
    `contexts` do not. Its part of J is added exactly, 4 label_noise^2 E[do/dtheta' do/dtheta]; H
    does not depend on it, and is far better determined without it.
    """
    contexts = checked_contexts(contexts)
    run = Pass(contexts)
    x = parameters.vector
    mean_gradient = lambda y: run.gradients(parameters.with_vector(y)).mean(axis=0)
    shift = DIFFERENCE_STEP * np.eye(len(x))
    H = np.array(
        [(mean_gradient(x + e) - mean_gradient(x - e)) / (2 * DIFFERENCE_STEP) for e in shift]
    )
    H = (H + H.T) / 2
    if np.linalg.eigvalsh(H)[0] <= 0:
        raise bad(
            "parameters",
            "sandwich",
            "a strict minimiser of the risk",
            "a Hessian that is not positive definite",
            "sink=False",
        )
    n, M = contexts.queries.shape[:2]
    jacobian = run.linearised(parameters)[1]
    noise = check.real(label_noise, "label_noise", "sandwich", 0)
    J = np.cov(run.gradients(parameters), rowvar=False) + 4 * noise**2 * (
        jacobian.T @ jacobian
    ) / (n * M * M)
    inverse = np.linalg.inv(H)
    return Sandwich(inverse @ J @ inverse, float(np.trace(inverse @ J)))


def generalisation_gap(
    fitted: AttentionParameters, best: AttentionParameters, train: Contexts, test: Contexts
) -> float:
    """[R_train(best) - R_train(fitted)] + [R_test(fitted) - R_test(best)]:
    the gap with its noise removed by a control variate.

    Args:
        fitted: minimises the risk on `train`.
        best: minimises the population risk.
        train, test: the contexts of the fit, and others.

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.LinearMap(dim_key=2, dim_value=1, prior_variance=1.0, noise=0.5)
    >>> contexts = at.task_contexts(task, 50, length=8)
    >>> alike = at.AttentionParameters(np.zeros((2, 2)), None, np.eye(1))
    >>> nothing = at.AttentionParameters(np.zeros((2, 2)), None, np.zeros((1, 1)))
    >>> at.generalisation_gap(alike, alike, contexts, contexts)
    0.0
    >>> round(at.generalisation_gap(alike, nothing, contexts, contexts), 12) + 0.0
    0.0
    """

    of = "generalisation_gap"

    def drop(contexts: Contexts) -> float:
        given = checked_contexts(contexts, of)
        after, before = (checked_parameters(p, given, of) for p in (fitted, best))
        return float(np.mean(losses(before, given) - losses(after, given)))

    return drop(train) - drop(test)


def excess_risk(
    returned: AttentionParameters,
    minimiser: AttentionParameters,
    best: AttentionParameters,
    test: Contexts,
    bayes_predict: Callable[[Contexts], np.ndarray],
) -> Decomposition:
    """Split the excess over Bayes of what training returned: R(best) - Bayes, R(minimiser) -
    R(best), R(returned) - R(minimiser).

    Args:
        returned: what training gave.
        minimiser: of the training risk.
        best: of the population risk.
        test: contexts that no fit has seen.
        bayes_predict: from contexts to the targets' conditional means (n, M, d_y).

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.LinearMap(dim_key=2, dim_value=1, prior_variance=1.0, noise=0.5)
    >>> contexts = at.task_contexts(task, 50, length=8)
    >>> bayes = lambda c: np.stack([task.bayes_predict(c.queries[:, 0], c.keys, c.values)], axis=1)
    >>> alike = at.AttentionParameters(np.zeros((2, 2)), None, np.eye(1))
    >>> split = at.excess_risk(alike, alike, alike, contexts, bayes)
    >>> split.generalisation, split.optimisation, split.approximation > 0
    (0.0, 0.0, True)
    """
    of = "excess_risk"
    test = checked_contexts(test, of)
    if not callable(bayes_predict):
        raise bad("bayes_predict", of, "a function of the contexts", bayes_predict)
    models = [checked_parameters(p, test, of) for p in (best, minimiser, returned)]
    bayes = np.mean(np.sum((bayes_predict(test) - test.targets) ** 2, axis=2), axis=1)
    steps = [bayes, *(losses(p, test) for p in models)]
    # paired per sequence: the label noise drops out
    parts = [after - before for before, after in pairwise(steps)]
    (a, a_error), (g, g_error), (o, o_error) = (
        (x.mean(), x.std(ddof=1) / np.sqrt(len(x))) for x in parts
    )
    return Decomposition(
        float(a), float(g), float(o), (float(a_error), float(g_error), float(o_error))
    )
