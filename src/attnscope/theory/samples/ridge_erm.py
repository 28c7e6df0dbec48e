"""The learning curve of attention fitted by ridge: key and value together, n = alpha d bags.

The equations are those of the replica-symmetric ansatz (ridge_solver.py, ridge_channel.py): an
exact description of the minimum as d -> inf if the minimum is, in effect, one. The fit is not
convex. Two numbers computed from the solution itself show where it cannot be trusted:

    stability    spectral radius of the replicon matrix; the ansatz contradicts itself from 1 on
    two_minima   share of bags whose own part of the problem has two minima

At stability below 0.9 and two_minima below 1 % every simulation agreed; elsewhere some did not (by
15 to 40 % where the data can nearly be interpolated). There the number is refused, unless
unstable="return" requests it. The overlaps k.v* and v.k* are zero in the ansatz: role-swapped
minima, in which the key reads v*, are outside.

The error of the risk is that of the nodes (a standard error, ridge_solver.py), not of the ansatz.
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.estimate import estimate
from attnscope.theory.samples.curve import LEARNING_CURVE_NAME, LearningCurve
from attnscope.theory.samples.ridge_setting import (
    Absorbed,
    Kind,
    Spike,
    kind_of,
    ridges,
    spike_of,
)
from attnscope.theory.samples.ridge_solver import (
    Saddle,
    Setting,
    coarse_saddle,
    saddle_point,
)

__all__ = ["LARGEST_STABILITY", "LARGEST_TWO_MINIMA_SHARE", "erm_curve", "fits_of", "trusted"]


# beyond these limits simulations may disagree (module docstring)
LARGEST_STABILITY = 0.9
LARGEST_TWO_MINIMA_SHARE = 0.01
CLEARLY_UNSTABLE_FACTOR = 2.0  # times the limits: the coarse solution is enough to refuse
# range of alpha in which the equations were tested
SMALLEST_FITTED_ALPHA = 0.02
LARGEST_FITTED_ALPHA = 100.0
REPLICA_METHOD = "replica symmetry, standard error of the nodes"


def erm_curve(
    task: object,
    alpha: np.ndarray,
    predictor: object,
    ridge: object,
    unstable: str = "refuse",
) -> LearningCurve:
    """Ridge ERM at each of the alphas (n,); arguments as in learning_curve.

    >>> import numpy as np
    >>> from attnscope.predictors.attention import Softmax
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation.spiked(dim=1000, length=2, strength=5.0, noise=0.1**0.5)
    >>> curve = erm_curve(task, np.array([2.0]), Softmax(1.0), 0.5)
    >>> curve.risk.excess.round(4), curve.stability.round(2)
    (array([0.4211]), array([0.25]))
    """
    kind = kind_of(predictor, LEARNING_CURVE_NAME)
    units = kind.units(predictor, LEARNING_CURVE_NAME)
    spike = spike_of(task, LEARNING_CURVE_NAME)
    l_k, l_v = ridges(ridge, LEARNING_CURVE_NAME)
    if unstable not in ("refuse", "return"):
        raise bad("unstable", LEARNING_CURVE_NAME, "'refuse' or 'return'", unstable)
    check_reach(kind, spike, alpha, LEARNING_CURVE_NAME)
    penalty = l_k / units.key_scale**2, l_v / units.value_scale**2
    fits = fits_of(kind, spike, alpha, penalty, unstable == "refuse")
    return _fitted_curve(spike, alpha, units, fits)


def check_reach(kind: Kind, spike: Spike, alpha: np.ndarray, of: str) -> None:
    """Raise where bags are too long or alpha is outside the tested range."""
    if spike.length > kind.longest:
        must = f"at most {kind.longest} where this predictor is fitted"
        raise bad("length", of, must, spike.length, 'key="oracle", or the Bayes curve')
    for a in alpha:
        if not SMALLEST_FITTED_ALPHA <= a <= LARGEST_FITTED_ALPHA:
            must = f"from {SMALLEST_FITTED_ALPHA:g} to {LARGEST_FITTED_ALPHA:g} where key and value are fitted"
            raise bad("alpha", of, must, float(a), "alpha=2.0")


def trusted(fit: Saddle, margin: float = 1.0) -> bool:
    """Whether replica symmetry holds there, judged by its own two numbers; `margin` multiplies the
    limits, and differs from 1 where the numbers are rough.
    """
    within = fit.stability < margin * LARGEST_STABILITY
    return within and fit.two_minima < margin * LARGEST_TWO_MINIMA_SHARE


def fits_of(
    kind: Kind,
    spike: Spike,
    alpha: np.ndarray,
    penalty: tuple[float, float],
    refuse: bool,
) -> list[Saddle]:
    """The saddle point of each alpha; `refuse` raises where it is not trusted."""
    coarse = kind.channel(*spike, True)
    fine = kind.channel(*spike, False)
    fits = []
    for a in alpha:
        setting = Setting(float(a), spike.strength, *penalty)
        first = coarse_saddle(setting, coarse)
        if first is None:
            raise AttnscopeError(
                f"the equations of {LEARNING_CURVE_NAME} must have a solution that Newton's method finds, got "
                f"none at alpha {a:g}; try a larger ridge."
            )
        start, fit = first
        # far beyond the limits the few nodes of the first solution are enough to refuse
        if not refuse or trusted(fit, CLEARLY_UNSTABLE_FACTOR):
            fit = saddle_point(setting, coarse, fine, start)
        if refuse and not trusted(fit):
            raise AttnscopeError(
                f"stability of {LEARNING_CURVE_NAME} must be below {LARGEST_STABILITY:g} and two_minima below "
                f"{100 * LARGEST_TWO_MINIMA_SHARE:g} % for replica symmetry to hold, got "
                f"{fit.stability:.2f} and {100 * fit.two_minima:.1f} % at alpha {a:g}; try a "
                'larger ridge, or unstable="return" for a number that may be wrong.'
            )
        fits.append(fit)
    return fits


def _fitted_curve(
    spike: Spike, alpha: np.ndarray, units: Absorbed, fits: list[Saddle]
) -> LearningCurve:
    """The fits in the predictor's own units."""
    several = lambda name: np.array([getattr(fit, name) for fit in fits])
    order = np.array([fit.order for fit in fits])  # columns of Order
    excess = several("risk")
    risk = estimate(excess, several("risk_error"), REPLICA_METHOD, spike.variance**0.5)
    roots = np.sqrt(order[:, [1, 4]])
    scales = np.array(units)
    overlaps = order[:, [0, 3]] * roots / scales
    return LearningCurve(
        alpha=alpha,
        risk=risk,
        key_overlap=overlaps[:, 0],
        value_overlap=overlaps[:, 1],
        branch="ridge",
        overlap_error=several("overlap_error") / np.abs(scales).min(),
        norms=(order[:, 1] / scales[0] ** 2, order[:, 4] / scales[1] ** 2),
        training_error=several("training"),
        stability=several("stability"),
        two_minima=several("two_minima"),
    )
