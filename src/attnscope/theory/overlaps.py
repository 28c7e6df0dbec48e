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
    eigenvalues = np.linalg.eigvalsh(gram(out, task.alignment))  # (..., 4), ascending
    if eigenvalues[..., 0].min() < -TOLERANCE:
        worst = np.unravel_index(np.argmin(eigenvalues[..., 0]), eigenvalues.shape[:-1])
        numbers = ", ".join(f"{name}={float(x[worst]):.6g}" for name, x in zip(Overlaps._fields, out))
        raise AttnscopeError(
            f"overlaps of {of} must be those of unit vectors k, v with key.value = {task.alignment:g} (positive semidefinite Gram matrix), "
            f"got {numbers} with eigenvalue {eigenvalues[worst][0]:.3g}; try Overlaps.of(task, k, v)."
        )
    if task.dim < 4 and eigenvalues[..., 3 - task.dim].max() > TOLERANCE**0.5:
        raise bad(
            "overlaps",
            of,
            f"those of vectors in dimension {task.dim}",
            "overlaps that need a higher dimension",
            "Overlaps.of(task, k, v)",
        )
    return out
