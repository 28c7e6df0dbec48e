"""The score and the value of each token under a fitted model.

    score u_l   attention within a bag is softmax(u) (sigmoid gates: weight 1/(1 + e^{-u_l}))
    value   numbers: E[y | token l decides] = v.x_l + b
            two classes: P(second class | token l decides); more: (C,) probabilities
            witness: P(token l is a witness) = 1/(1 + e^{-(u_l + a + c t)}), witness_law.py
            sigmoid gates: v.x_l, what the token adds at full weight, without the bias (for classes
            to the log odds)

If the mean token has no share, the prediction is sum_l attention_l value_l (witness:
P(first) = 1/(1 + e^b) prod_l (1 - value_l); sigmoid: b + sum_l weight_l value_l). This is the model
itself, token by token, so it is exact up to rounding.

notation: N tokens, C classes, a, b, c, t as in fit/witness_law.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.fit.data import Scaling
from attnscope.estimators.fit.mixture import Fitted, bag_outputs, probabilities, token_scores
from attnscope.estimators.fit.witness_law import WITNESS, Numbers, log_odds
from attnscope.numerics.compiled.data_pass import GAUSSIAN, SIGMOID

__all__ = ["PerToken", "log_odds_of", "values_of"]

# padding gets weight zero
PADDING_SCORE = -np.inf
# smaller probabilities are raised to this, so that logarithms stay finite
MIN_PROBABILITY = 1e-300


class PerToken:
    """The two methods of the estimators (base.py) with an answer for every token."""

    @in_pieces
    def scores(self, bags: Any, head: int | None = None) -> Any:
        """The gate's score of each token, in the form of `attention` (which is its softmax within a
        bag), -inf at padding; of one head where there are several.
        """
        held, chosen = _bags_and_head(self, bags, head, "scores")
        return _in_input_form(held, scores_of(self, held, chosen), PADDING_SCORE)

    @in_pieces
    def values(self, bags: Any, head: int | None = None) -> Any:
        """The prediction of each token if it decided, in the form of `attention`: the expected label,
        the probability of the second of two classes, (..., C) for more; under "witness" the
        probability that it is one. Several heads: of one, whose values add to the mean label.
        """
        held, chosen = _bags_and_head(self, bags, head, "values")
        return _in_input_form(held, each_value(self, held, chosen), 0.0)


def _bags_and_head(
    model: Any, bags: Any, head: int | None, method: str
) -> tuple[Bags, Fitted]:
    held = model._read_bags(bags, method)
    heads = model._all_heads
    if head is None and len(heads) > 1:
        must = f"a number from 0 to {len(heads) - 1} where there are several heads"
        raise bad("head", f"{type(model).__name__}.{method}", must, head)
    return held, heads[model._check_head(0 if head is None else head, method)]


def scores_of(model: Any, held: Bags, head: Fitted) -> np.ndarray:
    """Scores u (N,), a piece of bags at a time."""
    parts = [token_scores(head, tokens) for tokens, _ in model._standardised_pieces(held)]
    return np.concatenate(parts)


def each_value(model: Any, held: Bags, head: Fitted) -> np.ndarray:
    """Values (N,) or (N, C)."""
    alone = len(model._all_heads) == 1
    parts = [
        values_of(head, tokens, offsets, model.scaling_, alone)
        for tokens, offsets in model._standardised_pieces(held)
    ]
    return np.concatenate(parts)


def values_of(
    head: Fitted, tokens: np.ndarray, offsets: np.ndarray, scaling: Scaling, alone: bool
) -> np.ndarray:
    """(N,), or (N, C) for more than two classes; `alone`: no other head adds to the label."""
    if head.combine == WITNESS:
        odds = log_odds(token_scores(head, tokens), offsets, Numbers(*head.values.bias))
        return 0.5 * (1 + np.tanh(odds / 2))
    value = bag_outputs(head, tokens, offsets)[1]
    if head.family == GAUSSIAN:
        middle = scaling.label_mean if alone and head.combine != SIGMOID else 0.0
        return value[:, 0] * scaling.label_scale + middle
    if head.combine == SIGMOID:
        return value[:, 0] if value.shape[1] == 1 else value
    chances = probabilities(value)
    return chances[:, 1] if chances.shape[1] == 2 else chances


def log_odds_of(output: np.ndarray) -> np.ndarray:
    """log P(second) - log P(first) (n,) of two classes' probabilities (n, 2); of more, their
    logarithms (n, C).
    """
    logs = np.log(np.maximum(output, MIN_PROBABILITY))
    return logs[:, 1] - logs[:, 0] if output.shape[1] == 2 else logs


def _in_input_form(held: Bags, per_token: np.ndarray, padding: float) -> np.ndarray | list:
    """Numbers (N,) or (N, C) in the form of the caller's bags."""
    if per_token.ndim == 1:
        return held.like_input(per_token, padding)
    columns = [held.like_input(column, padding) for column in per_token.T]
    if isinstance(columns[0], list):
        return [np.stack(parts, axis=-1) for parts in zip(*columns)]
    return np.stack(columns, axis=-1)
