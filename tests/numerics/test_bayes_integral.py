"""Exact Bayes risk and location error, each number by a second route that shares no code with the
first.

Routes: printed 30-digit values; the one-dimensional integral for two positions; real-space
quadrature over (x.k*, |rest of x|) and over the noncentral chi-square density; Monte Carlo of (Y -
E[Y|X])^2 with full vectors; step refinement for the honesty of the error estimate. Limits and
invariances: tests/numerics/test_bayes_integral_limits.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pmfs import uniform, zipf
from helpers.tolerances import EXACT, ROOT_EPS, SOLVED
from scipy import special, stats

import attnscope.numerics.integrals.bayes_integral as bayes_integral
import attnscope.numerics.integrals.mellin as mellin
import attnscope.numerics.integrals.piecewise as piecewise
from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.bayes_integral import bayes_excess, location_error

ROOT_HALF = 0.5**0.5


# ---- 1. printed values
# --------------------------------------------------------------------------------------------

# log R_B at signal = sqrt(dim/2); columns: length 2, 10, 1e4, 1e6
TABLE = {
    (10, ROOT_HALF): (-4.041539810, -2.218144071, -0.700865251, -0.693225914),
    (10, 1.0): (-2.472229199, -1.022184769, -0.010941954, -0.000146225),
    (10, 1.3): (-2.253962802, -0.860942726, 0.424795041, 0.513442846),
    (50, ROOT_HALF): (-13.711491895, -11.517314932, -5.111769451, -2.520982300),
    (50, 1.0): (-8.064492050, -5.972963224, -1.665756117, -0.575060800),
    (50, 1.3): (-7.915610979, -5.906036354, -1.927553776, -0.729833279),
    (400, ROOT_HALF): (-93.650129521, -91.452904944, -84.439889154, -79.834619963),
    (400, 1.0): (-52.781987554, -50.584763001, -43.571775841, -38.968040731),
    (400, 1.3): (-53.319035436, -51.121813738, -44.111005761, -39.545509040),
    (10000, ROOT_HALF): (-2260.611159877, -2258.413935299, -2251.400919510, -2246.795650319),
    (10000, 1.0): (-1254.379871827, -1252.182647250, -1245.169631461, -1240.564362270),
    (10000, 1.3): (-1273.795485786, -1271.598261209, -1264.585245419, -1259.979976228),
}


@pytest.mark.parametrize(("dim", "gamma"), TABLE)
def test_printed_table(dim, gamma):
    for length, printed in zip((2, 10, 10**4, 10**6), TABLE[dim, gamma], strict=True):
        assert bayes_excess(
            dim, gamma, (dim / 2) ** 0.5, *uniform(length)
        ).log_value == pytest.approx(printed, abs=6e-10)


# 30-digit real-space integrals over the Bessel density (the first two), double-precision Bessel
# integrals (the rest)
@pytest.mark.parametrize(
    ("dim", "signal", "gamma", "length", "printed", "digits"),
    [
        (4, 1.4, 0.7, 5, -1.48667867515747801, 1e-12),
        (3, 0.8, 1.5, 4, -0.309155861740786, 1e-12),
        (60, 2.0, 0.3, 1000, -34.9278519549, 1e-10),
        (200, 10.0, 2.0, 20, -53.9167637992, 1e-10),
        (1000, 500**0.5, 1.2, 10**6, -108.2003258255, 1e-10),
    ],
)
def test_printed_bessel_values(dim, signal, gamma, length, printed, digits):
    assert bayes_excess(dim, gamma, signal, *uniform(length)).log_value == pytest.approx(
        printed, abs=digits
    )


def test_printed_location_error():
    assert location_error(3, 1.5, 0.8, *uniform(4)).log_value == pytest.approx(
        -0.689731029112715, abs=EXACT
    )


# ---- 2. two positions: one integral
# -------------------------------------------------------------------------------


def log_two_positions(dim, gamma, signal):
    """log R_B and log location error for two equiprobable positions.

    (1/2pi i) Mellin inversion of 1/(1 + e^{l_2 - l_1}) on Re z = 1/2: int e^{2 Re F(1/2 + iy)} [g^2
    Re 1/(1 - eps z)] / (2 cosh pi y) dy, F(z) = z d log g - (d/2) log(1 - eps z) - (s^2/2) z(1 -
    z)/(1 - eps z); composite Gauss-Legendre on doubling panels.
    """
    eps = (1 - gamma) * (1 + gamma)
    q = 1 - eps / 2
    width = (dim * eps**2 / q**2 + 2 * signal**2 * gamma**2 / q**3 + np.pi**2) ** -0.5
    edges = np.concatenate([[0.0], 0.5 * width * 2.0 ** np.arange(80)])
    edges = edges[edges < 30]
    x, w = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges)[:, None] / 2
    y = ((edges[:-1, None] + half) + half * x).ravel()
    w = (half * w).ravel()
    z = 0.5 + 1j * y
    # real part of F(z) - F(1/2), in forms that do not cancel
    gauss = -0.25 * dim * np.log1p((eps * y / q) ** 2)
    shift = -0.5 * signal**2 * (z * (1 - z) / (1 - eps * z) - 0.25 / q).real
    f = np.exp(2 * (gauss + shift)) / np.cosh(np.pi * y)
    top = dim * (np.log(gamma) - np.log1p(-eps / 2)) - 0.25 * signal**2 / q
    risk = gamma**2 * (f * (1 / (1 - eps * z)).real) @ w
    return top + np.log(risk), top + np.log(f @ w)


def test_two_positions():
    rng = np.random.default_rng(11)
    for _ in range(60):
        dim, signal = (
            int(2 * 10 ** rng.uniform(0, 4.69)),
            rng.choice([0.0, 10 ** rng.uniform(-2, 3.3)]),
        )
        gamma = rng.choice(
            [
                np.exp(rng.uniform(np.log(0.05), np.log(5))),
                1.0,
                1 + 10 ** rng.uniform(-12, -2),
            ]
        )
        risk, error = log_two_positions(dim, gamma, signal)
        for ours, theirs in ((bayes_excess, risk), (location_error, error)):
            ours = ours(dim, gamma, signal, *uniform(2))
            tolerance = (
                ours.relative_error + 1e-15 * (dim * abs(np.log(gamma)) + signal**2) + 1e-12
            )
            assert abs(ours.log_value - theirs) < tolerance < 1e-8, (dim, gamma, signal)


# ---- 3. real space
# ------------------------------------------------------------------------------------------------


def real_space(dim, gamma, signal, probs, counts, alignment, nodes=160, step=0.25):
    """R_B and location error by quadrature over (u, r) = (x.k*, |x - u k*|) and over tau; small dim
    only.

    The pair sum is formed position by position from the raw moments of u about 0: no shared formula
    but the two-line derivation.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    moments = []
    tau = np.arange(-40, 40, step)
    log_pi = np.log(probs)
    for mean, sd in ((signal, gamma), (0.0, 1.0)):
        g = 10 * x
        r = 0.5 * (dim**0.5 + 10) * (x + 1)
        weight = (10 * w * stats.norm.pdf(g))[:, None] * (
            0.5 * (dim**0.5 + 10) * w * stats.chi(dim - 1).pdf(r)
        )
        u = mean + sd * g[:, None]
        v = (sd * r) ** 2
        ratio = (
            -dim * np.log(gamma)
            - signal**2 / (2 * gamma**2)
            + signal * u / gamma**2
            - (1 / gamma**2 - 1) * (u**2 + v) / 2
        )
        u, v = np.broadcast_arrays(u, v)
        ws = np.stack([weight, weight * u, weight * u**2, weight * v / (dim - 1)]).reshape(
            4, -1
        )
        at = (tau[:, None] + log_pi).ravel()
        values = np.array([ws @ np.exp(-np.exp(a + ratio.ravel())) for a in at]).reshape(
            tau.size, probs.size, 4
        )
        moments.append(values)
    one, zero = moments
    position = np.repeat(np.arange(probs.size), counts)
    risk = error = 0.0
    background = zero[:, position, 0]
    for j in range(position.size):
        for m in range(j):
            a = one[:, position[j]]
            b = one[:, position[m]]
            rest = np.prod(np.delete(background, [j, m], axis=1), axis=1)
            scale = step * np.exp(tau) * probs[position[j]] * probs[position[m]] * rest
            along = a[:, 2] * b[:, 0] + a[:, 0] * b[:, 2] - 2 * a[:, 1] * b[:, 1]
            across = a[:, 3] * b[:, 0] + a[:, 0] * b[:, 3]
            risk += scale @ ((1 - alignment**2) * across + alignment**2 * along)
            error += 2 * scale @ (a[:, 0] * b[:, 0])
    return risk, error


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("dim", "gamma", "signal", "probs", "counts", "alignment"),
    [
        slow(4, 0.7, 1.4, [0.2], [5], 0.0),
        slow(3, 1.5, 0.8, [0.25], [4], 0.6),
        slow(5, 1.0, 1.3, [1 / 3], [3], 0.0),
        (5, 1.0, 1.3, [1 / 12], [12], -1.0),
        slow(2, 0.8, 1.0, [0.05], [20], 0.3),
        (6, 0.6, 1.2, [0.5, 0.2, 0.1], [1, 2, 1], 0.0),
        (4, 1.3, 1.0, [0.4, 0.15, 0.05], [1, 3, 3], 0.7),
        slow(3, 1.0, 2.0, [0.9, 0.05, 0.03, 0.02], [1, 1, 1, 1], 0.9),
        slow(3, 0.5, 0.0, [0.6, 0.4], [1, 1], 0.5),
    ],
)
def test_real_space(dim, gamma, signal, probs, counts, alignment):
    probs, counts = np.array(probs), np.array(counts)
    risk, error = real_space(dim, gamma, signal, probs, counts, alignment)
    ours = bayes_excess(dim, gamma, signal, probs, counts, alignment)
    assert ours.log_value == pytest.approx(
        np.log(risk), abs=ROOT_EPS if alignment == 0 else 1e-7
    )
    assert location_error(dim, gamma, signal, probs, counts).log_value == pytest.approx(
        np.log(error), abs=ROOT_EPS
    )


def chi_square_logs(dim, gamma, signal, length):
    """log R_B and log location error, uniform pmf: l is affine in a noncentral chi-square; the
    weight w^2 adds two degrees of freedom.
    """
    x, w = np.polynomial.legendre.leggauss(900)
    tau = np.arange(-80, 80, 0.2)

    def phi(variance, centre, freedom):
        scale = variance * (1 / gamma**2 - 1) / 2
        mean = freedom + centre**2
        deviation = (2 * freedom + 4 * centre**2) ** 0.5
        ends = np.sqrt([max(0, mean - 12 * deviation), mean + 12 * deviation + 60])
        root = 0.5 * (ends[0] + ends[1]) + 0.5 * (ends[1] - ends[0]) * x
        density = (
            stats.ncx2(freedom, centre**2).pdf(root**2)
            if centre
            else stats.chi2(freedom).pdf(root**2)
        )
        weight = (ends[1] - ends[0]) * w * root * density
        top = (
            -dim * np.log(gamma)
            - signal**2 / (2 * gamma**2)
            + signal**2 / (2 * gamma**2 * (1 - gamma**2))
        )
        power = np.exp(tau[:, None] + top - scale * root**2)
        removed = -np.expm1(-power) @ weight  # 1 - phi, without the error of the weights' sum
        return np.where(removed < 0.5, 1 - removed, np.exp(-power) @ weight)

    wide, one = (phi(gamma**2, signal * gamma / (1 - gamma**2), m) for m in (dim + 2, dim))
    zero = phi(1.0, signal / (1 - gamma**2), dim) ** (length - 2)
    risk = 0.2 * gamma**2 * (length - 1) * np.exp(tau) @ (wide * one * zero)
    return np.log(risk), np.log(0.2 * (length - 1) * np.exp(tau) @ (one * one * zero))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # exp overflows to inf where phi is 0
@pytest.mark.parametrize("count", [5, slow(15)])
def test_noncentral_chi_square(count):
    """Random settings with risks above e^-12, lengths 3 to 10^6: agreement to 1e-10."""
    rng = np.random.default_rng(3)
    done = 0
    while done < count:
        dim, gamma = (
            int(10 ** rng.uniform(0.31, 2.3)),
            np.exp(rng.uniform(np.log(0.15), np.log(4))),
        )
        signal, length = (
            rng.choice([0, 10 ** rng.uniform(-1, 0.8)]),
            int(10 ** rng.uniform(0.5, 6)),
        )
        ours = [
            f(dim, gamma, signal, *uniform(length)).log_value
            for f in (bayes_excess, location_error)
        ]
        # the density route divides by 1 - gamma^2 and needs the bulk
        if abs(gamma - 1) < 0.05 or ours[0] < -12:
            continue
        assert ours == pytest.approx(chi_square_logs(dim, gamma, signal, length), abs=SOLVED)
        done += 1


# ---- 4. Monte Carlo
# -----------------------------------------------------------------------------------------------

SAMPLED = [  # dim, gamma, signal, probs, counts, alignment
    (4, 0.7, 1.5, *uniform(6), 0.0),
    (6, 1.0, 2.0, *uniform(5), 0.0),
    (5, 1.4, 1.0, *uniform(8), 0.0),
    (3, 0.3, 0.0, *uniform(4), 0.0),
    (2, 2.5, 0.5, *uniform(3), 0.0),
    (5, 0.8, 1.5, *zipf(6), 0.0),
    (4, 1.2, 1.2, np.array([0.5, 0.1]), np.array([1, 5]), 0.0),
    (4, 0.7, 1.5, *uniform(6), 0.5),
    (3, 1.0, 2.0, *uniform(5), -0.8),
    (3, 1.5, 1.0, *uniform(4), 1.0),
    (4, 0.8, 1.8, *zipf(5), 0.7),
    (3, 1.0, 1.5, np.array([0.7, 0.1]), np.array([1, 3]), 0.95),
]


@pytest.mark.parametrize("case", range(len(SAMPLED)))
def test_monte_carlo(case):
    """|z| < 4.5 for 24 statistics: false-alarm rate 24 * 6.8e-6 = 1.6e-4 over all seeds;
    the seeds are fixed.
    """
    dim, gamma, signal, probs, counts, alignment = SAMPLED[case]
    rng = np.random.default_rng(1000 + case)
    samples = 120_000
    pi = np.repeat(probs, counts)
    key = np.eye(dim)[0]
    value = alignment * key + (1 - alignment**2) ** 0.5 * np.eye(dim)[1]
    where = rng.choice(pi.size, samples, p=pi / pi.sum())
    x, rows = rng.standard_normal((samples, pi.size, dim)), np.arange(samples)
    x[rows, where] = signal * key + gamma * x[rows, where]
    y = x[rows, where] @ value
    score = signal * x @ key / gamma**2 - (1 / gamma**2 - 1) * (x**2).sum(2) / 2 + np.log(pi)
    posterior = special.softmax(score, axis=1)
    squares = (y - (posterior * (x @ value)).sum(1)) ** 2
    missed = 1 - posterior[rows, where]
    exact = (
        bayes_excess(dim, gamma, signal, probs, counts, alignment),
        location_error(dim, gamma, signal, probs, counts),
    )
    for sample, integral in zip((squares, missed), exact, strict=True):
        z = (sample.mean() - np.exp(integral.log_value)) / (sample.std() / samples**0.5)
        assert abs(z) < 4.5


# ---- 5. the reported error covers a refinement
# --------------------------------------------------------------------


def random_setting(rng):
    dim = int(round(10 ** rng.uniform(np.log10(2), 5)))
    near_one = 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-12, -1)
    gamma = rng.choice(
        [np.exp(rng.uniform(np.log(0.05), np.log(5))), near_one, 1.0], p=[0.7, 0.25, 0.05]
    )
    signal = rng.choice([0.0, 10 ** rng.uniform(-2, 3.3), (dim / 2) ** 0.5])
    alignment = rng.choice([0.0, rng.uniform(-1, 1), 1.0], p=[0.5, 0.25, 0.25])
    return dim, float(gamma), float(signal), float(alignment)


def random_pmf(rng):
    kind = rng.integers(6)
    groups = int(10 ** rng.uniform(0.4, 2))
    if kind < 2:
        return uniform(int(round(10 ** rng.uniform(np.log10(2), 6))))
    if kind == 2:
        return zipf(groups, rng.uniform(0.5, 2))
    if kind == 3:
        rare = 10 ** rng.uniform(-12, -1)
        many = int(10 ** rng.uniform(0, 5))
        return np.array([1 - rare, rare / many]), np.array([1, many])
    p = (
        rng.uniform(0.3, 0.95) ** np.arange(groups)
        if kind == 4
        else rng.dirichlet(np.full(groups, 0.3)) + 1e-200
    )
    n = 1 + rng.integers(0, 100, groups)
    return p / (p @ n), n


def refine(monkeypatch):
    """Finer outer step, longer range, other contour lengths and node counts,
    tighter interpolation.
    """
    monkeypatch.setattr(bayes_integral, "OUTER_STEP", 1 / 4)
    monkeypatch.setattr(bayes_integral, "OUTER_AGREEMENT", 1e-13)
    monkeypatch.setattr(bayes_integral, "SEARCH_DEPTH_NATS", 40.0)
    monkeypatch.setattr(mellin, "TRAPEZOID_AGREEMENT", 1e-11)
    monkeypatch.setattr(mellin, "FIRST_NODES", 17)
    monkeypatch.setattr(mellin, "CUT_NATS", 39.0)
    monkeypatch.setattr(piecewise, "COEFFICIENT_TAIL", 3e-13)


def check_honesty(seed, settings, draw_pmf):
    rng = np.random.default_rng(seed)
    for _ in range(settings):
        dim, gamma, signal, alignment = random_setting(rng)
        probs, counts = draw_pmf(rng)
        located = rng.random() < 0.3

        def integral(
            dim=dim,
            gamma=gamma,
            signal=signal,
            probs=probs,
            counts=counts,
            alignment=alignment,
            located=located,
        ):
            if located:
                return location_error(dim, gamma, signal, probs, counts)
            return bayes_excess(dim, gamma, signal, probs, counts, alignment)

        coarse = integral()
        with pytest.MonkeyPatch.context() as patch:
            refine(patch)
            fine = integral()
        case = (dim, gamma, signal, alignment, probs[:3], counts[:3], located)
        assert abs(coarse.log_value - fine.log_value) <= coarse.relative_error, case
        assert coarse.relative_error < 1e-8, case


def test_contour_error_covers_refinement(monkeypatch):
    """Each phi and each moment by itself, with the rules stopped early (AGREE = 1e-4) so that their
    errors are far above rounding.
    """
    rng = np.random.default_rng(8)
    for _ in range(60):
        dim, gamma, signal, _ = random_setting(rng)
        law = mellin.TokenLaw(dim, gamma, signal, relevant=rng.random() < 0.6)
        y = law.where_logit(-15) + (law.where_logit(40) - law.where_logit(-15)) * rng.random(
            20
        )
        monkeypatch.setattr(mellin, "TRAPEZOID_AGREEMENT", 1e-4)
        coarse = law.transform(y, variance=law.relevant)
        monkeypatch.setattr(mellin, "TRAPEZOID_AGREEMENT", 1e-10)
        fine = law.transform(y, variance=law.relevant)
        case = (dim, gamma, signal, law.relevant)
        assert np.all(np.abs(coarse.logit - fine.logit) <= coarse.error), case
        if law.relevant:
            assert np.all(np.abs(np.log(coarse.ratio / fine.ratio)) <= coarse.moment_error), (
                case
            )
            assert np.all(
                np.abs(np.log(coarse.variance / fine.variance)) <= coarse.moment_error
            ), case
            assert np.all(
                np.abs(coarse.mean - fine.mean)
                <= coarse.moment_error * np.sqrt(fine.variance)
            ), case


def test_error_covers_refinement():
    """The first settings of the long test below."""
    check_honesty(5, 12, random_pmf)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), [(5, 300), (6, 2500)])
def test_error_covers_refinement_long(seed, count):
    check_honesty(seed, count, random_pmf)


EXTREMES = [
    (dim, gamma, signal, length)
    for dim in (2, 10**5, 10**8)
    for gamma in (1e-3, 1.0, 1 - 1e-12, 100.0)
    for signal in (0.0, 1e4)
    for length in (2, 10**6)
]


def test_extreme_values_are_finite_and_covered():
    """Legal extremes: an answer whose stated error covers both a refinement and,
    for two positions, the one-dimensional integral.
    """
    for dim, gamma, signal, length in EXTREMES:
        ours = bayes_excess(dim, gamma, signal, *uniform(length), 0.5)
        assert np.isfinite(ours.log_value) and ours.relative_error < 1e-5
        ours = bayes_excess(dim, gamma, signal, *uniform(length))
        assert np.isfinite(ours.log_value) and ours.relative_error < 1e-5
        if length == 2:
            theirs = log_two_positions(dim, gamma, signal)[0]
            assert abs(ours.log_value - theirs) < ours.relative_error + 1e-15 * (
                dim * abs(np.log(gamma)) + signal**2
            )


@pytest.mark.slow
def test_extreme_pmfs():
    spike = np.array([1 - 1e-9, 1e-9 / 9]), np.array([1, 9])
    tiny = np.array([1.0, 1e-200, 1e-280]), np.array([1, 1, 1])
    geometric = 0.5 ** np.arange(1, 901.0), np.ones(900, dtype=int)
    for probs, counts in (spike, tiny):
        for dim, gamma, signal in ((2, 0.05, 0.0), (10, 1.0, 2.0), (1000, 1.5, 20.0)):
            for alignment in (0.0, 0.6):
                assert (
                    bayes_excess(dim, gamma, signal, probs, counts, alignment).relative_error
                    < 1e-8
                )
    # 900 probabilities down to 1e-271: those below e^-30 cannot matter
    short = geometric[0][:45], geometric[1][:45]
    whole, part = (bayes_excess(10, 0.7, 2.0, *pmf, 0.6) for pmf in (geometric, short))
    assert (
        abs(whole.log_value - part.log_value)
        < whole.relative_error + part.relative_error
        < 1e-9
    )


@pytest.mark.parametrize(
    ("name", "value"), [("gamma", 1e-5), ("gamma", 1e5), ("signal", 1e6), ("dim", 10**13)]
)
def test_out_of_reach_is_refused_in_words(name, value):
    setting = {"dim": 10, "gamma": 0.7, "signal": 1.0} | {name: value}
    with pytest.raises(AttnscopeError, match=f"^{name} of the Bayes integral must be "):
        bayes_excess(**setting, probs=np.array([0.5]), counts=np.array([2]))
