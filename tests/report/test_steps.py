"""Claims and the steps of tours that show them: on the page, in a site, on the terminal."""

from __future__ import annotations

from helpers import fake_claims as fake

from attnscope.claims.claim import Context
from attnscope.claims.registry import own_claims
from attnscope.claims.verdict import run_claim
from attnscope.report import build
from attnscope.report.cards import claim_card, claim_record
from attnscope.report.steps import TourStep, in_site
from attnscope.reproduction import reason_without_step, tour_steps
from attnscope_explorer.tours.registry import CLAIMS_WITHOUT_STEP, short_id, steps_of_claims

STEP = TourStep("one-tour", 3, "A <title> & more")


def test_the_page_names_the_command_and_a_site_has_links():
    verdict = run_claim(fake.HOLDS, Context())
    plain = build.page([verdict], 0, "1.2.3", steps={verdict.id: [STEP]})
    assert "attnscope explore, then <code>127.0.0.1:8050/tour/one-tour/3</code>" in plain
    assert "A &lt;title&gt; &amp; more, step 3" in plain and "index.html#tour" not in plain
    linked = in_site(plain)
    link = '<a href="../explorer/index.html#tour/one-tour/3">A &lt;title&gt; &amp; more, step 3</a>'
    assert link in linked and "data-tour" not in linked and "127.0.0.1" not in linked
    assert "See it" not in build.page([verdict], 0, "1.2.3")


def test_a_report_in_a_site(tmp_path):
    verdict = run_claim(fake.HOLDS, Context())
    for site in (False, True):
        build.write_report(
            [verdict], tmp_path, 0, "1.2.3", steps={verdict.id: [STEP]}, site=site
        )
        html = (tmp_path / "index.html").read_text("utf-8")
        assert ("../explorer/index.html#tour/one-tour/3" in html) is site


def test_the_card_of_a_claim_says_where_to_see_it():
    card = claim_card(fake.HOLDS, None, "here", [STEP])
    assert "see it" in card and "127.0.0.1:8050/tour/one-tour/3" in card
    assert max(map(len, card.splitlines())) <= 80
    assert "no picture of it" in claim_card(fake.HOLDS, None, "", no_step="no picture of it")
    assert "see it" not in claim_card(fake.HOLDS, None, "here")
    assert claim_record(fake.HOLDS, None, [STEP])["tours"] == ["one-tour/3"]


def test_every_claim_of_single_location_regression_is_shown_or_has_a_reason():
    shown = steps_of_claims()
    own = {short_id(claim.id) for claim in own_claims() if claim.id.startswith("slr-")}
    assert {name for name in shown if name.startswith("slr-")} | set(
        CLAIMS_WITHOUT_STEP
    ) == own
    assert set(CLAIMS_WITHOUT_STEP) & set(shown) == set()
    assert all(reason.endswith(".") for reason in CLAIMS_WITHOUT_STEP.values())
    assert reason_without_step("slr-19-other-optimisers") and not reason_without_step(
        "slr-13-swapped-beats-oracle"
    )
    assert [step.tour for step in tour_steps("slr-03-linear-and-dense-fail")] != []
