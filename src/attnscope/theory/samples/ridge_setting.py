"""The arguments of a ridge fit, checked: the task, the kind of attention and the penalty.

notation: tau = inverse temperature, b = offset, k~, v~ the key and value of the user's predictor,
l~_k, l~_v its ridges; k, v, l_k, l_v those of the equations, which contain no inverse temperature.

The fit minimises over k~, v~

    sum_i (y_i - f_i)^2/2 + (d/2) (l~_k |k~|^2 + l~_v |v~|^2).

The length of k~ is free, so the inverse temperature is only a unit of it:

    Softmax(tau)              softmax(tau X.k~) X.v~:       k = tau k~,       v = v~
    LinearAttention(tau, b)   (b + tau X.k~) X.v~
                              = (1 + X.k) X.v:              k = (tau/b) k~,   v = b v~

and l = l~/scale^2 for k = scale k~: the same ridge on k~ at twice the inverse temperature is a
quarter of it on k. With b = 0 the fit has the other solution k = v = 0, and is not in this form.

Positions do not enter: both kinds treat all tokens alike, so position probabilities may be any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import LinearAttention, Softmax
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import checked_law, perpendicular
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.ridge_channel import Channel, LinearChannel, SoftmaxChannel

__all__ = ["Absorbed", "Kind", "Spike", "absorbed", "kind_of", "ridges", "spike_of"]

# R_B = 1e-12: the location is known and the equations are stiff
LARGEST_FITTED_STRENGTH = 100.0
SMALLEST_NOISE_VARIANCE = 1e-3  # of the labels: the equations were tested from here on
# in which Newton's method was tested: beyond, the fit interpolates or is 0
RIDGE_RANGE = (1e-3, 1e3)
EXAMPLE_SPIKED_TASK = "SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.3)"


class Spike(NamedTuple):
    """nu, D, L of a task."""

    strength: float
    variance: float
    length: int


class Absorbed(NamedTuple):
    """k = key_scale k~, v = value_scale v~."""

    key_scale: float
    value_scale: float


class Kind(NamedTuple):
    """A kind of attention that can be fitted: its bag, its units, its longest bag, and the length
    of the key that is best at the truth, from (nu, L).
    """

    channel: Callable[[float, float, int, bool], Channel]
    units: Callable[[Any, str], Absorbed]
    longest: int
    oracle: Callable[[float, int], float]
    normalised: bool


def _softmax_units(predictor: Softmax, of: str) -> Absorbed:
    tau = constant_inverse_temperature(predictor, of)
    if tau == 0:
        raise bad(
            "inverse_temperature",
            of,
            "> 0 (at 0 there is no key to fit)",
            tau,
            "Softmax(1.0)",
        )
    return Absorbed(tau, 1.0)


def _linear_units(predictor: LinearAttention, of: str) -> Absorbed:
    tau = constant_inverse_temperature(predictor, of)
    if tau == 0 or predictor.offset == 0:
        raise bad(
            "predictor",
            of,
            "linear attention with inverse temperature > 0 and an offset (without one, key and "
            "value 0 is a solution)",
            predictor,
            "LinearAttention(1.0, offset=1.0)",
        )
    return Absorbed(tau / predictor.offset, predictor.offset)


def _posterior_key(strength: float, length: int) -> float:
    return strength**0.5


def _linear_key(strength: float, length: int) -> float:
    return strength**0.5 * (length - 1) / length  # linear_optimum.py, gamma = 1


# longest: softmax has 2L - 1 dimensions and L + 1 starts a bag; linear attention 7 dimensions
FITTED_KINDS = {
    Softmax: Kind(SoftmaxChannel, _softmax_units, 10, _posterior_key, True),
    LinearAttention: Kind(LinearChannel, _linear_units, 1000, _linear_key, False),
}


def kind_of(predictor: object, of: str) -> Kind:
    """The kind of this predictor, or one sentence."""
    kind = FITTED_KINDS.get(type(predictor))
    if kind is None:
        got = predictor.__name__ if isinstance(predictor, type) else predictor
        hint = "Softmax(1.0) or LinearAttention(1.0, offset=1.0)"
        raise bad("predictor", of, "a Softmax or LinearAttention", got, hint)
    return kind


def absorbed(predictor: object, of: str) -> Absorbed:
    """The units in which its inverse temperature is gone."""
    return kind_of(predictor, of).units(predictor, of)


def spike_of(task: object, of: str, noisy: bool = True) -> Spike:
    """nu, D, L of a task with an O(1) spike and two tokens or more, or one sentence.

    noisy: label noise is needed (the fit of the key and the value together).
    """
    known = checked_law(task, SingleLocation, of, EXAMPLE_SPIKED_TASK)
    perpendicular(known, of)
    if known.length < 2:
        got = "1: with one token there is no location to find, only ridge regression"
        raise bad("length", of, "at least 2", got, "length=2")
    if known.gamma != 1:
        got = f"gamma = {known.gamma:g}: a token's length tells the location as dim grows"
        raise bad(
            "task", of, "one with gamma = 1 and a spike of order 1", got, EXAMPLE_SPIKED_TASK
        )
    strength = known.signal**2
    if not 0 < strength <= LARGEST_FITTED_STRENGTH:
        why = "there is no key to learn" if strength == 0 else "the location is known"
        must = f"> 0 and at most {LARGEST_FITTED_STRENGTH:g}"
        raise bad("strength", of, must, f"{strength:g}: {why}", "strength=5.0")
    if noisy and known.noise**2 < SMALLEST_NOISE_VARIANCE:
        must = f"such that noise**2 is at least {SMALLEST_NOISE_VARIANCE:g}, where key and value are fitted"
        raise bad("noise", of, must, known.noise, 'noise=0.1, or key="oracle"')
    return Spike(strength, known.noise**2, known.length)


def ridges(ridge: object, of: str, both: bool = True) -> tuple[float, float]:
    """(of the key, of the value), from one number or a pair; both=False: of the value alone."""
    hint = "ridge=0.5 or ridge=(0.1, 0.3)" if both else "ridge=0.1"
    if ridge is None:
        must = "a number > 0" + (" or a pair (key, value)" if both else "")
        raise bad("ridge", of, must + " where a predictor is fitted", None, hint)
    parts = list(ridge) if both and isinstance(ridge, (tuple, list)) else [ridge, ridge]
    if len(parts) != 2:
        raise bad("ridge", of, "one number or a pair (key, value)", ridge, hint)
    l_k, l_v = (check.real(part, "ridge", of, *RIDGE_RANGE, hint=hint) for part in parts)
    return l_k, l_v
