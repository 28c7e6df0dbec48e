"""Shares of plain baselines in the prediction, for few bags of classes: stacking by held-out loss.

    P(class | bag) = sum_k w_k P_k(class | bag),   w on the simplex,   k: the deciding token, the mean
        token (pooled.py), the mean of token probabilities (instances.py), whole bags by a kernel
        (summaries.py) and by trees (forest.py)

    w minimises   sum_i -weight_i log P(class_i | bag_i)  -  (a/K) sum_k log w_k

over held-out probabilities of the same folds. With a = PRIOR_BAG_COUNT this is the posterior mode
under a Dirichlet prior worth a bags in total. The sum is convex. A baseline takes part unless its
held-out loss is above that of a constant by MAX_LOSS_STANDARD_ERRORS standard errors. A deciding
token that leaves hardly anything to explain (held_out.is_nearly_explained) gets the full weight.

The gate of the deciding token is the best of dozens by the same held-out losses, so its loss is
biased downwards, by about as much as the best of dozens of useless gates would gain
(ucsb_breast_cancer, 46 bags: held out .44, at test .97). While w is computed, its log P is
therefore lowered by SELECTION_STANDARD_ERRORS standard errors of its difference to the best
baseline, for which at most a ridge was chosen. This is a quarter of the entropy with 50 bags and a
fortieth with MAX_STACKING_BAGS, and a token that clearly decides is better by more.

`pooled.mean_share` asks for a gain of a standard error. With 50 bags that is a tenth of the entropy,
too much to demand of the mean token. With more than MAX_STACKING_BAGS bags a difference of that
size is significant, and `mean_share` is used.

notation: n bags; k = 0 the deciding token. Held-out outputs are not those of the final models, which
use more bags; that holds for all k.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import gain_and_error
from attnscope.estimators.fit.mixture import constant_output, output_losses

__all__ = ["BASELINES", "MAX_STACKING_BAGS", "discount_selection", "stacking_weights"]

# plain baselines that may have a share, by the prefix of their attributes, and what they read
BASELINES = {
    "mean": "the mean token",
    "instance": "token probabilities",
    "summary": "bags as a whole",
    "forest": "trees on bags as a whole",
}
# a standard error of a log loss is about half a unit over sqrt(n), with this many bags a sixtieth of
# the entropy; the bias of a choice among dozens is then negligible
MAX_STACKING_BAGS = 2000
# prior bags of all models together, so that no weight is 0. With one bag for each model, musk1 (74
# training bags) loses .02 of log loss
PRIOR_BAG_COUNT = 1.0
# a baseline this far above a constant may still help the others
MAX_LOSS_STANDARD_ERRORS = 1.0
SELECTION_STANDARD_ERRORS = 1.5  # the best of a dozen useless gates gains 1.6 on average
MIN_SHARE = 0.02  # a smaller share is not worth its time


def discount_selection(
    data: Data, token: np.ndarray, baselines: list[np.ndarray]
) -> np.ndarray:
    """The deciding token's held-out probabilities (n, C), lowered for the bias of its selection, as
    input of `stacking_weights` next to the baselines' probabilities.
    """
    lead = _error_of_lead(data, _label_probabilities(data, [token, *baselines]))
    return token * np.exp(-SELECTION_STANDARD_ERRORS * lead)


def stacking_weights(data: Data, outputs: list[np.ndarray]) -> np.ndarray:
    """Weights w (k,) of models with held-out class probabilities (n, C) each; 0 for useless ones
    except the first.
    """
    nothing = output_losses(constant_output(data), data)
    taking = [0]
    for k, output in enumerate(outputs[1:], start=1):
        gain, error = gain_and_error(
            nothing - output_losses(output, data), data.weight, data.groups
        )
        if gain > -MAX_LOSS_STANDARD_ERRORS * error:
            taking.append(k)
    right = _label_probabilities(data, [outputs[k] for k in taking])
    w = np.zeros(len(outputs))
    w[taking] = _best_weights(right, data.weight)
    w[1:][w[1:] < MIN_SHARE] = 0.0
    return w / w.sum()


def _label_probabilities(data: Data, outputs: list[np.ndarray]) -> np.ndarray:
    """Each model's probability of the observed labels (n, k)."""
    label = data.labels.astype(int)
    each = [output[np.arange(data.size), label] for output in outputs]
    return np.maximum(np.column_stack(each), 1e-15)


def _error_of_lead(data: Data, right: np.ndarray) -> float:
    """Standard error of the difference between the mean log P of the first and of the best other
    model.
    """
    log_p = np.log(right)
    best = 1 + int(np.argmax(data.weight @ log_p[:, 1:]))
    return gain_and_error(log_p[:, 0] - log_p[:, best], data.weight, data.groups)[1]


def _best_weights(right: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The optimal w inside the simplex, in coordinates w = softmax(free)."""
    count = right.shape[1]
    credit = PRIOR_BAG_COUNT / count

    def objective(free: np.ndarray) -> tuple[float, np.ndarray]:
        log_w = free - logsumexp(free)
        w = np.exp(log_w)
        mixed = right @ w
        value = -weight @ np.log(mixed) - credit * log_w.sum()
        slope = -right.T @ (weight / mixed)
        return value, w * (slope - w @ slope) - credit * (1 - count * w)

    free = minimize(objective, np.zeros(count), jac=True, method="L-BFGS-B").x
    return np.exp(free - logsumexp(free))
