"""The command line, as a user types it: one real process each for an answer, a refusal and the
help; the rest through the same parser in this process.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.commands import run as typed_here
from helpers.tolerances import EXACT
from typer.testing import CliRunner

import attnscope as at
from attnscope import registry
from attnscope.cli import app
from attnscope.numerics.border.estimate import estimate
from attnscope.predictors.attention import Componentwise
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.theory.reference_risks import task_risks
from attnscope.theory.task_and_predictor import pair

SMALL = {
    "dim": 12,
    "length": 4,
    "signal": 2.0,
    "noise": 0.2,
    "rows": 2,
    "columns": 2,
    "lengths": "2,4",
    "strength": 2.0,
}
PLANTED = [word for word, row in registry.TASKS.items() if row.planted]
EXCHANGEABLE = [word for word, row in registry.TASKS.items() if not row.planted]
# more than one key and value: a HeadTrajectory comes back
SEVERAL = ("multi-direction", "spike-mixture")
FORM = (
    "null_risk",
    "linear_risk",
    "bayes_risk",
    "bayes_error",
    "max_test_error",
    "linear_error",
    "topic_error",
)


def attnscope(*arguments):
    command = [sys.executable, "-m", "attnscope.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_risk_table_fits_80_columns_and_has_every_row():
    run = attnscope(
        "risk",
        "--dim",
        "400",
        "--length",
        "10",
        "--gamma2",
        "0.5",
        "--predictor",
        "erf",
        "--inverse-temperature",
        "0.1",
    )
    assert run.returncode == 0, run.stderr
    assert max(map(len, run.stdout.splitlines())) <= 80
    for words in (
        "null",
        "best linear",
        "erf oracle (k*, v*)",
        "swapped minimum",
        "optimal sigma",
        "softmax",
        "Bayes",
        "critical inverse temperature",
    ):
        assert words in run.stdout
    for number in (
        "0.50000",
        "0.47368",
        "0.11350",
        "0.06377",
        "0.06710",
        "0.04221",
        "0.05749",
        "0.8924",
    ):
        assert number in run.stdout


@pytest.mark.parametrize("predictor", ["erf", "softmax", "linear"])
def test_risk_json(predictor):
    out = json.loads(
        inside(
            "risk",
            "--dim",
            "50",
            "--predictor",
            predictor,
            "--inverse-temperature",
            "0.5",
            "--json",
        )
    )
    assert out["task"]["dim"] == 50
    rows = {row["name"]: row["value"] for row in out["risks"]}
    assert rows["Bayes: E[Y | X]"] <= min(v for k, v in rows.items() if "Bayes" not in k)


def test_length_one_prints_what_exists():
    assert "Bayes" in inside("risk", "--length", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["risk", "--dim", "1"],
            "dim of attnscope risk, single-location must be a whole number from 2",
        ),
        (
            ["risk", "--predictor", "gpt"],
            "predictor of attnscope risk must be one of erf, softmax, linear",
        ),
        (
            ["risk", "--gamma2", "-1"],
            "gamma2 of attnscope risk, single-location must be a number from 1e-50",
        ),
        (
            ["risk", "--inverse-temperature", "-1"],
            "inverse_temperature of attnscope risk, erf must be a number from 0",
        ),
        (["risk", "--nonsense"], "lists, got --nonsense; try --noise."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words):
    code, _, said = typed_here(*arguments)
    assert code == 2
    assert words in said


def test_a_refusal_of_a_process_is_one_sentence_and_exit_code_2():
    run = attnscope("risk", "--dim", "1")
    assert run.returncode == 2
    assert "dim of attnscope risk, single-location must be a whole number" in run.stderr
    assert "Traceback" not in run.stderr


def test_every_command_has_help():
    top = attnscope("--help")
    assert top.returncode == 0
    for command in app.registered_commands:
        if command.hidden:
            continue
        assert command.name in top.stdout
        assert "--json" in inside(command.name, "--help")


def test_selftest_says_where_it_went():
    code, _, said = typed_here("selftest", "--settings", "5")
    assert code == 2
    assert "make stress" in said


# -- tasks and predictors in words, in this process ------------------------------------------------


def inside(*arguments):
    """Standard output of a command that must succeed."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def refusal(*arguments):
    """The sentence of a command that must refuse."""
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, at.AttnscopeError), done.output
    return str(done.exception)


def small(word):
    """Tiny arguments of a task as they are typed: where there is an option of the name, by that."""
    names = {argument.name for argument in registry.TASKS[word].arguments}
    typed = []
    for name, x in SMALL.items():
        if name in names:
            short = name in ("dim", "length", "signal", "noise")
            typed += [f"--{name}", str(x)] if short else ["--with", f"{name}={x}"]
    return typed


@pytest.mark.parametrize(
    "word", [word for word in registry.TASKS if word != "single-location"]
)
def test_risk_of_every_task_is_what_the_library_says(word):
    """Every method of the task that gives a risk or an error has its row, with the same digits;
    the table fits 80 columns.
    """
    out = json.loads(inside("risk", "--task", word, *small(word), "--json"))
    chosen = pair(
        word,
        "erf",
        {name: out["task"][name] for name in out["task"] if name != "word"},
        "here",
    )
    task = chosen.make_task()
    shown = {(row["value"], row["error"], row["method"]) for row in out["risks"]}
    for name in FORM:
        if hasattr(task, name):
            found = getattr(task, name)(*([] if registry.TASKS[word].planted else [10]))
            assert (found.value, found.error, found.method) in shown, name
    page = inside("risk", "--task", word, *small(word))
    assert max(map(len, page.splitlines())) <= 80
    assert word in page and "error" in page and "method" in page
    # a long name is broken over two lines
    assert all(part in page for row in out["risks"] for part in row["name"].split())


# all predictors each
COMPARED = [
    word if word == "multi-location" else pytest.param(word, marks=pytest.mark.slow)
    for word in PLANTED
    if word != "sparse-tokens"
]


@pytest.mark.parametrize("word", COMPARED)
def test_no_head_beats_bayes_in_the_table(word):
    for predictor in registry.PREDICTORS:
        rows = json.loads(
            inside("risk", "--task", word, *small(word), "--predictor", predictor, "--json")
        )["risks"]
        heads = [
            row
            for row in rows
            if predictor in row["name"] and row["inverse_temperature"] is not None
        ]
        best = next(row for row in rows if row["name"].startswith("Bayes"))
        assert heads
        for row in heads:  # 5 standard errors where both are sampled; seeds are fixed
            assert row["value"] >= best["value"] - 5 * (row["error"] + best["error"])


def test_the_heads_of_the_table_stand_at_the_teachers():
    chosen = pair("multi-direction", "erf", {"dim": 12, "length": 4, "signal": 2.0}, "here")
    task = chosen.make_task()
    rows = {row.name: row.risk for row in task_risks(task, chosen.family, 0.5).rows}
    each = at.heads_risk(task, at.MultiHead(at.Erf(0.5), 2), (task.keys, task.values))
    assert rows["erf, a head per direction"].value == pytest.approx(each.value, rel=EXACT)
    one = rows["erf head at (k_1*, v_1*)"]
    batch = task.sample(40_000, seed=1)
    losses = (
        batch.target - at.predict(at.Erf(0.5), task.keys[0], task.values[0], batch.tokens)
    ) ** 2
    assert abs(losses.mean() - one.value) < 5 * np.hypot(one.error, losses.std() / 200)


# JAX compiles every engine of every task; tests/test_contract.py trains them all without a command
QUICK = [("max-location", "reduced"), ("sparse-tokens", "reduced"), ("max-location", "full")]
TRAINED = [
    pytest.param(word, engine, marks=[] if (word, engine) in QUICK else pytest.mark.slow)
    for engine in ("reduced", "full")
    for word in PLANTED
]


@pytest.mark.parametrize(("word", "engine"), TRAINED)
def test_train_of_every_planted_task(word, engine, tmp_path):
    options = ["--runs", "2", "--steps", "4", "--batch-size", "2", "--engine", engine]
    typed = ["train", "--task", word, *small(word), "--inverse-temperature", "0.5", *options]
    files = ["--csv", str(tmp_path / "run.csv"), "--save", str(tmp_path / "run.npz")]
    out = json.loads(inside(*typed, *files, "--json"))
    kind = at.HeadTrajectory if word in SEVERAL else at.Trajectory
    run = kind.load(tmp_path / "run.npz")
    assert registry.word_of(run.setup.task) == word
    assert sum(out["outcomes"].values()) == 2
    assert out["outcome"] == run.outcome.tolist()
    found = run.risk_at(-1).excess if word in SEVERAL else run.excess[:, -1]
    assert out["end"]["excess"] == found.tolist()
    page = inside(*typed)
    assert "2 runs, 4 steps" in page
    assert ("form cosine" in page) == (word in SEVERAL)


def test_several_heads_train():
    typed = [
        "train",
        "--task",
        "multi-direction",
        "--dim",
        "12",
        "--length",
        "4",
        "--heads",
        "2",
        "--batch-size",
        "2",
    ]
    out = json.loads(inside(*typed, "--runs", "2", "--steps", "4", "--json"))
    assert len(out["end"]["form_cosine"]) == 2
    assert "batch_size of train must be an integer" in refusal(
        *typed[:-2], "--runs", "2", "--steps", "4", "--engine", "full"
    )


# by an exact gradient, and by those of nodes, which JAX compiles
@pytest.mark.parametrize(
    "word",
    [
        "correlated-background",
        pytest.param("multi-location", marks=pytest.mark.slow),
        pytest.param("multi-direction", marks=pytest.mark.slow),
    ],
)
def test_population_training_where_a_gradient_exists(word):
    typed = ["--runs", "2", "--steps", "4", "--dim", "12"]
    assert "2 runs" in inside("train", "--task", word, *typed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["risk", "--task", "gpt"],
            "task of attnscope risk must be one of single-location, grid-location",
        ),
        (
            ["risk", "--task", "topics", "--dim", "3"],
            "topics must be one of prior, emissions, length",
        ),
        (
            ["risk", "--task", "random-length", "--length", "3"],
            "random-length must be one of dim, lengths",
        ),
        (["risk", "--with", "colour=3"], "single-location must be one of dim, length"),
        (
            ["risk", "--with", "offset=1"],
            "must be one of dim, length, .*inverse_temperature of erf",
        ),
        (["risk", "--with", "dim"], "--with of attnscope risk must be name=value"),
        (["risk", "--with", "seed=1", "--with", "seed=2"], "each name once"),
        (
            ["risk", "--with", "dim=3", "--dim", "4"],
            "dim of attnscope risk must be given once",
        ),
        (
            ["risk", "--task", "multi-location", "--with", "weights=blue"],
            "weights of .* must be one of equal, sum",
        ),
        (
            ["risk", "--task", "multi-location", "--with", "relevant=0.5"],
            "relevant of .* must be a whole number from 1",
        ),
        (["train", "--task", "topics"], "task of train must be a planted task"),
        (
            ["train", "--task", "max-location", "--gamma2", "1"],
            "max-location must be one of dim, length, strength",
        ),
    ],
)
def test_words_that_do_not_fit_get_one_sentence(arguments, words):
    import re

    said = refusal(*arguments)
    assert re.search(words, said), said
    assert "\n" not in said


def test_arguments_of_the_predictor_are_given_with_with():
    shifted = json.loads(
        inside(
            "risk", "--predictor", "linear", "--with", "offset=0.1", "--dim", "12", "--json"
        )
    )
    task = at.SingleLocation(12, 10)
    expected = at.risk(task, at.LinearAttention(0.1, offset=0.1), at.Overlaps.oracle())
    assert expected.value in [row["value"] for row in shifted["risks"]]


def test_contexts_have_a_length():
    for length in (0, 10):
        out = json.loads(
            inside(
                "risk",
                "--task",
                "linear-map",
                "--with",
                "dim_key=3",
                "--length",
                str(length),
                "--json",
            )
        )
        assert (
            out["risks"][0]["value"] == at.LinearMap(3, 1, 1.0, 0.5).bayes_risk(length).value
        )
        assert out["task"]["length"] == length
    order = json.loads(inside("risk", "--task", "order", "--json"))["risks"]
    assert [row["value"] for row in order] == [0.0, 1.0]


def test_tasks_lists_every_word_and_argument_in_80_columns():
    page = inside("tasks")
    assert max(map(len, page.splitlines())) <= 80
    listed = json.loads(inside("tasks", "--json"))
    for kind, rows in (("tasks", registry.TASKS), ("predictors", registry.PREDICTORS)):
        assert [row["word"] for row in listed[kind]] == list(rows)
        for row in listed[kind]:
            assert f"  {row['word']}: {row['label']}" in page
            assert [a["name"] for a in row["arguments"]] == [
                a.name for a in rows[row["word"]].arguments
            ]


class Clipped(Componentwise):
    """sigma(x) = min(max(x, -1), 1), from outside the package."""

    def __init__(self, inverse_temperature):
        import jax.numpy as jnp

        super().__init__(
            lambda x: jnp.clip(x, -1.0, 1.0), inverse_temperature, kinks=(-1.0, 1.0)
        )


class Louder:
    """The first token decides, twice as loud:
    a task from outside the package, without a base class.
    """

    def __init__(self, dim=12, length=4):
        self.dim = dim
        self.length = length
        self.noise = 0.0
        self.teachers = np.eye(2, dim)
        self.teacher_gram = np.eye(2)

    def projections(self, n, gram, rng):
        scales = np.ones((n, self.length))
        means = np.zeros((n, self.length, 2))
        means[:, 0, 0] = 2.0
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(fields, 2 * fields[:, 0, -1], np.zeros(n, int), scales)

    def null_risk(self):
        return estimate(4.0, 0.0, "closed form", 0.0)


@pytest.fixture
def rows_from_outside():
    registry.add(
        registry.Entry("clipped", Clipped, "clipped", (registry.INVERSE_TEMPERATURE,)),
        registry.PREDICTORS,
    )
    louder = registry.Entry(
        "louder", Louder, "louder labels", (registry.DIM, registry.LENGTH)
    )
    registry.add(louder, registry.TASKS)
    yield
    registry.remove("clipped", registry.PREDICTORS)
    registry.remove("louder", registry.TASKS)


def test_rows_from_outside_are_words_of_the_command_line(rows_from_outside):
    out = json.loads(inside("risk", "--predictor", "clipped", "--dim", "12", "--json"))
    expected = at.risk(at.SingleLocation(12, 10), Clipped(0.1), at.Overlaps.oracle())
    assert expected.value in [row["value"] for row in out["risks"]]
    rows = json.loads(
        inside(
            "risk", "--task", "louder", "--inverse-temperature", "0", "--dim", "12", "--json"
        )
    )["risks"]
    assert rows[0]["value"] == 4.0
    # erf at inverse temperature 0 predicts 0
    assert abs(rows[1]["value"] - 4.0) < 5 * rows[1]["error"]
    typed = [
        "train",
        "--task",
        "louder",
        "--predictor",
        "clipped",
        "--dim",
        "12",
        "--runs",
        "2",
        "--steps",
        "4",
    ]
    assert "2 runs, 4 steps" in inside(*typed, "--batch-size", "2")
    page = inside("tasks")
    assert "clipped: clipped" in page and "louder: louder labels" in page
