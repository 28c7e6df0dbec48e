"""MultiLocation and its relatives: bad arguments, each one sentence, and any others finite or refused."""

import numpy as np
import pytest
from helpers.settings import one_sentence
from hypothesis import given, settings
from hypothesis import strategies as st

import attnscope as at

ORACLE = at.Overlaps.oracle()


BAD = {
    "relevant 0": (
        lambda: at.MultiLocation(4, 3, 0),
        "relevant of MultiLocation must be an integer >= 1",
    ),
    "relevant 4": (
        lambda: at.MultiLocation(4, 3, 4),
        "relevant of MultiLocation must be an integer >= 1 and <= 3",
    ),
    "relevant 1.5": (
        lambda: at.MultiLocation(4, 3, 1.5),
        r"relevant .* a probability in \(0, 1\)",
    ),
    "relevant text": (
        lambda: at.MultiLocation(4, 3, "two"),
        "relevant of MultiLocation must be an integer",
    ),
    "relevant pmf": (lambda: at.MultiLocation(4, 3, [0.5, 0.5]), r"relevant .* shape \(4,\)"),
    "relevant ragged": (
        lambda: at.MultiLocation(4, 3, [[1.0], [1.0, 2.0]]),
        "relevant of MultiLocation must be",
    ),
    "relevant none": (
        lambda: at.MultiLocation(4, 3, None),
        "relevant of MultiLocation must be an integer",
    ),
    "weights array": (
        lambda: at.MultiLocation(4, 3, weights=np.ones(3)),
        "weights of MultiLocation must be one of",
    ),
    "weights": (
        lambda: at.MultiLocation(4, 3, weights="mean"),
        "weights of MultiLocation must be one of",
    ),
    "concentration": (
        lambda: at.MultiLocation(4, 3, concentration=0.0),
        "concentration of MultiLocation must be",
    ),
    "oblique": (
        lambda: at.MultiLocation(2, 3, key=[1.0, 0.0], value=[0.6, 0.8]),
        "value of MultiLocation must be perpendicular to key, got key.value = 0.6",
    ),
    "gamma": (
        lambda: at.MultiLocation(4, 3, gamma=0.0),
        "gamma of MultiLocation must be a finite number > 0",
    ),
    "tokens": (
        lambda: at.MultiLocation(4, 3).posterior(np.zeros((2, 4, 4))),
        "tokens of MultiLocation.posterior",
    ),
    "samples": (
        lambda: at.MultiLocation(4, 3).bayes_risk(samples=1),
        "samples of MultiLocation.bayes_risk",
    ),
    "overlaps": (
        lambda: at.risk(
            at.MultiLocation(4, 3),
            at.Softmax(1.0),
            at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0),
            "exact",
        ),
        r"overlaps or task of the exact risk on MultiLocation must be Overlaps.oracle\(\), got "
        r"kappa=0.5",
    ),
    "array overlaps": (
        lambda: at.risk(
            at.MultiLocation(4, 3),
            at.Softmax(1.0),
            at.Overlaps(np.ones(2), 0.0, 0.0, 1.0, 0.0),
            "exact",
        ),
        r"must be Overlaps.oracle\(\), got overlaps of shape \(2,\)",
    ),
    "predictor": (
        lambda: at.head_risk(at.MultiLocation(4, 3), 3),
        "predictor of head_risk must be",
    ),
    "task": (
        lambda: at.head_risk(at.SingleLocation(4, 3), at.Erf(1.0)),
        "task of head_risk must be",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence(name):
    call, words = BAD[name]
    one_sentence(call, words)


ODD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(
        [
            0,
            -1,
            2,
            3,
            10**400,
            True,
            None,
            "x",
            1j,
            [],
            [0.5, 0.5],
            {},
            np.array(2.0),
            np.float16(1),
            [[1], [2, 3]],
        ]
    ),
    st.integers(1, 6),
    st.floats(1e-3, 5),
)


@settings(max_examples=100)
@given(
    st.lists(ODD, min_size=5, max_size=5), st.sampled_from(["equal", "sum", "dirichlet", 3])
)
def test_any_task_is_refused_or_gives_finite_numbers(odd, weights):
    relevant, concentration, gamma, noise, signal = odd

    def multi():
        task = at.MultiLocation(3, 4, relevant, weights, concentration, gamma, noise, signal)
        batch = task.sample(3, seed=0)
        bayes = task.bayes_risk(samples=20)
        return [
            task.null_risk().value,
            task.linear_risk().value,
            bayes.value,
            bayes.error,
            *task.bayes_predict(batch.tokens),
        ]

    def largest():
        task = at.MaxLocation(3, 4, signal, noise)
        return [
            task.bayes_risk().value,
            task.linear_attention_risk().value,
            *task.sample(3).target,
        ]

    for call in (
        multi,
        largest,
        lambda: at.RandomLength(at.SingleLocation(3, 2), relevant).probs,
    ):
        assert finite_or_sentence(call)


def finite_or_sentence(call):
    try:
        return np.isfinite(np.asarray(call(), dtype=float)).all()
    except at.AttnscopeError as error:
        return "\n" not in str(error) and len(str(error)) > 20
