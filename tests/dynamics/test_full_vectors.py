"""Engines on vectors and matrices, and the exact population engine that they check.

Population paths must agree to rounding; stochastic engines keep the contract bit for bit, and lower
their loss. (The law of FullSgd is compared with that of the reduced engine in
test_gram_sgd.py.)
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT, LAST_DIGIT

from attnscope.dynamics.engines.full_vectors import FullPopulation, FullSgd
from attnscope.dynamics.engines.pair_vectors import vectors_with
from attnscope.dynamics.engines.population_erf import population_steps
from attnscope.dynamics.engines.population_exact import PopulationExact
from attnscope.dynamics.networks.layer_matrices import FullMatrices
from attnscope.errors import AttnscopeError
from attnscope.predictors.attention import (
    Componentwise,
    Erf,
    LinearAttention,
    Predictor,
    Softmax,
)
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law
from attnscope.theory.overlaps import Overlaps

# (5, 3)
START = np.array(
    [[0.1, 0.05, 0.02, 0.1, 0.03], [0.3, -0.2, 0.1, -0.3, 0.5], [-0.2, 0.3, 0.4, 0.1, -0.1]]
).T


def tilted(dim, length, angle, **numbers):
    """A task with key.value = angle."""
    key = np.zeros(dim)
    value = np.zeros(dim)
    key[0], value[0], value[1] = 1, angle, np.sqrt(1 - angle**2)
    return SingleLocation(dim, length, key=key, value=value, **numbers)


def distance(a, b):
    return np.abs(a - b).max()


def path(engine, inverse_temperatures, start=START, seed=0):
    return engine.overlaps(engine.advance(engine.init(start, seed), inverse_temperatures))


# -- population ------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [pytest.param(0.0, marks=pytest.mark.slow), 0.4])
def test_erf_overlaps_follow_the_vectors(angle):
    task, lam = tilted(50, 10, angle), 0.3 / (1 + 1e-3 * np.arange(1000))
    reduced = path(PopulationExact(task, Erf(0.1), 4e-3), lam)
    assert distance(reduced, START) > 0.3  # it went somewhere
    assert distance(reduced, path(FullPopulation(task, Erf(0.1), 4e-3), lam)) < 1e-10


def test_erf_agrees_with_the_dedicated_engine():
    task, lam = SingleLocation(50, 10), np.full(1000, 0.1)
    dedicated = population_steps(START, lam, 4e-3, Law.of(task))
    assert distance(path(PopulationExact(task, Erf(0.1), 4e-3), lam), dedicated) < 1e-11


def test_linear_attention_overlaps_follow_the_vectors():
    task, predictor, lam = (
        tilted(30, 5, -0.3),
        LinearAttention(0.2, offset=0.1),
        np.full(300, 0.2),
    )
    reduced = PopulationExact(task, predictor, 1e-2)
    full = FullPopulation(task, predictor, 1e-2)
    assert distance(path(reduced, lam), path(full, lam)) < 1e-10


@pytest.mark.parametrize("steps", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_softmax_overlaps_follow_the_vectors(steps):
    """Adaptive quadrature on one side, a fixed grid with autodiff on the other.

    Step size 0.03: at 0.1 the end point is unstable, and any two starts 1e-12 apart differ by 1e-3
    after 200 steps.
    """
    task, lam = tilted(30, 6, 0.2), np.full(steps, 0.9)
    reduced = path(PopulationExact(task, Softmax(0.9), 0.03), lam)
    assert distance(reduced, START) > 0.1
    assert distance(reduced, path(FullPopulation(task, Softmax(0.9), 0.03), lam)) < 1e-8


def test_any_activation_follows_the_vectors():
    task, predictor, lam = tilted(9, 4, 0.3), Componentwise(np.tanh, 0.5), np.full(40, 0.5)
    reduced = PopulationExact(task, predictor, 0.05)
    full = FullPopulation(task, predictor, 0.05)
    assert distance(path(reduced, lam), path(full, lam)) < 1e-12


def test_the_general_route_agrees_with_the_closed_form():
    """erf as any activation: quadrature against closed form along a path."""
    task, lam = tilted(40, 6, 0.3), np.full(40, 0.3)
    general = Componentwise(Erf(0.3).sigma, 0.3)
    closed = Erf(0.3)
    a, b = (
        path(PopulationExact(task, predictor, 1e-2), lam) for predictor in (general, closed)
    )
    assert distance(a, b) < 1e-12


def test_population_runs_do_not_meet_and_paths_can_be_cut():
    task, lam = SingleLocation(50, 10), np.linspace(0.1, 0.2, 30)
    for engine in (
        PopulationExact(task, Erf(0.1), 4e-3),
        PopulationExact(task, Softmax(0.5), 4e-3),
        FullPopulation(task, Erf(0.1), 4e-3),
    ):
        whole = engine.advance(engine.init(START, 0), lam)
        parts = engine.advance(engine.advance(engine.init(START, 0), lam[:7]), lam[7:])
        assert all(np.array_equal(whole[name], parts[name]) for name in whole)
        assert np.array_equal(path(engine, lam, START[:, :1]), engine.overlaps(whole)[:, :1])


def test_a_diverged_population_run_stays_alone():
    for predictor in (Erf(0.1), Softmax(0.5)):
        engine = PopulationExact(SingleLocation(50, 10), predictor, 4e-3)
        state = engine.init(START, 0)
        state["overlaps"][0, 0] = np.nan
        out = engine.overlaps(engine.advance(state, np.full(3, 0.1)))
        assert np.isnan(out[:, 0]).all() and np.isfinite(out[:, 1:]).all()


# -- vectors with given overlaps -------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.0, 0.6])
@pytest.mark.parametrize("dim", [4, 5, 100])
def test_start_vectors_have_the_overlaps(dim, angle):
    task = tilted(dim, 3, angle)
    k, v = vectors_with(START, task, 1, "test")
    found = np.stack(
        [k @ task.key, k @ task.value, v @ task.key, v @ task.value, (k * v).sum(1)]
    )
    assert np.abs(found - START).max() < 1e-14
    alone, _ = vectors_with(START[:, :1], task, 1, "test")
    assert np.array_equal(alone[0], k[0])
    assert not np.allclose(vectors_with(START, task, 2, "test")[0], k)


def test_dependent_starts_and_small_dimensions():
    swapped = Overlaps(0.0, 1.0, 1.0, 0.0, 0.0)
    oracle = Overlaps.oracle()
    for dim in (2, 3, 4):
        task = SingleLocation(dim, 3)
        (k, _), (v, _) = vectors_with(np.stack([oracle, swapped], axis=1), task, 0, "test")
        assert np.allclose([k, v], [task.key, task.value], atol=LAST_DIGIT)
        k, v = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, 2)))[0].T
        overlaps = np.array(Overlaps.of(task, k, v))[:, None]
        engine = FullSgd(task, Erf(0.1), 0.1, 1)
        assert (
            np.abs(engine.overlaps(engine.init(overlaps, 0)) - overlaps).max() < 1e-8
        )  # d < 4: overlaps of exact rank only to rounding
    with pytest.raises(
        AttnscopeError, match="overlaps of FullSgd must be those of vectors in dimension 3"
    ):
        FullSgd(SingleLocation(3, 3), Erf(0.1), 0.1, 1).init(START[:, :1], 0)


# -- SGD on vectors --------------------------------------------------------------------------------


def mean_risk(task, predictor, k, v, loss="squared"):
    batch = task.sample(20_000, seed=99)
    T = predict(predictor, k, v, batch.tokens)
    return np.mean(
        (T - batch.target) ** 2
        if loss == "squared"
        else np.logaddexp(0, -np.sign(batch.target) * T)
    )


@pytest.mark.parametrize(
    ("optimiser", "loss", "step_size"),
    [
        # adam's steps are also those of the test of bits below
        pytest.param("adam", "squared", 0.02, marks=pytest.mark.slow),
        ("sgd", "logistic", 0.2),
    ],
)
def test_unconstrained_training_lowers_the_loss(optimiser, loss, step_size):
    task, predictor = SingleLocation(8, 4, gamma=0.7, noise=0.1, signal=3.0), Softmax(1.0)
    engine = FullSgd(task, predictor, step_size, 16, optimiser=optimiser, loss=loss)
    state = engine.init(START, 5)
    assert np.allclose(engine.norms(state), 1)
    end = engine.advance(engine.advance(state, np.full(100, 1.0)), np.full(500, 1.0))
    before, after = (
        mean_risk(task, predictor, s["k"][0], s["v"][0], loss) for s in (state, end)
    )
    assert after < 0.6 * before
    assert np.abs(engine.norms(end) - 1).min() > 1e-3  # the sphere was left
    assert np.allclose(engine.overlaps(end)[4], (end["k"] * end["v"]).sum(1))


@pytest.mark.slow
def test_splitting_and_company_do_not_change_a_bit():
    task = SingleLocation(6, 3, location_probs=np.array([0.5, 0.0, 0.5]), noise=0.2)
    engine = FullSgd(task, Softmax(1.0), 0.05, 2, optimiser="adam")
    # 21 runs: more than one tile
    start = np.repeat(START, 7, axis=1)
    lam = np.linspace(0.5, 1, 9)
    whole = engine.advance(engine.init(start, 1), lam)
    parts = engine.init(start, 1)
    for piece in np.split(lam, [1, 5]):
        parts = engine.advance(parts, piece)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    alone = engine.advance(engine.init(start[:, :2], 1), lam)
    assert np.array_equal(alone["k"], whole["k"][:2])
    assert len(np.unique(whole["k"][:, 0])) == 21


def test_a_diverged_vector_run_is_an_outcome():
    engine = FullSgd(SingleLocation(6, 3), LinearAttention(1.0), 1e6, 1, optimiser="sgd")
    state = engine.advance(engine.init(START, 0), np.full(40, 1.0))
    assert not np.isfinite(engine.overlaps(state)).any()


def test_batches_follow_the_task():
    """Token and label moments of the draw inside JAX, in standard errors (8 normal tests at 4:
    false alarm 5e-4).
    """
    from attnscope.dynamics.engines.full_vectors import draw_batch
    from attnscope.numerics.border.x64 import x64

    task = tilted(
        5, 3, 0.4, gamma=0.6, noise=0.5, signal=2.0, location_probs=np.array([0.2, 0.0, 0.8])
    )
    with x64():
        import jax

        draw = jax.jit(lambda key: draw_batch(task, key, 40_000))
        tokens, label = (np.asarray(x) for x in draw(jax.random.key(3)))
    score = tokens @ task.key
    found = [
        score[:, 0],
        score[:, 1],
        score[:, 2],
        tokens[:, 1, 3] ** 2,
        label,
        (label - 2 * 0.4) ** 2,
    ]
    wanted = [0.2 * 2, 0.0, 0.8 * 2, 1.0, 2 * 0.4, 0.6**2 + 0.5**2]
    found += [label * tokens[:, 0, 1], np.sum(tokens**2, axis=(1, 2))]
    wanted += [0.2 * 0.6**2 * task.value[1], 2 * 5 + 4 + 5 * 0.36]
    z = [(x.mean() - m) / (x.std() / np.sqrt(len(x))) for x, m in zip(found, wanted)]
    assert np.abs(z).max() < 4


# -- matrices --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_matrices_start_at_the_overlaps_and_learn_an_easy_task():
    task = SingleLocation(8, 3, signal=4.0, noise=0.1)
    engine = FullMatrices(
        task, 1.0, inner=4, step_size=0.02, batch_size=32, scale=0.1, query="learned"
    )
    state = engine.init(START, 2)
    assert np.abs(engine.overlaps(state) - START).max() < 1e-13
    assert np.abs(engine.norms(state) - 0.1).max() < 1e-13
    end = engine.advance(engine.advance(state, np.full(1, 1.0)), np.full(599, 1.0))
    (kap, _, _, nu, _), batch = engine.overlaps(end), task.sample(5000, seed=7)
    assert (kap > 0.85).all() and (nu > 0.95).all()
    losses = [
        np.mean(
            (engine.layer(s).cls_row(batch.tokens, s["cls"][0])[:, 0] - batch.target) ** 2
        )
        for s in (state, end)
    ]
    assert losses[1] < 0.2 * losses[0]
    k, v = engine.directions(end)
    reduced = predict(Softmax(1.0), k[0], v[0], batch.tokens)
    assert np.allclose(
        engine.layer(end).cls_row(batch.tokens, end["cls"][0])[:, 0], reduced, atol=EXACT
    )
    assert not np.allclose(end["cls"], state["cls"])


@pytest.mark.slow  # JAX compiles it for three numbers of runs
def test_matrices_with_sgd_keep_the_query_and_the_contract():
    engine = FullMatrices(
        SingleLocation(6, 3, signal=3.0),
        1.0,
        inner=3,
        step_size=0.1,
        batch_size=4,
        optimiser="sgd",
        scale=0.3,
    )
    lam = np.full(6, 1.0)
    whole = engine.advance(engine.init(START, 2), lam)
    parts = engine.advance(engine.advance(engine.init(START, 2), lam[:2]), lam[2:])
    alone = engine.advance(engine.init(START[:, :1], 2), lam)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    assert np.array_equal(alone["K"][0], whole["K"][0])
    assert np.array_equal(whole["cls"], engine.init(START, 2)["cls"])
    assert not np.allclose(whole["Q"], engine.init(START, 2)["Q"])


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda task: FullSgd(task, Erf(0.1), 0.1, 1, optimiser="lion"),
            "optimiser of FullSgd must be 'sphere-sgd' or 'sgd' or 'adam'",
        ),
        (lambda task: FullSgd(task, Erf(0.1), 0.1, 1, loss="hinge"), "loss of FullSgd"),
        (lambda task: FullSgd(task, Erf(0.1), -0.1, 1), "step_size of FullSgd"),
        (lambda task: FullSgd("task", Erf(0.1), 0.1, 1), "task of FullSgd"),
        (
            lambda task: FullPopulation(task, Predictor(0.1), 0.1),
            "predictor of FullPopulation",
        ),
        (lambda task: PopulationExact(task, "erf", 0.1), "predictor of PopulationExact"),
        (
            lambda task: PopulationExact(task, Erf(0.1), np.inf),
            "step_size of PopulationExact",
        ),
        (lambda task: FullMatrices(task, 1.0, 0, 0.1, 1), "inner of FullMatrices"),
        (
            lambda task: FullMatrices(task, 1.0, 2, 0.1, 1, query="none"),
            "query of FullMatrices",
        ),
        (
            lambda task: PopulationExact(task, Erf(0.1), 0.1).init(np.ones((5, 1)) * 0.9, 0),
            "positive semidefinite",
        ),
        (
            lambda task: PopulationExact(task, Erf(0.1), 0.1).init(np.zeros((4, 1)), 0),
            "overlaps of PopulationExact",
        ),
        (
            lambda task: FullSgd(task, Erf(0.1), 0.1, 1).init(np.zeros(5), 0),
            "overlaps of FullSgd",
        ),
    ],
)
def test_bad_input_gets_one_sentence(build, words):
    with pytest.raises(AttnscopeError, match=words):
        build(SingleLocation(9, 4))
