"""The generic reduced SGD engine has the law of full-dimensional SGD.

Its law is compared by two-sample Kolmogorov-Smirnov tests with SGD on vectors in plain NumPy
(helpers/sgd_laws.py). Seeds are fixed; the level of one comparison is 1 % divided by the number of all comparisons
of this file (Bonferroni), so that a correct engine fails any of them with probability at most 1 %
over the choice of seeds (the test of means adds 0.3 %). The same tests at the same level must
reject planted errors.
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
from helpers.tolerances import FEW_ROUNDINGS, FORMULA
from scipy.special import expit
from scipy.stats import chi2, kstest, norm

from attnscope.dynamics.engines.full_vectors import FullSgd
from attnscope.dynamics.engines.gram_sgd import GenericSgd, bartlett, bartlett_normals
from attnscope.dynamics.engines.losses import logistic_loss, squared_loss, weight_function
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.x64 import x64
from attnscope.predictors.attention import Componentwise, Erf, LinearAttention, Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law
from attnscope.theory.optima.optimal_sigma import optimal_sigma
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk, risk_gradient

# samples of a one-step kernel
QUICK = 20_000
SLOW = 50_000
PATHS = 2000


SOFTMAX7 = Case("softmax, d = 7", "softmax", 7)
CASES = [
    SOFTMAX7,
    Case("softmax, d = 80", "softmax", 80, alpha=0.15),
    Case("two heads, d = 8", "softmax", 8, heads=2, informative=2, alpha=0.3),
    Case("two heads, d = 40", "erf", 40, heads=2, informative=2, alpha=0.1),
    Case("logistic, d = 8", "softmax", 8, loss="logistic", alpha=1.0),
    Case(
        "erf, d = 4, gamma = 1.5, dependent start",
        "erf",
        4,
        gamma=1.5,
        start="k = v*",
        batch=1,
    ),
    Case("softmax, d = 5, free norms", "softmax", 5, constraint="free", alpha=0.2, batch=3),
]
# every case is an engine that JAX compiles: one softmax head and free norms stand for the rest, which
# have their turn in `make test-all`
QUICK_CASES = (CASES[-1],)
ONE_STEP = [
    case if case in QUICK_CASES else pytest.param(case, marks=pytest.mark.slow)
    for case in CASES
]
QUICK_PATHS = [
    (SOFTMAX7, 10),
    (SOFTMAX7, 100),
    (CASES[2], 10),
    (CASES[4], 10),
    (CASES[4], 100),
]
PATHS_OF = [QUICK_PATHS[0]] + [
    pytest.param(*path, marks=pytest.mark.slow) for path in QUICK_PATHS[1:]
]
SLOW_PATHS = [(case, steps) for case in CASES for steps in (10, 100)] + [
    (case, 1000) for case in (*CASES[:3], CASES[4])
]
DEDICATED = Case("erf, d = 9, dedicated engine", "erf", 9, length=3, alpha=0.2)
# one-step laws, quick and slow; paths; the engine on vectors; the dedicated engine; Bartlett's
# factor
FAMILY = (
    2 * sum(case.comparisons for case in CASES)
    + sum(case.comparisons for case, _ in QUICK_PATHS + SLOW_PATHS)
    + SOFTMAX7.comparisons
    + 2 * DEDICATED.comparisons
    + 10
)
LEVEL = 0.01 / FAMILY


# -- the engine under test -------------------------------------------------------------------------


@cache
def engine(case, extra_freedom=0, spread=None):
    task, predictor = setting(case)
    loss = (squared_loss if case.loss == "squared" else logistic_loss)(predictor, case.heads)
    out = GenericSgd(
        task,
        loss,
        case.alpha,
        case.batch,
        parameters=case.trained,
        informative=case.informative,
        constraint=case.constraint,
    )
    out.freedom += extra_freedom  # plants an error
    out.spread = out.spread if spread is None else spread  # plants another
    return out


def reduced(case, runs, steps, seed, **planted):
    return moved(engine(case, **planted), case, runs, steps, seed)


@pytest.mark.parametrize("case", ONE_STEP, ids=lambda case: case.name)
def test_one_step_has_the_law_of_full_sgd(case):
    assert smallest_p(case, reduced(case, QUICK, 1, 1), reference(case, QUICK, 1, 2)) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_step_has_the_law_of_full_sgd_in_many_samples(case):
    assert smallest_p(case, reduced(case, SLOW, 1, 11), reference(case, SLOW, 1, 12)) > LEVEL


@pytest.mark.parametrize(("case", "steps"), PATHS_OF, ids=lambda x: getattr(x, "name", x))
def test_paths_have_the_law_of_full_sgd(case, steps):
    assert (
        smallest_p(case, reduced(case, PATHS, steps, 3), reference(case, PATHS, steps, 4))
        > LEVEL
    )


@pytest.mark.slow
@pytest.mark.parametrize(("case", "steps"), SLOW_PATHS, ids=lambda x: getattr(x, "name", x))
def test_paths_of_every_case_have_the_law_of_full_sgd(case, steps):
    assert (
        smallest_p(case, reduced(case, PATHS, steps, 13), reference(case, PATHS, steps, 14))
        > LEVEL
    )


@pytest.mark.parametrize(
    "planted",
    [{"extra_freedom": 1}, pytest.param({"spread": 1.0}, marks=pytest.mark.slow)],
    ids=["one degree of freedom too many", "gamma^2 missing"],
)
def test_planted_errors_are_rejected(planted):
    wrong = reduced(SOFTMAX7, QUICK, 1, 1, **planted)
    assert smallest_p(SOFTMAX7, wrong, reference(SOFTMAX7, QUICK, 1, 2)) < LEVEL


def five(case, G):
    m = case.trained
    return np.stack([G[:, 0, m], G[:, 0, m + 1], G[:, 1, m], G[:, 1, m + 1], G[:, 0, 1]])


@pytest.mark.slow
def test_one_step_has_the_law_of_the_engine_on_vectors():
    task, predictor = setting(SOFTMAX7)
    full = FullSgd(task, predictor, SOFTMAX7.alpha, SOFTMAX7.batch)
    small = engine(SOFTMAX7)
    start = orthogonal_start(QUICK)
    lam = np.full(1, SOFTMAX7.lam)
    a = small.overlaps(small.advance(small.init(start, 1), lam))
    b = full.overlaps(full.advance(full.init(start, 2), lam))
    assert smallest_p(SOFTMAX7, as_gram(SOFTMAX7, a), as_gram(SOFTMAX7, b)) > LEVEL


@pytest.mark.slow  # test_sgd_erf.py has the dedicated engine's own law
@pytest.mark.parametrize(("runs", "steps"), [(QUICK, 1), (PATHS, 50)])
def test_erf_has_the_law_of_the_dedicated_engine(runs, steps):
    dedicated = pytest.importorskip("attnscope.dynamics.engines.sgd_erf")
    task, _ = setting(DEDICATED)
    small = engine(DEDICATED)
    start = orthogonal_start(runs)
    lam = np.full(steps, DEDICATED.lam)
    a = small.overlaps(small.advance(small.init(start, 1), lam))
    numbers = {"dim": task.dim, "batch_size": DEDICATED.batch, "noise": task.noise}
    generators = dedicated.seed_generators(2, runs)
    b, _ = dedicated.sgd_steps(
        start, generators, lam, DEDICATED.alpha, Law.of(task), **numbers
    )
    assert smallest_p(DEDICATED, as_gram(DEDICATED, a), as_gram(DEDICATED, b)) > LEVEL


@pytest.mark.slow
def test_bartletts_factor_has_its_law():
    """m = 4 and 10 degrees of freedom: two chi-squares by rejection, two by summed squares,
    six normals.
    """
    import jax

    draw = lambda key: bartlett(
        jax.random.normal(key, (bartlett_normals(10, 4),)),
        jax.random.fold_in(key, 1 << 31),
        10,
        4,
    )
    with x64():
        T = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), 50_000)))
    laws = [(T[:, i, i] ** 2, chi2(10 - i)) for i in range(4)] + [
        (T[:, i, j], norm()) for i in range(4) for j in range(i)
    ]
    assert min(kstest(x, law.cdf).pvalue for x, law in laws) > LEVEL
    assert not T[:, *np.triu_indices(4, 1)].any()


# -- exact moments ---------------------------------------------------------------------------------


MEAN_STEP = [Softmax(0.8)] + [
    pytest.param(p, marks=pytest.mark.slow)
    for p in (Erf(0.8), LinearAttention(0.3, offset=0.2))
]


@pytest.mark.parametrize("predictor", MEAN_STEP, ids=lambda p: type(p).__name__)
def test_mean_step_is_the_exact_population_gradient(predictor):
    """Free vectors move by -alpha g, so the mean move of kappa, eta, theta, nu is known exactly."""
    angle = 0.4
    runs = 20_000
    alpha = 0.1
    key, value = np.eye(6)[0], np.array([angle, np.sqrt(1 - angle**2), 0, 0, 0, 0])
    task = SingleLocation(6, 4, gamma=0.7, noise=0.3, signal=1.2, key=key, value=value)
    o = np.array([0.5, 0.1, -0.2, 0.4, 0.3])
    sgd = GenericSgd(task, squared_loss(predictor), alpha, 4, constraint="free")
    moved = sgd.overlaps(
        sgd.advance(
            sgd.init(np.repeat(o[:, None], runs, axis=1), 7),
            np.full(1, predictor.inverse_temperature),
        )
    )
    change = alpha * np.array(_gradient_along_teachers(task, predictor, o))
    error = (moved[:4].mean(1) - (o[:4] - change)) / (moved[:4].std(1) / np.sqrt(runs))
    # 12 two-sided normal tests in all three cases: false alarm 0.3 %
    assert np.abs(error).max() < 3.7


def _gradient_along_teachers(task, predictor, o):
    """(g_k.k*, g_k.v*, g_v.k*, g_v.v*) of the gradients in free vectors, at unit vectors with
    overlaps o.

    The risk's gradient on spheres gives the tangential part. Radially, |k| multiplies the
    inverse temperature, and |v| = t turns the risk into E Y^2 - 2 t E[Y T] + t^2 E[T^2], where E[Y
    T] and E[T^2] follow from the risks of v and of -v.
    """
    kap, eta, the, nu, rho = o
    c = task.alignment
    EY2 = task.gamma**2 + (task.signal * task.alignment) ** 2
    R_kap, R_eta, R_the, R_nu, R_rho, R_lam = risk_gradient(task, predictor, Overlaps(*o))
    plus, minus = (
        risk(task, predictor, Overlaps(kap, eta, t * the, t * nu, t * rho)).excess
        for t in (1, -1)
    )
    radial_k = predictor.inverse_temperature * R_lam - (
        R_kap * kap + R_eta * eta + R_rho * rho
    )
    radial_v = (
        (plus + minus - 2 * EY2)
        - (minus - plus) / 2
        - (R_the * the + R_nu * nu + R_rho * rho)
    )
    k_part = (
        R_kap + c * R_eta + the * R_rho + radial_k * kap,
        c * R_kap + R_eta + nu * R_rho + radial_k * eta,
    )
    v_part = (
        R_the + c * R_nu + kap * R_rho + radial_v * the,
        c * R_the + R_nu + eta * R_rho + radial_v * nu,
    )
    return *k_part, *v_part


# -- the contract ----------------------------------------------------------------------------------


def test_splitting_and_company_do_not_change_a_bit():
    sgd = engine(SOFTMAX7)
    start = np.random.default_rng(0).uniform(-0.4, 0.4, (5, 40))  # more than one tile
    lam = np.linspace(0.5, 1.0, 17)
    whole = sgd.advance(sgd.init(start, 3), lam)
    parts = sgd.init(start, 3)
    for piece in np.split(lam, [1, 2, 9]):
        parts = sgd.advance(parts, piece)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    assert int(whole["step"]) == 17
    alone = sgd.advance(sgd.init(start[:, :3], 3), lam)
    assert np.array_equal(alone["gram"], whole["gram"][:3])
    other = sgd.advance(sgd.init(start[:, :3], 4), lam)
    assert not np.array_equal(other["gram"], alone["gram"])


@pytest.mark.slow
def test_the_dimension_costs_nothing():
    """d = 10^9 runs like any other: no array of that length exists."""
    sgd = GenericSgd(
        SingleLocation(10**9, 3, signal=1.0), squared_loss(Softmax(1.0)), 1e-9, 1
    )
    state = sgd.advance(sgd.init(orthogonal_start(1), 0), np.full(3, 1.0))
    assert np.isfinite(state["gram"]).all()


def test_a_diverged_run_stays_diverged_and_alone():
    sgd = engine(CASES[-1])  # free norms
    x = CASES[-1].vectors()
    G = np.repeat((x @ x.T)[None], 2, axis=0)
    state = sgd.start(G, 0)
    state["gram"][0, 0, 0] = np.inf
    state = sgd.advance(state, np.full(3, 0.8))
    assert (
        np.isnan(sgd.overlaps(state)[:, 0]).all()
        and np.isfinite(sgd.overlaps(state)[:, 1]).all()
    )


def test_a_numpy_activation_finds_its_twin_and_others_are_refused():
    x = np.linspace(-3, 3, 7)
    with x64():
        for sigma in (np.tanh, expit, lambda t: t / (1 + t * t) ** 0.5):
            assert np.allclose(
                weight_function(Componentwise(sigma, 1.0), "test")(x),
                sigma(x),
                rtol=FEW_ROUNDINGS,
                atol=0,
            )
        best = optimal_sigma(SingleLocation(9, 3))
        assert np.allclose(
            weight_function(best, "test")(x), best.weights(x), rtol=FORMULA, atol=0
        )
    with pytest.raises(AttnscopeError, match="JAX can differentiate"):
        squared_loss(Componentwise(lambda t: np.frompyfunc(float, 1, 1)(t), 1.0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step_size": 0.0}, "step_size of GenericSgd"),
        ({"batch_size": 0}, "batch_size of GenericSgd"),
        ({"constraint": "cube"}, "constraint of GenericSgd"),
        ({"informative": 5}, "informative of GenericSgd"),
        ({"parameters": 8}, "try the full engine"),
        ({"loss": lambda seen, told, noise, lam: seen}, "loss of GenericSgd"),
    ],
)
def test_bad_input_gets_one_sentence(change, words):
    arguments = {
        "loss": squared_loss(Softmax(1.0)),
        "step_size": 0.1,
        "batch_size": 2,
        **change,
    }
    with pytest.raises(AttnscopeError, match=words):
        GenericSgd(SingleLocation(9, 4), **arguments)


def test_bad_starts_get_one_sentence():
    sgd = engine(SOFTMAX7)
    with pytest.raises(AttnscopeError, match="positive semidefinite"):
        sgd.init(np.array([[1.0, 1.0, 0.0, 0.0, 0.0]]).T, 0)
    with pytest.raises(AttnscopeError, match="positive semidefinite"):
        # four unit vectors cannot be that far from each other
        sgd.start(1.9 * np.eye(4)[None] - 0.9, 0)
    with pytest.raises(AttnscopeError, match="symmetric"):
        sgd.start(np.eye(4)[None] * 2, 0)
    with pytest.raises(AttnscopeError, match="try start"):
        engine(CASES[2]).init(orthogonal_start(1), 0)
