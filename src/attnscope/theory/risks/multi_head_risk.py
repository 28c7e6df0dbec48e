"""Population risk of heads that add up, from inner products alone: exact where each teacher has a
token of its own (distinct_heads.py), else on nodes or sampled.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.predictors.heads import MultiHead, adds_heads
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask, is_defined, is_planted
from attnscope.theory.monte_carlo import sampled_heads_excess
from attnscope.theory.nodes.node_routes import checked_gram, gram_excess
from attnscope.theory.risks.distinct_heads import Task, distinct_excess
from attnscope.theory.route import checked_planted, find_route

__all__ = ["Task", "distinct_tokens", "heads_excess", "heads_gram", "heads_risk"]

HEADS_RISK_NAME = "heads_risk"


def heads_risk(
    task: PlantedTask,
    predictor: MultiHead,
    heads: Any,
    samples: int = 20_000,
    seed: int = 0,
    method: Literal["best", "monte-carlo"] = "best",
) -> Estimate:
    """Population risk of MultiHead on a planted task: exact where each teacher has a token of its
    own, else sampled.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: a MultiHead.
        heads: a pair (K, V) of arrays (H, d), or Gram matrices (..., n, n) of (k_1, v_1, ..., k_1*,
            v_1*, ...), n = 2H + 2F.
        samples, seed: of the Monte Carlo average over scores, where there is no quadrature (module
            docstring).
        method: "best", or "monte-carlo" for the second route.

    >>> from attnscope.predictors.attention import Erf
    >>> from attnscope.tasks.planted.multi_direction import MultiDirection
    >>> task = MultiDirection(dim=80, length=10, directions=2)
    >>> round(heads_risk(task, MultiHead(Erf(0.0952), 2), (task.keys, task.values)).value, 5)
    0.34718
    """
    checked_planted(task, HEADS_RISK_NAME)
    if not adds_heads(predictor):
        raise bad(
            "predictor",
            HEADS_RISK_NAME,
            "a MultiHead",
            predictor,
            "MultiHead(Softmax(1.0), heads=2)",
        )
    if method not in ("best", "monte-carlo"):
        raise bad("method", HEADS_RISK_NAME, "'best' or 'monte-carlo'", method)
    lam = constant_inverse_temperature(predictor, HEADS_RISK_NAME)
    matrix = heads_gram(task, *heads) if isinstance(heads, tuple) else heads
    pair = "a pair (K, V)"
    G = checked_gram(matrix, task, 2 * predictor.heads, HEADS_RISK_NAME, "heads", pair)
    n = check.integer(samples, "samples", HEADS_RISK_NAME, 2)
    seed = check.seed_value(seed, HEADS_RISK_NAME)
    flat = G.reshape(-1, *G.shape[-2:])
    excess, error, how = heads_excess(
        task, predictor, flat, lam, n, seed, sampled=method == "monte-carlo"
    )
    shape = G.shape[:-2]
    return estimate(excess.reshape(shape), error.reshape(shape), how, task.noise)


def heads_gram(task: PlantedTask, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """(n, n) Gram matrix of (k_1, v_1, ..., k_H, v_H, k_1*, v_1*, ...) for rows of K, V (H, d).

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        K, V: (H, d), the keys and values of H heads in rows.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=20, length=5)
    >>> (at.heads_gram(task, task.key[None], task.value[None]).round(12) + 0.0)[:2]
    array([[1., 0., 1., 0.],
           [0., 1., 0., 1.]])
    """
    if not is_planted(task):
        raise bad("task", "heads_gram", "a planted task", task, "SingleLocation(400, 10)")
    K = check.array(K, "K", "heads_gram", (None, task.dim)).astype(np.float64)
    V = check.array(V, "V", "heads_gram", (len(K), task.dim)).astype(np.float64)
    rows = np.concatenate([np.stack([K, V], axis=1).reshape(-1, task.dim), task.teachers])
    return rows @ rows.T


def distinct_tokens(task: object, predictor: MultiHead) -> bool:
    """Whether each teacher pair has a token of its own, as the formulas below and GenericSgd
    assume.
    """
    route = find_route(task, predictor)
    return route is not None and not route.missing(task, predictor, None)


def heads_excess(
    task: Any,
    predictor: MultiHead,
    G: np.ndarray,
    lam: float,
    samples: int,
    seed: int,
    sampled: bool = False,
) -> tuple[np.ndarray, np.ndarray, str]:
    """(excess, error, method) for Gram matrices (R, n, n), unchecked, at inverse temperature lam."""
    if distinct_tokens(task, predictor):
        return distinct_excess(task, predictor, G, lam, samples, seed, sampled)
    if is_defined(task) and not sampled:
        found = gram_excess(task, predictor, G, lam, samples, seed)
        return found.excess, found.error, found.method
    head = predictor.head
    H = predictor.heads
    rows = [
        sampled_heads_excess(task, head, H, g, lam, samples, [seed, i])
        for i, g in enumerate(G)
    ]
    excess, error = np.array(rows).T
    return excess, error, "monte-carlo"
