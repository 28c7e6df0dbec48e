"""The claims on latents, representations and operators: each check runs once, and everything is asserted of that one result.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and the seed is fixed, so a failure here is a change of the code.
"""

from __future__ import annotations

import contextlib
import io
from functools import cache

import pytest

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.registry import all_claims
from attnscope.figures.figure import Figure
from attnscope.figures.render_matplotlib import svg

NUMBERS = ("01", "02", "03", "04", "05", "06", "12", "13", "18")
CLAIMS = {claim.id: claim for claim in all_claims() if claim.id.startswith(tuple(f"exch-{n}-" for n in NUMBERS))}


@cache
def evidence(name: str) -> Evidence:
    return CLAIMS[name].check(Context(seed=0))


def test_all_of_them_are_found():
    assert sorted(name[5:7] for name in CLAIMS) == list(NUMBERS)


@pytest.mark.parametrize("name", CLAIMS)
class TestClaim:
    def test_verdict_is_the_expected_one(self, name: str):
        assert [c for c in evidence(name).comparisons if not c.holds] == [] and CLAIMS[name].expected

    def test_every_comparison_breaks_when_one_route_is_perturbed(self, name: str):
        assert [c.what for c in evidence(name).comparisons if c.perturbed().holds] == []

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
