"""Risks and gradients on nodes against the exact ones of a twin: tokens that need no nodes, and errors
that are never too small.

Comparisons use 5 standard errors (6e-7 each, some 150 of them).
"""

import numpy as np
import pytest
from helpers.twins import Twin, exact_twin

import attnscope as at
from attnscope.theory.nodes.node_risk import reader_of, settled
from attnscope.theory.nodes.unread_tokens import apart_of
from attnscope.theory.overlaps import Overlaps, head_gram

SURE = 5
PLACES = (
    Overlaps(0.5, 0.1, 0.2, 0.6, -0.1),
    Overlaps.oracle(),
    Overlaps(0.0, 1.0, 0.4, 0.0, 0.0),  # k at what the label reads
)


def unit_gram(vectors, rng):
    """Of random unit vectors beside two orthonormal teachers."""
    x = rng.standard_normal((vectors + 2, 9))
    x[vectors:] = np.eye(9)[:2]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T


def test_tokens_apart_are_counted_by_kind():
    means = np.zeros((2, 3, 2))
    means[1, 0, 0] = 1.0
    reads = np.zeros((2, 3, 2), bool)
    reads[0, 1, 1] = True
    found = apart_of(means, np.ones((2, 3)), reads)
    assert found.kept.tolist() == [[1], [-1]]
    assert sorted(found.numbers.sum(1)) == [2.0, 3.0]
    assert found.numbers[:, found.means[:, 0] == 1.0].ravel().tolist() == [0.0, 1.0]
    assert apart_of(means, np.ones((2, 3)), np.ones((2, 3, 2), bool)) is None


@pytest.mark.parametrize("o", PLACES)
@pytest.mark.parametrize("head", [at.Erf(0.3), at.Erf(2.0), at.LinearAttention(0.2)])
def test_componentwise_heads_are_exact_where_one_token_is_read(head, o):
    """The moments of the label, to rounding."""
    found = at.risk(Twin(10, 4), head, o)
    truth = at.risk(exact_twin(10, 4), head, o)
    assert found.method == "moments, bound"
    assert abs(found.value - truth.value) <= found.error + truth.error
    assert found.error <= 1e-9 * truth.value


@pytest.mark.parametrize("inverse_temperature", [30.0, 1e4, 1e7])
def test_steep_weights_fall_back_to_nodes_with_an_honest_error(inverse_temperature):
    """A jump between two points of every rule; the tokens have nodes again."""
    task = Twin(10, 4)
    head = at.Erf(inverse_temperature)
    for o in PLACES[:2]:
        found = at.risk(task, head, o, samples=20_000)
        truth = at.risk(exact_twin(10, 4), head, o)
        assert abs(found.value - truth.value) <= SURE * found.error
    G = head_gram(PLACES[0], np.eye(2))
    assert settled(task, reader_of(task, head), G, inverse_temperature) == (
        inverse_temperature < 1e3
    )


def test_two_heads_against_quadrature():
    """heads_risk on SingleLocation has formulas of its own."""
    rng = np.random.default_rng(5)
    head = at.MultiHead(at.Erf(0.5), 2)
    for _ in range(3):
        G = unit_gram(4, rng)
        found = at.risk(Twin(9, 4), head, G)
        truth = at.heads_risk(exact_twin(9, 4), head, G)
        assert abs(found.value - truth.value) <= SURE * (found.error + truth.error)
        assert found.error < 1e-3 * truth.value


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [at.Erf(0.3), at.Erf(30.0), at.Erf(1e4), at.Erf(1e7), at.Softmax(1.0), at.Softmax(1e3)],
    ids=str,
)
def test_errors_of_gradients_are_never_too_small(head):
    """At 1e7 no node lies where the weights turn: scatter alone would say 0."""
    task = Twin(10, 4)
    for o in PLACES[:2]:
        found = at.risk_gradient(task, head, o)
        truth = np.array(at.risk_gradient(exact_twin(10, 4), head, o))
        assert (np.abs(np.array(found) - truth) <= SURE * np.array(found.error) + 1e-9).all()
    if head.inverse_temperature <= 1:
        assert max(found.error) < 0.01


def test_exact_gradients_state_no_error():
    assert at.risk_gradient(exact_twin(10, 4), at.Erf(0.3), PLACES[0]).error is None
