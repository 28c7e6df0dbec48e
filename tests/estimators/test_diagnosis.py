"""What the diagnosis of a fitted model says, and what it warns of."""

import numpy as np
import pytest
from helpers.easy_bags import QUICK, TASK, TEST, X, Y
from sklearn.base import clone

import attnscope as at
from attnscope.estimators.regressor import SingleLocationRegressor


def test_diagnosis(model, binary):
    good = model.diagnose(TEST.tokens, TEST.target)
    assert (
        good.single_location
        and good.gain_low > 0
        and good.attended < 1.3
        and "looks like" in str(good)
    )
    assert binary.diagnose(TEST.tokens, np.where(TEST.target > 0, "up", "down")).gain > 0


def test_diagnosis_warns_of_a_lonely_start_unless_it_explains_everything(model):
    """Agreement is in units of the gain: 90 % of the best start's;
    a doubtful fit of a lonely start is warned of.
    """
    lonely = clone(model).fit(X, Y)
    lonely.start_losses_ = {"a": 0.02, "b": 0.11, "c": 0.13} | {f"{i}": 1.0 for i in range(5)}
    good = lonely.diagnose(TEST.tokens, TEST.target)
    assert good.agreement == 2 / 8  # up to .02 + .1 (1 - .02) = .118
    centred = TEST.target - lonely.scaling_.label_mean
    assert good.explained == pytest.approx(
        1 - np.mean((lonely.predict(TEST.tokens) - TEST.target) ** 2) / np.mean(centred**2)
    )
    lonely.start_losses_["b"] = 0.12
    noisy = TEST.target + np.random.default_rng(0).standard_normal(300)
    verdicts = lonely.diagnose(TEST.tokens, TEST.target), lonely.diagnose(TEST.tokens, noisy)
    assert [v.agreement for v in verdicts] == [1 / 8] * 2 and verdicts[
        0
    ].explained > 0.9 > verdicts[1].explained
    assert ["Only one start" in str(v) for v in verdicts] == [False, True]
    assert (
        lonely.diagnose(TEST.tokens, np.full(300, lonely.scaling_.label_mean)).explained == 0
    )


def test_diagnosis_of_what_is_not_single_location():
    """Labels that all tokens make together, and labels of a token that only its position tells:
    mean pooling does as well.
    """
    rng = np.random.default_rng(6)
    tokens, test = rng.standard_normal((2, 200, 5, 6))
    for label in (lambda x: x.mean(axis=1)[:, 0], lambda x: x[:, 0, 0]):
        fitted = SingleLocationRegressor(**QUICK).fit(
            tokens, label(tokens) + 0.01 * rng.standard_normal(200)
        )
        verdict = fitted.diagnose(test, label(test))
        assert (
            not verdict.single_location
            and "does not look like a single-location problem" in str(verdict)
        )


def test_diagnosis_warns_of_positions():
    """The deciding token always comes first;
    the same bags with their tokens shuffled are no reason to warn.
    """
    pinned = at.SingleLocation(
        dim=6, length=5, signal=5.0, noise=0.1, location_probs=[1, 0, 0, 0, 0]
    ).sample(150, seed=1)
    fitted = SingleLocationRegressor(**QUICK).fit(pinned.tokens, pinned.target)
    verdict = fitted.diagnose(pinned.tokens, pinned.target)
    assert "position shortcut" in str(verdict) and verdict.position_share > 0.9
    shuffled = np.random.default_rng(1).permuted(np.arange(5)[None].repeat(150, 0), axis=1)
    mixed = np.take_along_axis(pinned.tokens, shuffled[..., None], axis=1)
    assert fitted.diagnose(mixed, pinned.target).single_location


def test_diagnosis_warns_of_swapped_roles(model):
    """The swapped stationary point, made by hand:
    its gate is the true value and its values are the true key.
    """
    scale = model.scaling_.scale
    plain = model.fitted_.features._replace(norm=False, constant=False)
    values = model.fitted_.values._replace(
        weights=(TASK.key * scale / 5)[:, None], bias=np.zeros(1)
    )
    swapped = clone(model).fit(X[:20], Y[:20])
    swapped.fitted_ = model.fitted_._replace(
        tokens=None, gate=3 * TASK.value * scale, features=plain, values=values
    )
    swapped.scaling_ = model.scaling_
    swapped.other_heads_ = []
    verdict = swapped.diagnose(TEST.tokens, TEST.target)
    assert (
        "Score and value look swapped" in str(verdict)
        and verdict.swapped_correlation > 0.9 > verdict.value_correlation
    )
    assert "swapped" not in str(model.diagnose(TEST.tokens, TEST.target))
