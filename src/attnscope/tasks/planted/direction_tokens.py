"""Tokens that carry directions, and the exact posterior of where each sits.

notation and formulas: multi_direction. Sums over all placements go token by token over the set S of
directions already placed,

    Z_l(S) = sum_{T in S} r_T(x_l) Z_{l-1}(S - T),

in logarithms and without a subtraction; marginals need the same sum from the right, means and
variances are carried along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.integrals.log_mixture import mixture
from attnscope.tasks.planted.pair import ORTHOGONAL_COSINE, curvature
from attnscope.tasks.planted.planted import Planted

__all__ = [
    "BLOCK_NUMBERS",
    "DirectionBatch",
    "DirectionTokens",
    "Seen",
    "orthonormal_rows",
    "unit_rows",
]

MOST_DIRECTIONS = 6  # directions: the sums cost 3^F or F 2^F per token
SMALLEST_EXPONENT = 700.0  # exp(-700) is a number, exp(-746) is 0
BLOCK_NUMBERS = 1 << 20  # numbers worked on at a time: 8 MB arrays
POSITIONS = ("distinct", "independent")

Set = frozenset[int]


class DirectionBatch(NamedTuple):
    """tokens (n, L, d), target (n,), location (n, F) 0-based:
    column f is where direction f sits.
    """

    tokens: np.ndarray
    target: np.ndarray
    location: np.ndarray


class Seen(NamedTuple):
    """All that inference needs of tokens: projections on keys and values, (n, L, F) each,
    and squared lengths (n, L).
    """

    scores: np.ndarray
    outputs: np.ndarray
    squares: np.ndarray


class DirectionTokens(Planted[DirectionBatch]):
    """Law of the tokens, posterior, mean and variance of the label given the tokens."""

    def __init__(
        self,
        dim: int,
        length: int,
        directions: int = 2,
        positions: str = "distinct",
        gamma: float = 0.5**0.5,
        noise: float = 0.0,
        signal: float | None = None,
        keys: np.ndarray | None = None,
        values: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        self.directions = F = check.integer(
            directions, "directions", "MultiDirection", 1, MOST_DIRECTIONS
        )
        self.dim = check.integer(dim, "dim", "MultiDirection", 1)
        if positions not in POSITIONS:
            raise bad("positions", "MultiDirection", "'distinct' or 'independent'", positions)
        self.positions = positions
        self.length = check.integer(
            length, "length", "MultiDirection", F if positions == "distinct" else 1
        )
        self.gamma = check.real(
            gamma, "gamma", "MultiDirection", 0, strict=True, hint="gamma=0.5**0.5"
        )
        self.noise = check.real(noise, "noise", "MultiDirection", 0)
        self.signal = check.real(
            math.sqrt(self.dim / 2) if signal is None else signal,
            "signal",
            "MultiDirection",
            0,
        )
        self.seed = check.seed_value(seed, "MultiDirection")
        self._keys = (
            None if keys is None else unit_rows(keys, "keys", "MultiDirection", F, self.dim)
        )
        self._values = (
            None
            if values is None
            else unit_rows(values, "values", "MultiDirection", F, self.dim)
        )
        if (keys is None or values is None) and self.dim < 2 * F:
            raise bad(
                "dim",
                "MultiDirection",
                f"an integer >= {2 * F}, for {2 * F} orthonormal vectors",
                self.dim,
            )

    def __repr__(self) -> str:
        numbers = (
            f"gamma={self.gamma:g}, noise={self.noise:g}, signal={self.signal:g}, "
            f"seed={self.seed}"
        )
        return (
            f"MultiDirection({self.dim}, {self.length}, {self.directions}, {self.positions!r}, "
            f"{numbers})"
        )

    @property
    def given(self) -> dict[str, np.ndarray | None]:
        """The arrays this task was given (None where it draws them):
        with its numbers, all that is needed to rebuild it.
        """
        return {"keys": self._keys, "values": self._values}

    @cached_property
    def keys(self) -> np.ndarray:
        """k_f*, unit rows (F, dim)."""
        known = np.empty((0, self.dim)) if self._values is None else self._values
        return self._draw_vectors(0, known) if self._keys is None else self._keys

    @cached_property
    def values(self) -> np.ndarray:
        """v_f*, unit rows (F, dim)."""
        return self._draw_vectors(1, self.keys) if self._values is None else self._values

    def _draw_vectors(self, stream: int, known: np.ndarray) -> np.ndarray:
        check.fits_in_memory(
            4 * self.directions * self.dim,
            8,
            "keys and values",
            "MultiDirection",
            "bayes_risk, which needs none",
        )
        rows = np.random.default_rng([self.seed, stream]).standard_normal(
            (self.directions, self.dim)
        )
        return orthonormal_rows(rows, known)

    @property
    def teachers(self) -> np.ndarray:
        """(2F, dim): k_1*, v_1*, k_2*, v_2*, ..."""
        return np.stack([self.keys, self.values], axis=1).reshape(-1, self.dim)

    @cached_property
    def teacher_gram(self) -> np.ndarray:
        """Inner products (2F, 2F) of (k_1*, v_1*, k_2*, v_2*, ...); drawn vectors are orthogonal to
        all others without being made.
        """
        F = self.directions
        blocks = np.zeros((2 * F, 2 * F))
        for i, x in enumerate((self._keys, self._values)):
            blocks[i::2, i::2] = np.eye(F) if x is None else x @ x.T
        if self._keys is not None and self._values is not None:
            blocks[0::2, 1::2] = self._keys @ self._values.T
            blocks[1::2, 0::2] = blocks[0::2, 1::2].T
        return np.where(np.abs(blocks) > ORTHOGONAL_COSINE, blocks, 0.0)

    # -- data --------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> DirectionBatch:
        location = self._draw_locations(n, rng)
        rows = np.arange(n)
        noise = self.noise * rng.standard_normal(n)
        tokens = rng.standard_normal((n, self.length, self.dim), dtype=dtype.type)
        tokens[self._carries_direction(location)] *= self.gamma
        for f in range(self.directions):
            tokens[rows, location[:, f]] += (self.signal * self.keys[f]).astype(dtype)
        label_parts = [
            tokens[rows, location[:, f]].astype(np.float64) @ self.values[f]
            for f in range(self.directions)
        ]  # labels of the tokens as stored
        return DirectionBatch(tokens, np.sum(label_parts, axis=0) + noise, location)

    def latent(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """(n, F): the positions J_f."""
        return self._draw_locations(n, rng)

    def means(self, latent: np.ndarray) -> np.ndarray:
        """(n, L, 2F): s on k_f* at J_f; teachers k_1*, v_1*, k_2*, v_2*, ..."""
        rows = np.arange(len(latent))
        out = np.zeros((len(latent), self.length, 2 * self.directions))
        for f in range(self.directions):
            out[rows, latent[:, f], 2 * f] = self.signal
        return out

    def scales(self, latent: np.ndarray) -> np.ndarray:
        """(n, L): gam where a token carries a direction, else 1."""
        return np.where(self._carries_direction(latent), self.gamma, 1.0)

    def label(
        self, fields: np.ndarray, latent: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """(n,): sum_f X_{J_f}.v_f*."""
        rows = np.arange(len(fields))
        label_parts = [fields[rows, latent[:, f], 2 * f + 1] for f in range(self.directions)]
        return np.sum(label_parts, axis=0)

    def _draw_locations(self, n: int, rng: np.random.Generator) -> np.ndarray:
        if self.positions == "independent":
            return rng.integers(self.length, size=(n, self.directions))
        return np.argsort(rng.random((n, self.length)), axis=1)[:, : self.directions]

    def _carries_direction(self, location: np.ndarray) -> np.ndarray:
        """(n, L): which tokens carry at least one direction."""
        out = np.zeros((len(location), self.length), dtype=bool)
        np.put_along_axis(out, location, True, axis=1)
        return out

    # -- inference ---------------------------------------------------------------------------------

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(J_f = l | X), (n, F, L), exact."""
        return np.concatenate(
            [
                self._location_marginals(seen)
                for seen in self._projection_blocks(tokens, "posterior")
            ]
        )

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return np.concatenate(
            [
                self._moments(seen)[0]
                for seen in self._projection_blocks(tokens, "bayes_predict")
            ]
        )

    def posterior_variance(self, tokens: np.ndarray) -> np.ndarray:
        """Var(Y | X) without the label noise, (n,), exact: the squared error to expect of
        bayes_predict on each sequence.
        """
        return np.concatenate(
            [
                self._moments(seen)[1]
                for seen in self._projection_blocks(tokens, "posterior_variance")
            ]
        )

    def _projection_blocks(self, tokens: np.ndarray, method: str) -> Iterator[Seen]:
        x, _ = check.tokens_array(tokens, f"MultiDirection.{method}", self.length, self.dim)
        block = max(1, BLOCK_NUMBERS // (self.length * self.dim))
        for i in range(0, len(x), block):
            part = x[i : i + block].astype(np.float64)
            yield Seen(
                part @ self.keys.T, part @ self.values.T, np.einsum("nld,nld->nl", part, part)
            )

    @cached_property
    def _token_sets(self) -> list[Set]:
        """The sets of directions one token may carry, none excepted."""
        most = self.directions if self.positions == "independent" else 1
        return [
            frozenset(c)
            for size in range(1, most + 1)
            for c in combinations(range(self.directions), size)
        ]

    @cached_property
    def _all_sets(self) -> list[Set]:
        """All sets of directions, small ones first."""
        F = self.directions
        return [frozenset(c) for size in range(F + 1) for c in combinations(range(F), size)]

    def _log_ratios(self, seen: Seen) -> dict[Set, np.ndarray]:
        """log r_T(x_l), (n, L), of every set T a token may carry (multi_direction)."""
        g2 = self.gamma**2
        s = self.signal
        keys = self.teacher_gram[0::2, 0::2]
        common = -self.dim * math.log(self.gamma) - curvature(self.gamma) / 2 * seen.squares
        out = {}
        for T in self._token_sets:
            chosen = sorted(T)
            length2 = s * s * keys[np.ix_(chosen, chosen)].sum()
            out[T] = common + s / g2 * seen.scores[:, :, chosen].sum(2) - length2 / (2 * g2)
        return out

    def _location_marginals(self, seen: Seen) -> np.ndarray:
        """(n, F, L)."""
        ratios = self._log_ratios(seen)
        left = self._log_partial_sums(ratios, range(self.length))
        right = self._log_partial_sums(ratios, range(self.length - 1, -1, -1))
        everything = frozenset(range(self.directions))
        total = left[-1][everything]
        logs = {}
        for l in range(self.length):
            before = left[l]
            after = right[self.length - 1 - l]
            for T in self._token_sets:
                rest = everything - T
                ways = [before[S] + after[rest - S] for S in self._all_sets if rest >= S]
                logs[T, l] = ratios[T][:, l] + np.logaddexp.reduce(ways) - total
        out = np.zeros((len(total), self.directions, self.length))
        for f in range(self.directions):
            own = [(l, log) for (T, l), log in logs.items() if f in T]
            # Shares sum to 1, unless logarithms beyond 1e15 have roundings of more than 1, which
            # make them any numbers: then the largest counts as the whole.
            most = np.max([log for _, log in own], axis=0)
            shift = np.where((most > 1) | (most < -SMALLEST_EXPONENT), most, 0.0)
            for l, log in own:
                out[:, f, l] += np.exp(log - shift)
        return out / out.sum(2, keepdims=True)  # the sum is 1 up to rounding

    def _log_partial_sums(
        self, ratios: dict[Set, np.ndarray], order: range
    ) -> list[dict[Set, np.ndarray]]:
        """Entry i: log Z(S) over the first i tokens in this order, for every set S."""
        n = len(next(iter(ratios.values())))
        states = [{S: np.full(n, 0.0 if not S else -np.inf) for S in self._all_sets}]
        for l in order:
            old = states[-1]
            states.append(
                {
                    S: np.logaddexp.reduce(
                        [
                            old[S],
                            *(
                                ratios[T][:, l] + old[S - T]
                                for T in self._token_sets
                                if T <= S
                            ),
                        ]
                    )
                    for S in self._all_sets
                }
            )
        return states

    def _moments(self, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
        """(mean, variance) of sum_f x_{J_f}.v_f given the tokens, (n,) each."""
        ratios = self._log_ratios(seen)
        n = len(seen.squares)
        zero = np.zeros(n)
        state = {
            S: (zero if not S else np.full(n, -np.inf), zero, zero) for S in self._all_sets
        }
        for l in range(self.length):
            label_parts = {T: seen.outputs[:, l, sorted(T)].sum(1) for T in self._token_sets}
            old = state
            state = {
                S: mixture(
                    [
                        old[S],
                        *(
                            (
                                old[S - T][0] + ratios[T][:, l],
                                old[S - T][1] + label_parts[T],
                                old[S - T][2],
                            )
                            for T in self._token_sets
                            if T <= S
                        ),
                    ]
                )
                for S in self._all_sets
            }
        return state[frozenset(range(self.directions))][1:]


def unit_rows(x: object, what: str, of: str, count: int | None, dim: int) -> np.ndarray:
    """(count, dim) unit rows as float64, or one sentence."""
    rows = check.array(x, what, of, (count, dim))
    return np.stack([check.unit_vector(row, f"a row of {what}", of, dim) for row in rows])


def orthonormal_rows(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The rows made orthonormal, each orthogonal to all rows of `known`;
    twice, which removes the first pass's roundoff.
    """
    axes = np.linalg.qr(known.T)[0] if len(known) else np.empty((rows.shape[1], 0))
    for _ in range(2):
        rows = rows - (rows @ axes) @ axes.T
        rows = np.linalg.qr(rows.T)[0].T
    return rows
