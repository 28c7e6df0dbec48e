"""EM over batches that do not fit in memory together: additive sums, O(d^2) memory per start.

Pass 1 adds up the scale of tokens and labels, pass 2 the moments the starts need, every later pass is one EM step of every
start; after SCREEN passes only the start with the smallest squared prediction error goes on. One EM step over batches equals one
over all bags at once up to the rounding of sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from attnscope.estimators.fit.data import Data, Scaling, scaling_of
from attnscope.estimators.fit.em import Em, Sums, add, e_step, m_step
from attnscope.estimators.fit.starts import BagMoments, add_moments, bag_moments, make_starts
from attnscope.numerics.data_pass import GAUSSIAN

__all__ = ["Stream"]

SCREEN = 6  # EM passes before one start is kept, as in select.py


@dataclass
class Stream:
    """State between batches; `end_pass` turns the sums of a pass into parameters."""

    quadratic: bool
    n_starts: int
    seed: int
    dof: float = np.inf
    ridge: float | None = None
    passes: int = 0
    scaling: Scaling | None = None
    ems: dict[str, Em] = field(default_factory=dict)
    totals: list[np.ndarray] | None = None
    moments: BagMoments | None = None
    sums: dict[str, Sums] = field(default_factory=dict)

    def add_batch(self, tokens: np.ndarray, offsets: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        if self.passes == 0:
            self._add_scale(tokens, offsets, y, weight)
            return
        assert self.scaling is not None
        labels = (y - self.scaling.label_mean) / self.scaling.label_scale
        data = Data(self.scaling.tokens(tokens), offsets, labels, weight, GAUSSIAN, 1)
        if self.passes == 1:
            new = bag_moments(data)
            self.moments = new if self.moments is None else add_moments(self.moments, new)
            return
        for name, em in self.ems.items():
            new_sums, _ = e_step(em, data)
            self.sums[name] = add(self.sums[name], new_sums) if name in self.sums else new_sums

    def _add_scale(self, tokens: np.ndarray, offsets: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        each = np.repeat(weight, np.diff(offsets))
        if self.totals is None:
            centre = tokens.mean(
                axis=0
            )  # sums about the first batch's mean: no cancellation when squares are subtracted
            self.totals = [centre, np.zeros(1), np.zeros(len(centre)), np.zeros(len(centre)), np.zeros(3), y[:1].copy()]
        centre, count, total, square, labels, base = self.totals
        x, t = tokens - centre, y - base
        count += each.sum()
        total += each @ x
        square += each @ x**2
        labels += np.array([weight.sum(), weight @ t, weight @ t**2])

    def end_pass(self) -> None:
        if self.passes == 0:
            self.scaling = self._scale()
        elif self.passes == 1:
            assert self.moments is not None and self.scaling is not None
            origin = -self.scaling.mean / self.scaling.scale
            self.ems = make_starts(self.moments, GAUSSIAN, origin, self.n_starts, self.seed, self.dof)
        else:
            errors = {name: sums.bags[3] for name, sums in self.sums.items()}
            self.ems = {n: m_step(em, self.sums[n], self.quadratic, GAUSSIAN, self.ridge) for n, em in self.ems.items()}
            if self.passes == 1 + SCREEN:
                best = min(errors, key=lambda name: errors[name])
                self.ems = {best: self.ems[best]}
            else:  # the first is the one predictions use meanwhile
                self.ems = dict(sorted(self.ems.items(), key=lambda item: errors[item[0]]))
            self.sums = {}
        self.passes += 1

    def _scale(self) -> Scaling:
        assert self.totals is not None
        centre, count, total, square, labels, base = self.totals
        scaling = scaling_of(float(count[0]), total, square, np.zeros(1), np.ones(1))
        mean, second = labels[1:] / labels[0]
        spread = float(np.sqrt(max(second - mean**2, 0)))
        label_mean = float(base[0] + mean)
        spread = spread if spread > 1e-9 * abs(label_mean) else 1.0
        return Scaling(scaling.mean + centre, scaling.scale, label_mean, spread)
