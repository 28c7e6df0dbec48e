"""The latent tasks are exchangeable and consistent: one model for every number of tokens.

notation: x_1 .. x_L tokens (for pairs: values given keys), p_L their law with the latent integrated
out, per = a permutation.

    exchangeable   p_L(x_per) = p_L(x)   consistent (Kolmogorov)
        int p_{L+1}(x_1 .. x_{L+1}) dx_{L+1} = p_L(x_1 .. x_L)

Together they say that the sequence can be continued for ever, so that by de Finetti's theorem there
is a latent variable given which tokens are independent and whose law does not depend on L.

Routes. `log_probability` of the tasks works with the posterior of the latent; here p_L is written
out as one multivariate normal with a dense covariance, or as a sum over topics of products, and
evaluated in the unpermuted order. Integrals over the last token are trapezoid sums over 24 standard
deviations (spectrally accurate; rounding remains), or sums over the vocabulary. What `sample` draws
is tested apart: the mean product of two tokens must not depend on their positions and has a closed
form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import BAND, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.tasks.exchangeable.gaussian_location import GaussianLocation
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope.tasks.exchangeable.sphere_regression import SphereRegression
from attnscope.tasks.exchangeable.topics import Topics
from attnscope_claims.drawing import figure, panel

LogLaws = tuple[float, float, float]
LENGTHS = (1, 2, 4, 8, 16, 32)
# pairs of positions whose products are sampled
PLACES = np.array([(0, 1), (0, 7), (3, 5), (6, 7)])
ROUNDING = (
    # relative: a logarithm of size |log p| is a sum of 32 terms through a factorisation of
    # condition < 1e3
    1e-11
)
ROUNDED_WHY = (
    "roundoff: 32 terms through a factorisation of condition < 1e3, 1e-11 (1 + |log p|)"
)
SUMMED_WHY = (
    "roundoff of log p, 1e-11 (1 + |log p|); the trapezoid sum is spectrally accurate"
)


KEYS = {
    "Gaussian location": "location",
    "linear map": "linear",
    "sphere regression": "sphere",
    "topics": "topics",
}
# What the statement says: mean product of two tokens, weighted by the inner product of the features
# of their keys; E (k.k')^2 = d = 3 for normal keys, and on the sphere E P_l P_m = 0 for l != m and
# 1/N_l for l = m, N = 3 and 5.
PRODUCTS = {"Gaussian location": 1.0, "linear map": 3.0, "sphere regression": 1 / 3 + 1 / 5}


class Case(NamedTuple):
    """One task, its log-laws at a length (written out, of a permutation, integral of the next token),
    and the products (pairs, n) of its tokens with their exact mean.
    """

    task: Any
    log_laws: Callable[[int, np.random.Generator, Any], LogLaws]
    products: Callable[[Any, int, int], np.ndarray]  # of n sequences, with a seed
    exact: float


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 1])
    cases = _cases(rng)
    n = context.pick(40_000, 400_000)
    # (lengths, 3)
    seen = {
        name: np.array([case.log_laws(L, rng, case.task) for L in LENGTHS])
        for name, case in cases.items()
    }
    products = {
        name: case.products(case.task, n, int(rng.integers(2**31)))
        for name, case in cases.items()
    }
    moments = {
        name: (cases[name].exact, *np.transpose([mean_and_error(row) for row in rows]))
        for name, rows in products.items()
    }
    comparisons = (
        *(
            worst(
                f"log-law of permuted tokens, {n}",
                s[:, 0],
                s[:, 1],
                ROUNDING * (1 + np.abs(s[:, 0])),
                ROUNDED_WHY,
                key=f"permuted-{KEYS[n]}",
            )
            for n, s in seen.items()
        ),
        *(
            worst(
                f"law with the last token integrated out, {n}",
                1.0,
                s[:, 2],
                ROUNDING * (1 + np.abs(s[:, 0])),
                SUMMED_WHY,
                key=f"marginal-{KEYS[n]}",
            )
            for n, s in seen.items()
        ),
        *(
            sampled(
                f"mean product of two tokens at any places, {n}",
                *moment,
                key=f"pairs-{KEYS[n]}",
            )
            for n, moment in moments.items()
        ),
    )
    notes = (
        f"Lengths {LENGTHS[0]} to {LENGTHS[-1]}, four tasks; differences are rounding, but for the "
        "sampled pairs."
    )
    return Evidence(comparisons, _figure(moments), notes)


def _cases(rng: np.random.Generator) -> dict[str, Case]:
    topics = Topics(rng.dirichlet(np.full(3, 3.0)), rng.dirichlet(np.ones(5), size=3))
    tasks: dict[str, tuple[Any, Any, Any]] = {
        "Gaussian location": (
            GaussianLocation(1, 1.0, 0.25),
            _gaussian_log_laws,
            _location_products,
        ),
        "linear map": (LinearMap(3, 1, 1.0, 0.5), _regression_log_laws, _weighted_products),
        "sphere regression": (
            SphereRegression(3, 0.5, degrees=(1, 2)),
            _regression_log_laws,
            _weighted_products,
        ),
        "topics": (topics, _topics_log_laws, _equal_tokens),
    }
    exact = PRODUCTS | {
        "topics": float(topics.prior @ np.sum(topics.emissions**2, axis=1)),
    }
    return {name: Case(*parts, exact[name]) for name, parts in tasks.items()}


def _pair_products(x: np.ndarray) -> np.ndarray:
    return x[:, PLACES[:, 0]] * x[:, PLACES[:, 1]]  # (n, pairs)


def _location_products(task: GaussianLocation, n: int, seed: int) -> np.ndarray:
    return _pair_products(task.sample(n, 8, seed).tokens[..., 0]).T


def _weighted_products(task: LinearMap, n: int, seed: int) -> np.ndarray:
    """v_i v_j phi(k_i).phi(k_j), of mean lam E (phi.phi)^2."""
    b = task.sample(n, 8, seed)
    phi = task.features(b.keys)
    inner = np.sum(phi[:, PLACES[:, 0]] * phi[:, PLACES[:, 1]], axis=-1)
    return (_pair_products(b.values[..., 0]) * inner).T


def _equal_tokens(task: Topics, n: int, seed: int) -> np.ndarray:
    x = task.sample(n, 8, seed).tokens
    return (x[:, PLACES[:, 0]] == x[:, PLACES[:, 1]]).T.astype(float)


def _log_laws(
    task: Any,
    written: float,
    tokens: tuple,
    permuted: tuple,
    longer: tuple,
    step: float = 1.0,
) -> LogLaws:
    next_law = np.exp(task.log_probability(*longer) - task.log_probability(*tokens))
    return written, float(task.log_probability(*permuted)), float(next_law.sum() * step)


def _gaussian_log_laws(L: int, rng: np.random.Generator, task: GaussianLocation) -> LogLaws:
    x = task.sample(1, L, int(rng.integers(2**31))).tokens[0]
    cov = task.noise_variance * np.eye(L) + task.prior_variance
    grid = (
        np.linspace(-12, 12, 801) * (task.noise_variance + task.prior_variance) ** 0.5
        + x.mean()
    )
    longer = np.concatenate([np.broadcast_to(x, (801, L, 1)), grid[:, None, None]], axis=1)
    written = _log_normal(x[:, 0], cov)
    step = grid[1] - grid[0]
    return _log_laws(task, written, (x,), (x[rng.permutation(L)],), (longer,), step)


def _regression_log_laws(L: int, rng: np.random.Generator, task: LinearMap) -> LogLaws:
    b = task.sample(1, L, int(rng.integers(2**31)))
    k = b.keys[0]
    v = b.values[0]
    per = rng.permutation(L)
    phi = task.features(k)
    cov = task.prior_variance * phi @ phi.T + task.noise**2 * np.eye(L)
    spread = (
        task.noise**2 + task.prior_variance * float(np.sum(task.features(b.query[0]) ** 2))
    ) ** 0.5
    centre = task.bayes_predict(b.query[0], k, v)[0]
    grid = centre + np.linspace(-12, 12, 801) * spread
    longer_k = np.broadcast_to(np.concatenate([k, b.query]), (801, L + 1, k.shape[1]))
    longer_v = np.concatenate([np.broadcast_to(v, (801, L, 1)), grid[:, None, None]], axis=1)
    written = _log_normal(v[:, 0], cov)
    step = grid[1] - grid[0]
    return _log_laws(task, written, (k, v), (k[per], v[per]), (longer_k, longer_v), step)


def _topics_log_laws(L: int, rng: np.random.Generator, task: Topics) -> LogLaws:
    x = task.sample(1, L, int(rng.integers(2**31))).tokens[0]
    joint = task.prior.copy()
    for token in x:
        joint = joint * task.emissions[:, token]
    longer = np.concatenate(
        [np.broadcast_to(x, (task.vocabulary, L)), np.arange(task.vocabulary)[:, None]],
        axis=1,
    )
    written = float(np.log(joint.sum()))
    return _log_laws(task, written, (x,), (x[rng.permutation(L)],), (longer,))


def _log_normal(x: np.ndarray, cov: np.ndarray) -> float:
    root = cholesky(cov, lower=True)
    white = solve_triangular(root, x, lower=True)
    return float(
        -np.log(np.diag(root)).sum() - (white @ white + len(x) * np.log(2 * np.pi)) / 2
    )


def _figure(moments: dict[str, tuple[float, np.ndarray, np.ndarray]]) -> Figure:
    drawn: list[Mark] = []
    for i, (name, (exact, mean, error)) in enumerate(moments.items()):
        places = np.arange(len(PLACES)) + 0.08 * (i - 1.5)
        drawn += [
            Line([-0.3, len(PLACES) - 0.7], [exact, exact], "", i),
            Points(places, mean, name, i, BAND * error),
        ]
    drawn.append(Line([], [], "exact", 6))

    return figure(
        "Exchangeable and consistent (lines exact, points measured)",
        panel(
            "products of two tokens, 95 % bars",
            "places of the two tokens",
            "mean product",
            *drawn,
            x_range=(-0.5, len(PLACES) - 0.5),
            x_names=tuple(f"{a + 1} and {b + 1}" for a, b in PLACES),
        ),
    )


CLAIM = Claim(
    id="exch-01-exchangeable",
    title="The latent tasks are exchangeable and consistent",
    statement=(
        "[Gaussian location, in-context linear regression, regression on the sphere and finite "
        "topics give sequences whose law is unchanged by permuting tokens](permuted-location, "
        "permuted-linear, permuted-sphere, permuted-topics).",
        "[Their law for L tokens is the marginal of that for L + 1](marginal-location, "
        "marginal-linear, marginal-sphere, marginal-topics), so one latent variable model serves "
        "every length.",
        "[The sampled mean product of two tokens does not depend on their places](pairs-linear, "
        f"pairs-sphere, pairs-topics); [it is {PRODUCTS['Gaussian location']:g} for Gaussian "
        "location](pairs-location).",
    ),
    headline="marginal-location",
    provenance=Provenance(
        "same",
        ("B/exchangeable",),
        "the tasks and the checks",
    ),
    hypotheses=(
        "tokens independent given the latent; for (key, value) tokens the law of values "
        "given keys, keys independent"
    ),
    routes=(
        "joint law written out, exact integrals",
        "log_probability of permuted and extended sequences; sampled pairs",
    ),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "task = at.Topics([0.5, 0.5], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])\n"
        "x = np.array([0, 2, 2, 1])\n"
        "print(task.log_probability(x) - task.log_probability(x[::-1]))\n"
        "print(sum(np.exp(task.log_probability(np.append(x, s)) - task.log_probability(x)) for s "
        "in range(3)))\n"
    ),
)
