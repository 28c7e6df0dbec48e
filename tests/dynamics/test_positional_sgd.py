"""SGD of positional or semantic attention: in law that of vectors, and where the basins say.

Kolmogorov-Smirnov tests reject below 1e-4: 2e-4 false alarms, had the seeds not been fixed.
"""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import ks_2samp

import attnscope as at
from attnscope.dynamics.engines.positional_loop import positional_steps

RUNS = 1500
STEPS = 12
RATE = 0.15


def task(dim=9, mix=0.3, contrast=1.2, position=1.4):
    return at.PositionalSemantic(dim, mix, contrast, position)


def sgd_on_vectors(it, batch, seed, dim=None, rate=RATE):
    """(y, m) of vectors in R^d by the definition, gradients by hand on x_1 + p and x_2 - p."""
    dim = dim or it.dim
    rng = np.random.default_rng(seed)
    place, key = np.eye(dim)[:2]
    p = it.position * place
    k = np.tile(0.3 * place + 0.4 * key + np.sqrt(0.75) * np.eye(dim)[2], (RUNS, 1))
    for _ in range(STEPS):
        total = np.zeros_like(k)
        for _ in range(batch):
            x = rng.standard_normal((RUNS, 2, dim))
            u = x @ key
            told = expit(
                np.stack([u[:, 0] * (u[:, 0] - u[:, 1]), u[:, 1] * (u[:, 1] - u[:, 0])])
            )
            y = (1 - it.mix) * told + it.mix * it.positional_weight
            seen = np.stack([x[:, 0] + p, x[:, 1] - p])  # (2, runs, d)
            f = (seen * k).sum(2)
            for i, j in ((0, 1), (1, 0)):
                s = expit(f[i] * (f[i] - f[j]))
                slope = -2 * (y[i] - s) * s * (1 - s)
                by_score = (2 * f[i] - f[j])[:, None] * seen[i] - f[i][:, None] * seen[j]
                total += slope[:, None] * by_score
        total /= batch
        total -= (total * k).sum(1, keepdims=True) * k
        k = k - rate * total
        k /= np.linalg.norm(k, axis=1, keepdims=True)
    return k @ place, k @ key


def in_law(it, batch, seed, **changed):
    start = (0.3 * it.position, 0.4)
    given = {"steps": STEPS, "step_size": RATE, "batch_size": batch, "seed": seed} | changed
    found = at.positional_sgd(it, start, runs=RUNS, **given)
    return found.y, found.m


def smallest(a, b):
    return min(ks_2samp(x, y).pvalue for x, y in zip(a, b))


@pytest.mark.parametrize("batch", [1, 3])
def test_the_law_is_that_of_vectors_and_planted_errors_are_rejected(batch):
    it = task()
    vectors = sgd_on_vectors(it, batch, seed=1)
    assert smallest(in_law(it, batch, seed=2), vectors) > 1e-4
    assert smallest(in_law(it, batch, seed=2, step_size=1.3 * RATE), vectors) < 1e-4
    assert smallest(in_law(task(mix=0.6), batch, seed=2), vectors) < 1e-4
    assert smallest(in_law(task(dim=40), batch, seed=2), vectors) < 1e-4


def test_three_dimensions_leave_nothing_outside():
    it = task(dim=3)
    assert smallest(in_law(it, 1, seed=4), sgd_on_vectors(it, 1, seed=3)) > 1e-4


def test_longer_runs_and_more_runs_change_no_bit():
    tasks = [task(50, w, 1.0) for w in np.linspace(0, 1, 20)]
    whole = at.positional_sgd(tasks, steps=50, step_size=0.01, seed=7)
    parts = at.positional_sgd(tasks, steps=20, step_size=0.01, seed=7).extend(30)
    first = at.positional_sgd(tasks[:3], steps=50, step_size=0.01, seed=7)
    assert (whole.y == parts.y).all() and (whole.m == parts.m).all()
    assert (whole.y[:3] == first.y).all() and whole.steps == parts.steps == 50
    assert (whole.e == 1.4 * whole.y).all()
    assert (at.positional_sgd(tasks, steps=50, step_size=0.01, seed=8).m != whole.m).all()


def test_small_steps_end_where_the_basins_say():
    """Starts well inside the two basins; steps of 4e-4 in d = 1000."""
    it = at.PositionalSemantic(1000, 0.6, 1.0)
    e = np.array([0.1, 0.2, 0.5, 0.7])
    m = np.array([0.6, 0.7, 0.1, 0.2])
    told = at.positional_basins(it, e, m)
    assert told.tolist() == [0, 0, 1, 1]
    runs = at.positional_sgd(
        [it] * 16, (np.tile(e, 4), np.tile(m, 4)), steps=150_000, step_size=4e-4, seed=5
    )
    ends = np.where(np.abs(runs.m) > np.abs(runs.y), 0, 1)
    assert (ends == np.tile(told, 4)).all()
    assert np.maximum(np.abs(runs.m), np.abs(runs.y)).min() > 0.8


def test_the_inner_loop_hands_generators_on():
    from attnscope.numerics.compiled.fast_normal import seed_generators

    state = np.array([[0.1], [0.2]])
    settings = np.array([[0.3], [0.2], [1.0]])
    after, generators = positional_steps(state, settings, seed_generators(0, 1), 3, 0.1, 1, 5)
    assert after.shape == (2, 1) and generators.shape == (1, 4)
    assert np.isfinite(after).all()


REFUSED = {
    "task of positional_sgd must be a PositionalSemantic": lambda: at.positional_sgd(3),
    "task of positional_sgd must be": lambda: at.positional_sgd([]),
    "dim of positional_sgd must be one integer": lambda: at.positional_sgd(
        [task(5), task(6)]
    ),
    "dim of positional_sgd must be one": lambda: at.positional_sgd(task(2)),
    "steps of positional_sgd must be": lambda: at.positional_sgd(task(), steps=0),
    "step_size of positional_sgd must be": lambda: at.positional_sgd(task(), step_size=-1),
    "start of positional_sgd must be a pair": lambda: at.positional_sgd(task(), 0.3),
    "start of positional_sgd must be numbers": lambda: at.positional_sgd(
        task(), (np.zeros(3), np.zeros(3))
    ),
    r"\(e, m\) of positional_sgd must be overlaps": lambda: at.positional_sgd(
        task(), (1.0, 1.0)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_bad_input_gets_one_sentence(sentence):
    with pytest.raises(at.AttnscopeError, match=sentence):
        REFUSED[sentence]()
