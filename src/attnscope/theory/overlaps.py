"""The five overlaps on which every population risk depends.

notation: kap = k.k*, eta = k.v*, the = v.k*, nu = v.v*, rho = k.v, c = k*.v*, all four vectors of unit length.

Five numbers belong to some pair of unit vectors (k, v) in R^d, d >= 4, exactly when the Gram matrix of (k, v, k*, v*) is positive
semidefinite; in d = 2 or 3 its rank must also be at most d, which is checked too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics import validation as check
from attnscope.tasks.single_location import SingleLocation

__all__ = ["Overlaps", "checked_overlaps", "gram"]

TOLERANCE = 1e-9  # eigenvalues of the Gram matrix above -1e-9 count as >= 0: overlaps computed in float64 scatter by 1e-15, in float32 by 1e-7


class Overlaps(NamedTuple):
    """kappa = k.k*, eta = k.v*, theta = v.k*, nu = v.v*, rho = k.v: numbers or arrays that broadcast. A pytree; not validated here.

    >>> Overlaps.oracle()
    Overlaps(kappa=1.0, eta=0.0, theta=0.0, nu=1.0, rho=0.0)
    """

    kappa: Any
    eta: Any
    theta: Any
    nu: Any
    rho: Any

    @classmethod
    def oracle(cls, alignment: float = 0.0) -> Overlaps:
        """The overlaps of k = k*, v = v*; `alignment` is key.value, 0 unless the task says otherwise."""
        return cls(1.0, alignment, alignment, 1.0, alignment)

    @classmethod
    def of(cls, task: SingleLocation, k: np.ndarray, v: np.ndarray) -> Overlaps:
        """The overlaps of unit vectors k, v (dim,) with the task's key and value."""
        k, v = (check.unit_vector(x, name, "Overlaps.of", task.dim) for x, name in ((k, "k"), (v, "v")))
        dots = (k @ task.key, k @ task.value, v @ task.key, v @ task.value, k @ v)
        return cls(*(float(np.clip(x, -1, 1)) for x in dots))


def gram(o: Overlaps, alignment: float = 0.0) -> np.ndarray:
    """Gram matrices (..., 4, 4) of (k, v, k*, v*)."""
    kap, eta, the, nu, rho = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in o))
    one, c = np.ones_like(kap), np.full_like(kap, alignment)
    rows = [[one, rho, kap, eta], [rho, one, the, nu], [kap, the, one, c], [eta, nu, c, one]]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def checked_overlaps(o: object, task: SingleLocation, of: str) -> Overlaps:
    """Float64 overlaps of one broadcast shape that some pair of unit vectors in R^dim has, or one sentence."""
    if not isinstance(o, tuple) or len(o) != 5:
        raise bad("overlaps", of, "an Overlaps", o, "Overlaps.oracle() or Overlaps.of(task, k, v)")
    fields = []
    for x, name in zip(o, Overlaps._fields):
        a = np.asarray(x) if not isinstance(x, (list, str, bytes)) else np.asarray(check.array(x, name, of, (None,)))
        fields.append(check.array(a, name, of, (None,) * a.ndim))
    try:
        fields = [np.array(x, dtype=np.float64) for x in np.broadcast_arrays(*fields)]
    except ValueError:
        raise bad("overlaps", of, "arrays that broadcast", f"shapes {[np.shape(x) for x in o]}") from None
    out = Overlaps(*fields)
    doubtful = np.ones(out.kappa.shape, bool) if task.dim < 4 else ~_clearly_feasible(out, task.alignment)
    if doubtful.any():
        _refuse_infeasible(Overlaps(*(x[doubtful] for x in out)), task, of)
    return out


def _clearly_feasible(o: Overlaps, c: float) -> np.ndarray:
    """Whether the parts of k and v outside span{k*, v*} have a positive semidefinite Gram matrix: cheap, and true for nearly all."""
    if abs(c) == 1:
        return np.zeros(o.kappa.shape, bool)
    inner = lambda a, b, x, y: (a * x + b * y - c * (a * y + b * x)) / (1 - c * c)  # of the projections on the span
    rest_k = 1 - inner(o.kappa, o.eta, o.kappa, o.eta)
    rest_v = 1 - inner(o.theta, o.nu, o.theta, o.nu)
    cross = o.rho - inner(o.kappa, o.eta, o.theta, o.nu)
    return (rest_k >= 0) & (rest_v >= 0) & (rest_k * rest_v >= cross**2)


def _refuse_infeasible(o: Overlaps, task: SingleLocation, of: str) -> None:
    """Raise if an eigenvalue of a Gram matrix is below -TOLERANCE, or if dim 2 or 3 has no room for its rank; o holds (n,) arrays."""
    eigenvalues = np.linalg.eigvalsh(gram(o, task.alignment))  # (n, 4), ascending
    worst = int(np.argmin(eigenvalues[:, 0]))
    if eigenvalues[worst, 0] < -TOLERANCE:
        numbers = ", ".join(f"{name}={float(x[worst]):.6g}" for name, x in zip(Overlaps._fields, o))
        raise AttnscopeError(
            f"overlaps of {of} must be those of unit vectors k, v with key.value = {task.alignment:g} "
            f"(positive semidefinite Gram matrix), got {numbers} with eigenvalue {eigenvalues[worst, 0]:.3g}; "
            "try Overlaps.of(task, k, v)."
        )
    if task.dim < 4 and eigenvalues[:, 3 - task.dim].max() > TOLERANCE**0.5:
        must, got = f"those of vectors in dimension {task.dim}", "overlaps that need a higher dimension"
        raise bad("overlaps", of, must, got, "Overlaps.of(task, k, v)")
