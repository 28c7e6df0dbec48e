"""The Rademacher complexity of one attention head, exactly in the length.

notation: tokens +-1, equally likely; f_q(x) = v sum_l softmax(q x_l) x_l with |q| <= Q, |v| <= 1;
k the number of tokens +1; L the length; n sequences; t = tanh Q.

f depends on k alone: f_q(k) = (k e^q - (L-k) e^-q)/(k e^q + (L-k) e^-q). By the central limit
theorem

    sqrt(n) R_n -> E sup_{|q| <= Q} |G(q)|,   G normal with covariance sum_k Bin(k) f_q(k) f_q'(k).

At the two ends X = G(Q), Y = G(-Q): max(|X|, |Y|) = (|X + Y| + |X - Y|)/2, so

    E max(|X|, |Y|) = sqrt(2/pi)/2 (s_+ + s_-),   s_+-^2 = sum_k Bin(k) (f_Q(k) +- f_-Q(k))^2,

a lower bound in closed form. It is the complexity itself where no q inside is ever best: L = 1 (f
is the token: sqrt(2/pi)), L = 2 (a middle count gives tanh q: (1 + t)/sqrt(pi)) and L -> inf (f ->
tanh q: t sqrt(2/pi)), which it approaches as sqrt(2/pi) (t + (1 - t^2)/sqrt L). What q inside add
is the mean of a small positive number.

Sum pooling, f = v sum_l x_l, has sqrt(2 L/pi). Derived for this project.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from attnscope.claims.compare import mean_and_error

__all__ = ["at_the_ends", "inside", "limit", "near_limit", "sampled_suprema"]

ROOT = float(np.sqrt(2 / np.pi))
QUERIES = (
    121  # q on [-Q, Q]: the sup of a smooth function on steps of Q/60 is off by some 3e-5
)
REACH = 7.0  # standard deviations of k that are kept: 2e-12 lie beyond
SMALL_QUERY = 1e-13  # share of the largest eigenvalue that rounding leaves


def limit(Q: float) -> float:
    """L -> inf."""
    return ROOT * float(np.tanh(Q))


def near_limit(Q: float) -> float:
    """sqrt(L) times what is left above the limit, L -> inf."""
    return ROOT * float(1 - np.tanh(Q) ** 2)


def _counts(L: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of tokens +1 that occur, and their probabilities."""
    half = int(np.ceil(REACH * L**0.5 / 2)) + 1
    k = np.arange(max(0, L // 2 - half), min(L, L // 2 + 1 + half) + 1)
    log_p = gammaln(L + 1) - gammaln(k + 1) - gammaln(L - k + 1) - L * np.log(2)
    return k, np.exp(log_p)


def _head(k: np.ndarray, L: int, q: np.ndarray) -> np.ndarray:
    """f_q(k), (counts, queries)."""
    up = k[:, None] * np.exp(q)
    down = (L - k)[:, None] * np.exp(-q)
    return (up - down) / (up + down)


def at_the_ends(L: int, Q: float) -> float:
    """The closed form: E max over the two ends."""
    k, p = _counts(L)
    f = _head(k, L, np.array([Q, -Q]))
    both = [np.sqrt(p @ (f[:, 0] + sign * f[:, 1]) ** 2) for sign in (1, -1)]
    return ROOT / 2 * float(sum(both))


def inside(L: int, Q: float, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """What q inside (-Q, Q) add to the ends: mean over draws of G, and its standard error."""
    k, p = _counts(L)
    f = _head(k, L, np.linspace(-Q, Q, QUERIES))
    values, vectors = np.linalg.eigh(f.T @ (p[:, None] * f))
    kept = values > SMALL_QUERY * values[-1]
    roots = vectors[:, kept] * np.sqrt(values[kept])
    G = np.abs(rng.standard_normal((draws, int(kept.sum()))) @ roots.T)
    more = G.max(axis=1) - np.maximum(G[:, 0], G[:, -1])
    return mean_and_error(more)


def sampled_suprema(
    L: int, Q: float, n: int, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """sqrt(n) sup over heads and over sums of the correlation with n signs, `draws` times each:
    tokens and signs are drawn, by how many sequences have k tokens +1 and how many of these get
    a sign +1.
    """
    k, p = _counts(L)
    sequences = rng.multinomial(n, p / p.sum(), size=draws)
    signs = (2 * rng.binomial(sequences, 0.5) - sequences) / n**0.5
    head = np.abs(signs @ _head(k, L, np.linspace(-Q, Q, QUERIES))).max(axis=1)
    return head, np.abs(signs @ (2.0 * k - L))
