"""Local rates of projected gradient descent: predicted from the Hessian, measured from a
trajectory.

notation: alpha = step size, mu = eigenvalues of the Riemannian Hessian of the risk on the two
spheres.

Near a minimum the distance along an eigenvector is multiplied by 1 - alpha mu per step, so
generically

    distance to the limit ~ rho^t,   excess - its limit ~ rho^(2t),   rho = max |1 - alpha mu|

over the directions with mu != 0 (zero modes are rotations that leave the risk unchanged). On the
manifold {eta = theta = rho = 0} only its own directions count: k and v turn towards k* and v*
through the rest of R^d, with mu_k = -R_kappa and mu_v = -R_nu.

Near the degenerate saddle (k, v, k*, v* mutually orthogonal) the overlaps' components along the
unstable eigenvectors grow by 1 + alpha |mu| per step; the first to reach `level` ends the escape.
First order needs s |theta| << 1, because the risk has a term of order s^2 theta^2 kappa^2; a random
start has s |theta| about .7 in any dimension, so from there the prediction is an estimate: at d =
400, lam = .1 the measured times are .7 to 1.5 times it, 1.06 in the median.

Exact to first order: Hessians from theory/optima/landscape.py (key and value orthogonal). Measured
rates are slopes of log(excess - limit) against the step, over the part of the log that is close to
the limit but above rounding; their error is the slope's drift within it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.dynamics.overlap_runs import OverlapRuns
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Predictor
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import StationaryPoint, stationary_points
from attnscope.theory.optima.sphere_hessian import overlap_derivatives
from attnscope.theory.overlaps import Overlaps, as_arrays, checked_overlaps
from attnscope.theory.risk import risk_gradient, unchecked_gradient

__all__ = [
    "EscapeTime",
    "MeasuredRate",
    "PredictedRate",
    "escape_time",
    "predicted_rate",
]

# eigenvalues below this fraction of the largest are zero modes (as in theory/optima/landscape.py)
ZERO_MODE_SHARE = 1e-9
# a gap below this fraction of the first one counts as close to the limit: quadratic terms are
# O(sqrt) of it, 1 %
CLOSE_GAP_SHARE = 1e-4
# ... and above this fraction of the risk as free of rounding (risks are good to 1e-14)
RISK_ROUNDING_SHARE = 1e-11
FEWEST_LOG_POINTS = 5  # log points in a fit
MANIFOLD_DISTANCE = 1e-9  # distance below which a run counts as on the manifold


class PredictedRate(NamedTuple):
    """eigenvalue: the mu that decides; contraction: rho per step; decay: -log(rho), of the
    distance; half of the excess' one.
    """

    limit: str
    eigenvalue: float
    contraction: float
    decay: float
    excess: float


class MeasuredRate(NamedTuple):
    """decay of the distance per step, per run in `runs`, with its error,
    beside the predicted one.
    """

    runs: np.ndarray
    decay: np.ndarray
    error: np.ndarray
    predicted: PredictedRate


class EscapeTime(NamedTuple):
    """Steps until a run has left the saddle, measured (of the runs in `runs`)
    and predicted to first order.
    """

    runs: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray


def predicted_rate(
    task: SingleLocation,
    predictor: Predictor,
    step_size: float,
    limit: str = "oracle",
    manifold: bool = False,
) -> PredictedRate:
    """Linear rate at which training approaches a minimum.

    Args:
        task: a SingleLocation with key and value orthogonal.
        predictor: one head, at an inverse temperature.
        step_size: alpha > 0.
        limit: which minimum, "oracle" or "swapped".
        manifold: for runs that stay on it.

    >>> from attnscope.predictors.attention import Erf
    >>> rate = predicted_rate(SingleLocation(dim=400, length=10), Erf(0.1), step_size=4e-3)
    >>> round(rate.eigenvalue, 5), round(1 / rate.decay)
    (0.01069, 23379)
    """
    of = "predicted_rate"
    alpha = check.real(step_size, "step_size", of, 0, strict=True)
    point = _stationary_point(task, predictor, limit, of)
    if manifold and limit == "oracle":
        mu = _manifold_eigenvalues(task, predictor)
    else:
        mu = point.eigenvalues
    mu = mu[np.abs(mu) > ZERO_MODE_SHARE * np.abs(point.eigenvalues).max()]
    if (mu < 0).any():
        raise bad(
            "limit",
            of,
            "a minimum",
            f"the {limit} point, a saddle at this inverse temperature",
            "a lower inverse temperature",
        )
    slowest = float(mu[np.argmax(np.abs(1 - alpha * mu))])
    contraction = abs(1 - alpha * slowest)
    if contraction >= 1:
        got = f"{alpha:g}, which does not contract along the eigenvalue {slowest:.4g}"
        raise bad(
            "step_size", of, f"below 2 / {mu.max():.4g}", got, f"step_size={1 / mu.max():.2g}"
        )
    decay = -math.log1p(-alpha * slowest) if alpha * slowest < 1 else -math.log(contraction)
    return PredictedRate(limit, slowest, contraction, decay, float(point.risk.excess))


def measured_rate(run: OverlapRuns, limit: str) -> MeasuredRate:
    """See Trajectory.rate."""
    setup = run.setup
    of = "Trajectory.rate"
    if setup.batch_size is not None:
        raise bad(
            "run",
            of,
            "on the population gradient",
            f"SGD with batch_size={setup.batch_size}",
            "batch_size=None",
        )
    on_manifold = bool(run.distance.max() < MANIFOLD_DISTANCE)
    predicted = predicted_rate(
        setup.task, setup.predictor, setup.step_size, limit, on_manifold
    )
    fits = {
        int(i): _fit_decay(run.step, run.excess[i], predicted.excess)
        for i in np.flatnonzero(run.outcome == limit)
    }
    good = {i: fit for i, fit in fits.items() if fit is not None}
    if not good:
        got = f"{len(fits)} runs at the {limit} point, none with {FEWEST_LOG_POINTS} log points close to it"
        raise AttnscopeError(
            f"run of {of} must approach its limit, got {got}; try run.extend({int(run.step[-1])})."
        )
    decay, error = np.array(list(good.values())).T
    return MeasuredRate(np.array(list(good)), decay, error, predicted)


def _fit_decay(
    step: np.ndarray, excess: np.ndarray, limit: float
) -> tuple[float, float] | None:
    """(decay of the distance per step, its drift)
    from the stretch of log points that are close to the limit.
    """
    gap = excess - limit
    use = np.flatnonzero(
        (gap < CLOSE_GAP_SHARE * gap[0]) & (gap > RISK_ROUNDING_SHARE * max(limit, excess[0]))
    )
    # too few, or left and entered again
    if len(use) < FEWEST_LOG_POINTS or use[-1] - use[0] >= len(use):
        return None
    t = step[use].astype(np.float64)
    y = np.log(gap[use])
    half = len(use) // 2
    early, late = (
        -np.polyfit(t[part] - t[part].mean(), y[part], 1)[0] / 2
        for part in (slice(half + 1), slice(half, None))
    )
    return float(late), float(abs(late - early))


def escape_time(
    task: SingleLocation,
    predictor: Predictor,
    step_size: float,
    overlaps: Overlaps,
    level: float = 0.3,
) -> np.ndarray:
    """Predicted steps, per start, until the unstable part of the overlaps has grown to `level`; to
    first order, from small overlaps.

    Args:
        task: a SingleLocation with key and value orthogonal.
        predictor: one head, at an inverse temperature.
        step_size: alpha > 0.
        overlaps: of the starts, numbers or arrays; small.
        level: size that ends the escape, in (0, 1).

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> start = at.Overlaps(0.01, 0.0, 0.0, 0.01, 0.0)
    >>> round(float(at.escape_time(task, at.Erf(0.1), 1e-3, start)))
    4034
    """
    of = "escape_time"
    alpha = check.real(step_size, "step_size", of, 0, strict=True)
    level = check.real(level, "level", of, 0, 1, strict=True)
    growth, modes = _unstable_modes(task, predictor, of)
    o = checked_overlaps(overlaps, task, of)
    with np.errstate(divide="ignore"):  # a start exactly on the stable side never leaves
        needed = np.log(
            level / np.maximum(np.abs(_mode_amplitudes(modes, np.array(o))), 1e-300)
        )
    times = np.maximum(needed, 0.0) / np.log1p(alpha * growth).reshape(
        -1, *(1,) * o.kappa.ndim
    )
    return times.min(axis=0)


def measured_escape(run: OverlapRuns, level: float) -> EscapeTime:
    """See Trajectory.escape."""
    setup = run.setup
    predicted = escape_time(
        setup.task, setup.predictor, setup.step_size, Overlaps(*run.log[:, :, 0]), level
    )
    _, modes = _unstable_modes(setup.task, setup.predictor, "Trajectory.escape")
    size = np.abs(_mode_amplitudes(modes, run.log)).max(axis=0)  # (runs, logs)
    out = np.flatnonzero((size >= level).any(axis=1))
    first = (size[out] >= level).argmax(axis=1)
    before = np.maximum(first - 1, 0)
    low = np.log(size[out, before])
    high = np.log(size[out, first])
    share = np.where(
        first > 0, (math.log(level) - low) / np.where(high > low, high - low, 1.0), 0.0
    )
    return EscapeTime(
        out, run.step[before] + share * (run.step[first] - run.step[before]), predicted[out]
    )


def _stationary_point(
    task: SingleLocation, predictor: Predictor, name: str, of: str
) -> StationaryPoint:
    points = {p.name: p for p in stationary_points(task, predictor)}
    if name not in points:
        raise bad("limit", of, "one of " + ", ".join(repr(x) for x in sorted(points)), name)
    return points[name]


def _manifold_eigenvalues(task: SingleLocation, predictor: Predictor) -> np.ndarray:
    R = risk_gradient(task, predictor, Overlaps.oracle())
    return np.array([-R.kappa, -R.nu])


def _unstable_modes(
    task: SingleLocation, predictor: Predictor, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """Growth rates (m,) and directions (m, 4) in (kappa, eta, theta, nu) of the degenerate saddle.

    There k and v have no component along k*, v*, so these four overlaps are orthonormal tangent
    coordinates; rho is stable.
    """
    if not any(p.name == "degenerate" for p in stationary_points(task, predictor)):
        raise bad(
            "predictor", of, "one with a saddle at orthogonal vectors", predictor, "Erf(0.1)"
        )
    H = _saddle_hessian(task, predictor, of)
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    down = values < -1e-6 * np.abs(values).max()  # differences are good to 1e-9
    if not down.any():
        raise bad("predictor", of, "one with a saddle at orthogonal vectors", predictor)
    return -values[down], vectors[:, down].T


def _saddle_hessian(task: SingleLocation, predictor: Predictor, of: str) -> np.ndarray:
    """Second derivatives in (kappa, eta, theta, nu) at orthogonal vectors,
    exact for Erf and LinearAttention.
    """
    lam = constant_inverse_temperature(predictor, of)
    second = overlap_derivatives(task, predictor, lam).second
    if second is not None:
        return second(np.zeros(5))[:4, :4]
    h = 1e-3 / (
        1 + lam * task.signal
    )  # the risk varies with kappa on the scale 1/(lam s); fourth order: truncation 1e-12

    def at(x: np.ndarray) -> np.ndarray:
        # possible: one of them is 2 h at most, the rest 0
        o = as_arrays(Overlaps(x[0], x[1], x[2], x[3], 0.0))
        return np.array(unchecked_gradient(task, predictor, o, lam))[:4]

    def slope(e: np.ndarray) -> np.ndarray:
        near = at(h * e) - at(-h * e)
        return (8 * near - at(2 * h * e) + at(-2 * h * e)) / (12 * h)

    return np.array([slope(e) for e in np.eye(4)])


def _mode_amplitudes(modes: np.ndarray, overlaps: np.ndarray) -> np.ndarray:
    """(m, ...) components of the overlaps (5, ...) along the unstable directions."""
    return np.tensordot(modes, overlaps[:4], axes=1)
