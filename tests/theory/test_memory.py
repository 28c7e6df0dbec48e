"""Errors of memories on a map that drifts, the best gates, and the local linear filter."""

import mpmath as mp
import numpy as np
import pytest
from helpers.tolerances import EXACT, LONG_SUM, SIX_DIGITS, SOLVED
from scipy.optimize import minimize, minimize_scalar

import attnscope as at

LAWS = ("normal", "sphere", "one-hot")


def plain_curve(task, length, step, decay, erase):
    """The recursion of c = E S.w/d and p = E|S|^2/d, as in the derivation."""
    kappa, kappa2 = task.key_moments
    lam, s2, a = task.prior_variance, task.noise**2, task.decay
    c = p = 0.0
    for e in np.broadcast_to(step, length):
        kept = 1 - 2 * erase * e * kappa + erase * e**2 * kappa2
        p = (
            decay**2 * kept * p
            + 2 * decay * e * (kappa - erase * e * kappa2) * a * c
            + e**2 * (kappa2 * lam + s2 * kappa)
        )
        c = decay * (1 - erase * e * kappa) * a * c + e * kappa * lam
    return kappa * task.dim_key * task.dim_value * (lam - 2 * c + p)


@pytest.mark.parametrize("keys", LAWS)
@pytest.mark.parametrize("rule", ["delta", "linear"])
def test_the_curve_is_the_plain_recursion(keys, rule):
    rng = np.random.default_rng(3)
    for _ in range(40):
        a = float(rng.choice([1.0, rng.random(), 0.999]))
        task = at.DriftingMap(int(rng.integers(1, 20)), 2, 1.7, 0.4, a, keys)
        kappa, kappa2 = task.key_moments
        step = float(rng.random() * 2 * kappa / kappa2)
        decay = float(rng.choice([1.0, rng.random(), a]))
        length = int(rng.integers(0, 60))
        found = at.memory_curve(task, length, step, decay, rule)
        plain = plain_curve(task, length, step, decay, rule == "delta")
        scale = kappa * task.dim_key * task.dim_value
        # what the plain recursion itself rounds
        slack = EXACT * scale * (1.7 + plain / scale)
        assert abs(found.excess - plain) < found.error + slack
        assert found.error < 1e-11 * (scale + plain)


@pytest.mark.parametrize("keys", ["normal", "sphere"])
@pytest.mark.parametrize("decay", [1.0, 0.98])
def test_the_curve_is_that_of_simulated_memories(keys, decay):
    """5 rules, t = 1, 10, 100; 5 standard errors, fixed seed."""
    task = at.DriftingMap(8, 1, 1.0, 0.5, decay, keys)
    unit = task.key_moments.kappa < 1
    scale = 0.4 if unit else 0.05
    for t in (1, 10, 100):
        batch = task.sample(2000, t, seed=21)
        rows = (np.eye(8)[:, None], batch.keys, batch.values)
        rules = {
            "linear": (
                (1 / (t + 8), 1.0),
                at.gated_linear_attention(*rows, 1.0, 1 / (t + 8)),
            ),
            "gated linear": ((0.1, 0.9), at.gated_linear_attention(*rows, 0.9, 0.1)),
            "delta": ((scale, 1.0), at.delta_attention(*rows, scale)),
            "gated delta": ((scale, 0.95), at.delta_attention(*rows, scale, 0.95)),
        }
        best = at.best_gates(task, t)
        rules["best"] = ((best.step, best.decay), at.delta_attention(*rows, best.step, decay))
        for name, (gates, memory) in rules.items():
            away = memory[..., 0].T - batch.latent[:, 0]
            losses = task.key_moments.kappa * np.sum(away**2, axis=1)
            rule = "linear" if "linear" in name else "delta"
            exact = at.memory_curve(task, t, *gates, rule).excess
            error = losses.std(ddof=1) / len(losses) ** 0.5
            assert abs(losses.mean() - exact) < 5 * error, (name, t)


def test_printed_numbers():
    curve = at.memory_curve(at.DriftingMap(8, 1, 1.0, 0.5, 1.0), [1, 10, 100], 0.05, 1.0)
    assert curve.excess.round(5).tolist() == [7.405, 3.70475, 0.06993]
    stationary = {
        "normal": [0.254189, 1.364792, 5.119255],
        "sphere": [0.067119, 0.231214, 0.650366],
        "one-hot": [0.067119, 0.231214, 0.650366],
    }
    static = {
        "normal": [2.91413, 0.49651, 0.03943],
        "sphere": [0.39128, 0.12044, 0.02637],
    }
    for keys, numbers in stationary.items():
        tasks = [at.DriftingMap(8, 1, 1.0, 0.5, a, keys) for a in (0.999, 0.99, 0.9)]
        found = [at.best_gates(task).risk.excess for task in tasks]
        assert [round(x, 6) for x in found] == numbers
        long = [at.memory_curve(task, 3000).excess for task in tasks]
        np.testing.assert_allclose(long, found, rtol=SOLVED)
    for keys, numbers in static.items():
        task = at.DriftingMap(8, 1, 1.0, 0.5, 1.0, keys)
        assert at.memory_curve(task, [10, 30, 100]).excess.round(5).tolist() == numbers


def stationary_risk(task, A, B, C):
    """Of S <- A S - B (S.k) k + C v k, per coordinate: c and p at rest."""
    kappa, kappa2 = task.key_moments
    lam, s2, a = task.prior_variance, task.noise**2, task.decay
    c = C * kappa * lam / (1 - a * (A - B * kappa))
    left = 1 - (A * A - 2 * A * B * kappa + B * B * kappa2)
    p = (
        2 * C * (A * kappa - B * kappa2) * a * c + C * C * (kappa2 * lam + s2 * kappa)
    ) / left
    return lam - 2 * c + p if left > 0 else np.inf


@pytest.mark.parametrize("keys", ["normal", "sphere"])
@pytest.mark.parametrize("decay", [0.99, 0.9])
def test_no_memory_blind_to_the_keys_is_better(keys, decay):
    task = at.DriftingMap(8, 1, 1.0, 0.5, decay, keys)
    best = at.best_gates(task)
    C = best.step
    start = np.array([decay, decay * C, C]) * np.array([0.97, 0.8, 1.2])
    found = minimize(
        lambda z: stationary_risk(task, *z),
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-12, "fatol": 1e-16, "maxiter": 4000, "maxfev": 4000},
    )
    scale = task.key_moments.kappa * 8
    assert scale * found.fun == pytest.approx(best.risk.excess, rel=1e-8)
    np.testing.assert_allclose(found.x, [decay, decay * C, C], rtol=1e-4)


def test_interference_of_linear_attention():
    """No noise, no drift, unit keys: the best scale d/(L+d-1) leaves (d-1)/(L+d-1)."""
    task = at.DriftingMap(8, 1, 1.0, 1e-12, 1.0, "sphere")
    for length, exact in ((40, 0.148936), (400, 0.0171990)):
        curve = lambda e, n=length: at.memory_curve(task, n, e, rule="linear").excess
        found = minimize_scalar(
            curve, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
        )
        assert found.fun == pytest.approx(7 / (length + 7), abs=EXACT)
        assert found.fun == pytest.approx(exact, rel=2e-6)
        # a minimiser is known to the root of the rounding of what it minimises
        assert found.x == pytest.approx(8 / (length + 7), rel=1e-6)
    one = at.memory_curve(at.DriftingMap(1, 1, 1.0, 0.5, 1.0, "sphere"), 3, 1.0)
    assert one.excess == pytest.approx(0.25, rel=SOLVED)


def test_small_errors_keep_their_digits():
    """(1 - 1/d)^L down to 1e-40: no difference of numbers of order 1."""
    task = at.DriftingMap(8, 1, 1.0, 1e-40, 1.0, "sphere")
    found = at.memory_curve(task, [40, 690], 1.0)
    np.testing.assert_allclose(found.excess, [(7 / 8) ** 40, (7 / 8) ** 690], rtol=EXACT)
    assert (found.error < LONG_SUM * found.excess).all()


@pytest.mark.parametrize("keys", ["normal", "sphere"])
def test_least_squares_by_simulation(keys):
    task = at.DriftingMap(5, 1, 1.0, 0.5, 0.97, keys)
    found = at.memory_curve(task, [0, 3, 40], decay=0.9, rule="least squares")
    assert found.excess[0] == pytest.approx(5 * task.key_moments.kappa)
    for i, t in ((1, 3), (2, 40)):
        batch = task.sample(4000, t, seed=31)
        S = at.recursive_least_squares(
            np.eye(5)[:, None], batch.keys, batch.values, 0.9, 0.25
        )
        losses = task.key_moments.kappa * np.sum(
            (S[..., 0].T - batch.latent[:, 0]) ** 2, axis=1
        )
        error = np.hypot(losses.std() / len(losses) ** 0.5, found.error[i])
        assert abs(losses.mean() - found.excess[i]) < 5 * error
    static = at.DriftingMap(5, 1, 1.0, 0.5, 1.0, keys)
    bayes = static.bayes_risk(20)
    least = at.memory_curve(static, 20, rule="least squares")
    assert abs(least.excess - bayes.excess) < 5 * np.hypot(least.error, bayes.error)


def exact_filter(d, h, m):
    """Weighted regression of P_m on (1, t), by 40-digit Bessel functions."""
    with mp.workdps(40):
        x, v = 1 / mp.mpf(h), mp.mpf(d) / 2 - 1
        bessel = [mp.besseli(v + j, x) for j in range(m + 3)]
        rho = [b / bessel[0] for b in bessel]
        with_t = (
            ((m + d - 2) * rho[m + 1] + m * rho[m - 1]) / (2 * m + d - 2) if m else rho[1]
        )
        variance = (1 + (d - 1) * rho[2]) / mp.mpf(d) - rho[1] ** 2
        return float(rho[m] + (with_t - rho[1] * rho[m]) * (1 - rho[1]) / variance)


@pytest.mark.parametrize("d", [2, 3, 5, 30, 300])
@pytest.mark.parametrize("h", [1e-7, 1e-5, 1e-3, 0.1, 1.0, 1e3])
def test_local_linear_filter(d, h):
    degrees = np.array([0, 1, 2, 3, 8, 25])
    found = at.local_linear_filter(d, h, degrees)
    exact = [exact_filter(d, h, int(m)) for m in degrees]
    assert (np.abs(found - exact) <= 1e-14 * (d + degrees) * (1 + degrees) ** 2).all()


def test_local_linear_filter_has_no_first_order():
    """(1 - rho)/h^2 at h = .004: 1.503 3.000 7.470 (m = 2), 8.96 14.88 (m = 3)."""
    two = [(1 - at.local_linear_filter(d, 0.004, 2)) / 0.004**2 for d in (2, 3, 5)]
    three = [(1 - at.local_linear_filter(d, 0.004, 3)) / 0.004**2 for d in (2, 3)]
    assert np.round(two, 3).tolist() == [1.503, 3.0, 7.47]
    assert np.round(three, 2).tolist() == [8.96, 14.88]
    printed = [
        (3, 0.5, 2, 0.571719),
        (3, 0.5, 3, 0.215711),
        (3, 0.1, 2, 0.97),
        (5, 0.3, 2, 0.645487),
    ]
    for d, h, m, value in printed:
        assert float(at.local_linear_filter(d, h, m)) == pytest.approx(value, abs=SIX_DIGITS)


TASK = at.DriftingMap(8, decay=0.99)
BAD = [
    (
        lambda: at.memory_curve(TASK, 10, 0.3),
        r"step of memory_curve must be below 2 kappa/kappa2",
    ),
    (lambda: at.memory_curve(TASK, 10, 0.1, 1.2), "decay of memory_curve must be"),
    (lambda: at.memory_curve(TASK, 10, -0.1), "step of memory_curve must be"),
    (lambda: at.memory_curve(TASK, 10, [0.1, 0.1]), "one for each of 10 tokens"),
    (
        lambda: at.memory_curve(TASK, 10, rule="linear"),
        "step of memory_curve must be a number for",
    ),
    (
        lambda: at.memory_curve(TASK, 10, decay=0.9),
        "step of memory_curve must be given where",
    ),
    (lambda: at.memory_curve(TASK, 10, rule="lstm"), "rule of memory_curve must be one of"),
    (lambda: at.memory_curve(TASK, 2.5), "length of memory_curve must be"),
    (lambda: at.memory_curve(TASK, 10, ridge=1.0), "ridge of memory_curve must be None"),
    (
        lambda: at.memory_curve(at.LinearMap(), 10),
        "task of memory_curve must be a DriftingMap",
    ),
    (
        lambda: at.memory_curve(TASK, 10, 0.1, rule="least squares"),
        "step of memory_curve must be None",
    ),
    (
        lambda: at.best_gates(at.DriftingMap(decay=1.0)),
        "decay of best_gates must be below 1 .* try best_gates",
    ),
    (lambda: at.best_gates(TASK, 0), "length of best_gates must be"),
    (lambda: at.local_linear_filter(1, 0.5, 1), "dim of local_linear_filter must be"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input(call, words):
    with pytest.raises(at.AttnscopeError, match=words):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.99, 0.9])
def test_training_finds_the_gates(decay):
    """A free memory (A, B, C), trained by BFGS on the mean next-value error of 300 sequences of
    400 tokens, ends within 2 % of the theorem (seed fixed before looking).
    """
    task = at.DriftingMap(8, 1, 1.0, 0.5, decay, "sphere")
    batch = task.sample(300, 400, seed=41)
    keys, values = batch.keys, batch.values[..., 0]

    def loss(z):
        A, B, C = z
        S = np.zeros((300, 8))
        total = 0.0
        for t in range(400):
            k = keys[:, t]
            inner = np.sum(S * k, axis=1)
            if t > 50:  # at rest; the map drifts before its next value: A S.k predicts it
                total += np.mean((values[:, t] - A * inner) ** 2)
            S = A * S + (C * values[:, t] - B * inner)[:, None] * k
        return total / 349

    found = minimize(loss, [0.95, 0.3, 0.3], method="BFGS", options={"gtol": 1e-6})
    best = at.best_gates(task)
    exact = [decay, decay * best.step, best.step]
    np.testing.assert_allclose(found.x, exact, rtol=0.02)
