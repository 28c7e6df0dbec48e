"""What softmax attention forgets: the Gram matrix of the keys, and that keys may differ in length.

Gram matrix. With the exponential kernel, any context and lam -> infinity,

    lam cme_attention/sum_l k(q, k_l)  =  softmax_attention - (1/lam) k_q'K V/sum_l k(q, k_l) +
        O(|K|^2/lam^2)   (Neumann series),

so softmax is CME that takes every pair of keys for orthogonal, and the first thing it misses is
k_q'K V. The distance to softmax is at most max|v| |K|/lam.

Key length. exp(q.k/h) grows with |k|: for keys N(0, I_d) and values v = W k the limit of softmax
attention is W q/h, not W q, because exp(q.k/h) N(k; 0, I) is N(k; q/h, I) up to a factor; with V =
exp(|q|^2/h^2) the mean over contexts of L keys is (W q/h)(1 - V/L) + O(1/L^2). Divided by their
norms the same keys give rho_1 W q. Sampled; 5 standard errors over contexts, 6e-7 each.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import BAND, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.sphere_errors import sphere
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.predictors.operators.context_attention import cme_attention, softmax_attention
from attnscope.theory.exchangeable.spectral import softmax_filter

RIDGES = np.geomspace(1e2, 1e10, 9)
LENGTH = 64
DIM = 5
BANDWIDTH = 0.5
WIDTHS = np.array([0.7, 1.0, 1.5, 2.5])
LONG = 2000
ROUNDOFF = 1e-13  # of a solve with the well-conditioned matrix K + lam I


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 511])
    q = sphere(rng, (16, DIM))
    k = sphere(rng, (LENGTH, DIM))
    v = rng.standard_normal((LENGTH, 2))
    K = np.exp(k @ k.T / BANDWIDTH)
    cross = np.exp(q @ k.T / BANDWIDTH)
    soft = softmax_attention(q, k, v, BANDWIDTH)
    scaled = (
        np.array(
            [lam * cme_attention(q, k, v, "exponential", BANDWIDTH, lam) for lam in RIDGES]
        )
        / cross.sum(axis=1)[:, None]
    )
    distance = np.abs(scaled - soft).max(axis=(1, 2))
    norm = np.linalg.norm(K, 2)
    missed = -(cross @ K @ v) / cross.sum(axis=1)[:, None]
    size = np.abs(v).max() * norm
    i = int(np.argmin(np.abs(RIDGES - 1e6)))
    first = RIDGES[i] * (scaled[i] - soft)
    n = context.pick(60, 600)
    raw, unit = (
        np.array([_gain(h, n, normalise, rng) for h in WIDTHS]).T
        for normalise in (False, True)
    )
    expected = (1 - np.exp(1 / WIDTHS**2) / LONG) / WIDTHS
    rho = np.array([softmax_filter(DIM, h, 1) for h in WIDTHS])
    comparisons = (
        worst(
            "ridge 1e10: scaled CME and softmax",
            soft,
            scaled[-1],
            size / RIDGES[-1] + ROUNDOFF,
            "remainder bound max|v| |K|/ridge of the Neumann series, and roundoff 1e-13",
        ),
        worst(
            "ridge 1e6: ridge times the difference is -k_q'K V/sum k",
            missed,
            first,
            norm / RIDGES[i] * size + ROUNDOFF * RIDGES[i],
            "next term of the series: max|v| |K|^2/ridge; roundoff 1e-13, times the ridge",
        ),
        Comparison(
            "slope of the difference in the ridge",
            -1.0,
            float(np.polyfit(np.log(RIDGES[3:7]), np.log(distance[3:7]), 1)[0]),
            0.01,
            why="the next term bends the curve by |K|/ridge < 1 % at the smallest ridge, 1e5",
        ),
        # second-order terms of the ratio: V^2/L^2 of a few units, below the statistical error
        sampled("normal keys: softmax keeps 1/h of W q", expected, *raw),
        sampled("the same keys normalised: softmax keeps rho_1", rho, *unit),
    )
    notes = f"Scaled CME is within {distance[-1]:.1e} of softmax at ridge 1e10."
    rows = tuple((f"{h:g}", a, 1 / h) for h, a in zip(WIDTHS, raw[0]))
    table = Table("Share of W q kept with normal keys", ("h", "measured", "1/h"), rows)
    return Evidence(comparisons, _figure(distance, size, raw, unit), notes, tables=(table,))


def _gain(
    h: float, contexts: int, normalise: bool, rng: np.random.Generator
) -> tuple[float, float]:
    """What softmax attention keeps of W q, averaged over queries of a context,
    and its standard error over contexts.
    """
    kept = np.empty(contexts)
    for i in range(contexts):
        keys = rng.standard_normal((LONG, DIM))
        query = sphere(rng, (8, DIM))
        keys = keys / np.linalg.norm(keys, axis=1, keepdims=True) if normalise else keys
        kept[i] = np.mean(np.sum(softmax_attention(query, keys, keys, h) * query, axis=1))
    return mean_and_error(kept)


def _figure(distance: np.ndarray, size: float, raw: np.ndarray, unit: np.ndarray) -> Figure:
    grid = np.geomspace(0.6, 3, 40)
    gram = Panel(
        "CME with a large ridge is softmax",
        "ridge",
        "largest distance to softmax",
        (
            Points(RIDGES, distance, "ridge x CME / sum of kernel", 0),
            Line(RIDGES, size / RIDGES, "bound max|v| |K| / ridge", 6, dashed=True),
        ),
        log_x=True,
        log_y=True,
    )
    length = Panel(
        "long keys are over-weighted",
        "bandwidth h",
        "share of W q kept",
        (
            Line(grid, 1 / grid, "1/h", 1),
            Points(WIDTHS, raw[0], "normal keys", 1, BAND * raw[1]),
            Line(grid, [softmax_filter(DIM, h, 1) for h in grid], "rho_1", 2),
            Points(WIDTHS, unit[0], "normalised keys", 2, BAND * unit[1]),
            Line([0.6, 3], [1, 1], "target", 6, dashed=True),
        ),
        log_x=True,
        y_range=(0.0, 1.8),
    )
    return Figure("What softmax attention forgets", (gram, length), columns=2)


CLAIM = Claim(
    id="exch-11-softmax-forgets",
    title="Softmax forgets the Gram matrix and the keys' length",
    statement=(
        "Softmax attention is the limit of scaled CME attention for ridge -> infinity, on every "
        "context: it is CME with its Gram "
        "matrix forgotten. Where keys are not "
        "normalised it over-weights long ones: for normal keys and linear f the limit is f(q)/h "
        "instead of f(q)."
    ),
    provenance=Provenance(
        "new here",
        ("B2/model",),
        "what softmax forgets",
    ),
    hypotheses=(
        "exponential kernel and any context; keys N(0, I) and a linear function for the "
        "second part"
    ),
    routes=("Neumann series; Gaussian integral", "the attention operators"),
    check=check,
    snippet=(
        "import numpy as np\n"
        "from attnscope.predictors.operators.context_attention import cme_attention, "
        "softmax_attention\n"
        "rng = np.random.default_rng(0)\n"
        "q, k, v = rng.standard_normal(3), rng.standard_normal((20, 3)), rng.standard_normal((20, "
        "1))\n"
        "scaled = 1e9 * cme_attention(q, k, v, 'exponential', 1.0, ridge=1e9) / np.exp(k @ "
        "q).sum()\n"
        "print(scaled, softmax_attention(q, k, v, bandwidth=1.0))\n"
    ),
)
