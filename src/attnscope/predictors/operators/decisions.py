"""Deciding by attention: the action with the least cost on average over what tokens saw.

notation: q query, k_l and y_l keys and outcomes of the L tokens, h = bandwidth, w_l =
softmax(q.k/h), c(a, y) the cost of action a when y happens.

    a^ = argmin_a sum_l w_l c(a, y_l)

Attention with the costs c(a, y_l) as values estimates E[c(a, Y) | q] for all actions at once; no
law of Y given q is assumed, so none can be mismatched. Newsvendor costs c = b (y - a)+ + u (a - y)+
(b per unit short, u per unit left over) need no list of actions: the sum is piecewise linear and
convex in a, and its least minimiser is the weighted tau-quantile, tau = b/(b + u): the smallest
outcome at which the sorted weights add up to tau. Squared costs give the attention average itself.
`decision_regret` has the exact regret of the newsvendor in a model with classes.

Sums that reach tau up to L roundings count as reaching it: between two outcomes whose costs are
equal the smaller is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.predictors.operators.query_groups import (
    GroupedQueries,
    grouped_queries,
    score_blocks,
)

__all__ = ["Decision", "attention_decision", "newsvendor_costs"]

Cost = Callable[[np.ndarray, np.ndarray], np.ndarray] | tuple[float, float]


class Decision(NamedTuple):
    """What attention decides, and what that costs.

    Attributes:
        action: (...), the one of least cost.
        cost: (...), on average over the tokens, weighted by attention.

    >>> import attnscope as at
    >>> import numpy as np
    >>> alike = np.zeros((3, 2))
    >>> demand = np.array([1.0, 2.0, 9.0])
    >>> found = at.attention_decision(np.zeros(2), alike, demand, cost=(1.0, 1.0))
    >>> found.action.item(), round(found.cost.item(), 4)
    (2.0, 2.6667)
    """

    action: np.ndarray
    cost: np.ndarray


def attention_decision(
    query: Any,
    keys: Any,
    outcomes: Any,
    cost: Cost,
    actions: Any = None,
    bandwidth: float = 0.2,
) -> Decision:
    """The action of least attention-weighted cost.

    Args:
        query: (..., d_k).
        keys: (..., L, d_k).
        outcomes: (..., L), what happened at each token.
        cost: (short, over), the newsvendor's costs per unit, or a function of actions and outcomes
            with values (A, L).
        actions: the A actions to choose from, (A,) or (A, k); the first of equal cost is taken.
            With newsvendor costs None is every number.
        bandwidth: h > 0, divides the scores.

    >>> demand = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    >>> alike = np.zeros((5, 2))
    >>> attention_decision(np.zeros(2), alike, demand, cost=(3.0, 1.0))
    Decision(action=array(4.), cost=array(1.8))
    >>> squared = lambda a, y: (a[:, None] - y) ** 2
    >>> attention_decision(np.zeros(2), alike, demand, squared, actions=np.arange(6)).action
    array(3.)
    """
    of = "attention_decision"
    h = check.real(bandwidth, "bandwidth", of, 0, strict=True)
    y = context_array(outcomes, "outcomes", of, (None,), "an array (..., L)")
    if not y.size:
        raise bad("outcomes", of, "at least one", f"shape {y.shape}", "more tokens")
    c = grouped_queries(query, keys, y[..., None], of)
    if not callable(cost):
        short, over = newsvendor_costs(cost, of)
        if actions is None:
            return _quantile_decision(c, short, over, h)
        cost = lambda a, y: _newsvendor_cost(a[:, None], y, short, over)
    return _best_listed_action(c, cost, _checked_actions(actions, of), h, of)


def newsvendor_costs(cost: Any, of: str) -> tuple[float, float]:
    """(short, over), both > 0."""
    must = "(short, over), two costs per unit > 0, or a function of actions and outcomes"
    try:
        short, over = cost
    except (TypeError, ValueError):
        raise bad("cost", of, must, cost, "cost=(9.0, 1.0)") from None
    prices = (("short", short), ("over", over))
    first, second = (
        check.real(x, f"cost ({name})", of, 0, strict=True) for name, x in prices
    )
    return first, second


def _newsvendor_cost(a: np.ndarray, y: np.ndarray, short: float, over: float) -> np.ndarray:
    return short * np.maximum(y - a, 0.0) + over * np.maximum(a - y, 0.0)


def _quantile_decision(c: GroupedQueries, short: float, over: float, h: float) -> Decision:
    """The weighted quantile, and its cost."""
    contexts, queries = c.query.shape[:2]
    length = c.keys.shape[1]
    y = c.values[:, :, 0]
    order = np.argsort(y, axis=1, kind="stable")
    tau = short / (short + over)
    least = tau - length * np.finfo(np.float64).eps
    action = np.empty((contexts, queries))
    cost = np.empty((contexts, queries))
    for i, j in score_blocks(contexts, queries, length):
        weights = _softmax_weights(c.query[i, j], c.keys[i], h)
        sorted_y = np.take_along_axis(y[i], order[i], axis=1)[:, None, :]
        ordered = np.take_along_axis(weights, order[i][:, None, :], axis=2)
        reached = np.cumsum(ordered, axis=2) >= least
        reached[:, :, -1] = True  # the last sum is 1 up to rounding
        first = np.argmax(reached, axis=2)
        a = np.take_along_axis(np.broadcast_to(sorted_y, ordered.shape), first[..., None], 2)
        action[i, j] = a[..., 0]
        cost[i, j] = np.sum(ordered * _newsvendor_cost(a, sorted_y, short, over), axis=2)
    return Decision(c.restore(action[..., None])[..., 0], c.restore(cost[..., None])[..., 0])


def _softmax_weights(q: np.ndarray, k: np.ndarray, h: float) -> np.ndarray:
    """softmax(q.k/h), (c, m, L)."""
    scores = (q / h) @ k.swapaxes(1, 2)
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores, out=scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def _best_listed_action(
    c: GroupedQueries,
    cost: Callable[[np.ndarray, np.ndarray], np.ndarray],
    actions: np.ndarray,
    h: float,
    of: str,
) -> Decision:
    """The best of a list: attention with costs as values."""
    best = np.empty(c.query.shape[:2], dtype=np.int64)
    least = np.empty(c.query.shape[:2])
    for i, (q, k, v) in enumerate(zip(c.query, c.keys, c.values)):
        table = _cost_table(cost, actions, v[:, 0], of)
        means = softmax_attention(q, k, table.T, bandwidth=h)
        best[i] = np.argmin(means, axis=1)
        least[i] = means[np.arange(len(means)), best[i]]
    chosen = actions[best].reshape(*best.shape, -1)
    action = c.restore(chosen)
    return Decision(
        action if actions.ndim > 1 else action[..., 0], c.restore(least[..., None])[..., 0]
    )


def _checked_actions(actions: Any, of: str) -> np.ndarray:
    must = "an array (A,) or (A, k) of actions to choose from"
    if actions is None:
        raise bad("actions", of, f"{must}, with a cost function", None, "numpy.linspace(...)")
    shape = (None,) * max(1, min(np.ndim(actions), 2))
    return check.float_array(actions, "actions", of, shape)


def _cost_table(
    cost: Callable[[np.ndarray, np.ndarray], np.ndarray],
    actions: np.ndarray,
    y: np.ndarray,
    of: str,
) -> np.ndarray:
    """c(a, y), (A, L), checked."""
    must = "a function of actions (A, ...) and outcomes (L,) with finite values (A, L)"
    hint = "lambda a, y: (a[:, None] - y) ** 2"
    try:
        table = np.array(cost(actions, y), dtype=np.float64)
    except AttnscopeError:
        raise
    except Exception as error:
        raise bad("cost", of, must, f"{type(error).__name__}: {error}", hint) from error
    if table.shape != (len(actions), len(y)):
        raise bad("cost", of, must, f"shape {table.shape}", hint)
    if not np.isfinite(table).all() or np.abs(table).max() > check.LARGEST:
        raise bad("cost", of, must, "NaN, infinity or more than 1e50", hint)
    return table
