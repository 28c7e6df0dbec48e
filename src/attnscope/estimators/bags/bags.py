"""Bags of token vectors: the accepted forms, and the one form in which they are held.

A bag is L_i >= 1 tokens in R^d. Accepted forms: an array (n, L, d); a list of (L_i, d) arrays; a pair
(tokens (n, L, d), mask (n, L)) with True or 1 = real token; rows with the name of each row's bag, as
a table or as a pair (tokens (N, d), ids (N,)); and one bag (L, d) for a fitted model. Tensors and
bfloat16 may be used in any of these (forms.py). Bags that are not in memory (pieces.py) are read a
piece at a time. They are held as flat tokens (N, d), N = sum L_i, and offsets (n+1,), so memory is
linear in the number of real tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags.forms import (
    MAX_TOKEN_SIZE,
    MISSING_LABELS,
    Rows,
    frame_rows,
    id_rows,
    is_frame,
    per_bag,
    to_numpy,
)
from attnscope.estimators.bags.pieces import Pieces, pieces_of
from attnscope.numerics.border.array_files import memory
from attnscope.numerics.border.whole_values import array_of, refuse_lost, refuse_missing
from attnscope.numerics.compiled.data_pass import bag_max

__all__ = [
    "Bags",
    "bag_labels",
    "bag_weights",
    "check_labels",
    "check_weights",
    "column_names",
    "first_largest",
    "given_labels",
    "keep_names",
    "read_bags",
    "score_weights",
]

# memory of a fit over that of the tokens in float64: 16 times the memory of 10^6 float32 tokens
FIT_MEMORY_FACTOR = 8
# suggestions for a two-dimensional array in fit
ARRAY_HINT = (
    "bags[:, None, :] for bags of one token, (bags, ids) for rows of bags, and at.BagScaler or "
    "at.BagPCA where StandardScaler or PCA stands before the model"
)


@dataclass(frozen=True)
class Bags:
    """tokens (N, d) float64, offsets (n+1,), and the data to answer in the caller's form."""

    tokens: np.ndarray
    offsets: np.ndarray
    form: str  # "array", "list", "mask" or "rows"
    mask: np.ndarray | None = None
    rows: Rows | None = None
    # (n,) the deciding token's location in its bag, -1 where unknown (known_locations.py)
    known: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def like_input(self, per_token: np.ndarray, padding: float = 0.0) -> Any:
        """(N,) numbers as (n, L) (`padding` at padding), as a list of (L_i,) for list input, or as
        (N,) in the order of the rows.
        """
        if self.rows is not None:
            return self.rows.as_given(per_token)
        if self.form == "list":
            return np.split(per_token, self.offsets[1:-1])
        if self.mask is None:
            return per_token.reshape(len(self), -1)
        out = np.full(self.mask.shape, padding)
        out[self.mask] = per_token
        return out

    def position(self, token: np.ndarray) -> np.ndarray:
        """Flat token numbers, one per bag (n,),
        as positions within the bag as the caller gave it.
        """
        if self.mask is None:
            return token - self.offsets[:-1]
        return np.flatnonzero(self.mask)[token] % self.mask.shape[1]


def first_largest(per_token: np.ndarray, bags: Bags) -> np.ndarray:
    """Flat number of the first largest of (N,) numbers in each bag, (n,)."""
    top = np.flatnonzero(
        per_token == np.repeat(bag_max(per_token, bags.offsets), bags.lengths)
    )
    return top[np.searchsorted(top, bags.offsets[:-1])]


def read_bags(
    bags: Any,
    of: str,
    width: int | None = None,
    one: bool = False,
    features: Any = None,
    leave: tuple[str, ...] = (),
) -> Bags:
    """Check and flatten bags. `width`: the number of features that a fitted model expects; `one`: an
    array (L, d) is one bag. For a table, `features` names its feature columns, `leave` other ones.
    """
    if isinstance(bags, Bags):
        out = bags
    elif (pieces := pieces_of(bags, of)) is not None:
        out = _from_pieces(pieces, of)
    elif is_frame(bags):
        out = _from_rows(frame_rows(bags, of, features=features, leave=leave))
    elif (pair := _array_pair(bags)) is not None:
        out = _from_rows(id_rows(*pair, of)) if pair[1].ndim == 1 else _from_mask(*pair, of)
    elif one and not isinstance(bags, (list, tuple)) and np.ndim(bags) == 2:
        out = _from_array(_real_array(bags, of)[None], of)
    elif isinstance(bags, (list, tuple)) or (
        isinstance(bags, np.ndarray) and bags.dtype == object
    ):
        out = _from_list(list(bags), of)
    else:
        out = _from_array(bags, of)
    if out.tokens.shape[1] == 0 or len(out) == 0:
        raise bad(
            "bags",
            of,
            "at least one bag of tokens with at least one feature",
            f"shape {out.tokens.shape}",
        )
    largest = np.abs(out.tokens).max()  # NaN and infinity fail the comparison
    if not largest <= MAX_TOKEN_SIZE:
        raise bad(
            "bags",
            of,
            f"finite numbers of size at most {MAX_TOKEN_SIZE:g}, neither NaN nor inf",
            f"largest {largest}",
            "to drop or impute those tokens",
        )
    if width is not None and out.tokens.shape[1] != width:
        raise bad(
            "bags",
            of,
            f"tokens with {width} features as in fit",
            f"{out.tokens.shape[1]} features",
        )
    return out


def _array_pair(bags: Any) -> tuple[Any, np.ndarray] | None:
    """(tokens (n, L, d), mask (n, L)) or (tokens (N, d), ids (N,)); None for two bags."""
    if not isinstance(bags, tuple) or len(bags) != 2:
        return None
    try:
        second = np.asarray(to_numpy(bags[1]))
        first = np.ndim(bags[0])
    except ValueError:  # rows of several lengths
        return None
    mask = second.ndim == 2 and (first == 3 or second.dtype == bool)
    return (bags[0], second) if mask or (second.ndim == 1 and first == 2) else None


def _from_rows(rows: Rows) -> Bags:
    return Bags(rows.tokens, rows.offsets, "rows", rows=rows)


def _float_array(x: Any, of: str) -> np.ndarray:
    return np.ascontiguousarray(_real_array(x, of), dtype=np.float64)


def _real_array(x: Any, of: str) -> np.ndarray:
    try:
        a = np.asarray(to_numpy(x))
        if a.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise bad(
            "bags",
            of,
            "real numbers in an (n, L, d) array or a list of (L_i, d) arrays",
            type(x).__name__,
        ) from None
    return a


def _from_array(x: Any, of: str) -> Bags:
    a = _float_array(x, of)
    if a.ndim != 3:
        raise bad(
            "bags",
            of,
            "an (n, L, d) array, a list of (L_i, d) arrays or (tokens, mask)",
            f"shape {a.shape}",
            ARRAY_HINT if a.ndim == 2 else "",
        )
    n, length, d = a.shape
    if length == 0:
        raise bad("bags", of, "bags with at least one token", f"shape {a.shape}")
    return Bags(a.reshape(n * length, d), np.arange(n + 1) * length, "array")


def _from_list(items: list, of: str) -> Bags:
    arrays = [_float_array(x, of) for x in items]
    if not arrays:
        raise bad("bags", of, "at least one bag", "an empty list")
    for i, a in enumerate(arrays):
        if a.ndim != 2 or len(a) == 0:
            raise bad(
                "bags",
                of,
                "a list of (L_i, d) arrays with L_i >= 1",
                f"shape {a.shape} in bag {i}",
            )
        if a.shape[1] != arrays[0].shape[1]:
            raise bad(
                "bags",
                of,
                "bags of one width",
                f"{arrays[0].shape[1]} features in bag 0 and {a.shape[1]} in bag {i}",
            )
    return Bags(np.concatenate(arrays), np.cumsum([0, *(len(a) for a in arrays)]), "list")


def _from_pieces(pieces: Pieces, of: str) -> Bags:
    """All bags in memory, read without a second copy."""
    offsets = np.concatenate([[0], np.cumsum(pieces.lengths)])
    size = 8 * int(offsets[-1]) * pieces.width
    if size * FIT_MEMORY_FACTOR > memory():
        raise bad(
            "bags",
            of,
            f"small enough for memory, about {memory() / FIT_MEMORY_FACTOR / 2**30:.1f} GiB of tokens",
            f"{size / 2**30:.1f} GiB in float64",
            "fit_batches, which reads them a piece at a time",
        )
    tokens = np.empty((offsets[-1], pieces.width))
    for start, stop, part in pieces:
        rows = tokens[offsets[start] : offsets[stop]]
        if pieces.form == "array":
            rows[:] = _real_array(part, of).reshape(rows.shape)
        else:
            for bag, at, end in zip(part, offsets[start:stop], offsets[start + 1 :]):
                tokens[at:end] = _real_array(bag, of)
    return Bags(tokens, offsets, pieces.form)


def _from_mask(tokens: Any, mask: Any, of: str) -> Bags:
    a = _float_array(tokens, of)
    mask = array_of(mask, "mask", of, "True at real tokens, False at padding")
    if mask.dtype != bool and not (mask.dtype.kind in "iuf" and np.isin(mask, (0, 1)).all()):
        raise bad("mask", of, "True or 1 at real tokens, False or 0 at padding", mask)
    mask = mask.astype(bool)
    if a.ndim != 3 or a.shape[:2] != mask.shape:
        raise bad(
            "mask",
            of,
            "bool of shape (n, L) for tokens (n, L, d)",
            f"mask {mask.shape} for tokens {a.shape}",
        )
    lengths = mask.sum(axis=1)
    if not lengths.all():
        raise bad(
            "mask",
            of,
            "True somewhere in every bag",
            f"only padding in bag {int(np.argmin(lengths))}",
            "to drop that bag",
        )
    return Bags(a[mask], np.cumsum([0, *lengths]), "mask", mask)


def given_labels(bags: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Labels and weights; if none are given, those that bags from files carry."""
    if is_frame(bags):  # its attributes are its columns
        return y, sample_weight
    y = getattr(bags, "labels", None) if y is None else y
    weight = getattr(bags, "weight", None) if sample_weight is None else sample_weight
    return y, weight


def column_names(*given: Any) -> tuple[str, ...]:
    """Those labels and weights that are given as the name of a table's column."""
    return tuple(x for x in given if isinstance(x, str))


def keep_names(model: Any, held: Bags) -> None:
    """Keep the names of a model's feature columns, so that it finds them in other tables."""
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    if held.rows is not None and held.rows.features is not None:
        model.feature_names_in_ = np.array(held.rows.features)


def bag_labels(y: Any, held: Bags, of: str) -> np.ndarray:
    """One label per bag, (n,), from any of the forms of forms.py."""
    return check_labels(per_bag(y, held.rows, of), len(held), of)


def bag_weights(weight: Any, held: Bags, of: str) -> np.ndarray:
    """Bag weights (n,), from any of the forms of forms.py."""
    return check_weights(per_bag(weight, held.rows, of, "sample_weight"), len(held), of)


def check_labels(y: Any, n: int, of: str) -> np.ndarray:
    """One label per bag, (n,)."""
    if y is None:
        raise AttnscopeError(
            f"{of} requires y to be passed, but the target y is None; try one label per bag."
        )
    y = to_numpy(y)
    refuse_missing(y, "y", of, MISSING_LABELS)
    a = np.asarray(y)
    if a.ndim == 2 and a.shape[1] == 1:
        a = a[:, 0]
    if a.shape != (n,):
        raise bad("y", of, f"one label per bag, shape ({n},)", f"shape {a.shape}")
    if a.dtype.kind == "f" and not np.isfinite(a).all():
        raise bad("y", of, "finite", "NaN or infinity")
    return a


def score_weights(weight: Any, n: int, of: str) -> np.ndarray | None:
    """Bag weights (n,) of a score, at least one of them positive; None if None."""
    if weight is None:
        return None
    a = _weight_numbers(weight, n, of)
    if not a.any():
        raise bad("sample_weight", of, "positive for at least one bag", "weight zero for all")
    return a


def _weight_numbers(weight: Any, n: int, of: str) -> np.ndarray:
    refuse_lost(weight, "sample_weight", of)
    try:
        a = np.asarray(to_numpy(weight), dtype=np.float64)
    except (TypeError, ValueError):
        raise bad("sample_weight", of, "numbers", type(weight).__name__) from None
    if a.shape != (n,) or not np.isfinite(a).all() or a.min() < 0:
        raise bad("sample_weight", of, f"{n} finite numbers >= 0", f"shape {a.shape}")
    return a


def check_weights(weight: Any, n: int, of: str) -> np.ndarray:
    """Bag weights (n,), ones if None: a bag of weight two counts as two bags."""
    if weight is None:
        return np.ones(n)
    a = _weight_numbers(weight, n, of)
    if np.count_nonzero(a) < 2:
        raise AttnscopeError(
            f"sample_weight of {of} must be positive for at least two bags, got weight zero for "
            "more."
        )
    return a
