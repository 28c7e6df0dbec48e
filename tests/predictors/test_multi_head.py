"""Several heads as predictors: sums of single ones, the joint softmax by hand, refusals."""

import numpy as np
import pytest
from helpers.several_heads import SMALL
from helpers.tolerances import EXACT
from scipy.special import softmax

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.theory.risks.multi_head_risk import heads_risk


@pytest.mark.parametrize("head", [at.Softmax(0.9), at.SoftmaxOne(0.9), at.Erf(0.4)], ids=repr)
def test_heads_are_sums_of_single_predictors(head):
    rng = np.random.default_rng(0)
    K, V = rng.standard_normal((2, 3, 5))
    tokens = rng.standard_normal((7, 6, 5))
    mask = rng.random((7, 6)) < 0.7
    mask[:, 0] = True
    tokens[~mask] = np.nan
    several = at.MultiHead(head, 3)
    T = sum(at.predict(head, k, v, tokens, mask) for k, v in zip(K, V))
    np.testing.assert_allclose(at.predict(several, K, V, tokens, mask), T, rtol=EXACT)
    weights = at.attention_weights(several, K, tokens, mask)
    np.testing.assert_allclose(
        weights,
        np.stack([at.attention_weights(head, k, tokens, mask) for k in K], 1),
        rtol=EXACT,
    )


def test_joint_softmax_by_hand():
    rng = np.random.default_rng(1)
    K, V = rng.standard_normal((2, 2, 4))
    tokens = rng.standard_normal((3, 5, 4))
    bias = np.array([0.3, -1.0])
    p = at.BayesSoftmax(0.7, bias, curvature=0.4)
    for x, got, T in zip(
        tokens, at.attention_weights(p, K, tokens), at.predict(p, K, V, tokens)
    ):
        scores = np.array(
            [[0.7 * k @ t + b - 0.2 * t @ t for t in x] for k, b in zip(K, bias)]
        )
        want = softmax(scores)
        np.testing.assert_allclose(got, want, rtol=EXACT)
        assert (
            pytest.approx(
                sum(want[h, l] * (x[l] @ V[h]) for h in range(2) for l in range(5)), rel=EXACT
            )
            == T
        )
    mask = np.array([[True, True, False, True, False]] * 3)
    weights = at.attention_weights(p, K, tokens, mask)
    assert not weights[:, :, ~mask[0]].any() and np.allclose(weights.sum((1, 2)), 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: at.MultiHead("softmax"), "head of MultiHead"),
        (lambda: at.MultiHead(at.Erf(1.0), 0), "heads of MultiHead"),
        (lambda: at.BayesSoftmax(1.0, bias=[]), "bias of BayesSoftmax"),
        (lambda: at.BayesSoftmax(-1.0), "inverse_temperature of BayesSoftmax"),
        (
            lambda: at.predict(
                at.MultiHead(at.Erf(1.0)), np.eye(3), np.eye(3), np.zeros((1, 2, 3))
            ),
            "K of predict",
        ),
        (lambda: heads_risk(SMALL, at.Erf(1.0), np.eye(8)), "predictor of heads_risk"),
        (
            lambda: heads_risk(SMALL, at.MultiHead(at.Erf(1.0)), np.eye(7)),
            "heads of heads_risk",
        ),
        (
            lambda: heads_risk(SMALL, at.MultiHead(at.Erf(1.0)), 2 * np.eye(8)),
            "the task's own teachers",
        ),
        (
            lambda: heads_risk(
                SMALL, at.MultiHead(at.Erf(at.InverseTime(1.0, 1.0))), np.eye(8)
            ),
            "inverse_temperature of heads_risk",
        ),
    ],
)
def test_bad_heads_get_one_sentence(make, words):
    with pytest.raises(AttnscopeError, match=words):
        make()
