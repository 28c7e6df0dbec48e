"""EM over batches that do not fit in memory together: additive sums, O(d^2) memory per start.

Pass 1 adds up the scale of tokens and labels, pass 2 the moments for the starts. Every later pass
is one EM step of every start; after SCREEN_PASSES passes only the start that predicts best goes on.
One EM step over batches equals one over all bags at once up to the rounding of sums.

Classes: the logistic regression of the M step is not additive, but one step of it on a quadratic
bound is. notation: x = (1, token), rho = r weight, w = V^T x the old logits, p = their
probabilities, a = ridge (not on the bias).

    two classes   log s(z) >= log s(w) + (z-w)/2 - l(w)(z^2 - w^2), l(w) = tanh(w/2)/(4w)
        (Jaakkola and Jordan 2000)
                   V <- (sum 2 l(w) rho x x^T + a)^-1 sum rho (t - 1/2) x
    more           the Hessian is at most (1/2)(I - 11^T/C) in the classes           (Boehning 1992)
                   V <- V + ((1/2) sum rho x x^T + a)^-1 (sum rho (t - p)^T x - a V)

Both bounds touch the likelihood at the old V. So the penalised likelihood never falls, and a fixed
point of these passes is a fixed point of EM with a complete M step. (Columns of V sum to zero at
the start and stay so; there I - 11^T/C is the identity.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.linalg.blas import dsyrk

from attnscope.estimators.fit.data import (
    Data,
    Scaling,
    label_log_density,
    one_hot,
    scaling_of,
)
from attnscope.estimators.fit.em import Em, Sums, add, e_step, m_step, scores
from attnscope.estimators.fit.mixture import probabilities
from attnscope.estimators.fit.ridge import Values
from attnscope.estimators.fit.starts import (
    CLASS_PRECISION,
    BagMoments,
    add_moments,
    bag_moments,
    make_starts,
)
from attnscope.numerics.compiled.data_pass import BERNOULLI, GAUSSIAN, bag_softmax, bag_sum

__all__ = ["SCREEN_PASSES", "Stream", "batch_moments", "class_step", "class_sums"]

# EM passes before one start is chosen: by then right and wrong basins differ
SCREEN_PASSES = 6
# tokens per bag from which adding a matrix per bag is cheap compared with making it
LONG_BAG_TOKENS = 16


@dataclass
class Stream:
    """State between batches; `end_pass` turns the sums of a pass into parameters."""

    quadratic: bool
    n_starts: int
    seed: int
    dof: float = np.inf
    ridge: float | None = None
    family: int = GAUSSIAN
    outputs: int = 1
    passes: int = 0
    scaling: Scaling | None = None
    ems: dict[str, Em] = field(default_factory=dict)
    totals: list[np.ndarray] | None = None
    moments: BagMoments | None = None
    sums: dict[str, Sums] = field(default_factory=dict)
    class_sums: dict[str, np.ndarray] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    lengths: list[np.ndarray] = field(default_factory=list)  # of the bags of each batch

    def add_batch(
        self, tokens: np.ndarray, offsets: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> None:
        """y: numbers, or class indices (in the first pass of classes: zeros, they have no
        scale).
        """
        if self.passes == 0:
            self._add_scale(tokens, offsets, y, weight)
            self.lengths.append(np.diff(offsets))
            return
        assert self.scaling is not None
        labels = (y - self.scaling.label_mean) / self.scaling.label_scale
        data = Data(
            self.scaling.tokens(tokens),
            offsets,
            labels,
            weight,
            self.family,
            self.outputs,
            self.scaling.origin,
        )
        if self.passes == 1:
            new = batch_moments(data)
            self.moments = new if self.moments is None else add_moments(self.moments, new)
            return
        for name, em in self.ems.items():
            self._add_step(name, em, data)

    def blank(self) -> Stream:
        """The same parameters without the sums of the current pass, for a worker that adds a part."""
        totals = self.totals and [self.totals[0], *(0 * part for part in self.totals[1:5])]
        if totals:
            totals.append(self.totals[5])  # type: ignore[index]
        empty: dict = {"moments": None, "sums": {}, "class_sums": {}, "errors": {}}
        return replace(self, totals=totals, lengths=[], **empty)

    def absorb(self, part: Stream) -> None:
        """Add the sums of a `blank` stream that read a part of the pass."""
        if self.passes == 0:
            assert self.totals is not None and part.totals is not None
            for mine, theirs in zip(self.totals[1:5], part.totals[1:5]):
                mine += theirs
            self.lengths += part.lengths
        elif self.passes == 1:
            assert part.moments is not None
            mine_too = self.moments
            self.moments = (
                part.moments if mine_too is None else add_moments(mine_too, part.moments)
            )
        for name, sums in part.sums.items():
            self.sums[name] = add(self.sums[name], sums) if name in self.sums else sums
            self.errors[name] = self.errors.get(name, 0.0) + part.errors[name]
            if name in part.class_sums:
                self.class_sums[name] = self.class_sums.get(name, 0.0) + part.class_sums[name]

    def _add_step(self, name: str, em: Em, data: Data) -> None:
        new, r = e_step(em, data)
        self.sums[name] = add(self.sums[name], new) if name in self.sums else new
        error = float(new.bags[3])
        if self.family != GAUSSIAN:
            self.class_sums[name] = self.class_sums.get(name, 0.0) + class_sums(
                em.values, data, r
            )
            error = _log_loss(em, data)
        self.errors[name] = self.errors.get(name, 0.0) + error

    def centre(self, tokens: np.ndarray, y: np.ndarray) -> None:
        """Start sums about the mean of these tokens, so that differences of squares do not cancel."""
        mean = tokens.mean(axis=0)
        d = len(mean)
        self.totals = [
            mean,
            np.zeros(1),
            np.zeros(d),
            np.zeros(d),
            np.zeros(3),
            y[:1].copy(),
        ]

    def _add_scale(
        self, tokens: np.ndarray, offsets: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> None:
        each = np.repeat(weight, np.diff(offsets))
        if self.totals is None:
            self.centre(tokens, y)
        assert self.totals is not None
        centre, count, total, square, labels, base = self.totals
        x = tokens - centre
        t = y - base
        count += each.sum()
        total += each @ x
        square += each @ x**2
        labels += np.array([weight.sum(), weight @ t, weight @ t**2])

    def end_pass(self) -> None:
        if self.passes == 0:
            self.scaling = self._scaling_from_totals()
        elif self.passes == 1:
            self.ems = self._make_starts()
        else:
            self.ems = {name: self._step_em(name, em) for name, em in self.ems.items()}
            # the first is what predictions use meanwhile
            best = sorted(self.ems, key=lambda name: self.errors[name])
            self.ems = {
                name: self.ems[name]
                for name in (best[:1] if self.passes == 1 + SCREEN_PASSES else best)
            }
            self.sums = {}
            self.class_sums = {}
            self.errors = {}
        self.passes += 1

    def _make_starts(self) -> dict[str, Em]:
        assert self.moments is not None and self.scaling is not None
        precision = (
            CLASS_PRECISION if self.ridge is None or self.family == GAUSSIAN else self.ridge
        )
        return make_starts(
            self.moments,
            self.family,
            self.scaling.origin,
            self.n_starts,
            self.seed,
            self.dof,
            precision,
        )

    def _step_em(self, name: str, em: Em) -> Em:
        assert self.scaling is not None
        new = m_step(
            em,
            self.sums[name],
            self.quadratic,
            self.family,
            self.ridge,
            self.scaling.origin,
        )
        if self.family == GAUSSIAN:
            return new
        return new._replace(values=class_step(em.values, self.class_sums[name]))

    def _scaling_from_totals(self) -> Scaling:
        assert self.totals is not None
        centre, count, total, square, labels, base = self.totals
        scaling = scaling_of(float(count[0]), total, square, np.zeros(1), np.ones(1))
        mean, second = labels[1:] / labels[0]
        spread = float(np.sqrt(max(second - mean**2, 0)))
        label_mean = float(base[0] + mean)
        spread = spread if spread > 1e-9 * abs(label_mean) else 1.0
        return Scaling(scaling.mean + centre, scaling.scale, label_mean, spread)


def batch_moments(data: Data) -> BagMoments:
    """`bag_moments` with one Gram matrix of (1, x) per bag, from which every sum follows, instead
    of one of all tokens for every output: for bags of many tokens.
    """
    if len(data.tokens) < LONG_BAG_TOKENS * data.size:
        return bag_moments(data)
    y = one_hot(data)
    d = data.tokens.shape[1]
    total = np.zeros((d, d))
    yxx = np.zeros((y.shape[1], 1 + d, 1 + d))
    s = bag_sum(data.tokens, data.offsets)
    for i, (start, stop) in enumerate(pairwise(data.offsets)):
        x = data.tokens[start:stop]
        weight = data.weight[i]
        # x^T x, the upper triangle of it: the other is filled in below, once
        square = dsyrk(weight, x.T)
        total += square
        for c, part in enumerate(y[i]):
            yxx[c, 1:, 1:] += part * square
            yxx[c, 0, 1:] += weight * part * s[i]
            yxx[c, 0, 0] += weight * part * (stop - start)
    s1 = np.column_stack([np.ones(len(s)), s])
    return BagMoments(
        np.concatenate([[data.weight.sum()], data.weight @ y, data.weight @ y**2]),
        float(data.weight @ data.lengths),
        data.weight @ s,
        _symmetric_from_upper(total),
        (s1 * data.weight[:, None]).T @ s1,
        (y * data.weight[:, None]).T @ s,
        np.array([_symmetric_from_upper(part) for part in yxx]),
    )


def _symmetric_from_upper(upper: np.ndarray) -> np.ndarray:
    """A symmetric matrix from its upper triangle."""
    out = np.triu(upper)
    return out + np.triu(out, 1).T


def class_sums(values: Values, data: Data, r: np.ndarray) -> np.ndarray:
    """(1+d, 1+d+m): the bound's curvature beside its linear part, see the module docstring;
    additive over batches.
    """
    x = np.column_stack([np.ones(len(data.tokens)), data.tokens])
    w = data.tokens @ values.weights + values.bias
    rho = r * data.per_token(data.weight)
    t = data.per_token(data.labels)
    if data.family == BERNOULLI:
        half = np.abs(w[:, 0]) / 2
        curve = np.where(
            half > 1e-6, np.tanh(half) / np.maximum(4 * half, 1e-6), 0.25
        )  # 2 l(w); 1/4 at w = 0, to 1e-13
        pull = (t - 0.5)[:, None]
    else:
        curve = np.full(len(x), 0.5)
        pull = np.eye(data.outputs)[t.astype(int)] - probabilities(w)
    weighted = x * rho[:, None]
    return np.hstack([(weighted * curve[:, None]).T @ x, weighted.T @ pull])


def class_step(values: Values, sums: np.ndarray) -> Values:
    """The maximiser of the bound; the bias (first row) has no ridge."""
    size = len(sums)
    m = values.weights.shape[1]
    curvature = sums[:, :size].copy()
    linear = sums[:, size:]
    old = np.vstack([values.bias, values.weights])
    ridge = np.full(size, values.precision)
    # keeps the bias defined where the responsible tokens have no weight
    ridge[0] = 1e-12 * np.trace(curvature)
    curvature[np.diag_indices(size)] += ridge
    if m == 1:
        new = np.linalg.solve(curvature, linear)
    else:
        new = old + np.linalg.solve(curvature, linear - ridge[:, None] * old)
    return values._replace(weights=new[1:], bias=new[0])


def _log_loss(em: Em, data: Data) -> float:
    """Minus the log probability of the labels given the bags, summed:
    what the starts are compared by.
    """
    p = bag_softmax(scores(em.tokens, data.tokens), data.offsets)
    w = data.tokens @ em.values.weights + em.values.bias
    f = np.exp(label_log_density(data.per_token(data.labels), w, data.family, 1.0))
    return -float(data.weight @ np.log(np.maximum(bag_sum(p * f, data.offsets), 1e-300)))
