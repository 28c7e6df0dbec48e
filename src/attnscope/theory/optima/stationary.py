"""A stationary point: its overlaps, its risk, the spectrum of its Hessian and its name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnscope.html_tables import NotebookList, card, table
from attnscope.numerics.border.estimate import Estimate
from attnscope.theory.overlaps import Overlaps

__all__ = [
    "StationaryPoint",
    "StationaryPoints",
    "kind_of",
    "name_of",
    "signs_of",
    "sure_signs",
]

# eigenvalues below this fraction of the largest count as zero modes (symmetries; differences are
# good to 1e-9)
ZERO_MODE_SHARE = 1e-9
# a point with a larger share of zero modes has no kind; symmetries explain at most about half (k or
# v turns freely)
FLAT_MODE_SHARE = 0.75
SIGNIFICANT_ERRORS = 5.0  # standard errors: a false alarm in 10^6


@dataclass(frozen=True)
class StationaryPoint:
    """A critical point of the risk on the product of unit spheres, up to rotations that fix the
    teachers and to signs of trained vectors that do not change the risk.

    Attributes:
        name: "oracle", "swapped", "degenerate", ...: `stationary_points` lists them.
        overlaps: of one head; of several heads arrays (H,), each with the first key and value.
        risk: of the point, with its error.
        eigenvalues, multiplicities: of the Riemannian Hessian, (m,) each, in increasing order.
        kind: "minimum", "saddle", "maximum", "flat" where the risk is constant to second order in
            most directions, or "undecided" where the error of an eigenvalue reaches across 0.
        gram: of (trained vectors, teachers).
        errors: standard errors of the eigenvalues on nodes; None where they are exact.
        away: how far, in any inner product, nodes may have moved the point.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> oracle, *others = at.stationary_points(task, at.Erf(0.1))
    >>> oracle.name, oracle.kind, [point.name for point in others]
    ('oracle', 'minimum', ['swapped', 'degenerate'])
    """

    name: str
    overlaps: Overlaps
    risk: Estimate
    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    kind: str
    gram: np.ndarray | None = None
    errors: np.ndarray | None = None
    away: float = 0.0

    def count(self, sign: int) -> int:
        """Number of Hessian directions of this sign in the ambient space: -1, 0 or 1."""
        return int(self.multiplicities[self.signs() == sign].sum())

    def signs(self) -> np.ndarray:
        """Of the eigenvalues; 0 for zero modes and where errors reach across 0."""
        if self.errors is None:
            return signs_of(self.eigenvalues)
        return sure_signs(self.eigenvalues, self.errors)


class StationaryPoints(NotebookList[StationaryPoint]):
    """A list of points, a table in a notebook."""

    def _repr_html_(self) -> str:
        head = ["point", "kind", "risk", "error", *Overlaps._fields]
        head += ["lowest curvature", "highest", "directions down"]
        rows = [_table_row(point) for point in self]
        return card(table("stationary points, best risk first", head, rows))


def _table_row(point: StationaryPoint) -> list[str]:
    """A point as a row of the table."""
    # zero modes are shown as zero
    signed = np.where(point.signs() == 0, 0.0, point.eigenvalues)
    ends = (float(signed.min()), float(signed.max()))
    return [
        point.name,
        point.kind,
        f"{point.risk.value:.5g}",
        f"{point.risk.error:.0e}",
        *(" ".join(f"{v:.4f}" for v in np.atleast_1d(x)) for x in point.overlaps),
        *(f"{x:.4g}" for x in ends),
        str(point.count(-1)),
    ]


def name_of(o: np.ndarray, near: float) -> str:
    """What the point with these overlaps, known to `near`, is called (`stationary_points`)."""
    kap, eta, the, nu, _ = o
    if min(abs(kap), abs(nu)) > 1 - near:
        return "oracle" if min(kap, nu) > 0 else "reversed"
    if max(abs(kap), abs(eta), abs(the), abs(nu)) < near:
        return "degenerate"
    return "swapped" if eta**2 > kap**2 and the**2 > nu**2 else "other"


def kind_of(signs: np.ndarray, multiplicities: np.ndarray) -> str:
    if (signs >= 0).all() and multiplicities[
        signs == 0
    ].sum() > FLAT_MODE_SHARE * multiplicities.sum():
        return "flat"
    return "minimum" if (signs >= 0).all() else "maximum" if (signs <= 0).all() else "saddle"


def signs_of(eigenvalues: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Signs, 0 below ZERO_MODE_SHARE of the largest eigenvalue or of the scale on which the
    differences behind
    them are good to ZERO_MODE_SHARE.
    """
    size = np.abs(eigenvalues)
    return np.where(
        size <= ZERO_MODE_SHARE * max(size.max(), scale), 0, np.sign(eigenvalues)
    ).astype(int)


def sure_signs(eigenvalues: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Signs of eigenvalues with standard errors; 0 where 5 of them reach across 0."""
    return np.where(
        np.abs(eigenvalues) > SIGNIFICANT_ERRORS * errors, np.sign(eigenvalues), 0
    ).astype(int)
