"""Tasks and predictors of the catalogue in the explorer: every planted task in the risk view, rows
from outside, addresses that keep working.

Sampled comparisons use 5 standard errors (5.7e-7 each, under a hundred of them: 6e-5 false alarms,
had the seeds not been fixed).
"""

import json

import numpy as np
import pytest

import attnscope as at
from attnscope import registry
from attnscope.predictors.attention import Componentwise
from attnscope.tasks.base import Projections, gaussian_fields

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope.figures.figure import Line, Points
from attnscope_explorer.callbacks import _task_rows
from attnscope_explorer.compute import answer, cached_view
from attnscope_explorer.knobs import FIELDS, VIEWS, arguments_of, knobs, unused_knobs
from attnscope_explorer.page import page
from attnscope_explorer.state import default_state, from_query, to_query
from attnscope_explorer.views.risk_planted import REFERENCE_METHODS

PLANTED = [
    word
    for word, entry in registry.TASKS.items()
    if entry.planted and word != "single-location"
]
SMALL = {"dim": 30, "length": 5, "inverse_temperature": 0.4, "signal": 2.0}


def small(word, **change):
    own = {"inverse_temperature", *arguments_of(word).values()}
    values = {name: x for name, x in SMALL.items() if name in own}
    return default_state("risk").changed(task=word, **(values | change))


def names_of(what):
    names = {}
    exec(what.code, names)
    return names


@pytest.mark.parametrize("word", PLANTED)
def test_the_risk_view_shows_every_planted_task_by_the_lines_it_shows(word):
    what = cached_view(small(word))
    names = names_of(what)
    lines = [m for m in what.figure.panels[0].marks if isinstance(m, Line)]
    assert len(lines) == len(names["curves"])
    for line, values in zip(lines, names["curves"].values()):
        seen = values[:, 1] <= values[:, 0]
        np.testing.assert_array_equal(line.y, np.where(seen, values[:, 0], np.nan))
    bars = {
        m.label.split(",")[0]: m for m in what.figure.panels[0].marks if isinstance(m, Points)
    }
    for name in set(names["curves"]) - set(REFERENCE_METHODS):
        values = names["curves"][name]
        sampled = values[:, 2] > 0
        if sampled.any():
            np.testing.assert_array_equal(bars[name].error, 2 * values[sampled, 1])
    assert "sampled" in what.note.lower() or "exact" in what.note.lower()
    json.dumps(what.plotly, allow_nan=False)


@pytest.mark.parametrize("word", [w for w in PLANTED if w != "sparse-tokens"])
def test_shown_risks_lie_between_bayes_and_what_fresh_draws_say(word):
    """By another route: Monte Carlo with another seed, whatever the view used."""
    names = names_of(cached_view(small(word)))
    predictor = at.Softmax(0.4)
    value, error, _ = names["at_chosen"]["softmax"]
    fresh = at.risk(
        names["task"], predictor, at.Overlaps.oracle(), "monte-carlo", samples=20_000, seed=77
    )
    assert abs(value - fresh.excess) < 5 * np.hypot(error, fresh.error)
    bayes, its_error, _ = names["curves"]["Bayes"][0]
    null = names["curves"]["null"][0]
    for name in ("erf", "softmax", "linear"):
        values = names["curves"][name]
        assert (values[:, 0] + 5 * values[:, 1] >= bayes - 5 * its_error).all()
    at_zero = at.risk(
        names["task"], at.LinearAttention(0.0), at.Overlaps.oracle(), samples=20_000
    )
    assert abs(null[0] - at_zero.excess) <= 5 * at_zero.error + null[1]


def test_the_error_of_classes_is_that_of_predictions_on_tokens():
    names = names_of(cached_view(small("sparse-tokens", strength=3.0)))
    task = names["task"]
    batch = task.sample(20_000, seed=5)
    wrong = (
        np.sign(at.predict(at.Softmax(0.4), task.direction, task.direction, batch.tokens))
        != batch[1]
    )
    value, error, _ = names["at_chosen"]["softmax"]
    assert abs(wrong.mean() - value) < 5 * np.hypot(error, wrong.std() / np.sqrt(20_000))
    assert names["curves"]["Bayes"][0][0] < names["curves"]["linear test"][0][0] < value


@pytest.mark.parametrize(
    "word",
    # several directions take ten seconds: nodes in many dimensions at every point; spikes three
    [
        pytest.param(w, marks=pytest.mark.slow)
        if w in ("multi-direction", "spike-mixture")
        else w
        for w in PLANTED
    ],
)
@pytest.mark.parametrize("against", ["length", "dim"])
def test_a_sweep_shows_each_task_at_what_it_can_be(word, against):
    change = {"relevant": 4} if word == "multi-location" else {}
    _, what, words = answer(
        "risk",
        [("task", word), ("against", against), ("inverse_temperature", 0.4), *change.items()],
    )
    if against not in arguments_of(word):
        assert words.startswith(
            "against of the risk view must be one of what this task has (inverse_temperature"
        )
        return
    xs = names_of(what)["xs"]
    assert len(xs) >= 5 and (word != "multi-location" or against == "dim" or xs[0] >= 4)
    assert against in what.hidden and "tuning" in what.hidden


def test_a_matrix_too_large_for_a_page_is_one_sentence():
    words = answer("risk", [("task", "correlated-background"), ("dim", 5000)])[2]
    assert "dim of the risk view must be at most 1000" in words


def test_knobs_of_other_tasks_are_hidden_also_where_there_is_no_answer():
    assert {"relevant", "weights"} & unused_knobs("risk", "multi-location") == set()
    assert {"relevant", "weights", "lengths", "strengths"} <= unused_knobs(
        "risk", "single-location"
    )
    rows = list(VIEWS["training"])
    hidden = dict(zip(rows, _task_rows("training", ["task"], ["max-location"], rows)))
    assert hidden["strength"] is False and hidden["relevant"] is True
    assert hidden["batch"] is not True and hidden["batch"] is not False


def test_an_argument_whose_name_is_taken_has_a_longer_one():
    assert arguments_of("correlated-background")["decay"] == "task_decay"
    assert knobs()["decay"].argument == ""
    state, sentences = from_query(
        "training", "task=correlated-background&decay=0.001&task_decay=2"
    )
    assert sentences == [] and (state.decay, state.task_decay) == (0.001, 2.0)
    assert "'decay': 2.0" in cached_view(small("correlated-background", task_decay=2.0)).code


# Addresses of 0.1.0, as people have kept them
KEPT = {
    "landscape": "predictor=linear&dim=80&x=eta&y=theta&rho=0.3&start=manifold&runs=5&steps=100&step_size=0.01&seed=3",
    "risk": "against=length&tuning=fixed&inverse_temperature=1&dim=80&length=7&gamma2=0.25",
    "training": "predictor=softmax&inverse_temperature=2&decay=0.0001&dim=50&noise=0.1&batch=5&runs=3&steps=2000&seed=11",
    "posterior": "tuning=fixed&inverse_temperature=0.5&dim=8&length=30&gamma2=1&noise=0.5&seed=2",
    "convergence": "rule=shrinking&bandwidth=0.5&ridge=1&keys=2&noise=0.2&seed=3",
    "bags": "data=drawn&loss=mixture&bag=3&seed=4&upload=17",
}


@pytest.mark.parametrize("view", KEPT)
def test_kept_addresses_keep_their_meaning(view):
    state, sentences = from_query(view, KEPT[view])
    pairs = dict(pair.split("=") for pair in KEPT[view].split("&"))
    assert sentences == []
    assert {name: FIELDS[name].parse(text, name) for name, text in pairs.items()} == dict(
        state.chosen
    )
    assert from_query(view, to_query(state)) == (state, [])


# -- from outside ----------------------------------------------------------------------------------


class Clipped(Componentwise):
    """sigma(x) = min(max(x, -1), 1): an activation that the package does not know."""

    def __init__(self, inverse_temperature):
        import jax.numpy as jnp

        super().__init__(
            lambda x: jnp.clip(x, -1.0, 1.0), inverse_temperature, kinks=(-1.0, 1.0)
        )


class TwoScales:
    """No base class at all: every second token is wider; the first token decides."""

    def __init__(self, length=4, spread=2.0, predictor="plain", noise=0.1):
        self.dim = 12
        self.length = length
        self.noise = noise
        self.spread = spread
        self.teachers = np.eye(2, 12)
        self.teacher_gram = np.eye(2)

    def projections(self, n, gram, rng):
        scales = np.tile(1.0 + (self.spread - 1) * (np.arange(self.length) % 2), (n, 1))
        means = np.zeros((n, self.length, 2))
        means[:, 0, 0] = 2.0
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(fields, fields[:, 0, -1], np.zeros(n, int), scales)


@pytest.fixture
def outside():
    spread = registry.Argument("spread", "Spread", 2.0, 1, 1e6)
    clash = registry.Argument(
        "predictor", "A word that the page uses otherwise", "plain", options=("plain", "odd")
    )
    arguments = (registry.LENGTH, spread, clash, registry.NOISE)
    registry.add(
        registry.Entry("clipped", Clipped, "clipped", (registry.INVERSE_TEMPERATURE,)),
        registry.PREDICTORS,
    )
    registry.add(
        registry.Entry("two-scales", TwoScales, "two scales", arguments), registry.TASKS
    )
    yield
    registry.remove("clipped", registry.PREDICTORS)
    registry.remove("two-scales", registry.TASKS)


def test_rows_from_outside_are_in_the_page_and_work(outside):
    assert FIELDS["predictor"].options["clipped"] == "clipped"
    assert arguments_of("two-scales")["predictor"] == "task_predictor"
    for view in ("landscape", "risk", "training"):
        text = json.dumps(
            [part.to_plotly_json() for part in page(f"/{view}", "")],
            default=lambda c: c.to_plotly_json(),
        )
        assert ("clipped" in text) == (view != "risk") and ("two scales" in text) == (
            view != "landscape"
        )
    few = [
        ("predictor", "clipped"),
        ("inverse_temperature", 0.5),
        ("dim", 12),
        ("length", 3),
        ("runs", 2),
        ("steps", 10),
    ]
    _, what, words = answer("landscape", few)
    names = names_of(what)
    assert (
        words == ""
        and type(names["predictor"]) is Clipped
        and np.isfinite(names["risk"]).any()
    )
    _, what, words = answer(
        "training", [*few, ("task", "two-scales"), ("batch", 2), ("spread", 3)]
    )
    assert words == "" and names_of(what)["task"].spread == 3 and "sampled" in what.note
    _, what, words = answer(
        "risk", [("task", "two-scales"), ("spread", 3), ("compared", "all"), ("length", 3)]
    )
    names = names_of(what)
    assert words == "" and "clipped" in names["curves"] and "Bayes" not in names["curves"]
    fresh = at.risk(names["task"], Clipped(0.1), at.Overlaps.oracle(), samples=20_000, seed=9)
    value, error, _ = names["at_chosen"]["clipped"]
    assert abs(value - fresh.excess) < 5 * np.hypot(error, fresh.error)
    colors = [
        m.color
        for m in what.figure.panels[0].marks
        if isinstance(m, Points) and "sampled" in m.label
    ]
    assert len(set(colors)) == len(colors) == 6


def test_rows_taken_out_are_gone(outside):
    registry.remove("two-scales", registry.TASKS)
    assert "spread" not in FIELDS and "two-scales" not in FIELDS["task"].options
    assert "one of single-location" in answer("risk", [("task", "two-scales")])[2]
