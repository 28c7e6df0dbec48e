"""Feasibility of overlaps: those of vectors pass, others are refused,
whatever the route of the check.
"""

import numpy as np
import pytest
from helpers.settings import unit

import attnscope as at
from attnscope.theory.overlaps import checked_overlaps, gram


@pytest.mark.parametrize("dim", [2, 3, 4, 10])
@pytest.mark.parametrize("aligned", [False, True])
def test_overlaps_of_vectors_are_feasible(dim, aligned):
    rng = np.random.default_rng(dim)
    task = at.SingleLocation(
        dim, 3, key=unit(rng, dim), value=unit(rng, dim) if aligned else None
    )
    special = [task.key, task.value, -task.key]
    for i in range(60):
        k = special[i % 3] if i % 5 == 0 else unit(rng, dim)
        v = k if i % 7 == 0 else special[(i // 3) % 3] if i % 4 == 0 else unit(rng, dim)
        checked_overlaps(at.Overlaps.of(task, k, v), task, "test")


def test_fast_check_agrees_with_eigenvalues():
    """20,000 random overlaps: accepted exactly when the smallest eigenvalue of the Gram matrix is
    >= -1e-9.
    """
    rng = np.random.default_rng(0)
    for c in (0.0, 0.6):
        task = at.SingleLocation(
            4, 3, key=np.eye(4)[0], value=c * np.eye(4)[0] + (1 - c * c) ** 0.5 * np.eye(4)[1]
        )
        o = at.Overlaps(*rng.uniform(-1, 1, (5, 10_000)) * rng.uniform(0, 1, 10_000))
        feasible = np.linalg.eigvalsh(gram(o, c))[:, 0] >= -1e-9
        assert 0.1 < feasible.mean() < 0.9
        checked_overlaps(at.Overlaps(*(x[feasible] for x in o)), task, "test")
        for i in np.flatnonzero(~feasible)[:200]:
            with pytest.raises(at.AttnscopeError, match="positive semidefinite"):
                checked_overlaps(at.Overlaps(*(x[i] for x in o)), task, "test")


def test_oracle_of_an_oblique_task():
    task = at.SingleLocation(3, 4, key=[1.0, 0, 0], value=[0.6, 0.8, 0.0])
    assert at.Overlaps.oracle(task.alignment) == pytest.approx(
        at.Overlaps.of(task, task.key, task.value)
    )


def test_a_small_overlap_keeps_its_digits_when_the_others_touch_1():
    """v = v*, k = k* and key.value = 1e-6: possible only to rounding, so the numbers are moved, and
    each by no more than a rounding of itself (theta lost 5 digits before; stress tests, seed 731).
    """
    c = 1e-6
    value = np.zeros(5)
    value[:2] = c, np.sqrt(1 - c * c)
    task = at.SingleLocation(5, 31, key=np.eye(5)[0], value=value)
    given = at.Overlaps.oracle(c)
    for x, y in zip(checked_overlaps(given, task, "test"), given):
        assert abs(x - y) <= 1e-15 * abs(y)
