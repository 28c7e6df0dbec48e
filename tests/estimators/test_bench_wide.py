"""The bench of wide tokens: its bars at their edge and one float beyond, and its bags."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.bench_modules import bench_modules
from helpers.tolerances import EXACT


@pytest.fixture(scope="module")
def bench():
    with bench_modules() as found:
        yield found


def above(x):
    return float(np.nextafter(x, np.inf))


def rows(bench, **ours):
    mine = {"error": [1.05], "seconds": [2.0], "location": [0.98], "auc": [0.89] * 2} | ours
    peer = {"error": [1.0], "seconds": [9.0], "one training": [2.0], "auc": [0.9] * 2}
    found = {(case, "ours"): [mine] for case in bench.jobs.WIDE}
    found |= {
        (case, model): [peer] for case in bench.jobs.WIDE for model in ("PCA 32", "ABMIL")
    }
    return {(r.case, r.against): r for r in bench.wide_bars.rows(bench.bars.Results(found))}


def test_bars_at_their_edge(bench):
    met = rows(bench)
    assert all(r.ok for r in met.values())
    assert met["wide d=384", "PCA 32"].ratio == pytest.approx(1.05, rel=EXACT)
    slow = rows(bench, seconds=[above(2.0)])
    assert not slow["fit seconds, wide d=384", ""].ok
    assert slow["fit seconds, wide d=768", ""].ok
    assert not rows(bench, error=[above(1.05)])["wide d=768", "PCA 32"].ok
    assert not rows(bench, location=[0.979])["wide d=768, location found", ""].ok
    assert not rows(bench, auc=[0.8899] * 2)["wide classes, AUC", "ABMIL"].ok


def test_every_wide_case_has_models(bench):
    assert set(bench.wide_cases.CASES) == set(bench.jobs.WIDE)
    assert bench.jobs.models_of("wide web") == ("ours", "mean-pool", "max-pool")


def test_the_key_is_five_units_of_the_background(bench):
    """From sums over 300 bags of 10 tokens in 12 features: |key|/whitened = 5, four errors."""
    (split,) = bench.wide_cases.planted(12, length=10)(0)
    rows = np.arange(300)
    deciding = split.bags[rows, split.location]
    others = np.ones((300, 10), bool)
    others[rows, split.location] = False
    background = split.bags[others]
    gap = deciding.mean(0) - background.mean(0)
    size = np.sqrt(gap @ np.linalg.solve(np.cov(background.T), gap))
    # a mean of 300 has 12 errors of 1/sqrt(300), which add 12/300 to the square
    assert abs(size - np.sqrt(25 + 12 / 300)) < 4 / np.sqrt(300)
    spread = np.sort(np.linalg.eigvalsh(np.cov(background.T)))[::-1]
    np.testing.assert_allclose(spread, 1 / np.arange(1, 13), rtol=0.25)
