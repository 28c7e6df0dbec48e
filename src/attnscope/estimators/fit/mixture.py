"""The discriminative stage: L-BFGS on a bag loss, with analytic gradients from the fused data pass.

    minimise  sum_i weight_i loss_i(a, V, b)  +  alpha_gate |a|^2/2  +  alpha_value |V|^2/2

where a corrects a given score (that of the EM token model, or zero) by a.(x, extra features), and
loss_i is the mixture likelihood, soft attention or sigmoid attention of
numerics.compiled.data_pass. alpha_gate -> infinity keeps the given score. The noise variance stays
fixed at the squared predictive error: a free one would shrink until the token that happens to match
y takes all the weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.estimators.fit.data import Data, label_log_density
from attnscope.estimators.fit.em import Em, TokenModel, scores
from attnscope.estimators.fit.ridge import Values
from attnscope.estimators.fit.witness_law import WITNESS, Numbers, witness_outputs
from attnscope.numerics.compiled.cosines import cosines
from attnscope.numerics.compiled.data_pass import (
    GAUSSIAN,
    MIXTURE,
    SIGMOID,
    bag_max,
    bag_softmax,
    bag_sum,
    data_pass,
)

__all__ = [
    "FeatureMap",
    "Fitted",
    "Inputs",
    "bag_answers",
    "bag_losses",
    "bag_outputs",
    "constant_loss",
    "constant_output",
    "from_em",
    "gate_inputs",
    "label_columns",
    "no_features",
    "output_losses",
    "refine",
    "responsibilities",
    "with_free_score",
]


Inputs = tuple[
    np.ndarray, np.ndarray
]  # of `gate_inputs`, passed on where tokens and everything but the weights stay the same
# relative gain of a step below which L-BFGS ends: with n bags the loss itself is known to about
# 1/sqrt(n)
LBFGS_STOP_GAIN = 1e-7
# scores this far below the best of the bag have weight 2e-9: their exact size does not matter
SCORE_CLIP_DEPTH = 20.0


class FeatureMap(NamedTuple):
    """Extra gate features of a token x: cos(frequency^T x + phase); (|x|^2 - d)/sqrt(2d) if `norm`
    (of B^T x (k,) if there is a `basis` B, see subspace.py); 1 if `constant` (a threshold).
    """

    frequency: np.ndarray  # (d, D), D may be 0
    phase: np.ndarray  # (D,)
    norm: bool
    constant: bool
    basis: np.ndarray | None = None  # (d, k); None: the whole token

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        waves = self.frequency.shape[1]
        out = np.ones((len(tokens), waves + self.norm + self.constant))
        if waves:
            cosines(tokens @ self.frequency + self.phase, out[:, :waves])
        if self.norm:
            inside = tokens if self.basis is None else tokens @ self.basis
            d = inside.shape[1]
            out[:, waves] = (np.einsum("ij,ij->i", inside, inside) - d) / np.sqrt(2 * d)
        return out


class Fitted(NamedTuple):
    """A model in standardised coordinates: token model (None: no given score), gate a, features,
    values, combination.
    """

    tokens: TokenModel | None
    gate: np.ndarray
    features: FeatureMap
    values: Values
    family: int
    combine: int


def no_features(d: int) -> FeatureMap:
    return FeatureMap(np.empty((d, 0)), np.empty(0), False, False)


def from_em(em: Em, family: int) -> Fitted:
    d = len(em.tokens.mean)
    return Fitted(em.tokens, np.zeros(d), no_features(d), em.values, family, MIXTURE)


def with_free_score(fitted: Fitted, data: Data, norm: bool) -> Fitted:
    """The same model with a ridge-penalised linear function of (x, |x|^2) as its score, in place of
    the token model.

    It is the least-squares fit of the score on the features, scaled to a spread of at most 3,
    because the scores of a token model that does not fit are too large.
    """
    d = data.tokens.shape[1]
    features = no_features(d)._replace(norm=norm)
    design = np.column_stack([data.tokens, features(data.tokens), np.ones(len(data.tokens))])
    u = token_scores(fitted, data.tokens)
    u = np.maximum(u, data.per_token(bag_max(u, data.offsets)) - SCORE_CLIP_DEPTH)
    gram = design.T @ design
    # for constant features; too small to change a score
    gram[np.diag_indices_from(gram)] += 1e-12 * np.trace(gram)
    slope = np.linalg.solve(gram, design.T @ u)[:-1]
    gate = slope * min(1.0, 3 / max(float(np.std(design[:, :-1] @ slope)), 1e-12))
    return fitted._replace(tokens=None, gate=gate, features=features)


def given_scores(fitted: Fitted, tokens: np.ndarray) -> np.ndarray:
    return np.zeros(len(tokens)) if fitted.tokens is None else scores(fitted.tokens, tokens)


def gate_inputs(fitted: Fitted, tokens: np.ndarray) -> Inputs:
    """Extra features (N, e) and given scores (N,): what `refine` does not change."""
    return fitted.features(tokens), given_scores(fitted, tokens)


def refine(
    fitted: Fitted,
    data: Data,
    alpha_gate: float,
    alpha_value: float,
    steps: int,
    inputs: Inputs | None = None,
) -> Fitted:
    """L-BFGS from `fitted`; alpha_value is the precision on V (for numbers: ridge divided by the
    noise variance).

    `inputs` = `gate_inputs(fitted, data.tokens)` if already computed.
    """
    extra, given = inputs or gate_inputs(fitted, data.tokens)
    d, m = fitted.values.weights.shape
    e = extra.shape[1]

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        gate, weights, bias = _split_parameters(theta, d, e, m)
        loss, slope_gate, slope_weights, slope_bias = data_pass(
            data.tokens,
            extra,
            given,
            data.offsets,
            data.labels,
            data.weight,
            gate,
            weights,
            bias,
            fitted.family,
            fitted.combine,
            fitted.values.variance,
        )
        loss += alpha_gate / 2 * gate @ gate + alpha_value / 2 * (weights**2).sum()
        slope = [
            slope_gate + alpha_gate * gate,
            (slope_weights + alpha_value * weights).ravel(),
            slope_bias,
        ]
        return loss, np.concatenate(slope)

    start = np.concatenate([fitted.gate, fitted.values.weights.ravel(), fitted.values.bias])
    options = {"maxiter": steps, "maxcor": 20, "ftol": LBFGS_STOP_GAIN}
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    gate, weights, bias = _split_parameters(theta, d, e, m)
    return fitted._replace(
        gate=gate,
        values=fitted.values._replace(weights=weights, bias=bias, precision=alpha_value),
    )


def _split_parameters(
    theta: np.ndarray, d: int, e: int, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return theta[: d + e], theta[d + e : -m].reshape(d, m), theta[-m:]


# -- answers ---------------------------------------------------------------------------------------


class Answers(NamedTuple):
    """weight (N,), value (N, m) per token; output (n, m): mean, or class probabilities (n, C) with
    C = 2 for binary.

    Numbers: spread (n,), the standard deviation of the label, and the part of its square that is
    due to uncertain values.
    """

    weight: np.ndarray
    value: np.ndarray
    output: np.ndarray
    spread: np.ndarray
    unsure: np.ndarray


def token_scores(
    fitted: Fitted, tokens: np.ndarray, inputs: Inputs | None = None
) -> np.ndarray:
    extra, given = inputs or gate_inputs(fitted, tokens)
    d = tokens.shape[1]
    return given + tokens @ fitted.gate[:d] + extra @ fitted.gate[d:]


def bag_answers(fitted: Fitted, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
    """Token weights and values, the bag's output,
    and for numbers the mixture's standard deviation.
    """
    weight, value, output = bag_outputs(fitted, tokens, offsets)
    if fitted.family == GAUSSIAN:
        return Answers(
            weight,
            value,
            output,
            *_label_spread(fitted, tokens, weight, value, output, offsets),
        )
    return Answers(weight, value, output, np.zeros(len(output)), np.zeros(len(output)))


def bag_outputs(
    fitted: Fitted, tokens: np.ndarray, offsets: np.ndarray, inputs: Inputs | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, value and output of `Answers`, without the spread, which costs more than the rest."""
    u = token_scores(fitted, tokens, inputs)
    if fitted.combine == WITNESS:
        output = witness_outputs(u, offsets, Numbers(*fitted.values.bias))
        return bag_softmax(u, offsets), u[:, None], output
    if fitted.combine == SIGMOID:
        weight = 1 / (1 + np.exp(-np.clip(u, -700, 700)))
        value = tokens @ fitted.values.weights
        pooled = bag_sum(weight[:, None] * value, offsets) + fitted.values.bias
    else:
        weight = bag_softmax(u, offsets)
        value = tokens @ fitted.values.weights + fitted.values.bias
        pooled = bag_sum(weight[:, None] * value, offsets)
    if fitted.family == GAUSSIAN:
        return weight, value, pooled
    if fitted.combine == MIXTURE:
        pooled = bag_sum(weight[:, None] * probabilities(value), offsets)
        return weight, value, pooled / pooled.sum(axis=1, keepdims=True)
    return weight, value, probabilities(pooled)


def _label_spread(
    fitted: Fitted,
    tokens: np.ndarray,
    weight: np.ndarray,
    value: np.ndarray,
    pooled: np.ndarray,
    offsets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """sqrt(noise + sum_l p_l [(w_l - mean)^2 + uncertainty of w_l]) and sum_l p_l uncertainty;
    without the squares for sigmoid weights, which are not a distribution.
    """
    unsure = bag_sum(weight * fitted.values.uncertainty(tokens), offsets)
    if fitted.combine == SIGMOID:
        return np.sqrt(fitted.values.noise + unsure), unsure
    gap = value[:, 0] - np.repeat(pooled[:, 0], np.diff(offsets))
    return np.sqrt(fitted.values.noise + bag_sum(weight * gap**2, offsets) + unsure), unsure


def probabilities(logits: np.ndarray) -> np.ndarray:
    """(.., m) logits to (.., C) probabilities; one logit is the second of two classes."""
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(len(logits)), logits])
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def bag_losses(fitted: Fitted, data: Data, inputs: Inputs | None = None) -> np.ndarray:
    """Loss per bag (n,): squared error, or minus the log probability of the label."""
    return output_losses(bag_outputs(fitted, data.tokens, data.offsets, inputs)[2], data)


def label_columns(data: Data) -> np.ndarray:
    """Labels in the shape of an output: numbers (n, 1), or indicators of the classes (n, C)."""
    if data.family == GAUSSIAN:
        return data.labels[:, None]
    return np.eye(max(data.outputs, 2))[data.labels.astype(int)]


def constant_output(data: Data) -> np.ndarray:
    """The best prediction without tokens (n, m): the mean label, or the classes' shares."""
    columns = label_columns(data)
    return np.broadcast_to(np.average(columns, axis=0, weights=data.weight), columns.shape)


def constant_loss(data: Data) -> float:
    """The loss of the best prediction without tokens: variance of the labels, or their entropy."""
    return data.average(output_losses(constant_output(data), data))


def output_losses(output: np.ndarray, data: Data) -> np.ndarray:
    if data.family == GAUSSIAN:
        return (data.labels - output[:, 0]) ** 2
    return -np.log(np.maximum(output[np.arange(data.size), data.labels.astype(int)], 1e-15))


def responsibilities(fitted: Fitted, data: Data) -> np.ndarray:
    """Token weights (N,) given the bag and its label: r ~ p_l f(y | w_l)."""
    u = token_scores(fitted, data.tokens)
    w = data.tokens @ fitted.values.weights + fitted.values.bias
    log_f = label_log_density(
        data.per_token(data.labels), w, data.family, fitted.values.variance
    )
    return bag_softmax(u + log_f, data.offsets)
