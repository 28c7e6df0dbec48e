"""Class weights: factors of the weights of bags.

"balanced": a bag of class c gets the factor W/(C W_c), with W the sum of all bags' weights, W_c that
of the class, and C the number of classes, so that every class has the total weight W/C.
Probabilities then refer to the reweighted classes, not to the classes of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.whole_values import refuse_lost

__all__ = ["class_factors"]


def class_factors(
    given: Any, classes: np.ndarray, index: np.ndarray, weight: np.ndarray, of: str
) -> np.ndarray:
    """Factor (n,) of each bag's weight; `index` (n,) is its class's number.

    >>> y = np.array([0, 0, 0, 1])
    >>> class_factors("balanced", np.array([0, 1]), y, np.ones(4), "fit")
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    count = len(classes)
    if isinstance(given, str):
        if given != "balanced":
            raise bad(
                "class_weight", of, CLASS_WEIGHT_FORMS, given, "class_weight='balanced'"
            )
        total = np.bincount(index, weight, minlength=count)
        # a class of weight zero keeps it
        return (weight.sum() / (count * np.where(total > 0, total, 1.0)))[index]
    if isinstance(given, Mapping):
        refuse_lost(list(given.values()), "class_weight", of)
    try:
        table = {_plain_name(name): float(factor) for name, factor in dict(given).items()}
    except (TypeError, ValueError):
        raise bad("class_weight", of, CLASS_WEIGHT_FORMS, given) from None
    if not all(np.isfinite(x) and x >= 0 for x in table.values()):
        raise bad("class_weight", of, "finite factors >= 0", given)
    names = [_plain_name(name) for name in classes]
    unknown = [name for name in table if name not in names]
    if unknown:
        raise bad("class_weight", of, f"of classes among {names}", f"class {unknown[0]!r}")
    factors = np.array([table.get(name, 1.0) for name in names])[index]
    if np.count_nonzero(np.bincount(index, weight * factors, minlength=count)) < 2:
        raise bad("class_weight", of, "positive for at least two classes", given)
    return factors


CLASS_WEIGHT_FORMS = 'None, "balanced" or a mapping of classes to factors'


def _plain_name(name: Any) -> Any:
    """The name of a class for comparisons: 1, 1.0 and np.int64(1) are equal."""
    return name.item() if isinstance(name, np.generic) else name
