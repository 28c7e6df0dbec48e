"""Bad input: one sentence each, raised before any work;
2,400 random bad inputs give a sentence or a finite answer.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnscope as at

TASK = at.SingleLocation(dim=4, length=3)
ORACLE = at.Overlaps.oracle()
K, V = np.eye(4)[:2]
X = np.random.default_rng(0).standard_normal((2, 3, 4))

CASES = {
    "dim": (
        lambda: at.SingleLocation(1, 10),
        "dim of SingleLocation must be an integer >= 2, got 1",
    ),
    "dim float": (
        lambda: at.SingleLocation(4.0, 10),
        "dim of SingleLocation must be an integer",
    ),
    "length 0": (
        lambda: at.SingleLocation(4, 0),
        "length of SingleLocation must be an integer >= 1, got 0",
    ),
    "gamma": (
        lambda: at.SingleLocation(4, 3, gamma=0.0),
        "gamma of SingleLocation must be a finite number > 0, got 0.0",
    ),
    "gamma nan": (
        lambda: at.SingleLocation(4, 3, gamma=math.nan),
        "gamma of SingleLocation must be a finite number",
    ),
    "noise": (
        lambda: at.SingleLocation(4, 3, noise=-0.1),
        "noise of SingleLocation must be a finite number >= 0",
    ),
    "signal": (
        lambda: at.SingleLocation(4, 3, signal=math.inf),
        "signal of SingleLocation must be a finite number",
    ),
    "pmf sum": (
        lambda: at.SingleLocation(4, 3, location_probs=[0.5, 0.2, 0.2]),
        "must be probabilities that sum to 1, got sum 0.9",
    ),
    "pmf negative": (
        lambda: at.SingleLocation(4, 3, location_probs=[1.5, -0.5, 0.0]),
        "must be non-negative, got smallest entry -0.5",
    ),
    "pmf shape": (
        lambda: at.SingleLocation(4, 3, location_probs=[1.0]),
        r"a real array of shape \(3,\), got shape \(1,\)",
    ),
    "key norm": (
        lambda: at.SingleLocation(4, 3, key=[1.0, 1.0, 0.0, 0.0]),
        "key of SingleLocation must be a unit vector, got norm 1.41421",
    ),
    "key nan": (
        lambda: at.SingleLocation(4, 3, key=[math.nan, 0.0, 0.0, 0.0]),
        "key of SingleLocation must be finite",
    ),
    "seed": (
        lambda: at.SingleLocation(4, 3, seed=-1),
        "seed of SingleLocation must be an integer >= 0",
    ),
    "n": (
        lambda: TASK.sample(0),
        "n of SingleLocation.sample must be an integer >= 1, got 0",
    ),
    "dtype": (
        lambda: TASK.sample(2, dtype="float16"),
        "dtype of SingleLocation.sample must be 'float64' or 'float32'",
    ),
    "memory": (lambda: at.SingleLocation(10**8, 10**6).sample(10), "must fit in memory"),
    "batch size": (
        lambda: TASK.batches(5, 0),
        "batch_size of SingleLocation.batches must be an integer >= 1",
    ),
    "tokens shape": (
        lambda: TASK.location_posterior(X[:, :2]),
        r"tokens of SingleLocation.location_posterior must be a real array of shape \(\*, 3, 4\)",
    ),
    "tokens empty": (lambda: TASK.bayes_predict(X[:0]), "with at least one entry"),
    "tokens nan": (
        lambda: TASK.bayes_predict(np.where(X > 0, np.nan, X)),
        "tokens of SingleLocation.bayes_predict must be finite",
    ),
    "tokens float16": (
        lambda: at.predict(at.Erf(1.0), K, V, X.astype(np.float16)),
        "dtype float16",
    ),
    "tokens object": (
        lambda: at.predict(at.Erf(1.0), K, V, X.astype(object)),
        "dtype object",
    ),
    "tokens ragged": (
        lambda: at.predict(at.Erf(1.0), K, V, [[[1.0], [1.0, 2.0]]]),
        "tokens of predict must be a real array",
    ),
    "tokens complex": (lambda: at.predict(at.Erf(1.0), K, V, X + 0j), "dtype complex128"),
    "k shape": (
        lambda: at.predict(at.Erf(1.0), K[:3], V, X),
        r"k of predict must be a real array of shape \(4,\), got shape \(3,\)",
    ),
    "mask shape": (
        lambda: at.predict(at.Erf(1.0), K, V, X, np.ones((2, 2), bool)),
        "mask of predict must be a bool array",
    ),
    "mask empty row": (
        lambda: at.predict(at.Erf(1.0), K, V, X, np.array([[True] * 3, [False] * 3])),
        "no token in sequence 1",
    ),
    "predictor": (
        lambda: at.predict("erf", K, V, X),
        "predictor of predict must be a predictor",
    ),
    "schedule in predict": (
        lambda: at.predict(at.Erf(at.InverseTime(1.0, 1e-4)), K, V, X),
        "inverse_temperature of predict must be a number, got the schedule",
    ),
    "schedule in risk": (
        lambda: at.risk(TASK, at.Erf(at.InverseTime(1.0, 1e-4)), ORACLE),
        "inverse_temperature of risk must be a number",
    ),
    "inverse_temperature": (
        lambda: at.Erf(-0.1),
        "inverse_temperature of Erf must be a finite number >= 0, got -0.1",
    ),
    "inverse temperature nan": (
        lambda: at.Softmax(math.nan),
        "inverse_temperature of Softmax must be a finite number",
    ),
    "inverse temperature text": (
        lambda: at.Softmax("hot"),
        "inverse_temperature of Softmax must be a finite number >= 0, got 'hot'",
    ),
    "sigma": (
        lambda: at.Componentwise(3, 1.0),
        "sigma of Componentwise must be an elementwise function",
    ),
    "sigma shape": (
        lambda: at.risk(TASK, at.Componentwise(lambda x: x.sum(), 1.0), ORACLE),
        "sigma of Componentwise must be an elementwise function",
    ),
    "sigma fails": (
        lambda: at.risk(TASK, at.Componentwise(lambda x: x.nothing, 1.0), ORACLE),
        "sigma of Componentwise must be an elementwise",
    ),
    "kinks": (
        lambda: at.Componentwise(np.tanh, 1.0, kinks=(math.nan,)),
        "kinks of Componentwise must be finite",
    ),
    "overlaps": (
        lambda: at.risk(TASK, at.Erf(0.1), at.Overlaps(1.0, 0.5, 0.0, 1.0, 0.0)),
        "overlaps of risk must be those of unit vectors",
    ),
    "overlaps shape": (
        lambda: at.risk(TASK, at.Erf(0.1), at.Overlaps(np.zeros(2), np.zeros(3), 0, 0, 0)),
        "arrays that broadcast",
    ),
    "overlaps type": (
        lambda: at.risk(TASK, at.Erf(0.1), None),
        "overlaps of risk must be an Overlaps",
    ),
    "overlaps nan": (
        lambda: at.risk(TASK, at.Erf(0.1), ORACLE._replace(kappa=math.nan)),
        "kappa of risk must be finite",
    ),
    "low dimension": (
        lambda: at.risk(
            at.SingleLocation(2, 3), at.Erf(0.1), at.Overlaps(0.0, 0.0, 0.0, 0.0, 0.0)
        ),
        "vectors in dimension 2",
    ),
    "task": (
        lambda: at.risk("task", at.Erf(0.1), ORACLE),
        "task of risk must be a planted task",
    ),
    "method": (
        lambda: at.risk(TASK, at.Erf(0.1), ORACLE, method="guess"),
        "method of risk must be one of auto, exact, monte-carlo, quasi-monte-carlo, got 'guess'",
    ),
    "samples": (
        lambda: at.risk(TASK, at.Erf(0.1), ORACLE, method="monte-carlo", samples=1),
        "samples of risk must be an integer >= 2",
    ),
    "family": (
        lambda: at.optimal_inverse_temperature(TASK, 3),
        "family of optimal_inverse_temperature must be a predictor class",
    ),
    "Q": (
        lambda: at.FullAttention(np.eye(4)[0], np.eye(4), np.eye(4), np.eye(4), 1.0),
        "Q of FullAttention must be a real array",
    ),
    "O": (
        lambda: at.FullAttention(np.eye(4), np.eye(4), np.eye(4), np.ones((1, 3)), 1.0),
        "O of FullAttention must be a real array",
    ),
    "reduced": (
        lambda: at.FullAttention(*[np.eye(4)] * 4, 1.0).reduced(K),
        "O of FullAttention.reduced must be a matrix with one row",
    ),
    "float array": (
        lambda: float(at.risk(TASK, at.Erf(0.1), at.Overlaps(np.zeros(2), 0, 0, 0, 0))),
        "scalar estimate",
    ),
    "optimal sigma": (
        lambda: at.optimal_sigma(at.SingleLocation(2, 3, key=[1.0, 0], value=[0.6, 0.8])),
        "key perpendicular to value",
    ),
    "stationary": (
        lambda: at.stationary_points(at.LinearMap(2, 1, 1.0, 0.5), at.Erf(1.0)),
        "task of stationary_points must be",
    ),
    "inverse time": (
        lambda: at.InverseTime(0.0, 1e-4),
        "start of InverseTime must be a finite number > 0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_sentence(name):
    call, words = CASES[name]
    with pytest.raises(at.AttnscopeError, match=words) as caught:
        call()
    text = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in text and text.endswith(".") and len(text) < 400


ODD_NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(
        [
            0,
            -1,
            1,
            2,
            3,
            10**6,
            10**30,
            10**400,
            True,
            None,
            "x",
            b"x",
            1j,
            [],
            [1.0],
            (),
            {},
            object(),
            np.float16(1),
            np.array(2.0),
            np.nan,
        ]
    ),
    st.integers(-5, 12),
    st.floats(1e-3, 5),
)


def batch_like(dtype, fill=0):
    return np.full((2, 3, 4), fill, dtype)


WRONG_KIND = [None, 3.0, "tokens", {"a": 1}, [], [[]], [[[1.0, 2.0], [3.0]]]]
WRONG_DTYPE = [
    batch_like(np.float16),
    batch_like(object),
    batch_like(complex),
    batch_like("U3"),
]
WRONG_SIZE = [
    np.zeros((0, 3, 4)),
    np.zeros((2, 0, 4)),
    np.zeros((2, 3, 5)),
    np.zeros((3, 4)),
    np.zeros(3),
    np.ones(4),
]
WRONG_VALUE = [
    batch_like(float, np.nan),
    batch_like(float, 1e300),
    np.full(4, np.inf),
    np.zeros((2, 3), bool),
]
FINE = [
    X,
    X.astype(np.float32),
    batch_like(int),
    K,
    -V,
    np.array([0.2, 0.3, 0.5]),
    np.ones((2, 3), bool),
]
ODD_ARRAYS = st.sampled_from(WRONG_KIND + WRONG_DTYPE + WRONG_SIZE + WRONG_VALUE + FINE)


def outcome(call):
    """A sentence, or numbers that are all finite; anything else fails the test."""
    try:
        result = call()
    except at.AttnscopeError as error:
        sentence = str(error)
        result = math.nan if "\n" in sentence or len(sentence) < 20 else 0.0
    parts = (
        [result.value, result.error]
        if isinstance(result, at.Estimate)
        else result
        if isinstance(result, tuple)
        else [result]
    )
    for part in parts:
        if isinstance(part, at.Estimate):
            part = part.value
        assert np.isfinite(np.asarray(part, dtype=float)).all()


@settings(max_examples=600)
@given(st.lists(ODD_NUMBERS, min_size=5, max_size=5), ODD_ARRAYS, ODD_ARRAYS)
def test_any_task_is_refused_or_gives_finite_risks(numbers, probs, key):
    def call():
        dim, length, gamma, noise, signal = numbers
        task = at.SingleLocation(
            dim,
            length,
            gamma=gamma,
            noise=noise,
            signal=signal,
            location_probs=probs,
            key=key,
        )
        if task.dim * task.length > 10**6:
            return task.null_risk()
        return (
            task.null_risk(),
            task.linear_risk(),
            task.sample(2, seed=0).target,
            task.bayes_risk(),
        )

    outcome(call)


@settings(max_examples=600)
@given(
    st.sampled_from(["Erf", "Softmax", "LinearAttention", "Componentwise"]),
    ODD_NUMBERS,
    ODD_ARRAYS,
    ODD_ARRAYS,
    ODD_ARRAYS,
    ODD_ARRAYS,
)
def test_any_prediction_is_refused_or_finite(name, inverse_temperature, k, v, tokens, mask):
    def call():
        predictor = (
            at.Componentwise(np.tanh, inverse_temperature)
            if name == "Componentwise"
            else getattr(at, name)(inverse_temperature)
        )
        return (
            at.predict(predictor, k, v, tokens, mask),
            at.attention_weights(predictor, k, tokens),
        )

    outcome(call)


@settings(max_examples=700)
@given(
    st.sampled_from(["Erf", "Softmax", "LinearAttention", "Componentwise"]),
    ODD_NUMBERS,
    st.lists(ODD_NUMBERS, min_size=5, max_size=5),
    st.sampled_from(["exact", "monte-carlo", "gradient"]),
)
def test_any_risk_is_refused_or_finite(name, inverse_temperature, overlaps, what):
    def call():
        predictor = (
            at.Componentwise(np.tanh, inverse_temperature)
            if name == "Componentwise"
            else getattr(at, name)(inverse_temperature)
        )
        o = at.Overlaps(*overlaps)
        if what == "gradient":
            return tuple(at.risk_gradient(TASK, predictor, o))
        return at.risk(TASK, predictor, o, method=what, samples=50)

    outcome(call)


@settings(max_examples=500)
@given(
    st.sampled_from(["bayes_predict", "location_posterior", "sample", "batches"]),
    ODD_ARRAYS,
    ODD_NUMBERS,
    ODD_NUMBERS,
)
def test_any_call_of_the_task_is_refused_or_finite(method, array, first, second):
    def call():
        if method in ("bayes_predict", "location_posterior"):
            return getattr(TASK, method)(array)
        if method == "sample":
            return TASK.sample(first, seed=second).tokens
        return next(iter(TASK.batches(first, second))).tokens

    # legal, finite, and 100 MB
    if not (isinstance(first, int) and first == 10**6 and isinstance(second, int)):
        outcome(call)


@settings(max_examples=200)
@given(
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
    st.floats(0, 1e4),
    st.integers(2, 10**6),
    st.integers(1, 10**6),
)
def test_wide_parameters_give_finite_erf_numbers(
    inverse_temperature, gamma, signal, dim, length
):
    task = at.SingleLocation(dim, length, gamma=gamma, signal=signal)
    for o in (ORACLE, at.Overlaps(0.0, 1.0, 1.0, 0.0, 0.0)):
        outcome(
            lambda o=o: (
                at.risk(task, at.Erf(inverse_temperature), o),
                *at.risk_gradient(task, at.Erf(inverse_temperature), o),
            )
        )
