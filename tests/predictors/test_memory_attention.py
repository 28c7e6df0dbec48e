"""Memories token by token, local linear attention: against the recursions and systems themselves."""

import numpy as np
import pytest
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA

import attnscope as at

RNG = np.random.default_rng(5)
K = RNG.standard_normal((3, 20, 4)) / 2
V = RNG.standard_normal((3, 20, 5))
Q = RNG.standard_normal((3, 4))
STEP = RNG.random(20)
DECAY = RNG.random((3, 20))


def states(i, erase):
    """S_t after every token of context i, (L, d_v, d)."""
    S = np.zeros((5, 4))
    out = []
    for k, v, e, g in zip(K[i], V[i], STEP, DECAY[i]):
        S = g * S + e * np.outer(v - erase * g * S @ k, k)
        out.append(S)
    return np.array(out)


def answer(erase, *args, **more):
    if erase:
        return at.delta_attention(*args, step=STEP, decay=DECAY, **more)
    return at.gated_linear_attention(*args, scale=STEP, decay=DECAY, **more)


@pytest.mark.parametrize("erase", [0, 1])
def test_the_recursion(erase):
    S = np.array([states(i, erase) for i in range(3)])
    last = S[:, -1]
    np.testing.assert_allclose(
        answer(erase, Q, K, V), np.einsum("cvd,cd->cv", last, Q), atol=FEW_ROUNDINGS
    )
    np.testing.assert_allclose(
        answer(erase, Q, K, V[..., :1]),
        np.einsum("cvd,cd->cv", last, Q)[:, :1],
        atol=FEW_ROUNDINGS,
    )
    # so many queries that the memory itself is carried along
    many = answer(erase, np.eye(4)[:, None], K, V)
    np.testing.assert_allclose(many, last.transpose(2, 0, 1), atol=FEW_ROUNDINGS)
    each = answer(erase, K, K, V, causal=True)
    np.testing.assert_allclose(each, np.einsum("ctvd,ctd->ctv", S, K), atol=FEW_ROUNDINGS)


def test_special_cases():
    ones = at.gated_linear_attention(Q, K, V)
    np.testing.assert_allclose(ones, at.linear_attention(Q, K, V), atol=FEW_ROUNDINGS)
    # one-hot keys and step 1: the last value written to each slot
    keys = np.eye(3)[[0, 1, 0, 2, 1]]
    values = np.arange(10.0).reshape(5, 2)
    found = at.delta_attention(np.eye(3), keys, values)
    np.testing.assert_array_equal(found, values[[2, 4, 3]])
    assert not at.delta_attention(Q, K[:, :0], V[:, :0]).any()
    late = at.delta_attention(Q, K, V, 0.3, np.r_[np.ones(10), 0.0, np.ones(9)])
    np.testing.assert_allclose(
        late, at.delta_attention(Q, K[:, 10:], V[:, 10:], 0.3), atol=FEW_ROUNDINGS
    )


def test_blocks_of_long_contexts():
    """Longer than a block of the backward pass, odd sizes, and float32."""
    rng = np.random.default_rng(6)
    k = rng.standard_normal((2, 3001, 67)) / 67**0.5
    v = rng.standard_normal((2, 3001, 3))
    q = rng.standard_normal((2, 67))
    few = at.delta_attention(q, k, v, 0.8, 0.999)
    each = at.delta_attention(np.repeat(q[:, None], 3001, 1), k, v, 0.8, 0.999, causal=True)
    np.testing.assert_allclose(few, each[:, -1], atol=EXACT)
    single = at.delta_attention(q.astype("f4"), k.astype("f4"), v.astype("f4"), 0.8, 0.999)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, few, atol=1e-5)


def test_least_squares_that_forgets():
    w = 0.9 ** np.arange(19, -1, -1)
    for i in range(3):
        gram = (K[i].T * w) @ K[i] + 0.3 * np.eye(4)
        direct = Q[i] @ np.linalg.solve(gram, (K[i].T * w) @ V[i])
        found = at.recursive_least_squares(Q[i], K[i], V[i], 0.9, 0.3)
        np.testing.assert_allclose(found, direct, atol=FORMULA)
    static = at.recursive_least_squares(Q, K, V, 1.0, 0.25)
    np.testing.assert_allclose(
        static, at.cme_attention(Q, K, V, "linear", ridge=0.25), atol=FORMULA
    )


def test_local_linear_fit():
    rng = np.random.default_rng(7)
    k = rng.standard_normal((200, 4)) ** 3
    q = 0.3 * rng.standard_normal((7, 4))
    A = rng.standard_normal((4, 3))
    exact = at.local_linear_attention(q, k, k @ A + 1, 2.0)
    np.testing.assert_allclose(exact, q @ A + 1, atol=EXACT)
    assert np.abs(at.softmax_attention(q, k, k @ A + 1, 2.0) - (q @ A + 1)).max() > 0.1
    v = rng.standard_normal((200, 2))
    for ridge in (0.0, 0.3):
        found = at.local_linear_attention(q, k, v, 2.0, ridge)
        for i in range(7):
            X = np.c_[np.ones(200), k - q[i]]
            w = np.exp(k @ q[i] / 2)
            w /= w.sum()
            pull = np.diag([0.0, ridge, ridge, ridge, ridge])
            direct = np.linalg.solve((X.T * w) @ X + pull, (X.T * w) @ v)[0]
            np.testing.assert_allclose(found[i], direct, atol=EXACT)
    much = at.local_linear_attention(q, k, v, 2.0, 1e12)
    np.testing.assert_allclose(much, at.softmax_attention(q, k, v, 2.0), atol=1e-9)


def test_local_linear_by_blocks_of_queries():
    rng = np.random.default_rng(8)
    k, v = rng.standard_normal((4, 5000, 3)), rng.standard_normal((4, 5000, 1))
    q = rng.standard_normal((90, 1, 3))
    whole = at.local_linear_attention(q, k, v, 1.0)
    np.testing.assert_allclose(
        whole[17, 2], at.local_linear_attention(q[17, 0], k[2], v[2], 1.0), atol=EXACT
    )


LONG = np.repeat(K, 50, axis=1)
LONG_V = np.repeat(V, 50, axis=1)
BAD = [
    (lambda: at.delta_attention(Q, K, V, step=50.0), "step of delta_attention .* is stable"),
    (
        lambda: at.delta_attention(Q, 5 * LONG, LONG_V),
        "step of delta_attention must be so small",
    ),
    (
        lambda: at.delta_attention(5 * LONG, 5 * LONG, LONG_V, causal=True),
        "step of delta_attention must be so small",
    ),
    (lambda: at.delta_attention(Q, K, V, step=-1), "step of delta_attention must be .* >= 0"),
    (lambda: at.delta_attention(Q, K, V, decay=1.1), "decay of delta_attention must be"),
    (
        lambda: at.delta_attention(Q, K, V, decay=np.full(20, -0.1)),
        r"decay of delta_attention must be in \[0, 1\]",
    ),
    (lambda: at.delta_attention(Q, K, V, step=np.ones(3)), "must be a number or of a shape"),
    (lambda: at.delta_attention(Q, np.nan * K, V), "keys of delta_attention must be finite"),
    (
        lambda: at.delta_attention(Q, K, np.inf * V),
        "values of delta_attention must be finite",
    ),
    (lambda: at.delta_attention(np.nan * Q, K, V), "query of delta_attention must be finite"),
    (
        lambda: at.delta_attention(Q, K, V, causal=True),
        r"query of .* \(..., 20, 4\) where causal",
    ),
    (lambda: at.delta_attention("q", K, V), "query of delta_attention must be an array"),
    (lambda: at.delta_attention(Q[:, :3], K, V), "of the keys' dimension 4, got dimension 3"),
    (lambda: at.delta_attention(Q, K, V[:, :3]), "one for each of the 20 keys, got 3 values"),
    (
        lambda: at.gated_linear_attention(Q, K, V, 2.0),
        "decay of gated_linear_attention must be",
    ),
    (lambda: at.recursive_least_squares(Q, K, V, 1.5), "decay of recursive_least_squares"),
    (
        lambda: at.recursive_least_squares(Q, K[:, :2], V[:, :2], ridge=0.0),
        "ridge of recursive_least_squares must be > 0 where the keys",
    ),
    (
        lambda: at.local_linear_attention(Q, K[:, :3], V[:, :3]),
        "ridge of local_linear_attention must be > 0 where the keys",
    ),
    (lambda: at.local_linear_attention(Q, K, V, 0.0), "bandwidth of local_linear_attention"),
    (
        lambda: at.local_linear_attention(Q, K, V, 1.0, -1.0),
        "ridge of local_linear_attention",
    ),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input(call, words):
    with pytest.raises(at.AttnscopeError, match=words):
        call()


def test_now_and_then_a_long_key_does_no_harm():
    """Normal keys in two dimensions with the best step: one token in fifty stretches."""
    task = at.DriftingMap(2, 1, decay=1.0)
    batch = task.sample(4, 5000, seed=9)
    stretched = np.sum(batch.keys**2, axis=-1) * 0.25 > 2
    assert stretched.sum() > 100
    assert np.abs(at.delta_attention(batch.query, batch.keys, batch.values, 0.25)).max() < 20
