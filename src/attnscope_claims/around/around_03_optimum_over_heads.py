"""Least squares on cubic features is the optimum over linear attention of any number of heads, and
a matrix of moments says whether it is unique.

notation: tokens (k_l, v_l) of a LinearMap with normal keys, d = 3, lam = 1, s = 1/2, query q;
C = sum of z z^T, z = (k, v); T the tensor of the layer (estimators.linear_attention).

Four checks. (1) In-context regression: over all heads the population optimum is the one head alpha
sum (q.k)v, alpha = 1/(L + d + 1 + s^2/lam); its excess in closed form against squared errors on
drawn contexts, and all 48 entries of the unrestricted fit against alpha/2 or 0, in standard errors
of least squares with any noise (Huber and White). (2) The certificate: eigenvalues from the
irreducible parts of C under rotations, against mean squared lengths of drawn features in each part;
and the fit's spectrum against that of a matrix formed entry by entry. (3) Whitened contexts: the
traceless part of sum k k^T never occurs, so (d(d+1)/2 - 1) d directions are open and minimisers
differ there. (4) Heads trained by nonlinear least squares from drawn starts never end below the
optimum, and D = 4 heads reach it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import least_squares

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import exact_count, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.estimators.linear_attention.fit import LinearAttentionFit, fit_linear_attention
from attnscope.figures.figure import Figure, Line, Points
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope_claims.drawing import figure, panel, sampled_points

DIM = 3
NOISE = 0.5
TASK = LinearMap(dim_key=DIM, dim_value=1, prior_variance=1.0, noise=NOISE)
LENGTHS = (4, 16, 64)
CERTIFICATE_LENGTH = 16  # length at which the certificate and the fit are looked at
HEADS = (1, 2, 3, 4)
RUNS = 4
TRAINED_ON = 600
# What the statement says: directions that whitened contexts leave open at d = 3.
OPEN_DIRECTIONS = 15
SMALLEST_EIGENVALUE = 32  # eigenvalue of the certificate at L = 16, 2 L
FEWER_HEADS_LOSS = (
    1e-3  # loss over the optimum, less 1, that fewer than 4 trained heads exceed
)
LEAST_SQUARES_ROUNDING = (
    "roundoff: relative 1e-9 of well-conditioned least squares (a pilot saw 1e-12)"
)
AXIS_FLOOR = 1e-17  # a logarithmic axis ends here


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 703])
    drawn = np.array([_excess(L, context.pick(120_000, 800_000), rng) for L in LENGTHS])
    closed = np.array([closed_excess(L) for L in LENGTHS])
    n = context.pick(20_000, 200_000)
    batch = TASK.sample(n, CERTIFICATE_LENGTH, int(rng.integers(2**31)))
    fit = fit_linear_attention(batch.tokens, batch.query, batch.target)
    X = _features(batch.tokens, batch.query)
    theta_error = _theta_error(fit, X, batch.target[:, 0])
    predicted = one_head(CERTIFICATE_LENGTH)
    parts = certificate_parts(CERTIFICATE_LENGTH)
    measured = _measured_parts(batch.tokens, batch.query)
    formed = np.linalg.eigvalsh(X.T @ X / n)[::-1]
    open_fit, moved = _whitened_fit(rng)
    optimum, losses = _train_heads(rng)
    excess = losses / optimum - 1
    comparisons = (
        sampled("excess of the one head, L = 4, 16, 64", closed, drawn, key="excess"),
        sampled(
            "the fit over all heads, 48 entries, L = 16",
            predicted,
            fit.theta,
            theta_error,
            key="one-head",
            scale=float(predicted.max()),
        ),
        sampled("eigenvalues of the certificate, four parts", parts, *measured, key="parts"),
        sampled(
            "smallest eigenvalue of the certificate, L = 16, as stated",
            SMALLEST_EIGENVALUE,
            measured[0].min(),
            measured[1][np.argmin(measured[0])],
            key="smallest",
        ),
        worst(
            "spectrum of the fit's certificate",
            1.0,
            fit.spectrum / formed,
            1e-9,
            LEAST_SQUARES_ROUNDING,
            key="spectrum",
        ),
        exact_count(
            "open directions, normal keys",
            0,
            fit.nullity,
            key="unique",
            scale=OPEN_DIRECTIONS,
        ),
        exact_count(
            "open directions, whitened contexts",
            OPEN_DIRECTIONS,
            open_fit.nullity,
            key="open",
        ),
        worst(
            "whitened contexts: what another minimiser says",
            0.0,
            moved,
            1e-9,
            LEAST_SQUARES_ROUNDING,
            key="same",
            routes=("the fit", "the fit plus a tensor of length 1 in the open directions"),
            scale=1.0,
        ),
        worst(
            f"{HEADS[-1]} trained heads over the optimum, best of {RUNS}",
            0.0,
            excess[-1].min(),
            1e-9,
            LEAST_SQUARES_ROUNDING,
            key="reached",
            routes=("least squares on features", "nonlinear least squares on heads"),
            scale=FEWER_HEADS_LOSS,
        ),
        worst(
            "no trained heads below the optimum",
            0.0,
            excess.min(),
            1e-9,
            LEAST_SQUARES_ROUNDING,
            key="never-below",
            rule="at least",
            routes=("least squares on features", "nonlinear least squares on heads"),
            scale=FEWER_HEADS_LOSS,
        ),
    )
    notes = (
        f"The unrestricted fit puts {2 * fit.theta[0, 0, DIM, 0]:.4f} on (q.k)v, alpha is "
        f"{2 * predicted[0, 0, DIM, 0]:.6f}. Whitened contexts are fitted to "
        f"{open_fit.optimum.value:.0e} and leave {open_fit.nullity} of {open_fit.features} "
        "directions open."
    )
    figure = _figure(drawn, excess)
    return Evidence(comparisons, figure, notes)


def closed_excess(length: float) -> float:
    """lam d (d + 1 + s^2/lam)/(L + d + 1 + s^2/lam), lam = 1."""
    rest = DIM + 1 + NOISE**2
    return DIM * rest / (length + rest)


def one_head(length: int) -> np.ndarray:
    """The tensor (1, D, D, d) of alpha sum (q.k)v."""
    T = np.zeros((1, DIM + 1, DIM + 1, DIM))
    for i in range(DIM):
        T[0, i, DIM, i] = T[0, DIM, i, i] = 0.5 / (length + DIM + 1 + NOISE**2)
    return T


def certificate_parts(length: int) -> np.ndarray:
    """Second moments of the four parts of C: traceless, vector, and the eigenvalues of the block of
    the two scalars (tr/sqrt d, sum v^2); lam = 1.
    """
    return np.array(
        [
            2.0 * length,
            2 * (length * (DIM + 2 + NOISE**2) + length * (length - 1)),
            *np.linalg.eigvalsh(_scalars(length)),
        ]
    )


def _scalars(L: int) -> np.ndarray:
    s2 = NOISE**2
    across = DIM**0.5 * L * ((L - 1) * (DIM + s2) + DIM + 2 + s2)
    values = L * (L + 2) * (DIM * (DIM + 2) + 2 * s2 * DIM + s2**2)
    return np.array([[L * (L * DIM + 2), across], [across, values]])


def _measured_parts(tokens: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over contexts of (squared length of a part of the features)/its dimension, and their
    standard errors; scalars along the eigenvectors of the closed block.
    """
    C = np.einsum("nli,nlj->nij", tokens, tokens)
    keys = C[:, :DIM, :DIM]
    trace = np.trace(keys, axis1=1, axis2=2)
    traceless = np.sum(keys**2, axis=(1, 2)) - trace**2 / DIM
    vector = 2 * np.sum(C[:, :DIM, DIM] ** 2, axis=1)
    scalars = np.stack([trace / DIM**0.5, C[:, DIM, DIM]], axis=1)
    along = (scalars @ np.linalg.eigh(_scalars(tokens.shape[1]))[1]) ** 2
    q2 = np.sum(query**2, axis=1) / DIM
    parts = [traceless / (DIM * (DIM + 1) / 2 - 1), vector / DIM, along[:, 0], along[:, 1]]
    found = np.array([mean_and_error(part * q2) for part in parts])
    return found[:, 0], found[:, 1]


def _excess(length: int, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Squared error of the one head against w.q: mean and standard error."""
    errors = []
    alpha = 1 / (length + DIM + 1 + NOISE**2)
    for _ in range(4):
        batch = TASK.sample(n // 4, length, int(rng.integers(2**31)))
        sums = np.einsum("nlk,nl->nk", batch.keys, batch.values[..., 0])
        truth = np.sum(batch.latent[:, 0] * batch.query, axis=1)
        errors.append((alpha * np.sum(sums * batch.query, axis=1) - truth) ** 2)
    return mean_and_error(np.concatenate(errors))


def _features(tokens: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(n, 30), entry by entry: C_ij q_k for i <= j, times sqrt 2 off the diagonal."""
    D = tokens.shape[2]
    columns = [
        (1 if i == j else 2**0.5)
        * np.sum(tokens[:, :, i] * tokens[:, :, j], axis=1)
        * query[:, k]
        for i in range(D)
        for j in range(i, D)
        for k in range(query.shape[1])
    ]
    return np.stack(columns, axis=1)


def _theta_error(fit: LinearAttentionFit, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Standard errors of the entries of T, whatever the law of the residuals."""
    inverse = np.linalg.inv(X.T @ X)
    w = inverse @ (X.T @ y)
    spread = (X * (y - X @ w)[:, None]) @ inverse
    error = np.sqrt(np.sum(spread**2, axis=0))
    D = fit.theta.shape[1]
    out = np.empty(fit.theta.shape)
    at = 0
    for i in range(D):
        for j in range(i, D):
            share = 1.0 if i == j else 2**-0.5
            out[0, i, j] = out[0, j, i] = share * error[at : at + DIM]
            at += DIM
    return out


def _whitened_fit(rng: np.random.Generator) -> tuple[LinearAttentionFit, float]:
    """The fit of contexts with sum k k^T = I and no noise, and the most that a tensor of length 1
    in the open directions (traceless in the keys) changes its predictions there.
    """
    n = 500
    keys = np.linalg.qr(rng.standard_normal((n, 8, DIM)))[0]
    w = rng.standard_normal((n, DIM))
    query = rng.standard_normal((n, DIM))
    tokens = np.concatenate([keys, keys @ w[:, :, None]], axis=2)
    fit = fit_linear_attention(tokens, query, np.sum(w * query, axis=1))
    A = rng.standard_normal((DIM, DIM, DIM))
    A = A + A.swapaxes(0, 1)
    A -= np.einsum("iik->k", A) / DIM * np.eye(DIM)[:, :, None]
    C = np.einsum("nli,nlj->nij", keys, keys)
    change = np.einsum("ijk,nij,nk->n", A / np.linalg.norm(A), C, query)
    return fit, float(np.abs(change).max())


def _train_heads(rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """The optimum on TRAINED_ON contexts, and (heads, runs) losses of trained heads."""
    batch = TASK.sample(TRAINED_ON, CERTIFICATE_LENGTH, int(rng.integers(2**31)))
    y = batch.target[:, 0]
    fit = fit_linear_attention(batch.tokens, batch.query, y)
    C = np.einsum("nli,nlj->nij", batch.tokens, batch.tokens)
    losses = [[_train(h, C, batch.query, y, rng) for _ in range(RUNS)] for h in HEADS]
    return float(fit.optimum.value), np.array(losses)


def _train(
    heads: int, C: np.ndarray, query: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> float:
    """Mean squared error at the end of Levenberg-Marquardt steps on V (h, D) and Q (h, D, d)."""
    D = C.shape[1]
    cut = heads * D

    def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[:cut].reshape(heads, D), x[cut:].reshape(heads, D, -1)

    def rest(x: np.ndarray) -> Any:
        V, Q = split(x)
        seen = np.einsum("nij,hjk,nk->nhi", C, Q, query, optimize=True)
        return np.einsum("hi,nhi->n", V, seen) - y

    def slope(x: np.ndarray) -> Any:
        V, Q = split(x)
        by_value = np.einsum("nij,hjk,nk->nhi", C, Q, query, optimize=True)
        by_score = np.einsum("hi,nij,nk->nhjk", V, C, query, optimize=True)
        return np.concatenate(
            [by_value.reshape(len(y), -1), by_score.reshape(len(y), -1)], axis=1
        )

    start = rng.standard_normal(cut * (1 + query.shape[1])) / D
    tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 400}
    found = least_squares(rest, start, slope, method="lm", **tight)
    return float(np.mean(found.fun**2))


def _figure(
    drawn: np.ndarray,
    excess: np.ndarray,
) -> Figure:
    grid = np.geomspace(2, 128, 30)
    lengths = np.unique(grid.astype(int))
    bayes = [TASK.bayes_risk(int(L)).excess for L in lengths]
    risks = panel(
        "in-context regression",
        "context length L",
        "excess risk",
        Line(grid, [closed_excess(L) for L in grid], "optimum over all heads", 0),
        sampled_points(LENGTHS, drawn, "one head, drawn", 1),
        Line(lengths, bayes, "Bayes", 2, dashed=True),
        log="xy",
    )
    at = np.repeat(np.arange(len(HEADS)), RUNS) + np.tile(
        np.linspace(-0.15, 0.15, RUNS), len(HEADS)
    )
    training = panel(
        "trained heads",
        "heads",
        "loss/optimum - 1 (1e-17: at most)",
        Points(at, np.maximum(excess, AXIS_FLOOR).ravel(), "a run", 4),
        log="y",
        x_names=tuple(str(h) for h in HEADS),
    )
    return figure("The optimum over all heads, and its certificate", risks, training)


CLAIM = Claim(
    id="around-03-optimum-over-heads",
    title="Linear attention: least squares is the optimum of all heads",
    statement=(
        "[The least loss of linear attention over any number of heads is that of least squares on "
        "the features C_ij z_k](reached, never-below), C the second moments of the context and z "
        "the query.",
        "All minimisers compute one function iff the certificate, the second moments of these "
        "features, is nonsingular: [which holds for normal keys](unique).",
        f"[Whitened contexts leave (d(d+1)/2 - 1) d directions open, {OPEN_DIRECTIONS} at d = 3](open), [in "
        "which minimisers differ and still agree on such contexts](same).",
        "[For in-context regression the optimum over all heads is one head](one-head), [with excess "
        "lam d (d + 1 + s^2/lam)/(L + d + 1 + s^2/lam)](excess).",
        "[Its certificate has four eigenvalues](parts, spectrum), [the smallest 2L, which is "
        f"{SMALLEST_EIGENVALUE} at L = 16](smallest).",
    ),
    headline="excess",
    provenance=Provenance(
        "sharpened",
        ("polynomial/linear-predictor", "polynomial/identifiable"),
        "the optimum and the certificate's spectrum of in-context regression in closed form",
    ),
    hypotheses=(
        "the query is not a token of its context; normal keys, a linear map with standard normal "
        "entries, d = 3, noise 1/2"
    ),
    routes=(
        "moments in closed form; least squares on features",
        "drawn contexts; moments formed entry by entry; trained heads",
    ),
    check=check,
    snippet="""\
import attnscope as at
task = at.LinearMap(dim_key=3, dim_value=1, noise=0.5)
batch = task.sample(5000, length=16, seed=0)
fit = at.fit_linear_attention(batch.tokens, batch.query, batch.target)
print(fit, fit.spectrum[-1], 2 * fit.theta[0, 0, 3, 0], 1 / (16 + 4.25))
""",
)
