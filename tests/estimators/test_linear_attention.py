"""Linear attention by least squares: against LAPACK, heads by hand, closed spectra; the count of
heads against ranks of the derivative.

Everything here is deterministic given its seeds, which were chosen before looking; no sampled
comparison, so no false alarms.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.estimators.linear_attention.cubic_features import (
    coefficients_of,
    cubic_features,
    tensor_of,
    units_of,
)
from attnscope.estimators.linear_attention.fewest_heads import (
    _head_jacobian,
    _pair_symmetriser,
    completed,
    generic_heads,
    signature_bound,
)

SAME = (
    1e-9  # relative: well-conditioned least squares keep 12 digits, heads are found to 1e-13
)


def data(n, length, dim, queries, outputs, heads, seed):
    """Contexts and what drawn heads say of them."""
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((n, length, dim))
    query = rng.standard_normal((n, queries))
    V = rng.standard_normal((heads, outputs, dim))
    Q = rng.standard_normal((heads, dim, queries))
    return tokens, query, said(V, Q, tokens, query), V, Q


def said(V, Q, tokens, query):
    return np.einsum("hai,nli,nlj,hjk,nk->na", V, tokens, tokens, Q, query, optimize=True)


def test_features_by_definition():
    tokens, query, *_ = data(5, 3, 3, 2, 1, 1, seed=11)
    tokens *= [1.0, 1e4, 1e-5]
    units = units_of(tokens, query)
    X, _ = cubic_features(tokens, query, units)
    C = np.einsum("nli,nlj->nij", tokens, tokens)
    first, second = np.triu_indices(3)
    weight = np.where(first == second, 1.0, np.sqrt(2))
    by_hand = (weight * C[:, first, second])[:, :, None] * query[:, None, :]
    np.testing.assert_allclose(
        (X.T * units.features), by_hand.reshape(5, -1), rtol=1e-13, atol=0
    )
    assert set(np.log2(units.token) % 1) == {0.0}


def test_tensor_and_coefficients_are_inverse_and_keep_lengths():
    W = np.random.default_rng(3).standard_normal((12, 2))
    T = tensor_of(W, 3)
    assert np.array_equal(T, T.swapaxes(1, 2))
    np.testing.assert_allclose(coefficients_of(T), W, rtol=EXACT)
    assert np.linalg.norm(T) == pytest.approx(np.linalg.norm(W), rel=EXACT)


@pytest.mark.parametrize("outputs", [1, 3])
def test_least_squares_is_lapacks(outputs):
    tokens, query, y, *_ = data(300, 5, 3, 3, outputs, 2, seed=21)
    y = y + np.random.default_rng(22).standard_normal(y.shape)
    fit = at.fit_linear_attention(tokens, query, y)
    units = units_of(tokens, query)
    X = cubic_features(tokens, query, units)[0].T
    W, rest, *_ = np.linalg.lstsq(X, y, rcond=None)
    assert fit.optimum.value == pytest.approx(rest.sum() / 300, rel=SAME)
    np.testing.assert_allclose(fit.predict(tokens, query), X @ W, rtol=0, atol=SAME)
    own = np.linalg.svd(X * units.features, compute_uv=False) ** 2 / 300
    np.testing.assert_allclose(fit.spectrum, own, rtol=SAME)
    assert fit.identified and fit.features == 18
    assert fit.loss == fit.optimum


def test_no_heads_are_below_the_optimum_and_all_heads_reach_it():
    tokens, query, y, *_ = data(200, 5, 3, 2, 2, 1, seed=31)
    y = y + np.random.default_rng(32).standard_normal(y.shape)
    fit = at.fit_linear_attention(tokens, query, y)
    slack = fit.optimum.error + EXACT * fit.optimum.value
    for k in range(1, 7):
        found = fit.heads(k)
        loss = np.mean(np.sum((said(*found[:2], tokens, query) - y) ** 2, axis=1))
        assert loss >= fit.optimum.value - slack
    assert loss == pytest.approx(fit.optimum.value, rel=SAME)


@pytest.mark.parametrize(("outputs", "heads"), [(1, 1), (1, 2), (4, 1), (4, 2), (4, 3)])
def test_a_teachers_heads_are_counted_and_it_is_found_everywhere(outputs, heads):
    """Other lengths, means and scales too: the same function, not only the same data."""
    tokens, query, y, V, Q = data(600, 9, 4, 4, outputs, heads, seed=41)
    fit = at.fit_linear_attention(tokens, query, y)
    found = fit.heads()
    assert len(found.value) == heads == found.at_least
    rng = np.random.default_rng(42)
    far = 3 * rng.standard_normal((50, 17, 4)) + 1
    asked = rng.standard_normal((50, 4))
    truth = said(V, Q, far, asked)
    predicted, error = fit.predict(far, asked, return_error=True)
    size = np.abs(truth).max()
    np.testing.assert_allclose(predicted, truth, rtol=0, atol=1e-11 * size)
    assert (np.abs(predicted - truth) <= error).all()
    np.testing.assert_allclose(said(*found[:2], far, asked), truth, rtol=0, atol=1e-10 * size)
    plain = np.linalg.matrix_rank(fit.theta.reshape(outputs * 4, 16), tol=1e-8)
    assert plain == 4 * outputs  # singular values of what is identified: all of them


def whitened(n, length, dim, seed):
    """Keys with sum k k^T = I and values w.k: tokens (k, v), query and w.query."""
    rng = np.random.default_rng(seed)
    keys = np.linalg.qr(rng.standard_normal((n, length, dim)))[0]
    w = rng.standard_normal((n, dim))
    query = rng.standard_normal((n, dim))
    tokens = np.concatenate([keys, (keys @ w[:, :, None])], axis=2)
    return tokens, query, np.sum(w * query, axis=1)


def test_whitened_contexts_are_fitted_and_not_identified():
    """sum k k^T = I: the traceless part of it never occurs, (d(d+1)/2 - 1) d directions."""
    tokens, query, y = whitened(500, 6, 3, seed=51)
    fit = at.fit_linear_attention(tokens, query, y)
    assert fit.nullity == 15 and not fit.identified
    assert fit.optimum.value < 1e-24
    fresh = whitened(20, 6, 3, seed=52)
    np.testing.assert_allclose(fit.predict(*fresh[:2])[:, 0], fresh[2], rtol=0, atol=1e-10)
    plain = np.random.default_rng(53).standard_normal((20, 6, 4))
    with pytest.raises(
        at.AttnscopeError, match=r"certificate is singular, nullity 15.*ridge"
    ):
        fit.predict(plain, fresh[1])
    ridged = at.fit_linear_attention(tokens, query, y, ridge=1e-6)
    assert np.isfinite(ridged.predict(plain, fresh[1])).all()
    assert ridged.loss.value > ridged.optimum.value - ridged.optimum.error


def test_a_mask_is_the_same_as_shorter_contexts():
    tokens, query, y, *_ = data(80, 4, 2, 2, 1, 1, seed=61)
    padded = np.concatenate([tokens, np.full((80, 3, 2), np.nan)], axis=1)
    mask = np.arange(7) < 4 + np.zeros((80, 1))
    one = at.fit_linear_attention(tokens, query, y)
    other = at.fit_linear_attention(padded, query, y, mask=mask)
    np.testing.assert_allclose(other.theta, one.theta, rtol=0, atol=SAME)


def test_ridge_by_normal_equations():
    tokens, query, y, *_ = data(10, 4, 3, 2, 2, 2, seed=71)  # 12 features: fewer contexts
    tokens *= [1.0, 30.0, 0.1]
    fit = at.fit_linear_attention(tokens, query, y, ridge=0.3)
    units = units_of(tokens, query)
    X = (cubic_features(tokens, query, units)[0] * units.features[:, None]).T
    W = np.linalg.solve(X.T @ X / 10 + 0.3 * np.eye(12), X.T @ y / 10)
    np.testing.assert_allclose(fit.predict(tokens, query), X @ W, rtol=SAME)
    assert fit.loss.value == pytest.approx(
        np.mean(np.sum((X @ W - y) ** 2, axis=1)), rel=SAME
    )
    assert fit.nullity == 2


def test_targets_may_be_lists():
    tokens, query, y, *_ = data(60, 4, 2, 2, 1, 1, seed=85)
    one = at.fit_linear_attention(tokens, query, y)
    assert np.array_equal(
        at.fit_linear_attention(tokens, query, y[:, 0].tolist()).theta, one.theta
    )


def test_nothing_to_say_needs_no_head():
    tokens, query, *_ = data(60, 4, 2, 2, 1, 1, seed=81)
    fit = at.fit_linear_attention(tokens, query, np.zeros(60))
    assert fit.optimum.value == 0 and len(fit.heads().value) == 0


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("queries", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_the_count_is_where_the_derivative_gets_full_rank(dim, outputs, queries):
    """Rank of d(V, Q) -> T at drawn heads: the dimension of the layers of k heads."""
    rng = np.random.default_rng([91, dim, outputs, queries])
    features = queries * dim * (dim + 1) // 2

    def full(k):
        A = rng.standard_normal((outputs, dim, k))
        B = rng.standard_normal((k, dim, queries))
        S = np.linalg.svd(_head_jacobian(A, B, np.eye(features), _pair_symmetriser(dim)))[1]
        return (1e-9 * S[0] < S).sum() == outputs * features

    counts = [k for k in range(1, min(outputs, queries) * dim + 1) if full(k)]
    assert generic_heads(dim, outputs, queries) == counts[0]


@pytest.mark.parametrize("dim", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_count_suffices_for_drawn_layers_and_one_fewer_does_not(dim):
    T = np.random.default_rng([92, dim]).standard_normal((dim, dim, dim, dim))
    T = T + T.swapaxes(1, 2)
    N = np.eye(dim * dim * (dim + 1) // 2)
    k = generic_heads(dim)
    assert completed(T, N, k).residual < 1e-12
    assert completed(T, N, k - 1).residual > 1e-3


def test_signatures_bound_the_heads():
    """y = (sum_l |z_l|^2) z: a positive definite matrix needs a head for each dimension."""
    T = np.eye(3)[None, :, :, None]
    assert signature_bound(T) == 3
    assert completed(T, np.eye(6), 2).residual > 0.1


def test_calls_are_repeatable():
    tokens, query, y, *_ = data(100, 4, 3, 2, 2, 3, seed=101)
    one = at.fit_linear_attention(tokens, query, y)
    two = at.fit_linear_attention(tokens, query, y)
    assert np.array_equal(one.theta, two.theta)
    assert np.array_equal(one.heads(2).value, two.heads(2).value)
    assert "24 features" not in repr(one) and "12 features, identified" in repr(one)


X = np.ones((4, 3, 2))
BAD = {
    "few contexts": (
        lambda: at.fit_linear_attention(X, X[:, 0], X[:, 0, 0]),
        r"at least as many contexts as there are features, p D\(D\+1\)/2 = 6, got 4 contexts: "
        "infinitely many layers fit them; try 6 contexts or more",
    ),
    "tokens shape": (
        lambda: at.fit_linear_attention(X[0], X[:, 0], X[:, 0, 0]),
        r"tokens of fit_linear_attention must be a real array of shape \(\*, \*, \*\)",
    ),
    "query rows": (
        lambda: at.fit_linear_attention(X, X[:3, 0], X[:, 0, 0]),
        r"query of fit_linear_attention must be a real array of shape \(4, \*\)",
    ),
    "target": (
        lambda: at.fit_linear_attention(X, X[:, 0], X),
        "target of fit_linear_attention must be",
    ),
    "ragged": (
        lambda: at.fit_linear_attention(X, X[:, 0], [[1.0], [1.0, 2.0], [1.0], [1.0]]),
        "target of fit_linear_attention must be a real array",
    ),
    "target nan": (
        lambda: at.fit_linear_attention(X, X[:, 0], np.full(4, np.nan)),
        "target of fit_linear_attention must be finite",
    ),
    "ridge": (
        lambda: at.fit_linear_attention(X, X[:, 0], X[:, 0, 0], ridge=-1.0),
        "ridge of fit_linear_attention must be a finite number >= 0",
    ),
    "large": (
        lambda: at.fit_linear_attention(1e40 * X, X[:, 0], X[:, 0, 0], ridge=1.0),
        r"tokens of fit_linear_attention must be of size <= 1e\+30",
    ),
    "k": (
        lambda: at.fit_linear_attention(X, X[:, 0], X[:, 0, 0], ridge=1.0).heads(0),
        "k of LinearAttentionFit.heads must be an integer >= 1",
    ),
    "predict": (
        lambda: at.fit_linear_attention(X, X[:, 0], X[:, 0, 0], ridge=1.0).predict(
            X[:, :, :1], X[:, 0]
        ),
        "tokens of LinearAttentionFit.predict must be a real array",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    call, words = BAD[case]
    with pytest.raises(at.AttnscopeError, match=words) as refused:
        call()
    assert str(refused.value).count("\n") == 0
