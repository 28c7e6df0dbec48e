"""Sparse-token classification: likelihoods by enumeration, errors by quadrature, sampling and other
contours, two gradient steps by JAX.

Stochastic tests have fixed seeds and allow 5 standard errors (6e-7 each), or a Kolmogorov-Smirnov
level of 1e-4: 1e-3 false alarms in all.
"""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.settings import one_sentence
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
    FIVE_DIGITS,
    FORMULA,
    INTEGRAL,
    LAST_DIGIT,
    LONG_SUM,
    ROOT_EPS,
    SOLVED,
)
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom, ks_2samp, norm
from stress.references import sparse_tokens as reference

import attnscope as at
from attnscope.numerics.border.sampled_estimate import FIVE_SIGMA_TAIL, share_error
from attnscope.numerics.border.x64 import x64
from attnscope.numerics.integrals import lognormal_sum
from attnscope.numerics.integrals.lognormal_sum import capped_mean

Task = at.SparseTokenClassification


def bayes(length, theta):
    return Task(2, length, theta).bayes_error()


# -- likelihood and posterior ----------------------------------------------------------------------


@pytest.mark.parametrize("marked", [1, 2, 3, 5])
def test_posteriors_equal_enumeration_over_subsets(marked):
    task = Task(4, 5, 1.3, marked, seed=3)
    x = task.sample(30, seed=1).tokens
    log_noise = norm.logpdf(x).sum(axis=2)  # (n, L)
    log_shifted = norm.logpdf(x - 1.3 * task.direction).sum(axis=2)
    sets = [np.isin(np.arange(5), s) for s in combinations(range(5), marked)]
    # (sets, n)
    each = np.array([np.exp(np.where(s, log_shifted, log_noise).sum(axis=1)) for s in sets])
    none = np.exp(log_noise.sum(axis=1))
    ratio = each.mean(axis=0) / none
    # (L, n)
    inside = np.array(sets, dtype=float).T @ each / len(sets) / (none + each.mean(axis=0))
    np.testing.assert_allclose(task.log_likelihood_ratio(x), np.log(ratio), atol=EXACT)
    np.testing.assert_allclose(task.posterior(x), ratio / (1 + ratio), rtol=EXACT)
    np.testing.assert_allclose(task.token_posterior(x), inside.T, rtol=SOLVED)
    np.testing.assert_array_equal(task.bayes_predict(x), np.where(ratio >= 1, 1, -1))


def test_samples_have_the_stated_law():
    task = Task(3, 6, 2.0, marked=2)
    batch = task.sample(20_000, seed=0)
    assert batch.tokens.shape == (20_000, 6, 3) and set(np.unique(batch.target)) == {
        -1.0,
        1.0,
    }
    np.testing.assert_array_equal(batch.marked.sum(axis=1), np.where(batch.target > 0, 2, 0))
    u = batch.tokens @ task.direction
    half = int((batch.target > 0).sum())
    assert abs(half - 10_000) < 5 * np.sqrt(5000)
    assert np.abs(batch.marked[batch.target > 0].mean(axis=0) - 1 / 3).max() < 5 * np.sqrt(
        2 / 9 / half
    )
    assert abs(u[batch.marked].mean() - 2) < 5 / np.sqrt(2 * half) and abs(
        u[~batch.marked].mean()
    ) < 5 / np.sqrt(80_000)
    again = task.sample(20_000, seed=0)
    np.testing.assert_array_equal(again.tokens, batch.tokens)
    assert task.sample(5, dtype="float32").tokens.dtype == np.float32
    assert [len(b.target) for b in task.batches(25, 10, seed=1)] == [10, 10, 5]


# -- errors ----------------------------------------------------------------------------------------


def two_tokens(theta):
    """2 x Bayes error for L = 2 by quadrature over one token;
    every term positive, so also for tiny errors.
    """
    edge = np.log(2) / theta + theta / 2  # r_1 < 2 below it
    # r_2 < 2 - r_1 below it
    left = lambda g: (np.log(2 - np.exp(theta * g - theta**2 / 2)) + theta**2 / 2) / theta
    integral = lambda f: quad(
        f, -12, edge, epsabs=0, epsrel=1e-12, limit=400, points=[edge - 1 / theta, theta / 2]
    )[0]
    false_alarm = ndtr(-edge) + integral(lambda g: norm.pdf(g) * ndtr(-left(g)))
    return false_alarm + integral(lambda g: norm.pdf(g - theta) * ndtr(left(g)))


@pytest.mark.parametrize("theta", [0.05, 0.3, 0.9, 1.0, 2.0, 5.0, 9.0, 14.0])
def test_bayes_error_of_two_tokens_equals_quadrature(theta):
    assert bayes(2, theta).value == pytest.approx(two_tokens(theta) / 2, rel=INTEGRAL)


def test_one_token_is_the_gaussian_two_point_test():
    for theta in (0.2, 1.0, 4.0, 20.0, 60.0):
        value, error = capped_mean(1, theta)
        assert abs(value - 2 * ndtr(-theta / 2)) <= error
        assert bayes(1, theta).value == pytest.approx(ndtr(-theta / 2), rel=FORMULA)
        assert Task(2, 7, theta, marked=7).bayes_error().value == pytest.approx(
            ndtr(-theta * 7**0.5 / 2), rel=FORMULA
        )


def test_error_estimates_cover_the_difference_between_contours(monkeypatch):
    """Two other hyperbolas are two other quadratures of the same integral."""
    settings = [
        (L, th)
        for L in (3, 100, 10**6, 10**12)
        for th in (0.01, 0.4, 1.0, 2.0, 3.0, 5.0, 8.0, 20.0)
    ]
    ours = [capped_mean(*s) for s in settings]
    monkeypatch.setattr(lognormal_sum, "CONTOUR_CROSSING", 0.5)
    monkeypatch.setattr(lognormal_sum, "CONTOUR_ANGLE", 0.5)
    for (value, error), (other, its_error) in zip(ours, (capped_mean(*s) for s in settings)):
        assert abs(value - other) <= error + its_error
        assert error <= 3e-9 * value


def test_bayes_error_in_the_gaussian_limit():
    """L = 10^12, theta = 1/2: S/L is normal, error = 1/2 - sd/(2 sqrt(2 pi))
    up to a relative L^(-1/2).
    """
    sd = np.sqrt(np.expm1(0.25) / 1e12)
    assert 1 - 2 * bayes(10**12, 0.5).value == pytest.approx(
        sd / np.sqrt(2 * np.pi), rel=FIVE_DIGITS
    )


@pytest.mark.parametrize(
    ("length", "theta"), [(10, 1.0), (10, 3.0), (100, 3.0), (100, 4.0), (1000, 4.0)]
)
def test_bayes_error_equals_monte_carlo(length, theta):
    rng = np.random.default_rng(length + int(theta))
    u = rng.standard_normal((4_000_000 // length, length))
    u[::2, 0] += theta
    r = np.exp(theta * u - theta**2 / 2).mean(axis=1)
    wrong = np.minimum(r, 1) / (1 + r)
    assert abs(wrong.mean() - bayes(length, theta).value) < 5 * wrong.std() / np.sqrt(
        len(wrong)
    )


def test_bayes_error_with_two_of_three_tokens_marked_equals_quadrature():
    """Given two tokens e_2 is linear in the third:
    a normal probability, summed over a grid of the other two.
    """
    theta, h = 1.5, 0.05
    g = np.arange(-9, 11, h)
    r = np.exp(theta * g - theta**2 / 2)
    p = h * norm.pdf(g)
    A = np.outer(r, r)
    B = np.add.outer(r, r)
    with np.errstate(divide="ignore"):
        # e_2 = A + B r_3 < 3 below it
        cut = (np.log(np.maximum(3 - A, 0) / B) + theta**2 / 2) / theta
    wrong = ndtr(-cut) + A / 3 * ndtr(cut) + B / 3 * ndtr(cut - theta)
    exact = np.sum(np.outer(p, p) * wrong) / 2
    sampled = Task(2, 3, theta, marked=2).bayes_error(samples=200_000, seed=5)
    assert abs(sampled.value - exact) < 5 * sampled.error and sampled.error < 1e-3


def test_tests_make_the_errors_they_are_said_to_make():
    task = Task(3, 12, 3.0)
    batch = task.sample(40_000, seed=2)
    u = batch.tokens @ task.direction
    decisions = {
        "bayes": (task.bayes_predict(batch.tokens), task.bayes_error()),
        "max": (np.where(u.max(axis=1) > task.max_threshold(), 1, -1), task.max_test_error()),
        "linear": (np.where(u.sum(axis=1) > 1.5, 1, -1), task.linear_error()),
    }
    for decision, error in decisions.values():
        p = error.value
        assert abs((decision != batch.target).mean() - p) < 5 * np.sqrt(p * (1 - p) / 40_000)
    assert task.bayes_error().value < task.max_test_error().value < task.linear_error().value


def test_max_threshold_is_the_best_one():
    for length, theta, marked in (
        (2, 0.5, 1),
        (10, 3.0, 2),
        (10**6, 6.0, 1),
        (10**12, 8.0, 3),
    ):
        task = Task(2, length, theta, marked)
        t = np.linspace(-4, 16, 20_001)
        below = lambda count, t=t: np.exp(count * np.log1p(-ndtr(-t)))  # Phi(t)^count
        brute = 0.5 * (1 - below(length) + below(length - marked) * ndtr(t - theta) ** marked)
        assert task.max_test_error().value == pytest.approx(brute.min(), rel=FIVE_DIGITS)
        assert task.max_test_error().value <= 0.5


def test_no_linear_test_beats_the_bound():
    """err >= 1/2 - theta/(2 sqrt(2 pi L)) for 2,000 random weights at their best threshold;
    the sum test obeys it too.
    """
    rng = np.random.default_rng(3)
    t = np.linspace(-4, 8, 400)
    for _ in range(2000):
        length = int(rng.integers(2, 30))
        theta = rng.uniform(0.1, 8)
        a = rng.standard_normal(length) * (rng.random(length) < rng.random()) + rng.uniform(
            0, 2
        )
        a /= np.linalg.norm(a)
        error = 0.5 * (ndtr(-t) + ndtr(t[:, None] - theta * a).mean(axis=1)).min()
        bound = 0.5 - theta / (2 * np.sqrt(2 * np.pi * length))
        assert min(error, Task(2, length, theta).linear_error().value) >= bound


def test_published_numbers():
    """The project's table: Bayes errors were sampled there (+-.001),
    max-test strengths are exact to their digits.
    """
    table = {
        10: [0.424, 0.298, 0.156, 0.061, 0.018],
        100: [0.475, 0.406, 0.273, 0.129, 0.043],
        1000: [0.492, 0.463, 0.370, 0.220, 0.086],
    }
    for length, row in table.items():
        ours = [bayes(length, theta).value for theta in (1.0, 2.0, 3.0, 4.0, 5.0)]
        assert np.abs(np.array(ours) - row).max() < 2.5e-3
    needed = {10: 3.524, 100: 4.266, 1000: 4.879, 10**4: 5.412, 10**6: 6.325, 10**12: 8.435}
    for length, theta in needed.items():
        task = Task(2, length, 0.0)
        assert round(task.strength_needed(0.1, "max"), 3) == theta
        assert task.strength_needed(0.1, "linear") == pytest.approx(
            2.5631031310892 * length**0.5, rel=EXACT
        )


def test_strength_needed_inverts_the_errors():
    for length, error in ((3, 0.01), (50, 0.3), (10**5, 0.1)):
        task = Task(2, length, 0.0)
        theta = task.strength_needed(error)
        assert bayes(length, theta).value == pytest.approx(error, rel=ROOT_EPS)
        theta = Task(2, length, 0.0, marked=2).strength_needed(error, "max")
        assert Task(2, length, theta, marked=2).max_test_error().value == pytest.approx(
            error, rel=ROOT_EPS
        )


# -- two gradient steps ----------------------------------------------------------------------------


def test_closed_form_prints_the_projects_digits():
    task = Task(200, 10, 5.0)
    rows = [at.two_step_alignment(task, alpha) for alpha in (0.5, 1.0, 2.0, 5.0, 20.0)]
    assert [round(r.value, 3) for r in rows] == [0.488, 0.620, 0.745, 0.870, 0.962]
    assert [round(r.query, 3) for r in rows[:4]] == [0.751, 0.886, 0.950, 0.982] and round(
        rows[4].query, 4
    ) == 0.9959


def test_two_gradient_steps_are_the_gradients_of_attention():
    task = Task(6, 4, 2.0)
    batch = task.sample(40, seed=3)
    w, q = at.two_gradient_steps(batch.tokens, batch.target)
    with x64():
        x, y = jnp.asarray(batch.tokens), jnp.asarray(batch.target)

        def loss(query, value):
            weights = jax.nn.softmax(x @ query, axis=1)
            return -jnp.mean(y * jnp.einsum("nl,nld,d->n", weights, x, value))

        zero = jnp.zeros(6)
        # the query waits for the value
        np.testing.assert_allclose(jax.jit(jax.grad(loss, 0))(zero, zero), 0, atol=LAST_DIGIT)
        np.testing.assert_allclose(-jax.jit(jax.grad(loss, 1))(zero, zero), w, rtol=EXACT)
        np.testing.assert_allclose(
            -jax.jit(jax.grad(loss, 0))(zero, jnp.asarray(w)),
            q,
            rtol=LONG_SUM,
            atol=FEW_ROUNDINGS,
        )


@pytest.mark.parametrize("marked", [1, 2])
def test_reduced_simulation_has_the_law_of_the_vectors(marked):
    task = Task(5, 4, 2.0, marked)
    rng = np.random.default_rng(8)
    cosines = []
    for _ in range(2000):
        y = np.repeat([1.0, -1.0], 6)
        x = rng.standard_normal((12, 4, 5))
        x[:6, :marked] += 2.0 * task.direction
        cosines.append(
            [g @ task.direction / np.linalg.norm(g) for g in at.two_gradient_steps(x, y)]
        )
    reduced = at.simulated_alignment(task, 12, runs=2000, seed=4)
    for full, ours in zip(np.array(cosines).T, reduced):
        assert ks_2samp(full, ours).pvalue > 1e-4


@pytest.mark.parametrize(
    ("length", "marked", "theta"), [(10, 1, 5.0), (6, 3, 2.0), (20, 4, 3.0)]
)
def test_closed_form_is_the_large_dimension_limit(length, marked, theta):
    task = Task(4000, length, theta, marked)
    simulated = at.simulated_alignment(task, 8000, runs=40, seed=9)
    for ours, exact in zip(simulated, at.two_step_alignment(task, 2.0)):
        assert abs(ours.mean() - exact) < 5 * ours.std() / 40**0.5 + 2 / task.dim


# -- bad input -------------------------------------------------------------------------------------

GOOD = Task(3, 4, 2.0)
CASES = {
    "dim": (
        lambda: Task(0, 4, 1.0),
        "dim of SparseTokenClassification must be an integer >= 1",
    ),
    "length": (
        lambda: Task(3, 2.5, 1.0),
        "length of SparseTokenClassification must be an integer",
    ),
    "strength": (
        lambda: Task(3, 4, -1.0),
        "strength of SparseTokenClassification must be a finite number >= 0",
    ),
    "strength nan": (
        lambda: Task(3, 4, np.nan),
        "strength of SparseTokenClassification must be a finite number",
    ),
    "marked": (
        lambda: Task(3, 4, 1.0, marked=5),
        "marked of .* must be an integer >= 1 and <= 4, got 5",
    ),
    "direction": (
        lambda: Task(3, 4, 1.0, direction=[1.0, 1.0, 0.0]),
        "direction of .* must be a unit vector",
    ),
    "n": (
        lambda: GOOD.sample(0),
        "n of SparseTokenClassification.sample must be an integer >= 1",
    ),
    "memory": (lambda: Task(10**7, 10**6, 1.0).sample(1), "must fit in memory"),
    "tokens": (
        lambda: GOOD.posterior(np.zeros((2, 5, 3))),
        "tokens of .* must be a real array",
    ),
    "too strong": (
        lambda: Task(3, 4, 80.0).bayes_error(),
        "strength of .*bayes_error must be a finite number >= 0 and <= 70",
    ),
    "error": (
        lambda: GOOD.strength_needed(0.7),
        "error of .*strength_needed must be a finite number",
    ),
    "test": (
        lambda: GOOD.strength_needed(0.1, "mean"),
        "test of .*strength_needed must be one of",
    ),
    "sampled": (
        lambda: Task(3, 4, 1.0, 2).strength_needed(0.1),
        "marked of .* must be 1 or length for the Bayes test",
    ),
    "alpha": (
        lambda: at.two_step_alignment(GOOD, 0.0),
        "samples_per_dim of two_step_alignment must be a finite number > 0",
    ),
    "no task": (
        lambda: at.two_step_alignment("task", 1.0),
        "task of two_step_alignment must be a SparseTokenClassification",
    ),
    "all marked": (
        lambda: at.two_step_alignment(Task(3, 4, 1.0, 4), 1.0),
        "marked of .* must be below length",
    ),
    "zero": (
        lambda: at.two_step_alignment(Task(3, 4, 0.0), 1.0),
        "strength of two_step_alignment must be between",
    ),
    "odd": (
        lambda: at.simulated_alignment(GOOD, 7),
        "samples of simulated_alignment must be even",
    ),
    "labels": (
        lambda: at.two_gradient_steps(np.zeros((2, 3, 4)), np.array([0.0, 1.0])),
        "target of .* must be labels -1 and 1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, message = CASES[name]
    one_sentence(call, message)


def test_tiny_and_zero_strengths_have_answers():
    assert Task(2, 10, 0.0).bayes_error().value == 0.5
    tiny = Task(2, 10, 1e-6).bayes_error()
    assert abs(tiny.value - 0.5) <= tiny.error <= 1e-6
    assert Task(2, 10, 0.0, marked=3).max_test_error().value == pytest.approx(0.5)


# -- the error of a head -------------------------------------------------------------


def test_sign_error_is_that_of_sampled_tokens():
    """Within 5 standard errors of 40,000 sequences (6e-7 each); fixed seeds."""
    task = at.SparseTokenClassification(dim=12, length=5, strength=3.0, marked=2)
    rng = np.random.default_rng(3)
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 12)) + 2 * task.direction)
    place = at.Overlaps.of(task, k, v)
    assert (place.eta, place.nu) == (0.0, 0.0)
    batch = task.sample(40_000, seed=4)
    for predictor in (at.Softmax(1.5), at.Erf(0.5)):
        found = at.sign_error(task, predictor, place)
        wrong = np.sign(at.predict(predictor, k, v, batch.tokens)) != batch.target
        assert abs(wrong.mean() - found.value) < 5 * np.hypot(found.error, wrong.std() / 200)
        assert found.method == "monte-carlo"


def test_sign_error_of_arrays_and_of_an_output_of_zero():
    task = at.SparseTokenClassification(dim=12, length=3, strength=2.0)
    row = at.Overlaps(np.array([0.0, 0.5]), 0.0, np.array([0.5, 0.5]), 0.0, 0.0)
    found = at.sign_error(task, at.Softmax(1.0), row, samples=1000)
    first = at.Overlaps(0.0, 0.0, 0.5, 0.0, 0.0)
    one = at.sign_error(task, at.Softmax(1.0), first, samples=1000)
    assert found.value.shape == (2,)
    assert found.value[0] == one.value
    assert at.sign_error(task, at.Erf(0.0), at.Overlaps.oracle(), samples=100).value == 1.0


def test_a_share_knows_what_it_has_not_seen():
    """Clopper and Pearson by the binomial law itself, and five errors of rare mistakes."""
    for count, n in ((0, 50), (1, 50), (20, 50), (50, 50), (3, 100_000)):
        share = count / n
        error = share_error(count, n)
        low = share - 5 * error
        high = share + 5 * error
        assert high >= 1 or binom.cdf(count, n, high) <= FIVE_SIGMA_TAIL * (1 + 1e-6)
        assert low <= 0 or binom.sf(count - 1, n, low) <= FIVE_SIGMA_TAIL * (1 + 1e-6)
    assert 14.9 < 5 * share_error(0, 10**6) * 10**6 < 15.2
    usual = np.sqrt(0.25 / 10**6)
    assert usual < share_error(500_000, 10**6) < 1.001 * usual


def test_risk_and_sign_error_name_each_other():
    task = at.SparseTokenClassification(dim=12, length=3, strength=2.0)
    place = at.Overlaps.oracle()
    said = r"^task of risk must be .* with a key and a value, got Sparse.*; try sign_error\("
    with pytest.raises(at.AttnscopeError, match=said):
        at.risk(task, at.Softmax(1.0), place)
    said = r"^task of sign_error must be .* classes, got SingleLocation.*; try risk\("
    with pytest.raises(at.AttnscopeError, match=said):
        at.sign_error(at.SingleLocation(12, 3), at.Softmax(1.0), place)
    for other in (None, at.LinearMap(3), 7):
        with pytest.raises(at.AttnscopeError, match=r"^task of sign_error must be"):
            at.sign_error(other, at.Softmax(1.0), place)
    with pytest.raises(at.AttnscopeError, match=r"^predictor of sign_error must be"):
        at.sign_error(task, at.MultiHead(at.Softmax(1.0), 2), place)


def test_training_speaks_of_the_error():
    task = at.SparseTokenClassification(dim=12, length=3, strength=2.0)
    options = {"runs": 2, "steps": 4, "log_every": 2, "batch_size": 2, "progress": False}
    run = at.train(task, at.Softmax(1.0), **options)
    assert all("error" in text and "excess" not in text for text in run.diagnose())
    assert run.figure().panels[0].title == "error"
    plain = at.train(at.SingleLocation(12, 3), at.Softmax(1.0), **options)
    assert plain.figure().panels[0].title == "excess risk"


def test_the_max_test_where_its_error_is_below_the_least_float():
    """L times what log Phi loses is inside the stated error; the reference has 50 digits."""
    for length in (4_189_947, 10**9):
        task = at.SparseTokenClassification(2, length, 37.6004672939657, marked=1450)
        found = task.max_test_error()
        truth = reference.max_test(length, 1450, 37.6004672939657)
        assert abs(found.value - truth) <= found.error < 1e-290
