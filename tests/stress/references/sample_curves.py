"""Learning curves in samples and message passing, from their definitions.

notation: s2 = strength of the scores, q = variance of the known values, V = variance of the label
given the deciding token; nu, D, alpha as in the equations below.

Two tokens, token 1 decides: with z = s2 + sqrt(2 s2) N, e = N and f = sqrt(2 q/V) N independent the
log odds of token 1, label seen, are  z + e f + f^2/2.  Given f this is N(m, 2 m) with m = s2 +
f^2/2, and e given it is normal, so

    A = E r_1 = E_f h(m),    h(m) = E sigma(N(m, 2 m)),
    B = E r_1 e^2 = E_f E sigma(x) [1 - f^2/(2 m) + (f (x - m)/(2 m))^2],     x ~ N(m, 2 m).

Both are sums over two grids. More tokens: bags are drawn as they are defined. The equations

    q_k/(1 - q_k) = alpha nu A,   q_v/(1 - q_v) = alpha B/V,   V = D + 1 - q_v

are iterated from q = 0 or from q = 1, then solved by Newton's method.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, logsumexp

__all__ = ["drawn_averages", "messages", "pair_averages", "pair_curve", "pair_turns"]

GRID = np.linspace(-9.0, 9.0, 181)  # step 0.1: normal averages to rounding
WEIGHT = np.exp(-0.5 * GRID**2)
WEIGHT = WEIGHT / WEIGHT.sum()
# beyond f = 24 the wrong token has odds below e^-72
FAR = np.linspace(-24.0, 24.0, 481)
ITERATIONS = 4000
SETTLED = 1e-7  # from here Newton's method takes over


def pair_averages(s2: float, q: float, V: float) -> tuple[float, float, float]:
    """(1 - A, 1 - B, error) of two tokens."""
    deviation = math.sqrt(2 * q / V)
    if deviation <= 2.5:
        f = deviation * GRID
        weight = WEIGHT
    else:
        f = FAR
        weight = np.exp(-0.5 * (f / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
        weight = weight * (f[1] - f[0])
    m = (s2 + f * f / 2)[:, None]
    finer = np.maximum(1, np.ceil(np.sqrt(2 * m.max()) / 4)).astype(int)
    x = np.linspace(-9.0, 9.0, 180 * int(finer) + 1)
    w = np.exp(-0.5 * x * x)
    w = w / w.sum()
    lost = expit(-(m + np.sqrt(2 * m) * x))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(m > 0, (f * f)[:, None] / (2 * m), 0.0)
    second = 1 - share + share * x * x
    return float(weight @ (lost @ w)), float(weight @ ((lost * second) @ w)), 1e-12


def _alphas(x: float, z: float, nu: float, D: float) -> np.ndarray:
    """log alpha that solves each equation at logits x, z of the overlaps."""
    V = D + expit(-z)
    a, b, _ = pair_averages(nu * expit(x), expit(z), V)
    return np.array([x - math.log(nu * (1 - a)), z + math.log(V / (1 - b))])


def pair_curve(
    nu: float, D: float, alpha: float, informed: bool
) -> tuple[float, float, float] | None:
    """(q_k, q_v, excess risk) of two tokens, or None where iteration does not settle."""
    x = z = 12.0 if informed else -12.0
    for _ in range(ITERATIONS):
        V = D + expit(-z)
        a, b, _ = pair_averages(nu * expit(x), expit(z), V)
        new = math.log(alpha * nu * (1 - a)), math.log(alpha * (1 - b) / V)
        moved = abs(new[0] - x) + abs(new[1] - z)
        x, z = new
        if moved < SETTLED:
            break
    else:
        return None
    for _ in range(4):
        here = _alphas(x, z, nu, D) - math.log(alpha)
        h = 1e-5
        slopes = np.stack(
            [
                (_alphas(x + h, z, nu, D) - _alphas(x - h, z, nu, D)) / (2 * h),
                (_alphas(x, z + h, nu, D) - _alphas(x, z - h, nu, D)) / (2 * h),
            ],
            axis=1,
        )
        step = np.linalg.solve(slopes, here)
        x -= float(step[0])
        z -= float(step[1])
    q_k = float(expit(x))
    q_v = float(expit(z))
    missed = pair_averages(nu * q_k, 0.0, 1.0)[0]
    return q_k, q_v, 1 - q_v * (1 - missed)


def _alpha_at(z: float, nu: float, D: float) -> float:
    """log alpha on the curve at this logit of q_v, by halving."""
    low, high = -30.0, 30.0
    for _ in range(45):
        x = (low + high) / 2
        first, second = _alphas(x, z, nu, D)
        if first > second:
            high = x
        else:
            low = x
    return float(second)


def pair_turns(nu: float, D: float, low: float, high: float) -> list[float]:
    """Local maxima and minima of alpha over logit q_v between low and high, in order."""
    z = np.arange(low, high, 0.4)
    a = np.array([_alpha_at(x, nu, D) for x in z])
    found = []
    for i in range(1, len(z) - 1):
        if (a[i] - a[i - 1]) * (a[i + 1] - a[i]) < 0:
            sign = 1.0 if a[i] > a[i - 1] else -1.0
            centre, width = z[i], 0.4
            for _ in range(7):
                near = centre + width * np.array([-0.5, 0.0, 0.5])
                values = [sign * _alpha_at(x, nu, D) for x in near]
                bend = values[0] - 2 * values[1] + values[2]
                shift = 0.25 * width * (values[0] - values[2]) / bend if bend < 0 else 0.0
                centre += float(np.clip(shift, -width / 2, width / 2))
                width /= 2.5
            found.append(math.exp(_alpha_at(centre, nu, D)))
    return found


def drawn_averages(
    s2: float, q: float, V: float, probs: np.ndarray, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of (r_j, r_j e_j^2) over bags drawn as they are defined."""
    rng = np.random.default_rng(seed)
    L = len(probs)
    total = np.zeros(2)
    squares = np.zeros(2)
    block = max(1, 400_000 // L)
    done = 0
    while done < draws:
        n = min(block, draws - done)
        j = rng.choice(L, n, p=probs)
        rows = np.arange(n)
        z = math.sqrt(s2) * rng.standard_normal((n, L))
        z[rows, j] += s2
        w = math.sqrt(q) * rng.standard_normal((n, L))
        e_j = rng.standard_normal(n)
        y = w[rows, j] + math.sqrt(V) * e_j
        e = (y[:, None] - w) / math.sqrt(V)
        e[rows, j] = e_j
        with np.errstate(divide="ignore"):
            log_r = np.log(probs) + z - e * e / 2
        r = np.exp(log_r[rows, j] - logsumexp(log_r, axis=1))
        both = np.stack([r, r * e_j**2])
        total += both.sum(axis=1)
        squares += (both**2).sum(axis=1)
        done += n
    mean = total / draws
    return mean, np.sqrt(np.maximum(squares / draws - mean**2, 0) / draws)


def messages(
    tokens: np.ndarray, target: np.ndarray, nu: float, D: float, steps: int, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """k and v after so many damped steps from 0, bag by bag and token by token."""
    n, L, d = tokens.shape
    k = np.zeros(d)
    v = np.zeros(d)
    P_k = P_v = 0.0
    gu = np.zeros((n, L))
    gw = np.zeros((n, L))
    for step in range(steps):
        part = 1.0 if step == 0 else share
        S_k = 1 / (1 + P_k)
        S_v = 1 / (1 + P_v)
        V = D + S_v
        sum_k = np.zeros(d)
        sum_v = np.zeros(d)
        new_k = new_v = 0.0
        for i in range(n):
            u = [tokens[i, l] @ k - gu[i, l] * S_k for l in range(L)]
            e = [target[i] - (tokens[i, l] @ v - gw[i, l] * S_v) for l in range(L)]
            score = [math.sqrt(nu) * u[l] - e[l] ** 2 / (2 * V) for l in range(L)]
            top = max(score)
            mass = sum(math.exp(x - top) for x in score)
            for l in range(L):
                r = math.exp(score[l] - top) / mass
                gu[i, l] += part * (math.sqrt(nu) * r - gu[i, l])
                gw[i, l] += part * (r * e[l] / V - gw[i, l])
                new_k += nu * r * r / d
                new_v += (r / V - r * (1 - r) * e[l] ** 2 / V**2) / d
                sum_k += gu[i, l] * tokens[i, l] / d
                sum_v += gw[i, l] * tokens[i, l] / d
        P_k += part * (new_k - P_k)
        P_v += part * (max(new_v, 0.0) - P_v)
        k = k + part * ((sum_k + (P_k - n / d * nu) * k) / (1 + P_k) - k)
        v = v + part * ((sum_v + P_v * v) / (1 + P_v) - v)
    return k, v
