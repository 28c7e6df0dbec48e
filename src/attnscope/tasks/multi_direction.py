"""Several informative tokens with a direction pair each: Y is the sum of what they say.

notation: d = dim, L = length, F = directions, s = signal, gam = gamma, eps = noise, k_f = k_f*, v_f = v_f*, mu_T = s sum_{f in T} k_f.

Position J_f carries direction f. Positions are a uniform ordered choice of F "distinct" ones, or "independent" and uniform, and then
may coincide. Given them the tokens are independent; with T_l = {f: J_f = l} the directions that meet at l,

    X_l ~ N(mu_{T_l}, gam^2 I_d) where T_l is not empty, else N(0, I_d),      Y = sum_f X_{J_f}.v_f + eps N(0, 1).

A token that carries T has the likelihood ratio against the background

    log r_T(x) = -d log gam - |mu_T|^2/(2 gam^2) + mu_T.x/gam^2 - (1/gam^2 - 1)|x|^2/2,     r_empty = 1,

and P(J | X) ~ prod_l r_{T_l}(x_l). Sums over all positions go token by token over the set S of directions already placed,
    Z_l(S) = sum_{T in S} r_T(x_l) Z_{l-1}(S - T)        (|T| <= 1 where positions are distinct),
in logarithms and without a subtraction; marginals P(J_f = l | X) from this and the same sum from the right (for F = 2, distinct: p_1l ~ r_1l
times the sum of r_2 over the other tokens). Carrying the mean and variance of sum_f x_{J_f}.v_f along (mixtures of Gaussian-free moments,
all terms positive) gives E[Y | X] and Var(Y | X).

The Bayes risk is E Var(Y | X): the weighted mean of the exact posterior variance over sequences that are drawn where mistakes happen
(direction_moves; the position is averaged out exactly; the outputs x.v_f too where gam = 1 and all vectors are orthonormal,
R = E sum_f (1 - sum_l p_fl^2)), with its standard error. Where moreover positions are independent, mu_T.x - |mu_T|^2/2 is a sum over f,
the posterior factorises and the risk is exactly F times that of single-location regression.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.numerics.log_mixture import mixture
from attnscope.numerics.sampled_estimate import grouped_log_mean, groups_of, sampled_estimate
from attnscope.numerics.semidefinite import frame_of
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.tasks.direction_moves import Laws, log_density, moved
from attnscope.tasks.planted import curvature
from attnscope.tasks.sampled import Sampled
from attnscope.tasks.single_location import SingleLocation

__all__ = ["DirectionBatch", "MultiDirection", "orthonormal_rows"]

NAME = "MultiDirection"
MOST = 6  # directions: the sums cost 3^F or F 2^F per token
BLOCK = 1 << 20  # numbers worked on at a time: 8 MB arrays
ORTHOGONAL = 1e-12  # inner products of given vectors below this are roundoff and count as 0
POSITIONS = ("distinct", "independent")

Set = frozenset[int]


class DirectionBatch(NamedTuple):
    """tokens (n, L, d), target (n,), location (n, F) 0-based: column f is where direction f sits."""

    tokens: np.ndarray
    target: np.ndarray
    location: np.ndarray


class Seen(NamedTuple):
    """All that inference needs of tokens: projections on keys and values, (n, L, F) each, and squared lengths (n, L)."""

    scores: np.ndarray
    outputs: np.ndarray
    squares: np.ndarray


class MultiDirection(Sampled[DirectionBatch]):
    """`directions` tokens of a sequence each carry a part of the label (module docstring).

    Args:
        dim: d; at least 2 `directions` where vectors are drawn.
        length: L, at least `directions` where positions are distinct.
        directions: F, from 1 to 6.
        positions: "distinct" or "independent".
        gamma, noise, signal: as in SingleLocation; signal None is sqrt(dim/2).
        keys, values: (F, dim) unit rows k_f*, v_f*; where None, drawn from `seed` on first access, orthonormal among all.

    >>> task = MultiDirection(dim=80, length=10, directions=2)
    >>> batch = task.sample(3, seed=1)
    >>> batch.tokens.shape, batch.target.shape, batch.location.shape, task.posterior(batch.tokens).shape
    ((3, 10, 80), (3,), (3, 2), (3, 2, 10))
    """

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
        self.directions = F = check.integer(directions, "directions", NAME, 1, MOST)
        self.dim = check.integer(dim, "dim", NAME, 1)
        if positions not in POSITIONS:
            raise bad("positions", NAME, "'distinct' or 'independent'", positions)
        self.positions = positions
        self.length = check.integer(length, "length", NAME, F if positions == "distinct" else 1)
        self.gamma = check.real(gamma, "gamma", NAME, 0, strict=True, hint="gamma=0.5**0.5")
        self.noise = check.real(noise, "noise", NAME, 0)
        self.signal = check.real(math.sqrt(self.dim / 2) if signal is None else signal, "signal", NAME, 0)
        self.seed = check.seed_value(seed, NAME)
        self._keys = None if keys is None else unit_rows(keys, "keys", NAME, F, self.dim)
        self._values = None if values is None else unit_rows(values, "values", NAME, F, self.dim)
        if (keys is None or values is None) and self.dim < 2 * F:
            raise bad("dim", NAME, f"an integer >= {2 * F}, for {2 * F} orthonormal vectors", self.dim)

    def __repr__(self) -> str:
        numbers = f"gamma={self.gamma:g}, noise={self.noise:g}, signal={self.signal:g}, seed={self.seed}"
        return f"{NAME}({self.dim}, {self.length}, {self.directions}, {self.positions!r}, {numbers})"

    @property
    def given(self) -> dict[str, np.ndarray | None]:
        """The arrays this task was given (None where it draws them): with its numbers, all that is needed to rebuild it."""
        return {"keys": self._keys, "values": self._values}

    @cached_property
    def keys(self) -> np.ndarray:
        """k_f*, unit rows (F, dim)."""
        known = np.empty((0, self.dim)) if self._values is None else self._values
        return self._drawn(0, known) if self._keys is None else self._keys

    @cached_property
    def values(self) -> np.ndarray:
        """v_f*, unit rows (F, dim)."""
        return self._drawn(1, self.keys) if self._values is None else self._values

    def _drawn(self, stream: int, known: np.ndarray) -> np.ndarray:
        check.fits_in_memory(4 * self.directions * self.dim, 8, "keys and values", NAME, "bayes_risk, which needs none")
        rows = np.random.default_rng([self.seed, stream]).standard_normal((self.directions, self.dim))
        return orthonormal_rows(rows, known)

    @property
    def teachers(self) -> np.ndarray:
        """(2F, dim): k_1*, v_1*, k_2*, v_2*, ..."""
        return np.stack([self.keys, self.values], axis=1).reshape(-1, self.dim)

    @cached_property
    def teacher_gram(self) -> np.ndarray:
        """Inner products (2F, 2F) of (k_1*, v_1*, k_2*, v_2*, ...); drawn vectors are orthogonal to all others without being made."""
        F = self.directions
        blocks = np.zeros((2 * F, 2 * F))
        for i, x in enumerate((self._keys, self._values)):
            blocks[i::2, i::2] = np.eye(F) if x is None else x @ x.T
        if self._keys is not None and self._values is not None:
            blocks[0::2, 1::2] = self._keys @ self._values.T
            blocks[1::2, 0::2] = blocks[0::2, 1::2].T
        return np.where(np.abs(blocks) > ORTHOGONAL, blocks, 0.0)

    # -- data -------------------------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> DirectionBatch:
        location, rows = self._locations(n, rng), np.arange(n)
        noise = self.noise * rng.standard_normal(n)
        tokens = rng.standard_normal((n, self.length, self.dim), dtype=dtype.type)
        tokens[self._marked(location)] *= self.gamma
        for f in range(self.directions):
            tokens[rows, location[:, f]] += (self.signal * self.keys[f]).astype(dtype)
        said = [
            tokens[rows, location[:, f]].astype(np.float64) @ self.values[f] for f in range(self.directions)
        ]  # labels of the tokens as stored
        return DirectionBatch(tokens, np.sum(said, axis=0) + noise, location)

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py); teachers k_1*, v_1*, k_2*, v_2*, ..."""
        location = self._locations(n, rng)
        rows = np.arange(n)
        means = np.zeros((n, self.length, 2 * self.directions))
        for f in range(self.directions):
            means[rows, location[:, f], 2 * f] = self.signal
        scales = np.where(self._marked(location), self.gamma, 1.0)
        fields = gaussian_fields(means, scales, gram, rng)
        students = len(gram) - 2 * self.directions
        said = [fields[rows, location[:, f], students + 2 * f + 1] for f in range(self.directions)]
        return Projections(fields, np.sum(said, axis=0), location, scales)

    def _locations(self, n: int, rng: np.random.Generator) -> np.ndarray:
        if self.positions == "independent":
            return rng.integers(self.length, size=(n, self.directions))
        return np.argsort(rng.random((n, self.length)), axis=1)[:, : self.directions]

    def _marked(self, location: np.ndarray) -> np.ndarray:
        """(n, L): which tokens carry at least one direction."""
        out = np.zeros((len(location), self.length), dtype=bool)
        np.put_along_axis(out, location, True, axis=1)
        return out

    # -- inference --------------------------------------------------------------------------------------------------

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(J_f = l | X), (n, F, L), exact."""
        return np.concatenate([self._marginals(seen) for seen in self._look(tokens, "posterior")])

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return np.concatenate([self._moments(seen)[0] for seen in self._look(tokens, "bayes_predict")])

    def posterior_variance(self, tokens: np.ndarray) -> np.ndarray:
        """Var(Y | X) without the label noise, (n,), exact: the squared error to expect of bayes_predict on each sequence."""
        return np.concatenate([self._moments(seen)[1] for seen in self._look(tokens, "posterior_variance")])

    def _look(self, tokens: np.ndarray, method: str) -> Iterator[Seen]:
        x, _ = check.tokens_array(tokens, f"{NAME}.{method}", self.length, self.dim)
        block = max(1, BLOCK // (self.length * self.dim))
        for i in range(0, len(x), block):
            part = x[i : i + block].astype(np.float64)
            yield Seen(part @ self.keys.T, part @ self.values.T, np.einsum("nld,nld->nl", part, part))

    @cached_property
    def _carried(self) -> list[Set]:
        """The sets of directions one token may carry, none excepted."""
        most = self.directions if self.positions == "independent" else 1
        return [frozenset(c) for size in range(1, most + 1) for c in combinations(range(self.directions), size)]

    @cached_property
    def _placed(self) -> list[Set]:
        """All sets of directions, small ones first."""
        F = self.directions
        return [frozenset(c) for size in range(F + 1) for c in combinations(range(F), size)]

    def _log_ratios(self, seen: Seen) -> dict[Set, np.ndarray]:
        """log r_T(x_l), (n, L), of every set T a token may carry (module docstring)."""
        g2, s = self.gamma**2, self.signal
        keys = self.teacher_gram[0::2, 0::2]
        common = -self.dim * math.log(self.gamma) - curvature(self.gamma) / 2 * seen.squares
        out = {}
        for T in self._carried:
            chosen = sorted(T)
            length2 = s * s * keys[np.ix_(chosen, chosen)].sum()
            out[T] = common + s / g2 * seen.scores[:, :, chosen].sum(2) - length2 / (2 * g2)
        return out

    def _marginals(self, seen: Seen) -> np.ndarray:
        """(n, F, L)."""
        ratios = self._log_ratios(seen)
        left, right = self._sums(ratios, range(self.length)), self._sums(ratios, range(self.length - 1, -1, -1))
        everything = frozenset(range(self.directions))
        total = left[-1][everything]
        out = np.zeros((len(total), self.directions, self.length))
        for l in range(self.length):
            before, after = left[l], right[self.length - 1 - l]
            for T in self._carried:
                rest = everything - T
                ways = [before[S] + after[rest - S] for S in self._placed if rest >= S]
                mass = np.exp(ratios[T][:, l] + np.logaddexp.reduce(ways) - total)
                out[:, sorted(T), l] += mass[:, None]
        return out / out.sum(2, keepdims=True)  # the sum is 1 up to rounding

    def _sums(self, ratios: dict[Set, np.ndarray], order: range) -> list[dict[Set, np.ndarray]]:
        """Entry i: log Z(S) over the first i tokens in this order, for every set S."""
        n = len(next(iter(ratios.values())))
        states = [{S: np.full(n, 0.0 if not S else -np.inf) for S in self._placed}]
        for l in order:
            old = states[-1]
            states.append(
                {
                    S: np.logaddexp.reduce([old[S], *(ratios[T][:, l] + old[S - T] for T in self._carried if T <= S)])
                    for S in self._placed
                }
            )
        return states

    def _moments(self, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
        """(mean, variance) of sum_f x_{J_f}.v_f given the tokens, (n,) each."""
        ratios, n = self._log_ratios(seen), len(seen.squares)
        zero = np.zeros(n)
        state = {S: (zero if not S else np.full(n, -np.inf), zero, zero) for S in self._placed}
        for l in range(self.length):
            said = {T: seen.outputs[:, l, sorted(T)].sum(1) for T in self._carried}
            old = state
            state = {
                S: mixture(
                    [
                        old[S],
                        *(
                            (old[S - T][0] + ratios[T][:, l], old[S - T][1] + said[T], old[S - T][2])
                            for T in self._carried
                            if T <= S
                        ),
                    ]
                )
                for S in self._placed
            }
        return state[frozenset(range(self.directions))][1:]

    # -- risks ------------------------------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Risk of predicting E Y without looking at the tokens: F gam^2 (+ noise^2) for orthonormal vectors.

        Where two positions can coincide, which two of F do with probability 1/L, independently for any two pairs, vectors that are not
        orthogonal add gam^2 v_f.v_g and (1/L)(1 - 1/L) s^2 (k_g.v_f + k_f.v_g)^2/2 for every ordered pair.
        """
        G, L, excess = self.teacher_gram, self.length, self.directions * self.gamma**2
        if self.positions == "independent":
            for f, g in combinations(range(self.directions), 2):
                cross = self.signal * (G[2 * g, 2 * f + 1] + G[2 * f, 2 * g + 1])
                excess += 2 * self.gamma**2 * G[2 * f + 1, 2 * g + 1] / L + cross**2 / L * (1 - 1 / L)
        return estimate(excess, 1e-14 * excess, "closed form", self.noise)

    @property
    def factorises(self) -> bool:
        """Whether the posterior is a product over directions, and the Bayes risk a sum (module docstring)."""
        if self.directions == 1:
            return self.dim > 1  # a SingleLocation, which has two directions
        return self._plain and self.positions == "independent"

    @property
    def _plain(self) -> bool:
        """Whether outputs x_l.v_f are standard normal and independent of the posterior: gam = 1 and orthonormal vectors."""
        return self.gamma == 1 and np.array_equal(self.teacher_gram, np.eye(2 * self.directions))

    def _scored_variance(self, seen: Seen) -> np.ndarray:
        """E[Var(Y | X) | scores] = sum_f (1 - sum_l p_fl^2): the outputs averaged out as well."""
        p = self._marginals(seen)
        np.put_along_axis(p, p.argmax(2)[..., None], 0.0, axis=2)
        missed = p.sum(2)  # 1 - p_top: 1 - p_top^2 keeps its digits as 2 missed - missed^2
        return (2 * missed - missed**2 - (p**2).sum(2)).sum(1)

    def bayes_risk(self, samples: int = 45_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: exact where `factorises`, else the mean exact posterior variance of `samples` sequences.

        Sequences are drawn halfway between two placements of the directions (direction_moves), so that rare mistakes are seen.
        """
        of = f"{NAME}.bayes_risk"
        n, seed = check.integer(samples, "samples", of, 2), check.seed_value(seed, of)
        if self.factorises:
            return self._exact_bayes_risk()
        self._laws().within_reach(self.length, of)
        parts = self._laws().parts(self.length)
        groups, each = groups_of(n, len(parts))
        rng, logs = np.random.default_rng([seed, 5]), []
        rows = max(1, BLOCK // (16 * self.length * self.directions * groups))
        for kind in parts:
            for i in range(0, each, rows):
                logs.append(self._log_terms(kind, min(rows, each - i), groups, rng))
        out = grouped_log_mean(np.concatenate(logs), groups)
        return sampled_estimate(
            out, float(self.null_risk().excess), self.noise, "importance-sampled posterior variances"
        )

    def _log_terms(self, kind: int, each: int, groups: int, rng: np.random.Generator) -> np.ndarray:
        """log of (posterior variance times true over sampling density) of each * groups sequences after such a move."""
        seen, location = self._projected(each * groups, rng, kind, groups)
        spread = self._scored_variance(seen) if self._plain else self._moments(seen)[1]
        with np.errstate(divide="ignore"):
            return np.log(spread) - log_density(self._laws(), location, self._ratio_table(seen))

    def _laws(self) -> Laws:
        gram = self.teacher_gram[0::2, 0::2]
        return Laws(self.dim, self.gamma, self.signal, gram, self.positions == "distinct")

    def _ratio_table(self, seen: Seen) -> np.ndarray:
        """log r_T by bit mask of T, (2^F, n, L); 0 for no direction, -inf where one token cannot carry T."""
        table = np.full((1 << self.directions, *seen.squares.shape), -np.inf)
        table[0] = 0.0
        for T, logs in self._log_ratios(seen).items():
            table[sum(1 << f for f in T)] = logs
        return table

    def _exact_bayes_risk(self) -> Estimate:
        c, F = float(self.teacher_gram[0, 1]), self.directions
        vectors = {} if c == 0 else {"key": self.keys[0], "value": self.values[0]}
        single = SingleLocation(self.dim, self.length, self.gamma, 0.0, self.signal, **vectors).bayes_risk()
        logs = single.log_excess + math.log(F)
        return estimate(F * single.excess, F * single.error, single.method, self.noise, logs)

    def _projected(self, n: int, rng: np.random.Generator, kind: int = 0, groups: int = 1) -> tuple[Seen, np.ndarray]:
        """What inference sees of n sequences after a move of this kind (0: none), and the true positions.

        Drawn in law, at a cost that does not depend on the dimension.
        """
        frame = frame_of(self.teacher_gram)  # (2F, q): the teachers; a dependent one adds no axis
        location = self._locations(n, rng)
        noise = rng.standard_normal((n, self.length, frame.shape[1]))
        drawn = moved(kind, self._laws(), location, noise, frame[0::2], groups, rng)
        x = drawn.scale[:, :, None] * drawn.noise + self.signal * (drawn.share @ frame[0::2])
        rest = self.dim - frame.shape[1]
        outside = drawn.scale**2 * rng.chisquare(rest, drawn.scale.shape) if rest else 0.0
        seen = x @ frame.T
        return Seen(seen[:, :, 0::2], seen[:, :, 1::2], (x * x).sum(2) + outside), location


def unit_rows(x: object, what: str, of: str, count: int | None, dim: int) -> np.ndarray:
    """(count, dim) unit rows as float64, or one sentence."""
    rows = check.array(x, what, of, (count, dim))
    return np.stack([check.unit_vector(row, f"a row of {what}", of, dim) for row in rows])


def orthonormal_rows(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The rows made orthonormal, each orthogonal to all rows of `known`; twice, which removes the first pass's roundoff."""
    axes = np.linalg.qr(known.T)[0] if len(known) else np.empty((rows.shape[1], 0))
    for _ in range(2):
        rows = rows - (rows @ axes) @ axes.T
        rows = np.linalg.qr(rows.T)[0].T
    return rows
