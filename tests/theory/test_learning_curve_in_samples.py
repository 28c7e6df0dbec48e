"""The Bayes-optimal learning curve: printed tables, limits, branches, thresholds, the inverse."""

import math

import numpy as np
import pytest
from helpers.tolerances import FORMULA, ROOT_EPS, SEVEN_DIGITS, SOLVED
from stress.references import sample_curves

import attnscope as at
from attnscope.numerics.integrals.location_channel import FINE_RULE, Positions, averages
from attnscope.theory.samples.bayes_curve import SMALLEST_NOISE
from attnscope.theory.samples.state_evolution import StateEvolution


def spiked(strength, length, D, dim=1000):
    return at.SingleLocation.spiked(dim, length, strength, D**0.5)


def uniform(length):
    return Positions.of_lengths(np.array([length]), np.ones(1))


# (strength, length, noise^2, alpha, q_k, q_v, excess risk), four digits each, from the first
# derivation: iterated equations by another program
TABLE = [
    (2.0, 2, 0.01, 0.5, 0.4125, 0.3311, 0.7842),
    (2.0, 2, 0.01, 1.0, 0.6227, 0.7368, 0.4811),
    (2.0, 2, 0.01, 1.5, 0.7378, 0.9743, 0.2902),
    (2.0, 2, 0.01, 2.0, 0.7923, 0.9885, 0.2693),
    (5.0, 3, 0.1, 0.5, 0.6631, 0.3324, 0.7465),
    (5.0, 3, 0.1, 1.0, 0.8105, 0.6398, 0.4825),
    (5.0, 3, 0.1, 2.0, 0.9006, 0.8930, 0.2567),
    (5.0, 3, 0.1, 4.0, 0.9488, 0.9628, 0.1878),
    (5.0, 5, 0.01, 1.0, 0.7970, 0.7004, 0.5107),
    (5.0, 5, 0.01, 2.0, 0.9032, 0.9876, 0.2719),
    (1.0, 5, 0.1, 2.0, 0.4237, 0.5321, 0.8568),
    (1.0, 5, 0.1, 4.0, 0.6853, 0.8967, 0.7206),
]


@pytest.mark.parametrize(("strength", "length", "D"), sorted({row[:3] for row in TABLE}))
def test_the_printed_table(strength, length, D):
    rows = [row[3:] for row in TABLE if row[:3] == (strength, length, D)]
    curve = at.learning_curve(spiked(strength, length, D), [row[0] for row in rows])
    found = np.stack([curve.key_overlap, curve.value_overlap, curve.risk.excess], axis=1)
    assert np.abs(found - np.array(rows)[:, 1:]).max() <= 0.5e-4 + SOLVED


@pytest.mark.parametrize(
    ("alpha", "excess"), [(1, 0.3946), (2, 0.1843), (4, 0.1226), (8, 0.1015)]
)
def test_the_curve_beside_the_fits(alpha, excess):
    found = at.learning_curve(spiked(5.0, 2, 0.1), float(alpha))
    assert abs(found.risk.excess - excess) <= 0.5e-4
    assert found.risk.value == pytest.approx(found.risk.excess + 0.1, rel=FORMULA)


@pytest.mark.parametrize(("informed", "branch"), [(False, "reached"), (True, "informed")])
@pytest.mark.parametrize(
    "alpha",
    [
        pytest.param(a, marks=[pytest.mark.slow] * (a not in (0.9, 3.0)))
        for a in (0.05, 0.9, 1.07, 3.0, 40.0)
    ],
)
def test_two_tokens_by_iteration(alpha, informed, branch):
    """Another formula for the averages, and plain iteration, in and out of the hard phase."""
    curve = at.learning_curve(spiked(2.0, 2, 1e-4), alpha, branch=branch)
    q_k, q_v, excess = sample_curves.pair_curve(2.0, 1e-4, alpha, informed)
    assert abs(curve.key_overlap - q_k) <= curve.overlap_error + SOLVED
    assert abs(curve.value_overlap - q_v) <= curve.overlap_error + SOLVED
    assert abs(curve.risk.excess - excess) <= curve.risk.error + SOLVED


def test_few_bags():
    """q_k ~ alpha nu/L, q_v ~ alpha/(L (1 + D)): no threshold."""
    curve = at.learning_curve(spiked(3.0, 7, 0.5), 1e-5)
    assert curve.key_overlap == pytest.approx(
        1e-5 * 3 / 7, rel=1e-4
    )  # to first order in alpha
    assert curve.value_overlap == pytest.approx(1e-5 / 7 / 1.5, rel=1e-4)
    assert abs(curve.risk.excess - 1) < 1e-5


@pytest.mark.parametrize(
    ("strength", "length", "D", "printed"), [(5.0, 3, 0.1, 0.13881), (2.0, 2, 0.01, 0.08952)]
)
def test_many_bags_end_in_cramer_rao(strength, length, D, printed):
    """alpha (risk - R_B) -> D (1 - R_B)/B - R_B'(nu)/A = (n/d) cramer_rao; the bar is 1 %.

    Four standard errors of cramer_rao: one false alarm in 16,000 seeds.
    """
    task = spiked(strength, length, D, dim=2000)
    bayes = at.spiked_bayes_risk(strength, length).excess
    slope = (
        at.spiked_bayes_risk(strength + 1e-4, length).excess
        - at.spiked_bayes_risk(strength - 1e-4, length).excess
    ) / 2e-4
    A, B, _ = averages(math.sqrt(strength), 1.0, D, uniform(length))
    limit = D * (1 - bayes) / B - slope / A
    assert abs(limit - printed) <= 0.5e-5 + ROOT_EPS
    far = at.learning_curve(task, 1e5)
    assert 1e5 * (far.risk.excess - bayes) == pytest.approx(limit, rel=1e-4)
    found = at.cramer_rao(task, 2000)
    assert abs(found.value - limit) < 4 * found.error
    assert 4 * found.error < 0.04 * limit


def test_population_risk_of_other_laws():
    """alpha -> inf of random lengths and of unequal probabilities."""
    base = spiked(5.0, 3, 0.1)
    lengths = at.RandomLength(base, {2: 0.3, 9: 0.7})
    probs = [0.5, 0.3, 0.1, 0.1]
    uneven = at.SingleLocation(1000, 4, 1.0, 0.1**0.5, 5**0.5, probs)
    for task in (lengths, uneven):
        curve = at.learning_curve(task, [1e3, 1e6])
        gaps = curve.risk.excess - task.bayes_risk().excess
        assert gaps[1] > 0
        assert gaps[0] / gaps[1] == pytest.approx(
            1e3, rel=0.01
        )  # 1/alpha, with 1/alpha beyond it


def test_hard_phase():
    """Three solutions; the free energy prefers the last from the middle threshold on."""
    task = spiked(1.0, 5, 1e-4)
    found = {
        b: at.learning_curve(task, [1.3, 1.6, 2.4], branch=b)
        for b in ("reached", "informed", "best")
    }
    assert list(found["reached"].fixed_points) == [3, 3, 1]
    assert np.abs(found["reached"].key_overlap[1:] - [0.3696, 0.7011]).max() < 1e-4
    assert np.abs(found["reached"].value_overlap[1:] - [0.5101, 0.9999]).max() < 1e-4
    assert abs(found["informed"].key_overlap[1] - 0.608) < 1e-3
    assert found["informed"].value_overlap[1] > 0.9997
    assert found["best"].value_overlap[0] == found["reached"].value_overlap[0]
    assert found["best"].value_overlap[1] == found["informed"].value_overlap[1]


def test_without_noise():
    """Above the threshold the value is exact and the risk has a closed form."""
    task = spiked(1.0, 5, 0.0)
    for alpha in (2.0, 50.0):
        curve = at.learning_curve(task, alpha)
        assert curve.value_overlap == 1
        assert curve.key_overlap == pytest.approx(alpha / (1 + alpha), rel=FORMULA)
        closed = at.spiked_bayes_risk(alpha / (1 + alpha), 5)
        assert abs(curve.risk.excess - closed.excess) <= curve.risk.error + closed.error
    below = at.learning_curve(task, 1.9)
    assert below.value_overlap < 0.75
    tiny = at.learning_curve(spiked(1.0, 5, 4e-16), 1.9)  # noise 2e-8, near the least
    assert abs(below.risk.excess - tiny.risk.excess) < SEVEN_DIGITS
    assert at.learning_curve(task, 1.5, branch="best").value_overlap == 1
    assert at.learning_curve(task, 0.99, branch="best").value_overlap < 0.3


@pytest.mark.parametrize("strength", [1.0, pytest.param(100.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("alpha", [1 - 1e-12, 1.0, 1 + 1e-12])
def test_without_noise_near_one_bag_a_dimension(strength, alpha):
    curve = at.learning_curve(spiked(strength, 2, 0.0), alpha)
    assert 0 <= curve.risk.excess <= 1
    if strength == 100:  # the location is known: 1 - alpha, or 0
        assert abs(curve.risk.excess - max(1 - alpha, 0)) <= curve.risk.error + ROOT_EPS


@pytest.mark.parametrize(
    ("length", "strength", "reachable"),
    [
        (5, 1.0, 1.956),
        (10, 2.0, 2.333),
        (2, 5.0, 1.015),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                (2, 1.0, 1.141),
                (3, 1.0, 1.407),
                (10, 1.0, 3.249),
                (2, 2.0, 1.081),
                (3, 2.0, 1.241),
                (5, 2.0, 1.574),
                (3, 5.0, 1.050),
                (5, 5.0, 1.137),
                (10, 5.0, 1.342),
                (5, 0.25, 2.309),
            )
        ),
    ],
)
def test_printed_thresholds_without_noise(length, strength, reachable):
    found = at.recovery_threshold(length, strength)
    assert abs(found.reachable.value - reachable) <= 0.5e-3 + ROOT_EPS
    assert (found.possible.value, found.informed.value) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("length", "strength", "D", "printed"),
    [
        (5, 1.0, 1e-2, (2.077, 2.058, 2.042)),
        (5, 1.0, 3e-2, None),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                (5, 1.0, 1e-4, (1.957, 1.421, 1.194)),
                (5, 1.0, 1e-3, (1.967, 1.638, 1.448)),
                (2, 2.0, 1e-4, (1.083, 1.068, 1.057)),
                (2, 2.0, 1e-3, None),
                (10, 5.0, 1e-3, (1.356, 1.325, 1.298)),
                (10, 5.0, 1e-2, None),
            )
        ),
    ],
)
def test_printed_thresholds_with_noise(length, strength, D, printed):
    """The scan behind the printed ones had 25 points: 0.001 in the last digit."""
    found = at.recovery_threshold(length, strength, D**0.5)
    if printed is None:
        assert found == (None, None, None)
    else:
        assert np.abs(np.array([x.value for x in found]) - printed).max() < 1e-3


@pytest.mark.slow
def test_next_to_no_noise_and_a_known_location():
    """Strength 399 shows the location (R_B below 1e-40), so the curve is that of ridge regression
    on the informative tokens: u^2 + (D + alpha - 1) u = D for u = 1 - q_v, here at alpha = 1.
    """
    for D in (SMALLEST_NOISE**2, 0.0):
        ridge = (math.sqrt(D**2 + 4 * D) - D) / 2
        curve = at.learning_curve(spiked(399.0, 2, D), 1.0)
        # the larger of the two risks is 1e-8: its error must be well below
        assert abs(curve.risk.excess - ridge) <= curve.risk.error < 1e-9
    found = at.recovery_threshold(2, 399.0)
    assert abs(found.reachable.value - 1) <= found.reachable.error < ROOT_EPS


def test_noise_between_zero_and_the_smallest_that_can_be_followed_is_refused():
    with pytest.raises(at.AttnscopeError, match=r"0, or at least 1e-08, got 1e-12"):
        at.learning_curve(spiked(399.0, 2, 1e-24), 1.0)


@pytest.mark.slow
def test_among_many_tokens_the_key_jumps_first():
    """L = 10^4, strength 399: a transition far below one bag a dimension, the value's at 1."""
    task = spiked(399.0, 10_000, 0.01)
    found = at.recovery_threshold(10_000, 399.0, 0.1)
    assert 1e-4 < found.informed.value < found.possible.value < found.reachable.value < 0.1
    off = 1e-6 * found.reachable.value
    around = [found.reachable.value - off, found.reachable.value + off]
    curve = at.learning_curve(task, around)
    assert curve.key_overlap[1] > curve.key_overlap[0] + 0.5
    assert at.recovery_threshold(10_000, 399.0).reachable.value == pytest.approx(1, abs=1e-4)


def test_thresholds_are_where_the_curve_jumps():
    found = at.recovery_threshold(5, 1.0, 0.01)
    task = spiked(1.0, 5, 1e-4)
    for branch, place in zip(("reached", "best", "informed"), found):
        off = 1e-6 * place.value + place.error
        curve = at.learning_curve(task, [place.value - off, place.value + off], branch=branch)
        assert curve.value_overlap[1] - curve.value_overlap[0] > 0.2


def test_a_curve_does_not_depend_on_the_alphas_beside():
    task = spiked(1.0, 5, 1e-4)
    alpha = [0.3, 1.5, 2.2]
    together = at.learning_curve(task, alpha)
    for i, a in enumerate(alpha):
        alone = at.learning_curve(task, a)
        error = together.risk.error[i] + alone.risk.error
        assert abs(together.risk.excess[i] - alone.risk.excess) <= error


def test_plain_iteration_agrees():
    """The equations iterated from q = 0, as message passing does."""
    law = StateEvolution(5.0, 0.1, uniform(3))
    q_k = q_v = 1e-9
    for _ in range(400):
        V = 0.1 + 1 - q_v
        A, B, _ = averages(math.sqrt(5 * q_k), q_v, V, law.positions, FINE_RULE)
        q_k = 2 * 5 * A / (1 + 2 * 5 * A)
        q_v = 2 * B / V / (1 + 2 * B / V)
    curve = at.learning_curve(spiked(5.0, 3, 0.1), 2.0)
    assert abs(curve.key_overlap - q_k) < SOLVED
    assert abs(curve.value_overlap - q_v) < SOLVED


def test_where_the_location_is_known():
    """gamma != 1 or a spike of length sqrt(d/2): ridge regression on the deciding tokens."""
    g = 0.5
    D = 0.09
    for alpha in (0.5, 2.0):
        found = at.learning_curve(at.SingleLocation(400, 10, noise=0.3), alpha)
        u = found.risk.excess / g
        assert found.branch == "ridge"
        # the value's equation with A = B = 1
        assert (1 - u) / u == pytest.approx(alpha * g / (D + g * u), rel=FORMULA)
    long = at.learning_curve(at.SingleLocation(1000, 3, 1.0, noise=0.3), 2.0)
    strong = at.learning_curve(spiked(300.0, 3, 0.09), 2.0)
    assert abs(long.risk.excess - strong.risk.excess) < SEVEN_DIGITS


@pytest.mark.slow
def test_bags_needed():
    task = spiked(5.0, 3, 0.1)
    found = at.bags_needed(task, risk=0.3567)
    assert found.alpha.value == pytest.approx(2.0, abs=1e-3)
    assert found.bags == math.ceil(1000 * found.alpha.value)
    at_it = at.learning_curve(task, found.alpha.value)
    assert abs(at_it.risk.value - 0.3567) < SOLVED
    jump = spiked(1.0, 5, 1e-4)
    place = at.recovery_threshold(5, 1.0, 0.01).possible
    needed = at.bags_needed(jump, 0.75, "best")
    assert abs(needed.alpha.value - place.value) <= needed.alpha.error + place.error
    known = at.SingleLocation(400, 10, noise=0.3)
    needed = at.bags_needed(known, 0.2)
    assert at.learning_curve(known, needed.alpha.value).risk.value == pytest.approx(
        0.2, rel=SOLVED
    )


BAD = {
    "alpha 0": (
        lambda: at.learning_curve(spiked(5.0, 3, 0.1), 0.0),
        "alpha of learning_curve",
    ),
    "alpha list": (
        lambda: at.learning_curve(spiked(5.0, 3, 0.1), [1.0, -2.0]),
        "alpha of learning_curve must be a finite number >= 1e-06 and <= 1e.06, got",
    ),
    "alpha words": (
        lambda: at.learning_curve(spiked(5.0, 3, 0.1), "2"),
        "alpha of learning_curve",
    ),
    "strength 0": (
        lambda: at.learning_curve(spiked(0.0, 3, 0.1), 1.0),
        "strength of learning_curve must be > 0, got 0: without a spike there is no key",
    ),
    "one token": (
        lambda: at.learning_curve(spiked(5.0, 1, 0.1), 1.0),
        "length of learning_curve must be at least 2, got 1: with one token",
    ),
    "no spike": (
        lambda: at.learning_curve(at.SingleLocation(4, 3, gamma=0.9, signal=1.0), 1.0),
        "one whose spike alone tells the location",
    ),
    "long spike, few bags": (
        lambda: at.learning_curve(at.SingleLocation(1000, 30, 1.0), 1e-4),
        "strength of learning_curve must be at most 400 at this alpha",
    ),
    "another task": (
        lambda: at.learning_curve(at.MaxLocation(100, 3, 5.0), 1.0),
        "task of learning_curve must be a SingleLocation or a RandomLength",
    ),
    "oblique": (
        lambda: at.learning_curve(
            at.SingleLocation(2, 3, 1.0, signal=1.0, key=[1.0, 0.0], value=[0.6, 0.8]), 1.0
        ),
        "key perpendicular to value",
    ),
    "branch": (
        lambda: at.learning_curve(spiked(5.0, 3, 0.1), 1.0, branch="top"),
        "branch of learning_curve must be one of reached, informed, best",
    ),
    "ridge without a predictor": (
        lambda: at.learning_curve(spiked(5.0, 3, 0.1), 1.0, ridge=0.1),
        "ridge of learning_curve must be None without a predictor",
    ),
    "noise all but none": (
        lambda: at.learning_curve(spiked(100.0, 2, 1e-200), [0.05, 1.0, 1e6]),
        "noise of learning_curve must be 0, or at least 1e-08, got 1e-100",
    ),
    "noise all but none, inverse": (
        lambda: at.bags_needed(spiked(5.0, 3, 1e-18), 0.5),
        "noise of bags_needed must be 0, or at least 1e-08, got",
    ),
    "threshold length": (
        lambda: at.recovery_threshold(1, 1.0),
        "length of recovery_threshold",
    ),
    "threshold strength": (
        lambda: at.recovery_threshold(5, 0.0),
        "strength of recovery_threshold",
    ),
    "threshold noise": (
        lambda: at.recovery_threshold(5, 1.0, -1.0),
        "noise of recovery_threshold",
    ),
    "risk too low": (
        lambda: at.bags_needed(spiked(5.0, 3, 0.1), 0.1),
        "risk of bags_needed must be between the least",
    ),
    "risk too high": (
        lambda: at.bags_needed(spiked(5.0, 3, 0.1), 2.0),
        "risk of bags_needed",
    ),
    "risk branch": (
        lambda: at.bags_needed(spiked(5.0, 3, 0.1), 0.3, "top"),
        "branch of bags_needed",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_sentence(case):
    call, words = BAD[case]
    with pytest.raises(at.AttnscopeError, match=words) as caught:
        call()
    assert str(caught.value).endswith(".")
