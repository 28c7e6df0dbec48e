"""Attention predictors with one query-key direction k and one value direction v: T(X) = sum_l
weight_l X_l.v.

notation: lam = inverse temperature, u_l = X_l.k.

    Normalised   weight_l = h(lam u_l)/(sink + sum_m h(lam u_m)), h > 0:  Softmax: h = exp, sink 0;
        SoftmaxOne: h = exp, sink 1;
                    SoftplusAttention: h(x) = log(1 + e^x), sink 0
    Componentwise   weight_l = sigma(lam u_l);  Erf: sigma = erf;  LinearAttention: sigma(x) =
        offset + x

A predictor is a small frozen value: it holds the inverse temperature, not k and v, so that one
object serves `predict` (with vectors), `risk` (with overlaps) and `train`. Masked tokens have
weight 0. FullAttention, the layer these come from, is in full_attention.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from scipy.special import erf, softmax

from attnscope.deprecated import OLD_NAME, OldNames, accept_old_keyword_of
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import array_of, refuse_lost
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.predictors.inverse_temperature import (
    InverseTemperature,
    checked_inverse_temperature,
)

__all__ = [
    "Componentwise",
    "Erf",
    "Heads",
    "LinearAttention",
    "Normalised",
    "Predictor",
    "Softmax",
    "SoftmaxOne",
    "SoftplusAttention",
    "has_one_head",
    "is_componentwise",
    "is_normalised",
]


@dataclass(frozen=True)
class Predictor(OldNames):
    """Base of the predictors: an inverse temperature and a map from scores lam u (n, L) to weights.

    Class attributes tell the formulas what kind of predictor this is; your own predictor sets its
    own:

        one_head        one key and one value; False for several heads (Heads)
        componentwise   weight_l is a function of score l alone, `activation`
        normalised      weight_l = h/(sink + sum h), with `log_activation` and `sink`
        exponential     weight_l = e^score_l/sum_m e^score_m
        any_length      sequences may have any number of tokens
    """

    one_head: ClassVar[bool] = True
    componentwise: ClassVar[bool] = False
    normalised: ClassVar[bool] = False
    exponential: ClassVar[bool] = False
    any_length: ClassVar[bool] = True

    inverse_temperature: InverseTemperature

    def __new__(cls, *given: Any, **named: Any) -> Self:
        if OLD_NAME in named:
            accept_old_keyword_of(cls)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        lam = self.inverse_temperature
        if type(lam) is not float or not 0.0 <= lam <= check.LARGEST:
            lam = checked_inverse_temperature(lam, type(self).__name__)
            object.__setattr__(self, "inverse_temperature", lam)

    @property
    def odd(self) -> bool:
        """Whether (k, v) and (-k, -v) are the same predictor."""
        return False

    def weights(self, scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Weights (n, L) of tokens with the given scores; masked ones get 0."""
        raise NotImplementedError


@dataclass(frozen=True)
class Normalised(Predictor):
    """h(lam X_l.k)/(sink + sum_m h(lam X_m.k)) for a positive function h,
    given by its logarithm.
    """

    normalised: ClassVar[bool] = True

    @property
    def sink(self) -> float:
        """Weight of an extra token of value 0 in the denominator: 0 or 1."""
        return 0.0

    def log_activation(self, x: np.ndarray) -> np.ndarray:
        """log h(x), elementwise."""
        raise NotImplementedError

    def weights(self, scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        scores = score_array(scores, self)
        logs = self.log_activation(scores)
        if mask is not None:
            logs = np.where(mask, logs, -np.inf)
        if self.sink:
            logs = np.concatenate([logs, np.zeros((*logs.shape[:-1], 1))], axis=-1)
        return softmax(logs, axis=-1)[..., : scores.shape[-1]]


@dataclass(frozen=True)
class Softmax(Normalised):
    """softmax_l(lam X_l.k): standard attention with one query.

    Args:
        inverse_temperature: lam >= 0, which multiplies the scores; or, for training, a function of
            the step.

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> round(at.risk(task, at.Softmax(0.5), at.Overlaps.oracle()).value, 4)
    0.0001
    >>> at.attention_weights(at.Softmax(1.0), np.array([1.0]), np.array([[[0.0], [np.log(3.0)]]]))
    array([[0.25, 0.75]])
    """

    exponential: ClassVar[bool] = True

    def log_activation(self, x: np.ndarray) -> np.ndarray:
        return x


@dataclass(frozen=True)
class SoftmaxOne(Normalised):
    """e^{lam X_l.k}/(1 + sum_m e^{lam X_m.k}): softmax that may attend to nothing.

    Args:
        inverse_temperature: lam >= 0, which multiplies the scores; or, for training, a function of
            the step.

    >>> SoftmaxOne(1.0).weights(np.zeros((1, 3)))
    array([[0.25, 0.25, 0.25]])
    """

    @property
    def sink(self) -> float:
        return 1.0

    def log_activation(self, x: np.ndarray) -> np.ndarray:
        return x


@dataclass(frozen=True)
class SoftplusAttention(Normalised):
    """softplus(lam X_l.k)/sum_m softplus(lam X_m.k), softplus(x) = log(1 + e^x): normalised, with
    linear growth.

    Args:
        inverse_temperature: lam >= 0, which multiplies the scores; or, for training, a function of
            the step.

    >>> SoftplusAttention(1.0).weights(np.array([[0.0, np.log(3.0)]]))  # log 2 : log 4
    array([[0.33333333, 0.66666667]])
    """

    def log_activation(self, x: np.ndarray) -> np.ndarray:
        x = score_array(x, self)
        # softplus(x) = e^x (1 - e^x/2 + ...) is e^x to rounding below -37
        return np.where(x < -37, x, np.log(np.logaddexp(0, np.maximum(x, -37))))


@dataclass(frozen=True)
class Componentwise(Predictor):
    """sigma(lam X_l.k), token by token, for any function sigma of arrays (NumPy or jax.numpy).

    Args:
        sigma: elementwise function; `jax.numpy` functions are evaluated in float64.
        inverse_temperature: lam.
        kinks: the points x at which sigma or its derivative jumps, as (0.0,) for a ReLU: exact
            risks split their integrals there.
        scale: the width in x of the narrowest feature of sigma, as 1e-5 for exp(-((x - 1) /
            1e-5)**2). Exact risks look for features down to 1e-3 standard deviations of the score
            by themselves; narrower ones need this hint.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> cubic = at.Componentwise(lambda x: x**3, 0.05)
    >>> round(at.risk(task, cubic, at.Overlaps.oracle()).value, 4)
    0.2087
    """

    componentwise: ClassVar[bool] = True
    # sigma is bounded, and varies only around the points of `turns`
    tame: ClassVar[bool] = False

    sigma: Callable[[Any], Any]
    kinks: Sequence[float] = ()
    scale: float | None = None

    def __init__(
        self,
        sigma: Callable[[Any], Any],
        inverse_temperature: InverseTemperature,
        kinks: Sequence[float] = (),
        scale: float | None = None,
    ) -> None:
        if not callable(sigma):
            raise bad(
                "sigma", "Componentwise", "an elementwise function", sigma, "jax.numpy.tanh"
            )
        if type(kinks) is not tuple or kinks:
            refuse_lost(kinks, "kinks", "Componentwise")
            if len(np.shape(kinks)) != 1 or len(kinks):
                kinks = check.array(kinks, "kinks", "Componentwise", (None,)).tolist()
            kinks = tuple(float(x) for x in kinks)
        object.__setattr__(self, "sigma", sigma)
        object.__setattr__(self, "inverse_temperature", inverse_temperature)
        object.__setattr__(self, "kinks", kinks)
        finest = (
            None
            if scale is None
            else check.real(scale, "scale", "Componentwise", 0, strict=True)
        )
        object.__setattr__(self, "scale", finest)
        self.__post_init__()

    def turns(self) -> list[tuple[float, float]]:
        """(point, scale) pairs in x around which sigma varies; quadratures refine there."""
        return [(0.0, 1.0), *((x, 1.0) for x in self.kinks)]

    @property
    def odd(self) -> bool:
        """Whether sigma(-x) = -sigma(x), judged at three points."""
        x = np.array([0.3, 1.0, 2.5])
        return bool(np.allclose(self.activation(-x), -self.activation(x), rtol=1e-12, atol=0))

    def activation(self, x: np.ndarray) -> np.ndarray:
        """sigma(x), checked: same shape, finite, float64."""
        x = score_array(x, self)
        out = sigma_values(self.sigma, x)
        if out.shape != x.shape or not np.isfinite(out).all():
            got = (
                f"shape {out.shape} for {x.shape}"
                if out.shape != x.shape
                else f"NaN or infinity for x in [{x.min():.3g}, {x.max():.3g}]"
            )
            raise bad(
                "sigma",
                type(self).__name__,
                "an elementwise function with finite values",
                got,
                "jax.numpy.tanh",
            )
        return out

    def weights(self, scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        out = self.activation(scores)
        return out if mask is None else np.where(mask, out, 0.0)


@dataclass(frozen=True, init=False)
class Erf(Componentwise):
    """erf(lam X_l.k): the predictor of the single-location paper.

    Args:
        inverse_temperature: lam >= 0, which multiplies the scores; or, for training, a function of
            the step.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> round(at.risk(task, at.Erf(0.1), at.Overlaps.oracle()).value, 4)
    0.1135
    """

    tame: ClassVar[bool] = True

    def __init__(self, inverse_temperature: InverseTemperature) -> None:
        super().__init__(erf, inverse_temperature)

    def __repr__(self) -> str:
        return f"Erf({self.inverse_temperature!r})"


@dataclass(frozen=True)
class _Affine:
    offset: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.offset + x


@dataclass(frozen=True, init=False)
class LinearAttention(Componentwise):
    """offset + lam X_l.k: linear attention.

    Args:
        inverse_temperature: lam >= 0, which multiplies the scores; or, for training, a function of
            the step.
        offset: a constant added to the weight of every token.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> round(at.risk(task, at.LinearAttention(0.05), at.Overlaps.oracle()).value, 4)
    0.066
    """

    offset: float = 0.0

    def __init__(self, inverse_temperature: InverseTemperature, offset: float = 0.0) -> None:
        object.__setattr__(self, "offset", check.real(offset, "offset", "LinearAttention"))
        super().__init__(_Affine(self.offset), inverse_temperature)

    def __repr__(self) -> str:
        return f"LinearAttention({self.inverse_temperature!r}, offset={self.offset!r})"


def score_array(x: Any, predictor: Predictor) -> np.ndarray:
    """Scores as a NumPy array of numbers; the library's own loops pass one already."""
    if type(x) is np.ndarray and x.dtype.kind == "f":
        return x
    of = f"{type(predictor).__name__}.weights"
    a = array_of(x, "scores", of, "an array of numbers")
    if a.dtype.kind not in "iuf":
        raise bad("scores", of, "an array of numbers", f"dtype {a.dtype}")
    return a


def sigma_values(sigma: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Evaluate a user's function in float64, NumPy in and out;
    its own failures become one sentence.
    """
    try:
        if isinstance(sigma, np.ufunc) or getattr(sigma, "__module__", "").startswith(
            "attnscope"
        ):
            return np.asarray(sigma(x), dtype=np.float64)
        needs("jax", "an activation that is a function")
        with computed_x64():
            import jax.numpy as jnp

            padded = np.zeros(
                max(1024, 1 << (x.size - 1).bit_length())
            )  # few sizes: JAX compiles anew for every shape it meets
            padded[: x.size] = x.ravel()
            out = np.asarray(sigma(jnp.asarray(padded)), dtype=np.float64)
            return out[: x.size].reshape(x.shape) if out.shape == padded.shape else out
    except AttnscopeError:
        raise
    except Exception as error:
        raise AttnscopeError(
            "sigma of Componentwise must be an elementwise function of an array, got "
            f"{type(error).__name__}: "
            f"{str(error).splitlines()[0][:80] if str(error) else ''}; try jax.numpy.tanh."
        ) from error


class Heads(OldNames):
    """Base of predictors with several heads (heads.py):
    directions are K, V (H, d), weights (n, H, L).
    """

    one_head: ClassVar[bool] = False
    added: ClassVar[bool] = False  # the output is the sum over `heads` copies of `head`

    def attention(
        self, K: np.ndarray, tokens: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """Weights (n, H, L) for keys K (H, d); what `attention_weights` calls."""
        raise NotImplementedError

    def output(
        self, K: np.ndarray, V: np.ndarray, tokens: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """T(X), (n,); what `predict` calls."""
        raise NotImplementedError


def has_one_head(predictor: object) -> TypeGuard[Predictor]:
    """Whether this is a predictor with one key and one value, by its class attribute."""
    return getattr(type(predictor), "one_head", None) is True


def is_componentwise(predictor: object) -> TypeGuard[Componentwise]:
    """Whether its weights are computed token by token, by its class attribute."""
    return getattr(type(predictor), "componentwise", None) is True


def is_normalised(predictor: object) -> TypeGuard[Normalised]:
    """Whether its weights are shares of a sum, by its class attribute."""
    return getattr(type(predictor), "normalised", None) is True
