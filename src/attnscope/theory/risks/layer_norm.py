"""What layer norm does to single-location regression: a floor under the risk, and the weight of the
informative token at any length.

notation: e = (1,..,1)/sqrt(d), P = I - e e', m = d - 1, N(x) = sqrt(d) Px/|Px| (gain and bias
belong to the map that follows), q^ = Px_J/|Px_J|.

Floor. A block that sees tokens only after layer norm knows of the informative token its direction
q^, neither its mean nor its length r. Even if J is given its excess risk is at least E Var(Y | q^).
The mean of X_J is independent of PX_J, and r has density ~ r^(m-1) exp(-(r^2 - 2 r s q^.k*)/(2
gam^2)), so with r = gam y, b = s q^.k*/gam and M_j(b) = int y^(m-1+j) exp(b y - y^2/2) dy

    Var(Y | q^) = gam^2 (e.v*)^2 + gam^2 (q^.v*)^2 V(b),   V = m + b M_1/M_0 - (M_1/M_0)^2
        (M_2 = m M_0 + b M_1, by parts),

in all about gam^2 (e.v*)^2 + gam^4/d in the papers' scaling. M_1/M_0 by quadrature, the average
over q^ by sampling, with its standard error.

Weight. A head's logit of a token is S(x) = u.N(x) + beta, that of the register a constant S_0, and
tokens are independent given J, so with phi(t) = E exp(-t e^S) over background tokens and 1/a = int
exp(-t a) dt

    E w_J = E[e^(S_J)/(e^(S_0) + sum_l e^(S_l))]
        = int E[e^(S_J) exp(-t e^(S_J))] phi(t)^(L-1) exp(-t e^(S_0)) dt.

One-token laws: for a background token u.N/(sqrt(d)|u|) is a coordinate of a uniform point of the
sphere in R^m, density ~ (1 - c^2)^((m-3)/2); for the informative one it is a/sqrt(a^2 + b^2) with a
~ N(s u^.k*, gam^2) and b^2 ~ gam^2 times non-central chi-square with m - 1 degrees of freedom.
Without norm both are normal. The layer norm's EPS (1e-6 of a token's variance) is neglected. The
length enters as a power only: any L costs the same.

Rules. A normal score of deviation >= 1 is averaged at K(y) = e^y exp(-e^y), its smooth factor: E
K(tau + S) = int K(y) N(y - tau; S) dy and phi = int K(y) P(S <= y - tau) dy, trapezoid sums that
converge exponentially however steep the logits are. Other laws are replaced by points and halving
them gives the error, as far as neighbours are close in score: along each axis a gap of delta leaves
about exp(-pi^2/delta) open (exp(-e^S) is analytic for |Im S| < pi/2), and all together never more
than tanh(delta/4), the most that a weight moves when logits move by delta, whatever the length. The
mean of the smaller one is added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_mean import SampledMean
from attnscope.predictors.blocks.sequence_model import Parameters
from attnscope.predictors.blocks.transformer import (
    NORM_VARIANCE_FLOOR,
    TransformerBlock,
    has_query_key,
)
from attnscope.tasks.base import checked_law
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.normalised_risk import LARGEST_EXPONENT, SCORE_REACH_SIGMAS

__all__ = ["informative_weight", "layer_norm_floor"]

# of each one-dimensional rule; doubled until scores are resolved, and once more for the error
# estimate
FIRST_RULE_NODES = 48
KERNEL_REACH_NATS = 40.0  # K(y) < e^-40 below; above y = 5 it is < e^-143
WEIGHT_AGREEMENT = 1e-10  # absolute change of a weight at which doubling stops
LARGEST_EXPONENTIAL_COUNT = 1 << 25  # of one rule: half a second
EXPONENTIALS_PER_CHUNK = 1 << 22  # computed at a time: 32 MB
TAIL_NATS = 36.0  # the integrand falls like e^tau and is followed to e^-36 = 2e-16
# the integrand is analytic and bounded for |Im log t| < pi/2, so the trapezoid rule errs by
# exp(-pi^2/LOG_T_STEP) = 7e-18
LOG_T_STEP = 0.25
SMALLEST_SCORE_GAP = 1e-3  # a gap below which exp(-pi^2/gap) is 0

Rule = tuple[np.ndarray, np.ndarray]  # nodes and weights that sum to 1


class Points(NamedTuple):
    """A law of scores by points and probabilities."""

    scores: np.ndarray
    probs: np.ndarray


class Normal(NamedTuple):
    """A normal law of scores, averaged on y = -KERNEL_REACH_NATS .. 5 in steps of `step`."""

    mean: float
    sd: float
    step: float


class Laws(NamedTuple):
    """Scores of a background and of the informative token; what points too far apart leave open."""

    background: Points | Normal
    informative: Points | Normal
    unresolved: float


def layer_norm_floor(task: SingleLocation, samples: int = 200_000, seed: int = 0) -> Estimate:
    """The smallest risk of any predictor that sees tokens only after layer norm but is given J;
    `error` is one standard error.

    Args:
        task: a SingleLocation of dim >= 4.
        samples: draws of the token's direction, >= 2.
        seed: of the draws.

    >>> task = SingleLocation(dim=32, length=16)
    >>> round(layer_norm_floor(task).excess, 3)
    0.013
    """
    of = "layer_norm_floor"
    checked_law(task, SingleLocation, of, "SingleLocation(dim=32, length=16)")
    if task.dim < 4:
        raise bad("task", of, "of dimension >= 4", f"dim={task.dim}")
    n = check.integer(samples, "samples", of, 2)
    rng = np.random.default_rng([check.seed_value(seed, of), 5])
    frame, mean_part = _centred_frame(
        np.stack([task.key, task.value])
    )  # (axes, 2), (2,): P k*, P v* in an orthonormal frame
    inside = task.signal * frame[:, 0] + task.gamma * rng.standard_normal((n, len(frame)))
    rest = task.gamma**2 * rng.chisquare(task.dim - 1 - len(frame), n)
    length = np.sqrt((inside**2).sum(1) + rest)
    along_key, along_value = (inside @ frame).T / length
    spread = _radial_variance(task.signal * along_key / task.gamma, task.dim - 1)
    drawn = SampledMean(n)
    drawn.add(along_value**2 * spread)
    return estimate(
        task.gamma**2 * (mean_part[1] ** 2 + drawn.mean),
        # a squared cosine is at most 1
        task.gamma**2 * drawn.error(float(spread.max())),
        "conditional monte-carlo",
        task.noise,
    )


def _centred_frame(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (axes, 2) of the centred vectors (2, d) in an orthonormal frame of their span,
    and their components along e.
    """
    along = vectors.sum(axis=1) / np.sqrt(vectors.shape[1])
    centred = vectors - vectors.mean(axis=1, keepdims=True)
    values, axes = np.linalg.eigh(centred @ centred.T)
    kept = values > 1e-12  # a vector along e, or two parallel ones, span less
    return (axes[:, kept] * np.sqrt(values[kept])).T, along


def _radial_variance(b: np.ndarray, m: int) -> np.ndarray:
    """V(b): the variance of y with density ~ y^(m-1) exp(b y - y^2/2),
    interpolated from a fine grid of b.
    """
    grid = np.linspace(b.min() - 0.1, b.max() + 0.1, 400)
    mean = np.array([_radial_mean(x, m) for x in grid])
    return np.interp(b, grid, m + grid * mean - mean**2)


def _radial_mean(b: float, m: int) -> float:
    """M_1/M_0; the density's peak is at (b + sqrt(b^2 + 4 (m-1)))/2 and its curvature at least 1
    there.
    """
    peak = (b + np.sqrt(b * b + 4 * (m - 1))) / 2
    y = np.linspace(max(0.0, peak - SCORE_REACH_SIGMAS), peak + SCORE_REACH_SIGMAS, 400)[1:]
    logs = (m - 1) * np.log(y) + b * y - y * y / 2
    density = np.exp(logs - logs.max())
    return float(density @ y / density.sum())


def informative_weight(
    task: SingleLocation,
    model: TransformerBlock,
    parameters: Parameters,
    length: int | None = None,
    head: int = 0,
) -> Estimate:
    """E w_J of a head of a block: the mean attention weight of the informative token among `length`
    (the task's if None).

    Args:
        task: a SingleLocation.
        model: a TransformerBlock for tokens of this dim.
        parameters: of the block, as `train_block` returns them.
        length: tokens, >= 1; None: the task's.
        head: which, 0-based.

    >>> task, model = SingleLocation(dim=8, length=5), TransformerBlock(dim=8)
    >>> start = model.init(seed=0)
    >>> start["key"] *= 0.0
    >>> round(informative_weight(task, model, start).value, 10)  # all logits 0: one token of five, and the register
    0.1666666667
    """
    of = "informative_weight"
    checked_law(task, SingleLocation, of, "SingleLocation(dim=32, length=16)")
    if not has_query_key(model) or model.dim != task.dim or task.dim < 4:
        raise bad(
            "model",
            of,
            f"a TransformerBlock of the task's dimension (>= 4), {task.dim}",
            model,
        )
    L = check.integer(task.length if length is None else length, "length", of, 1)
    head = check.integer(head, "head", of, 0, model.heads - 1)
    u, beta, own = _logit_parameters(model, model._checked_parameters(parameters, of), head)
    laws = _normed_laws if model.norm else _normal_laws
    size = float(np.linalg.norm(u))
    unit = u / size if size > 0 else u
    nodes = FIRST_RULE_NODES
    coarse = laws(task, unit, size, nodes)
    if _exponential_count(coarse) > LARGEST_EXPONENTIAL_COUNT:
        limit = "with logits that vary by less"
        got = f"logits of size {size * np.sqrt(task.dim):.3g}"
        raise bad("parameters", of, limit, got, "a smaller inverse temperature")
    last = _mean_weight(coarse, beta, own, L)
    while True:
        nodes *= 2
        fine = laws(task, unit, size, nodes)
        value = _mean_weight(fine, beta, own, L)
        change = abs(value - last)
        # a doubling may quadruple the points
        if (
            max(change, fine.unresolved) <= WEIGHT_AGREEMENT
            or 4 * _exponential_count(fine) > LARGEST_EXPONENTIAL_COUNT
        ):
            break
        last = value
    return estimate(value, change + fine.unresolved + 1e-12, "quadrature")


def _logit_parameters(
    model: TransformerBlock, p: Parameters, head: int
) -> tuple[np.ndarray, float, float]:
    """u, beta and S_0 of a head."""
    r = p["register"]
    if model.norm:
        a = p["gain1"] * (r - r.mean()) / np.sqrt(r.var() + NORM_VARIANCE_FLOOR) + p["bias1"]
    else:
        a = r
    k = (
        p["key"][head].T
        @ (p["query"][head] @ a)
        * model.inverse_temperature
        / np.sqrt(model.dim // model.heads)
    )
    if not model.norm:
        return k, 0.0, float(k @ a)
    u = p["gain1"] * k
    return u - u.mean(), float(p["bias1"] @ k), float(k @ a)


def _score_range(law: Points | Normal) -> tuple[float, float]:
    if isinstance(law, Normal):
        return law.mean - SCORE_REACH_SIGMAS * law.sd, law.mean + SCORE_REACH_SIGMAS * law.sd
    return float(law.scores.min()), float(law.scores.max())


def _exponential_count(laws: Laws) -> float:
    """Exponentials of `_mean_weight`."""
    low, high = _score_range(laws.informative)
    return _point_count(laws) * (high - low + TAIL_NATS + 4) / LOG_T_STEP


def _point_count(laws: Laws) -> float:
    return sum(
        law.scores.size if isinstance(law, Points) else 45 / law.step for law in laws[:2]
    )


def _mean_weight(laws: Laws, beta: float, own: float, L: int) -> float:
    """The integral over log t: from where e^S_J t is e^-TAIL_NATS to where exp(-t e^S_J) or the
    register's factor is exp(-e^4) = 2e-24.
    """
    low, high = _score_range(laws.informative)
    tau = np.arange(-high - beta - TAIL_NATS, min(-low - beta, -own) + 4, LOG_T_STEP)
    if not tau.size:
        return 0.0  # the register's logit exceeds every token's by more than TAIL_NATS
    step = max(1, int(EXPONENTIALS_PER_CHUNK / _point_count(laws)))
    parts = [
        _log_t_integrand(laws, beta, own, L, tau[i : i + step])
        for i in range(0, tau.size, step)
    ]
    return float(np.sum(np.concatenate(parts)) * LOG_T_STEP)


def _log_t_integrand(
    laws: Laws, beta: float, own: float, L: int, tau: np.ndarray
) -> np.ndarray:
    first = _informative_average(laws.informative, beta + tau)
    missing = _one_minus_phi(laws.background, beta + tau)
    with np.errstate(divide="ignore"):
        log_phi = np.log1p(-np.minimum(missing, 1.0))
    others = (L - 1) * log_phi if L > 1 else np.zeros_like(tau)
    return first * np.exp(others - np.exp(np.minimum(own + tau, LARGEST_EXPONENT)))


def _informative_average(law: Points | Normal, tau: np.ndarray) -> np.ndarray:
    """E e^(S + tau) exp(-e^(S + tau))."""
    if isinstance(law, Normal):
        y, kernel = _kernel_rule(law.step)
        z = (y - tau[:, None] - law.mean) / law.sd
        return np.exp(-z * z / 2) @ kernel / (law.sd * np.sqrt(2 * np.pi))
    y = np.minimum(law.scores[:, None] + tau, LARGEST_EXPONENT)
    return law.probs @ np.exp(y - np.exp(y))


def _one_minus_phi(law: Points | Normal, tau: np.ndarray) -> np.ndarray:
    """1 - phi = E (1 - exp(-e^(S + tau))), without cancellation where phi is near 1."""
    if isinstance(law, Normal):
        y, kernel = _kernel_rule(law.step)
        return ndtr((tau[:, None] + law.mean - y) / law.sd) @ kernel
    return law.probs @ -np.expm1(
        -np.exp(np.minimum(law.scores[:, None] + tau, LARGEST_EXPONENT))
    )


def _kernel_rule(step: float) -> Rule:
    """y and K(y) dy."""
    y = np.arange(-KERNEL_REACH_NATS, 5 + step / 2, step)
    return y, np.exp(y - np.exp(y)) * step


def _normed_laws(task: SingleLocation, unit: np.ndarray, size: float, nodes: int) -> Laws:
    """Rules for u.N(x) of a background and of the informative token."""
    from scipy.stats import ncx2  # imported late: half a second

    scale = np.sqrt(task.dim) * size
    m = task.dim - 1
    angle = (np.arange(2 * nodes) + 0.5) * np.pi / (2 * nodes)
    density = np.sin(angle) ** (m - 2)
    a, pa = _normal_rule(nodes)
    a = task.signal * float(unit @ task.key) + task.gamma * a
    centred = task.key - task.key.mean()
    beside = max(0.0, float(centred @ centred) - float(unit @ centred) ** 2)
    # scipy wants > 0; 1e-9 changes the law by less
    other = max((task.signal / task.gamma) ** 2 * beside, 1e-9)
    low, high = np.sqrt(ncx2.ppf([1e-15, 1 - 1e-15], m - 1, other))
    b = np.linspace(float(low), float(high), nodes)
    pb = b * ncx2.pdf(b * b, m - 1, other)
    cosine = a[:, None] / np.sqrt(a[:, None] ** 2 + (task.gamma * b) ** 2)
    joint = np.outer(pa, pb / pb.sum())
    gaps = [
        np.maximum(scale * np.abs(np.gradient(cosine, axis=axis)), SMALLEST_SCORE_GAP)
        for axis in (0, 1)
    ]
    # the background's
    gaps.append(np.full_like(cosine, max(scale * np.pi / (2 * nodes), SMALLEST_SCORE_GAP)))
    left_open = np.minimum(
        np.tanh(sum(gaps) / 4), sum(np.exp(-(np.pi**2) / gap) for gap in gaps)
    )
    unresolved = float(np.sum(joint * left_open))
    rules = (
        Points(scale * np.cos(angle), density / density.sum()),
        Points(scale * cosine.ravel(), joint.ravel()),
    )
    return Laws(*rules, unresolved)


def _normal_laws(task: SingleLocation, unit: np.ndarray, size: float, nodes: int) -> Laws:
    """Rules for u.x without norm."""
    mean = size * task.signal * float(unit @ task.key)
    return Laws(
        _normal_law(0.0, size, nodes), _normal_law(mean, size * task.gamma, nodes), 0.0
    )


def _normal_law(mean: float, sd: float, nodes: int) -> Points | Normal:
    if sd >= 1:
        # step 1/2 at first: e^(-pi^2/0.5) = 3e-9, then 1/4
        return Normal(mean, sd, 24 / nodes)
    g, p = _normal_rule(2 * nodes)
    return Points(mean + sd * g, p)


def _normal_rule(nodes: int) -> Rule:
    g = np.linspace(-SCORE_REACH_SIGMAS, SCORE_REACH_SIGMAS, nodes)
    p = np.exp(-g * g / 2)
    return g, p / p.sum()
