"""The witness reading: its law by enumeration of who is a witness, its slopes by differences, the
unit test with a shortcut after Raff and Holt (2023), the rule of the default, refusals, files.
"""

import itertools

import numpy as np
import pytest
from helpers.tolerances import FOUR_DIGITS
from sklearn.metrics import roc_auc_score

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.fit.witness_law import (
    Numbers,
    log_odds,
    loss_and_slopes,
    witness_outputs,
    wrong_label_share,
)

RNG = np.random.default_rng(19)
OFFSETS = np.array([0, 3, 4, 9])
SCORES = RNG.standard_normal(9) * 2
NUMBERS = Numbers(-1.0, -0.7, -2.0, 1.2)


def shortcut_bags(seed, n, test=False, size=3.0):
    """Positive bags hold a token about 3 on axis 0; negative bags (at test: positive ones too) one
    about 3 on axis 1.
    """
    rng = np.random.default_rng([19, seed, int(test)])
    y = np.arange(n) % 2
    bags = []
    for label in y:
        bag = rng.standard_normal((rng.integers(5, 16), 16))
        place = rng.permutation(len(bag))
        if label:
            bag[place[0], 0] += size
        if label == int(test):
            bag[place[1], 1] += size
        bags.append(bag)
    return bags, y


def test_the_law_is_that_of_independent_witnesses():
    odds = log_odds(SCORES, OFFSETS, NUMBERS)
    p = 1 / (1 + np.exp(-odds))
    quiet = 1 / (1 + np.exp(NUMBERS.background))
    found = witness_outputs(SCORES, OFFSETS, NUMBERS)
    for i, (a, b) in enumerate(itertools.pairwise(OFFSETS)):
        negative = 0.0
        for who in itertools.product((0, 1), repeat=b - a):
            chance = np.prod(np.where(who, p[a:b], 1 - p[a:b]))
            negative += quiet * chance * (not any(who))
        np.testing.assert_allclose(found[i], [negative, 1 - negative], rtol=1e-12)


def test_more_evidence_only_raises_the_positive_class():
    before = witness_outputs(SCORES, OFFSETS, NUMBERS)[:, 1]
    for token in range(len(SCORES)):
        raised = SCORES.copy()
        raised[token] += 1
        after = witness_outputs(raised, OFFSETS, NUMBERS)[:, 1]
        assert (after >= before).all() and after.sum() > before.sum()


def test_slopes_are_those_of_differences():
    labels = np.array([1.0, 0.0, 1.0])
    weight = np.array([1.0, 2.0, 0.5])
    _, each, slopes = loss_and_slopes(SCORES, OFFSETS, labels, weight, NUMBERS)

    def loss(u, numbers):
        chosen = witness_outputs(u, OFFSETS, numbers)[np.arange(3), labels.astype(int)]
        return -weight @ np.log(chosen)

    step = 1e-5
    for token in range(len(SCORES)):
        aside = step * (np.arange(len(SCORES)) == token)
        slope = (loss(SCORES + aside, NUMBERS) - loss(SCORES - aside, NUMBERS)) / (2 * step)
        assert abs(slope - each[token]) < 1e-8
    for k, name in enumerate(("rate", "slope", "background")):
        ends = [NUMBERS._replace(**{name: NUMBERS[k] + s * step}) for s in (1, -1)]
        slope = (loss(SCORES, ends[0]) - loss(SCORES, ends[1])) / (2 * step)
        assert abs(slope - slopes[k]) < 1e-8


def test_scores_of_any_size_have_finite_losses_and_slopes():
    offsets = np.array([0, 2, 4])
    for size in (-1e4, -700.0, 700.0, 1e4):
        for labels in (np.zeros(2), np.ones(2)):
            quiet = Numbers(0.0, -1.0, -1e4, np.log(2))
            loss, each, slopes = loss_and_slopes(
                np.full(4, size), offsets, labels, np.ones(2), quiet
            )
            assert np.isfinite([loss, *each, *slopes]).all()


def test_a_shortcut_in_every_negative_bag_is_no_evidence():
    """Bar .8; four seeds looked at beforehand gave .89 to .93 with a standard error of .01."""
    bags, y = shortcut_bags(0, 300)
    test, truth = shortcut_bags(0, 600, test=True)
    default = at.SingleLocationClassifier(gate="linear").fit(bags, y)
    named = at.SingleLocationClassifier(gate="linear", assumption="witness").fit(bags, y)
    assert default.assumption_ == "witness" and default.readings_["chosen"] == "witness"
    assert default.readings_["single"] is None  # what is not taken is not fitted
    for model in (default, named):
        assert roc_auc_score(truth, model.predict_proba(test)[:, 1]) >= 0.8
    single = at.SingleLocationClassifier(gate="linear", assumption="single", n_starts=4)
    # the shortcut is read as evidence for 0: worse than a coin
    assert roc_auc_score(truth, single.fit(bags, y).predict_proba(test)[:, 1]) < 0.5


def test_tokens_of_one_kind_are_read_as_single():
    batch = at.SingleLocation(dim=8, length=5, signal=5.0, noise=0.0).sample(200, seed=1)
    label = batch.target > 0
    model = at.SingleLocationClassifier().fit(batch.tokens, label)
    plain = at.SingleLocationClassifier(assumption="single").fit(batch.tokens, label)
    assert model.assumption_ == "single" and model.readings_["agreement"] > 0.25
    np.testing.assert_array_equal(
        model.predict_proba(batch.tokens), plain.predict_proba(batch.tokens)
    )
    words = at.SingleLocationClassifier(n_starts=1).fit(
        batch.tokens[:40], np.where(label, "up", "down")[:40]
    )
    assert words.assumption_ == "single" and words.readings_ is None


def test_witnesses_that_no_plane_cuts_off():
    """Tokens lie about (+-2, +-2); those of one diagonal are witnesses. A plane tells nothing, nor
    does |x|^2; waves do, and tokens still speak for one class only.
    """

    def crossed(seed, n):
        rng = np.random.default_rng([38, seed])
        y = np.arange(n) % 2
        signs = rng.choice([-2.0, 2.0], (n, 4))
        other = -signs
        other[:, 0] *= np.where(y, -1, 1)
        return np.stack([signs, other], axis=2) + 0.3 * rng.standard_normal((n, 4, 2)), y

    bags, y = crossed(0, 200)
    model = at.SingleLocationClassifier(assumption="witness", n_starts=1).fit(bags, y)
    assert model.stages_[-1] == "waves"
    test, truth = crossed(1, 400)
    p = model.predict_proba(test)[:, 1]
    assert roc_auc_score(truth, p) > 0.95
    plain = at.SingleLocationClassifier(assumption="witness", gate="linear", n_starts=1)
    assert roc_auc_score(truth, plain.fit(bags, y).predict_proba(test)[:, 1]) < 0.7
    assert np.mean(model.locate(test)[truth == 1] == 0) > 0.95


def test_means_that_no_plane_cuts_off_are_read_as_single():
    """All tokens of a positive bag lie off the axis to the same side, either one: the mean token
    tells it, by no plane.
    """
    rng = np.random.default_rng(39)
    y = np.arange(160) % 2
    bags = rng.standard_normal((160, 8, 3))
    bags[:, :, 0] += (y * rng.choice([-1.2, 1.2], 160))[:, None]
    model = at.SingleLocationClassifier(n_starts=2).fit(bags, y)
    found = model.readings_
    assert model.assumption_ == "single"
    assert found["mean_trees"] < min(
        found["witness"], found["mean_pool"], found["every_token"]
    )
    told = model.diagnose(bags, y)
    assert told.verdict == "whole bags" and "the bag as a whole" in str(told)
    assert "shortcut" not in str(told)  # no kind of token of its own speaks for either class


def test_files_answers_and_places(tmp_path):
    bags, y = shortcut_bags(3, 120, size=6.0)
    model = at.SingleLocationClassifier(gate="linear", assumption="witness").fit(bags, y)
    model.save(tmp_path / "model.npz")
    back = at.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict_proba(bags), model.predict_proba(bags))
    assert back.assumption_ == "witness" and model.mean_share_ == 0
    positive = [bag for bag, label in zip(bags, y) if label]
    where = model.locate(positive)
    assert np.mean([bag[i, 0] > 2.5 for bag, i in zip(positive, where)]) > 0.9
    for weight in model.attention(positive):
        assert abs(weight.sum() - 1) < FOUR_DIGITS
    assert "loss" in str(model.diagnose(bags, y))
    model.fitted_.values.bias[-1] = 3.0  # probabilities would be beyond [0, 1]
    model.save(tmp_path / "altered.npz")
    with pytest.raises(AttnscopeError, match="share of wrong labels in"):
        at.load_model(tmp_path / "altered.npz")


def test_two_equal_halves_count_as_weights():
    """The law's own fit: bags twice, or weight two, at a given ridge; the folds differ, and with
    them the share of wrong labels.
    """
    bags, y = shortcut_bags(4, 40, size=6.0)
    options = {"gate": "linear", "assumption": "witness", "alpha": 3.0, "n_starts": 1}
    once = at.SingleLocationClassifier(**options).fit(bags, y, sample_weight=np.full(40, 2.0))
    own = np.arange(80)  # the same tokens twice on purpose
    model = at.SingleLocationClassifier(**options)
    twice = model.fit(bags * 2, np.tile(y, 2), groups=own)
    law = [witness_output_without_wrong_labels(model, bags) for model in (once, twice)]
    np.testing.assert_allclose(*law, atol=FOUR_DIGITS)


def witness_output_without_wrong_labels(model, bags):
    wrong = model.fitted_.values.bias[-1]
    return (model.predict_proba(bags) - wrong) / (1 - 2 * wrong)


def test_labels_may_be_wrong():
    """The share by a grid; nothing is beyond doubt, however far a token lies."""
    rng = np.random.default_rng(36)
    right = np.r_[rng.uniform(0.6, 1.0, 47), 1e-12, 0.02, 0.05]
    weight = rng.uniform(0.5, 2.0, 50)
    found = wrong_label_share(right, weight)
    grid = np.linspace(1e-4, 0.4999, 4999)
    loss = -weight @ np.log(grid + np.outer(right, 1 - 2 * grid)) - np.log(
        grid * (1 - 2 * grid)
    )
    assert abs(found - grid[np.argmin(loss)]) <= 2 * (grid[1] - grid[0])
    bags, y = shortcut_bags(5, 60, size=6.0)
    model = at.SingleLocationClassifier(gate="linear", assumption="witness").fit(bags, y)
    wrong = model.fitted_.values.bias[-1]
    far = model.predict_proba([1e6 * bags[0], -1e6 * bags[0]])
    assert 1e-4 < wrong < 0.1 and wrong - 1e-12 <= far.min() <= far.max() <= 1 - wrong + 1e-12


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: at.SingleLocationRegressor(assumption="witness"), "for numbers"),
        (lambda: at.SingleLocationClassifier(assumption="witness"), "more than two classes"),
        (
            lambda: at.SingleLocationClassifier(assumption="both"),
            "one of 'single', 'witness'",
        ),
    ],
)
def test_refusals(make, words):
    bags = RNG.standard_normal((12, 3, 2))
    with pytest.raises(AttnscopeError, match=words):
        make().fit(bags, np.arange(12) % 3)
    with pytest.raises(AttnscopeError, match="has its own"):
        at.SingleLocationClassifier(assumption="witness", loss="mixture").fit(
            bags, np.arange(12) % 2
        )
    with pytest.raises(AttnscopeError, match="assumption"):
        at.SingleLocationClassifier(assumption="witness").partial_fit(bags, np.arange(12) % 2)
