"""The report page: complete, self-contained, well-formed, the same for the same verdicts,
and small.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from helpers import fake_claims as fake

from attnscope.claims.claim import Comparison, Context
from attnscope.claims.numbers import number
from attnscope.claims.paper import known_papers
from attnscope.claims.provenance import Provenance
from attnscope.claims.sentence import sentences_of
from attnscope.claims.verdict import WORDS, run_claim
from attnscope.figures import inline_svg
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.report import build, drawing
from attnscope.report.build import page, without_times
from attnscope.report.environment import environment
from attnscope.report.states import SIGNS

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags balance; collects ids, links, headings, images and the text by element."""

    def __init__(self, html):
        super().__init__()
        self.open = []
        self.ids = []
        self.links = []
        self.tags = []
        self.texts = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.note(tag, dict(attributes))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert "svg" in self.open, f"<{tag}/> outside an SVG"
        self.note(tag, dict(attributes))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, text):
        self.texts.append(text)

    def note(self, tag, attributes):
        self.tags.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [value for name, value in attributes.items() if name in ("href", "src")]

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def verdicts():
    return [run_claim(claim, Context()) for claim in fake.HARMLESS]


@pytest.fixture(scope="module")
def html(verdicts):
    return page(verdicts, 0, "1.2.3")


@pytest.fixture(scope="module")
def parsed(html):
    return Page(html)


def test_it_asks_nobody_for_anything(html, parsed):
    assert (
        "http:" not in html
        and "https:" not in html
        and "//" not in re.sub(r"(base64|utf-8),[^\"]*", "", html)
    )
    assert html.count("<script") == 1 and "<script>\n" in html
    assert not re.search(
        r"@import|javascript|fetch\(|XMLHttp|import\(|\bsrc=\"(?!data:)", html
    )
    assert not re.search(r"url\((?!#)", html)
    assert all(link.startswith(("#", "data:")) for link in parsed.links)


def test_ids_are_unique_and_every_anchor_leads_somewhere(parsed, html):
    assert len(parsed.ids) == len(set(parsed.ids))
    inside = [link[1:] for link in parsed.links if link.startswith("#")] + re.findall(
        r"url\(#([^)]*)\)", html
    )
    assert inside and set(inside) <= set(parsed.ids)


def test_every_claim_is_in_the_summary_and_has_its_section(parsed, verdicts):
    assert [a.get("class") for a in parsed.of("table")].count("summary") == 1
    for verdict in verdicts:
        assert f"#{verdict.id}" in parsed.links and verdict.id in parsed.ids
        assert parsed.text.count(verdict.title) >= 2
    for word in (
        "Claim",
        "Source",
        "Predicted",
        "Measured",
        "Tolerance",
        "Verdict",
        "Seconds",
    ):
        assert word in parsed.texts


def test_a_section_has_all_there_is_to_know(parsed):
    for words in (
        ", then so be it.",  # statement; its formulas are MathML
        "Hypotheses",
        "closed form",
        "simulation",
        "1000 draws & no more.",
        "A second paragraph.",
        "largest uniform",
        "≤ pred. + 10⁻⁹",
        "print(at.__version__)",
        "attnscope reproduce --only slr-01-holds --seed 0",
        "attnscope reproduce --seed 0 --out report",
        "1.2.3",
    ):
        assert words in parsed.text


def test_it_leads_to_the_explorer_and_the_documentation(parsed, verdicts):
    assert "attnscope explore" in parsed.text
    # inside, so that a page that is mailed keeps it
    known = replace(verdicts[0], id="slr-01-attention-reduces")
    own = Page(page([known], 0, "1.2.3"))
    assert "#mathematics-predictors" in own.links and "mathematics-predictors" in own.ids
    assert not [link for link in parsed.links if "docs" in link]


def test_every_kind_is_counted_with_its_own_sign(parsed):
    for words in ("✓ holds 1", "≠ fails, as declared 1", "– skipped 1", "✗ error 2"):
        assert words in parsed.text
    assert "! unexpected 2" in parsed.text
    assert len(set(SIGNS.values())) == len(SIGNS) and set(SIGNS) == {*WORDS, ""}


def test_a_section_says_where_the_claim_comes_from(verdicts):
    verdict = replace(
        verdicts[0], provenance=Provenance("sharpened", ("A/theorem-1",), "a <constant>")
    )
    text = Page(page([verdict], 0, "1.2.3")).text
    statement = known_papers().statements["A/theorem-1"]
    for words in (
        "sharpened",
        known_papers().papers["A"].title,
        known_papers().papers["A"].version,
        f"{statement.place} ({statement.known})",
        statement.says,
        "a <constant>",
    ):
        assert words in text


def test_every_comparison_says_why_and_by_which_routes(verdicts):
    comparison = Comparison("x", 1, 1, 0.1, why="a & b", routes=("first way", "second way"))
    text = Page(page([replace(verdicts[0], comparisons=(comparison,))], 0, "1.2.3")).text
    assert "Why this tolerance" in text and "a & b" in text
    assert "by first way; measured by second way" in text


def test_what_rests_on_a_claim_falls_with_it(verdicts):
    above = replace(verdicts[4], rests_on=("slr-01-holds",))
    text = Page(page([verdicts[0], above], 0, "1.2.3")).text
    assert "Rests on slr-01 Title of slr-01-holds" in text
    assert "Claims that depend on this one slr-05 Title of slr-05-fails" in text


def test_the_environment_is_shown_and_taken_out(html, parsed):
    shown = [a for _, a in parsed.tags if "data-environment" in a]
    assert len(shown) == sum(bool(fact) for fact in environment().values())
    for fact in filter(None, environment().values()):
        assert fact in parsed.text
    assert f">{environment()['machine']}<" not in without_times(html)


def test_every_kind_of_verdict_has_its_own_words(parsed):
    for words in (
        "Fails, and was declared to , because one: measured 1.000, predicted 2.000 ±0.01.",
        "Holds only if: one equals two",
        'Skipped: needs tokenizers; install with pip install "attnscope[text]"',
        "The check itself broke off , so nothing is known about the claim: RuntimeError: no "
        "<luck> today",
        "Fails , because one: measured 1.000",
        "Holds, though it was declared to fail",
    ):
        assert words in parsed.text


def test_it_can_be_read_aloud(parsed):
    assert parsed.of("html")[0]["lang"] == "en"
    pictures = [a["aria-label"] for a in parsed.of("svg") if a.get("role") == "img"]
    assert len(pictures) == 8 and set(pictures) == {
        'A "title" with <angles>: risk & <excess>',
        'A "title" with <angles>: map',
    }
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert (
        levels[0] == 1
        and levels.count(1) == 1
        and all(b - a <= 1 for a, b in pairwise(levels))
    )
    assert all("scope" in a for a in parsed.of("th"))


def test_it_suits_phones_paper_and_the_dark(html):
    for words in (
        "width=device-width",
        "prefers-color-scheme: dark",
        "@media print",
        "max-width: 44rem",
    ):
        assert words in html


def test_the_same_verdicts_give_the_same_bytes(html, verdicts):
    again = [run_claim(claim, Context()) for claim in fake.HARMLESS]
    slower = [replace(verdict, seconds=verdict.seconds + 12.3) for verdict in again]
    other = page(slower, 0, "1.2.3")
    assert other != html and without_times(other) == without_times(html)
    changed = replace(verdicts[1], notes="Two is not one.")
    assert without_times(page([changed], 0, "1.2.3")) != without_times(
        page(verdicts[1:2], 0, "1.2.3")
    )


def test_words_are_escaped(verdicts):
    nasty = '<script>alert("1")</script> & more'
    fields = ("title", "hypotheses", "snippet", "condition", "notes")
    verdict = replace(
        verdicts[0],
        **dict.fromkeys(fields, nasty),
        sentences=sentences_of(nasty),
        provenance=Provenance("new here", ("A/theorem-1",), nasty),
        routes=(nasty, nasty),
        comparisons=(Comparison(nasty, 1, 1, 0.1),),
        figure=Figure(nasty, (Panel(nasty, nasty, nasty, (Line([0, 1], [0, 1], nasty),)),)),
    )
    text = page([verdict], 0, "1.2.3", command=nasty)
    assert text.count("<script") == 1  # the page's own
    assert Page(text).text.count(nasty) >= 11


def noisy_figure(points, seed=0):
    x, y = np.random.default_rng(seed).random((2, points))
    return Figure("many", (Panel("points", "x", "y", (Points(x, y, "seen"),)),))


def test_a_huge_panel_becomes_a_png():
    small = drawing.draw(noisy_figure(50), "a")[0]
    large = drawing.draw(noisy_figure(5_000), "b")[0]
    assert small.startswith("<svg") and large.startswith('<img src="data:image/png;base64,')
    assert 'alt="many: points"' in large and len(large) < drawing.SVG_LETTERS


@pytest.mark.slow
def test_the_page_stays_below_6_megabytes(verdicts):
    """Sixty claims with four panels as large as panels get;
    drawn once and repeated, since drawing is slow.
    """
    panel = noisy_figure(5_000).panels[0]
    one = drawing.draw(noisy_figure(5_000), "x")[0]
    sixty = [
        replace(verdicts[0], id=f"slr-{i:02}-x", figure=Figure("many", (panel,) * 4))
        for i in range(60)
    ]
    assert 240 * len(one) > 6e6
    drawn = {verdict.id: [one] * 4 for verdict in sixty}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_png", lambda *_: one)  # what it is already
        text = page(sixty, 0, "1.2.3", drawn=drawn)
    assert 5e6 < len(text.encode()) < 6e6
    assert "Left out to keep this page small" in text and "base64" in text


def test_fit_redraws_the_longest_first_and_no_more_than_needed(monkeypatch):
    monkeypatch.setattr(drawing, "_png", lambda *_: "p" * 10)
    figures = dict.fromkeys("ab", Figure("t", noisy_figure(3).panels * 2))
    drawn = {"a": ["s" * 30, "s" * 5], "b": ["s" * 40, "s" * 20]}
    drawing.fit(drawn, figures, 70)
    assert drawn == {"a": ["s" * 30, "s" * 5], "b": ["p" * 10, "s" * 20]}
    drawing.fit(drawn, figures, 35)
    assert drawn == {"a": ["p" * 10, "s" * 5], "b": ["p" * 10, "p" * 10]}


def test_a_panel_that_cannot_be_drawn_costs_no_report(monkeypatch, verdicts):
    def broken(figure):
        raise ValueError("no <pen>")

    monkeypatch.setattr("attnscope.figures.render_matplotlib.svg", broken)
    text = page(verdicts[:1], 0, "1.2.3")
    assert "This panel could not be drawn (ValueError: no <pen>)." in Page(text).text


def test_markers_share_a_style_and_lines_stay_lines():
    drawn = drawing.draw(noisy_figure(30), "name")[0]
    assert (
        len(re.findall(r'<use href="#f[0-9a-f]{8}-\d+" x="[\d.]+" y="[\d.]+"/>', drawn)) >= 30
    )
    assert Page(drawn).of("use")
    assert (
        inline_svg._rounded_coordinates("M 1.2345 2 \nL 3 4 \nL 5 6 \nz\n")
        == "M 1.23 2 3 4 5 6 z"
    )
    # an L after a curve is needed
    assert (
        inline_svg._rounded_coordinates("M 1 2 C 1 2 3 4 5 6 L 7 8")
        == "M 1 2 C 1 2 3 4 5 6 L 7 8"
    )


def test_svg_keeps_its_texts_and_shape():
    panel = Panel(
        "0.123456 stays",
        "x",
        "y",
        (Line([0, 1], [0.123456789, 1], "label 3.14159"),),
        log_y=True,
    )
    drawn = drawing.draw(Figure("t", (panel,)), "name")[0]
    assert "0.123456 stays" in drawn and "label 3.14159" in drawn
    coordinates = " ".join(re.findall(r' d="([^"]*)"', drawn))
    assert coordinates and not re.search(r"\.\d{3}", coordinates)
    assert re.match(r'<svg viewBox="0 0 316.8 237.6" ', drawn)


@pytest.mark.parametrize(
    ("x", "tolerance", "shown"),
    [
        (0.113499, 1e-3, "0.1135"),
        (1.0, 1e-3, "1.0000"),
        (-1.2025643201, 1e-12, "-1.20256432010"),
        (205.04, 3.3, "205.0"),
        (0.0, 1e-3, "0"),
        (30.0, 0.0, "30"),
        (0.1 + 0.2, 0.0, "0.300000"),
        (3.2e-16, 1e-12, "3.20e-16"),
        (1.5e9, 1e7, "1.500e9"),
        (123456789.0, 1.0, "123456789.0"),
    ],
)
def test_numbers_have_the_digits_that_mean_something(x, tolerance, shown):
    assert number(x, tolerance) == shown
    if tolerance:
        assert abs(float(number(x, tolerance)) - x) <= tolerance / 10


def test_style_and_template_are_part_of_the_package():
    names = {path.name for path in build.files("attnscope.report").iterdir()}
    assert {"template.html", "claim.html", "macros.html", "style.css", "script.js"} <= names
    assert (build.files("attnscope.report") / "mathematics" / "risk.html").is_file()
