"""Other activations at the oracle directions, ranked by exact risk, each at its best inverse
temperature and output gain.

notation: T = b sum_l a_l w_l at (k*, v*), b = gain, a_l = sigma(lam u_l) or h(lam u_l)/(sink + sum
h); g2 = gamma^2.

    R(b) = g2 (1 - 2 b E a_J + b^2 E a_J^2) + b^2 (L-1) E a_0^2,
        best b = g2 E a_J/(g2 E a_J^2 + (L-1) E a_0^2),   R = g2 (1 - b E a_J)

with the moments exact (Gaussian quadrature, or a Laplace transform of the denominator for
normalised weights). Of all unnormalised activations the best is sigma* = g2 p_1/(g2 p_1 + (L-1)
p_0) (optimal_sigma); at gamma = 1 it is a sigmoid with a bias, sigma*(u) = sigmoid(s u - s^2/2 -
log(L-1)). Activations differ in bias, growth and normalisation.

Routes: exact moments against sampled sequences, all activations on the same ones; sigma* in closed
form against a sigmoid whose inverse temperature, bias and gain are found numerically; Bayes as
softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import erf, expit

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import mean_and_error, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.numerics.integrals.quadrature import normal_panels
from attnscope.predictors.attention import Normalised, Softmax, SoftmaxOne, SoftplusAttention
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.optimal_sigma import OptimalSigma, optimal_sigma_log_excess
from attnscope.theory.risks.normalised_risk import weight_moments
from attnscope_claims.drawing import figure, legend, panel, sampled_points

DIM = 4
LENGTH = 10
NU = 10.0
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "erf": erf,
    "tanh": np.tanh,
    "linear": lambda x: x,
    "linear, offset 1": lambda x: 1 + x,
    "relu": lambda x: np.maximum(x, 0.0),
    "softplus": lambda x: np.logaddexp(0.0, x),
    "sigmoid": expit,
    "exp": lambda x: np.exp(np.minimum(x, 300.0)),
}
NORMALISED: dict[str, type[Normalised]] = {
    "softplus, normalised": SoftplusAttention,
    "softmax-1": SoftmaxOne,
    "softmax": Softmax,
}
ODD_NAMES = ("erf", "tanh", "linear")
MINIMUM_TOLERANCE = 1e-8  # the flat bottom of a numerical minimum
MINIMUM_WHY = "the flat bottom of a numerical minimum, searched to 1e-7 in its arguments"
# inverse temperatures searched: linear in effect at the low end, steps at the high end
LOWEST_INVERSE_TEMPERATURE = 1e-3
HIGHEST_INVERSE_TEMPERATURE = 30.0
# What the statement says of the exact best risks: sigma*, the odd activations (erf, tanh, linear),
# softmax, normalised softplus, unnormalised exp.
STAR_RISK = 0.2195
ODD_RISK = 0.5
SOFTMAX_RISK = 0.1121
SOFTPLUS_RISK = 0.3232
EXP_RISK = 0.4191


class Best(NamedTuple):
    """Least risk of an activation with its inverse temperature and gain."""

    risk: float
    inverse_temperature: float
    gain: float


def _moments(
    task: SingleLocation, sigma: Callable[[np.ndarray], np.ndarray], lam: float
) -> tuple[float, float, float]:
    """E a_J, E a_J^2, E a_0^2 of a_l = sigma(lam u_l), by nodes that are split at 0 for kinks."""
    s = task.signal
    gam = task.gamma
    (g1, w1), (g0, w0) = (
        normal_panels([(-m / sd, 1 / max(lam * sd, 1e-9))], [-m / sd])[0]
        for m, sd in ((s, gam), (0.0, 1.0))
    )
    a1 = sigma(lam * (s + gam * g1))
    a0 = sigma(lam * g0)
    return float(w1 @ a1), float(w1 @ (a1 * a1)), float(w0 @ (a0 * a0))


def check(context: Context) -> Evidence:
    task = SingleLocation.spiked(DIM, LENGTH, NU)
    best = ranking(task)
    drawn = _sampled_risks(task, best, context.pick(60_000, 600_000), context.seed)
    star = math.exp(optimal_sigma_log_excess(1.0, task.signal, LENGTH)[0])
    biased = _biased_sigmoid(task)
    least = min(biased, *(best[x].risk for x in ACTIVATIONS))
    comparisons = (
        *(sampled(f"{name}: sampled", best[name].risk, *drawn[name]) for name in best),
        worst(
            "sigmoid with the best bias against sigma*",
            star,
            biased,
            MINIMUM_TOLERANCE,
            MINIMUM_WHY,
            key="sigmoid",
        ),
        worst(
            "least of the unnormalised, with bias, against sigma*",
            star,
            least,
            MINIMUM_TOLERANCE,
            "sigma* is the least of all; 1e-8 for the numerical minima",
            key="bound",
            rule="at least",
        ),
        worst(
            "softmax at its best temperature against Bayes",
            task.bayes_risk().value,
            best["softmax"].risk,
            MINIMUM_TOLERANCE,
            MINIMUM_WHY,
            key="bayes",
        ),
        _as_stated("sigma*", STAR_RISK, [biased], "star"),
        _as_stated(
            "erf, tanh and linear", ODD_RISK, [best[x].risk for x in ODD_NAMES], "odd"
        ),
        _as_stated("softmax", SOFTMAX_RISK, [best["softmax"].risk], "softmax"),
        _as_stated(
            "normalised softplus",
            SOFTPLUS_RISK,
            [best["softplus, normalised"].risk],
            "softplus",
        ),
        _as_stated("unnormalised exp", EXP_RISK, [best["exp"].risk], "exp"),
    )
    order = sorted(best, key=lambda name: best[name].risk)
    notes = f"A sigmoid with bias reaches sigma* ({star:.4f}), without it {best['sigmoid'].risk:.4f}."
    rows = (
        ("Bayes", task.bayes_risk().value),
        *((name, best[name].risk) for name in order),
        ("predicting the mean", 1.0),
    )
    title = f"Best risks, L = {LENGTH}, nu = {NU:g}"
    table = Table(title, ("activation", "risk"), rows, digits=4)
    return Evidence(comparisons, _figure(drawn), notes, tables=(table,))


def _as_stated(name: str, value: float, found: list[float], key: str) -> Comparison:
    """Exact best risks against the number in the statement."""
    return stated(
        key,
        f"best risk of {name}, as stated",
        value,
        found,
        1e-4,
        by="exact moments, numerical minimisation",
    )


def ranking(task: SingleLocation) -> dict[str, Best]:
    """Every activation at its best inverse temperature and gain; sigma* needs neither."""
    out = {
        name: _best_inverse_temperature(task, partial(_moments, task, f))
        for name, f in ACTIVATIONS.items()
    }
    out["sigma*"] = Best(
        math.exp(optimal_sigma_log_excess(task.gamma, task.signal, task.length)[0]), 1.0, 1.0
    )
    for name, kind in NORMALISED.items():
        out[name] = _best_inverse_temperature(task, partial(_normalised_moments, task, kind))
    return out


def _normalised_moments(
    task: SingleLocation, kind: type[Normalised], lam: float
) -> tuple[float, float, float]:
    """E a_J, E a_J^2, E a_0^2 of a_l = h(lam u_l)/(sink + sum h)."""
    return weight_moments(kind(lam), lam, task.gamma, task.signal, 1, task.length)[:3]


def _best_inverse_temperature(
    task: SingleLocation, moments: Callable[[float], tuple[float, float, float]]
) -> Best:
    """Least risk over inverse temperature (a coarse logarithmic grid, then golden section)
    and gain (closed form).
    """
    g2 = task.gamma**2
    L = task.length

    def at(lam: float) -> Best:
        first, second, outside = moments(lam)
        gain = g2 * first / (g2 * second + (L - 1) * outside)
        return Best(g2 * (1 - gain * first), lam, gain)

    grid = np.geomspace(LOWEST_INVERSE_TEMPERATURE, HIGHEST_INVERSE_TEMPERATURE, 15)
    i = int(np.argmin([at(float(lam)).risk for lam in grid]))
    low = math.log(grid[max(i - 1, 0)])
    high = math.log(grid[min(i + 1, grid.size - 1)])
    found = minimize_scalar(
        lambda x: at(math.exp(x)).risk,
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return min(at(math.exp(found.x)), at(float(grid[i])))


def _biased_sigmoid(task: SingleLocation) -> float:
    """Least risk of b sigmoid(lam u + bias), found numerically in (log lam, bias)
    with the best b.
    """

    def value(p: np.ndarray) -> float:
        sigmoid = lambda x: expit(x + p[1])
        first, second, outside = _moments(task, sigmoid, math.exp(p[0]))
        return 1 - first**2 / (second + (task.length - 1) * outside)

    return float(
        minimize(
            value, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13}
        ).fun
    )


def _weights(name: str, scores: np.ndarray, best: Best, task: SingleLocation) -> np.ndarray:
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](best.inverse_temperature * scores)
    if name in NORMALISED:
        return NORMALISED[name](1.0).weights(best.inverse_temperature * scores)
    return OptimalSigma(task.gamma, task.signal, task.length).weights(scores)


def _sampled_risks(
    task: SingleLocation, best: dict[str, Best], n: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Mean squared errors on the same sampled sequences."""
    x, y, _ = task.sample(n, seed=int(np.random.default_rng([seed, 605]).integers(2**31)))
    u = x @ task.key
    w = x @ task.value

    def output(name: str) -> np.ndarray:
        weights = _weights(name, u, best[name], task)
        return best[name].gain * np.sum(weights * w, axis=1)

    return {name: mean_and_error((y - output(name)) ** 2) for name in best}


def _figure(drawn: dict[str, tuple[float, float]]) -> Figure:
    nus = np.array([1.0, 3.0, 6.0, NU, 15.0, 20.0])
    by_nu = [ranking(SingleLocation.spiked(DIM, LENGTH, nu)) for nu in nus]
    apart = max(t["softmax-1"].risk / t["softmax"].risk - 1 for t in by_nu)
    looks: dict[str, tuple[str, int]] = {
        "sigmoid": ("sigmoid", 0),
        "linear": ("linear (limit of erf, tanh)", 1),
        "linear, offset 1": ("linear, offset 1", 1),
        "exp": ("exp", 2),
        "relu": ("relu (limit of softplus)", 3),
        "softplus, normalised": ("softplus, normalised", 4),
        "sigma*": ("sigma*", 6),
        "softmax": (f"softmax (softmax-1: at most {100 * apart:.1f} % above)", 5),
    }  # label and colour; softmax-1 would lie under softmax

    marks: list[Mark] = []
    for name, (label, color) in looks.items():
        y = [t[name].risk for t in by_nu]
        thin = name == "linear, offset 1"
        marks.append(Line(nus, y, label, color, dashed=name in NORMALISED, thin=thin))
        marks.append(sampled_points([NU], [drawn[name]], "", color))

    return figure(
        "Activations at their best inverse temperature and gain (lines exact, points sampled)",
        panel(
            f"L = {LENGTH}; dashed: normalised",
            "strength nu of the spike",
            "risk",
            *marks,
            legend(),
            log="y",
        ),
    )


CLAIM = Claim(
    id="beyond-05-activations",
    title="Other activations, ranked by exact risk",
    statement=(
        "[At the oracle directions, each at its best inverse temperature and gain, no unnormalised "
        f"activation has a lower risk than sigma*](bound), [{STAR_RISK:g}](star).",
        "[When gamma = 1, sigma* is a sigmoid with a bias](sigmoid).",
        f"[Odd activations (erf, tanh, linear) do much worse at an O(1) spike: {ODD_RISK:g}](odd).",
        f"[Softmax is Bayes](bayes) and [does better than all of them: {SOFTMAX_RISK:g}](softmax).",
        "Both growth and normalisation are needed: [normalised softplus, of linear growth, stays far "
        f"above softmax at {SOFTPLUS_RISK:g}](softplus), and [exp without normalisation at {EXP_RISK:g}](exp).",
    ),
    headline="softmax",
    provenance=Provenance(
        "sharpened",
        ("C/activations",),
        "exact risks and their order",
    ),
    hypotheses=(
        "gamma = 1, spike nu = 10, L = 10, k = k*, v = v*, inverse temperatures between 0.001 and 30"
    ),
    routes=(
        "exact moments of the weights; sigma* in closed form",
        "sampled sequences; numerical minimisation",
    ),
    rests_on=("beyond-01-softmax-is-bayes",),
    check=check,
    snippet="""\
import attnscope as at
task = at.SingleLocation.spiked(dim=20, length=10, strength=10.0)
oracle = at.Overlaps.oracle()
for head in (at.Erf(0.1), at.SoftplusAttention(3.0), at.optimal_sigma(task), at.SoftmaxOne(3.0), at.Softmax(10**0.5)):
    print(head, at.risk(task, head, oracle).value)
""",
)
