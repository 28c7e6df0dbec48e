"""Fits on data that linear algebra does not like: a model with finite answers, or one sentence of
ours.

Extreme tokens, constant and repeated features, more features than bags, labels without spread,
weights of all sizes. `TINY` data sets are drawn from seeds; nothing here is compared with a sample,
so there is no false alarm.
"""

import warnings

import numpy as np
import pytest
from helpers.tolerances import SIX_DIGITS

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.fit.em import whitening

TINY = 24  # data sets; 300 more were run by hand with the same function and other seeds
FIRST = 10  # of them in `make test`


def answers(model, bags):
    """Everything a fitted model says of these bags, by name."""
    out = {
        "predict": model.predict(bags),
        "attention": model.attention(bags),
        "locate": model.locate(bags),
    }
    if hasattr(model, "predict_proba"):
        out["predict_proba"] = model.predict_proba(bags)
    else:
        # half: what two bags reach
        out["predict_interval"] = model.predict_interval(bags, coverage=0.5)
    return out


def check(model, bags):
    for name, values in answers(model, bags).items():
        assert not np.isnan(np.asarray(values, dtype=float)).any(), name
        assert (
            name == "predict_interval" or np.isfinite(np.asarray(values, dtype=float)).all()
        ), name


@pytest.fixture(scope="module")
def plain():
    return at.SingleLocation(8, 6, signal=4.0, noise=0.2, seed=1).sample(200, seed=1)


EXTREME = [
    pytest.param(
        size,
        robust,
        marks=[] if (size, robust) in ((1e10, "auto"), (1e49, True)) else pytest.mark.slow,
    )
    for robust in ("auto", True)
    for size in (1e6, 1e10, 1e25, 1e49)
]


@pytest.mark.parametrize(("size", "robust"), EXTREME)
def test_one_extreme_token_is_a_model_or_a_sentence(plain, size, robust):
    tokens = plain.tokens.copy()
    tokens[3] = size
    model = at.SingleLocationRegressor(robust=robust, n_starts=2)
    with pytest.warns(
        UserWarning,
        match=(
            r"SingleLocationRegressor.fit: in one feature the farthest token is .*; try to drop "
            r"or clip"
        ),
    ):
        model.fit(tokens, plain.target)
    check(model, tokens)
    check(model, plain.tokens)


@pytest.mark.parametrize("size", [pytest.param(1e10, marks=pytest.mark.slow), 1e49])
def test_one_extreme_token_among_classes(plain, size):
    tokens = plain.tokens.copy()
    tokens[3, 2] = size
    with pytest.warns(UserWarning, match="the farthest token"):
        model = at.SingleLocationClassifier(n_starts=2).fit(tokens, plain.target > 0)
    check(model, tokens)


def test_ordinary_tokens_give_no_warning(plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at.SingleLocationRegressor(n_starts=2).fit(plain.tokens, plain.target)


WRONG = (
    "an extreme bag",
    "an extreme token",
    "constant tokens",
    "equal features",
    "a tiny feature",
    "tiny tokens",
    "equal bags",
    "far from zero",
    "equal labels",
    "an extreme label",
    "tiny labels",
)


def spoil(x, y, wrong, rng):
    """Do one of these to the tokens (n, L, d) or the labels (n,), in place."""
    big = 10.0 ** rng.uniform(3, 48)
    if wrong == "an extreme bag":
        x[0] = big
    elif wrong == "an extreme token":
        x[0, 0] = big * rng.normal(size=x.shape[2])
    elif wrong == "constant tokens":
        x[:] = 1.0
    elif wrong == "equal features":
        x[:] = x[..., :1].copy()
    elif wrong == "a tiny feature":
        x[..., 0] *= 1e-300
    elif wrong == "tiny tokens":
        x *= 1e-200
    elif wrong == "equal bags":
        x[:] = x[:1].copy()
    elif wrong == "far from zero":
        x += big
    elif wrong == "equal labels":
        y[:] = 3.0
    elif wrong == "an extreme label":
        y[0] = big
    else:
        y *= 1e-250


def drawn(seed):
    """A small data set with one to three things wrong with it, and a model's parameters."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 6, 20]))
    d = int(rng.choice([1, 2, 6, 25]))
    length = int(rng.choice([1, 2, 5]))
    x = rng.normal(size=(n, length, d))
    y = x[:, 0, 0] + 0.1 * rng.normal(size=n)
    for wrong in rng.choice(WRONG, size=rng.integers(1, 4)):
        spoil(x, y, wrong, rng)
    x = np.clip(x, -9e49, 9e49)
    options = {"n_starts": 2, "robust": bool(rng.random() < 0.3)}
    if rng.random() < 0.3:
        options["alpha"] = float(rng.choice([0, 1e-300, 1.0]))
    if rng.random() < 0.4:
        options["loss"] = str(rng.choice(["mixture", "attention"]))
    return x, y, options


@pytest.mark.parametrize(
    "seed",
    [*range(FIRST), *(pytest.param(i, marks=pytest.mark.slow) for i in range(FIRST, TINY))],
)
def test_nasty_data_is_a_model_with_finite_answers_or_a_sentence(seed):
    x, y, options = drawn(seed)
    kind = at.SingleLocationClassifier if seed % 3 == 0 else at.SingleLocationRegressor
    y = np.arange(len(y)) % 2 if kind is at.SingleLocationClassifier else y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*the farthest token")
        try:
            model = kind(**options).fit(x, y)
        except AttnscopeError:  # a sentence of ours; any other exception fails the test
            return
    check(model, x)
    check(model, np.clip(1e20 * x, -9e49, 9e49))


def test_labels_that_are_explained_without_rest_end_the_search():
    """Held-out loss exactly zero: the noise of the loss was lowered for ever."""
    rng = np.random.default_rng(0)
    model = at.SingleLocationRegressor(loss="attention", n_starts=2).fit(
        rng.normal(size=(6, 2, 3)), np.full(6, 3.0)
    )
    np.testing.assert_allclose(model.predict(rng.normal(size=(4, 2, 3))), 3.0)


def test_batches_of_nasty_data_are_a_model_or_a_sentence(plain):
    tokens = plain.tokens.copy()
    tokens[3] = 1e10
    model = at.SingleLocationRegressor(n_starts=2)
    model.fit_batches(
        [(tokens[:100], plain.target[:100]), (tokens[100:], plain.target[100:])], passes=4
    )
    assert np.isfinite(model.predict(tokens)).all()


def test_whitening_of_an_indefinite_matrix():
    """What rounding leaves of a difference of sums:
    the nearest definite matrix is whitened, the rest as before.
    """
    rng = np.random.default_rng(1)
    a = rng.normal(size=(5, 5))
    vectors, _ = np.linalg.qr(a)
    indefinite = (vectors * np.array([1.0, 1e-3, 1e-17, -1e-17, -0.5])) @ vectors.T
    w = whitening(indefinite, 1e9)
    assert np.isfinite(w).all() and np.allclose(w, np.triu(w))
    definite = a @ a.T + np.eye(5)
    w = whitening(definite, 1e12)  # next to no shrinkage
    np.testing.assert_allclose(w @ w.T @ definite, np.eye(5), atol=SIX_DIGITS)
