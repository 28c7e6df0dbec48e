"""Shares of plainer models in the prediction, for few bags of classes: stacking by held-out loss.

    P(class | bag) = sum_k w_k P_k(class | bag),   w on the simplex,   k: the deciding token, the mean
        token (pooled.py), the mean of token probabilities (instances.py), bags as a whole by a
        kernel (summaries.py) and by trees (forest.py)

    w minimises   sum_i -weight_i log P(class_i | bag_i)  -  (PRIOR/K) sum_k log w_k

over held-out probabilities of the same folds: the most probable w where all K models together have
PRIOR bags to their credit beforehand (a Dirichlet law). The sum is convex. A plainer model takes
part unless its held-out loss is above that of no tokens by USELESS standard errors. A deciding token
that leaves hardly anything to explain (SURE) keeps everything.

The deciding token's gate is the best of dozens by the same held-out losses, and looks better than it
is by about as much as the best of so many useless ones would (ucsb_breast_cancer, 46 bags: held out
.44, at test .97). So its log P is lowered, while w is sought, by CHOSEN standard errors of its
difference to the best plainer model, whose choice is one ridge at the most: with 50 bags a quarter
of the entropy, with FEW a fortieth, and a token that decides clearly is ahead by more.

Why not the share of `pooled.mean_share`, which asks for a gain of a standard error: with 50 bags that
is a tenth of the entropy, and all of it would be the mean token's to lose. With more than FEW bags a
difference of that size is beyond doubt, and the share is asked to prove itself.

notation: n bags; k = 0 the deciding token. Held-out outputs are not those of the final models, which
saw more bags; that is common to all k.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import gain_and_error
from attnscope.estimators.fit.mixture import constant_output, output_losses

__all__ = ["FEW", "READERS", "doubted", "is_sure", "shares"]

# plainer models that may have a share, by the names of its attributes, and what they read
READERS = {
    "mean": "the mean token",
    "instance": "token probabilities",
    "summary": "bags as a whole",
    "forest": "trees on bags as a whole",
}
# bags: a standard error of a log loss is about half a unit over sqrt(n), a sixtieth of the entropy
# with so many; what a choice among dozens feigns is then less than what is worth having
FEW = 2000
# bag, of all models together: no model is ruled out. With one bag each musk1 (74 bags to learn from)
# loses .02 of log loss
PRIOR = 1.0
USELESS = 1.0  # standard errors: less may be a model that helps the others
CHOSEN = 1.5  # standard errors: the best of a dozen useless ones is ahead by 1.6 on average
SURE = 0.1  # of the entropy: below is nothing to insure (rivals.NEARLY)
SMALL = 0.02  # of the prediction: a lesser share is worth neither its time nor a word


def is_sure(data: Data, losses: np.ndarray) -> bool:
    """Is there hardly anything left to explain?"""
    entropy = np.average(output_losses(constant_output(data), data), weights=data.weight)
    return bool(np.average(losses, weights=data.weight) < SURE * entropy)


def doubted(data: Data, token: np.ndarray, plainer: list[np.ndarray]) -> np.ndarray:
    """The deciding token's held-out probabilities (n, C) as `shares` should see them beside the
    plainer models': lowered for having been chosen.
    """
    lead = _error_of_lead(data, _right(data, [token, *plainer]))
    return token * np.exp(-CHOSEN * lead)


def shares(data: Data, outputs: list[np.ndarray]) -> np.ndarray:
    """w (k,) of held-out class probabilities (n, C) each; 0 of those that are useless, but for the
    first.
    """
    nothing = output_losses(constant_output(data), data)
    taking = [0]
    for k, output in enumerate(outputs[1:], start=1):
        gain, error = gain_and_error(
            nothing - output_losses(output, data), data.weight, data.groups
        )
        if gain > -USELESS * error:
            taking.append(k)
    right = _right(data, [outputs[k] for k in taking])
    w = np.zeros(len(outputs))
    w[taking] = _best(right, data.weight)
    w[1:][w[1:] < SMALL] = 0.0
    return w / w.sum()


def _right(data: Data, outputs: list[np.ndarray]) -> np.ndarray:
    """Each model's probability of the labels there are (n, k)."""
    label = data.labels.astype(int)
    each = [output[np.arange(data.size), label] for output in outputs]
    return np.maximum(np.column_stack(each), 1e-15)


def _error_of_lead(data: Data, right: np.ndarray) -> float:
    """Standard error of the first model's mean log P less that of the best other."""
    log_p = np.log(right)
    best = 1 + int(np.argmax(data.weight @ log_p[:, 1:]))
    return gain_and_error(log_p[:, 0] - log_p[:, best], data.weight, data.groups)[1]


def _best(right: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Over the inside of the simplex, in coordinates w = softmax(free)."""
    count = right.shape[1]
    credit = PRIOR / count

    def objective(free: np.ndarray) -> tuple[float, np.ndarray]:
        log_w = free - logsumexp(free)
        w = np.exp(log_w)
        mixed = right @ w
        value = -weight @ np.log(mixed) - credit * log_w.sum()
        slope = -right.T @ (weight / mixed)
        return value, w * (slope - w @ slope) - credit * (1 - count * w)

    free = minimize(objective, np.zeros(count), jac=True, method="L-BFGS-B").x
    return np.exp(free - logsumexp(free))
