"""What notebooks show: the numbers of repr and str, as accessible HTML that escapes everything."""

import copy
import pickle
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.fake_claims import CONDITION, HARMLESS
from sklearn import config_context

import attnscope as at
from attnscope.claims.claim import Comparison, Context
from attnscope.claims.verdict import run_claim
from attnscope.claims.verdict_table import Verdicts
from attnscope.figures.figure import Figure, Line, Panel
from attnscope.html_tables import NotebookList, Sentences, card, table
from attnscope.theory.optima.landscape import StationaryPoints
from attnscope.theory.reference_risks import task_risks

TASK = at.SingleLocation(dim=400, length=10)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")
VOID = {"meta", "br", "img", "input"}


class Read(HTMLParser):
    """Tags must close in order; keeps words, scripts, addresses and the head of each cell."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.addresses = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.addresses += [
            v for k, v in attrs if k in ("src", "href") and v[:1] != "#" and v[:5] != "data:"
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


@pytest.fixture(scope="module")
def run():
    return at.train(TASK, at.Erf(0.1), runs=6, steps=2000, step_size=4e-3, progress=False)


@pytest.fixture(scope="module")
def model():
    bags, y, _ = at.SingleLocation(dim=8, length=4, noise=0.1).sample(60, seed=0)
    return at.SingleLocationRegressor(n_starts=2).fit(bags, y), bags, y


@pytest.fixture(scope="module")
def heads():
    task = at.MultiDirection(dim=20, length=3)
    head = at.MultiHead(at.Softmax(2.0), 2)
    return at.train(task, head, runs=3, steps=20, log_every=5, batch_size=4, progress=False)


@pytest.fixture(scope="module")
def verdicts():
    return Verdicts(run_claim(claim, Context()) for claim in (*HARMLESS, CONDITION))


@pytest.fixture(scope="module")
def everything(run, model, heads, verdicts):
    fitted, bags, y = model
    curve = at.SingleLocation.spiked(50, length=3, strength=5.0, noise=0.3)
    return [
        at.risk(TASK, at.Erf(0.1), at.Overlaps.oracle()),
        at.risk(TASK, at.Erf(0.1), at.Overlaps(np.linspace(0, 1, 30), 0, 0, 1.0, 0)),
        at.reference_risks(TASK, at.Erf(0.1), at.Erf),
        task_risks(at.MaxLocation(dim=20, length=5), at.Softmax, 5.0),
        at.stationary_points(TASK, at.Erf(0.1)),
        run, run.diagnose(), heads,
        at.learning_curve(curve, [0.5, 1, 2]), at.learning_curve(curve, 1.0),
        verdicts, verdicts[0],
        at.SingleLocationRegressor(), fitted, fitted.diagnose(bags, y),
    ]  # fmt: skip


def test_cards_are_whole_accessible_and_ask_nobody(everything):
    for thing in everything:
        seen = Read(thing._repr_html_())
        tags = [tag for tag, _ in seen.tags]
        assert "script" not in tags and not seen.addresses
        assert tags.count("caption") == tags.count("table")
        assert all("scope" in attrs for tag, attrs in seen.tags if tag == "th")
        assert all(
            attrs.get("aria-label") is not None for tag, attrs in seen.tags if tag == "svg"
        )
        # no ink or paper of its own: whatever the notebook's theme is
        style = re.search(r"<style>(.*?)</style>", thing._repr_html_())[1]
        assert not re.search(r"#[0-9a-f]{3,6}|black|white(?!-space)", style)


def test_an_estimate_has_all_its_digits(everything):
    one, many = everything[:2]
    shown = Read(one._repr_html_()).text
    assert {repr(float(one.value)), repr(float(one.error))} <= set(NUMBER.findall(shown))
    shown = Read(many._repr_html_()).text
    assert all(repr(float(x)) in shown for x in many.value[:20]) and "and 10 more" in shown
    assert repr(float(many.value[25])) not in shown


def test_tables_have_the_numbers_of_their_lists(everything):
    for rows in (everything[2], everything[3].rows):
        cells = Read(
            rows._repr_html_()
            if isinstance(rows, NotebookList)
            else everything[3]._repr_html_()
        )
        for row in rows:
            assert row.name in cells.words and f"{row.risk.value:.5g}" in cells.words
    points = Read(everything[4]._repr_html_()).words
    for point in everything[4]:
        wanted = {point.name, point.kind, f"{point.risk.value:.5g}"}
        assert wanted | {f"{float(x):.4f}" for x in point.overlaps} <= set(points)


def test_runs_and_curves_have_the_numbers_of_their_arrays(run, heads, everything):
    for one in (run, heads):
        told = repr(one)[len(type(one).__name__) + 1 : -1]
        assert told in unescape(one._repr_html_())
    words = Read(run._repr_html_()).words
    for name in set(run.outcome):
        ends = run.excess[run.outcome == name, -1]
        assert f"{np.median(ends):.5f}" in words
    curve = everything[8]
    words = Read(curve._repr_html_()).words
    assert {f"{x:.5g}" for x in curve.risk.value} <= set(words)
    assert {f"{x:.4f}" for x in curve.key_overlap} <= set(words)


def test_the_last_risk_is_that_of_the_whole_run():
    task = at.MaxLocation(dim=12, length=4, strength=2.0)
    run = at.train(
        task, at.Softmax(1.0), runs=2, steps=10, log_every=5, batch_size=4, progress=False
    )
    assert not run.excess_is_cheap
    before = run.last_excess
    np.testing.assert_array_equal(before, run.excess[:, -1])
    assert run.excess_is_cheap


def test_verdicts_models_and_diagnoses_say_what_str_says(verdicts, model):
    words = Read(verdicts._repr_html_()).text
    assert verdicts[0].id in words and verdicts[0].word in words
    words = Read(verdicts[0]._repr_html_()).words
    assert {c.what for c in verdicts[0].comparisons} <= set(words)
    fitted, bags, y = model
    words = Read(fitted._repr_html_()).words
    assert repr(fitted) in words and f"{fitted.cv_losses_.mean():.5g}" in words
    assert fitted._repr_mimebundle_()["text/html"] == fitted._repr_html_()
    with config_context(display="text"):
        assert list(fitted._repr_mimebundle_()) == ["text/plain"]
    diagnosis = fitted.diagnose(bags, y)
    words = Read(diagnosis._repr_html_()).text
    assert all(line in words for line in str(diagnosis).splitlines())


def test_everything_is_escaped(verdicts, monkeypatch):
    evil = '<script>alert("x")</script>'
    c = Comparison(evil, 1.0, 1.0, 0.1)
    figure = Figure(evil, (Panel(evil, evil, evil, (Line([0, 1], [0, 1], evil),)),))
    bad = replace(
        verdicts[0], id=evil, title=evil, notes=evil, comparisons=(c,), figure=figure
    )
    for thing in (bad, Verdicts([bad]), Sentences([evil])):
        assert "script" not in [tag for tag, _ in Read(thing._repr_html_()).tags]
        assert evil in Read(thing._repr_html_()).text or "svg" in thing._repr_html_()
    assert "script" not in [t for t, _ in Read(card(table(evil, [evil], [[evil]]))).tags]


def test_shown_lists_stay_lists(everything, verdicts):
    points = everything[4]
    assert isinstance(points, list) and points == list(points)
    assert repr(points) == repr(list(points))
    assert type(points[:2]) is StationaryPoints and len(points[:2]) == 2
    assert points[0] is next(iter(points)) and type(sorted(points, key=str)) is list
    assert type(copy.copy(verdicts)) is Verdicts
    assert type(pickle.loads(pickle.dumps(Sentences(["a"])))) is Sentences
