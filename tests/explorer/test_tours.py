"""Guided tours: what they say is true, what they ask can be seen, what they link to exists."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.contrast import contrast
from helpers.paths import ROOT
from helpers.stated_values import agrees

from attnscope.claims.registry import own_claims
from attnscope.errors import AttnscopeError
from attnscope.formulas.typeset import formulas, inks, plain
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope_explorer.compute import VIEW_FUNCTIONS
from attnscope_explorer.fields import plain as typed
from attnscope_explorer.state import VIEWS, from_query
from attnscope_explorer.tours.registry import all_tours, one_step, one_tour, steps_of_claims
from attnscope_explorer.tours.stated_numbers import view_values
from attnscope_explorer.tours.tour import FORMULA_SEPARATOR, TEXT_FIELDS

STEPS = [
    pytest.param(tour, k, id=f"{tour.name}-{k + 1}")
    for tour in all_tours()
    for k in range(len(tour.steps))
]
ENDS = {"0", "1", "-1"}  # of scales: no overlap and a whole one, never and always
# a number as a sentence has it: digits with a point, no part of a word, of an index or of a claim's id
NUMBER = re.compile(r"(?<![\w.^/-])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?![\w/])")


def _states(step):
    queries = [step.query, step.turned] if step.turned else [step.query]
    return [from_query(step.view, query)[0] for query in queries]


def test_tours_have_names_and_six_to_eight_steps():
    names = [tour.name for tour in all_tours()]
    assert len(set(names)) == len(names) and all(
        re.fullmatch("[a-z]+(-[a-z]+)*", n) for n in names
    )
    assert [t.name for t in all_tours() if not 6 <= len(t.steps) <= 8] == []


@pytest.mark.parametrize(("tour", "k"), STEPS)
def test_a_step_parses_and_differs_from_its_neighbours(tour, k):
    step = tour.steps[k]
    for query in (step.query, step.turned):
        assert from_query(step.view, query)[1] == []
    states = [from_query(s.view, s.query)[0] for s in tour.steps]
    assert states[k] not in states[max(0, k - 1) : k]
    assert (f"/{step.view}?" if step.query else f"/{step.view}") in step.address


@pytest.mark.parametrize(("tour", "k"), STEPS)
def test_a_question_turns_one_knob_at_most(tour, k):
    step = tour.steps[k]
    if step.turned:
        before, after = (dict(s.chosen) for s in _states(step))
        names = before.keys() | after.keys()
        assert len([n for n in names if before.get(n) != after.get(n)]) == 1


@pytest.mark.parametrize(("tour", "k"), STEPS)
def test_every_number_is_a_knob_or_computed(tour, k):
    """The value of a knob is what the page shows; any other number has its function."""
    step = tour.steps[k]
    knobs = {typed(getattr(s, n)) for s in _states(step) for n in VIEWS[step.view]}
    said = [m for name in TEXT_FIELDS for m in NUMBER.findall(plain(getattr(step, name)))]
    assert [number for number in said if number not in knobs | ENDS | set(step.numbers)] == []
    assert [number for number in step.numbers if number not in said] == []


@pytest.mark.parametrize(("tour", "k"), STEPS)
def test_texts_and_formulas_are_set(tour, k):
    step = tour.steps[k]
    for part in step.formula.split(FORMULA_SEPARATOR):
        assert formulas(part) == [part]
    for html in step.html().values():
        ElementTree.fromstring(f"<p>{html}</p>")
        set_text = re.sub(r'alttext="[^"]*"', "", html)
        assert "\\" not in set_text and "{" not in set_text
    assert 1 <= len(re.findall(r"[.!?](?= |$)", plain(step.sentence))) <= 5
    assert step.question.rstrip().endswith(("?", ".")) and step.answer.endswith(".")
    assert max(len(getattr(step, name)) for name in TEXT_FIELDS) <= 420


def test_numbers_agree_to_their_last_digit():
    assert agrees("0.63", 0.6298) and not agrees("0.63", 0.6351)
    assert agrees("1,000", 1000.4) and not agrees("14", 14.6)
    assert agrees("2.5e-16", 2.4774e-16) and not agrees("2.5e-16", 2.4e-16)


# these take from 3 to 15 seconds each, for phase diagrams, long sweeps and learning curves
COSTLY_NUMBERS = {
    *("dimension-4", "dimension-6", "softmax-4", "softmax-5", "posterior-7"),
    *(f"bags-{k}" for k in range(2, 8)),
}
NUMBERS = [
    pytest.param(*s.values, id=s.id, marks=[pytest.mark.slow] * (s.id in COSTLY_NUMBERS))
    for s in STEPS
]
# the views of the other tours take a minute together
VIEWED = [
    pytest.param(
        *s.values, id=s.id, marks=[pytest.mark.slow] * (s.values[0].name != "swapped-runs")
    )
    for s in STEPS
]


@pytest.mark.parametrize(("tour", "k"), NUMBERS)
def test_every_number_stated_is_what_the_library_computes(tour, k):
    step = tour.steps[k]
    found = {text: float(compute()) for text, compute in step.numbers.items()}
    assert {text: value for text, value in found.items() if not agrees(text, value)} == {}


@pytest.mark.parametrize(("tour", "k"), VIEWED)
def test_every_view_computes(tour, k):
    for state in _states(tour.steps[k]):
        assert VIEW_FUNCTIONS[state.view](state).rows


def test_every_claim_of_a_step_exists():
    ids = [claim.id for claim in own_claims()]
    for claim in steps_of_claims():
        assert [i for i in ids if i == claim or i.startswith(f"{claim}-")] != [], claim


def test_the_record_is_plain_data():
    for tour in all_tours():
        record = json.loads(tour.to_json())
        assert record == tour.record() and len(record["steps"]) == len(tour.steps)
        assert set(record["steps"][0]["html"]) == {*TEXT_FIELDS, "formula"}


def test_unknown_tours_and_steps_get_one_sentence():
    with pytest.raises(AttnscopeError, match=r"the tour .* one of swapped-runs"):
        one_tour("nowhere")
    for wrong in ("0", "99", "x", "", "1.0", "²", "9" * 50):
        with pytest.raises(AttnscopeError, match="a whole number from 1 to"):
            one_step("swapped-runs", wrong)
    assert one_step("swapped-runs", "2")[1] == 2


def _hex(css: str, dark: bool) -> dict[str, str]:
    part = css.split("@media (prefers-color-scheme: dark)")
    text = part[1].split("}\n}")[0] if dark else part[0]
    return dict(re.findall(r"--ink-(\w+): (#[0-9a-f]{6})", text))


def test_inks_are_read_on_light_and_dark_and_have_their_curves_colour():
    from importlib.resources import files

    from attnscope.figures.outcomes import OUTCOMES
    from attnscope.figures.render_plotly import SCREEN_PALETTE
    from attnscope.registry import PREDICTORS

    css = (files("attnscope_explorer") / "assets" / "tours.css").read_text("utf-8")
    used = {
        ink
        for tour in all_tours()
        for step in tour.steps
        for text in (step.sentence, step.formula, step.question, step.answer)
        for ink in inks(text)
    }
    # --card and --paper of explorer.css
    for dark, papers in ((False, ("#ffffff", "#f6f7f9")), (True, ("#1a2029", "#12161c"))):
        colours = _hex(css, dark)
        assert used <= set(colours)
        for ink, colour in colours.items():
            assert min(contrast(colour, paper) for paper in papers) >= 4.5, ink
    lines = dict(re.findall(r"\.ink-(\w+) \{[^}]*--curve: (#\w{6})", css))
    drawn = {word: PREDICTORS[word].colour for word in ("erf", "softmax", "linear")}
    drawn |= {word: OUTCOMES[word] for word in ("oracle", "swapped")}
    assert {w: lines[w] for w in drawn} == {
        w: SCREEN_PALETTE[c].lower() for w, c in drawn.items()
    }


def test_the_twelve_questions_are_answered_by_their_steps():
    """Every number of an answer stands in a step that the answer links to, or is one of its knobs."""
    page = (ROOT / "docs" / "twelve_questions.md").read_text("utf-8")
    asked, answers = page.split("## Answers")
    blocks = re.split(r"\n(?=\d+\. )", answers)[1:]
    assert len(re.findall(r"^\d+\. ", asked, re.M)) == len(blocks) == 12
    for block in blocks:
        links = re.findall(
            r"\[([^\]]+), (\d+)\]\(http://127\.0\.0\.1:8050/tour/([^/]+)/(\d+)\)", block
        )
        assert links
        stated = set()
        for title, k, name, number in links:
            tour, _, step = one_step(name, number)
            assert (title, k) == (tour.title, number)
            stated |= set(
                NUMBER.findall(" ".join(plain(getattr(step, t)) for t in TEXT_FIELDS))
            )
            stated |= {typed(getattr(s, n)) for s in _states(step) for n in VIEWS[step.view]}
        said = re.sub(r"\[[^\]]*\]\([^)]*\)", "", block.split(". ", 1)[1])
        assert [x for x in NUMBER.findall(said) if x not in stated] == [], block


def test_the_attention_of_the_first_sentence_is_the_softmax_of_its_scores():
    """A second route to what "Which token decided", 5 states: from the gate's scores."""
    names = view_values("bags", "data=text")
    model, bag = names["model"], names["test_bags"][0]
    scores = np.asarray(model.scores([bag])[0])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    assert model.mean_share_ == 0 and int(np.argmax(weights)) == names["truth"][0] == 13
    assert np.allclose(weights, names["attention"][0], rtol=0, atol=1e-12)
    assert agrees("100", 100 * float(weights[13]))


def test_the_posterior_is_what_its_step_says():
    """log p_l = s_l - g |x_l|^2/2 + c, s_l = sqrt(d/2) k*.x_l/gamma^2, g = 1/gamma^2 - 1."""
    task = SingleLocation(dim=8, length=10, gamma=0.1**0.5, seed=3)
    tokens = task.sample(5, seed=4).tokens
    gamma2 = task.gamma**2
    scores = task.signal * tokens @ task.key / gamma2
    logs = scores - (1 / gamma2 - 1) * np.square(tokens).sum(axis=-1) / 2
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # rounding: logarithms of some hundred, to 1e-14 of their size
    assert np.allclose(p, task.location_posterior(tokens), rtol=0, atol=1e-10)
    assert math.isclose(task.signal, math.sqrt(task.dim / 2))
