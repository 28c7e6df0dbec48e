"""What layer norm does to single-location regression: a floor under the risk, and the weight of the informative token at any length.

notation: e = (1,..,1)/sqrt(d), P = I - e e', m = d - 1, N(x) = sqrt(d) Px/|Px| (gain and bias belong to the map that follows), q^ = Px_J/|Px_J|.

Floor. A block that sees tokens only after layer norm knows of the informative token its direction q^, neither its mean nor its length r. Even if told
J its excess risk is at least E Var(Y | q^). The mean of X_J is independent of PX_J, and r has density ~ r^(m-1) exp(-(r^2 - 2 r s q^.k*)/(2 gam^2)),
so with r = gam y, b = s q^.k*/gam and M_j(b) = int y^(m-1+j) exp(b y - y^2/2) dy

    Var(Y | q^) = gam^2 (e.v*)^2 + gam^2 (q^.v*)^2 V(b),    V = m + b M_1/M_0 - (M_1/M_0)^2      (M_2 = m M_0 + b M_1, by parts),

in all about gam^2 (e.v*)^2 + gam^4/d in the papers' scaling. M_1/M_0 by quadrature, the average over q^ by sampling, with its standard error.

Weight. A head's logit of a token is S(x) = u.N(x) + beta, that of the register a constant S_0, and tokens are independent given J, so with
phi(t) = E exp(-t e^S) over background tokens and 1/a = int exp(-t a) dt

    E w_J = E[e^(S_J)/(e^(S_0) + sum_l e^(S_l))] = int E[e^(S_J) exp(-t e^(S_J))] phi(t)^(L-1) exp(-t e^(S_0)) dt.

One-token laws: for a background token u.N/(sqrt(d)|u|) is a coordinate of a uniform point of the sphere in R^m, density ~ (1 - c^2)^((m-3)/2); for
the informative one it is a/sqrt(a^2 + b^2) with a ~ N(s u^.k*, gam^2) and b^2 ~ gam^2 times non-central chi-square with m - 1 degrees of freedom.
Without norm both are normal. The layer norm's EPS (1e-6 of a token's variance) is neglected. The length enters as a power only: any L costs the same.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import ncx2

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.predictors.blocks import EPS, Parameters, TransformerBlock
from attnscope.tasks.single_location import SingleLocation

__all__ = ["informative_weight", "layer_norm_floor"]

REACH = 9.0  # standard deviations of a normal that a grid covers: 2e-19 is outside
NODES = 48  # of each one-dimensional rule; doubled once for the error estimate
TAIL = 36.0  # e^-36 = 2e-16: how far the integrand is followed where it falls like e^tau
STEP = 0.25  # of log t: the integrand is analytic and bounded for |Im log t| < pi/2, so the trapezoid rule errs by exp(-pi^2/STEP) = 7e-18
Rule = tuple[np.ndarray, np.ndarray]  # nodes and weights that sum to 1


def layer_norm_floor(task: SingleLocation, samples: int = 200_000, seed: int = 0) -> Estimate:
    """The least risk of any predictor that sees tokens only after layer norm and is told J; error is one standard error.

    >>> task = SingleLocation(dim=32, length=16)
    >>> round(layer_norm_floor(task).excess, 3)
    0.013
    """
    of = "layer_norm_floor"
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
    variance = task.gamma**2 * (mean_part[1] ** 2 + along_value**2 * spread)
    return estimate(variance.mean(), variance.std(ddof=1) / np.sqrt(n), "conditional monte-carlo", task.noise)


def _centred_frame(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (axes, 2) of the centred vectors (2, d) in an orthonormal frame of their span, and their components along e."""
    along = vectors.sum(axis=1) / np.sqrt(vectors.shape[1])
    centred = vectors - vectors.mean(axis=1, keepdims=True)
    values, axes = np.linalg.eigh(centred @ centred.T)
    kept = values > 1e-12  # a vector along e, or two parallel ones, span less
    return (axes[:, kept] * np.sqrt(values[kept])).T, along


def _radial_variance(b: np.ndarray, m: int) -> np.ndarray:
    """V(b): the variance of y with density ~ y^(m-1) exp(b y - y^2/2), interpolated from a fine grid of b."""
    grid = np.linspace(b.min() - 0.1, b.max() + 0.1, 400)
    mean = np.array([_radial_mean(x, m) for x in grid])
    return np.interp(b, grid, m + grid * mean - mean**2)


def _radial_mean(b: float, m: int) -> float:
    """M_1/M_0; the density's peak is at (b + sqrt(b^2 + 4 (m-1)))/2 and its curvature at least 1 there."""
    peak = (b + np.sqrt(b * b + 4 * (m - 1))) / 2
    y = np.linspace(max(0.0, peak - REACH), peak + REACH, 400)[1:]
    logs = (m - 1) * np.log(y) + b * y - y * y / 2
    density = np.exp(logs - logs.max())
    return float(density @ y / density.sum())


def informative_weight(
    task: SingleLocation, model: TransformerBlock, parameters: Parameters, length: int | None = None, head: int = 0
) -> Estimate:
    """E w_J of a head of a block: the mean attention weight of the informative token among `length` (the task's if None).

    >>> task, model = SingleLocation(dim=8, length=5), TransformerBlock(dim=8)
    >>> start = model.init(seed=0)
    >>> start["key"] *= 0.0
    >>> round(informative_weight(task, model, start).value, 10)  # all logits 0: one token of five, and the register
    0.1666666667
    """
    of = "informative_weight"
    if not isinstance(model, TransformerBlock) or model.dim != task.dim or task.dim < 4:
        raise bad("model", of, f"a TransformerBlock of the task's dimension (>= 4), {task.dim}", model)
    L = check.integer(task.length if length is None else length, "length", of, 1)
    head = check.integer(head, "head", of, 0, model.heads - 1)
    u, beta, own = _logit(model, model._parameters(parameters, of), head)
    fine, coarse = (_weight(task, model, u, beta, own, L, nodes) for nodes in (2 * NODES, NODES))
    return estimate(fine, abs(fine - coarse) + 1e-12, "quadrature")


def _logit(model: TransformerBlock, p: Parameters, head: int) -> tuple[np.ndarray, float, float]:
    """u, beta and S_0 of a head."""
    r = p["register"]
    if model.norm:
        a = p["gain1"] * (r - r.mean()) / np.sqrt(r.var() + EPS) + p["bias1"]
    else:
        a = r
    k = p["key"][head].T @ (p["query"][head] @ a) * model.temperature / np.sqrt(model.dim // model.heads)
    if not model.norm:
        return k, 0.0, float(k @ a)
    u = p["gain1"] * k
    return u - u.mean(), float(p["bias1"] @ k), float(k @ a)


def _weight(
    task: SingleLocation, model: TransformerBlock, u: np.ndarray, beta: float, own: float, L: int, nodes: int
) -> float:
    size = float(np.linalg.norm(u))
    unit = u / size if size > 0 else u
    laws = _normed_laws if model.norm else _normal_laws
    (background, p0), (informative, p1) = laws(task, unit, size, nodes)
    background, informative = background + beta, informative + beta
    tau = np.arange(-informative.max() - TAIL, -informative.min() + 4, STEP)  # exp(-e^4) = 2e-24
    scores = informative[:, None] + tau
    first = p1 @ np.exp(scores - np.exp(scores))
    missing = p0 @ -np.expm1(-np.exp(background[:, None] + tau))  # 1 - phi, without cancellation where phi is near 1
    with np.errstate(divide="ignore"):
        log_phi = np.log1p(-np.minimum(missing, 1.0))
    others = (L - 1) * log_phi if L > 1 else np.zeros_like(tau)
    return float(np.sum(first * np.exp(others - np.exp(own + tau))) * STEP)


def _normed_laws(task: SingleLocation, unit: np.ndarray, size: float, nodes: int) -> tuple[Rule, Rule]:
    """Rules for u.N(x) of a background and of the informative token."""
    scale, m = np.sqrt(task.dim) * size, task.dim - 1
    angle = (np.arange(2 * nodes) + 0.5) * np.pi / (2 * nodes)
    density = np.sin(angle) ** (m - 2)
    a, pa = _normal(nodes)
    a = task.signal * float(unit @ task.key) + task.gamma * a
    centred = task.key - task.key.mean()
    beside = max(0.0, float(centred @ centred) - float(unit @ centred) ** 2)
    other = max((task.signal / task.gamma) ** 2 * beside, 1e-9)  # scipy wants > 0; 1e-9 changes the law by less
    low, high = np.sqrt(ncx2.ppf([1e-15, 1 - 1e-15], m - 1, other))
    b = np.linspace(float(low), float(high), nodes)
    pb = b * ncx2.pdf(b * b, m - 1, other)
    cosine = a[:, None] / np.sqrt(a[:, None] ** 2 + (task.gamma * b) ** 2)
    joint = np.outer(pa, pb / pb.sum())
    return (scale * np.cos(angle), density / density.sum()), (scale * cosine.ravel(), joint.ravel())


def _normal_laws(task: SingleLocation, unit: np.ndarray, size: float, nodes: int) -> tuple[Rule, Rule]:
    """Rules for u.x without norm."""
    g, p = _normal(2 * nodes)
    return (size * g, p), (size * (task.signal * float(unit @ task.key) + task.gamma * g), p)


def _normal(nodes: int) -> Rule:
    g = np.linspace(-REACH, REACH, nodes)
    p = np.exp(-g * g / 2)
    return g, p / p.sum()
