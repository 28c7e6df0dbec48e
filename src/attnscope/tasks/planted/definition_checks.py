"""Checks of a planted task's definition (planted.py).

An error names the method and what it returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnscope.errors import bad, shown

__all__ = [
    "LARGEST_LOG_RATIO",
    "check_one_number",
    "checked_classes",
    "checked_gram",
    "checked_kinks",
    "checked_label",
    "checked_latents",
    "checked_names",
    "checked_own",
    "checked_rows",
    "checked_scale",
    "of_method",
]

# inner products computed in float64 scatter by 1e-15; a larger deviation means that the matrix is not
# a Gram matrix of unit vectors
GRAM_TOLERANCE = 1e-9
LARGEST_LOG_RATIO = 1e9  # log-likelihood ratios beyond this are known to 1e-7 at best
# most values that `latents` may list: a posterior of so many costs milliseconds per sequence
MOST_LATENTS = 1 << 20


def of_method(task: object, method: str) -> str:
    return f"{type(task).__name__}.{method}"


def checked_names(names: object, of: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, (tuple, list)) or not names:
        raise bad(
            "teachers", of, "names of one or more directions", names, '("key", "value")'
        )
    found = tuple(names)
    if not all(isinstance(x, str) and x.isidentifier() for x in found) or len(
        set(found)
    ) < len(found):
        raise bad("teachers", of, "different names of directions", names, '("key", "value")')
    return found


def checked_gram(matrix: object, of: str, r: int) -> np.ndarray:
    """(r, r) inner products of unit vectors."""
    must = f"a symmetric ({r}, {r}) matrix with ones on its diagonal"
    try:
        G = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise bad("teacher_gram", of, must, matrix) from None
    if G.shape != (r, r):
        raise bad("teacher_gram", of, must, f"shape {G.shape}")
    if not np.isfinite(G).all() or np.abs(G - G.T).max() > GRAM_TOLERANCE:
        raise bad("teacher_gram", of, must, G.tolist())
    if np.abs(np.diagonal(G) - 1).max() > GRAM_TOLERANCE:
        raise bad("teacher_gram", of, must, f"the diagonal {np.diagonal(G).tolist()}")
    least = float(np.linalg.eigvalsh(G)[0])
    if least < -GRAM_TOLERANCE:
        got = f"{shown(G.tolist())} with eigenvalue {least:.3g}"
        raise bad(
            "teacher_gram", of, "positive semidefinite", got, "inner products of unit vectors"
        )
    return (G + G.T) / 2


def checked_classes(classes: object, of: str) -> tuple[float, ...]:
    try:
        found = tuple(float(x) for x in classes)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise bad(
            "classes", of, "two or more different numbers", classes, "(-1, 1)"
        ) from None
    if len(set(found)) < 2 or len(set(found)) < len(found) or not np.isfinite(found).all():
        raise bad("classes", of, "two or more different numbers", classes, "(-1, 1)")
    return found


def checked_kinks(kinks: object, of: str) -> tuple[float, ...]:
    """Places at which a label or its slope jumps."""
    try:
        found = tuple(float(x) for x in kinks)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise bad("kinks", of, "a sequence of finite numbers", kinks, "(0.0,)") from None
    if not np.isfinite(found).all():
        raise bad("kinks", of, "a sequence of finite numbers", kinks, "(0.0,)")
    return found


def checked_scale(scale: object, of: str) -> float:
    """The width of a label's narrowest feature."""
    number = isinstance(scale, (int, float, np.integer, np.floating))
    if not number or isinstance(scale, bool) or not 0 < float(scale) < np.inf:  # type: ignore[arg-type]
        raise bad("scale", of, "a finite number > 0", scale, "1e-3")
    return float(scale)  # type: ignore[arg-type]


def checked_own(values: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Arguments of a subclass: finite numbers, words or truth values."""
    out = {}
    for name, x in values.items():
        plain = isinstance(x, (bool, int, float, str, np.integer, np.floating))
        if not plain or (not isinstance(x, str) and not np.isfinite(x)):
            raise bad(name, of, "a finite number or a word", x, f"{name}: float = 1.0")
        out[name] = x
    return out


def checked_rows(
    found: object, of: str, what: str, shape: tuple[int, ...], whole: bool = False
) -> np.ndarray:
    """A finite array whose first axes are `shape`; of exactly this shape if `whole`."""
    axes = ", ".join(str(n) for n in shape)
    must = (
        f"a finite array of shape ({axes})" if whole else f"a finite array of {shape[0]} rows"
    )
    try:
        a = np.asarray(found)
    except (TypeError, ValueError):
        raise bad(what, of, must, found) from None
    fits = a.shape == shape if whole else a.ndim > 0 and a.shape[0] == shape[0]
    if a.dtype.kind not in "biuf" or not fits:
        raise bad(what, of, must, found if a.ndim == 0 else f"an array of shape {a.shape}")
    if not np.isfinite(a).all():
        raise bad(what, of, must, f"{_name_of_nonfinite(a)} among them")
    return a.astype(np.float64) if whole and a.dtype.kind != "f" else a


def checked_label(found: object, of: str, n: int) -> np.ndarray:
    a = checked_rows(found, of, "label", (n,))
    if a.ndim > 2:
        raise bad(
            "label",
            of,
            f"an array of shape ({n},) or ({n}, o)",
            f"an array of shape {a.shape}",
        )
    return a.astype(np.float64)


def check_one_number(task: Any) -> None:
    """An error where the label is several numbers: heads of attention predict one.

    The shape is taken from two sequences, drawn once for each task.
    """
    known = vars(task)
    if "_label_axes" not in known:
        gram = np.asarray(task.teacher_gram, dtype=np.float64)
        drawn = task.projections(2, gram, np.random.default_rng(0))
        known["_label_axes"] = np.shape(drawn.label)[1:]
    if known["_label_axes"]:
        got = f"an array of shape (n, {known['_label_axes'][0]})"
        hint = "risk(task, function, gram) with a function of projections that has as many outputs"
        must = "an array of shape (n,) for heads, which predict one number"
        raise bad("label", of_method(task, "label"), must, got, hint)


def checked_latents(found: object, of: str) -> tuple[np.ndarray, np.ndarray]:
    """Values (m, ...) and probabilities (m,)."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        must = "a pair (values, probabilities)"
        raise bad("latents", of, must, found, "np.arange(L), np.full(L, 1 / L)")
    probabilities = np.asarray(found[1])
    if probabilities.ndim != 1 or not 0 < len(probabilities) <= MOST_LATENTS:
        must = f"from 1 to {MOST_LATENTS} probabilities"
        raise bad("latents", of, must, f"an array of shape {probabilities.shape}")
    p = checked_rows(probabilities, of, "latents", (len(probabilities),), True)
    if (p < 0).any() or abs(p.sum() - 1) > GRAM_TOLERANCE:
        got = f"a sum of {float(p.sum()):.6g}" if (p >= 0).all() else f"{float(p.min()):.6g}"
        raise bad("latents", of, "probabilities >= 0 that sum to 1", got)
    return checked_rows(found[0], of, "latents", (len(p),)), p / p.sum()


def _name_of_nonfinite(a: np.ndarray) -> str:
    return "NaN" if np.isnan(a).any() else "infinity"
