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
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import (
    mean_and_error,
    sampled,
    stated,
    worst,
)
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure
from attnscope.numerics.border.estimate import Estimate
from attnscope.numerics.border.x64 import x64
from attnscope.predictors.heads import BayesSoftmax
from attnscope.predictors.predictions import attention_weights, predict
from attnscope.tasks.planted.spike_mixture import SpikeMixture
from attnscope_claims.drawing import figure, panel, sampled_points

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
    bayes = np.array([table[name]["Bayes-softmax"].on_tokens for name in quadrature])
    losses = np.array([row[kind].loss for row in table.values() for kind in OWN_SOFTMAX])
    # (settings, 2) each: what softmax-1 gains over plain heads, and its standard error
    biased, bare = (
        np.array([row[kind].gain for row in table.values()]) for kind in OWN_SOFTMAX[:2]
    )
    no_bias = table["unequal"]["no bias"].risk
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
            bayes,
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
    )
    notes = (
        "With |mu|^2 = 16, 6 and P = .3, .7 the joint softmax "
        f"without bias and prior has {no_bias[0]:.3f} instead of "
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


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Bayes-softmax": _joint_weights,
    "no bias": _joint_weights,
    "softmax-1, bias": _heads(1.0, True),
    "softmax-1": _heads(1.0, False),
    "plain heads": _heads(0.0, False),
}


def _parameters(kind: str, it: SpikeMixture, scores: np.ndarray) -> np.ndarray:
    H = it.spikes
    if KINDS[kind] is _joint_weights:
        return it.bias if kind == "Bayes-softmax" else np.zeros(H)
    return _tune_parameters(kind, np.repeat([0.9, 0.8, -5.0], H), scores)


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


class Measured(NamedTuple):
    """Of one kind of attention, each (mean, standard error): risk over fresh scores, squared error
    on tokens (of a joint softmax), loss to Bayes and gain over plain heads on the same scores.
    """

    risk: tuple[float, float]
    on_tokens: tuple[float, float] | None
    loss: tuple[float, float]
    gain: tuple[float, float]


def _row(name: str, tune: int, measure: int, rng: np.random.Generator) -> dict[str, Measured]:
    it = task(name)
    scores, fresh = _scores(it, tune, rng), _scores(it, measure, rng)
    batch = it.sample(measure, int(rng.integers(2**31)))
    tuned = {kind: _parameters(kind, it, scores) for kind in KINDS}
    losses = {
        kind: _loss(weights(fresh, tuned[kind], np), np) for kind, weights in KINDS.items()
    }

    def on_tokens(bias: np.ndarray) -> tuple[float, float]:
        T = predict(BayesSoftmax(1.0, bias), it.means, it.outputs, batch.tokens)
        return mean_and_error((T - batch.target) ** 2)

    return {
        kind: Measured(
            mean_and_error(loss),
            on_tokens(tuned[kind]) if KINDS[kind] is _joint_weights else None,
            mean_and_error(loss - losses["Bayes-softmax"]),
            mean_and_error(losses["plain heads"] - loss),
        )
        for kind, loss in losses.items()
    }


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


def _figure(table: dict[str, dict[str, Measured]]) -> Figure:
    """Kinds side by side at each setting."""
    place = np.arange(len(table))
    marks = [
        sampled_points(
            place + 0.12 * (i - (len(KINDS) - 1) / 2),
            [row[kind].risk for row in table.values()],
            kind,
            i,
        )
        for i, kind in enumerate(KINDS)
    ]
    only = panel(
        "averages over scores, 95 %",
        "spikes",
        "risk (null 1)",
        *marks,
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
    snippet="""\
import numpy as np
import attnscope as at
task = at.SpikeMixture(dim=20, length=10, strengths=(4.0, 6**0.5), prior=(0.3, 0.7))
batch = task.sample(20_000)
for bias in (task.bias, 0 * task.bias):
    T = at.predict(at.BayesSoftmax(1.0, bias), task.means, task.outputs, batch.tokens)
    print(round(float(np.mean((T - batch.target) ** 2)), 3), round(task.bayes_risk().value, 4))
""",
)
