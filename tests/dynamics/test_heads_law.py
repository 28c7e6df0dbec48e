"""Heads in law: the starts, and the two engines against each other.

Kolmogorov-Smirnov tests at 1 % divided by their number (Bonferroni), at fixed seeds; a correct
library fails this file with probability at most 1 % over the choice of seeds. Planted errors are
rejected at the same level.
"""

from functools import cache

import numpy as np
import pytest
from helpers.several_heads import SMALL
from helpers.sgd_laws import ks_p
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.dynamics.engines.compiled_heads import CompiledSgd
from attnscope.dynamics.engines.full_heads import FullHeads
from attnscope.dynamics.starts import sphere_grams


def moving(n, m, free=False):
    return [(i, j) for i in range(m) for j in range(i if free else i + 1, n)]


def smallest_p(G, H, m, free=False):
    """Over all inner products that move and all products of two of them; both (runs, n, n)."""
    pairs = moving(G.shape[1], m, free)
    a, b = (np.stack([M[:, i, j] for i, j in pairs]) for M in (G, H))
    tests = [(a[i], b[i]) for i in range(len(pairs))]
    tests += [(a[i] * a[j], b[i] * b[j]) for i, j in zip(*np.triu_indices(len(pairs)))]
    return min(ks_p(x, y) for x, y in tests)


def count(n, m, free=False):
    pairs = len(moving(n, m, free))
    return pairs + pairs * (pairs + 1) // 2


# starts; engines (softmax, erf, free): two heads and two directions, n = 8, m = 4
LEVEL = 0.01 / (3 * count(8, 4) + count(8, 4, True))


def test_starts_have_the_law_of_uniform_vectors():
    rng, runs, task = np.random.default_rng(8), 4000, at.MultiDirection(9, 4, 2)
    x = rng.standard_normal((runs, 4, 9))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    star = np.stack([task.keys, task.values], 1).reshape(4, 9)
    x = np.concatenate([x, np.repeat(star[None], runs, 0)], axis=1)
    G = sphere_grams(task, 2, runs, seed=2)
    assert smallest_p(G, x @ x.transpose(0, 2, 1), 4) > LEVEL
    # one dimension too many
    wrong = sphere_grams(at.MultiDirection(10, 4, 2), 2, runs, seed=2)
    assert np.abs(np.diagonal(G, axis1=1, axis2=2) - 1).max() < 1e-14
    assert np.array_equal(G[:5], sphere_grams(task, 2, 5, seed=2)) and not np.array_equal(
        G, wrong
    )


ENGINES = {
    "softmax": (at.Softmax(0.9), "sphere"),
    "erf": (at.Erf(0.6), "sphere"),
    "free": (at.Softmax(0.9), "free"),
}
RUNS = 4000
STEPS = 3
ALPHA = 0.2
BATCH = 2


@cache
def after(name, kind, seed, freedom=0):
    """Gram matrices after STEPS steps of size .2, all runs from one start: large steps, so that
    every part of the law matters.
    """
    head, constraint = ENGINES[name]
    predictor = at.MultiHead(head, 2)
    if kind == "full":
        engine = FullHeads(SMALL, predictor, ALPHA, BATCH, constraint)
    else:
        engine = CompiledSgd(
            SMALL, head, ALPHA, BATCH, heads=2, informative=2, constraint=constraint
        )
        engine.freedom += freedom  # plants an error
    start = np.repeat(sphere_grams(SMALL, 2, 1, seed=3), RUNS, axis=0)
    state = engine.start(start, seed)
    np.testing.assert_allclose(engine.gram(state), start, atol=EXACT)
    return engine.gram(engine.advance(state, np.full(STEPS, head.inverse_temperature)))


@pytest.mark.parametrize(
    "name",
    ["softmax", *(pytest.param(name, marks=pytest.mark.slow) for name in ("erf", "free"))],
)
def test_reduced_engine_has_the_law_of_the_vectors(name):
    free = ENGINES[name][1] == "free"
    assert smallest_p(after(name, "reduced", 1), after(name, "full", 2), 4, free) > LEVEL


@pytest.mark.slow
def test_a_planted_error_is_rejected():
    """Two degrees of freedom of the out-of-span part too many."""
    assert (
        smallest_p(after("softmax", "reduced", 1, freedom=2), after("softmax", "full", 2), 4)
        < LEVEL
    )
