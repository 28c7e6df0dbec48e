"""The five overlaps on which every population risk depends.

notation: kap = k.k*, eta = k.v*, the = v.k*, nu = v.v*, rho = k.v, c = k*.v*, all four vectors of
unit length.

Five numbers belong to some pair of unit vectors (k, v) in R^d, d >= 4, exactly when the Gram matrix
of (k, v, k*, v*) is positive semidefinite; in d = 2 or 3 its rank must also be at most d, which is
checked too.

Numbers that miss this by rounding are moved to possible ones. Let a, b be the coordinates of k, v
in an orthonormal basis of span{k*, v*} and Q = [[1, rho], [rho, 1]] - [a b]^T [a b] the Gram matrix
of what is left of them: possible means that Q has no eigenvalue below 0. Shrinking a, b by t and
rho by t^2 makes it (1 - t^2) I + t^2 Q, so t^2 = 1/(1 - least eigenvalue) is enough, for every c.
|c| = 1 leaves one coordinate, (kap + c eta)/2; what contradicts eta = c kap is dropped. Numbers
that would have to move by more than MOVE_TOLERANCE are refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import array_of
from attnscope.tasks.base import PlantedTask, is_planted

__all__ = [
    "MOVE_TOLERANCE",
    "Overlaps",
    "alignment_of",
    "as_arrays",
    "checked_overlaps",
    "gram",
    "head_gram",
    "implied_products",
    "nearest_possible",
]

# how far impossible overlaps are moved at most: overlaps computed in float64 scatter by 1e-15, unit
# vectors given to 9 digits by 1e-9; float32 (1e-7) is refused
MOVE_TOLERANCE = 1e-9
# eigenvalues of a Gram matrix down to minus this count as 0, and up to its root where dim 2 or 3
# limits the rank
GRAM_TOLERANCE = 1e-9
# 1 - |c| below this: the division by 1 - c^2 of the quick check would lose digits
OBLIQUE_GAP = 1e-3
PLAIN_FLOATS = frozenset((float, np.float64))  # types that need no conversion
PARALLEL_GAP = 1e-15  # 1 - |c| below this is rounding: key and value are one direction


class Overlaps(NamedTuple):
    """What decides the risk of one head: inner products of k and v with the teachers and each
    other. A pytree; not validated here.

    Args:
        kappa, eta: k.k* and k.v*, numbers or arrays that broadcast, as all of them.
        theta, nu: v.k* and v.v*.
        rho: k.v.

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
        """The overlaps of k = k*, v = v*; `alignment` is key.value,
        0 unless the task says otherwise.
        """
        return cls(1.0, alignment, alignment, 1.0, alignment)

    @classmethod
    def of(cls, task: PlantedTask, k: np.ndarray, v: np.ndarray) -> Overlaps:
        """The overlaps of unit vectors k, v (dim,) with the task's key and (if any) value."""
        if not is_planted(task):
            raise bad(
                "task", "Overlaps.of", "a planted task", task, "SingleLocation(400, 10)"
            )
        k, v = (
            check.unit_vector(x, name, "Overlaps.of", task.dim)
            for x, name in ((k, "k"), (v, "v"))
        )
        key = task.teachers[0]
        value = task.teachers[1] if len(task.teachers) > 1 else np.zeros(task.dim)
        dots = (k @ key, k @ value, v @ key, v @ value, k @ v)
        return cls(*(float(np.clip(x, -1, 1)) for x in dots))


def gram(o: Overlaps, alignment: float = 0.0) -> np.ndarray:
    """Gram matrices (..., 4, 4) of (k, v, k*, v*)."""
    return head_gram(o, np.array([[1.0, alignment], [alignment, 1.0]]))


def head_gram(o: Overlaps, teacher_gram: np.ndarray) -> np.ndarray:
    """Gram matrices (..., 2 + r, 2 + r) of (k, v) and r teachers, at overlaps with the first two
    (kappa, theta alone where r = 1).
    """
    fields = np.stack(np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in o)), -1)
    r = len(teacher_gram)
    out = np.ones((*fields.shape[:-1], 2 + r, 2 + r))
    out[..., 0, 1] = out[..., 1, 0] = fields[..., 4]
    cross = fields[..., :4].reshape(*fields.shape[:-1], 2, 2)[..., : min(2, r)]
    out[..., :2, 2:] = cross @ implied_products(teacher_gram)
    out[..., 2:, :2] = out[..., :2, 2:].swapaxes(-1, -2)
    out[..., 2:, 2:] = teacher_gram
    return out


def implied_products(teacher_gram: np.ndarray) -> np.ndarray:
    """(2, r): from the inner products of a vector with the first two teachers to those with all.

    Of the other teachers T the vectors keep only what the first pair implies: k.T = a.(K.T, V.T)
    with a the coefficients of k on the pair.
    """
    r = len(teacher_gram)
    out = np.eye(min(2, r), r)
    if r > 2:
        out[:, 2:] = (
            np.linalg.pinv(teacher_gram[:2, :2], hermitian=True) @ teacher_gram[:2, 2:]
        )
    return out


def as_arrays(o: Overlaps) -> Overlaps:
    """The same numbers as float64 arrays, in the form `checked_overlaps` returns;
    nothing is checked.
    """
    return Overlaps(*(np.asarray(x, dtype=np.float64) for x in o))


def checked_overlaps(o: object, task: PlantedTask, of: str) -> Overlaps:
    """Float64 overlaps of one broadcast shape that some pair of unit vectors in R^dim has,
    or one sentence.
    """
    if not isinstance(o, tuple) or len(o) != 5:
        raise bad(
            "overlaps", of, "an Overlaps", o, "Overlaps.oracle() or Overlaps.of(task, k, v)"
        )
    if PLAIN_FLOATS.issuperset(map(type, o)) and np.abs(o).max() <= 1:
        out = as_arrays(Overlaps(*o))
    else:
        out = _broadcast_fields(o, of)
    alignment = alignment_of(task)
    doubtful = ~_clearly_feasible(out, alignment)
    if doubtful.any():
        given = Overlaps(*(x[doubtful] for x in out))
        moved = _possible_overlaps(given, alignment)
        _refuse_impossible(given, moved, task, of)
        for x, y in zip(out, moved):
            x[doubtful] = y
    if task.dim < 4:
        _refuse_rank(out, task, of)
    return out


def _broadcast_fields(o: tuple[Any, ...], of: str) -> Overlaps:
    """Numbers and arrays as finite float64 arrays of one shape, or one sentence."""
    fields = []
    for x, name in zip(o, Overlaps._fields):
        a = (
            array_of(x, name, of, "a number or an array of numbers")
            if not isinstance(x, (list, str, bytes))
            else np.asarray(check.array(x, name, of, (None,)))
        )
        fields.append(check.array(a, name, of, (None,) * a.ndim))
    try:
        return Overlaps(*(np.array(x, np.float64) for x in np.broadcast_arrays(*fields)))
    except ValueError:
        raise bad(
            "overlaps", of, "arrays that broadcast", f"shapes {[np.shape(x) for x in o]}"
        ) from None


def nearest_possible(log: np.ndarray, alignment: float) -> np.ndarray:
    """Overlaps (5, ...), unchanged where some unit vectors have them, else moved to possible ones
    nearby: for the results of a solver, which have an error of their own.
    """
    out = np.array(log)
    doubtful = ~_clearly_feasible(Overlaps(*out), alignment)
    out[:, doubtful] = np.stack(_possible_overlaps(Overlaps(*out[:, doubtful]), alignment))
    return out


def alignment_of(task: PlantedTask) -> float:
    """k*.v*; 0 where the task has no value, which may then be any direction orthogonal to the
    key.
    """
    gram = task.teacher_gram
    return float(gram[0, 1]) if len(gram) > 1 else 0.0


def _clearly_feasible(o: Overlaps, c: float) -> np.ndarray:
    """Whether the parts of k and v outside span{k*, v*} have a positive semidefinite Gram matrix:
    cheap, and true for nearly all.
    """
    if 1 - abs(c) < OBLIQUE_GAP:
        return np.zeros(o.kappa.shape, bool)

    def inner(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the projections on the span."""
        return (a * x + b * y - c * (a * y + b * x)) / (1 - c * c)

    rest_k = 1 - inner(o.kappa, o.eta, o.kappa, o.eta)
    rest_v = 1 - inner(o.theta, o.nu, o.theta, o.nu)
    cross = o.rho - inner(o.kappa, o.eta, o.theta, o.nu)
    return (rest_k >= 0) & (rest_v >= 0) & (rest_k * rest_v >= cross**2)


def _possible_overlaps(o: Overlaps, c: float) -> Overlaps:
    """Possible overlaps next to these, (n,) arrays (module docstring)."""
    sign = 1.0 if c >= 0 else -1.0
    root_far = np.sqrt(2 * (1 + abs(c)))
    root_near = np.sqrt(2 * (1 - abs(c))) if 1 - abs(c) >= PARALLEL_GAP else 0.0

    def coordinates(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the projection, in the directions k* + sign v* and k* - sign v*."""
        near = (x - sign * y) / root_near if root_near else np.zeros_like(x)
        return np.stack([(x + sign * y) / root_far, near])

    a = coordinates(o.kappa, o.eta)
    b = coordinates(o.theta, o.nu)
    rest_k = 1 - (a * a).sum(0)
    rest_v = 1 - (b * b).sum(0)
    cross = o.rho - (a * b).sum(0)
    least = (rest_k + rest_v) / 2 - np.hypot((rest_k - rest_v) / 2, cross)
    t2 = 1 / (1 + np.maximum(-least, 0.0))
    t = np.sqrt(t2)

    def shrunk(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inner products with k* and v* of t times the projection. Not by way of the
        coordinates: a small one would lose its digits in the difference of two large ones.
        """
        if root_near:
            return t * x, t * y
        along = t * (x + sign * y) / 2
        return along, sign * along

    kap, eta = shrunk(o.kappa, o.eta)
    the, nu = shrunk(o.theta, o.nu)
    return Overlaps(*(np.clip(x, -1, 1) for x in (kap, eta, the, nu, t2 * o.rho)))


def _refuse_impossible(given: Overlaps, moved: Overlaps, task: PlantedTask, of: str) -> None:
    """Raise if some overlaps, (n,) arrays, had to move by more than MOVE_TOLERANCE."""
    distance = np.max([np.abs(x - y) for x, y in zip(given, moved)], axis=0)
    worst = int(np.argmax(distance))
    if distance[worst] <= MOVE_TOLERANCE:
        return
    numbers = ", ".join(
        f"{name}={float(x[worst]):.10g}" for name, x in zip(Overlaps._fields, given)
    )
    least = np.linalg.eigvalsh(
        gram(Overlaps(*(x[worst] for x in given)), alignment_of(task))
    )[0]
    raise AttnscopeError(
        f"overlaps of {of} must be those of unit vectors k, v with key.value = "
        f"{alignment_of(task):g} "
        f"(positive semidefinite Gram matrix), got {numbers} with eigenvalue {least:.3g}; "
        "try Overlaps.of(task, k, v)."
    )


def _refuse_rank(o: Overlaps, task: PlantedTask, of: str) -> None:
    """Raise if dim 2 or 3 has no room for the rank of some Gram matrix."""
    eigenvalues = np.linalg.eigvalsh(gram(o, alignment_of(task)))  # (..., 4), ascending
    if eigenvalues.size and eigenvalues[..., 3 - task.dim].max() > GRAM_TOLERANCE**0.5:
        must = f"those of vectors in dimension {task.dim}"
        got = "overlaps that need a higher dimension"
        raise bad("overlaps", of, must, got, "Overlaps.of(task, k, v)")
