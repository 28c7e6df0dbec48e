"""The single-location claims that train: each holds as declared, cannot hold by accident, draws,
and its snippet runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, claim, ids

from attnscope.claims.claim import Context
from attnscope.claims.slr.slr_07_init_manifold import two_number_map
from attnscope.claims.slr.slr_19_other_optimisers import free_risk
from attnscope.predictors.attention import Erf
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps

NAMES = ids("slr", ("05", "06", "07", "08", "09", "10", "11", "12", "15", "18", "19"))


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
