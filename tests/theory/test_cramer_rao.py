"""The Cramér-Rao limit by other routes: limits in closed form, and plain scores by finite
differences on whole vectors.

False alarms: sampled comparisons allow 5 standard errors with fixed seeds (6e-7 each).
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import EXACT, INTEGRAL, SIX_DIGITS
from scipy.special import logsumexp

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.theory.samples.cramer_rao import cramer_rao

KEY = np.array([1.0, 0, 0, 0])
SETTINGS = [
    {
        "dim": 4,
        "length": 3,
        "noise": 0.5,
        "signal": 1.5,
        "key": KEY,
        "value": np.array([0, 1.0, 0, 0]),
    },
    {
        "dim": 4,
        "length": 3,
        "noise": 0.7,
        "signal": 1.2,
        "gamma": 1.3,
        "key": KEY,
        "value": np.array([0.6, 0.8, 0, 0]),
    }
    | {"location_probs": [0.5, 0.3, 0.2]},
    {
        "dim": 3,
        "length": 2,
        "noise": 0.4,
        "signal": 1.0,
        "gamma": 1.0,
        "key": KEY[:3],
        "value": np.array([0.0, 0, 1]),
    },
    {
        "dim": 2,
        "length": 3,
        "noise": 0.5,
        "signal": 2.0,
        "key": KEY[:2],
        "value": np.array([0.0, 1]),
    },
]


class Model:
    """log p(tokens, y) and E[y | tokens] of the full model,
    as functions of a flat vector of its unknowns, on whole vectors.
    """

    def __init__(self, task: at.SingleLocation, intercept: bool, background: bool) -> None:
        self.d, self.upper = task.dim, np.triu_indices(task.dim)
        self.pi = (
            np.full(task.length, 1 / task.length)
            if task.location_probs is None
            else task.location_probs
        )
        self.intercept = intercept
        self.background = background
        parts = [
            task.signal * task.key,
            [2 * np.log(task.gamma)],
            task.value,
            [2 * np.log(task.noise)],
        ]
        parts += [[0.0]] * intercept
        parts += [np.zeros(self.d), np.eye(self.d)[self.upper]] * background
        self.truth = np.concatenate(parts)

    def _pieces(self, theta: np.ndarray) -> tuple:
        d = self.d
        b, rest = (
            (theta[2 * d + 2], theta[2 * d + 3 :])
            if self.intercept
            else (0.0, theta[2 * d + 2 :])
        )
        mean = np.zeros(d)
        S = np.eye(d)
        if self.background:
            mean = rest[:d]
            S = np.zeros((d, d))
            S[self.upper] = rest[d:]
            S = S + S.T - np.diag(np.diag(S))
        return (
            theta[:d],
            np.exp(theta[d]),
            theta[d + 1 : 2 * d + 1],
            np.exp(theta[2 * d + 1]),
            b,
            mean,
            S,
        )

    def __call__(
        self, theta: np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        mu, g, v, e, b, mean, S = self._pieces(theta)
        other = normal(x, mean, S)
        deciding = normal(x, mu, g * S)
        score = np.log(self.pi) + deciding - other
        z = x @ v + b
        label = -0.5 * np.log(2 * np.pi * e) - (y[:, None] - z) ** 2 / (2 * e)
        posterior = np.exp(score - logsumexp(score, axis=1, keepdims=True))
        return logsumexp(score + label, axis=1) + other.sum(axis=1), (posterior * z).sum(
            axis=1
        )


def normal(x: np.ndarray, mean: np.ndarray, S: np.ndarray) -> np.ndarray:
    z = x - mean
    return -0.5 * (
        np.einsum("nli,ij,nlj->nl", z, np.linalg.inv(S), z)
        + np.linalg.slogdet(2 * np.pi * S)[1]
    )


def plain_route(
    task: at.SingleLocation, intercept: bool, background: bool, n: int, seed: int
) -> tuple[float, float]:
    """tr(I^-1 G) from outer products of central differences,
    with the jackknife error over 20 parts.
    """
    model = Model(task, intercept, background)
    batch = task.sample(n, seed=seed)
    step = 1e-4
    scores = []
    slopes = []
    for shift in np.eye(len(model.truth)) * step:
        up, down = (
            model(model.truth + sign * shift, batch.tokens, batch.target) for sign in (1, -1)
        )
        scores.append((up[0] - down[0]) / (2 * step))
        slopes.append((up[1] - down[1]) / (2 * step))
    outer = lambda x: (
        np.einsum("pbn,qbn->bpq", *[np.array(x).reshape(len(x), 20, -1)] * 2) / (n // 20)
    )
    I, G = outer(scores), outer(slopes)
    value = lambda use: np.trace(np.linalg.solve(I[use].mean(0), G[use].mean(0)))
    parts = np.arange(20)
    left = np.array([value(parts != i) for i in parts])
    return 20 * value(parts) - 19 * left.mean(), np.sqrt(19 * left.var())


@pytest.mark.parametrize(
    ("setting", "intercept", "background"),
    [
        pytest.param(0, False, False, marks=pytest.mark.slow),
        (0, True, False),
        (0, False, True),
        pytest.param(1, True, False, marks=pytest.mark.slow),
        pytest.param(1, True, True, marks=pytest.mark.slow),
        (2, True, True),
        pytest.param(3, True, True, marks=pytest.mark.slow),
    ],
)
def test_agrees_with_scores_by_finite_differences_on_whole_vectors(
    setting, intercept, background
):
    task = at.SingleLocation(**SETTINGS[setting])
    ours = cramer_rao(task, 1, intercept, background, samples=16_000, seed=1)
    value, error = plain_route(task, intercept, background, 20_000, seed=2)
    assert abs(ours.value - value) <= 5 * np.hypot(ours.error, error)
    assert np.hypot(ours.error, error) < 0.06 * value  # the comparison could have failed


@pytest.mark.parametrize(("intercept", "count"), [(False, 7), (True, 8)])
@pytest.mark.parametrize("background", [False, True])
def test_location_known_limit_is_least_squares(intercept, count, background):
    """As the signal grows the location is known: e (number of coefficients)/n, to rounding."""
    task = at.SingleLocation(dim=7, length=4, noise=0.3, signal=40.0)
    assert cramer_rao(task, 100, intercept, background, samples=3200).value == pytest.approx(
        0.09 * count / 100, rel=INTEGRAL
    )


def test_one_token_is_least_squares():
    task = at.SingleLocation(dim=5, length=1, noise=0.5, signal=0.3)
    found = cramer_rao(task, 10, intercept=True, samples=3200)
    assert found.value == pytest.approx(0.25 * 6 / 10, rel=INTEGRAL) and found.error < 1e-12


def test_finite_n_law_of_least_squares():
    """What the docstring says of n near dim: without signal the regret of least squares is e
    d/(n-d-1) exactly, above the limit e d/n.
    """
    task = at.SingleLocation(dim=6, length=1, noise=0.5, signal=0.0)
    n = 60
    runs = 2000
    rng = np.random.default_rng(3)
    regret = np.empty(runs)
    for i in range(runs):
        x = task.gamma * rng.standard_normal((n, 6))
        gap = (
            np.linalg.lstsq(x, x @ task.value + 0.5 * rng.standard_normal(n), rcond=None)[0]
            - task.value
        )
        regret[i] = task.gamma**2 * gap @ gap
    assert abs(regret.mean() - 0.25 * 6 / (n - 7)) < 5 * regret.std(ddof=1) / np.sqrt(runs)
    assert cramer_rao(task, n, samples=3200).value == pytest.approx(
        0.25 * 6 / n, rel=INTEGRAL
    )


def test_reported_error_is_the_spread_over_seeds():
    task = at.SingleLocation(dim=6, length=4, noise=0.5, signal=1.5)
    found = [cramer_rao(task, 1, True, True, samples=3200, seed=s) for s in range(24)]
    spread = np.std([f.value for f in found], ddof=1)
    said = np.sqrt(np.mean([f.error**2 for f in found]))
    assert (
        0.55 < spread / said < 1.6
    )  # chi-square with 23 degrees of freedom: false alarm below 1e-3 each side, seeds fixed


def test_unknowns_cost_and_signal_helps():
    task = lambda s: at.SingleLocation(dim=20, length=10, noise=0.3, signal=s)
    few, some, all_ = (
        cramer_rao(task(2.0), 1, i, b, samples=9600).value
        for i, b in ((False, False), (True, False), (True, True))
    )
    assert few < some < all_
    values = [cramer_rao(task(s), 1, samples=9600).value for s in (1.5, 2.0, 3.0, 5.0)]
    assert values == sorted(values, reverse=True) and values[-1] > 0.09 * 20


def test_any_dimension_costs_the_same_and_n_divides():
    task = at.SingleLocation(dim=10**7, length=5, noise=0.2, signal=30.0)
    one = cramer_rao(task, 1, samples=3200)
    many = cramer_rao(task, 50, samples=3200)
    assert one.value == pytest.approx(0.04 * 10**7, rel=SIX_DIGITS)
    assert many.value == pytest.approx(one.value / 50, rel=EXACT)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "x"}, "task of cramer_rao must be a SingleLocation"),
        ({"task": at.SingleLocation(dim=4, length=3)}, "noise > 0"),
        ({"n": 0}, "n of cramer_rao must be an integer >= 1"),
        ({"samples": 10}, "samples of cramer_rao"),
        ({"seed": -1}, "seed of cramer_rao"),
        (
            {"task": at.SingleLocation(dim=4, length=1, noise=0.1), "background": True},
            "cannot be distinguished",
        ),
    ],
)
def test_refusals(change, words):
    arguments = {"task": at.SingleLocation(dim=4, length=3, noise=0.1), "n": 100} | change
    with pytest.raises(AttnscopeError, match=words):
        cramer_rao(**arguments)
