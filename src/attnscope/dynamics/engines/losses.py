"""Losses of one sequence as JAX functions of what a predictor can see: projections of the tokens,
never the tokens.

A loss is a function loss(seen, told, noise, temperature) -> scalar of
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

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.x64 import x64
from attnscope.predictors.attention import (
    Erf,
    Predictor,
    Softmax,
    SoftmaxOne,
    SoftplusAttention,
    is_componentwise,
    is_normalised,
)
from attnscope.theory.optima.optimal_sigma import OptimalSigma

__all__ = ["Loss", "logistic_loss", "output_loss", "squared_loss", "weight_function"]

Loss = Callable[[Any, Any, Any, Any], Any]


def squared_loss(predictor: Predictor, heads: int = 1) -> Loss:
    """(T - Y)^2 for `heads` heads of this kind (module docstring);
    the predictor's own temperature is not used.
    """
    output = _output(predictor, heads, "squared_loss")
    return lambda seen, told, noise, lam: (output(seen, lam) - _label(told, noise)) ** 2


def logistic_loss(predictor: Predictor, heads: int = 1) -> Loss:
    """log(1 + exp(-sign(Y) T)) for `heads` heads of this kind (module docstring)."""
    output = _output(predictor, heads, "logistic_loss")

    def loss(seen: Any, told: Any, noise: Any, lam: Any) -> Any:
        import jax.numpy as jnp

        return jnp.logaddexp(0.0, -jnp.sign(_label(told, noise)) * output(seen, lam))

    return loss


def output_loss(
    predictor: Predictor, heads: int, loss: str, of: str
) -> Callable[[Any, Any, Any, Any], Any]:
    """loss(seen (L, 2 heads), label, mask (L,), temperature) -> scalar, "squared" or "logistic",
    for any planted task.
    """
    import jax.numpy as jnp

    weights = weight_function(predictor, of)

    def output(seen: Any, mask: Any, lam: Any) -> Any:
        parts = [
            (weights(lam * seen[:, 2 * h], mask) * seen[:, 2 * h + 1]).sum()
            for h in range(heads)
        ]
        return sum(parts)

    def squared(seen: Any, label: Any, mask: Any, lam: Any) -> Any:
        return (output(seen, mask, lam) - label) ** 2

    def logistic(seen: Any, label: Any, mask: Any, lam: Any) -> Any:
        return jnp.logaddexp(0.0, -jnp.sign(label) * output(seen, mask, lam))

    losses = {"squared": squared, "logistic": logistic}
    if loss not in losses:
        raise bad("loss", of, "'squared' or 'logistic'", loss)
    return losses[loss]


def _label(told: Any, noise: Any) -> Any:
    return sum(told[i, 2 * i + 1] for i in range(told.shape[0])) + noise  # X_i.v_i*


def _output(predictor: Predictor, heads: int, of: str) -> Callable[[Any, Any], Any]:
    weights = weight_function(predictor, of)
    heads = check.integer(heads, "heads", of, 1)

    def head(seen: Any, lam: Any, h: int) -> Any:
        return (weights(lam * seen[:, 2 * h]) * seen[:, 2 * h + 1]).sum()

    return lambda seen, lam: sum(head(seen, lam, h) for h in range(heads))


def weight_function(predictor: Predictor, of: str) -> Callable[..., Any]:
    """The predictor's map from scores (..., L), and a mask of real tokens if there is one, to
    weights, as JAX can differentiate it.
    """
    if is_normalised(predictor):
        logs = _log_activation(predictor, of)
        return lambda scores, mask=None: _normalised(logs(scores), mask, predictor.sink)
    sigma = _sigma(predictor, of)
    return lambda scores, mask=None: _only_real(sigma(scores), mask)


def _log_activation(predictor: Any, of: str) -> Callable[[Any], Any]:
    twins: dict[type, Callable[[Any], Any]] = {
        Softmax: _same,
        SoftmaxOne: _same,
        SoftplusAttention: _log_softplus,
    }
    found = next((twins[kind] for kind in type(predictor).__mro__ if kind in twins), None)
    return _traceable(predictor.log_activation, of) if found is None else found


def _sigma(predictor: Any, of: str) -> Callable[[Any], Any]:
    from jax.scipy import special

    twins: dict[type, Callable[[Any], Callable[[Any], Any]]] = {
        Erf: lambda own: special.erf,
        OptimalSigma: _logistic,
    }
    found = next((twins[kind] for kind in type(predictor).__mro__ if kind in twins), None)
    if found is not None:
        return found(predictor)
    if is_componentwise(predictor):
        return _traceable(predictor.sigma, of)
    known = "an Erf, Softmax, SoftmaxOne, SoftplusAttention, Componentwise or LinearAttention"
    raise bad("predictor", of, known, predictor, "Softmax(2.0)")


def _logistic(predictor: Any) -> Callable[[Any], Any]:
    from jax.scipy import special

    a, b, c = predictor.sigma.coefficients
    return lambda u: special.expit(a * u * u + b * u + c)


def _same(x: Any) -> Any:
    return x


def _only_real(weights: Any, mask: Any) -> Any:
    from jax import numpy as jnp

    return weights if mask is None else jnp.where(mask, weights, 0.0)


def _normalised(logs: Any, mask: Any, sink: float) -> Any:
    """Normalised weights from log h; a sink is one more score of 0."""
    import jax
    from jax import numpy as jnp

    if mask is not None:
        logs = jnp.where(mask, logs, -jnp.inf)
    if sink:
        logs = jnp.concatenate([logs, jnp.zeros((*logs.shape[:-1], 1))], axis=-1)
    weights = jax.nn.softmax(logs, axis=-1)
    return weights[..., :-1] if sink else weights


def _log_softplus(x: Any) -> Any:
    """log log(1 + e^x); below -37 it is x to rounding,
    and both branches have finite derivatives.
    """
    import jax
    from jax import numpy as jnp

    return jnp.where(x < -37, x, jnp.log(jax.nn.softplus(jnp.maximum(x, -37))))


def _traceable(sigma: Callable[[Any], Any], of: str) -> Callable[[Any], Any]:
    """sigma itself if JAX can trace it, its twin of the same name if it is a NumPy or SciPy ufunc,
    or one sentence.
    """
    import jax
    from jax import numpy as jnp
    from jax.scipy import special

    if isinstance(sigma, np.ufunc):
        sigma = getattr(jnp, sigma.__name__, getattr(special, sigma.__name__, sigma))
    try:
        with x64():
            jax.eval_shape(jax.grad(lambda x: sigma(x).sum()), jnp.zeros(2))
    except Exception as error:
        raise AttnscopeError(
            f"sigma of {of} must be a function that JAX can differentiate, got "
            f"{type(error).__name__} from it; try jax.numpy.tanh."
        ) from error
    return sigma
