"""Losses of one sequence as JAX functions of what a predictor can see: projections of the tokens,
never the tokens.

A loss is a function loss(seen, told, noise, inverse_temperature) -> scalar of
    seen (L, m)   the tokens' projections on the m trained vectors, rows 0..F-1 belonging to the
        informative tokens,
    told (F, 2F)  the informative tokens' projections on the teachers (k_1*, v_1*, ..., k_F*, v_F*),
    noise ()      the label noise, already scaled.
Any such function, smooth almost everywhere, can be trained by the engines; it must not depend on
the order of the other tokens, because the informative ones are listed first. With trained vectors
(k_1, v_1, ..., k_H, v_H) and heads that add up,

    T = sum_h sum_l weight_l(lam X.k_h) X_l.v_h,       Y = sum_i X_i.v_i* + noise,
    squared    (T - Y)^2,         logistic   log(1 + exp(-label T)) with label = sign(Y) in {-1, 1}:

the cross-entropy of the 0/1 label 1[Y > 0] under the probability 1/(1 + e^-T). The label noise acts
before the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.optional import needs
from attnscope.predictors.attention import Predictor
from attnscope.theory.jax_weights import weight_function

__all__ = ["Loss", "logistic_loss", "output_loss", "squared_loss", "weight_function"]

Loss = Callable[[Any, Any, Any, Any], Any]


def squared_loss(predictor: Predictor, heads: int = 1) -> Loss:
    """(T - Y)^2 for `heads` heads of this kind (module docstring).

    Args:
        predictor: the kind of the heads; its own inverse temperature is not used.
        heads: how many, whose outputs are added.

    >>> import attnscope as at
    >>> import numpy as np
    >>> loss = at.squared_loss(at.LinearAttention(1.0))
    >>> seen = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> told = np.array([[0.0, 5.0]])
    >>> float(loss(seen, told, 0.0, 0.5))
    4.0
    """
    return _loss_of_projections(predictor, heads, "squared")


def logistic_loss(predictor: Predictor, heads: int = 1) -> Loss:
    """log(1 + exp(-sign(Y) T)) for `heads` heads of this kind (module docstring).

    Args:
        predictor: the kind of the heads; its own inverse temperature is not used.
        heads: how many, whose outputs are added.

    >>> import attnscope as at
    >>> import numpy as np
    >>> loss = at.logistic_loss(at.LinearAttention(1.0))
    >>> told = np.array([[0.0, 5.0]])
    >>> round(float(loss(np.zeros((2, 2)), told, 0.0, 0.5)), 4)
    0.6931
    """
    return _loss_of_projections(predictor, heads, "logistic")


def _squared_error(output: Any, label: Any) -> Any:
    return (output - label) ** 2


def _logistic_error(output: Any, label: Any) -> Any:
    from jax import numpy as jnp

    return jnp.logaddexp(0.0, -jnp.sign(label) * output)


# functions (output, label) by the name of the loss
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "squared": _squared_error,
    "logistic": _logistic_error,
}


def output_loss(
    predictor: Predictor, heads: int, loss: Any, of: str
) -> Callable[[Any, Any, Any, Any], Any]:
    """loss(seen (L, 2 heads), label, mask (L,), inverse temperature) -> scalar, "squared",
    "logistic" or a task's own function (output, label), for any planted task.
    """
    output = _heads_output(predictor, heads, of)
    if not callable(loss) and loss not in LOSSES:
        raise bad("loss", of, "'squared', 'logistic' or a function (output, label)", loss)
    error = loss if callable(loss) else LOSSES[loss]
    return lambda seen, label, mask, lam: error(output(seen, lam, mask), label)


def _loss_of_projections(predictor: Predictor, heads: int, name: str) -> Loss:
    of = f"{name}_loss"
    needs("jax", of)
    output = _heads_output(predictor, check.integer(heads, "heads", of, 1), of)
    error = LOSSES[name]
    return lambda seen, told, noise, lam: error(output(seen, lam), _noisy_label(told, noise))


def _noisy_label(told: Any, noise: Any) -> Any:
    return sum(told[i, 2 * i + 1] for i in range(told.shape[0])) + noise  # X_i.v_i*


def _heads_output(predictor: Predictor, heads: int, of: str) -> Callable[..., Any]:
    """T of seen (L, 2 heads), at an inverse temperature and with a mask of real tokens if there is
    one.
    """
    weights = weight_function(predictor, of)

    def head(seen: Any, lam: Any, mask: Any, h: int) -> Any:
        return (weights(lam * seen[:, 2 * h], mask) * seen[:, 2 * h + 1]).sum()

    return lambda seen, lam, mask=None: sum(head(seen, lam, mask, h) for h in range(heads))
