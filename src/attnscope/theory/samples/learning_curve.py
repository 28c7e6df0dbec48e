"""Learning curves in samples by one function: Bayes-optimal, fitted by ridge, or fitted with the
key known.

notation: alpha = n/d, n bags in dimension d -> inf.

Without a predictor: the smallest risk from n bags (bayes_curve.py). With one: the risk reached by
minimising the squared error over n bags with a ridge penalty (ridge_erm.py), or by fitting the
value alone (ridge_fixed_key.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate
from attnscope.theory.samples.bayes_curve import BRANCHES, Branch, bayes_curve
from attnscope.theory.samples.curve import LEARNING_CURVE_NAME, LearningCurve
from attnscope.theory.samples.ridge_erm import erm_curve
from attnscope.theory.samples.ridge_fixed_key import fixed_key_curve

if TYPE_CHECKING:
    from attnscope.predictors.attention import Predictor
    from attnscope.tasks.planted.random_length import RandomLength
    from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["alphas", "learning_curve"]


# the overlaps, 1e-9 and 1 - 1e-9 there, still differ from 0 and 1 in float64
SMALLEST_ALPHA = 1e-6
LARGEST_ALPHA = 1e6


def alphas(alpha: Any, of: str) -> np.ndarray:
    """One number or a list of them, each from 1e-6 to 1e6, as an array (n,)."""
    many = isinstance(alpha, (list, tuple, range)) or np.ndim(alpha) > 0
    values = check.array(alpha, "alpha", of, (None,)) if many else [alpha]
    hint = "alpha=[0.5, 1.0, 2.0]" if many else "alpha=2.0"
    return np.array(
        [check.real(a, "alpha", of, SMALLEST_ALPHA, LARGEST_ALPHA, hint=hint) for a in values]
    )


def learning_curve(
    task: SingleLocation | RandomLength,
    alpha: Any,
    predictor: Predictor | None = None,
    ridge: Any = None,
    key: Any = None,
    branch: Branch = "reached",
    unstable: Literal["refuse", "return"] = "refuse",
) -> LearningCurve:
    """Risk from n = alpha d bags as d -> inf: the Bayes-optimal one, or that of a fitted predictor.

    Args:
        task: SingleLocation.spiked (any position probabilities), or RandomLength of it.
        alpha: bags per dimension, a number or a list.
        predictor: None for the Bayes-optimal estimator; Softmax or LinearAttention for the fit of
            its key and value by squared error, whose inverse temperature is absorbed in the key's
            length. Two tokens or more, one spike of order 1, noise > 0.
        ridge: penalty of the fit, one number or (key, value): sum of squares/2 + (d/2) (ridge_k
            |k|^2 + ridge_v |v|^2), k and v the predictor's own.
        key: fits the value alone, with the key known: "oracle" (the best key at the truth), "mean"
            (all tokens alike), or (k.k*, |k|^2).
        branch: which solution of the Bayes equations where there are several: "reached" by message
            passing, "informed" (reached from the truth), "best" (of largest evidence:
            Bayes-optimal, perhaps out of reach).
        unstable: "refuse" or "return" a fit's number where replica symmetry fails.

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.1**0.5)
    >>> curve = learning_curve(task, alpha=[0.5, 1, 2, 4])
    >>> curve.risk.excess.round(4)
    array([0.7465, 0.4825, 0.2567, 0.1878])
    >>> curve.key_overlap.round(4), curve.value_overlap.round(4)
    (array([0.6631, 0.8105, 0.9006, 0.9488]), array([0.3324, 0.6398, 0.893 , 0.9628]))

    >>> from attnscope.predictors.attention import LinearAttention, Softmax
    >>> known = learning_curve(task, 2.0, Softmax(1.0), ridge=0.1, key="oracle")
    >>> fitted = learning_curve(task, 2.0, LinearAttention(1.0, offset=1.0), ridge=(0.2, 16))
    >>> round(known.risk.excess, 4), round(fitted.risk.excess, 2), round(fitted.stability, 1)
    (0.3254, 0.61, 0.4)
    """
    values = alphas(alpha, LEARNING_CURVE_NAME)
    if branch not in BRANCHES:
        raise bad("branch", LEARNING_CURVE_NAME, f"one of {', '.join(BRANCHES)}", branch)
    if predictor is None:
        if ridge is not None or key is not None:
            what = "ridge" if ridge is not None else "key"
            raise bad(
                what,
                LEARNING_CURVE_NAME,
                "None without a predictor",
                "a value",
                "predictor=Softmax(1.0)",
            )
        curve = bayes_curve(task, values, branch)
    elif key is None:
        curve = erm_curve(task, values, predictor, ridge, unstable)
    else:
        curve = fixed_key_curve(task, values, predictor, ridge, key)
    return curve if np.ndim(alpha) else _curve_of_one_alpha(curve)


def _curve_of_one_alpha(curve: LearningCurve) -> LearningCurve:
    """The curve of one alpha, with numbers instead of arrays of one."""
    risk = curve.risk
    numbers = {name: _as_number(value) for name, value in vars(curve).items()}
    numbers["risk"] = Estimate(
        risk.value.item(),
        risk.error.item(),
        risk.method,
        risk.excess.item(),
        risk.log_excess.item(),
    )
    return LearningCurve(**numbers)


def _as_number(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_as_number(part) for part in value)
    return value.item() if isinstance(value, np.ndarray) else value
