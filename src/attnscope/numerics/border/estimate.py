"""A number with its error.

`excess` is the risk over the label noise and is computed first; `value = excess + noise**2`.
`log_excess` stays accurate where `excess` underflows. `error` bounds (deterministic methods) or is
the standard error of (Monte Carlo) `excess`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.html_tables import card, paragraph, table

__all__ = ["SMALLEST_ERROR", "Estimate", "estimate"]

NUMBER_FIELDS = ("value", "error", "excess", "log_excess")
SMALLEST_ERROR = 5e-324  # the error of an excess that underflows to 0 is still not 0
NOTEBOOK_ROWS = 20  # rows of an array in a notebook
Number = Any  # a float for scalar overlaps, an array of their broadcast shape otherwise


@dataclass(frozen=True, repr=False)
class Estimate:
    """A number, or an array, with its error.

    Attributes:
        value: the number.
        error: the absolute error; `method` says whether it is a bound or a standard error.
        method: how it was computed.
        excess: value - noise^2, stored separately so that no digits are lost where it is small.
        log_excess: log(excess), also where excess underflows.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> found = at.risk(task, at.Erf(0.1), at.Overlaps.oracle())
    >>> found
    0.113498 ± 1e-15 (closed form)
    >>> round(found.value, 4), found.error < 1e-12, found.method
    (0.1135, True, 'closed form')
    """

    value: Number
    error: Number
    method: str
    excess: Number
    log_excess: Number

    def __repr__(self) -> str:
        """The number, its error and its method; of an array the shape, the range and the largest
        error.
        """
        value = np.asarray(self.value)
        if value.ndim == 0:
            return f"{float(value):.6g} ± {float(self.error):.1g} ({self.method})"
        if value.size == 0:
            return f"array of shape {value.shape} ({self.method})"
        error = float(np.max(self.error))
        spread = f"{value.min():.6g} to {value.max():.6g}"
        return (
            f"array of shape {value.shape}: {spread}, ± {error:.1g} at most ({self.method})"
        )

    def __float__(self) -> float:
        if np.ndim(self.value) and np.size(self.value) != 1:
            shape = np.shape(self.value)
            raise AttnscopeError(
                f"float(Estimate) must be called on a scalar estimate, got shape {shape}; try "
                "estimate.value."
            )
        return float(np.asarray(self.value).reshape(()))

    def _repr_html_(self) -> str:
        """A table: the fields of a number, or one row for each of the first entries of an array."""
        parts = [np.asarray(getattr(self, name)) for name in NUMBER_FIELDS]
        if parts[0].ndim == 0:
            fields = [[name, repr(float(x))] for name, x in zip(NUMBER_FIELDS, parts)]
            return card(table("estimate", ["", ""], [*fields, ["method", self.method]]))
        broad = [np.broadcast_to(x, parts[0].shape) for x in parts]
        places = list(np.ndindex(parts[0].shape))
        rows = [
            [", ".join(map(str, i)), *(repr(float(x[i])) for x in broad)]
            for i in places[:NOTEBOOK_ROWS]
        ]
        left = len(places) - len(rows)
        more = [paragraph(f"and {left} more; .value has them all")] if left else []
        shape = " x ".join(map(str, parts[0].shape))
        head = table(f"estimates, {shape}, by {self.method}", ["entry", *NUMBER_FIELDS], rows)
        return card(head, *more)


def estimate(
    excess: object, error: object, method: str, noise: float = 0.0, log_excess: object = None
) -> Estimate:
    """Assemble an Estimate from the excess; scalars become floats,
    a result that is not finite raises an error.
    """
    x = np.asarray(excess, dtype=np.float64)
    e = np.broadcast_to(np.asarray(error, dtype=np.float64), x.shape)
    if not (np.isfinite(x).all() and np.isfinite(e).all()):
        raise AttnscopeError(
            f"the risk by {method} must be a finite float64 number, got an overflow at these "
            "parameters; "
            "try values of gamma, signal, inverse temperature and length closer to 1."
        )
    if log_excess is None:
        with np.errstate(divide="ignore"):
            # a Monte-Carlo or rounded excess may be a hair below 0
            logs = np.log(np.maximum(x, 0.0))
    else:
        logs = np.asarray(log_excess, dtype=np.float64)
    pieces = [x + noise**2, e, x, logs]
    value, err, exc, log = (float(p) if p.ndim == 0 else np.array(p) for p in pieces)
    return Estimate(value, err, method, exc, log)
