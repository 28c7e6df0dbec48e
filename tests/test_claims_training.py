"""The single-location claims that train: each holds as declared, cannot hold by accident, draws, and its snippet runs."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from importlib import import_module

import numpy as np
import pytest

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.slr_07_init_manifold import two_number_map
from attnscope.claims.slr_19_other_optimisers import free_risk
from attnscope.figures.render_matplotlib import svg
from attnscope.predictors.attention import Erf, predict
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps

NAMES = (
    "slr_05_manifold_invariant",
    "slr_06_convergence_theorem",
    "slr_07_init_manifold",
    "slr_08_sphere_large_lambda",
    "slr_09_sphere_small_lambda",
    "slr_10_sphere_schedule",
    "slr_11_sgd_schedule",
    "slr_12_which_limit",
    "slr_15_initialisation",
    "slr_18_local_rates",
    "slr_19_other_optimisers",
)


def claim(name: str) -> Claim:
    return import_module(f"attnscope.claims.{name}").CLAIM


@cache
def evidence(name: str) -> Evidence:
    """One check per claim for all tests of this file."""
    return claim(name).check(Context(seed=0))


@pytest.mark.parametrize("name", NAMES)
def test_verdict_is_as_declared_and_can_flip(name: str) -> None:
    seen = evidence(name)
    broken = [c for c in seen.comparisons if not c.holds]
    assert seen.holds == claim(name).expected, broken
    assert not [c for c in seen.comparisons if c.perturbed().holds]


@pytest.mark.parametrize("name", NAMES)
def test_declaration_and_figure(name: str) -> None:
    it, seen = claim(name), evidence(name)
    assert it.id == name.replace("_", "-") and len(it.title) <= 60 and len(set(it.routes)) == 2
    assert svg(seen.figure).startswith("<?xml") and len(seen.figure.to_json()) < 1_000_000
    assert seen.notes


@pytest.mark.parametrize("name", NAMES)
def test_snippet_runs(name: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(claim(name).snippet, {})
    assert out.getvalue().strip()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_other_seeds(name: str, seed: int) -> None:
    seen = claim(name).check(Context(seed=seed))
    assert seen.holds == claim(name).expected, [c for c in seen.comparisons if not c.holds]


def test_two_number_map_has_the_oracle_as_fixed_point_and_an_odd_symmetry() -> None:
    kappa, nu = two_number_map(0.1, 4e-3, 5, np.array([1.0, 0.2, -0.2]), np.array([1.0, 0.3, -0.3]))
    assert kappa[0] == nu[0] == 1.0 and kappa[1] == -kappa[2] and nu[1] == -nu[2]


def test_free_risk_is_the_mean_loss_of_unnormalised_vectors() -> None:
    """200,000 sequences; 5 standard errors, false alarm 6e-7."""
    task, rng = SingleLocation(dim=6, length=4), np.random.default_rng(0)
    k, v = rng.standard_normal((2, 6))
    sizes = np.linalg.norm(k), np.linalg.norm(v)
    exact = free_risk(task, Erf, 0.4, Overlaps.of(task, k / sizes[0], v / sizes[1]), *sizes)
    batch = task.sample(200_000, seed=1)
    loss = (predict(Erf(0.4), k, v, batch.tokens) - batch.target) ** 2
    assert abs(loss.mean() - exact) < 5 * loss.std() / np.sqrt(len(loss))
