"""The rows of this library in the route table (table.py): which formula serves which predictor on
which task.

SingleLocation: Erf and LinearAttention in closed form, any other Componentwise by one-dimensional
quadrature, Softmax by the two-dimensional rule of softmax_risk, other normalised weights by that of
normalised_risk. These risks do not depend on the position pmf, because the predictors treat all
positions alike.

RandomLength averages the risks and gradients of its lengths; CorrelatedBackground is its whitened
task where that is a SingleLocation; MultiLocation and MaxLocation are exact at the oracle overlaps
(several_tokens_risk).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.predictors.attention import (
    Componentwise,
    Erf,
    LinearAttention,
    Normalised,
    Predictor,
    Softmax,
)
from attnscope.predictors.heads import MultiHead
from attnscope.tasks.base import PlantedTask
from attnscope.tasks.planted.correlated_background import CorrelatedBackground
from attnscope.tasks.planted.max_location import MaxLocation
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.tasks.planted.multi_location import MultiLocation
from attnscope.tasks.planted.random_length import RandomLength
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law
from attnscope.theory.monte_carlo import monte_carlo_excess
from attnscope.theory.nodes.node_routes import NODE_ROUTE
from attnscope.theory.optima.optimal_sigma import OptimalSigma, optimal_sigma_log_excess
from attnscope.theory.optima.oracle_saddle import critical_inverse_temperature
from attnscope.theory.optima.swapped import swapped_overlaps
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risks.componentwise_gradient import (
    background_moments,
    componentwise_gradient,
)
from attnscope.theory.risks.componentwise_risk import background, componentwise_excess
from attnscope.theory.risks.distinct_heads import distinct_excess
from attnscope.theory.risks.erf_risk import (
    erf_excess_and_error,
    erf_excess_gradient,
    erf_excess_jax,
)
from attnscope.theory.risks.linear_risk import (
    linear_excess,
    linear_excess_and_error,
    linear_excess_gradient,
)
from attnscope.theory.risks.normalised_gradient import normalised_gradient
from attnscope.theory.risks.normalised_risk import normalised_excess
from attnscope.theory.risks.several_tokens_risk import head_risk
from attnscope.theory.routes.table import Excess, Route, add_route, needed, pointwise

__all__: list[str] = []


def _excess_of_rows(rows: np.ndarray, o: Overlaps, method: str) -> Excess:
    """Rows (points, 2) of excess and error, or (points, 3) of excess, log excess and error."""
    columns = rows.T.reshape(-1, *o.kappa.shape)
    return Excess(columns[0], columns[-1], method, columns[1] if len(columns) == 3 else None)


def _gradient_of_points(
    function: Callable[[tuple[float, ...]], np.ndarray], o: Overlaps
) -> np.ndarray:
    return pointwise(function, o).T.reshape(6, *o.kappa.shape)


# -- SingleLocation --------------------------------------------------------------------------------


def _sampled_excess(
    task: SingleLocation, predictor: Predictor, o: Overlaps,
    lam: float, samples: int, seed: int,
) -> Excess:  # fmt: skip
    law = Law.of(task)
    points = list(zip(*(x.ravel() for x in o)))
    rows = [
        monte_carlo_excess(predictor, point, lam, law, samples=samples, seed=[seed, i])
        for i, point in enumerate(points)
    ]
    return _excess_of_rows(np.array(rows), o, "monte-carlo")


def _erf_excess(
    task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float
) -> Excess:
    return Excess(*erf_excess_and_error(o, lam, Law.of(task)), "closed form")


def _erf_gradient(task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float) -> Any:
    return erf_excess_gradient(o, lam, Law.of(task))


def _erf_jax(task: SingleLocation, predictor: Predictor) -> Callable[[Overlaps, Any], Any]:
    return lambda o, lam: erf_excess_jax(o, lam, Law.of(task))


def _linear_excess(task: SingleLocation, predictor: Any, o: Overlaps, lam: float) -> Excess:
    return Excess(
        *linear_excess_and_error(o, lam, predictor.offset, Law.of(task)), "closed form"
    )


def _linear_gradient(task: SingleLocation, predictor: Any, o: Overlaps, lam: float) -> Any:
    return linear_excess_gradient(o, lam, predictor.offset, Law.of(task))


def _linear_jax(task: SingleLocation, predictor: Any) -> Callable[[Overlaps, Any], Any]:
    from jax import numpy as jnp

    return lambda o, lam: linear_excess(o, lam, predictor.offset, Law.of(task), xp=jnp)


def _componentwise_excess(
    task: SingleLocation, predictor: Any, o: Overlaps, lam: float
) -> Excess:
    law = Law.of(task)
    outside = background(predictor, lam) if law.length > 1 else None
    excess = partial(componentwise_excess, predictor, lam=lam, law=law, outside=outside)
    rows = pointwise(excess, o)
    return _excess_of_rows(rows, o, "1-D quadrature")


def _componentwise_gradient(
    task: SingleLocation, predictor: Any, o: Overlaps, lam: float
) -> Any:
    law = Law.of(task)
    outside = background_moments(predictor, lam)
    gradient = partial(componentwise_gradient, predictor, lam=lam, law=law, outside=outside)
    return _gradient_of_points(gradient, o)


def _optimal_sigma_excess(
    task: SingleLocation, predictor: Any, o: Overlaps, lam: float
) -> Excess:
    sigma = predictor.sigma
    own = (sigma.gamma, sigma.signal, sigma.length) == (task.gamma, task.signal, task.length)
    if not (
        own and task.alignment == 0 and o.kappa.ndim == 0 and tuple(o) == Overlaps.oracle()
    ):
        return _componentwise_excess(task, predictor, o, lam)
    log_excess, error = optimal_sigma_log_excess(task.gamma, task.signal, task.length)
    return Excess(
        np.exp(log_excess), error * np.exp(log_excess), "log-space quadrature", log_excess
    )


def _softmax_excess(
    task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float
) -> Excess:
    # imported here, because both load numba
    from attnscope.theory.risks.softmax_profile import PROFILE_POINTS, many_excesses
    from attnscope.theory.risks.softmax_risk import softmax_excess

    law = Law.of(task)
    rows = None
    if o.kappa.size >= PROFILE_POINTS:
        rows = many_excesses(np.stack([np.ravel(x) for x in o], axis=1), lam, law)
    if rows is None:
        rows = pointwise(partial(softmax_excess, inverse_temperature=lam, law=law), o)
    return _excess_of_rows(rows, o, "2-D quadrature")


def _prepared_softmax_gradient(task: SingleLocation, predictor: Predictor, lam: float) -> Any:
    from attnscope.theory.risks.softmax_profile import evaluate, profile

    law = Law.of(task)
    found = profile(float(lam), law)
    if found is None:
        return None
    return lambda o: evaluate(found, np.asarray(o).T, lam, law)[:, 2:].T


def _softmax_gradient(
    task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float
) -> Any:
    from attnscope.theory.risks.softmax_risk import softmax_excess_gradient

    law = Law.of(task)
    return _gradient_of_points(lambda point: softmax_excess_gradient(point, lam, law), o)


def _softmax_jax(
    task: SingleLocation, predictor: Predictor
) -> Callable[[Overlaps, Any], Any]:
    from attnscope.theory.risks.softmax_risk import softmax_excess_jax

    return lambda o, lam: softmax_excess_jax(o, lam, Law.of(task))


def _normalised_excess(
    task: SingleLocation, predictor: Any, o: Overlaps, lam: float
) -> Excess:
    law = Law.of(task)
    rows = pointwise(lambda point: normalised_excess(predictor, point, lam, law), o)
    return _excess_of_rows(rows, o, "2-D quadrature")


def _normalised_gradient(
    task: SingleLocation, predictor: Any, o: Overlaps, lam: float
) -> Any:
    law = Law.of(task)
    return _gradient_of_points(
        lambda point: normalised_gradient(predictor, point, lam, law), o
    )


def _erf_swapped(task: SingleLocation, lam: float) -> Overlaps:
    return swapped_overlaps(task, lam)


def _erf_critical(task: SingleLocation) -> float:
    return critical_inverse_temperature(task)


_ERF_ROUTE = Route(
    _erf_excess,
    _erf_gradient,
    _erf_jax,
    True,
    _sampled_excess,
    swapped=_erf_swapped,
    critical=_erf_critical,
)
add_route(SingleLocation, Erf, _ERF_ROUTE)
add_route(
    SingleLocation,
    LinearAttention,
    Route(_linear_excess, _linear_gradient, _linear_jax, True, _sampled_excess),
)
add_route(
    SingleLocation,
    OptimalSigma,
    Route(_optimal_sigma_excess, _componentwise_gradient, sampled=_sampled_excess),
)
add_route(
    SingleLocation,
    Componentwise,
    Route(_componentwise_excess, _componentwise_gradient, sampled=_sampled_excess),
)
add_route(
    SingleLocation,
    Softmax,
    Route(
        _softmax_excess,
        _softmax_gradient,
        _softmax_jax,
        sampled=_sampled_excess,
        prepared=_prepared_softmax_gradient,
    ),
)
add_route(
    SingleLocation,
    Normalised,
    Route(_normalised_excess, _normalised_gradient, sampled=_sampled_excess),
)


# -- other tasks -----------------------------------------------------------------------------------


def _length_averaged_excess(
    task: RandomLength, predictor: Predictor, o: Overlaps, lam: float
) -> Excess:
    def at_length(fixed: SingleLocation) -> Estimate:
        part = needed("excess", fixed, predictor, "risk", "method='monte-carlo'")(
            fixed, predictor, o, lam
        )
        return estimate(part.excess, part.error, part.method, 0.0, part.log_excess)

    mean = task.average(at_length)
    return Excess(
        np.asarray(mean.excess), mean.error, mean.method, np.asarray(mean.log_excess)
    )


def _length_averaged_gradient(
    task: RandomLength, predictor: Predictor, o: Overlaps, lam: float
) -> Any:
    of = "risk_gradient"
    parts = [
        needed("gradient", fixed, predictor, of, "risk")(fixed, predictor, o, lam)
        for fixed in task.fixed
    ]
    return sum(q * np.asarray(part) for q, part in zip(task.probs, parts))


def _whitened_excess(
    task: CorrelatedBackground, predictor: Predictor, o: Overlaps, lam: float
) -> Excess:
    white = task.whiten()
    inner = needed("excess", white.task, predictor, "risk", "method='monte-carlo'")(
        white.task, predictor, o, lam
    )
    gain = white.scale**2
    log_excess = None if inner.log_excess is None else inner.log_excess + np.log(gain)
    return Excess(
        gain * inner.excess,
        gain * np.asarray(inner.error),
        f"whitening, {inner.method}",
        log_excess,
    )


def _whitened_gradient(
    task: CorrelatedBackground, predictor: Predictor, o: Overlaps, lam: float
) -> Any:
    white = task.whiten()
    inner = needed("gradient", white.task, predictor, "risk_gradient", "risk")
    return white.scale**2 * np.asarray(inner(white.task, predictor, o, lam))


def _missing_whitening(task: CorrelatedBackground, predictor: Predictor, o: Overlaps) -> str:
    plain = task.informative == "scaled" and task.degrees_of_freedom is None
    return "" if plain else "a Gaussian background with informative='scaled'"


def _oracle_head_excess(task: Any, predictor: Predictor, o: Overlaps, lam: float) -> Excess:
    found = head_risk(task, predictor)
    return Excess(
        np.asarray(found.excess), found.error, found.method, np.asarray(found.log_excess)
    )


def _missing_oracle(task: Any, predictor: Predictor, o: Overlaps) -> str:
    oracle = np.ndim(o.kappa) == 0 and tuple(float(x) for x in o) == Overlaps.oracle()
    return "" if oracle else "Overlaps.oracle()"


add_route(RandomLength, Predictor, Route(_length_averaged_excess, _length_averaged_gradient))
add_route(
    CorrelatedBackground,
    Predictor,
    Route(_whitened_excess, _whitened_gradient, missing=_missing_whitening),
)
for _task in (MultiLocation, MaxLocation):
    add_route(_task, Componentwise, Route(_oracle_head_excess, missing=_missing_oracle))
    add_route(_task, Normalised, Route(_oracle_head_excess, missing=_missing_oracle))


# -- several heads ---------------------------------------------------------------------------------


def _missing_distinct(task: MultiDirection, predictor: MultiHead, o: object) -> str:
    alone = task.positions == "distinct" or task.directions == 1
    return "" if alone else "positions='distinct'"


add_route(SingleLocation, MultiHead, Route(distinct_excess))
add_route(MultiDirection, MultiHead, Route(distinct_excess, missing=_missing_distinct))


# -- any planted task ------------------------------------------------------------------------------

add_route(PlantedTask, object, NODE_ROUTE)
