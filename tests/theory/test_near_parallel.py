"""Risks of heads whose vectors are nearly parallel, or opposite, against routes without a float64
factor.

    linear  moments of a quadratic form in the vectors themselves: no Gram matrix
    erf   no signal: closed forms in 60 digits; else a Gauss-Hermite rule on a factor found in 60
        digits

With x ~ N(0, I), a = erf(p.x), b = erf(q.x) and D = (1 + 2 p.p)(1 + 2 q.q) - 4 (p.q)^2, Stein's
lemma gives
    E[a b (v.x)(w.x)] = v.w E[a b] + (p.v p.w A + q.v q.w B) + (p.v q.w + q.v p.w) C,
    E[a b] = 2/pi asin(2 p.q / sqrt((1 + 2 p.p)(1 + 2 q.q))),  C = E[a' b'] = 4/(pi sqrt(D)),
    A = E[a'' b] = -2 p.q C/(1 + 2 p.p),  B likewise,  E[a (v.x)] = 2 p.v/sqrt(pi (1 + 2 p.p)).
Deterministic.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import erf
from stress.references.heads import linear_heads

import attnscope as at
from attnscope.numerics.semidefinite import GRAM_ROUNDING_PER_DIM, lower_factor, missed

DISTANCES = 10.0 ** -np.arange(3.0, 9.5, 0.5)
NEAR = {  # which vectors of (k_1, v_1, k_2, v_2, k_1*, v_1*, ...) come close to which
    "a head's own": ((1, 0),),
    "two keys": ((2, 0),),
    "two values": ((3, 1),),
    "two heads": ((2, 0), (3, 1)),
    "key and teacher": ((0, 4),),
    "value and teacher": ((1, 5),),
    "four at once": ((1, 0), (2, 0), (3, 0)),
    "all at their teachers": ((0, 4), (1, 5), (2, 6), (3, 7)),
}
DIM = 9
LAM = 0.1
# of the risk: the rule errs by e^-33, its stated error is that of a rule 1.5 times as coarse
SHARP = 1e-13


def rows_of(task, pattern, distance, seed):
    """(4, d) vectors k_1, v_1, k_2, v_2, of lengths 1/2 to 2."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.standard_normal((4, DIM)) / 3, task.teachers])
    for new, old in NEAR[pattern]:
        rows[new] = rng.choice([-1, 1]) * rows[old] + distance * rows[new]
    return rows[:4] * rng.uniform(0.5, 2.0, (4, 1))


def task_of(signal):
    return at.MultiDirection(DIM, 5, 2, gamma=0.7, signal=signal)


def risk_of(task, head, rows):
    return at.heads_risk(task, at.MultiHead(head, 2), (rows[0::2], rows[1::2]))


def close(found, truth, distance):
    away = abs(found.excess - truth)
    assert away <= found.error, distance
    assert away <= SHARP * truth, distance


def exact_rows(rows):
    return [[mp.mpf(float(x)) for x in row] for row in rows]


def dot(a, b):
    return mp.fdot(a, b)


def pair_moment(p, q, v, w):
    """E[erf(p.x) erf(q.x) (v.x)(w.x)]."""
    own_p = 1 + 2 * dot(p, p)
    own_q = 1 + 2 * dot(q, q)
    cross = dot(p, q)
    both = 4 / (mp.pi * mp.sqrt(own_p * own_q - 4 * cross**2))
    product = 2 / mp.pi * mp.asin(2 * cross / mp.sqrt(own_p * own_q))
    bent = dot(p, v) * dot(p, w) / own_p + dot(q, v) * dot(q, w) / own_q
    mixed = dot(p, v) * dot(q, w) + dot(q, v) * dot(p, w)
    return dot(v, w) * product + (mixed - 2 * cross * bent) * both


def without_signal(task, lam, rows):
    """The excess risk of erf heads at signal 0; label terms have mean 0 then."""
    with mp.workdps(60):
        total = mp.mpf(0)
        spread = mp.mpf(0)
        for scale, count in (
            (mp.mpf(task.gamma), task.directions),
            (1, task.length - task.directions),
        ):
            vectors = [[scale * x for x in row] for row in exact_rows(rows)]
            heads = [([lam * x for x in k], v) for k, v in zip(vectors[0::2], vectors[1::2])]
            mean = sum(2 * dot(p, v) / mp.sqrt(mp.pi * (1 + 2 * dot(p, p))) for p, v in heads)
            square = sum(pair_moment(p, q, v, w) for p, v in heads for q, w in heads)
            total += count * mean
            spread += count * (square - mean**2)
        return float(spread + total**2 + task.directions * mp.mpf(task.gamma) ** 2)


def factor_in_digits(gram):
    """Lower factor of a matrix of mpf; a vector in the span of earlier ones leaves its column
    empty.
    """
    n = len(gram)
    A = [[mp.mpf(0)] * n for _ in range(n)]
    for j in range(n):
        pivot = gram[j][j] - sum(x * x for x in A[j][:j])
        if pivot <= mp.mpf(10) ** -40:
            continue
        A[j][j] = mp.sqrt(pivot)
        for i in range(j + 1, n):
            A[i][j] = (gram[i][j] - sum(A[i][l] * A[j][l] for l in range(j))) / A[j][j]
    return np.array([[float(x) for x in row] for row in A])


def token_moments(rows, lam, shift, scale, label):
    """(E e, E e^2) by a product rule over two scores at a time,
    labels and values given them in closed form.
    """
    x, weight = np.polynomial.hermite_e.hermegauss(64)
    weight = weight / math.sqrt(2 * math.pi)
    z = np.stack(np.meshgrid(x, x, indexing="ij"))
    mass = np.outer(weight, weight)
    vectors = [rows[0], rows[2], rows[1], rows[3]] + ([label] if label is not None else [])
    with mp.workdps(60):
        digits = exact_rows(vectors)
        A = scale * factor_in_digits([[dot(a, b) for b in digits] for a in digits])
        means = np.array([float(dot(a, exact_rows([shift])[0])) for a in digits])
    seen = means[:, None, None] + np.tensordot(A[:, :2], z, axes=1)
    rest = A[:, 2:] @ A[:, 2:].T
    signed = np.concatenate([erf(lam * seen[:2]), -np.ones((len(vectors) - 4, *mass.shape))])
    mean = (signed * seen[2:]).sum(0)
    spread = np.einsum("iab,ij,jab->ab", signed, rest[2:, 2:], signed)
    return float((mass * mean).sum()), float((mass * (mean**2 + spread)).sum())


def with_signal(task, lam, rows):
    tokens = [token_moments(rows, lam, np.zeros(DIM), 1.0, None)] * (
        task.length - task.directions
    )
    for key, value in zip(task.keys, task.values):
        tokens.append(token_moments(rows, lam, task.signal * key, task.gamma, value))
    means, squares = np.array(tokens).T
    return float((squares - means**2).sum() + means.sum() ** 2)


@pytest.mark.parametrize("pattern", NEAR)
def test_linear_heads(pattern):
    task = task_of(1.3)
    for seed, distance in enumerate(DISTANCES):
        rows = rows_of(task, pattern, distance, seed)
        found = risk_of(task, at.LinearAttention(LAM, offset=0.2), rows)
        teachers = (task.keys, task.values)
        numbers = (LAM, 0.2, task.length, task.gamma, task.signal)
        truth, _ = linear_heads(rows[0::2], rows[1::2], teachers, *numbers)
        close(found, truth, distance)


@pytest.mark.parametrize("pattern", NEAR)
def test_erf_heads_without_a_signal(pattern):
    task = task_of(0.0)
    for seed, distance in enumerate(DISTANCES):
        rows = rows_of(task, pattern, distance, seed)
        found = risk_of(task, at.Erf(LAM), rows)
        truth = without_signal(task, mp.mpf(LAM), rows)
        close(found, truth, distance)


@pytest.mark.parametrize("pattern", NEAR)
def test_erf_heads(pattern):
    task = task_of(1.3)
    for seed, distance in enumerate(DISTANCES[::3]):
        rows = rows_of(task, pattern, distance, seed)
        found = risk_of(task, at.Erf(LAM), rows)
        truth = with_signal(task, LAM, rows)
        close(found, truth, distance)


def test_a_third_vector_in_the_plane_of_two_near_ones():
    """v_1 is the direction from k_1 to k_2: its share of a pivot that is rounding is everything it
    has.
    """
    task = task_of(1.3)
    rng = np.random.default_rng(0)
    for distance in DISTANCES:
        rows = rng.standard_normal((4, DIM)) / 3
        rows[2] = rows[0] + distance * rows[1]
        found = risk_of(task, at.Erf(LAM), rows)
        truth = with_signal(task, LAM, rows)
        close(found, truth, distance)


def test_factors_reproduce_any_gram_matrix():
    rng = np.random.default_rng(1)
    for n in (2, 3, 5, 8):
        vectors = rng.standard_normal((200, n, n + 1)) * 10.0 ** rng.uniform(
            -3, 3, (200, n, 1)
        )
        near = 10.0 ** rng.uniform(-10, 0, (200, 1))
        vectors[:, -1] = vectors[:, 0] + near * vectors[:, -1]
        vectors[::2, n // 2] = vectors[::2, 0] - vectors[::2, -1]
        gram = vectors @ vectors.swapaxes(1, 2)
        A = lower_factor(gram)
        assert np.array_equal(A, np.tril(A))
        # 2 n more: of inner products in n + 1 dimensions, and of the check itself
        assert missed(A, gram).max() <= 3 * n * GRAM_ROUNDING_PER_DIM
