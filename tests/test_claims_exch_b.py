"""Exchangeability claims 07-11 and 14-17: each check runs once, and everything is asserted of that one result.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a change of the code.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.registry import all_claims
from attnscope.claims.sphere_errors import compare_slope, spread_slope
from attnscope.figures.figure import Figure
from attnscope.figures.render_matplotlib import svg

NUMBERS = ("07", "08", "09", "10", "11", "14", "15", "16", "17")
CLAIMS = {claim.id: claim for claim in all_claims() if claim.id.startswith(tuple(f"exch-{n}-" for n in NUMBERS))}


@cache
def evidence(name: str) -> Evidence:
    return CLAIMS[name].check(Context(seed=0))


def test_all_of_them_are_found():
    assert sorted(name[5:7] for name in CLAIMS) == list(NUMBERS)


@pytest.mark.parametrize("name", CLAIMS)
class TestClaim:
    def test_verdict_is_the_expected_one(self, name: str):
        assert evidence(name).holds == CLAIMS[name].expected

    def test_every_comparison_breaks_when_one_route_is_perturbed(self, name: str):
        assert not [c.what for c in evidence(name).comparisons if c.perturbed().holds]

    def test_figure_draws_and_survives_json(self, name: str):
        figure = evidence(name).figure
        assert svg(figure).lstrip().startswith("<?xml")
        assert Figure.from_json(figure.to_json()).to_json() == figure.to_json()
        assert all(panel.x_label and panel.y_label and panel.marks for panel in figure.panels)

    def test_snippet_runs_and_prints(self, name: str):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(CLAIMS[name].snippet, {})
        assert printed.getvalue().strip()

    def test_words_are_in_place(self, name: str):
        claim: Claim = CLAIMS[name]
        assert len(claim.title) <= 60 and claim.statement and claim.source and claim.hypotheses and all(claim.routes)
        assert evidence(name).notes


def test_only_the_absolute_constant_fails():
    (name,) = (n for n in CLAIMS if n.startswith("exch-07"))
    broken = [c for c in evidence(name).comparisons if not c.holds]
    assert len(broken) == 2 and all(c.what.startswith("absolute constant") for c in broken)
    assert all(replace(c, measured=c.predicted).holds for c in broken) and CLAIMS[name].condition


def test_slopes_of_power_laws():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert spread_slope(x, 3 * x**-0.5, 0.03 * x**-0.5)[0] == pytest.approx(-0.5)
    rng = np.random.default_rng(0)
    drawn = [spread_slope(x, x * (1 + 0.01 * rng.standard_normal(4)))[0] for _ in range(4000)]
    assert np.std(drawn) == pytest.approx(
        spread_slope(x, x, 0.01 * x)[1], rel=0.06
    )  # 5 standard errors of a standard deviation
    assert not compare_slope("x", x, x, (x**1.2, 0.01 * x)).holds
