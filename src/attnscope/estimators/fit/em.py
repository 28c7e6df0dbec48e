"""Expectation-maximisation for one deciding token among background tokens.

notation: z = a token in the background's whitened coordinates, mu, gam^2 = mean and variance of the
deciding token there, r_l = responsibility of token l for its bag's label, nu = degrees of freedom
(infinite: Gaussian).

    background N(m0, S0), deciding token N(mu, gam^2 I) in z = W^T (x - m0), W W^T = S0^-1, each of
    the bag's locations equally probable; y | deciding token x: f(y | V^T x + b).
    score  l(x) = -d log gam - |z-mu|^2/(2 gam^2) + |z|^2/2    (gate "linear": gam = 1, l is linear)
           l(x) = -d log gam - (nu+d)/2 [log(1 + |z-mu|^2/(nu gam^2)) - log(1 + |z|^2/nu)]
               (Student t, robust)
    E step r ~ exp(l(x_l)) f(y | V^T x_l + b) within the bag (1 at a known deciding token).
        M step: weighted means and covariances; S0, then gam; V by ridge.
    background mean  m0 = o + max(0, 1 - (d-2)/(w |W^T (m - o)|^2)) (m - o)
           (m the weighted mean, w its weight, o the caller's zero)

The sums of the E step (`Sums`) are additive over batches and take O(d^2) memory. Numbers: V, its
ridge and the noise are set by the evidence (ridge.py). S0 is shrunk towards a multiple of the
identity by the oracle-approximating rule (Chen et al. 2010), m0 towards the caller's zero by
the positive-part rule of James and Stein (1961). Where background tokens are centred there, the d
errors of their mean would enter the key, whose variance would be 1/n + 1/w instead of 1/n in each
direction (half as much again with three tokens per bag). Where they are not centred there, the
factor is 1. Classes: V by weighted ridge logistic regression, whose tokens (those with r > 1e-6)
must be in memory. Without shrinkage and with sigma^2 = RSS/n this is exact EM (in its conditional
form, Meng and Rubin 1993: the likelihood never falls); shrinkage and the evidence's RSS/(n - g)
depart from it on purpose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from attnscope.estimators.fit.data import Data, label_log_density
from attnscope.estimators.fit.ridge import Values, evidence_ridge, gram, moments
from attnscope.numerics.compiled.data_pass import (
    GAUSSIAN,
    MIXTURE,
    bag_softmax,
    bag_sum,
    data_pass,
)

__all__ = [
    "Em",
    "Sums",
    "TokenModel",
    "add",
    "e_step",
    "em_step",
    "logistic",
    "m_step",
    "run_em",
    "scores",
    "shrunk_mean",
    "token_gram",
    "whitening",
]

# responsibilities below this do not enter the Gram matrix: 1e5 such tokens weigh 1e-7 of one
NEGLIGIBLE_RESPONSIBILITY = 1e-12
NEGLIGIBLE_CLASS_RESPONSIBILITY = 1e-6  # the same for the logistic fit, which is iterative
# bounds of gam^2: outside, rounding would determine a token's score
SPREAD_RANGE = (1e-3, 1e3)
# gain in log likelihood per bag that ends EM on all bags
EM_STOP_GAIN = 1e-6
# L-BFGS steps per M step, from the last V: EM needs an improvement, not the optimum
LOGISTIC_LBFGS_STEPS = 5


class TokenModel(NamedTuple):
    """Background mean (d,), whitening W (d, d), whitened deciding mean (d,), gam^2, nu; a model of k
    directions only (subspace.py) has W (d, k) and a whitened mean (k,).
    """

    mean: np.ndarray
    whiten: np.ndarray
    key: np.ndarray
    spread: float
    dof: float


class Em(NamedTuple):
    tokens: TokenModel
    values: Values


class Sums(NamedTuple):
    """Additive sums over bags. Background: weight, x, xx^T; deciding: the same with
    responsibilities; xy, y, yy, bags, log likelihood.
    """

    other: np.ndarray  # (1+d, 1+d): sum of weight (1, x)(1, x)^T over background tokens
    key: np.ndarray  # (1+d, 1+d): the same over deciding tokens, in the token model
    label: np.ndarray  # (2+d, 2+d): sum of r (1, x, y)(1, x, y)^T, in the label model
    # (4,): weight of bags, of tokens, log likelihood, squared error of the prediction (0 for
    # classes)
    bags: np.ndarray


def scores(model: TokenModel, tokens: np.ndarray) -> np.ndarray:
    """l(x) for tokens (N, d)."""
    d = model.whiten.shape[1]
    near, far = distances(model, tokens)
    if np.isinf(model.dof):
        log_ratio = -near / (2 * model.spread) + far / 2
    else:
        log_ratio = (
            -(model.dof + d)
            / 2
            * (np.log1p(near / (model.dof * model.spread)) - np.log1p(far / model.dof))
        )
    return log_ratio - d / 2 * np.log(model.spread)


def distances(model: TokenModel, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|z - mu|^2 and |z|^2."""
    z = tokens @ model.whiten
    z -= model.mean @ model.whiten
    far = np.einsum("ij,ij->i", z, z)
    near = far - 2 * (z @ model.key) + model.key @ model.key
    return np.maximum(near, 0), far


def responsibilities(em: Em, data: Data) -> tuple[np.ndarray, float, float]:
    """r (N,), the log likelihood (relative to all tokens being background) and the squared error of
    the prediction without the label.
    """
    u = scores(em.tokens, data.tokens)
    w = data.tokens @ em.values.weights + em.values.bias
    joint = u + label_log_density(
        data.per_token(data.labels), w, data.family, em.values.variance
    )
    if data.family == GAUSSIAN:
        joint -= 0.5 * np.log(em.values.variance)
    joint = data.apply_known_locations(joint)
    r = bag_softmax(joint, data.offsets)
    first = data.offsets[:-1]
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # where the first is not the known one
        evidence = np.where(
            r[first] > 0, joint[first] - np.log(r[first]), np.logaddexp.reduceat(joint, first)
        )
    error = 0.0
    if data.family == GAUSSIAN:
        output = bag_sum(bag_softmax(u, data.offsets) * w[:, 0], data.offsets)
        error = float(data.weight @ (data.labels - output) ** 2)
    return r, float(data.weight @ (evidence - np.log(data.lengths))), error


def e_step(
    em: Em, data: Data, everything: np.ndarray | None = None
) -> tuple[Sums, np.ndarray]:
    """The sums of one pass over `data`, and the responsibilities;
    `everything` = `token_gram(data)` if it is already computed.
    """
    r, log_likelihood, error = responsibilities(em, data)
    weight = data.per_token(data.weight)
    near_weight = np.ones(1)
    far_weight = np.ones(1)
    if np.isfinite(em.tokens.dof):  # the weights of a multivariate t
        near, far = distances(em.tokens, data.tokens)
        d = data.tokens.shape[1]
        nu = em.tokens.dof
        near_weight = (nu + d) / (nu + near / em.tokens.spread)
        far_weight = (nu + d) / (nu + far)
    kept = r * weight > NEGLIGIBLE_RESPONSIBILITY
    x = data.tokens[kept]
    rw = (r * weight)[kept]
    label = gram(np.column_stack([x, data.per_token(data.labels)[kept]]), rw)
    if near_weight.size == 1:
        key = label[:-1, :-1]
        other = (token_gram(data) if everything is None else everything) - key
    else:
        key = gram(x, rw * near_weight[kept])
        other = gram(data.tokens, (1 - r) * weight * far_weight)
    bags = np.array([data.weight.sum(), weight.sum(), log_likelihood, error])
    return Sums(other, key, label, bags), r


def token_gram(data: Data) -> np.ndarray:
    """sum over all tokens of weight (1, x)(1, x)^T."""
    return gram(data.tokens, data.per_token(data.weight))


def add(a: Sums, b: Sums) -> Sums:
    return Sums(*(x + y for x, y in zip(a, b)))


def m_step(
    em: Em,
    sums: Sums,
    quadratic: bool,
    family: int = GAUSSIAN,
    precision: float | None = None,
    origin: np.ndarray | None = None,
) -> Em:
    """New parameters from the sums. For classes the values stay unchanged (see `em_step`).
    `origin` as in `Data`.
    """
    tokens = _token_step(em.tokens, sums, quadratic, origin)
    values = evidence_ridge(sums.label, precision) if family == GAUSSIAN else em.values
    return Em(tokens, values)


# eigenvalues are raised to this share of the largest: 1e8 times their rounding error
MIN_EIGENVALUE_SHARE = 1e-8


def em_step(
    em: Em,
    data: Data,
    quadratic: bool,
    precision: float | None = None,
    everything: np.ndarray | None = None,
) -> tuple[Em, float]:
    """One pass over data in memory: new parameters, and the log likelihood of the old ones."""
    sums, r = e_step(em, data, everything)
    new = m_step(em, sums, quadratic, data.family, precision, data.origin)
    if data.family != GAUSSIAN:
        new = new._replace(values=logistic(data, r, em.values))
    return new, float(sums.bags[2])


def run_em(
    em: Em,
    data: Data,
    quadratic: bool,
    steps: int,
    precision: float | None = None,
    tol: float = EM_STOP_GAIN,
) -> Em:
    """EM until the log likelihood per bag gains less than `tol`, at most `steps` passes."""
    last = -np.inf
    everything = token_gram(data)
    for _ in range(steps):
        em, value = em_step(em, data, quadratic, precision, everything)
        if abs(value - last) < tol * data.size:
            break
        last = value
    return em


# -- M step ----------------------------------------------------------------------------------------


def _token_step(
    model: TokenModel, sums: Sums, quadratic: bool, origin: np.ndarray | None
) -> TokenModel:
    d = len(model.mean)
    bags, tokens = sums.bags[:2]
    if tokens - bags < 1:  # every bag has one token: there is no background to learn
        return model
    weight, centre, scatter = moments(sums.other)
    key_weight, mean, key_scatter = moments(sums.key)
    # conditional maximisation: the covariance given gam^2 (both kinds of token inform it), then
    # gam^2 given the covariance
    pooled = (weight * scatter + key_weight * key_scatter / model.spread) / tokens
    whiten = whitening(pooled, tokens)
    if origin is not None:
        gap = (centre - origin) @ whiten
        centre = shrunk_mean(centre, origin, float(gap @ gap), weight)
    spread = (
        float(np.einsum("ij,ij->", whiten, key_scatter @ whiten)) * key_weight / (bags * d)
        if quadratic
        else 1.0
    )
    return model._replace(
        mean=centre,
        whiten=whiten,
        key=(mean - centre) @ whiten,
        spread=float(np.clip(spread, *SPREAD_RANGE)),
    )


def shrunk_mean(
    mean: np.ndarray, origin: np.ndarray, distance: float, weight: float
) -> np.ndarray:
    """James and Stein's estimate of a mean, positive part: towards `origin` (d,), from the mean of
    `weight` tokens whose squared whitened distance to it is `distance`.

    Its expected squared whitened error is below the mean's own, 1/weight in each of d > 2
    directions, wherever the true mean lies; d <= 2: the mean itself.
    """
    noise = max(len(mean) - 2, 0) / weight
    return origin + max(0.0, 1 - noise / max(distance, 1e-300)) * (mean - origin)


def whitening(covariance: np.ndarray, count: float) -> np.ndarray:
    """W with W W^T = S^-1 for the shrunk covariance S = (1-a) C + a tr(C)/d I."""
    d = len(covariance)
    level = np.trace(covariance) / d
    if level <= 0:
        return np.eye(d)
    square = np.einsum("ij,ij->", covariance, covariance)
    gap = (count + 1 - 2 / d) * max(square - d * level**2, 0)
    shrink = min(1.0, ((1 - 2 / d) * square + (d * level) ** 2) / gap) if gap > 0 else 1.0
    shrink = max(shrink, 1e-8)  # constant features: keeps the factor invertible
    shrunk = (1 - shrink) * covariance + shrink * level * np.eye(d)
    return solve_triangular(_cholesky_factor(shrunk), np.eye(d), lower=True).T


def _cholesky_factor(matrix: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor. If rounding made the symmetric matrix indefinite, its small eigenvalues
    are raised first.
    """
    try:
        return cholesky(matrix, lower=True)
    except (
        np.linalg.LinAlgError
    ):  # a difference of sums in which an extreme token cancelled everything else
        values, vectors = np.linalg.eigh(matrix)
        largest = float(np.abs(values).max())
        return cholesky(
            (vectors * np.maximum(values, MIN_EIGENVALUE_SHARE * largest)) @ vectors.T,
            lower=True,
        )


def logistic(data: Data, r: np.ndarray, old: Values) -> Values:
    """Weighted ridge logistic regression of the labels on the tokens, from the old V."""
    weight = r * data.per_token(data.weight)
    kept = weight > NEGLIGIBLE_CLASS_RESPONSIBILITY
    x, weight, labels = data.tokens[kept], weight[kept], data.per_token(data.labels)[kept]
    one_per_bag = np.arange(len(x) + 1)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        weights = theta[:-m].reshape(d, m)
        bias = theta[-m:]
        value, _, slope, slope_bias = data_pass(
            x,
            none,
            zeros,
            one_per_bag,
            labels,
            weight,
            np.zeros(d),
            weights,
            bias,
            data.family,
            MIXTURE,
            1.0,
        )
        penalty = old.precision / 2 * (weights**2).sum()
        return value + penalty, np.concatenate(
            [(slope + old.precision * weights).ravel(), slope_bias]
        )

    d, m = old.weights.shape
    none, zeros = np.empty((len(x), 0)), np.zeros(len(x))
    start = np.concatenate([old.weights.ravel(), old.bias])
    theta = minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": LOGISTIC_LBFGS_STEPS}
    ).x
    return old._replace(weights=theta[:-m].reshape(d, m), bias=theta[-m:])
