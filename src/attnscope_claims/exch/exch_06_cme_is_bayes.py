"""CME attention with a constant ridge is Bayesian linear regression in context, mean and variance.

notation: W ~ N(0, lam), v = W phi(k) + s xi; kernel k(x, y) = phi(x).phi(y); Phi the features of
the L keys.

    E[v | q, context]  = V^T (Phi Phi^T + (s^2/lam) I)^-1 Phi phi(q)
        = cme_attention with ridge s^2/lam
    Var[v | q, context] = s^2 + lam (k(q, q) - k_q^T (Phi Phi^T + (s^2/lam) I)^-1 k_q)
        = s^2 + lam cme_variance

The ridge does not grow with L. Routes: the posterior of W in feature space (p x p systems) against
the operator in token space (L x L systems); the risk, exact for normal keys, against squared errors
of the operator on sampled contexts; coverage of the 90 % intervals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import Z, mean_and_error, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure
from attnscope.predictors.operators.context_attention import cme_attention, cme_variance
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope.tasks.exchangeable.sphere_regression import SphereRegression
from attnscope_claims.drawing import figure, panel

LENGTHS = (0, 1, 3, 10, 30, 100, 300)
RISK_LENGTHS = (1, 2, 4, 8, 16, 32)
ROUNDING_TOLERANCE = 1e-10  # stated beforehand
COVERAGE = 0.9  # share of values in their intervals, as the statement says
QUANTILE = 1.6448536269514722  # normal, at (1 + 0.9)/2
SYSTEMS_WHY = "roundoff of systems of condition up to L lam |phi|^2/s^2 = 1e5"


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 6])
    tasks = _tasks(rng)
    gaps = {
        name: np.array([_gaps(task, L, int(rng.integers(2**31))) for L in LENGTHS])
        for name, task in tasks.items()
    }
    task, n = tasks["identity"], context.pick(4000, 40_000)
    errors = np.array(
        [
            mean_and_error(_errors(task, L, n, int(rng.integers(2**31)))[0])
            for L in RISK_LENGTHS
        ]
    ).T
    risk = Series(
        "risk",
        "risk of CME attention: exact Bayes risk",
        RISK_LENGTHS,
        [task.bayes_risk(L).value for L in RISK_LENGTHS],
        errors[0],
        error=errors[1],
    )
    inside = _errors(task, 5, n, int(rng.integers(2**31)))[1]
    comparisons = (
        *(
            worst(
                f"mean: CME minus posterior, {name}",
                0.0,
                g[:, 0].max(),
                ROUNDING_TOLERANCE,
                SYSTEMS_WHY,
                key=f"mean-{name.split()[-1]}",
                scale=1.0,
            )
            for name, g in gaps.items()
        ),
        *(
            worst(
                f"variance: CME minus posterior, {name}",
                0.0,
                g[:, 1].max(),
                ROUNDING_TOLERANCE,
                SYSTEMS_WHY,
                key=f"variance-{name.split()[-1]}",
                scale=1.0,
            )
            for name, g in gaps.items()
        ),
        risk,
        worst(
            "coverage of 90 % intervals, L = 5",
            COVERAGE,
            inside.mean(),
            Z * (0.9 * 0.1 / len(inside)) ** 0.5,
            "5 standard errors of a binomial share; a true statement fails for 8e-7 of the seeds",
            key="coverage",
        ),
    )
    notes = "The ridge is noise^2/prior variance at every length; rules that grow with L are not Bayes."
    return Evidence(comparisons, _figure(risk), notes)


def _tasks(rng: np.random.Generator) -> dict[str, LinearMap]:
    frequencies, phases = rng.standard_normal((3, 20)), rng.uniform(0, 2 * np.pi, 20)
    waves = lambda k: np.cos(k @ frequencies + phases) / 20**0.5
    return {
        "identity": LinearMap(3, 2, 1.0, 0.5),
        "20 cosines": LinearMap(3, 1, 4.0, 0.3, features=waves),
        "harmonics": SphereRegression(3, 0.5, degrees=(1, 2)),
    }


def _kernel(task: LinearMap) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """phi.phi as the operator wants it; for harmonics by the addition theorem, without features."""
    if hasattr(task, "covariance"):
        covariance = task.covariance
        return lambda x, y: covariance(x, np.broadcast_to(y, (len(x), *y.shape)))
    return lambda x, y: task.features(x) @ task.features(y).T


def _ridge(task: LinearMap, length: int) -> float:
    """The same at every length."""
    return task.noise**2 / task.prior_variance


def _cme(
    task: LinearMap, q: np.ndarray, k: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predictive mean and variance through the operators."""
    plain = task.dim_features == task.dim_key and not hasattr(task, "covariance")
    kernel: str | Callable = "linear" if plain else _kernel(task)
    ridge = _ridge(task, k.shape[-2])
    return (
        cme_attention(q, k, v, kernel, ridge=ridge),
        task.noise**2 + task.prior_variance * cme_variance(q, k, kernel, ridge=ridge),
    )


def _gaps(task: LinearMap, L: int, seed: int) -> tuple[float, float]:
    """Largest difference of (mean, variance) over three contexts."""
    b = task.sample(3, L, seed)
    exact = task.predictive(b.query, b.keys, b.values)
    mean, variance = _cme(task, b.query, b.keys, b.values)
    return float(np.abs(mean - exact.mean).max()), float(
        np.abs(variance - exact.variance).max()
    )


def _errors(task: LinearMap, L: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(squared error (n,), whether the value lies in its 90 % interval (n,))
    of CME attention on sampled contexts.
    """
    b = task.sample(n, L, seed)
    mean, variance = _cme(task, b.query, b.keys, b.values)
    inside = np.abs(b.target[:, 0] - mean[:, 0]) <= QUANTILE * variance**0.5
    return np.sum((b.target - mean) ** 2, axis=1), inside


def _figure(risk: Series) -> Figure:

    return figure(
        "CME attention with ridge noise^2/prior variance is Bayes",
        panel(
            "risk, normal keys in three dimensions",
            "length L",
            "squared error",
            *risk.marks("CME attention", 4),
            log="xy",
        ),
    )


CLAIM = Claim(
    id="exch-06-cme-is-bayes",
    title="CME attention with constant ridge is Bayesian regression",
    statement=(
        "[For values linear in features of the key with a Gaussian latent map, CME attention with "
        "the kernel of the features and ridge noise^2/prior variance is the posterior predictive "
        "mean](mean-identity, mean-cosines, mean-harmonics).",
        "[The same ridge serves every length from 0 to 300](mean-identity), so [its risk is the Bayes "
        "risk](risk).",
        "[The predictive variance is noise^2 + prior variance * cme_variance](variance-identity, "
        f"variance-cosines, variance-harmonics); [a share of {COVERAGE:g} of the values lies in the "
        "90 % intervals](coverage).",
    ),
    headline="coverage",
    provenance=Provenance(
        "same",
        ("B2/model",),
        "variance and numbers",
    ),
    hypotheses="identity, cosine and spherical-harmonic features; L = 0 to 300",
    routes=(
        "posterior of the map in feature space; exact Bayes risk",
        "operators in token space on sampled contexts",
    ),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "task = at.LinearMap(dim_key=3, dim_value=1, prior_variance=1.0, noise=0.5)\n"
        "b = task.sample(5, length=20, seed=0)\n"
        "cme = at.cme_attention(b.query, b.keys, b.values, kernel='linear', ridge=0.25)\n"
        "print(np.abs(cme - task.bayes_predict(b.query, b.keys, b.values)).max())\n"
    ),
)
