"""One protocol over all planted tasks and all predictors of the catalogue: every cell works, or
refuses with its reason.

Sampled comparisons use 5 standard errors (5.7e-7 each, under a hundred of them: 6e-5 false alarms,
had the seeds not been fixed); Kolmogorov-Smirnov tests reject below 1e-4.
"""

import json
from inspect import signature

import numpy as np
import pytest
from helpers.tolerances import EXACT
from scipy.stats import ks_2samp

import attnscope as at
from attnscope import registry
from attnscope.dynamics.engines.full_heads import FullHeads
from attnscope.dynamics.engines.full_planted import FullPlanted
from attnscope.dynamics.engines.planted_sgd import PlantedSgd
from attnscope.predictors.attention import Componentwise
from attnscope.tasks.base import (
    Projections,
    gaussian_fields,
    is_planted,
    recipe,
    standardised,
)
from attnscope.theory.overlaps import head_gram
from attnscope.theory.route import Excess, Route, add_route, find_route, remove_route

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
PLANTED = [word for word, entry in registry.TASKS.items() if entry.planted]
# those with a label to regress on
VALUED = [word for word in PLANTED if word != "sparse-tokens"]
SOMEWHERE = at.Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)


def small(word):
    entry = registry.TASKS[word]
    names = {argument.name for argument in entry.arguments}
    return entry.make({name: x for name, x in SMALL.items() if name in names})


def students(task, seed=0):
    x = np.random.default_rng(seed).standard_normal((2, task.dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("word", PLANTED)
def test_a_planted_task_keeps_the_contract(word):
    task = small(word)
    assert is_planted(task)
    np.testing.assert_allclose(task.teachers @ task.teachers.T, task.teacher_gram, atol=EXACT)
    again = type(task)(**recipe(task))
    assert repr(again) == repr(task)
    assert registry.word_of(task) == word


@pytest.mark.parametrize("word", PLANTED)
def test_projections_have_the_law_of_sampled_tokens(word):
    """Means and second moments of fields, labels and weighted values,
    of projections and of the task's own tokens.
    """
    task = small(word)
    n = 40_000
    vectors = np.concatenate([students(task), task.teachers])
    tokens, label, _ = standardised(task, task.sample(n, seed=3))
    drawn = task.projections(n, vectors @ vectors.T, np.random.default_rng(5))

    def moments(fields, y):
        weighted = np.tanh(fields[:, :, 0]) * fields[:, :, 1]
        rows = [
            fields.sum(1),
            (fields**2).sum(1),
            y[:, None] * fields.sum(1),
            y[:, None] * weighted.sum(1)[:, None],
        ]
        return np.concatenate(rows, axis=1)

    a = moments(tokens @ vectors.T, label)
    b = moments(drawn.fields, drawn.label)
    spread = np.sqrt(a.var(0) / n + b.var(0) / n)
    assert np.abs((a.mean(0) - b.mean(0)) / np.where(spread > 0, spread, 1)).max() < 5


@pytest.mark.parametrize("word", VALUED)
@pytest.mark.parametrize("family", registry.PREDICTORS)
def test_risk_of_every_pair_equals_that_of_vectors(word, family):
    """`risk` at any overlaps, exact or sampled, against predictions on the task's tokens."""
    task = small(word)
    predictor = registry.PREDICTORS[family].make({"inverse_temperature": 0.5})
    found = at.risk(task, predictor, SOMEWHERE, samples=20_000)
    gram = head_gram(SOMEWHERE, task.teacher_gram)
    from attnscope.dynamics.engines.vectors_from_gram import vectors_from_gram

    k, v = vectors_from_gram(gram, task.teachers, np.random.default_rng(1), "a test")
    batch = task.sample(20_000, seed=7)
    tokens, label, mask = standardised(task, batch)
    unit = task.projections(2, gram, np.random.default_rng(0)).unit
    losses = unit**2 * (label - at.predict(predictor, k, v, tokens, mask)) ** 2
    slack = 5 * np.hypot(losses.std() / np.sqrt(len(losses)), found.error)
    assert abs(losses.mean() - found.value) < slack
    exact = find_route(task, predictor) is not None and not find_route(
        task, predictor
    ).missing(task, predictor, SOMEWHERE)
    assert ("monte-carlo" in found.method) != exact


# three engines each, which JAX compiles: a plain task, one with a mask, one with classes
LAWS = [
    word
    if word in ("single-location", "random-length", "sparse-tokens")
    else pytest.param(word, marks=pytest.mark.slow)
    for word in PLANTED
]


@pytest.mark.parametrize("word", LAWS)
def test_sgd_in_law_equals_sgd_on_tokens(word):
    task, steps = small(word), np.full(6, 1.0)
    vectors = np.concatenate([students(task), task.teachers])
    gram = np.repeat((vectors @ vectors.T)[None], 150, axis=0)
    loss = "squared" if word in VALUED else "logistic"
    reduced = PlantedSgd(task, at.Softmax(1.0), 0.1, 2, loss=loss)
    full = FullPlanted(task, at.Softmax(1.0), 0.1, 2, loss=loss)
    a = reduced.overlaps(reduced.advance(reduced.start(gram, 1), steps))
    b = full.overlaps(full.advance(full.start(gram, 2), steps))
    assert min(ks_2samp(x, y).pvalue for x, y in zip(a, b) if np.ptp(x) > 0) > 1e-4
    # a planted error: another step size
    wrong = PlantedSgd(task, at.Softmax(1.0), 0.15, 2, loss=loss)
    c = wrong.overlaps(wrong.advance(wrong.start(gram, 1), steps))
    assert min(ks_2samp(x, y).pvalue for x, y in zip(c, b) if np.ptp(x) > 0) < 1e-4


@pytest.mark.parametrize("engine", [PlantedSgd, FullPlanted])
def test_planted_engines_refuse_in_one_sentence(engine):
    task = small("single-location")
    with pytest.raises(
        at.AttnscopeError, match=f"constraint of {engine.__name__} must be 'sphere'"
    ):
        engine(task, at.Erf(0.5), 0.1, 2, constraint="spheer")


def test_tokens_are_asked_of_tasks_that_draw_them():
    class Mute:
        dim = length = 4
        noise = 0.0
        teacher_gram = np.eye(2)
        projections = staticmethod(lambda n, gram, rng: None)

    with pytest.raises(at.AttnscopeError, match="must be one that draws tokens") as refused:
        FullPlanted(Mute(), at.Erf(0.5), 0.1, 2)
    assert "_draw" in str(refused.value)


# three JAX compilations each; test_heads.py trains the second. On tokens, two words stand for all:
# those of single-location have test_full_vectors.py
COMPILED_ANEW = ("grid-location", "multi-direction")
ON_TOKENS = ("random-length", "sparse-tokens")
TRAINED = [
    pytest.param(
        word,
        engine,
        marks=pytest.mark.slow
        if word in COMPILED_ANEW or (engine == "full" and word not in ON_TOKENS)
        else [],
    )
    for engine in ("reduced", "full")
    for word in PLANTED
]


@pytest.mark.parametrize(("word", "engine"), TRAINED)
def test_training_runs_extends_and_comes_back_from_disk(word, engine, tmp_path):
    task = small(word)
    options = {
        "runs": 2,
        "log_every": 2,
        "batch_size": 2,
        "engine": engine,
        "progress": False,
    }
    run = at.train(task, at.Erf(0.5), steps=4, **options)
    longer = at.train(task, at.Erf(0.5), steps=6, **options)
    run.save(tmp_path / "run.npz")
    extended = type(run).load(tmp_path / "run.npz").extend(2, progress=False)
    name = "gram" if hasattr(run, "gram") else "log"
    assert np.array_equal(getattr(extended, name), getattr(longer, name))
    assert np.isfinite(extended.excess).all()
    assert len(extended.outcome) == 2
    extended.figure()


# the others are that of the first with another law, or quadrature at every step
DESCENDED = (
    "single-location",
    pytest.param("multi-location", marks=pytest.mark.slow),
    "random-length",
    "max-location",
)


@pytest.mark.parametrize("word", DESCENDED)
def test_population_training_of_every_task(word):
    """By the exact gradient where a route has one, else by that of the nodes."""
    task = small(word)
    run = at.train(
        task, at.Erf(0.5), runs=2, steps=20, log_every=10, step_size=0.1, progress=False
    )
    assert (run.excess[:, -1] < run.excess[:, 0]).all()


@pytest.mark.parametrize("word", PLANTED)
def test_inference_of_every_task(word):
    task = small(word)
    batch = task.sample(5, seed=1)
    more = (batch.mask,) if hasattr(batch, "mask") else ()
    assert np.isfinite(task.posterior(batch.tokens, *more)).all()
    assert task.bayes_predict(batch.tokens, *more).shape == (5,)
    best = task.bayes_error() if word == "sparse-tokens" else task.bayes_risk()
    assert best.value >= 0
    if word != "sparse-tokens":
        found = at.risk(task, at.Softmax(1.0), SOMEWHERE)
        assert best.excess <= found.excess + 5 * (best.error + found.error)


# -- from outside ----------------------------------------------------------------------------------


class Clipped(Componentwise):
    """sigma(x) = min(max(x, -1), 1): an activation that the package does not know."""

    def __init__(self, inverse_temperature):
        import jax.numpy as jnp

        super().__init__(
            lambda x: jnp.clip(x, -1.0, 1.0), inverse_temperature, kinks=(-1.0, 1.0)
        )


def _constant(task, predictor, o, lam):
    return Excess(np.full(o.kappa.shape, 0.125), np.zeros(o.kappa.shape), "by hand")


@pytest.fixture
def clipped():
    row = registry.Entry("clipped", Clipped, "clipped", (registry.INVERSE_TEMPERATURE,))
    registry.add(row, registry.PREDICTORS)
    yield row
    registry.remove("clipped", registry.PREDICTORS)


def test_an_activation_from_outside_is_a_citizen(clipped, tmp_path):
    task = at.SingleLocation(12, 4, signal=2.0)
    predictor = clipped.make({"inverse_temperature": 0.7})
    exact = at.risk(task, predictor, SOMEWHERE)
    sampled = at.risk(task, predictor, SOMEWHERE, "monte-carlo", samples=40_000)
    assert abs(exact.excess - sampled.excess) < 5 * sampled.error
    assert np.isfinite(at.risk_gradient(task, predictor, SOMEWHERE)).all()
    for engine, batch in (("reduced", None), ("reduced", 2), ("full", None), ("full", 2)):
        run = at.train(
            task,
            predictor,
            runs=2,
            steps=4,
            log_every=2,
            engine=engine,
            batch_size=batch,
            progress=False,
        )
        assert np.isfinite(run.excess).all()
    run.save(tmp_path / "run.npz")
    assert type(at.Trajectory.load(tmp_path / "run.npz").setup.predictor) is Clipped
    add_route(at.SingleLocation, Clipped, Route(_constant))
    try:
        assert at.risk(task, predictor, SOMEWHERE).method == "by hand"
    finally:
        remove_route(at.SingleLocation, Clipped)


class SignLocation(at.SingleLocation):
    """The label is the sign of the informative token's value:
    a task that the package does not know.
    """

    def projections(self, n, gram, rng):
        seen = super().projections(n, gram, rng)
        return seen._replace(label=np.sign(seen.label))

    def _draw(self, n, rng, dtype):
        batch = super()._draw(n, rng, dtype)
        return batch._replace(target=np.sign(batch.target))


def test_a_subclass_with_another_law_inherits_no_formula():
    """The label's sign is another task: nothing derived for SingleLocation may answer for it."""
    task = SignLocation(12, 4, signal=2.0)
    assert find_route(task, at.Erf(0.5)) is None
    found = at.risk(task, at.Erf(0.5), SOMEWHERE, samples=20_000)
    assert found.method == "monte-carlo"
    base = at.risk(at.SingleLocation(12, 4, signal=2.0), at.Erf(0.5), SOMEWHERE)
    assert abs(found.excess - base.excess) > 5 * found.error
    run = at.train(
        task, at.Erf(0.5), runs=1, steps=2, log_every=1, batch_size=2, progress=False
    )
    assert run.setup.task is task


@pytest.mark.slow
def test_stationary_points_of_a_subclass_with_another_law_are_its_own():
    """Searched for on its own draws: the risks are those of `risk` on it, not SingleLocation's."""
    task = SignLocation(12, 4, signal=2.0)
    points = at.stationary_points(task, at.Erf(0.5))
    base = at.stationary_points(at.SingleLocation(12, 4, signal=2.0), at.Erf(0.5))
    for known in base:
        found = min((p for p in points if p.name == known.name), key=lambda p: p.risk.value)
        assert found.risk.method == "monte-carlo"
        assert abs(found.risk.value - known.risk.value) > 5 * found.risk.error
        own = at.risk(task, at.Erf(0.5), found.overlaps, samples=20_000, seed=1)
        assert abs(own.value - found.risk.value) < 5 * np.hypot(own.error, found.risk.error)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("RandomLength", lambda task: at.RandomLength(task, [3, 4])),
        ("CorrelatedBackground", at.CorrelatedBackground),
        ("cramer_rao", lambda task: at.cramer_rao(task, n=100)),
        ("critical_inverse_temperature", at.critical_inverse_temperature),
        ("FullHeads", lambda task: FullHeads(task, at.MultiHead(at.Softmax(1.0), 1), 0.1, 2)),
    ],
)
def test_what_is_derived_for_a_law_is_refused_to_a_subclass_with_another(name, asked):
    task = SignLocation(12, 4, noise=0.1, signal=2.0)
    with pytest.raises(at.AttnscopeError, match=f"^task of {name} must be .*SignLocation"):
        asked(task)
    asked(at.SingleLocation(12, 4, noise=0.1, signal=2.0))


class TwoScales:
    """No base class at all: every second token has twice the spread; the first token decides."""

    def __init__(self, dim=12, length=4, noise=0.1):
        self.dim = dim
        self.length = length
        self.noise = noise
        self.teachers = np.eye(2, dim)
        self.teacher_gram = np.eye(2)

    def projections(self, n, gram, rng):
        scales = np.tile(1.0 + np.arange(self.length) % 2, (n, 1))
        means = np.zeros((n, self.length, 2))
        means[:, 0, 0] = 2.0
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(fields, fields[:, 0, -1], np.zeros(n, int), scales)

    def _draw(self, n, rng, dtype):
        tokens = (
            rng.standard_normal((n, self.length, self.dim))
            * (1.0 + np.arange(self.length) % 2)[:, None]
        )
        tokens[:, 0] += 2 * self.teachers[0]
        return tokens, tokens[:, 0] @ self.teachers[1] + self.noise * rng.standard_normal(n)

    def sample(self, n, seed=0):
        return self._draw(n, np.random.default_rng(seed), np.dtype(float))


def test_a_task_from_outside_is_a_citizen(tmp_path):
    row = registry.Entry(
        "two-scales", TwoScales, "two scales", (registry.LENGTH, registry.NOISE)
    )
    registry.add(row, registry.TASKS)
    try:
        task = row.make({"length": 3})
        found = at.risk(task, at.Softmax(1.0), SOMEWHERE, samples=40_000)
        tokens, label = task.sample(40_000, seed=2)
        k = np.zeros(12)
        v = np.zeros(12)
        k[:3] = 0.5, 0.1, np.sqrt(1 - 0.26)
        v[:2] = 0.2, 0.6
        v[2] = (-0.1 - 0.5 * 0.2 - 0.1 * 0.6) / k[2]
        v[3] = np.sqrt(1 - v @ v)
        losses = (label - at.predict(at.Softmax(1.0), k, v, tokens)) ** 2
        assert abs(losses.mean() - found.value) < 5 * np.hypot(
            found.error, losses.std() / 200
        )
        run = at.train(
            task, at.Softmax(1.0), runs=2, steps=4, log_every=2, batch_size=2, progress=False
        )
        run.save(tmp_path / "run.npz")
        assert type(at.Trajectory.load(tmp_path / "run.npz").setup.task) is TwoScales
        at.train(
            task,
            at.Erf(0.5),
            runs=1,
            steps=2,
            log_every=1,
            batch_size=2,
            engine="full",
            progress=False,
        )
    finally:
        registry.remove("two-scales", registry.TASKS)


def test_catalogue_rows_are_whole():
    for table in (registry.TASKS, registry.PREDICTORS):
        for word, entry in table.items():
            assert entry.word == word
            assert entry.label
            thing = entry.make()
            assert isinstance(thing, entry.kind)
            assert registry.named(entry.kind.__name__) is entry.kind
            if entry.build is None:
                assert {a.name for a in entry.arguments} <= set(
                    signature(entry.kind).parameters
                )
            json.dumps([a.default for a in entry.arguments])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"gamma2": -1},
            "gamma2 of here, single-location must be a number from 1e-50 to 1e[+]50, got -1",
        ),
        ({"dim": 2.5}, "dim of here, single-location must be a whole number"),
        ({"colour": 1}, "an argument of here, single-location must be one of dim, length"),
        ({"dim": "many"}, "dim of here, single-location must be a whole number from 2 to"),
    ],
)
def test_flat_arguments_get_one_sentence(values, words):
    with pytest.raises(at.AttnscopeError, match=words):
        registry.make("single_location", registry.TASKS, values, "here", "task")
    with pytest.raises(
        at.AttnscopeError,
        match=r"task of here must be one of single-location, .*got 'nothing'",
    ):
        registry.make("nothing", registry.TASKS, values, "here", "task")
