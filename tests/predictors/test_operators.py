"""Attention operators against their definitions written out, scikit-free ridge regression, and each
other at the limits.

No randomness decides a test: seeds are fixed and every comparison is deterministic up to rounding.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers.tolerances import (
    EXACT,
    FORMULA,
    INTEGRAL,
    LAST_DIGIT,
    LONG_SUM,
    ROOT_EPS,
    SEVEN_DIGITS,
    SIX_DIGITS,
    SOLVED,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from attnscope.errors import AttnscopeError
from attnscope.predictors.operators import context_attention as operators
from attnscope.predictors.operators import kernel_systems, query_groups
from attnscope.predictors.operators.context_attention import (
    cme_attention,
    cme_solve,
    cme_variance,
    linear_attention,
    softmax_attention,
)


def context(
    L: int, d: int = 3, dv: int = 2, seed: int = 0, lead: tuple[int, ...] = ()
) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((*lead, d))
    k = rng.standard_normal((*lead, L, d))
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    return unit(q), unit(k), rng.standard_normal((*lead, L, dv))


def gram(kernel: str, x: np.ndarray, y: np.ndarray, h: float) -> np.ndarray:
    """The definitions of design and docstring, written out."""
    if kernel == "rbf":
        return np.exp(-np.sum((x[:, None] - y) ** 2, axis=-1) / (2 * h))
    return x @ y.T if kernel == "linear" else np.exp(x @ y.T / h)


class TestSoftmax:
    @pytest.mark.parametrize("sink", [None, -1.0, 4.0])
    def test_definition(self, sink):
        q, k, v = context(7)
        w = np.exp(k @ q / 0.3)
        expected = w @ v / (w.sum() + (0 if sink is None else np.exp(sink)))
        np.testing.assert_allclose(
            softmax_attention(q, k, v, 0.3, sink), expected, rtol=FORMULA
        )

    def test_chunks_and_blocks_change_nothing(self, monkeypatch):
        q, k, v = context(1000, lead=(5,))
        whole = softmax_attention(q, k, v, 0.01, sink=3.0)
        monkeypatch.setattr(operators, "CHUNK_TOKENS", 17)
        monkeypatch.setattr(query_groups, "BLOCK_SCORES", 100)
        np.testing.assert_allclose(
            softmax_attention(q, k, v, 0.01, sink=3.0), whole, rtol=EXACT, atol=LAST_DIGIT
        )
        np.testing.assert_allclose(
            softmax_attention(
                q[:, None] * np.ones((5, 30, 1)), k[:, None], v[:, None], 0.01, 3.0
            )[:, 7],
            whole,
            rtol=EXACT,
            atol=LAST_DIGIT,
        )

    def test_extreme_scores_are_stable(self):
        q, k, v = context(50)
        out = softmax_attention(q, k, v, 1e-6)  # scores up to 10^6: the nearest key takes all
        np.testing.assert_allclose(out, v[np.argmax(k @ q)], rtol=EXACT)
        assert np.isfinite(softmax_attention(1e20 * q, 1e20 * k, v, 1e-20, sink=-1e40)).all()

    def test_a_hundred_thousand_tokens_in_little_memory(self):
        q, k, v = context(100_000, d=8, dv=1)
        queries = np.repeat(q[None], 200, axis=0)
        tracemalloc.start()
        out = softmax_attention(queries, k, v, 0.1, sink=0.0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        log_w = k @ q / 0.1
        expected = np.exp(log_w - logsumexp(np.append(log_w, 0.0))) @ v
        np.testing.assert_allclose(out, np.repeat(expected[None], 200, axis=0), rtol=LONG_SUM)
        assert peak < 60e6  # scores of all queries would be 160 MB

    def test_empty_context_is_the_prior_mean(self):
        for sink in (None, 0.0):
            out = softmax_attention(
                np.ones((4, 3)), np.zeros((4, 0, 3)), np.zeros((4, 0, 2)), sink=sink
            )
            assert out.shape == (4, 2) and (out == 0).all()

    @given(st.permutations(range(6)), st.floats(0.05, 5))
    def test_order_of_tokens_does_not_matter(self, order, h):
        q, k, v = context(6)
        np.testing.assert_allclose(
            softmax_attention(q, k[order], v[order], h),
            softmax_attention(q, k, v, h),
            rtol=EXACT,
        )

    def test_it_is_a_local_constant_regression(self):
        """The minimiser of sum_l w_l |v_l - c|^2 + e^b |c|^2,
        by its normal equation at finite differences.
        """
        q, k, v = context(9, dv=1)
        w = np.exp(k @ q / 0.4)
        loss = lambda c: w @ (v[:, 0] - c) ** 2 + np.exp(0.7) * c**2
        c = softmax_attention(q, k, v, 0.4, sink=0.7)[0]
        assert abs(loss(c + 1e-4) - loss(c - 1e-4)) < 1e-12 and loss(c + 1e-2) > loss(c)


class TestLinear:
    def test_definition_and_rule(self):
        q, k, v = context(9, lead=(2,))
        expected = np.einsum("nd,nld,nlv->nv", q, k, v)
        np.testing.assert_allclose(linear_attention(q, k, v), expected, rtol=FORMULA)
        np.testing.assert_allclose(
            linear_attention(q, k, v, scale=lambda L: 1 / L), expected / 9, rtol=FORMULA
        )

    def test_it_is_least_squares_for_orthonormal_keys(self):
        Q = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 3)))[0]
        q = np.ones(3)
        V = np.arange(16.0).reshape(8, 2)
        np.testing.assert_allclose(
            linear_attention(q, Q, V), np.linalg.lstsq(Q, V, rcond=None)[0].T @ q, rtol=EXACT
        )


class TestCME:
    @pytest.mark.parametrize("kernel", ["linear", "rbf", "exponential"])
    @pytest.mark.parametrize("L", [1, 6, 300])
    def test_definition(self, kernel, L):
        q, k, v = context(L)
        K = gram(kernel, k, k, 0.8)
        kq = gram(kernel, k, q[None], 0.8)[:, 0]
        alpha = np.linalg.solve(K + 0.3 * np.eye(L), kq)
        np.testing.assert_allclose(
            cme_attention(q, k, v, kernel, 0.8, 0.3), v.T @ alpha, rtol=INTEGRAL, atol=EXACT
        )
        kqq = gram(kernel, q[None], q[None], 0.8)[0, 0]
        assert cme_variance(q, k, kernel, 0.8, 0.3) == pytest.approx(
            kqq - kq @ alpha, rel=INTEGRAL, abs=EXACT
        )
        value, error = cme_solve(q, k, v, kernel, 0.8, 0.3)
        assert (
            np.abs(value - v.T @ alpha).max() <= error.max() + 1e-12 and error.max() < 1e-10
        )

    def test_it_is_kernel_ridge_regression(self):
        """f = sum_l a_l k(., k_l) minimises sum |v - f|^2 + lam a^T K a:
        least squares in a, stacked.
        """
        q, k, v = context(12, dv=1)
        K = gram("rbf", k, k, 1.0)
        root = np.linalg.cholesky(K + 1e-13 * np.eye(12))
        a = np.linalg.lstsq(
            np.vstack([K, 0.5 * root.T]), np.append(v[:, 0], np.zeros(12)), rcond=None
        )[0]
        expected = gram("rbf", q[None], k, 1.0)[0] @ a
        assert cme_attention(q, k, v, ridge=0.25)[0] == pytest.approx(expected, rel=ROOT_EPS)

    def test_callable_kernel_and_ridge_rule(self):
        q, k, v = context(20)
        polynomial = lambda x, y: (1 + x @ y.T) ** 2
        out = cme_attention(q, k, v, kernel=polynomial, ridge=lambda L: L**0.75)
        alpha = np.linalg.solve(
            polynomial(k, k) + 20**0.75 * np.eye(20), polynomial(k, q[None])[:, 0]
        )
        np.testing.assert_allclose(out, v.T @ alpha, rtol=SOLVED)
        assert cme_variance(q, k, polynomial, ridge=1.0) > 0

    def test_large_ridge_is_softmax(self):
        q, k, v = context(15)
        ratio = (
            1e9
            * cme_attention(q, k, v, "exponential", 0.5, ridge=1e9)
            / np.exp(k @ q / 0.5).sum()
        )
        np.testing.assert_allclose(ratio, softmax_attention(q, k, v, 0.5), rtol=SIX_DIGITS)

    def test_more_values_than_queries_and_the_reverse(self):
        q, k, v = context(30, dv=5)
        many = cme_attention(np.stack([q] * 7), k, v)
        np.testing.assert_allclose(many, np.stack([cme_attention(q, k, v)] * 7), rtol=SOLVED)

    def test_empty_context_is_the_prior(self):
        q = np.ones((4, 3))
        k = np.zeros((4, 0, 3))
        v = np.zeros((4, 0, 2))
        assert (cme_attention(q, k, v) == 0).all() and cme_attention(q, k, v).shape == (4, 2)
        assert (cme_variance(q, k) == 1).all() and (cme_variance(q, k, "linear") == 3).all()
        assert (cme_solve(q, k, v, ridge=lambda L: 1 / L).error == 0).all()

    def test_far_from_the_origin(self):
        q, k, v = context(40)
        shift = np.full(3, 1e6)
        np.testing.assert_allclose(
            cme_attention(q + shift, k + shift, v), cme_attention(q, k, v), rtol=SIX_DIGITS
        )


class TestIterative:
    """The iterative path on systems small enough for the dense one to be the truth."""

    @pytest.fixture
    def iterative(self, monkeypatch):
        def use(rank: int) -> None:
            monkeypatch.setattr(kernel_systems, "DENSE_POINTS", 100)
            monkeypatch.setattr(operators, "DENSE_POINTS", 100)
            monkeypatch.setattr(kernel_systems, "FACTOR_RANK", rank)

        return use

    @pytest.mark.parametrize("rank", [2, 20, 300])
    @pytest.mark.parametrize("kernel", ["linear", "rbf", "exponential"])
    def test_agrees_with_dense_within_its_error(self, iterative, kernel, rank):
        q, k, v = context(400, d=5, lead=(1,))
        queries = np.concatenate([q, k[0, :6]])
        dense = cme_attention(queries, k[0], v[0], kernel, 0.5, 0.1)
        variance = cme_variance(queries, k[0], kernel, 0.5, 0.1)
        iterative(rank)
        value, error = cme_solve(queries, k[0], v[0], kernel, 0.5, 0.1)
        assert (np.abs(value - dense) <= error + 1e-11).all() and error.max() < 1e-7
        np.testing.assert_allclose(
            cme_attention(queries, k[0], v[0], kernel, 0.5, 0.1), dense, atol=SEVEN_DIGITS
        )
        np.testing.assert_allclose(
            cme_variance(queries, k[0], kernel, 0.5, 0.1), variance, atol=SEVEN_DIGITS
        )

    def test_unfinished_iteration_reports_an_honest_error_and_is_refused_without_it(
        self, iterative, monkeypatch
    ):
        q, k, v = context(400, d=5)
        dense = cme_attention(q, k, v, "rbf", 0.1, 1e-4)
        iterative(5)
        monkeypatch.setattr(kernel_systems, "GRADIENT_STEPS", 3)
        value, error = cme_solve(q, k, v, "rbf", 0.1, 1e-4)
        assert (np.abs(value - dense) <= error).all() and error.min() > 1e-4
        with pytest.raises(
            AttnscopeError,
            match=r"error of cme_attention must be at most 1e-06 .* try cme_solve",
        ):
            cme_attention(q, k, v, "rbf", 0.1, 1e-4)

    def test_beyond_the_dense_limit_for_real(self):
        """20,000 tokens: the linear kernel has an exact primal form,
        sum over features instead of tokens.
        """
        q, k, v = context(20_000, d=4)
        expected = (np.linalg.solve(k.T @ k + 0.5 * np.eye(4), k.T @ v)).T @ q
        value, error = cme_solve(q, k, v, "linear", ridge=0.5)
        assert (np.abs(value - expected) <= error).all() and error.max() < 1e-8 * np.abs(
            v
        ).max()
        assert cme_variance(q, k, "linear", ridge=0.5) == pytest.approx(
            0.5 * q @ np.linalg.solve(k.T @ k + 0.5 * np.eye(4), q), rel=SIX_DIGITS
        )

    def test_no_ridge_is_refused(self, iterative):
        iterative(10)
        q, k, v = context(101)
        with pytest.raises(
            AttnscopeError, match="ridge of cme_attention must be > 0 for more than"
        ):
            cme_attention(q, k, v, ridge=0.0)


class TestShapes:
    @pytest.mark.parametrize(
        ("query", "keys", "values", "out"),
        [
            ((3,), (5, 3), (5, 2), (2,)),
            ((7, 3), (5, 3), (5, 2), (7, 2)),
            ((4, 3), (4, 5, 3), (4, 5, 2), (4, 2)),
            ((4, 6, 3), (4, 1, 5, 3), (4, 1, 5, 2), (4, 6, 2)),
            ((6, 4, 3), (4, 5, 3), (4, 5, 2), (6, 4, 2)),
            ((3,), (4, 5, 3), (5, 2), (4, 2)),
            ((1, 3), (4, 5, 3), (4, 5, 2), (4, 2)),
            ((0, 3), (5, 3), (5, 2), (0, 2)),
        ],
    )
    def test_leading_axes_broadcast(self, query, keys, values, out):
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal(shape) for shape in (query, keys, values))
        for operator in (softmax_attention, cme_attention, linear_attention):
            result = operator(q, k, v)
            assert result.shape == out
            lead = out[:-1]
            one = lambda a, tail, i, lead=lead: np.broadcast_to(
                a, (*lead, *a.shape[a.ndim - tail :])
            )[i]
            for i in np.ndindex(lead):
                np.testing.assert_allclose(
                    result[i],
                    operator(one(q, 1, i), one(k, 2, i), one(v, 2, i)),
                    rtol=INTEGRAL,
                    atol=EXACT,
                )
        assert cme_variance(q, np.broadcast_to(k, keys)).shape == np.broadcast_shapes(
            query[:-1], keys[:-2]
        )


class TestRefusals:
    q, k, v = context(5)

    def test_mismatched_dimensions(self):
        with pytest.raises(
            AttnscopeError,
            match="query of softmax_attention must be of the keys' dimension 3, got dimension 2",
        ):
            softmax_attention(self.q[:2], self.k, self.v)
        with pytest.raises(
            AttnscopeError,
            match="values of cme_attention must be one for each of the 5 keys, got 4 values",
        ):
            cme_attention(self.q, self.k, self.v[:4])
        with pytest.raises(AttnscopeError, match="leading axes"):
            softmax_attention(np.zeros((2, 3)), np.zeros((3, 5, 3)), np.zeros((3, 5, 2)))

    def test_singular_kernels_get_advice_on_the_ridge(self):
        repeated = np.repeat(self.k[:1], 5, axis=0)
        for kernel in ("rbf", "linear"):
            with pytest.raises(
                AttnscopeError,
                match=r"ridge of cme_attention .* not singular .* try ridge=5.0e-08 or more",
            ):
                cme_attention(self.q, repeated, self.v, kernel, ridge=0.0)
        assert np.isfinite(cme_attention(self.q, repeated, self.v, ridge=5e-8)).all()

    def test_numbers_and_kernels(self):
        for arguments, match in [
            ({"bandwidth": 0.0}, "bandwidth"),
            ({"ridge": -1.0}, "ridge"),
            ({"ridge": lambda L: -L}, r"ridge \(the rule at L = 5\)"),
            ({"kernel": "cosine"}, "kernel of cme_attention must be 'linear'"),
            ({"kernel": lambda x, y: x}, "kernel of cme_attention must be a function"),
            (
                {"kernel": lambda x, y: x @ np.diag([1, 2, 3]) @ np.roll(y, 1, axis=1).T},
                "symmetric",
            ),
            (
                {"kernel": "exponential", "bandwidth": 1e-4},
                "bandwidth of cme_attention must be large enough",
            ),
        ]:
            with pytest.raises(AttnscopeError, match=match):
                cme_attention(self.q, self.k, self.v, **arguments)
        with pytest.raises(
            AttnscopeError, match="bandwidth of cme_variance must be large enough"
        ):
            cme_variance(60 * self.q, self.k, "exponential", 1.0)
        with pytest.raises(AttnscopeError, match="NaN"):
            softmax_attention(self.q * np.nan, self.k, self.v)
        with pytest.raises(AttnscopeError, match="sink"):
            softmax_attention(self.q, self.k, self.v, sink=np.inf)
        with pytest.raises(AttnscopeError, match="ridge of cme_solve must be > 0"):
            cme_solve(self.q, self.k, self.v, ridge=0.0)


def exact_cme(
    query: float, keys: np.ndarray, values: np.ndarray, h: float, ridge: float
) -> float:
    """V^T (K + ridge I)^-1 k_q of the RBF kernel for keys on a line, in 80 digits."""
    import mpmath as mp

    with mp.workdps(80):
        x = [mp.mpf(float(k)) for k in keys[:, 0]]
        n = len(x)
        K = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                K[i, j] = mp.exp(-((x[i] - x[j]) ** 2) / (2 * mp.mpf(h)))
            K[i, i] += mp.mpf(ridge)
        A = mp.lu_solve(K, mp.matrix([mp.mpf(float(v)) for v in values[:, 0]]))
        cross = [mp.exp(-((mp.mpf(query) - k) ** 2) / (2 * mp.mpf(h))) for k in x]
        return float(mp.fdot(cross, list(A)))


class TestHonestSystems:
    """What float64 or the kernel cannot give is refused; what is returned is right."""

    keys = np.linspace(0, 1, 25)[:, None]

    @pytest.mark.parametrize("ridge", [1e-3, 1e-6, 1e-9, 1e-11, 1e-13])
    @pytest.mark.parametrize("rough", [0.0, 1.0])
    def test_ill_conditioned(self, ridge, rough):
        noise = np.random.default_rng(0).standard_normal((25, 1))
        values = np.sin(3 * self.keys) + rough * noise
        truth = exact_cme(0.37, self.keys, values, 1.0, ridge)
        value, error = cme_solve(
            np.array([0.37]), self.keys, values, bandwidth=1.0, ridge=ridge
        )
        assert abs(value[0] - truth) <= error[0]
        call = lambda: cme_attention(
            np.array([0.37]), self.keys, values, bandwidth=1.0, ridge=ridge
        )[0]
        if rough and ridge < 1e-8:
            with pytest.raises(
                AttnscopeError, match="the error of cme_attention must be at most"
            ):
                call()
        else:
            assert abs(call() - truth) <= 1e-6 * max(np.abs(values).max(), abs(truth))

    def test_keys_in_distant_groups(self):
        """|x|^2 + |y|^2 - 2 x.y has no digits left at 1e7 apart; differences have."""
        keys = np.array([[0.0], [1e7 + 0.3], [1e7 + 0.9], [1e7 + 1.7]])
        values = np.array([[5.0], [1.0], [3.0], [-2.0]])
        found = cme_attention(np.array([1e7 + 0.5]), keys, values, bandwidth=0.5, ridge=0.1)[
            0
        ]
        assert found == pytest.approx(exact_cme(1e7 + 0.5, keys, values, 0.5, 0.1), rel=EXACT)

    @pytest.mark.parametrize(
        ("kernel", "got"),
        [
            (
                lambda x, y: -np.exp(-np.sum((x[:, None] - y) ** 2, axis=-1)),
                r"got k\(x, x\) = -1",
            ),
            (lambda x, y: x @ np.diag([1.0, -1.0]) @ y.T + 9, "got an eigenvalue of -"),
        ],
    )
    @pytest.mark.parametrize("ridge", [0.0, 0.25, 100.0])
    def test_indefinite_kernels(self, kernel, got, ridge):
        """Also with a ridge that makes K + ridge I positive:
        error bounds and variances need K >= 0.
        """
        rng = np.random.default_rng(1)
        query, keys, values = (
            rng.standard_normal((3, 2)),
            rng.standard_normal((6, 2)),
            rng.standard_normal((6, 1)),
        )
        calls = [lambda: cme_attention(query, keys, values, kernel=kernel, ridge=ridge)]
        calls.append(lambda: cme_variance(query, keys, kernel=kernel, ridge=ridge))
        if ridge:
            calls.append(lambda: cme_solve(query, keys, values, kernel=kernel, ridge=ridge))
        for call in calls:
            with pytest.raises(
                AttnscopeError, match=r"kernel of cme_\w+ must be positive semidefinite"
            ):
                call()
        with pytest.raises(AttnscopeError, match=got):
            calls[0]()

    def test_an_indefinite_kernel_beyond_the_dense_route(self):
        rng = np.random.default_rng(2)
        keys = rng.standard_normal((4100, 3))
        with pytest.raises(
            AttnscopeError, match="kernel of cme_solve must be positive semidefinite"
        ):
            cme_solve(
                keys[:2],
                keys,
                keys[:, :1],
                kernel=lambda x, y: x @ np.diag([1.0, 1.0, -1.0]) @ y.T + 99,
            )

    def test_a_ridge_for_zero_keys(self):
        with pytest.raises(AttnscopeError, match=r"try ridge=3.0e-08 or more"):
            cme_attention(
                np.zeros(2), np.zeros((3, 2)), np.ones((3, 1)), kernel="linear", ridge=0.0
            )
