"""Attention along the rows of a grid and then along its columns, with one key.

notation: M = rows, N = columns, s_ij = lam x_ij.k, a_ij the weight of cell (i, j) within row i, r_i
= sum_j a_ij x_ij, H_i = -sum_j a_ij log a_ij.

The row step pools every row into one token r_i by attention with key k; the column step pools r_1
.. r_M by attention with the same key:

    T(X) = sum_i b_i r_i.v,   a_i. = attention(s_i.),
        b = attention(lam r_i.k) = attention(sum_j a_ij s_ij),

so it is attention over all cells with weights b_i a_ij. For softmax, compare with the joint softmax
over the M N cells, which factorises as

    softmax(s)_ij = [e^{F_i} / sum_i' e^{F_i'}] a_ij,
        F_i = log sum_j e^{s_ij} = sum_j a_ij s_ij + H_i   (Gibbs' identity).

The two differ by the entropies of the row weights alone: RowColumn scores a row by the mean of its
scores under a, the joint softmax adds H_i. They agree iff all H_i are equal (a row of one cell,
equal rows); otherwise joint/row-column = e^{H_i}/sum_i' b_i' e^{H_i'}, between 1/N and N. In words:
pooling forgets how many cells a row spread its attention over, so RowColumn is not the posterior of
GridLocation even at the posterior's inverse temperature. `entropy=True` adds H_i to the row scores:
then it is the joint softmax, exactly. For Erf and other componentwise attention the same two steps
are done with sigma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import entr

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Predictor, has_one_head

__all__ = ["RowColumn"]


@dataclass(frozen=True, init=False)
class RowColumn(Predictor):
    """Attention within the rows of a rows x columns grid of tokens, then over the pooled rows, with
    one key and one inverse temperature.

    Args:
        step: the attention of both steps, with its inverse temperature: Softmax(2.0), Erf(0.1), ...
        rows, columns: the grid; tokens are (n, rows * columns, d), row by row.
        entropy: add the entropy of a row's weights to its score (softmax only): the joint softmax
            over all cells.

    >>> from attnscope.predictors.attention import Softmax
    >>> from attnscope.predictors.predictions import attention_weights
    >>> tokens = np.array([[[2.0], [0.0], [1.0], [1.0]]])  # a 2 x 2 grid of tokens in R^1
    >>> attention_weights(RowColumn(Softmax(1.0), 2, 2), np.ones(1), tokens).round(3)
    array([[0.6  , 0.081, 0.159, 0.159]])
    >>> attention_weights(RowColumn(Softmax(1.0), 2, 2, entropy=True), np.ones(1), tokens).round(3)
    array([[0.534, 0.072, 0.197, 0.197]])
    """

    any_length: ClassVar[bool] = False

    step: Predictor
    rows: int
    columns: int
    entropy: bool

    def __init__(
        self, step: Predictor, rows: int, columns: int, entropy: bool = False
    ) -> None:
        if not has_one_head(step) or not step.any_length:
            raise bad(
                "step",
                "RowColumn",
                "a predictor such as Softmax(2.0) or Erf(0.1)",
                step,
                "Softmax(2.0)",
            )
        if not isinstance(entropy, (bool, np.bool_)) or (entropy and not step.exponential):
            raise bad(
                "entropy",
                "RowColumn",
                "True or False, and False unless the step is Softmax",
                entropy,
            )
        values = {
            "inverse_temperature": step.inverse_temperature,
            "step": step,
            "rows": check.integer(rows, "rows", "RowColumn", 1),
            "columns": check.integer(columns, "columns", "RowColumn", 1),
            "entropy": bool(entropy),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def weights(self, scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """b_i a_ij as (n, rows * columns), from the scores lam u;
        a row without real tokens has weight 0.
        """
        scores = check.array(
            scores, "scores", "RowColumn.weights", (None, None), finite=False
        )
        n = len(scores)
        grid = (len(scores), self.rows, self.columns)
        if scores.shape != (n, self.rows * self.columns):
            must = (
                f"a grid of {self.rows} x {self.columns} = {self.rows * self.columns} tokens"
            )
            raise bad("tokens", "RowColumn", must, f"{scores.shape[-1]} tokens")
        s = scores.reshape(grid)
        if mask is None:
            a = self.step.weights(s.reshape(-1, self.columns)).reshape(grid)
            return (self.step.weights(self._row_scores(a, s))[..., None] * a).reshape(n, -1)
        real = mask.reshape(grid)
        some = np.any(real, axis=2)
        # an empty row is pooled as if it were full, and gets weight 0 below
        usable = real | ~some[..., None]
        a = self.step.weights(
            s.reshape(-1, self.columns), usable.reshape(-1, self.columns)
        ).reshape(grid)
        b = self.step.weights(self._row_scores(a, s), some)
        return (b[..., None] * a).reshape(n, -1)

    def _row_scores(self, a: np.ndarray, s: np.ndarray) -> np.ndarray:
        """lam r_i.k, (n, M), with the entropy if asked for."""
        scores = np.sum(a * s, axis=2)
        return scores + np.sum(entr(a), axis=2) if self.entropy else scores
