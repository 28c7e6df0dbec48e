"""The loss of positional or semantic attention, its gradient and its Hessian.

notation: of tasks/planted/positional_semantic.py; f = E[t s](e, m), g = E s(e), h = E s^2(e) from
the table; L the loss.

    L(e, m) = 2 E[((1 - w) t + w A - s)^2]
            = 2 [(1 - w)^2 E t^2 + 2 w (1 - w) A E t + w^2 A^2 + h - 2 (1 - w) f - 2 w A g]

w and A enter as a polynomial, so one table serves the whole diagram. E t = 1 - 1/(2 sqrt 2) in
closed form: u (u - v) has the density e^z K_0(sqrt 2 |z|)/pi, and e^z S(z), made even, is
cosh z - 1/2. L is even in e and in m.

Exact up to the errors of the table (table.py), which `error` bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.whole_values import array_of
from attnscope.tasks.base import checked_law
from attnscope.tasks.planted.positional_semantic import PositionalSemantic
from attnscope.theory.positional_semantic.table import (
    Partials,
    Table,
    partials,
    semantic_table,
    values,
)

__all__ = [
    "PositionalGradient",
    "checked_place",
    "checked_semantic",
    "loss_parts",
    "positional_gradient",
    "positional_loss",
]

# six terms of size up to 2, each a sum of a hundred numbers near 1 at most: measured 4e-15
LOSS_ROUNDING = 2e-14
# derivatives of the Chebyshev series gain factors of 28^2 and 28^4/12 or so over its values
FIRST_DERIVATIVE_ROUNDING = 1e-12
SECOND_DERIVATIVE_ROUNDING = 2e-10
# e^2/P^2 + m^2 may exceed 1 by this: unit vectors up to rounding in float32
OVERLAP_EXCESS_TOLERANCE = 1e-9


class PositionalGradient(NamedTuple):
    """Loss, gradient and Hessian in (e, m), with bounds on their errors.

    Attributes:
        value: (...), the loss.
        gradient: (..., 2), in (e, m).
        hessian: (..., 2, 2).
        gradient_error, hessian_error: bounds on every entry.

    >>> import attnscope as at
    >>> task = at.PositionalSemantic(dim=1000, mix=0.65, contrast=0.75)
    >>> there = at.positional_gradient(task, 0.5, 0.5)
    >>> there.gradient.shape, there.hessian.shape, there.gradient_error < 1e-10
    ((2,), (2, 2), True)
    """

    value: Any
    gradient: np.ndarray
    hessian: np.ndarray
    gradient_error: Any
    hessian_error: Any


def positional_loss(task: PositionalSemantic, e: Any, m: Any) -> Estimate:
    """The loss of a student's key at its two overlaps.

    Args:
        task: a PositionalSemantic.
        e, m: p.k and k*.k, numbers or arrays that broadcast, with e^2/P^2 + m^2 <= 1.

    >>> task = PositionalSemantic(dim=1000, mix=0.65, contrast=0.75)
    >>> found = positional_loss(task, 0.5, 0.5)
    >>> round(found.value, 10), found.error < 1e-13
    (0.0908265939, True)
    """
    of = "positional_loss"
    checked_semantic(task, of)
    e, m = checked_place(task, e, m, of)
    table = semantic_table(task.position)
    f, g, h = values(table, e, m)
    constant, of_f, of_g = loss_parts(task, table)
    # never below 0, where a mean of squares cannot be
    found = np.maximum(constant + of_f * f + of_g * g + 2 * h, 0.0)
    degree = 2 * (table.rows.shape[1] - 3)
    left_out = np.abs(of_f) * table.rest * np.abs(np.broadcast_to(m, f.shape)) ** (degree + 2)
    return estimate(found, left_out + LOSS_ROUNDING, "Hermite series")


def positional_gradient(task: PositionalSemantic, e: Any, m: Any) -> PositionalGradient:
    """Loss, gradient and Hessian in (e, m), exact derivatives of the series.

    Args:
        task: a PositionalSemantic.
        e, m: p.k and k*.k, numbers or arrays that broadcast, with e^2/P^2 + m^2 <= 1.

    >>> task = PositionalSemantic(dim=1000, mix=0.65, contrast=0.75)
    >>> there = positional_gradient(task, 0.5, 0.5)
    >>> there.gradient.round(6).tolist(), there.hessian.round(4).tolist()
    ([0.029999, -0.028914], [[0.0523, 0.0541], [0.0541, -0.0686]])
    """
    of = "positional_gradient"
    checked_semantic(task, of)
    e, m = (np.array(x) for x in np.broadcast_arrays(*checked_place(task, e, m, of)))
    table = semantic_table(task.position)
    p = partials(table, np.atleast_1d(e), np.atleast_1d(m))
    derivatives, tails = loss_derivatives(task, table, p)
    derivatives = derivatives.reshape(6, *e.shape)
    tails = tails.reshape(3, *e.shape)
    _, l_e, l_m, l_ee, l_em, l_mm = derivatives
    gradient = np.stack([l_e, l_m], axis=-1)
    rows = [np.stack([l_ee, l_em], axis=-1), np.stack([l_em, l_mm], axis=-1)]
    scalar = e.ndim == 0
    return PositionalGradient(
        float(derivatives[0]) if scalar else derivatives[0],
        gradient,
        np.stack(rows, axis=-2),
        float(tails[1]) if scalar else tails[1],
        float(tails[2]) if scalar else tails[2],
    )


def loss_parts(task: PositionalSemantic, table: Table) -> tuple[float, float, float]:
    """(constant, factor of f, factor of g) of the loss; that of h is 2."""
    w = task.mix
    a = task.positional_weight
    constant = 2 * ((1 - w) ** 2 * table.square + 2 * w * (1 - w) * a * table.mean)
    return constant + 2 * w**2 * a**2, -4 * (1 - w), -4 * w * a


def loss_derivatives(
    task: PositionalSemantic, table: Table, p: Partials
) -> tuple[np.ndarray, np.ndarray]:
    """(6, ...): L, L_e, L_m, L_ee, L_em, L_mm; (3, ...): bounds by order."""
    constant, of_f, of_g = loss_parts(task, table)
    out = of_f * p.f
    for order, row in enumerate((0, 1, 3)):  # the rows without a derivative in m
        out[row] += of_g * p.g[order] + 2 * p.h[order]
    out[0] = np.maximum(out[0] + constant, 0.0)
    size = np.array([1.0, 1 / table.position, 1 / table.position**2])
    rounding = np.array(
        [LOSS_ROUNDING, FIRST_DERIVATIVE_ROUNDING, SECOND_DERIVATIVE_ROUNDING]
    ) * np.maximum(size, 1)
    return out, abs(of_f) * p.tail + rounding.reshape(-1, *([1] * (p.tail.ndim - 1)))


def checked_semantic(task: object, of: str) -> PositionalSemantic:
    """The task; raises unless it is a PositionalSemantic."""
    return checked_law(task, PositionalSemantic, of, "risk(task, predictor, overlaps)")


def checked_place(
    task: PositionalSemantic, e: object, m: object, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """e and m as arrays that broadcast, on the constraint set to
    OVERLAP_EXCESS_TOLERANCE; raises otherwise.
    """
    pair = []
    for x, name in ((e, "e"), (m, "m")):
        plain = isinstance(x, (list, str, bytes))
        a = x if plain else array_of(x, name, of, "a number or an array of numbers")
        shape = (None,) * (np.ndim(a) if isinstance(a, np.ndarray) else 1)
        pair.append(check.array(a, name, of, shape).astype(np.float64))
    try:
        norm = (pair[0] / task.position) ** 2 + pair[1] ** 2
    except ValueError:
        shapes = f"shapes {pair[0].shape} and {pair[1].shape}"
        raise bad("e and m", of, "arrays that broadcast", shapes) from None
    if norm.max() > 1 + OVERLAP_EXCESS_TOLERANCE:
        must = f"overlaps of a unit vector: e^2/P^2 + m^2 <= 1 with P = {task.position:g}"
        raise bad("(e, m)", of, must, f"{norm.max():.6g}", "task.overlaps(k)")
    return pair[0], pair[1]
