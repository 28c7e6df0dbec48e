"""One bag of a ridge fit: its minimum by brute force, how it moves, averages on whole bags; nodes.

False alarms: sampled comparisons have fixed seeds; each states its bound.
"""

import math

import numpy as np
import pytest
from helpers.tolerances import SIX_DIGITS
from scipy.optimize import minimize
from scipy.special import softmax

import attnscope as at
from attnscope.numerics.compiled.linear_prox import linear_response, linear_root
from attnscope.numerics.compiled.softmax_prox import softmax_averages, softmax_response
from attnscope.theory.samples import ridge_channel
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope.theory.samples.ridge_channel import LinearChannel, Order, SoftmaxChannel
from attnscope.theory.samples.ridge_nodes import grid_nodes, sobol_nodes, token_basis

SOFTMAX = at.Softmax(1.0)
LINEAR = at.LinearAttention(1.0, offset=1.0)
KINDS = {"softmax": SOFTMAX, "linear": LINEAR}


def spiked(length=2, strength=5.0, D=0.1, dim=1000):
    return at.SingleLocation.spiked(dim, length, strength, D**0.5)


# -- the inner minimum -----------------------------------------------------------------------------


def inner(x, o, z, y, V, W, weights):
    """The objective of one bag in both u and w."""
    u, w = np.split(x, 2)
    rest = y - weights(u) @ w
    return np.sum((u - o) ** 2) / (2 * V) + np.sum((w - z) ** 2) / (2 * W) + rest**2 / 2


def brute(o, z, y, V, W, weights, rng):
    """Its least value from many starts."""
    starts = [np.concatenate([o, z]), *(3 * rng.standard_normal((8, 2 * len(o))))]
    args = (o, z, y, V, W, weights)
    return min(minimize(inner, s, args, method="BFGS", tol=1e-10).fun for s in starts)


@pytest.mark.slow
def test_the_minimum_of_linear_attention_is_the_global_one():
    """|x| < 1 picks it out among up to five stationary points: 10 bags by brute force."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        o, z = 2 * rng.standard_normal((2, 3))
        y = 2 * rng.standard_normal()
        V, W = np.exp(rng.uniform(-2, 2, 2))
        A = (1 + o) / math.sqrt(V)
        B = z / math.sqrt(W)
        kappa = math.sqrt(V * W)
        x = linear_root(np.sum((A + B) ** 2) / 2, np.sum((A - B) ** 2) / 2, y, kappa)
        rho = x / kappa
        s = (1 + o + V * rho * z) / (1 - x * x)
        w = (z + W * rho * (1 + o)) / (1 - x * x)
        plain = lambda u: 1 + u
        here = inner(np.concatenate([s - 1, w]), o, z, y, V, W, plain)
        assert here <= brute(o, z, y, V, W, plain, rng) * (1 + SIX_DIGITS) + SIX_DIGITS


@pytest.mark.slow
def test_the_minimum_of_softmax_is_the_lowest_found_by_brute_force():
    """12 bags at large V, where a third has two minima: the objective that was reached."""
    rng = np.random.default_rng(1)
    for i in range(12):
        L = 2 + i % 3
        a, b = 1.5 * rng.standard_normal((2, 1, L - 1))
        e = rng.standard_normal(1)
        V, W = np.exp(rng.uniform(0, 2.5)), np.exp(rng.uniform(-2, 1))
        basis = token_basis(L)
        law = (1.0, 1.2, 1.1, 0.6, 1.3, V, W)
        raw = np.empty((1, 9))
        softmax_averages((a, b, e), np.ones(1), np.zeros(1, int), basis, law, raw)
        o = 1.2 * basis @ a[0] + np.eye(L)[0]
        z = 1.1 * basis @ b[0]
        y = 0.6 * (basis @ b[0])[0] + 1.3 * e[0]
        square, _, _, read, _, _, _, rho2, _ = raw[0]
        # V |g_u|^2/2 + W |g_w|^2/2 + rho^2/2 is the objective itself
        here = 0.5 * (V * square + W * read + rho2)
        least = brute(o, z, y, V, W, softmax, rng)
        assert here <= least * (1 + SIX_DIGITS) + SIX_DIGITS


@pytest.mark.parametrize(
    "kind", [SoftmaxChannel, pytest.param(LinearChannel, marks=pytest.mark.slow)]
)
def test_averages_against_sampled_bags(kind):
    """Unreduced bags, minimised by BFGS: 5 standard errors (6e-7 each) and the nodes' own."""
    L, n = 3, 200
    x = Order(0.6, 0.8, 0.7, 0.7, 0.9, 0.5)
    nodes = kind(5.0, 0.1, L, True).averages(x).mean(axis=0)
    weights = softmax if kind is SoftmaxChannel else (lambda u: 1 + u)
    rng = np.random.default_rng(2)
    rows = []
    for _ in range(n):
        xi, zeta = rng.standard_normal((2, L))
        eta = rng.standard_normal()
        o = math.sqrt(x.key_square) * xi
        o[0] += math.sqrt(5.0 * x.key_square) * x.key_cosine
        z = math.sqrt(x.value_square) * zeta
        sy = math.sqrt(1 - x.value_cosine**2 + 0.1)
        y = x.value_cosine * zeta[0] + sy * eta
        u, w = np.split(solved(np.concatenate([o, z]), y, 0.7, 0.5, weights), 2)
        rho = y - weights(u) @ w
        g_u = (u - o) / 0.7
        g_w = (w - z) / 0.5
        squares = [np.sum(g_u**2), g_u[0], xi @ g_u, np.sum(g_w**2), eta * g_w[0] / sy]
        rows.append([*squares, zeta @ g_w, rho**2])
    error = np.std(rows, axis=0, ddof=1) / math.sqrt(n)
    difference = np.abs(np.mean(rows, axis=0) - nodes[:7])
    assert (difference <= 5 * error + 0.02 * np.abs(nodes[:7])).all()


def solved(fields, y, V, W, weights):
    o, z = np.split(fields, 2)
    args = (o, z, y, V, W, weights)
    return minimize(inner, fields, args, method="BFGS", options={"gtol": 1e-8}).x


@pytest.mark.parametrize("kind", ["softmax", "linear"])
def test_the_response_of_single_bags_against_differences(kind):
    """d(u, w)/d(o, z) - I by central differences of the minimum, in Frobenius norms."""
    rng = np.random.default_rng(6)
    weights = softmax if kind == "softmax" else (lambda u: 1 + u)
    V, W = 0.9, 0.4
    for _ in range(4):
        if kind == "softmax":
            basis = token_basis(3)
            a, b = rng.standard_normal((2, 1, 2))
            e = rng.standard_normal(1)
            law = (1.0, 0.8, 0.7, 0.6, 1.1, V, W)
            found = softmax_response((a, b, e), np.ones(1), basis, law, 1e30)
            o = 0.8 * basis @ a[0] + np.eye(3)[0]
            z = 0.7 * basis @ b[0]
            y = 0.6 * (basis @ b[0])[0] + 1.1 * e[0]
        else:
            g = rng.standard_normal((1, 5))
            law = (0.5, 0.8, 0.7, 0.6, 1.1, V, W, 1.0)
            found = linear_response(g, np.zeros((1, 2)), law, 1e30)
            o = np.array([0.5 + 0.8 * g[0, 0], 0.8 * g[0, 3]])
            # the last number is the value along the sign of the other token's 1 + o
            z = 0.7 * np.array([g[0, 1], g[0, 4] * np.sign(1 + o[1])])
            y = 0.6 * g[0, 1] + 1.1 * g[0, 2]
        fields = np.concatenate([o, z])
        L = len(o)
        steps = 1e-3 * np.eye(2 * L)
        move = [
            (solved(fields + s, y, V, W, weights) - solved(fields - s, y, V, W, weights))
            / 2e-3
            for s in steps
        ]
        D = (np.stack(move, axis=1) - np.eye(2 * L)) ** 2
        blocks = D.reshape(2, L, 2, L).sum(axis=(1, 3))
        assert found == pytest.approx(blocks, rel=2e-3, abs=1e-5)


# -- nodes and their error -------------------------------------------------------------------------


def test_nodes_integrate_normal_moments():
    for nodes in (grid_nodes(3, 2, 5), sobol_nodes(5, 12, 2, 5)):
        assert np.bincount(nodes.group, nodes.weight) == pytest.approx(np.ones(2), abs=1e-8)
        second = np.einsum("n,ni,nj->ij", nodes.weight, nodes.points, nodes.points) / 2
        assert second == pytest.approx(np.eye(nodes.points.shape[1]), abs=0.01)
    exact = grid_nodes(3, 1, 6)
    fourth = np.sum(exact.weight * exact.points[:, 0] ** 2 * exact.points[:, 2] ** 2)
    assert fourth == pytest.approx(1.0, abs=SIX_DIGITS)


@pytest.mark.parametrize(
    ("kind", "ridge"),
    [pytest.param("softmax", 0.1, marks=pytest.mark.slow), ("linear", 0.5)],
)
def test_other_nodes_agree_within_their_errors(kind, ridge, monkeypatch):
    """Four seeds of nodes: all pairs within 4 joint errors, which are widened for 16 sets."""
    found = []
    for seed in (101, 102, 103, 104):
        monkeypatch.setattr(ridge_channel, "CHANNEL_NODE_SEED", seed)
        found.append(learning_curve(spiked(), 4.0, KINDS[kind], ridge).risk)
    for a in found:
        for b in found:
            assert abs(a.excess - b.excess) <= 4 * math.hypot(a.error, b.error)
