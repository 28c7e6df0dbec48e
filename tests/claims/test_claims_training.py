"""The single-location claims that train: each holds as declared, cannot hold by accident, draws,
and its snippet runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, claim, ids

from attnscope.claims.claim import Context
from attnscope.predictors.attention import Erf
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import stationary_points
from attnscope.theory.overlaps import Overlaps
from attnscope_claims.noise_floor import gradient_noise, noise_floor, plane_hessian
from attnscope_claims.slr.slr_07_init_manifold import two_number_map
from attnscope_claims.slr.slr_19_other_optimisers import free_risk

NAMES = ids("slr", ("05", "06", "07", "08", "09", "10", "11", "12", "15", "18", "19", "21"))


@pytest.mark.parametrize("name", NAMES)
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_other_seeds(name: str, seed: int) -> None:
    seen = claim(name).check(Context(seed=seed))
    assert seen.holds == claim(name).expected, [c for c in seen.comparisons if not c.holds]


def test_two_number_map_has_the_oracle_as_fixed_point_and_an_odd_symmetry() -> None:
    kappa, nu = two_number_map(
        0.1, 4e-3, 5, np.array([1.0, 0.2, -0.2]), np.array([1.0, 0.3, -0.3])
    )
    assert kappa[0] == nu[0] == 1.0 and kappa[1] == -kappa[2] and nu[1] == -nu[2]


def test_free_risk_is_the_mean_loss_of_unnormalised_vectors() -> None:
    """200,000 sequences; 5 standard errors, false alarm 6e-7."""
    task = SingleLocation(dim=6, length=4)
    rng = np.random.default_rng(0)
    k, v = rng.standard_normal((2, 6))
    sizes = np.linalg.norm(k), np.linalg.norm(v)
    exact = free_risk(task, Erf, 0.4, Overlaps.of(task, k / sizes[0], v / sizes[1]), *sizes)
    batch = task.sample(200_000, seed=1)
    loss = (predict(Erf(0.4), k, v, batch.tokens) - batch.target) ** 2
    assert abs(loss.mean() - exact) < 5 * loss.std() / np.sqrt(len(loss))


def test_gradient_noise_is_the_covariance_of_sampled_gradients() -> None:
    """Every entry, at a setting without small numbers; gradients by differences of the prediction.

    60,000 sequences; 5 standard errors of each of five means, false alarm 3e-6.
    """
    task = SingleLocation(dim=6, length=3, gamma=0.8, noise=0.7)
    lam = 0.4
    batch = task.sample(60_000, seed=3)
    k, v = task.key, task.value
    other = np.linalg.qr(np.stack([k, v, *np.eye(6)[:4]], axis=1))[0][:, 2]
    h = 1e-4
    predicted = lambda a, b: predict(Erf(lam), a, b, batch.tokens)
    turn_k = lambda by: (predicted(k + h * by, v) - predicted(k - h * by, v)) / (2 * h)
    turn_v = lambda by: (predicted(k, v + h * by) - predicted(k, v - h * by)) / (2 * h)
    residual = 2 * (predicted(k, v) - batch.target)
    to_v = residual * turn_k(v)
    to_k = residual * turn_v(k)
    squares = [
        (residual * turn_k(other)) ** 2,
        (residual * turn_v(other)) ** 2,
        to_v**2,
        to_k**2,
        to_v * to_k,
    ]
    outer_k, outer_v, plane = gradient_noise(task, lam)
    exact = [outer_k, outer_v, plane[0, 0], plane[1, 1], plane[0, 1]]
    for x, y in zip(squares, exact, strict=True):
        assert abs(x.mean() - y) < 5 * x.std() / np.sqrt(len(x)), (x.mean(), y)


def test_plane_hessian_has_eigenvalues_of_the_landscape() -> None:
    task = SingleLocation(dim=20, length=7, gamma=0.9)
    points = {p.name: p for p in stationary_points(task, Erf(0.1))}
    every = points["oracle"].eigenvalues
    for mu in np.linalg.eigvalsh(plane_hessian(task, 0.1)):
        assert np.abs(every - mu).min() < 1e-9 * np.abs(every).max()


def test_noise_floor_is_proportional_to_step_over_batch() -> None:
    """To first order: the next one is of relative size alpha mu/2 = 6e-6 here."""
    task = SingleLocation(dim=20, length=10, noise=0.5)
    first = noise_floor(task, 0.1, 4, 1e-6)
    assert first.excess == pytest.approx(
        4 * noise_floor(task, 0.1, 16, 1e-6).excess, rel=1e-12
    )
    assert first.excess == pytest.approx(
        10 * noise_floor(task, 0.1, 4, 1e-7).excess, rel=1e-5
    )
