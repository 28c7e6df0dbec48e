"""Memories of a map that drifts: their error after every number of tokens, and the best gates.

notation: the task and its letters as in tasks.exchangeable.drifting_map (d, lam, s, a, kappa,
kappa2); g = decay, e = step, b = 1 for the delta rule and 0 for linear attention.

    S_t = g S_{t-1} + e (v_t - b g S_{t-1}.k_t) k_t,      error  E(S_t.q - w_t.q)^2 = kappa E|D_t|^2

for each of d_v rows, D = w - S and the query drawn as the keys are. The traces e' = E|D|^2/d,
x = E S.D/d, p = E|S|^2/d obey a linear recursion, exact at every t, because E kk^T and E |k|^2 kk^T
are multiples of I. With y = w_t - g S = a D + (a - g) S + drift, f = (1 - b) g S, u = y + f:

    e'_t = phi [y,y] + 2 (e^2 kappa2 - e kappa)[y,f] + e^2 kappa2 [f,f] + e^2 s^2 kappa
    x_t  = g [S,y] - g e kappa [S,u] + e kappa [y,u] - e^2 kappa2 [u,u] - e^2 s^2 kappa
    p_t  = g^2 p + 2 g e kappa [S,u] + e^2 kappa2 [u,u] + e^2 s^2 kappa
    phi  = (1 - e kappa)^2 + e^2 (kappa2 - kappa^2),

[.,.] the mean inner product over d. In these coordinates a small error is no difference of large
numbers. Rounding is carried along: a symmetric perturbation of the second moments of (D, S) is at
most a positive one, and positive ones stay so under the recursion.

Best gates (new here). Among all memories S <- A_t S - B_t (S.k) k + C_t v k with coefficients that
do not look at the keys the best has A_t = a, B_t = a C_t, C_t = kappa r_t/(kappa2 r_t + kappa s^2):
the gated delta rule whose forget gate is the latent's own decay, whatever d, s and the key law. The
error r before a token obeys

    r_{t+1} = a^2 h(r_t) + (1 - a^2) lam,  h(r) = r (r (kappa2 - kappa^2) + kappa s^2)/(kappa2 r + kappa s^2),

h(r) the error after it; r_1 = lam. Proof: w_t = a S + D'. If E S.w = E|S|^2 (true of S = 0) then E
S.D' = 0, so the error splits into E|(a - A) S + (B - a C) kk^T S|^2, which A = a, B = a C make 0,
and (1 - 2 C kappa + C^2 kappa2) E|D'|^2 + C^2 s^2 kappa d, which the C above minimises; the best
S_t has E S.w = E|S|^2 again, else a multiple of it would be better, and h increases, so that the
best for one step is the best for all. In the limit r is the positive root of

    [(1 - a^2) kappa2 + a^2 kappa^2] r^2 + (1 - a^2)(kappa s^2 - lam kappa2) r - (1 - a^2) lam kappa
    s^2 = 0.

Least squares that forgets has no closed form for random keys: its error is exact given the keys,
and a mean over sampled ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import affordable, widened
from attnscope.numerics.border.whole_values import array_of
from attnscope.tasks.base import checked_law
from attnscope.tasks.exchangeable.drifting_map import DriftingMap

__all__ = ["BestGates", "best_gates", "memory_curve"]

EPS = float(np.finfo(np.float64).eps)
MEMORY_LENGTH_LIMIT = 200_000  # tokens; takes a few seconds
MEMORY_RULES = ("delta", "linear", "least squares")
# multiplications of one sampled curve, about 4 s
SAMPLED_MULTIPLICATIONS = 8e9
KEY_NUMBERS_PER_BLOCK = 1 << 18  # entries of the drawn keys processed at a time: 2 MB
FEWEST_KEY_SETS = 16  # needed to estimate a standard error
FORGOTTEN_NATS = 40.0  # a token of weight exp(-40) = 4e-18 is left out
# relative to the prior: the digits that the normal equations of least squares lose
LEAST_SQUARES_ROUNDING = 1e-9


Triple = tuple[float, ...]  # e', x, p


class BestGates(NamedTuple):
    """decay and step of the best memory that does not look at the keys, and its error as an
    Estimate; step is a number in the limit of long contexts, else one for each token, (length,).
    """

    decay: float
    step: Any
    risk: Estimate


def best_gates(task: DriftingMap, length: int | None = None) -> BestGates:
    """The gated delta rule with the least error on a DriftingMap; in the limit of long contexts,
    or with one step for each of `length` tokens.

    Args:
        task: a DriftingMap.
        length: tokens of the context; None: endlessly many.

    >>> task = DriftingMap(dim_key=8, noise=0.5, decay=0.99, keys="sphere")
    >>> best = best_gates(task)
    >>> best.decay, round(best.step, 4), round(best.risk.excess, 6)
    (0.99, 0.4965, 0.231214)
    """
    of = "best_gates"
    task = checked_law(task, DriftingMap, of, "a DriftingMap")
    kappa, kappa2 = task.key_moments
    s2 = task.noise**2
    if length is not None:
        tokens = check.integer(length, "length", of, 1, MEMORY_LENGTH_LIMIT)
        prior = [r for r, _ in zip(_errors_before_tokens(task), range(tokens))]
        steps = np.array([kappa * r / (kappa2 * r + kappa * s2) for r in prior])
        left = _error_after_token(prior[-1], kappa, kappa2, s2)
        # every step rounds a sum of positive terms, and contracts what came before
        return BestGates(
            task.decay, steps, _risk_estimate(task, left, 16 * EPS * tokens * left)
        )
    if task.decay == 1:
        must = "below 1 in the limit of long contexts: without drift the best step falls to 0"
        raise bad("decay", of, must, task.decay, "best_gates(task, length=100)")
    r = _stationary_error(task)
    left = _error_after_token(r, kappa, kappa2, s2)
    step = kappa * r / (kappa2 * r + kappa * s2)
    return BestGates(task.decay, step, _risk_estimate(task, left, 64 * EPS * left))


def memory_curve(
    task: DriftingMap,
    length: int | Sequence[int],
    step: Any = None,
    decay: float | None = None,
    rule: str = "delta",
    ridge: float | None = None,
    samples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """E|v - S_L q|^2 of a memory after `length` tokens, one number or several (the result then has
    arrays).

    Args:
        task: a DriftingMap.
        length: tokens of the context, one number or several.
        step: e >= 0, a number or one for each token; None for the delta rule: `best_gates`. Rule
            "linear" calls it its scale, and has no default.
        decay: g in [0, 1]; None: the task's own for the delta rule, else 1.
        rule: "delta" | "linear", exact | "least squares", sampled: `recursive_least_squares`.
        ridge: of least squares; None: noise^2/prior variance.
        samples: key sets drawn for least squares.
        seed: of the key sets.

    >>> task = DriftingMap(dim_key=8, noise=0.5, decay=1.0)
    >>> memory_curve(task, [1, 10, 100], step=0.05).excess.round(5)
    array([7.405  , 3.70475, 0.06993])
    >>> unit = DriftingMap(dim_key=8, noise=1e-9, decay=1.0, keys="sphere")
    >>> round(memory_curve(unit, 40, step=1.0).excess, 8)      # (1 - 1/d)^40: Kaczmarz
    0.00478985
    """
    of = "memory_curve"
    task = checked_law(task, DriftingMap, of, "a DriftingMap")
    if rule not in MEMORY_RULES:
        raise bad("rule", of, f"one of {MEMORY_RULES}", rule)
    draws = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    lengths = array_of(length, "length", of, "an integer >= 0, or several")
    if lengths.dtype.kind not in "iu" or not lengths.size or lengths.ndim > 1:
        raise bad("length", of, "an integer >= 0, or several", length)
    for one in lengths.ravel():
        check.integer(int(one), "length", of, 0, MEMORY_LENGTH_LIMIT)
    if ridge is not None and rule != "least squares":
        raise bad("ridge", of, "None: only rule='least squares' has one", ridge)
    if rule == "least squares":
        if step is not None:
            raise bad("step", of, "None for rule='least squares'", step)
        own = task.noise**2 / task.prior_variance
        g = check.real(1.0 if decay is None else decay, "decay", of, 0, 1, hint="decay=0.97")
        lam = check.real(own if ridge is None else ridge, "ridge", of, 0, strict=True)
        return _sampled_risk(task, lengths, g, lam, draws, seed)
    b = 1.0 if rule == "delta" else 0.0
    steps, g = _checked_gates(task, int(lengths.max()), step, decay, b, of)
    return _recursion_risk(task, lengths, steps, g, b)


# -- exact -----------------------------------------------------------------------------------------


def _errors_before_tokens(task: DriftingMap) -> Iterator[float]:
    """r_1 = lam, r_2, ...: the error before each token."""
    kappa, kappa2 = task.key_moments
    a = task.decay
    r = task.prior_variance
    while True:
        yield r
        left = _error_after_token(r, kappa, kappa2, task.noise**2)
        r = a * a * left + (1 - a) * (1 + a) * task.prior_variance


def _error_after_token(r: float, kappa: float, kappa2: float, s2: float) -> float:
    """h(r): the error after a token, a sum of positive terms."""
    return (
        r * (r * _key_moment_spread(kappa, kappa2) + kappa * s2) / (kappa2 * r + kappa * s2)
    )


def _key_moment_spread(kappa: float, kappa2: float) -> float:
    """kappa2 - kappa^2 >= 0: exactly 0 for unit keys in one dimension."""
    return max(kappa2 - kappa * kappa, 0.0)


def _stationary_error(task: DriftingMap) -> float:
    """The positive root, from the side where it does not cancel."""
    kappa, kappa2 = task.key_moments
    a = task.decay
    lam = task.prior_variance
    s2 = task.noise**2
    drift = (1 - a) * (1 + a)
    A = drift * kappa2 + a * a * kappa * kappa
    B = drift * (kappa * s2 - lam * kappa2)
    C = drift * lam * kappa * s2
    root = math.sqrt(B * B + 4 * A * C)
    return 2 * C / (B + root) if B >= 0 else (root - B) / (2 * A)


def _risk_estimate(task: DriftingMap, trace: Any, error: Any) -> Estimate:
    """The risk, from an error per coordinate: kappa d d_v times that error, plus the noise."""
    scale = task.key_moments.kappa * task.dim_key * task.dim_value
    noise = task.noise * task.dim_value**0.5
    return estimate(scale * trace, scale * error, "recursion of second moments", noise)


def _checked_gates(
    task: DriftingMap, length: int, step: Any, decay: float | None, b: float, of: str
) -> tuple[np.ndarray, float]:
    """One step for each token (length,), and the decay; refused where the memory is unstable."""
    own = task.decay if b else 1.0
    g = check.real(own if decay is None else decay, "decay", of, 0, 1, hint="decay=0.99")
    if step is None:
        if not b:
            raise bad("step", of, "a number for rule='linear'", None, "step=1 / (length + d)")
        if g != task.decay:
            must = "given where decay is not the task's own"
            raise bad("step", of, must, None, f"decay={task.decay:g}, or a step")
        return best_gates(task, max(length, 1)).step[:length], g
    if np.ndim(step) == 0:
        e = np.full(length, check.real(step, "step", of, 0, hint="step=0.5"))
    else:
        e = check.array(step, "step", of, (None,)).astype(np.float64)
        if len(e) < length or e.min() < 0:
            raise bad("step", of, f">= 0, a number or one for each of {length} tokens", step)
        e = e[:length]
    kappa, kappa2 = task.key_moments
    if b and len(e):
        phi = (1 - e * kappa) ** 2 + e**2 * _key_moment_spread(kappa, kappa2)
        with np.errstate(divide="ignore"):
            growth = float(np.mean(np.log(g * g * phi)))
        if growth > 0:
            most = 2 * kappa / kappa2
            must = f"below 2 kappa/kappa2 = {most:.4g}, where the memory is stable"
            raise bad("step", of, must, float(e.max()), f"step={most / 2:.4g}")
    return e, g


def _recursion_risk(
    task: DriftingMap, lengths: np.ndarray, steps: np.ndarray, g: float, b: float
) -> Estimate:
    """The recursion of the module docstring, with a bound on its rounding error."""
    state: Triple = (task.prior_variance, 0.0, 0.0)
    lost: Triple = (0.0, 0.0, 0.0)
    wanted = set(lengths.ravel().tolist())
    seen = {0: (task.prior_variance, 0.0)}
    for t, e in enumerate(steps.tolist(), start=1):
        lost = _next_traces(task, lost, e, g, b, True)[0]
        state, sizes = _next_traces(task, state, e, g, b, False)
        # diag(p + r, q + r) >= a perturbation of at most p, q on the diagonal and r beside it
        lost = tuple(
            x + 8 * EPS * y
            for x, y in zip(lost, (sizes[0] + sizes[1], 0.0, sizes[1] + sizes[2]))
        )
        if t in wanted:
            seen[t] = (state[0], lost[0])
    found = np.array([seen[int(n)] for n in lengths.ravel()]).T.reshape(2, *lengths.shape)
    return _risk_estimate(task, *found)


def _next_traces(
    task: DriftingMap, state: Triple, e: float, g: float, b: float, alone: bool
) -> tuple[Triple, Triple]:
    """(e', x, p) one token later, and the sums of the absolute values of their terms; `alone`
    leaves out drift and noise, which is how a perturbation evolves.
    """
    kappa, kappa2 = task.key_moments
    a = task.decay
    error, x, p = state
    drift = 0.0 if alone else (1 - a) * (1 + a) * task.prior_variance
    noise = 0.0 if alone else e * e * task.noise**2 * kappa
    f = (1 - b) * g
    Sy = a * x + (a - g) * p
    Sf = f * p
    yy = a * a * error + 2 * a * (a - g) * x + (a - g) ** 2 * p + drift
    yf = f * Sy
    ff = f * f * p
    Su = Sy + Sf
    yu = yy + yf
    uu = yy + 2 * yf + ff
    phi = (1 - e * kappa) ** 2 + e * e * _key_moment_spread(kappa, kappa2)
    written = e * e * kappa2 * uu
    terms = (
        (phi * yy, 2 * (e * e * kappa2 - e * kappa) * yf, e * e * kappa2 * ff, noise),
        (g * Sy, -g * e * kappa * Su, e * kappa * yu, -written, -noise),
        (g * g * p, 2 * g * e * kappa * Su, written, noise),
    )
    return tuple(map(math.fsum, terms)), tuple(sum(map(abs, row)) for row in terms)


# -- least squares, sampled ------------------------------------------------------------------------


def _sampled_risk(
    task: DriftingMap, lengths: np.ndarray, g: float, ridge: float, samples: int, seed: int
) -> Estimate:
    of = "memory_curve"
    reach = math.inf if g == 1 else math.ceil(FORGOTTEN_NATS / -math.log(g)) + 1 if g else 1
    counted = [int(min(n, reach)) for n in lengths.ravel()]
    d = task.dim_key
    cost = float(sum(8.0 * n * d * d for n in counted))
    contexts = affordable(samples, max(cost, 1.0), SAMPLED_MULTIPLICATIONS, FEWEST_KEY_SETS)
    if not contexts:
        raise bad(
            "length", of, "shorter, for least squares", int(lengths.max()), "decay=0.99"
        )
    prior = task.prior_variance
    found = []
    for i, n in enumerate(counted):
        block = max(1, KEY_NUMBERS_PER_BLOCK // max(n * d, d * d))
        draws = np.empty(contexts)
        for j in range(0, contexts, block):
            rows = draws[j : j + block]
            rng = np.random.default_rng([seed, i, j])
            rows[:] = _error_given_keys(task, task.draw_keys(rng, (len(rows), n)), g, ridge)
        error = float(np.std(draws, ddof=1)) / contexts**0.5 + LEAST_SQUARES_ROUNDING * prior
        found.append((float(np.mean(draws)), widened(error, contexts)))
    mean, error = np.array(found).T.reshape(2, *lengths.shape)
    out = _risk_estimate(task, mean, error)
    return Estimate(
        out.value,
        out.error,
        f"Monte Carlo over {contexts} key sets",
        out.excess,
        out.log_excess,
    )


def _error_given_keys(
    task: DriftingMap, keys: np.ndarray, g: float, ridge: float
) -> np.ndarray:
    """E|W - w|^2/d (c,) of least squares on these keys (c, n, d): with A = (K^T G K + ridge)^-1 K^T
    G,

    lam d - 2 lam sum_l a^(n-1-l) k_l.A_l + sum_lm A_l.A_m (lam a^|l-m| k_l.k_m + s^2 delta_lm).

    A_l.A_m k_l.k_m is the inner product of the matrices k_l A_l^T: the double sum is a running one.
    """
    contexts, n, d = keys.shape
    lam = task.prior_variance
    a = task.decay
    age = np.arange(n - 1, -1, -1.0)
    weighted = keys.swapaxes(1, 2) * g**age
    gram = weighted @ keys + ridge * np.eye(d)
    A = np.linalg.solve(gram, weighted).swapaxes(1, 2)  # (c, n, d)
    along = np.sum(keys * A, axis=2) @ a**age
    both = np.zeros(contexts)
    earlier = np.zeros((contexts, d, d))  # sum over m < l of a^(l-m) k_m A_m^T
    for l in range(n):
        here = keys[:, l, :, None] * A[:, l, None, :]
        both += np.einsum("cij,cij->c", here, here + 2 * earlier)
        earlier += here
        earlier *= a
    noise = task.noise**2 * np.sum(A * A, axis=(1, 2))
    return (lam * d - 2 * lam * along + lam * both + noise) / d
