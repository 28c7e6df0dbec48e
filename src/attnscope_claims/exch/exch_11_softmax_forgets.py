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

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure, Line, Points
from attnscope.predictors.operators.context_attention import cme_attention, softmax_attention
from attnscope.theory.exchangeable.spectral import softmax_filter
from attnscope_claims.drawing import figure, level, panel
from attnscope_claims.sphere_errors import sphere

RIDGES = np.geomspace(1e2, 1e10, 9)
LENGTH = 64
DIM = 5
BANDWIDTH = 0.5
WIDTHS = np.array([0.7, 1.0, 1.5, 2.5])
LONG_LENGTH = 2000
ORDER = -1.0  # of the ridge in the distance of scaled CME to softmax, as the statement says
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
    (raw, longer), (unit, _) = (
        np.array([_gain(h, n, normalise, rng) for h in WIDTHS]).transpose(1, 2, 0)
        for normalise in (False, True)
    )
    # the mean over contexts of L keys: of x = k.q and |k|^2 under N(q/h, I), less V/L times the
    # difference to N(2q/h, I)
    share = np.exp(1 / WIDTHS**2) / LONG_LENGTH
    expected = _limit(WIDTHS) * (1 - share)
    rho = np.array([softmax_filter(DIM, h, 1) for h in WIDTHS])
    kept = [
        Series(
            "normal",
            "normal keys: softmax keeps 1/h of W q",
            WIDTHS,
            expected,
            raw[0],
            error=raw[1],
        ),
        Series(
            "normalised",
            "the same keys normalised: softmax keeps rho_1",
            WIDTHS,
            rho,
            unit[0],
            error=unit[1],
        ),
    ]
    comparisons = (
        worst(
            "ridge 1e10: scaled CME and softmax",
            soft,
            scaled[-1],
            size / RIDGES[-1] + ROUNDOFF,
            "remainder bound max|v| |K|/ridge of the Neumann series, and roundoff 1e-13",
            key="limit",
        ),
        worst(
            "ridge 1e6: ridge times the difference is -k_q'K V/sum k",
            missed,
            first,
            norm / RIDGES[i] * size + ROUNDOFF * RIDGES[i],
            "next term of the series: max|v| |K|^2/ridge; roundoff 1e-13, times the ridge",
            key="gram",
        ),
        worst(
            "slope of the difference in the ridge",
            ORDER,
            np.polyfit(np.log(RIDGES[3:7]), np.log(distance[3:7]), 1)[0],
            0.01,
            "the next term bends the curve by |K|/ridge < 1 % at the smallest ridge, 1e5",
            key="order",
        ),
        # second-order terms of the ratio: V^2/L^2 of a few units, below the statistical error
        *kept,
        sampled(
            "normal keys: mean |k|^2 under the attention weights minus d",
            (1 - 3 * share) / WIDTHS**2,
            longer[0] - DIM,
            longer[1],
            key="long",
        ),
    )
    notes = f"Scaled CME is within {distance[-1]:.1e} of softmax at ridge 1e10."
    return Evidence(comparisons, _figure(distance, size, *kept), notes)


def _limit(h: np.ndarray) -> np.ndarray:
    """What softmax attention keeps of W q for normal keys, in the limit of long contexts."""
    return 1 / h


def _gain(
    h: float, contexts: int, normalise: bool, rng: np.random.Generator
) -> tuple[tuple[float, float], tuple[float, float]]:
    """What softmax attention keeps of W q, and the mean |k|^2 under its weights, averaged over
    queries of a context; each with its standard error over contexts.
    """
    kept = np.empty((2, contexts))
    for i in range(contexts):
        keys = rng.standard_normal((LONG_LENGTH, DIM))
        query = sphere(rng, (8, DIM))
        keys = keys / np.linalg.norm(keys, axis=1, keepdims=True) if normalise else keys
        values = np.column_stack([keys, np.sum(keys**2, axis=1)])
        out = softmax_attention(query, keys, values, h)
        kept[:, i] = np.mean(np.sum(out[:, :DIM] * query, axis=1)), np.mean(out[:, DIM])
    return mean_and_error(kept[0]), mean_and_error(kept[1])


def _figure(distance: np.ndarray, size: float, normal: Series, unit: Series) -> Figure:
    grid = np.geomspace(0.6, 3, 40)
    gram = panel(
        "CME with a large ridge is softmax",
        "ridge",
        "largest distance to softmax",
        Points(RIDGES, distance, "ridge x CME / sum of kernel", 0),
        Line(RIDGES, size / RIDGES, "bound max|v| |K| / ridge", 6, dashed=True),
        log="xy",
    )
    length = panel(
        "long keys are over-weighted",
        "bandwidth h",
        "share of W q kept",
        *normal.marks("normal keys: 1/h", 1, (grid, 1 / grid)),
        *unit.marks(
            "normalised: rho_1", 2, (grid, [softmax_filter(DIM, h, 1) for h in grid])
        ),
        level([0.6, 3], 1, "target"),
        log="x",
        y_range=(0.0, 1.8),
    )
    return figure("What softmax attention forgets", gram, length)


CLAIM = Claim(
    id="exch-11-softmax-forgets",
    title="Softmax forgets the Gram matrix and the keys' length",
    statement=(
        "[Softmax attention is the limit of scaled CME attention for ridge -> infinity, on every "
        f"context](limit); [the distance varies as ridge^{ORDER:g}](order).",
        "[The first term that softmax misses is -k_q'K V/sum k, with the Gram matrix K of the keys]"
        "(gram).",
        "[Softmax attention over-weights long keys: for normal keys the mean |k|^2 under its weights "
        "is d + 1/h^2 instead of d](long).",
        "[For normal keys and linear f its limit is f(q)/h instead of f(q)](normal); [for the same "
        "keys divided by their norms it is rho_1 f(q)](normalised).",
    ),
    headline="normal",
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
