"""Fits in chosen directions: the choice, what is kept of it, budgets of time, and refusals.

Second routes: the same estimator on principal components made by scikit-learn; the plan's sizes
from their definition. Seeds were fixed before looking.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import SIX_DIGITS, SOLVED
from sklearn.decomposition import PCA

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.fit import clock, widths
from attnscope.estimators.fit.clock import Clock, em_work

D = 80
QUICK = {"n_starts": 3, "alpha": (np.inf, 1.0)}


def planted(seed, n=60, length=8, key=5.0, d=D):
    """Token variances 1/i along rotated axes; whitened key and values fall as 1/i."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    fall = np.arange(1, d + 1)
    u, w = (x / np.linalg.norm(x) for x in rng.standard_normal((2, d)) / fall)
    z = rng.standard_normal((n, length, d))
    where = rng.integers(0, length, n)
    rows = np.arange(n)
    y = z[rows, where] @ w + 0.1 * rng.standard_normal(n)
    z[rows, where] += key * u
    return (z / np.sqrt(fall)) @ turn.T, y, where


@pytest.fixture(scope="module")
def bags():
    return planted(0)


def test_directions_are_principal_components(bags):
    """components=k is the same fit on k standardised components of standardised tokens."""
    x, y, where = bags
    model = at.SingleLocationRegressor(components=6, **QUICK).fit(x, y)
    flat = x.reshape(-1, D)
    z = (flat - flat.mean(0)) / flat.std(0)
    # signs of components are free, and so is nothing else
    t = PCA(6, svd_solver="full").fit_transform(z).reshape(60, 8, 6)
    peer = at.SingleLocationRegressor(components=None, **QUICK).fit(t, y)
    assert (model.components_, peer.components_) == (6, None)
    assert np.mean(model.locate(x) == where) > 0.9
    # the caller's zero lies elsewhere in t (centred), so only the prediction's pattern is the same
    assert np.corrcoef(model.predict(x), peer.predict(t))[0, 1] > 0.99
    assert model.fitted_.values.weights.shape == (D, 1)
    assert model.attention(x).shape == (60, 8)
    assert model.predict_interval(x).shape == (60, 2)


def test_a_saved_model_answers_alike(bags, tmp_path):
    x, y, _ = bags
    model = at.SingleLocationRegressor(components=6, n_starts=3).fit(x, y)
    model.save(tmp_path / "m.npz")
    back = at.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.predict(x), model.predict(x))
    np.testing.assert_array_equal(back.locate(x, y), model.locate(x, y))
    assert back.components_ == 6 and back.component_losses_ == model.component_losses_
    assert back.get_params() == model.get_params()


@pytest.mark.parametrize("components", [None, D, 1000])
def test_all_features_are_the_whole_space(bags, components):
    x, y, _ = bags
    model = at.SingleLocationRegressor(components=components, **QUICK).fit(x, y)
    assert model.components_ is None and model.component_losses_ == {}
    assert model.fitted_.tokens.whiten.shape == (D, D)


def test_few_features_leave_no_choice(bags):
    """Up to 64 features "auto" is the whole space, to the last bit."""
    x, y, _ = bags
    some = x[:, :, :10]
    auto, whole = (
        at.SingleLocationRegressor(components=c, **QUICK).fit(some, y) for c in ("auto", None)
    )
    np.testing.assert_array_equal(auto.predict(some), whole.predict(some))


def test_the_choice_is_by_held_out_loss_and_said(bags, capsys, monkeypatch):
    """Without the whole space: the size of the least loss; what was tried is kept and printed."""
    x, y, _ = bags
    monkeypatch.setattr(widths, "MAX_EM_WORK", em_work(480, 40))
    model = at.SingleLocationRegressor(verbose=True, **QUICK).fit(x, y)
    losses = model.component_losses_
    assert set(losses) == {"16", "32"}
    assert str(model.components_) == min(losses, key=losses.get)
    said = capsys.readouterr().out
    assert (
        f"components: {model.components_}" in said and "32 directions: held-out loss" in said
    )
    monkeypatch.setattr(widths, "MAX_EM_WORK", em_work(480, D))
    model = at.SingleLocationRegressor(**QUICK).fit(x, y)
    assert set(model.component_losses_) == {"16", "32", "whole"}


def test_sizes():
    assert widths.sizes("auto", 300, 15_000, 384, 2) == (16, 32, 64, 128)
    assert widths.sizes("auto", 1000, 100_000, 384, 2) == (16, 32, 64)
    assert widths.sizes("auto", 50, 2000, 5000, 2) == (16, 32)
    assert widths.sizes("auto", 5000, 20_000, 300, 2) == (16, 32, 64, 128)
    assert widths.sizes("auto", 300, 15_000, 384, 1) == (16, 32, 64, 128, 256)
    assert widths.sizes("auto", 9, 20, 100, 2) == (16,)
    assert widths.sizes(7, 9, 20, 100, 2) == (7,)


def test_directions_that_say_little_cost_little():
    """64 directions instead of 16, 160 bags: values fall as 1/i, and the ridge expects that of
    narrow directions (with directions of unit variance the error rose, from .040 to .043)."""
    x, y, _ = planted(3, n=1160)
    seen, new = slice(0, 160), slice(160, None)
    errors = []
    for k in (16, 64):
        model = at.SingleLocationRegressor(components=k, n_starts=3).fit(x[seen], y[seen])
        errors.append(np.mean((model.predict(x[new]) - y[new]) ** 2))
    assert errors[1] < errors[0]


@pytest.mark.parametrize("whole", [True, False])
def test_richer_models_are_sought_in_more_directions(bags, monkeypatch, whole, capsys):
    """Where EM leaves what they may explain: in whole tokens if that fits, else in as many
    directions as there are bags."""
    x, y, where = bags
    monkeypatch.setattr(widths, "MAX_EM_WORK", em_work(480, 40))  # EM alone may not go so far
    monkeypatch.setattr(widths, "MAX_RICHER_WORK", em_work(480, D if whole else 40))
    monkeypatch.setattr(
        widths,
        "sizes",
        lambda *given: (8, 32) if given[-1] == widths.BAGS_PER_RICHER_DIRECTION else (8, 16),
    )
    monkeypatch.setattr(widths, "may_gain_from_richer", lambda *_: True)
    model = at.SingleLocationRegressor(verbose=True, **QUICK).fit(x, y)
    assert model.components_ == (None if whole else 32)
    said = "whole tokens" if whole else "32 directions"
    assert f"richer models may help: they are sought in {said}" in capsys.readouterr().out
    assert np.mean(model.locate(x) == where) > 0.9


def test_a_model_that_is_not_widened_keeps_its_directions(bags, monkeypatch):
    """More directions are another draw of them, here of other signs: a model that is kept in the few
    it was found in answers as if the others had never been asked for."""
    x, y, _ = bags
    real = widths.RawBags.directions
    preferred = widths._is_preferred

    def turned(raw, k, seed):
        space = real(raw, k, seed)
        return space._replace(basis=-space.basis, back=-space.back) if k == 32 else space

    monkeypatch.setattr(widths, "MAX_EM_WORK", em_work(480, 40))
    monkeypatch.setattr(widths, "MAX_RICHER_WORK", em_work(480, 40))
    monkeypatch.setattr(
        widths,
        "sizes",
        lambda *given: (8, 32) if given[-1] == widths.BAGS_PER_RICHER_DIRECTION else (8, 16),
    )
    monkeypatch.setattr(widths.RawBags, "directions", turned)
    monkeypatch.setattr(
        widths, "_is_preferred", lambda a, b, whole: not whole and preferred(a, b, whole)
    )
    answers = []
    for asked in (False, True):
        monkeypatch.setattr(widths, "may_gain_from_richer", lambda *_, asked=asked: asked)
        answers.append(at.SingleLocationRegressor(**QUICK).fit(x, y).predict(x))
    np.testing.assert_array_equal(*answers)


def test_a_weak_key_is_believed_only_if_a_free_gate_tells_no_more(capsys):
    """Digits of which the largest readout decides, beside quiet noise: EM foresees its error and lays
    it to doubt, since it takes the deciding image for a kind of token (NMSE .25 with EM alone)."""
    drawn = at.digit_bags(900, "max", seed=12, readout_seed=2)
    rng = np.random.default_rng([2, 77])
    turn = np.linalg.qr(rng.standard_normal((128, 128)))[0]
    noise = 0.3 * drawn.tokens.std() * rng.standard_normal((*drawn.tokens.shape[:2], 64))
    x = np.concatenate([drawn.tokens, noise], axis=2) @ turn
    y = drawn.target
    train, test = slice(0, 400), slice(400, None)
    model = at.SingleLocationRegressor(verbose=True, random_state=2).fit(x[train], y[train])
    said = capsys.readouterr().out
    assert "richer models may help" not in said
    # on two folds, before anything else
    assert said.index("free: held-out loss lower by") < said.index(
        "gate: held-out loss lower by"
    )
    assert np.mean((model.predict(x[test]) - y[test]) ** 2) < 0.1 * np.var(y[test])


def test_a_hope_that_further_folds_do_not_share_ends_there(bags, monkeypatch, capsys):
    """Pure noise, of which the first fold thought that something is there: EM is not run on."""
    x, _, _ = bags
    noise = np.random.default_rng([5, 9]).standard_normal(60)
    real = widths.promising_starts
    monkeypatch.setattr(widths, "promising_starts", lambda *a: (True, real(*a)[1]))
    model = at.SingleLocationRegressor(verbose=True, n_starts=3).fit(x, noise)
    assert "16 directions: no start explains anything" in capsys.readouterr().out
    assert "16" not in model.component_losses_


def test_bags_of_weight_zero_take_no_part(bags):
    x, y, _ = bags
    weight = np.ones(60)
    weight[::7] = 0
    kept = weight > 0
    spoilt = np.where(kept, y, 50.0)
    a = at.SingleLocationRegressor(components=6, **QUICK).fit(x, spoilt, weight)
    b = at.SingleLocationRegressor(components=6, **QUICK).fit(x[kept], y[kept])
    np.testing.assert_allclose(a.predict(x), b.predict(x), rtol=SIX_DIGITS)


def test_classes_and_heads(bags):
    x, y, _ = bags
    model = at.SingleLocationClassifier(components=6, **QUICK).fit(x, y > 0)
    assert model.components_ == 6 and model.score(x, y > 0) > 0.7
    two = at.SingleLocationRegressor(components=6, heads=2, n_starts=2).fit(x, y)
    assert two.locate(x).shape == (60, 2) and two.components_ == 6


def test_answers_in_pieces_are_the_same(bags, monkeypatch):
    x, y, _ = bags
    model = at.SingleLocationRegressor(components=6, **QUICK).fit(x, y)
    whole = model.predict_interval(x), model.attention(x)
    monkeypatch.setattr("attnscope.estimators.base.PIECE_BYTES", 8 * D * 20)
    np.testing.assert_allclose(model.predict_interval(x), whole[0], rtol=SOLVED)
    np.testing.assert_allclose(model.attention(x), whole[1], rtol=SOLVED)


# -- time ------------------------------------------------------------------------------------------


class Ticking:
    """Every look at the time is a second later."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1
        return self.now


@pytest.mark.parametrize("limit", [3.0, 20.0, 40.0])
def test_out_of_time_the_best_so_far_is_kept(bags, monkeypatch, limit, capsys):
    """Whatever it was, its held-out losses are those of what predicts."""
    x, y, _ = bags
    monkeypatch.setattr(clock, "time", Ticking())
    model = at.SingleLocationRegressor(max_seconds=limit, n_starts=3, verbose=True).fit(x, y)
    assert "max_seconds: the best so far is kept" in capsys.readouterr().out
    assert np.isfinite(model.predict(x)).all() and np.isfinite(model.cv_losses_).all()
    assert model.predict_interval(x).shape == (60, 2)
    if limit == 3.0:  # before any token was sought: the mean token
        assert model.stages_ == ["mean"] and model.mean_share_ == 1
        np.testing.assert_array_equal(model.cv_losses_, model.cv_mean_pool_losses_)
        np.testing.assert_allclose(model.attention(x), 1 / 8)


def test_a_long_limit_changes_nothing(bags):
    x, y, _ = bags
    a, b = (
        at.SingleLocationRegressor(components=6, max_seconds=s, **QUICK).fit(x, y)
        for s in (None, 1e6)
    )
    np.testing.assert_array_equal(a.predict(x), b.predict(x))


def test_a_clock_expects_what_it_measures(monkeypatch):
    monkeypatch.setattr(clock, "time", Ticking())
    said = []
    shown = []
    watch = Clock(None, said.append, lambda stage, done: shown.append((stage, done)))
    watch.plan(100.0)
    watch.stage("first", 25.0)
    watch.stage("second", 75.0)
    # a quarter is done: four times what has passed
    assert said[-1].startswith("[") and "second" in said[-1]
    assert shown == [("first", 0.0), ("second", 0.25)]
    assert not watch.over


def test_where_nothing_can_be_found_little_is_tried(capsys):
    """Labels that no token decides, four seeds: richer models are tried for at most one (a fresh
    start gains two standard errors by chance in less than a tenth: false alarm below 5 %)."""
    tried = 0
    for seed in range(4):
        x, _, _ = planted(seed, n=100)
        noise = np.random.default_rng([seed, 9]).standard_normal(100)
        at.SingleLocationRegressor(components=16, verbose=True, n_starts=3).fit(x, noise)
        tried += "waves" in capsys.readouterr().out
    assert tried <= 1


def test_where_no_token_is_found_the_mean_may_answer():
    """The class shows in every token a little: the mean token tells it, no single one does."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 2, 80)
    x = rng.standard_normal((80, 40, D))
    x[:, :, 0] += 0.4 * (2 * y[:, None] - 1)
    model = at.SingleLocationClassifier(components=16, n_starts=3).fit(x, y)
    # hardly anything is the deciding token's; what is left is read from the mean of one feature,
    # which trees on whole bags find as well as the model of the mean token does
    assert model._mean_share > 0.9 and model.mean_share_ + model.forest_share_ > 0.8
    premium = model.cv_losses_.mean() - model.cv_mean_pool_losses_.mean()
    assert premium < 2 * np.log(80) / 80
    assert model.score(x, y) > 0.9


REFUSED = [
    ({"components": 0}, '"auto", None or an integer >= 1, got 0'),
    ({"components": "all"}, '"auto", None or an integer >= 1'),
    ({"components": True}, '"auto", None or an integer >= 1, got True'),
    ({"components": 2.5}, '"auto", None or an integer >= 1, got 2.5'),
    (
        {"max_seconds": 0},
        "max_seconds of SingleLocationRegressor.fit must be a finite number > 0",
    ),
    ({"max_seconds": "1"}, "must be a finite number > 0"),
    ({"max_seconds": np.nan}, "must be a finite number > 0"),
    ({"max_seconds": 1.0, "heads": 2}, "None with several heads"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_refusals(bags, given, said):
    with pytest.raises(AttnscopeError) as error:
        at.SingleLocationRegressor(**given).fit(bags[0], bags[1])
    assert said in str(error.value)
