"""Single-location regression on a grid: one of M x N cells carries the label.

notation: M = rows, N = columns, cell (i, j) is token l = i N + j, I and K the row and the column of
the informative cell.

The task is SingleLocation with L = M N tokens in row-major order, so everything known of that task
holds: samples, posterior, Bayes predictor, exact risks, training. The grid adds coordinates: the
posteriors of the row and of the column are the marginals

    P(I = i | X) = sum_j P(J = iN + j | X),        P(K = j | X) = sum_i P(J = iN + j | X),

and the expected posterior mass on wrong rows follows from that on wrong cells when all cells are
equally likely: given X, E sum_{l != m} p_l p_m is the same for every ordered pair of cells, and of
the L - 1 other cells L - N lie in other rows, so

    1 - E P(I | X) = (1 - E P(J | X)) (L - N)/(L - 1),
        1 - E P(K | X) = (1 - E P(J | X)) (L - M)/(L - 1).

All of this is exact. The matching predictor, attention along rows and then along columns, is in
predictors.row_column.
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.whole_values import whole_numbers
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["GridLocation"]


class GridLocation(SingleLocation):
    """One cell of a grid of tokens, at a random place, carries the label.

    Args:
        rows, columns: M, N >= 1; tokens are (n, M N, dim), row by row, and `grid` shows them as (n,
            M, N, dim).
        dim, gamma, noise, signal, key, value, seed: as in SingleLocation.
        location_probs: (rows, columns) or (rows * columns,) probabilities of the cells; uniform if
            None.

    >>> task = GridLocation(rows=5, columns=5, dim=20, gamma=1.0, signal=3.0)
    >>> batch = task.sample(4, seed=0)
    >>> batch.tokens.shape, task.grid(batch.tokens).shape, task.row_posterior(batch.tokens).shape
    ((4, 25, 20), (4, 5, 5, 20), (4, 5))
    >>> round(task.location_error().value, 6), round(task.row_error().value, 6)
    (0.24747, 0.206225)
    """

    def __init__(
        self, rows: int, columns: int, dim: int,
        gamma: float = 0.5**0.5, noise: float = 0.0, signal: float | None = None,
        location_probs: np.ndarray | None = None,
        key: np.ndarray | None = None, value: np.ndarray | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.rows = check.integer(rows, "rows", "GridLocation", 1)
        self.columns = check.integer(columns, "columns", "GridLocation", 1)
        if location_probs is not None and np.ndim(location_probs) == 2:
            shape = (self.rows, self.columns)
            location_probs = check.array(
                location_probs, "location_probs", "GridLocation", shape
            ).ravel()
        super().__init__(
            dim,
            self.rows * self.columns,
            gamma,
            noise,
            signal,
            location_probs,
            key,
            value,
            seed,
        )

    def __repr__(self) -> str:
        numbers = (
            f"rows={self.rows}, columns={self.columns}, dim={self.dim}, gamma={self.gamma:g}"
        )
        return f"GridLocation({numbers}, noise={self.noise:g}, signal={self.signal:g}, seed={self.seed})"

    def grid(self, tokens: np.ndarray) -> np.ndarray:
        """Tokens (n, M N, d) seen as (n, M, N, d), without a copy where memory order allows."""
        x, _ = check.tokens_array(tokens, "GridLocation.grid", self.length, self.dim)
        return x.reshape(len(x), self.rows, self.columns, self.dim)

    @classmethod
    def spiked(
        cls, dim: int, length: int, strength: float, noise: float = 0.0, seed: int = 0
    ) -> SingleLocation:
        """Always an error: a grid has rows and columns instead of a length, and a signal instead of
        strength.
        """
        raise AttnscopeError(
            "GridLocation has no spiked(dim, length, strength); use "
            "GridLocation(rows, columns, dim, gamma=1.0, signal=strength**0.5)."
        )

    def cell(self, location: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(row, column) of a location, token numbers (n,)."""
        l = whole_numbers(location, "location", "GridLocation.cell", self.length)
        return np.divmod(l, self.columns)

    def row_posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(I = i | X), (n, M), exact."""
        return self._cell_posterior(tokens).sum(axis=2)

    def column_posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(K = j | X), (n, N), exact."""
        return self._cell_posterior(tokens).sum(axis=1)

    def _cell_posterior(self, tokens: np.ndarray) -> np.ndarray:
        return self.location_posterior(tokens).reshape(-1, self.rows, self.columns)

    def row_error(self) -> Estimate:
        """1 - E P(I | X): the expected posterior mass on wrong rows;
        needs uniform location_probs.
        """
        return self._marginal_error(self.length - self.columns, "row_error")

    def column_error(self) -> Estimate:
        """1 - E P(K | X): the expected posterior mass on wrong columns;
        needs uniform location_probs.
        """
        return self._marginal_error(self.length - self.rows, "column_error")

    def _marginal_error(self, elsewhere: int, method: str) -> Estimate:
        if self.location_probs is not None:
            hint = "the mean of 1 - row_posterior at the true row"
            raise bad(
                "location_probs",
                f"GridLocation.{method}",
                "None (uniform)",
                "given probabilities",
                hint,
            )
        if elsewhere == 0:
            # one row (or column): nothing to get wrong
            return estimate(0.0, 0.0, "closed form")
        cell = self.location_error()
        share = elsewhere / (self.length - 1)
        return estimate(
            share * cell.excess,
            share * cell.error,
            cell.method,
            0.0,
            cell.log_excess + np.log(share),
        )
