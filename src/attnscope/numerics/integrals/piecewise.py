"""phi and its moments as piecewise Chebyshev polynomials, for pmfs with so many probabilities that phi
is needed at very many arguments.

Interpolated are q = logit(1 - phi) (smooth at both ends, and it keeps the relative accuracy of phi
AND of 1 - phi), log ratio, mean and log variance. A panel is halved until the last coefficients of
all of them are below COEFFICIENT_TAIL or below the error of its nodes. Left of the range q is already
negligible and its end value is used. The error of a panel is the largest error of its nodes plus
its largest tail.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev

from attnscope.numerics.integrals.mellin import TokenLaw, Transform

__all__ = ["Piecewise"]

Array = np.ndarray

# 16 nodes per panel: near the optimum of panels * nodes for functions whose scale changes along the
# range
DEGREE = 15
# last two coefficients, absolute for q and the logs, in standard deviations for the mean
COEFFICIENT_TAIL = 3e-12
FIRST_PANELS = 12  # before any halving
# beyond so many halvings, or panels in one round, the tail that is left is reported as error
MOST_HALVINGS = 14
MOST_OPEN_PANELS = 1000

CHEBYSHEV_NODES = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(CHEBYSHEV_NODES, DEGREE))


class Piecewise:
    """Interpolant of law.transform on [low, high]; called like it."""

    def __init__(self, law: TokenLaw, variance: bool, low: float, high: float):
        self.law = law
        self.variance = variance
        edges = np.linspace(low, max(high, low + 1), FIRST_PANELS + 1)
        done: list[tuple[Array, ...]] = []
        left = edges[:-1]
        right = edges[1:]
        for halving in range(MOST_HALVINGS + 1):
            coefficients, errors, tails = self._fit_panels(left, right)
            good = (
                (tails < np.maximum(COEFFICIENT_TAIL, errors.max(1)))
                | (halving == MOST_HALVINGS)
                | (left.size > MOST_OPEN_PANELS)
            )
            done.append(
                (
                    left[good],
                    right[good],
                    coefficients[good],
                    errors[good] + tails[good, None],
                )
            )
            middle = 0.5 * (left + right)[~good]
            left = np.concatenate([left[~good], middle])
            right = np.concatenate([middle, right[~good]])
            if not left.size:
                break
        starts, ends, coefficients, errors = (
            np.concatenate(parts) for parts in zip(*done, strict=True)
        )
        order = np.argsort(starts)
        self.starts = starts[order]
        self.ends = ends[order]
        # (functions, degree, panels)
        self.coefficients = coefficients[order].transpose(2, 1, 0).copy()
        self.errors = errors[order]

    def _fit_panels(self, left: Array, right: Array) -> tuple[Array, Array, Array]:
        """Coefficients (panels, degree + 1, functions), node errors (panels, 2)
        and tails (panels,).
        """
        y = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * CHEBYSHEV_NODES
        t = self.law.transform(y.ravel(), self.variance)
        fields = [t.logit]
        if self.law.relevant:
            fields += [np.log(t.ratio)]
        if self.variance:
            fields += [t.mean, np.log(t.variance)]
        values = np.stack(fields, axis=-1).reshape(*y.shape, -1)
        coefficients = np.einsum("kj,pjf->pkf", TO_COEFFICIENTS, values)
        unit = np.ones((len(y), values.shape[2]))
        if self.variance:
            unit[:, 2] = np.sqrt(t.variance.reshape(y.shape).min(1))
        tails = (np.abs(coefficients[:, -2:]).sum(1) / unit).max(1)
        errors = np.stack(
            [e.reshape(y.shape).max(1) for e in (t.error, t.moment_error)], axis=1
        )
        return coefficients, errors, np.where(np.isfinite(tails), tails, np.inf)

    def __call__(self, y: Array) -> Transform:
        panel = np.clip(
            np.searchsorted(self.starts, y, side="right") - 1, 0, self.starts.size - 1
        )
        start = self.starts[panel]
        end = self.ends[panel]
        x = np.clip((2 * y - start - end) / (end - start), -1, 1)
        fields = [_clenshaw(c, panel, x) for c in self.coefficients]
        one = np.ones_like(y)
        ratio = np.exp(fields[1]) if self.law.relevant else one
        mean, variance = (fields[2], np.exp(fields[3])) if self.variance else (one, one)
        return Transform(
            fields[0], self.errors[panel, 0], ratio, mean, variance, self.errors[panel, 1]
        )


def _clenshaw(coefficients: Array, panel: Array, x: Array) -> Array:
    """Chebyshev sum with the coefficients (degree + 1, panels) of each point's panel."""
    double = 2 * x
    b1 = np.zeros_like(x)
    b2 = np.zeros_like(x)
    for row in coefficients[:0:-1]:
        b1, b2 = row[panel] + double * b1 - b2, b1
    return coefficients[0][panel] + x * b1 - b2
