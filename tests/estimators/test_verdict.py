"""What `diagnose` names: the four problems at n = 100, hidden tokens, the shortcut; its rule case by
case, the density against numerical integration.
"""

import numpy as np
import pytest
from helpers.tolerances import FOUR_DIGITS

import attnscope as at
from attnscope.estimators.compare_readings import _difference_error as reading_error
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.evidence import evidence, log_densities
from attnscope.estimators.fit.mixture import bag_answers
from attnscope.estimators.verdict import (
    HIDDEN_TOKEN,
    MEAN_TOKEN,
    NO_TOKEN,
    SINGLE_TOKEN,
    VERDICT_SENTENCES,
    WEAK_TOKEN,
    WHOLE_BAGS,
    WITNESS_TOKEN,
    verdict_of,
)
from attnscope.numerics.compiled.data_pass import BERNOULLI, GAUSSIAN

N, L, D = 100, 8, 16


def noise(seed):
    rng = np.random.default_rng([seed, 77])
    return rng.standard_normal((N, L, D)), rng.standard_normal(N)


def mean_token(seed):
    tokens, labels = noise(seed)
    return tokens, np.sqrt(L) * tokens.mean(axis=1)[:, 0] + 0.1 * labels


def key(size):
    def draw(seed):
        task = at.SingleLocation(dim=D, length=L, signal=size, noise=0.1, seed=seed)
        batch = task.sample(N, seed=seed + 1)
        return batch.tokens, batch.target

    return draw


@pytest.mark.parametrize(
    ("draw", "word"),
    [
        (noise, NO_TOKEN),
        (mean_token, MEAN_TOKEN),
        (key(1.5), WEAK_TOKEN),
        (key(5.0), SINGLE_TOKEN),
    ],
)
def test_the_four_problems(draw, word, tmp_path):
    """One seed each, fixed before; of 100 seeds the bench names at least 95 rightly, so that all
    four fail by chance in at most a fifth of such choices of a seed, and this choice did not.
    """
    tokens, y = draw(2000)
    model = at.SingleLocationRegressor(loss="auto" if draw is mean_token else "mixture")
    model.fit(tokens, y)
    found = model.diagnose(tokens, y)
    assert found.verdict == word and VERDICT_SENTENCES[word] in str(found)
    assert found.single_location == (word == SINGLE_TOKEN)
    model.save(tmp_path / "model.npz")
    assert at.load_model(tmp_path / "model.npz").diagnose(tokens, y) == found


def test_a_token_that_nothing_shows_is_said_to_be_hidden():
    """Which token decides is drawn by lot: labels have the density of one token, whichever."""
    rng = np.random.default_rng(3)
    tokens = rng.standard_normal((300, 8, 6))
    y = tokens[np.arange(300), rng.integers(0, 8, 300), 0] + 0.1 * rng.standard_normal(300)
    model = at.SingleLocationRegressor(gate="quadratic", loss="mixture").fit(tokens, y)
    found = model.diagnose(tokens, y)
    assert found.verdict == HIDDEN_TOKEN and "features do not show which" in str(found)
    assert found.doubt > 0.5 and found.evidence["density"] > 5


def test_the_rule():
    facts = {"length": 8.0, "mean_share": 0.0, "doubt": 0.0}
    weak = {"token": 2.0, "mean": 2.0, "lead": 5.0, "density": 2.0, "gate": 9.0}
    strong = {"token": 9.0, "mean": 2.0, "lead": 5.0, "density": 9.0, "gate": 9.0}
    hidden = {"token": 2.0, "mean": 9.0, "lead": 1.0, "density": 9.0, "gate": 1.0}
    mean = {"token": 9.0, "mean": 9.0, "lead": 1.0, "density": 2.0, "gate": 9.0}
    for found, change, witness, borne_out, word in (
        (weak, {}, False, True, NO_TOKEN),
        (strong, {}, False, True, SINGLE_TOKEN),
        (strong, {}, True, True, WITNESS_TOKEN),
        (strong, {"doubt": 0.2}, False, True, WEAK_TOKEN),
        (strong, {}, False, False, WEAK_TOKEN),
        (strong, {}, True, False, WEAK_TOKEN),
        (strong | {"lead": 1.0}, {}, False, True, WEAK_TOKEN),
        (strong, {"mean_share": 0.6}, False, True, WEAK_TOKEN),
        (strong | {"density": 2.0}, {"mean_share": 0.6}, False, True, MEAN_TOKEN),
        (hidden, {"mean_share": 0.6}, False, True, HIDDEN_TOKEN),
        (mean, {}, False, True, MEAN_TOKEN),
        (mean, {"length": 1.0}, False, True, SINGLE_TOKEN),
        (weak, {"length": 1.0}, False, True, NO_TOKEN),
    ):
        assert verdict_of(found, facts | change, witness, borne_out) == word
    all_alike = facts | {"mean_share": 0.9}
    for borne_out, found, word in (
        (True, strong, WHOLE_BAGS),
        (False, strong, WEAK_TOKEN),
        (True, mean, MEAN_TOKEN),
        (True, weak, NO_TOKEN),
        (True, hidden, HIDDEN_TOKEN),
    ):
        assert verdict_of(found, all_alike, False, borne_out, whole=True) == word


def test_soft_attention_is_asked_for_its_predictions_alone():
    """Its one law has no other with equal weights: gate 0 says nothing of which token decides."""
    facts = {"length": 8.0, "mean_share": 0.0, "doubt": 0.0}
    strong = {"token": 9.0, "mean": 2.0, "lead": 5.0, "density": 9.0, "gate": 0.0}
    assert verdict_of(strong, facts, False, True) == HIDDEN_TOKEN
    assert verdict_of(strong, facts, False, True, soft=True) == SINGLE_TOKEN
    assert verdict_of(strong | {"lead": 1.0}, facts, False, True, soft=True) == MEAN_TOKEN
    rng = np.random.default_rng([4, 7])
    bags = rng.standard_normal((60, 6, 5))
    where = rng.integers(0, 6, 60)
    bags[np.arange(60), where, 0] += 5
    y = (bags[np.arange(60), where, 1] > 0).astype(int)
    model = at.SingleLocationClassifier(loss="attention", n_starts=4).fit(bags, y)
    assert model.evidence_["gate"] == 0 and np.mean(model.locate(bags) == where) > 0.95
    assert model.diagnose(bags, y).verdict == SINGLE_TOKEN


def test_the_density_integrates_to_one_and_has_the_mixtures_moments():
    tokens, y = key(1.5)(3)
    model = at.SingleLocationRegressor(gate="quadratic", loss="mixture", n_starts=2)
    model.fit(tokens, y)
    data = model._labelled_data(model._read_bags(tokens[:3], "diagnose"), y[:3], "diagnose")
    grid = np.linspace(-12, 12, 4001)
    log_f = [log_densities(model.fitted_, data._replace(labels=np.full(3, t))) for t in grid]
    f = np.exp(log_f)[..., 0]
    answers = bag_answers(model.fitted_, data.tokens, data.offsets)
    step = grid[1] - grid[0]
    np.testing.assert_allclose(f.sum(axis=0) * step, 1, rtol=FOUR_DIGITS)
    mean = (f * grid[:, None]).sum(axis=0) * step
    np.testing.assert_allclose(mean, answers.output[:, 0], atol=FOUR_DIGITS)
    variance = (f * (grid[:, None] - mean) ** 2).sum(axis=0) * step
    np.testing.assert_allclose(variance, answers.spread**2, rtol=10 * FOUR_DIGITS)


def test_evidence_is_a_mean_in_its_standard_errors():
    rng = np.random.default_rng(8)
    labels = (rng.random(40) < 0.4).astype(float)
    data = Data(np.zeros((40, 1)), np.arange(41), labels, np.ones(40), BERNOULLI, 1)
    losses = rng.random(40)
    share = labels.mean()
    entropy = -np.log(np.where(labels == 1, share, 1 - share))
    gain = entropy - losses
    expected = gain.mean() / (gain.std(ddof=1) / np.sqrt(40))
    found = evidence(data, losses, -np.column_stack([losses, 2 * losses]), None)
    assert found["gate"] == pytest.approx(losses.mean() / losses.std(ddof=1) * np.sqrt(40))
    assert found["token"] == pytest.approx(expected) == found["lead"] == found["density"]
    assert found["mean"] == 0
    numbers = data._replace(family=GAUSSIAN, labels=rng.standard_normal(40))
    same = (numbers.labels - numbers.labels.mean()) ** 2
    assert evidence(numbers, same, np.zeros((40, 2)), None)["token"] == 0


def test_a_shortcut_is_named(shortcut_model):
    model, bags, y = shortcut_model
    found = model.diagnose(bags, y)
    assert "One kind of token is evidence for the negative class" in str(found)
    assert "assumption='witness'" in str(found) and "shortcut" in str(found)
    assert found.readings["single"] < found.readings["witness"]
    assert not found.single_location


def test_readings_are_compared_bag_by_bag():
    """Their losses on the same bags go together; on others, as many of them, they do not, and the
    spread of pairs is that of both (20,000 draws of two independent means; 4 standard errors)."""
    rng = np.random.default_rng(31)
    hard = rng.exponential(size=500)
    a, b = hard + 0.1 * rng.random(500), hard + 0.1 * rng.random(500)
    expected = np.std(a - b, ddof=1) / np.sqrt(500)
    assert reading_error(a, b, None) == pytest.approx(expected)
    assert reading_error(a, b[:-1], None) > 5 * expected
    draws = rng.exponential(size=(2, 20_000, 50))
    truth = np.std(draws[0].mean(axis=1) - draws[1].mean(axis=1))
    told = [reading_error(x, z, None) ** 2 for x, z in zip(draws[0, :2000], draws[1, :2000])]
    doubt = np.std(told) / np.sqrt(2000) + truth**2 * np.sqrt(2 / 20_000)
    assert abs(np.mean(told) - truth**2) < 4 * doubt


def test_groups_enter_the_comparison():
    rng = np.random.default_rng(32)
    codes = np.repeat(np.arange(30), 10)
    lead = rng.standard_normal(30)[codes]
    own = rng.random(300)
    alone = reading_error(own, own + lead, None)
    assert reading_error(own, own + lead, codes) == pytest.approx(
        np.std(lead[::10], ddof=1) / np.sqrt(30), rel=1e-9
    )
    assert reading_error(own, own + lead, codes) > 2 * alone


@pytest.fixture(scope="module")
def shortcut_model():
    rng = np.random.default_rng([19, 7])
    y = np.arange(200) % 2
    bags = [rng.standard_normal((rng.integers(5, 16), 16)) for _ in y]
    for bag, label in zip(bags, y):
        bag[rng.integers(len(bag)), 0 if label else 1] += 4.0
    model = at.SingleLocationClassifier(gate="linear", assumption="single", n_starts=4)
    return model.fit(bags, y), bags, y


def test_a_mean_that_tells_is_no_shortcut():
    """All tokens of class 1 lie off to one side: "single" predicts better than witnesses, by the
    mean token, and no kind of token is evidence for the negative class."""
    rng = np.random.default_rng([22, 501])
    y = np.arange(200) % 2
    bags = [rng.standard_normal((rng.integers(5, 16), 16)) for _ in y]
    for bag, label in zip(bags, y):
        bag[:, 0] += 0.35 * label
    model = at.SingleLocationClassifier(assumption="single", n_starts=2).fit(bags, y)
    found = model.diagnose(bags, y)
    ahead = found.readings["witness"] - found.readings["single"]
    assert ahead > 2 * found.readings["error"]
    assert found.readings["mean_pool"] < found.readings["witness"]
    assert "shortcut" not in str(found)


@pytest.mark.slow
def test_readings_are_compared_where_labels_are_0_and_1(shortcut_model):
    _, bags, y = shortcut_model
    quick = {"gate": "linear", "n_starts": 2, "robust": False}
    witness = at.SingleLocationClassifier(assumption="witness", **quick).fit(bags, y)
    found = witness.diagnose(bags, y)
    assert found.verdict == WITNESS_TOKEN and "Read as witnesses although" in str(found)
    assert "swapped" not in str(found)
    words = at.SingleLocationClassifier(**quick).fit(bags, np.where(y, "yes", "no"))
    assert words.diagnose(bags, np.where(y, "yes", "no")).readings is None
    batch = at.SingleLocation(dim=8, length=5, signal=5.0, noise=0.0).sample(160, seed=1)
    label = batch.target > 0
    same = at.SingleLocationClassifier(assumption="witness", **quick).fit(batch.tokens, label)
    assert "Tokens of one kind decide" in str(same.diagnose(batch.tokens, label))
