"""Compiled SGD of heads: its law against SGD on vectors and against the JAX engine, its gradient on
given draws against JAX, its bits in pieces.

Family-wise false alarm of the law tests: 1 %, by Bonferroni over all of them together, quick and
slow (FAMILY below). Seeds are fixed. The same tests at the same level must reject planted errors.
"""

from functools import cache

import numpy as np
import pytest
from helpers.sgd_laws import (
    Case,
    as_gram,
    moved,
    orthogonal_start,
    reference,
    setting,
    smallest_p,
)
from helpers.tolerances import FEW_ROUNDINGS

from attnscope.dynamics.engines.compiled_heads import CompiledSgd
from attnscope.dynamics.engines.full_vectors import FullSgd
from attnscope.dynamics.engines.gram_sgd import GenericSgd
from attnscope.dynamics.engines.head_sums import (
    ERF,
    SOFTMAX,
    SOFTMAX_ONE,
    add_sequence,
    from_blocks,
    to_blocks,
)
from attnscope.dynamics.engines.losses import squared_loss
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.dynamics.train import train
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.x64 import x64
from attnscope.numerics.compiled import run_tiles
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.predictors.attention import Erf, LinearAttention, Softmax, SoftmaxOne
from attnscope.predictors.heads import MultiHead
from attnscope.tasks.planted.single_location import SingleLocation

QUICK = 20_000
SLOW = 100_000
PATHS = 2000

SOFTMAX7 = Case("softmax, d = 7", "softmax", 7)
ONE = Case("softmax one, d = 5", "softmax-one", 5, length=3, lam=1.5)
TWO = Case("two softmax heads, d = 6", "softmax", 6, heads=2, length=3, alpha=0.3)
FOUR_TEACHERS = Case("two of two, d = 9", "softmax", 9, heads=2, informative=2, alpha=0.3)
ERFS = Case("two erf heads, d = 40", "erf", 40, heads=2, alpha=0.1)
FREE = Case("softmax, d = 5, free", "softmax", 5, constraint="free", alpha=0.2, batch=3)
DEPENDENT = Case("erf, d = 4, k = v*", "erf", 4, gamma=1.5, start="k = v*", batch=1)
THREE = Case("three erf heads, d = 9", "erf", 9, heads=3, alpha=0.1)
CASES = [SOFTMAX7, ONE, TWO, FOUR_TEACHERS, ERFS, FREE, DEPENDENT, THREE]
LONGER = [(SOFTMAX7, 10), (TWO, 100), (ERFS, 10)]
PATHS_OF = [LONGER[0]] + [pytest.param(*path, marks=pytest.mark.slow) for path in LONGER[1:]]
FAMILY = (
    2 * sum(case.comparisons for case in CASES)
    + sum(case.comparisons for case, _ in LONGER)
    + SOFTMAX7.comparisons
    + TWO.comparisons
    + ERFS.comparisons
)
LEVEL = 0.01 / FAMILY


@cache
def engine(case, extra_freedom=0, spread=None):
    task, predictor = setting(case)
    out = CompiledSgd(
        task,
        predictor,
        case.alpha,
        case.batch,
        heads=case.heads,
        informative=case.informative,
        constraint=case.constraint,
    )
    out.freedom += extra_freedom  # plants an error
    out.spread = out.spread if spread is None else spread  # plants another
    return out


# -- the law ---------------------------------------------------------------------------------------


# those of many comparisons have their turn in `make test-all`, the last one below in more samples
ONE_STEP = [
    pytest.param(case, marks=pytest.mark.slow) if case in (FOUR_TEACHERS, DEPENDENT) else case
    for case in CASES[:-1]
]


@pytest.mark.parametrize("case", ONE_STEP, ids=lambda case: case.name)
def test_one_step_has_the_law_of_full_sgd(case):
    ours = moved(engine(case), case, QUICK, 1, 1)
    assert smallest_p(case, ours, reference(case, QUICK, 1, 2)) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_step_has_the_law_of_full_sgd_in_many_samples(case):
    ours = moved(engine(case), case, SLOW, 1, 11)
    assert smallest_p(case, ours, reference(case, SLOW, 1, 12)) > LEVEL


@pytest.mark.parametrize(("case", "steps"), PATHS_OF, ids=lambda x: getattr(x, "name", x))
def test_paths_have_the_law_of_full_sgd(case, steps):
    ours = moved(engine(case), case, PATHS, steps, 3)
    assert smallest_p(case, ours, reference(case, PATHS, steps, 4)) > LEVEL


# where there is room outside the frame, d > n, the variance there matters
PLANTED = [
    (SOFTMAX7, {"extra_freedom": 1}),
    (TWO, {"extra_freedom": 1}),
    (SOFTMAX7, {"spread": 1.0}),
    pytest.param(ERFS, {"spread": 1.0}, marks=pytest.mark.slow),
]
NAMES = ["a degree too many", "a degree where none is", "gamma^2 missing", "in two heads"]


@pytest.mark.parametrize(("case", "planted"), PLANTED, ids=NAMES)
def test_planted_errors_are_rejected(case, planted):
    wrong = moved(engine(case, **planted), case, QUICK, 1, 1)
    assert smallest_p(case, wrong, reference(case, QUICK, 1, 2)) < LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("case", [TWO, ERFS], ids=lambda case: case.name)
def test_one_step_has_the_law_of_the_jax_engine(case):
    task, predictor = setting(case)
    loss = squared_loss(predictor, case.heads)
    jax_engine = GenericSgd(task, loss, case.alpha, case.batch, parameters=case.trained)
    ours = moved(engine(case), case, SLOW, 1, 21)
    assert smallest_p(case, ours, moved(jax_engine, case, SLOW, 1, 22)) > LEVEL


@pytest.mark.slow
def test_one_step_has_the_law_of_the_engine_on_vectors():
    task, predictor = setting(SOFTMAX7)
    full = FullSgd(task, predictor, SOFTMAX7.alpha, SOFTMAX7.batch)
    start = orthogonal_start(QUICK)
    lam = np.full(1, SOFTMAX7.lam)
    a, b = (e.overlaps(e.advance(e.init(start, 31), lam)) for e in (engine(SOFTMAX7), full))
    assert smallest_p(SOFTMAX7, as_gram(SOFTMAX7, a), as_gram(SOFTMAX7, b)) > LEVEL


# -- the gradient on given draws -------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.7, 40.0])
@pytest.mark.parametrize(
    ("kind", "head"),
    [(SOFTMAX, Softmax(1.0)), (SOFTMAX_ONE, SoftmaxOne(1.0)), (ERF, Erf(1.0))],
)
def test_the_gradient_on_given_draws_is_that_of_jax(kind, head, lam):
    import jax

    heads, informative, length, batch = 2, 2, 5, 3
    m, n = 2 * heads, 2 * heads + 2 * informative
    rng = np.random.default_rng(7)
    A = np.tril(rng.standard_normal((n, n)))
    tokens = rng.standard_normal((length, n))
    noise = 0.3
    told = tokens[:informative] @ A[m:].T
    label = told[0, 1] + told[1, 3] + noise
    # a background token is not drawn beyond m: the frame's trained rows end there anyway
    seen = tokens[:, :m] @ A[:m, :m].T
    with x64():
        gradient = jax.jit(jax.grad(squared_loss(head, heads)))
        c = np.asarray(gradient(seen, told, noise, lam)) / batch

    def lanes(x):
        flat = np.asarray(x, dtype=float).reshape(-1, 1)
        return np.ascontiguousarray(np.repeat(flat, LANES, axis=1))

    size = m * n + 2 * m * m
    sums = np.zeros(size * LANES)
    X, R, y = (lanes(x).ravel() for x in (tokens[:, :m], tokens[:informative, m:], label))
    frame, C, stats = (np.empty(k * LANES) for k in (m * m, length * m, 3 * heads))
    to_blocks(frame, lanes(A).ravel(), m, m, n, LANES)
    add_sequence(sums, X, R, y, frame, C, stats, kind, m, n, length, lam, batch, LANES)
    inside, S0, S1 = (np.empty(m * k * LANES) for k in (n, m, m))
    from_blocks(inside, sums, m, n, LANES)
    from_blocks(S0, sums[m * n * LANES :], m, m, LANES)
    from_blocks(S1, sums[m * (n + m) * LANES :], m, m, LANES)
    expected = c.T @ np.where(np.arange(n) < m, tokens, 0.0)
    expected[:, m:] = c[:informative].T @ tokens[:informative, m:]
    below = np.tril_indices(m)
    got = {
        "inside": (inside, expected),
        "S0": (S0, c[informative:].T @ c[informative:]),
        "S1": (S1, c[:informative].T @ c[:informative]),
    }
    # terms of a sum of 5 tokens cancel; lam multiplies the rounding of a score into its weight
    scale = FEW_ROUNDINGS * (1 + lam)
    for name, (ours, theirs) in got.items():
        ours = ours.reshape(-1, LANES)
        assert np.ptp(ours, axis=1).max() == 0
        ours = ours[:, 0].reshape(theirs.shape)
        pick = ... if name == "inside" else below
        size = np.abs(theirs).max()
        np.testing.assert_allclose(ours[pick], theirs[pick], rtol=0, atol=scale * size)


# -- bits, trouble, and who gets this engine -------------------------------------------------------


def spread_start(runs, n=4, m=2):
    x = np.random.default_rng(0).standard_normal((runs, n, 12))
    x[:, m:] = np.eye(12)[: n - m]
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    return x @ x.transpose(0, 2, 1)


@pytest.mark.parametrize("case", [SOFTMAX7, ERFS], ids=lambda case: case.name)
def test_splitting_company_and_threads_do_not_change_a_bit(monkeypatch, case):
    sgd = engine(case)
    start = spread_start(40, 2 * case.heads + 2, 2 * case.heads)
    lam = np.linspace(0.5, 1.0, 17)
    whole = sgd.advance(sgd.start(start, 3), lam)
    parts = sgd.start(start, 3)
    for piece in np.split(lam, [1, 2, 9]):
        parts = sgd.advance(parts, piece)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    alone = sgd.advance(sgd.start(start[:3], 3), lam)
    np.testing.assert_array_equal(alone["gram"], whole["gram"][:3])
    monkeypatch.setattr(run_tiles, "THREADING_SECONDS", 0.0)
    monkeypatch.setattr(run_tiles.config, "NUMBA_NUM_THREADS", 3)
    np.testing.assert_array_equal(
        sgd.advance(sgd.start(start, 3), lam)["gram"], whole["gram"]
    )
    assert not np.array_equal(sgd.advance(sgd.start(start, 4), lam)["gram"], whole["gram"])


def test_a_run_that_is_not_finite_stays_so_and_alone():
    sgd = engine(SOFTMAX7)
    state = sgd.start(spread_start(3), 0)
    clean = sgd.advance(state, np.full(3, 0.8))["gram"]
    state["gram"][1, 0, 2] = np.inf
    got = sgd.advance(state, np.full(3, 0.8))["gram"]
    assert np.isnan(got[1]).all()
    np.testing.assert_array_equal(got[::2], clean[::2])


@pytest.mark.parametrize("head", [Softmax(1e6), SoftmaxOne(1e6)])
def test_large_scores_do_not_overflow(head):
    task = SingleLocation(10**9, 3)
    sgd = CompiledSgd(task, head, 1e-12, 2)
    state = sgd.advance(sgd.init(orthogonal_start(2), 0), np.full(20, 1e6))
    assert np.isfinite(state["gram"]).all()


@pytest.mark.parametrize(
    "start", [[1, 0, 0, 1, 0], [0.6, 0.8, 0.6, 0.8, 1], [0, 0, 0, 0, -1]]
)
def test_degenerate_starts_keep_a_gram_matrix(start):
    sgd = CompiledSgd(SingleLocation(4, 3, signal=1.0), Softmax(1.0), 1e-2, 2)
    state = sgd.init(np.tile(np.array(start, float)[:, None], 16), 1)
    for steps in (1, 20, 500):
        state = sgd.advance(state, np.full(steps, 1.0))
        assert np.linalg.eigvalsh(state["gram"]).min() > -1e-9
        assert np.abs(state["gram"]).max() <= 1 + 1e-12


def test_heads_are_trained_by_it_and_extended_bit_for_bit():
    task = SingleLocation(30, 5)
    options = {"runs": 2, "log_every": 5, "batch_size": 3, "progress": False}
    head = MultiHead(Softmax(1.0), 2)
    run = train(task, head, steps=10, **options)
    assert "generators" in run.state
    longer = train(task, head, steps=20, **options)
    np.testing.assert_array_equal(run.extend(10, progress=False).gram, longer.gram)


@pytest.mark.slow  # JAX compiles
def test_a_run_saved_before_goes_on_by_the_engine_that_began_it(tmp_path):
    task = SingleLocation(30, 5)
    head = MultiHead(Softmax(1.0), 2)
    run = train(
        task, head, runs=2, steps=4, log_every=2, batch_size=3, step_size=0.01, progress=False
    )
    older = GenericSgd(task, squared_loss(Softmax(1.0), 2), 0.01, 3, parameters=4)
    state = older.start(run.gram[:, -1], 0)
    vars(run)["state"].clear()
    run.state.update(state)
    run.save(tmp_path / "old.npz")
    found = HeadTrajectory.load(tmp_path / "old.npz").extend(6, progress=False)
    np.testing.assert_array_equal(
        found.gram[:, -1], older.advance(state, np.full(6, 1.0))["gram"]
    )


def test_other_heads_are_refused():
    with pytest.raises(AttnscopeError, match="head of CompiledSgd must be one of Softmax"):
        CompiledSgd(SingleLocation(30, 5), LinearAttention(1.0), 0.1, 1)
    with pytest.raises(AttnscopeError, match="batch_size of CompiledSgd"):
        CompiledSgd(SingleLocation(30, 5), Softmax(1.0), 0.1, 0)
