"""The weights of a predictor as JAX can differentiate them.

A predictor computes its weights with NumPy (predictors/attention.py). This module has the same map
for JAX: a known activation has a JAX version here, a user's own is used if JAX can trace it, and
anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
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

__all__ = ["weight_function"]


def weight_function(predictor: Predictor, of: str) -> Callable[..., Any]:
    """The predictor's map from scores (..., L), and a mask of real tokens if there is one, to
    weights, as JAX can differentiate it.
    """
    if is_normalised(predictor):
        logs = _log_activation(predictor, of)
        return lambda scores, mask=None: _normalised_weights(
            logs(scores), mask, predictor.sink
        )
    sigma = _jax_activation(predictor, of)
    return lambda scores, mask=None: _masked_weights(sigma(scores), mask)


def _log_activation(predictor: Any, of: str) -> Callable[[Any], Any]:
    twins: dict[type, Callable[[Any], Any]] = {
        Softmax: _identity,
        SoftmaxOne: _identity,
        SoftplusAttention: _log_softplus,
    }
    found = next((twins[kind] for kind in type(predictor).__mro__ if kind in twins), None)
    return _traceable_activation(predictor.log_activation, of) if found is None else found


def _jax_activation(predictor: Any, of: str) -> Callable[[Any], Any]:
    twins: dict[type, Callable[[Any], Callable[[Any], Any]]] = {
        Erf: lambda own: _jax_erf,
        OptimalSigma: _jax_logistic,
    }
    found = next((twins[kind] for kind in type(predictor).__mro__ if kind in twins), None)
    if found is not None:
        return found(predictor)
    if is_componentwise(predictor):
        return _traceable_activation(predictor.sigma, of)
    known = "an Erf, Softmax, SoftmaxOne, SoftplusAttention, Componentwise or LinearAttention"
    raise bad("predictor", of, known, predictor, "Softmax(2.0)")


def _jax_erf(x: Any) -> Any:
    from jax.scipy import special

    return special.erf(x)


def _jax_logistic(predictor: Any) -> Callable[[Any], Any]:
    a, b, c = predictor.sigma.coefficients

    def sigma(u: Any) -> Any:
        from jax.scipy import special

        return special.expit(a * u * u + b * u + c)

    return sigma


def _identity(x: Any) -> Any:
    return x


def _masked_weights(weights: Any, mask: Any) -> Any:
    from jax import numpy as jnp

    return weights if mask is None else jnp.where(mask, weights, 0.0)


def _normalised_weights(logs: Any, mask: Any, sink: float) -> Any:
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


def _traceable_activation(sigma: Callable[[Any], Any], of: str) -> Callable[[Any], Any]:
    """sigma itself if JAX can trace it, or the JAX function of the same name for a NumPy or SciPy
    ufunc; raises for any other.
    """
    needs("jax", f"{of} of this predictor")
    import jax
    from jax import numpy as jnp
    from jax.scipy import special

    if isinstance(sigma, np.ufunc):
        sigma = getattr(jnp, sigma.__name__, getattr(special, sigma.__name__, sigma))
    try:
        with computed_x64():
            jax.eval_shape(jax.grad(lambda x: sigma(x).sum()), jnp.zeros(2))
    except Exception as error:
        raise AttnscopeError(
            f"sigma of {of} must be a function that JAX can differentiate, got "
            f"{type(error).__name__} from it; try jax.numpy.tanh."
        ) from error
    return sigma
