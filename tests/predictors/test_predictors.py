"""The rungs from a full attention layer to the predictors, masks, weights, dtypes."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.tolerances import EXACT, FORMULA
from scipy.special import erf

import attnscope as at

RNG = np.random.default_rng(0)
D = 6
L = 5
P = 3
N = 4
X = RNG.standard_normal((N, L, D))
MASK = np.array(
    [
        [True] * 5,
        [True, True, False, False, False],
        [False, True, True, True, True],
        [True, False, True, False, True],
    ]
)
Q, K, V = RNG.standard_normal((3, D, P))
O = RNG.standard_normal((2, P))
CLS = RNG.standard_normal(D)


def naive_rows(X, Q, K, V, O, lam):
    out = np.empty((len(X), X.shape[1], len(O)))
    for n, x in enumerate(X):
        for i in range(len(x)):
            e = np.array([np.exp(lam * (x[i] @ Q) @ (x[j] @ K)) for j in range(len(x))])
            out[n, i] = sum(e[j] / e.sum() * (O @ (V.T @ x[j])) for j in range(len(x)))
    return out


def test_full_layer_equals_its_definition():
    layer = at.FullAttention(Q, K, V, O, inverse_temperature=0.3)
    np.testing.assert_allclose(layer.rows(X), naive_rows(X, Q, K, V, O, 0.3), rtol=EXACT)


def test_cls_row_is_a_row_of_the_full_layer():
    """[CLS; X] through the layer, the [CLS] row attending to X alone:
    as masking the [CLS] key in the full layer.
    """
    layer = at.FullAttention(Q, K, V, O, inverse_temperature=0.3)
    with_cls = np.concatenate([np.broadcast_to(CLS, (N, 1, D)), X], axis=1)
    scores = 0.3 * np.einsum("nid,dp,ep,nje->nij", with_cls, Q, K, with_cls)[:, 0, 1:]
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    expected = np.einsum("nl,nld,dp,op->no", weights, X, V, O)
    np.testing.assert_allclose(layer.cls_row(X, CLS), expected, rtol=EXACT)
    # and the token's own row of the layer is the cls_row of that token
    np.testing.assert_allclose(
        layer.cls_row(X[:1], X[0, 2]), layer.rows(X[:1])[:, 2], rtol=EXACT
    )


@pytest.mark.parametrize("inner", [1, 3])
def test_one_output_reduces_to_softmax_attention(inner):
    layer = at.FullAttention(
        Q[:, :inner], K[:, :inner], V[:, :inner], O[:1, :inner], inverse_temperature=0.7
    )
    softmax, k, v = layer.reduced(CLS)
    np.testing.assert_allclose(
        at.predict(softmax, k, v, X), layer.cls_row(X, CLS)[:, 0], rtol=EXACT, atol=EXACT
    )
    np.testing.assert_allclose(
        at.predict(softmax, k, v, X, MASK),
        layer.cls_row(X, CLS, MASK)[:, 0],
        rtol=EXACT,
        atol=EXACT,
    )


def test_predictors_equal_their_definitions():
    k, v = RNG.standard_normal((2, D))
    u = X @ k
    w = X @ v
    e = np.exp(0.7 * u)
    cases = {
        at.Softmax(0.7): e / e.sum(1, keepdims=True),
        at.Erf(0.7): erf(0.7 * u),
        at.LinearAttention(0.7, offset=0.2): 0.2 + 0.7 * u,
        at.Componentwise(jnp.tanh, 0.7): np.tanh(0.7 * u),
        at.Componentwise(np.tanh, 0.7): np.tanh(0.7 * u),
    }
    for predictor, weights in cases.items():
        np.testing.assert_allclose(at.attention_weights(predictor, k, X), weights, rtol=EXACT)
        np.testing.assert_allclose(
            at.predict(predictor, k, v, X), np.sum(weights * w, 1), rtol=EXACT, atol=FORMULA
        )


@pytest.mark.parametrize(
    "predictor",
    [
        at.Softmax(1.1),
        at.Erf(1.1),
        at.LinearAttention(0.4, 1.0),
        at.Componentwise(jnp.tanh, 1.0),
    ],
)
def test_mask_means_shorter_sequence(predictor):
    """A masked sequence gives the prediction of the sequence without the masked tokens,
    NaN padding included.
    """
    k, v = RNG.standard_normal((2, D))
    padded = np.where(MASK[:, :, None], X, np.nan)
    out = at.predict(predictor, k, v, padded, MASK)
    weights = at.attention_weights(predictor, k, padded, MASK)
    assert np.all(weights[~MASK] == 0)
    for n in range(N):
        np.testing.assert_allclose(
            out[n], at.predict(predictor, k, v, X[n : n + 1, MASK[n]])[0], rtol=EXACT
        )


def test_masked_rows_of_the_full_layer():
    layer = at.FullAttention(Q, K, V, O, inverse_temperature=0.3)
    rows = layer.rows(X, MASK)
    for n in range(N):
        np.testing.assert_allclose(
            rows[n, MASK[n]], layer.rows(X[n : n + 1, MASK[n]])[0], rtol=EXACT
        )
        assert np.all(rows[n, ~MASK[n]] == 0)


def test_float32_tokens_are_promoted():
    k, v = RNG.standard_normal((2, D))
    X32 = X.astype(np.float32)
    out = at.predict(at.Erf(0.5), k, v, X32)
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, at.predict(at.Erf(0.5), k, v, X32.astype(np.float64)))


def test_predictors_are_values():
    assert at.Erf(0.1) == at.Erf(0.1) != at.Erf(0.2)
    assert at.LinearAttention(0.1, 0.5) == at.LinearAttention(0.1, 0.5)
    assert repr(at.Erf(0.1)) == "Erf(0.1)"
    assert at.Erf(at.InverseTime(1.0, rate=1e-4)).inverse_temperature(10_000) == 0.5


def test_oracle_predictor_on_samples_attains_its_exact_risk():
    """predict on full vectors, 20,000 samples at d = 50, |z| < 4.5 for 4 predictors:
    false alarm 3e-5.
    """
    task = at.SingleLocation(50, 8, noise=0.1)
    x, y, _ = task.sample(20_000, seed=1)
    for predictor in (
        at.Erf(0.1),
        at.Softmax(2.0),
        at.LinearAttention(0.05),
        at.optimal_sigma(task),
    ):
        loss = (y - at.predict(predictor, task.key, task.value, x)) ** 2
        exact = at.risk(task, predictor, at.Overlaps.oracle()).value
        assert abs(loss.mean() - exact) < 4.5 * loss.std() / len(y) ** 0.5
