"""Sampled Bayes risks see rare events: against exact sibling tasks, down to 1e-12 and below.

notation: z = (value - truth)/error. A test of N settings at |z| <= 5 raises a false alarm with
probability about 6e-7 N if errors are standard errors; N < 100 in each test here, seeds are fixed.
"""

import math

import numpy as np
import pytest
from helpers.settings import one_sentence
from helpers.tolerances import EXACT, FORMULA, INTEGRAL, LONG_SUM
from scipy import stats
from scipy.special import expit

import attnscope as at
from attnscope.numerics.integrals.one_token import pair_risk
from attnscope.numerics.subsets import log_symmetric
from attnscope.tasks.planted.direction_moves import log_density

Z = 5.0
# promised relative standard error at default samples, for risks of 1e-12 and more
RELATIVE = 0.02
SMALLEST = 1e-12


def near(out, truth):
    """Within 5 errors; and where promised, an error of at most 2 %."""
    assert abs(out.excess - truth) <= Z * out.error + 1e-9 * truth, (out, truth)
    if truth >= SMALLEST:
        assert out.error <= RELATIVE * truth, (out, truth)


def settings(count, seed):
    """(dim, length, gamma, signal, alignment) over the documented ranges,
    gamma near 1 in every fifth.
    """
    rng = np.random.default_rng(seed)
    for i in range(count):
        d = int(rng.integers(2, 30))
        length = int(math.exp(rng.uniform(math.log(2), math.log(1000))))
        gamma = math.exp(rng.uniform(-1, 1) * math.log(1e3 if i % 2 else 2.0))
        gamma = 1 - 1e-7 if i % 5 == 0 else gamma
        yield d, length, gamma, float(rng.uniform(0, 12)), float(rng.choice([0.0, 0.5, 1.0]))


def parts(quick):
    """The first `quick` settings in `make test`, the others in `make test-all`."""
    rest = pytest.param(slice(quick, None), marks=pytest.mark.slow, id="the others")
    return pytest.mark.parametrize("part", [pytest.param(slice(quick), id="first"), rest])


def vectors(d, c):
    key = np.zeros(d)
    value = np.zeros(d)
    key[0] = 1.0
    value[:2] = c, math.sqrt(1 - c * c)
    return key, value


# -- the three rows that were wrong in 0.1.0 -------------------------------------------------------


def test_two_marked_tokens_of_six():
    near(at.SparseTokenClassification(2, 6, 8.0, marked=2).bayes_error(), 2.9028e-8)


@pytest.mark.parametrize("signal", [6.0, 8.0])
def test_a_student_background_of_large_freedom_is_a_gaussian_one(signal):
    inner = at.SingleLocation(20, 5, gamma=0.9999999, signal=signal)
    near(
        at.CorrelatedBackground(inner, degrees_of_freedom=1e9).bayes_risk(),
        inner.bayes_risk().excess,
    )


def test_one_spike_is_single_location_exactly():
    inner = at.SingleLocation(20, 5, gamma=0.9999999, signal=8.0)
    task = at.SpikeMixture(
        20, 5, means=8 * inner.key[None], gamma=0.9999999, outputs=inner.value[None]
    )
    out = task.bayes_risk()
    exact = inner.bayes_risk()
    assert out.method == exact.method and out.log_excess == pytest.approx(
        exact.log_excess, rel=EXACT
    )


# -- the kind: one informative token ---------------------------------------------------------------


@parts(6)
def test_student_equals_single_location_where_the_freedom_is_huge(part):
    for i, (d, length, gamma, signal, c) in list(enumerate(settings(20, 1)))[part]:
        key, value = vectors(d, c)
        inner = at.SingleLocation(d, length, gamma, signal=signal, key=key, value=value)
        out = at.CorrelatedBackground(inner, degrees_of_freedom=1e13).bayes_risk(seed=i)
        near(out, inner.bayes_risk().excess)


@pytest.mark.slow
def test_positions_of_different_probability():
    rng = np.random.default_rng(2)
    for i, (d, length, gamma, signal, c) in enumerate(settings(8, 3)):
        key, value = vectors(d, c)
        length = min(length, 40)
        probs = rng.dirichlet(np.full(length, rng.choice([0.1, 1.0, 10.0])))
        inner = at.SingleLocation(
            d, length, gamma, signal=signal, location_probs=probs, key=key, value=value
        )
        out = at.CorrelatedBackground(inner, degrees_of_freedom=1e13).bayes_risk(seed=i)
        near(out, inner.bayes_risk().excess)


RARE = (
    (6, 2.98, 0.76, 0.0104, (1e-20, 1.0)),  # once a quarter of the truth, 3 % stated
    pytest.param(6, 0.02, 0.5, 0.0104, (1e-20, 1.0), marks=pytest.mark.slow),
    pytest.param(6, 2.98, 0.76, 0.0104, (1e-20, 1e-20, 1e-3, 1.0), marks=pytest.mark.slow),
    pytest.param(16, 0.19, 1.1, 1.0, (1e-62, 1.0), marks=pytest.mark.slow),
    pytest.param(2, 1.5, 4.0, 1.0, (1e-200, 1e-9, 1.0, 1.0), marks=pytest.mark.slow),
    pytest.param(20, 5.0, 0.2, 1.0, (1e-30, 1.0), marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("d", "gamma", "signal", "variance", "probs"), RARE)
def test_positions_of_tiny_probability(d, gamma, signal, variance, probs):
    """An isotropic background is an affine image of the white one, whose Bayes risk is exact."""
    probs = np.array(probs) / sum(probs)
    inner = at.SingleLocation(d, len(probs), gamma, signal=signal, location_probs=probs)
    white = at.SingleLocation(
        d, len(probs), gamma / variance**0.5, signal=signal, location_probs=probs
    )
    truth = at.CorrelatedBackground(white, covariance=variance * np.eye(d)).bayes_risk()
    task = at.CorrelatedBackground(
        inner, covariance=variance * np.eye(d), informative="isotropic"
    )
    out = pair_risk(task._draw_single_tokens(40_000, 0), *task.task._distinct_probs())
    assert abs(math.expm1(out.log_value - truth.log_excess)) <= Z * out.relative_error
    assert out.relative_error <= 0.03
    near(task.bayes_risk(), truth.excess)


@parts(4)
def test_the_isotropic_informative_token_before_a_scaled_background(part):
    """S0 = a I, S1 = gam^2 I is single location with gam/sqrt(a), whatever route it takes."""
    for i, (d, length, gamma, signal, c) in list(enumerate(settings(8, 4)))[part]:
        key, value = vectors(d, c)
        a = 2.5
        task = at.CorrelatedBackground(
            at.SingleLocation(d, length, gamma, signal=signal, key=key, value=value),
            covariance=a * np.eye(d),
            degrees_of_freedom=1e13,
            informative="isotropic",
        )
        white = at.SingleLocation(
            d,
            length,
            gamma / math.sqrt(a),
            signal=signal / math.sqrt(a),
            key=key,
            value=value,
        )
        out = task.bayes_risk(seed=i)
        truth = a * white.bayes_risk().excess
        near(out, truth)


@parts(5)
def test_the_spike_sampler_equals_single_location(part):
    for i, (d, length, gamma, signal, c) in list(enumerate(settings(15, 5)))[part]:
        key, value = vectors(d, c)
        task = at.SpikeMixture(
            d, length, means=signal * key[None], gamma=gamma, outputs=value[None]
        )
        out = pair_risk(
            task._draw_single_tokens(40_000, i), np.array([1 / length]), np.array([length])
        )
        exact = at.SingleLocation(
            d, length, gamma, signal=signal, key=key, value=value
        ).bayes_risk()
        assert (
            abs(math.expm1(out.log_value - exact.log_excess)) <= Z * out.relative_error + 1e-9
        )
        assert exact.excess < SMALLEST or out.relative_error <= RELATIVE


@pytest.mark.parametrize(
    "strengths",
    [
        (4.0, 2.4),
        *(pytest.param(x, marks=pytest.mark.slow) for x in ((5.0, 4.5), (1.0, 0.1))),
    ],
)
def test_the_spike_sampler_equals_two_dimensional_quadrature(strengths):
    for length, prior in ((2, (0.5, 0.5)), (30, (0.01, 0.99))):
        task = at.SpikeMixture(9, length, strengths=strengths, prior=prior)
        out = pair_risk(
            task._draw_single_tokens(20_000, 0), np.array([1 / length]), np.array([length])
        )
        exact = task.bayes_risk()
        error = math.hypot(out.relative_error * exact.excess, exact.error)
        assert abs(math.exp(out.log_value) - exact.excess) <= Z * error


@pytest.mark.parametrize("gap", [2.0, 5.0, 9.0, 14.0])
def test_two_spikes_of_one_token_that_say_opposite_things(gap):
    """L = 1: only the spike is unknown. Y = +-x.v along the gap;
    R = E 4 x^2 p(1 - p), one integral.
    """
    mu = gap / 2 * np.eye(1, 3, 0)[0]
    task = at.SpikeMixture(
        3, 1, means=np.stack([mu, -mu]), outputs=np.array([[1.0, 0, 0], [-1.0, 0, 0]])
    )

    # a smooth even integrand: the trapezoid rule is exact to rounding
    x = np.arange(0, gap / 2 + 12, 1e-3)
    p = expit(gap * x)
    density = 0.5 * (stats.norm.pdf(x - gap / 2) + stats.norm.pdf(x + gap / 2))
    truth = 2 * 1e-3 * float(np.sum(4 * x * x * p * (1 - p) * density))
    near(task.bayes_risk(), truth)


def test_heavy_tails_equal_plain_sampling_where_that_sees_the_risk():
    for freedom in (2.2, 4.0, 30.0):
        inner = at.SingleLocation(
            6, 5, gamma=0.8, signal=2.5, key=np.eye(6)[0], value=np.eye(6)[1]
        )
        task = at.CorrelatedBackground(
            inner, covariance=np.diag([2.0, 1, 1, 1, 0.5, 1]), degrees_of_freedom=freedom
        )
        for informative in ("scaled", "isotropic"):
            one = at.CorrelatedBackground(
                inner,
                covariance=task.covariance,
                degrees_of_freedom=freedom,
                informative=informative,
            )
            spread = one._infer(one.sample(60_000, seed=1).tokens, "test")[2]
            out = one.bayes_risk()
            assert abs(out.excess - spread.mean()) <= Z * math.hypot(
                out.error, spread.std() / math.sqrt(60_000)
            )


def test_the_likelihood_ratio_of_a_student_background_of_huge_freedom():
    """log Gamma((n+d)/2) - log Gamma(n/2) is a difference of numbers of size n log n."""
    inner = at.SingleLocation(7, 3, gamma=0.8, signal=2.0)
    x = inner.sample(5, seed=0).tokens
    heavy = at.CorrelatedBackground(inner, degrees_of_freedom=1e15).log_likelihood_ratio(x)
    assert heavy == pytest.approx(
        at.CorrelatedBackground(inner).log_likelihood_ratio(x), abs=INTEGRAL
    )


# -- several marked tokens -------------------------------------------------------------------------


def sparse_truth(theta, length):
    """R = L - 1 of L = 3: E_0 min(1, e_2/3)/2 by quadrature over two scores,
    the third in closed form.
    """
    # e_2 = r3 (r1 + r2) + r1 r2 = 3 at r3 = t: below it E_0 r3 1{r3 < t} = Phi(log t/theta -
    # theta/2)
    grid = np.linspace(-9, 9 + theta, 2001)
    h = grid[1] - grid[0]
    r = np.exp(theta * grid - theta**2 / 2)
    a = r[:, None]
    b = r[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.log(np.maximum((3 - a * b) / (a + b), 0.0))
    below = stats.norm.cdf(t / theta + theta / 2)
    tilted = stats.norm.cdf(t / theta - theta / 2)
    inner = (a * b * below + (a + b) * tilted) / 3 + stats.norm.sf(t / theta + theta / 2)
    mass = np.exp(-(grid**2) / 2) * h / math.sqrt(2 * math.pi)
    return 0.5 * float(mass @ inner @ mass)


THETAS = [0.5, 9.0] + [pytest.param(x, marks=pytest.mark.slow) for x in (2.0, 4.0, 7.0)]


@pytest.mark.parametrize("theta", THETAS)
def test_two_of_three_marked_tokens(theta):
    near(
        at.SparseTokenClassification(2, 3, theta, marked=2).bayes_error(),
        sparse_truth(theta, 3),
    )


def test_the_error_of_marked_tokens_is_honest_over_seeds():
    """Twenty seeds against the mean of all: |z| <= 5,
    and their spread is what the error says (chi^2, 1e-6).
    """
    task = at.SparseTokenClassification(2, 12, 5.0, marked=4)
    outs = [task.bayes_error(samples=5000, seed=i) for i in range(20)]
    values = np.array([o.value for o in outs])
    errors = np.array([o.error for o in outs])
    z = (values - values.mean()) / errors
    assert np.abs(z).max() <= Z
    assert np.sum(z**2) <= stats.chi2.isf(1e-6, 19)


@pytest.mark.parametrize(
    ("length", "order"), [(5, 1), (6, 2), (20, 10), (50, 49), (40, 3), (7, 7)]
)
def test_symmetric_polynomials_equal_the_recursion_in_logarithms(length, order):
    x = 30 * np.random.default_rng(length).standard_normal((50, length))
    e = np.full((order + 1, len(x)), -np.inf)
    e[0] = 0.0
    for column in x.T:
        e[1:] = np.logaddexp(e[1:], e[:-1] + column)
    assert log_symmetric(x, order) == pytest.approx(e[-1], rel=FORMULA, abs=LONG_SUM)


# -- several informative tokens --------------------------------------------------------------------


@pytest.mark.parametrize("signal", [0.5, 2.0, 3.5])
def test_all_tokens_or_none(signal):
    """gam = 1: the sum of log-ratios is N(+-L s^2/2, L s^2) and R = E[p (1 - p)]/L, one integral.
    0.1.0: too small by 100 at 3.5.
    """
    length = 8
    task = at.MultiLocation(
        10, length, [0.5, *[0.0] * (length - 1), 0.5], gamma=1.0, signal=signal
    )
    width = signal * math.sqrt(length)
    x = np.arange(-width - 40, width + 40, 1e-3)
    density = 0.5 * (stats.norm.pdf(x - width / 2) + stats.norm.pdf(x + width / 2))
    truth = 1e-3 * float(np.sum(density * expit(width * x) * expit(-width * x))) / length
    near(task.bayes_risk(), truth)


class Forced(at.MultiDirection):
    """The sampled route where the exact one is known."""

    factorises = False


@pytest.mark.slow
def test_several_directions_equal_the_exact_risk_where_it_factorises():
    rng = np.random.default_rng(7)
    for i in range(14):
        F = int(rng.integers(1, 4))
        length = int(math.exp(rng.uniform(math.log(2), math.log(30))))
        gamma = 1.0 if F > 1 else math.exp(rng.uniform(-1, 1) * math.log(5.0))
        numbers = (12, length, F, "independent", gamma, 0.0, float(rng.uniform(0, 10)))
        near(
            Forced(*numbers).bayes_risk(seed=i),
            at.MultiDirection(*numbers).bayes_risk().excess,
        )


@pytest.mark.parametrize("positions", ["distinct", "independent"])
def test_weights_of_moved_directions_have_mean_one(positions):
    rng = np.random.default_rng(8)
    for F, length in ((2, 2), (2, 5), (3, 4), (1, 3), (2, 1)):
        if positions == "distinct" and length < F:
            continue
        keys, values = (unit(rng.standard_normal((F, 6))) for _ in range(2))
        task = at.MultiDirection(
            6, length, F, positions, gamma=0.7, signal=1.5, keys=keys, values=values
        )
        weights = []
        for kind in task._move_laws().parts(length):
            seen, location = task._draw_projections(64 * 60, rng, kind, 64)
            weights.append(
                np.exp(-log_density(task._move_laws(), location, task._ratio_table(seen)))
            )
        means = np.concatenate(weights).reshape(-1, 64).mean(0)
        # 1.2: Student's t with 63 degrees
        assert abs(means.mean() - 1) <= 1.2 * Z * means.std(ddof=1) / 8 + 1e-12


def test_directions_that_only_rounding_tells_apart_are_refused():
    """Equal keys, opposite values: log-likelihood ratios of 1e16 that must cancel gave half of 2
    gam^2.
    """
    gamma = 4.7e-4
    vectors = {"keys": [[1.0], [1.0]], "values": [[1.0], [-1.0]]}
    for size in (1e-3, 1.0, 1e3, 1e4):
        task = at.MultiDirection(1, 2, 2, gamma=gamma, signal=size * gamma, **vectors)
        out = task.bayes_risk(samples=4000)
        assert abs(out.excess - 2 * gamma**2) <= Z * out.error
    task = at.MultiDirection(1, 2, 2, gamma=gamma, signal=1e8 * gamma, **vectors)
    one_sentence(task.bayes_risk, "log-likelihood ratios of size <= 1e[+]09")
    apart = at.MultiDirection(
        2, 2, 2, gamma=gamma, signal=1e8 * gamma, keys=np.eye(2), values=np.eye(2)
    )
    # nothing to round: no two placements are near
    assert apart.bayes_risk(samples=4000).excess == 0


@pytest.mark.parametrize("spikes", [1, 2])
def test_spikes_too_long_for_float64_are_refused_by_their_name(spikes):
    """A sentence about the Bayes integral, a bare error of the logarithm of a step of 0,
    or an overflow.
    """
    for length in (1, 2, 9):
        for gamma in (4e-3, 0.9, 86.0):
            task = at.SpikeMixture(9, length, strengths=(1e8,) * spikes, gamma=gamma)
            one_sentence(
                task.bayes_risk,
                "^the spikes of SpikeMixture.bayes_risk must be ones with log-likelihood",
            )
    one = at.SpikeMixture(9, 5, strengths=(0.9e5,), gamma=0.5).bayes_risk()
    assert one.excess <= one.error  # certain to e^-1000


def test_close_keys_that_are_swapped_equal_plain_sampling():
    keys = unit(np.array([[1.0, 0.3, 0, 0], [1.0, -0.3, 0, 0]]))
    values = np.array([[0.0, 0, 1, 0], [0.0, 0, 0, 1]])
    task = at.MultiDirection(4, 5, 2, gamma=0.6, signal=4.0, keys=keys, values=values)
    spread = task.posterior_variance(task.sample(60_000, seed=1).tokens)
    out = task.bayes_risk()
    assert abs(out.excess - spread.mean()) <= Z * math.hypot(
        out.error, spread.std() / math.sqrt(len(spread))
    )
    assert out.error <= RELATIVE * out.excess


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# -- relations that need no reference --------------------------------------------------------------


def test_no_sampled_bayes_risk_exceeds_the_null_or_the_linear_one():
    for i, (d, length, gamma, signal, c) in enumerate(settings(15, 6)):
        key, value = vectors(d, c)
        inner = at.SingleLocation(d, length, gamma, signal=signal / 6, key=key, value=value)
        task = at.CorrelatedBackground(inner, degrees_of_freedom=5.0)
        out = task.bayes_risk(samples=500, seed=i)
        assert out.excess <= min(task.null_risk().excess, task.linear_risk().excess) * (
            1 + 1e-9
        )


def test_few_samples_are_said_to_be_few():
    inner = at.SingleLocation(6, 5, signal=6.0)
    task = at.CorrelatedBackground(inner, degrees_of_freedom=5.0)
    sure = task.bayes_risk()
    for seed in range(20):
        out = task.bayes_risk(samples=2, seed=seed)
        assert abs(out.excess - sure.excess) <= Z * (out.error + sure.error)
