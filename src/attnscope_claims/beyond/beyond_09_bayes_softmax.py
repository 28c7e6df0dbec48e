"""One softmax over heads and tokens together is Bayes' rule for spikes in several directions; plain
heads beside it are not.

notation: X_J = mu_h + gam Z with prior P_h, other tokens N(0, I), Y = X_J.v, scores u_hl =
mu_h.x_l.

Exact: P(h, J = l | X) is the softmax over all (h, l) of mu_h.x_l/gam^2 + b_h - (1/gam^2 -
1)|x_l|^2/2, b_h = log P_h - |mu_h|^2/(2 gam^2), against Gaussian densities of whole sequences, to
1e-12, for random spikes, priors and gam. Its risk at gam = 1: quadrature
(tasks/planted/spike_mixture.py).

Beside it, at gam = 1 and L = 10: the same without bias and prior; heads with a softmax each, or
with softmax-1, e^x/(1 + sum e^x), which may give no weight at all, with and without a bias; one
head. Their gains, output gains and biases are tuned by L-BFGS from one start on sampled scores (a
local search, so a tuned risk is an upper bound of the best). At gam = 1 the outputs w_l = x_l.v are
standard normal and independent of the scores, so any T = sum_l q_l w_l has risk E[(1 - q_J)^2 +
sum_{l != J} q_l^2]: this average over fresh scores is the prediction, the squared error on tokens
in R^20 the measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import (
    BAND,
    exact_count,
    mean_and_error,
    sampled,
    stated,
    worst,
)
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.numerics.border.estimate import Estimate
from attnscope.numerics.border.x64 import x64
from attnscope.predictors.heads import BayesSoftmax
from attnscope.predictors.predictions import attention_weights, predict
from attnscope.tasks.planted.spike_mixture import SpikeMixture
from attnscope_claims.drawing import figure, legend, panel

DIM, LENGTH = 20, 10
E = np.eye(DIM)
A = 10**0.5
SETTINGS: dict[str, tuple[list[np.ndarray], tuple[float, ...] | None]] = {
    "2 directions": ([A * E[0], A * E[1]], None),
    "4 directions": ([A * E[i] for i in range(4)], None),
    "+-k": ([A * E[0], -A * E[0]], None),
    "unequal": ([4 * E[0], 6**0.5 * E[1]], (0.3, 0.7)),  # |mu|^2 = 16 and 6
    "(+-1, +-1)": ([5**0.5 * (a * E[0] + b * E[1]) for a in (1, -1) for b in (1, -1)], None),
}
ROUNDING_TOLERANCE = 1e-12
# What the statement says. Risks of the joint softmax at "unequal", with and without bias and prior;
# what heads with a softmax or softmax-1 of their own lose to it in every setting, at least; and
# which share of what softmax-1 with a bias gains over plain heads it gains without, at most.
BAYES_RISK = 0.2433
NO_BIAS_RISK = 0.499
LEAST_LOSS = 0.065
SHARE_WITHOUT_BIAS = 0.08
OWN_SOFTMAX = ("softmax-1, bias", "softmax-1", "plain heads")


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 609])
    tune, measure = context.pick((4000, 20_000), (30_000, 200_000))  # sequences
    table = {name: _row(name, tune, measure, rng) for name in SETTINGS}
    exact = {name: _bayes_risk(name, 10 * measure) for name in SETTINGS}
    quadrature = [name for name in SETTINGS if exact[name].method == "2-D quadrature"]
    bayes = [table[name]["Bayes-softmax"] for name in quadrature]
    others = [kind for kind in KINDS if kind != "Bayes-softmax"]
    losses = np.array([row[kind][4:6] for row in table.values() for kind in OWN_SOFTMAX])
    # (settings, 2) each: what softmax-1 gains over plain heads, and its standard error
    biased, bare = (
        np.array([row[kind][6:8] for row in table.values()]) for kind in OWN_SOFTMAX[:2]
    )
    no_bias = table["unequal"]["no bias"]
    below = sum(
        table[name][kind][4] < -5 * table[name][kind][5]
        for name in SETTINGS
        for kind in others
    )
    comparisons = (
        worst(
            "weights against whole-sequence densities",
            0.0,
            _largest_gap(rng),
            ROUNDING_TOLERANCE,
            "roundoff of exponentials of log densities, sums of 18",
            key="posterior",
            scale=1.0,
        ),
        sampled(
            "Bayes-softmax: quadrature and squared error",
            [exact[n].value for n in quadrature],
            [b[2] for b in bayes],
            [b[3] for b in bayes],
            key="attains",
        ),
        stated(
            "number",
            "Bayes risk, |mu|^2 = 16 and 6, P = 0.3 and 0.7, as stated",
            BAYES_RISK,
            exact["unequal"].value,
            1e-4,
            by="2-D quadrature",
        ),
        *(_scores_and_tokens(kind, table) for kind in KINDS),
        exact_count(
            "alternatives below the Bayes-softmax",
            0,
            below,
            why="an exact count; below means by 5 standard errors (3e-7 each)",
            scale=len(SETTINGS) * len(others),
        ),
        sampled(
            "heads with a softmax of their own: risk above the joint softmax, 15 cases",
            LEAST_LOSS,
            losses,
            key="own",
            rule="at least",
            routes=("stated", "both on the same scores"),
        ),
        sampled(
            "gain of softmax-1 over plain heads without a bias, 5 settings",
            SHARE_WITHOUT_BIAS * biased[:, 0],
            bare[:, 0],
            bare[:, 1] + SHARE_WITHOUT_BIAS * biased[:, 1],
            key="gain",
            rule="at most",
            routes=("the stated share of the gain with a bias", "the same scores"),
        ),
        worst(
            "bias and prior drop for equal norms and priors",
            0.0,
            _bias_effect("2 directions"),
            ROUNDING_TOLERANCE,
            "roundoff: a constant added to all scores drops out of a softmax",
            key="dropped",
            scale=1.0,
        ),
        stated(
            "needed",
            "joint softmax without bias and prior, |mu|^2 = 16 and 6, as stated",
            NO_BIAS_RISK,
            no_bias[0],
            1e-3,
            no_bias[1],
            by="average over scores",
        ),
        _with_gamma(measure, context.seed),
    )
    notes = (
        "With |mu|^2 = 16, 6 and P = .3, .7 the joint softmax "
        f"without bias and prior has {table['unequal']['no bias'][0]:.3f} instead of "
        f"{exact['unequal'].value:.4f}."
    )
    return Evidence(comparisons, _figure(table), notes)


@cache
def task(name: str) -> SpikeMixture:
    means, prior = SETTINGS[name]
    return SpikeMixture(DIM, LENGTH, means=np.array(means), prior=prior, outputs=E[-1])


def _bayes_risk(name: str, samples: int) -> Estimate:
    return task(name).bayes_risk(samples=samples)


# -- weights q_l of every kind, from scores u (n, H, L) and parameters p ---------------------------


def _softmax(x: Any, xp: Any, axis: Any, extra: float = 0.0) -> Any:
    """softmax over `axis`; extra = 1 adds a term e^0 to the denominator (softmax-1)."""
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.maximum(top, 0.0) if extra else top
    e = xp.exp(x - top)
    return e / (extra * xp.exp(-top) + xp.sum(e, axis=axis, keepdims=True))


def _joint_weights(u: Any, p: Any, xp: Any) -> Any:
    return _softmax(u + p[:, None], xp, (1, 2)).sum(1)


def _heads(extra: float, biased: bool) -> Callable[[Any, Any, Any], Any]:
    def weights(u: Any, p: Any, xp: Any) -> Any:
        gain, out, bias = p.reshape(3, -1, 1)
        return (out * _softmax(gain * u + (bias if biased else 0.0), xp, 2, extra)).sum(1)

    return weights


def _one_head_weights(u: Any, p: Any, xp: Any) -> Any:
    return p[0] * _softmax((p[1:, None] * u).sum(1), xp, 1)


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Bayes-softmax": _joint_weights,
    "no bias": _joint_weights,
    "softmax-1, bias": _heads(1.0, True),
    "softmax-1": _heads(1.0, False),
    "plain heads": _heads(0.0, False),
    "one head": _one_head_weights,
}


def _parameters(kind: str, it: SpikeMixture, scores: np.ndarray) -> np.ndarray:
    H = it.spikes
    if KINDS[kind] is _joint_weights:
        return it.bias if kind == "Bayes-softmax" else np.zeros(H)
    if KINDS[kind] is _one_head_weights:
        start = np.concatenate(
            [[0.5], np.ones(1), np.full(H - 1, 0.1)]
        )  # near one spike: all alike would find none of +-k
    else:
        start = np.concatenate([np.full(H, 0.9), np.full(H, 0.8), np.full(H, -5.0)])
    return _tune_parameters(kind, start, scores)


def _loss(q: Any, xp: Any) -> Any:
    """E[(T - Y)^2 | scores] with the informative token first."""
    return (1 - q[:, 0]) ** 2 + xp.sum(q[:, 1:] ** 2, axis=1)


@cache
def _value_and_slope(kind: str) -> Any:
    import jax
    from jax import numpy as jnp

    return jax.jit(jax.value_and_grad(lambda p, u: _loss(KINDS[kind](u, p, jnp), jnp).mean()))


def _tune_parameters(kind: str, start: np.ndarray, scores: np.ndarray) -> np.ndarray:
    with x64():
        function = _value_and_slope(kind)
        numbers = lambda p: (lambda v, g: (float(v), np.asarray(g)))(*function(p, scores))
        return minimize(
            numbers, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}
        ).x


# -- the two routes --------------------------------------------------------------------------------


def _scores(it: SpikeMixture, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, H, L) scores, informative token first, drawn in the span of the spikes."""
    axes = it._spike_axes
    mu = it.means @ axes.T
    x = rng.standard_normal((n, it.length, len(axes)))
    x[:, 0] += mu[rng.choice(it.spikes, size=n, p=it.prior)]
    return np.einsum("nlq,hq->nhl", x, mu)


def _row(
    name: str, tune: int, measure: int, rng: np.random.Generator
) -> dict[str, tuple[float, ...]]:
    """Per kind: risk over fresh scores, squared error on tokens, loss to Bayes and gain over plain
    heads, both on the same scores; each with its standard error.
    """
    it = task(name)
    scores, fresh = _scores(it, tune, rng), _scores(it, measure, rng)
    batch = it.sample(measure, int(rng.integers(2**31)))
    bayes = _loss(_joint_weights(fresh, it.bias, np), np)
    out: dict[str, tuple[float, ...]] = {}
    tuned = {kind: _parameters(kind, it, scores) for kind in KINDS}
    plain = _loss(KINDS["plain heads"](fresh, tuned["plain heads"], np), np)
    for kind, weights in KINDS.items():
        p = tuned[kind]
        loss = _loss(weights(fresh, p, np), np)
        if weights is _joint_weights:
            T = predict(BayesSoftmax(1.0, p), it.means, it.outputs, batch.tokens)
        else:
            u = np.einsum("nld,hd->nhl", batch.tokens, it.means)
            T = (weights(u, p, np) * (batch.tokens @ it.outputs[0])).sum(1)
        out[kind] = (
            *mean_and_error(loss),
            *mean_and_error((T - batch.target) ** 2),
            *mean_and_error(loss - bayes),
            *mean_and_error(plain - loss),
        )
    return out


def _scores_and_tokens(
    kind: str, table: dict[str, dict[str, tuple[float, ...]]]
) -> Comparison:
    rows = np.array([row[kind] for row in table.values()])
    return sampled(
        f"{kind}: scores and tokens, {len(rows)} settings",
        rows[:, 0],
        rows[:, 2],
        np.hypot(rows[:, 1], rows[:, 3]),
    )


def _largest_gap(rng: np.random.Generator) -> float:
    """Largest difference between weights and Bayes' rule with Gaussian densities of whole
    sequences, over random tasks.
    """
    gaps = []
    for gamma in (0.5, 0.8, 1.0, 1.5):
        means = 1.5 * rng.standard_normal((3, 5))
        it = SpikeMixture(5, 6, means=means, prior=rng.dirichlet([2.0] * 3), gamma=gamma)
        x = it.sample(50, int(rng.integers(2**31))).tokens
        background = -(x**2).sum(2) / 2  # log densities, without (2 pi)^(-d/2)
        # (n, H, L)
        shifted = -((x[:, None] - means[:, None]) ** 2).sum(3) / (2 * gamma**2) - 5 * np.log(
            gamma
        )
        whole = (
            background.sum(1)[:, None, None]
            - background[:, None]
            + shifted
            + np.log(it.prior)[:, None]
        )
        p = np.exp(whole - whole.max((1, 2), keepdims=True))
        p /= p.sum((1, 2), keepdims=True)
        q = attention_weights(BayesSoftmax(1 / gamma**2, it.bias, it.curvature), means, x)
        gaps.append(np.abs(p - q).max())
    return float(max(gaps))


def _bias_effect(name: str) -> float:
    it = task(name)
    x = it.sample(200, 1).tokens
    with_bias, without = (
        attention_weights(BayesSoftmax(1.0, b), it.means, x) for b in (it.bias, 0 * it.bias)
    )
    return float(np.abs(with_bias - without).max())


def _with_gamma(n: int, seed: int) -> Comparison:
    """gam = .8, unequal spikes, outputs of their own: posterior variance against squared error."""
    it = SpikeMixture(
        6,
        LENGTH,
        strengths=(2.0, 1.0),
        prior=(0.4, 0.6),
        gamma=0.8,
        outputs=np.eye(6)[[4, 5]],
        seed=3,
    )
    batch = it.sample(n, seed + 17)
    T = predict(
        BayesSoftmax(1 / 0.64, it.bias, it.curvature), it.means, it.outputs, batch.tokens
    )
    known, (mean, error) = (
        it.bayes_risk(n, seed + 18),
        mean_and_error((T - batch.target) ** 2),
    )
    return sampled(
        "gamma = 0.8, two outputs", known.value, mean, np.hypot(error, known.error)
    )


def _figure(table: dict[str, dict[str, tuple[float, ...]]]) -> Figure:
    """Kinds side by side at each setting: a bar for the average over scores, a point for tokens."""
    width = 0.12  # of a place, for each kind
    at = np.arange(len(table))
    marks: list[Mark] = []
    for i, kind in enumerate(KINDS):
        values = np.array([row[kind] for row in table.values()])
        x = at + width * (i - (len(KINDS) - 1) / 2)
        half = width / 2
        ends = np.stack([x - half, x + half, np.full(len(x), np.nan)], axis=1).ravel()
        marks += [
            Line(ends, np.repeat(values[:, 0], 3), kind, i),
            Points(x, values[:, 2], "", i, BAND * values[:, 3]),
        ]
    only = panel(
        "bars: average over scores",
        "spikes",
        "risk (null 1)",
        *marks,
        legend("on tokens, 95 %"),
        x_range=(-0.5, len(table) - 0.5),
        y_range=(0.0, 1.0),
        x_names=("two", "four", "+-k", "unequal", "(+-1, +-1)"),
    )
    return figure("Joint softmax and separate heads, L = 10", only)


CLAIM = Claim(
    id="beyond-09-bayes-softmax",
    title="The softmax over heads and tokens is the exact posterior",
    statement=(
        "[For one informative token with one of several spikes, the softmax over heads and tokens "
        "together, with bias log P_h - |mu_h|^2/(2 gamma^2) and the term in |x|^2, is the exact "
        "posterior](posterior).",
        f"[It attains the Bayes risk](attains), [{BAYES_RISK:g} for spikes of squared length 16 and 6 "
        "with priors 0.3 and 0.7](number).",
        "[Heads with a softmax or softmax-1 of their own do not: in each of five settings their risk "
        f"is higher by at least {LEAST_LOSS:g}](own).",
        "[Softmax-1 gains mainly through a bias: without one it gains at most "
        f"{SHARE_WITHOUT_BIAS:g} of that over plain heads](gain).",
        "[Bias and prior may be dropped if all norms and priors are equal](dropped), but [for the "
        f"unequal spikes above the risk is then {NO_BIAS_RISK:g}](needed).",
    ),
    headline="number",
    provenance=Provenance(
        "sharpened",
        ("D/bayes-softmax",),
        "bias, prior, gamma, quadrature and table",
    ),
    hypotheses=(
        "one informative token X_J = mu_h + gamma Z among N(0, I), uniform position; "
        "table: L = 10, gamma = 1, common output"
    ),
    routes=(
        "quadrature; averages over scores given which the error is known",
        "densities of whole sequences; squared errors on tokens in R^20",
    ),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "task = at.SpikeMixture(dim=20, length=10, strengths=(4.0, 6**0.5), prior=(0.3, 0.7))\n"
        "batch = task.sample(20_000)\n"
        "for bias in (task.bias, 0 * task.bias):\n"
        "    T = at.predict(at.BayesSoftmax(1.0, bias), task.means, task.outputs, batch.tokens)\n"
        "    print(round(float(np.mean((T - batch.target) ** 2)), 3), "
        "round(task.bayes_risk().value, 4))\n"
    ),
)
