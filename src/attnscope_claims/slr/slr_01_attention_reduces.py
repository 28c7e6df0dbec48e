"""From a full attention layer down to the paper's predictor, rung by rung.

notation: X (L, d) tokens, Q, K, V (d, p), O (o, p), lam = inverse temperature, a = a token of X
that plays [CLS].

    all rows     T(X) = softmax(lam X Q K^T X^T) X V O^T                        (L, o)
    [CLS] row    softmax(lam a^T Q K^T X^T) X V O^T                             (o,)
    o = 1        softmax(lam k^T X^T) X v   with k = K Q^T a, v = V O^T
    sigma        sum_l sigma(lam X_l.k) X_l.v,   sigma = erf

The first three are the same function; naive loops over the top line, in the order in which it is
written, must give what the library gives on every rung, to roundoff (sums of at most L d = 150
terms of size one: 1e-12). The last step is not an identity: erf weights are another predictor. How
far apart the two are is a pair of exact risks at (k*, v*), one by two-dimensional quadrature and
one in closed form; both are measured on sampled vectors, the softmax one through a full layer with
Q, K, V, O.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import mean_and_error, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure
from attnscope.predictors.attention import Erf, Predictor, Softmax
from attnscope.predictors.full_attention import FullAttention
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.single_location import Batch, SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope_claims.drawing import figure, panel

ROUNDOFF = 1e-12
WHY = "roundoff of sums of at most L d = 150 terms of size one"
# softmax risks are still large enough to be sampled here
TASK = SingleLocation(dim=50, length=10)
ERF_AT = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Stated: the risks of a softmax layer and of the erf predictor at (k*, v*) and this inverse temperature.
COMMON_INVERSE_TEMPERATURE = 0.7
SOFTMAX_RISK = 0.054
ERF_RISK = 2.97
# beyond, the risk becomes a rare event (2e-4 at its best) and its sampled mean is skewed
SOFTMAX_AT = (0.2, 0.4, COMMON_INVERSE_TEMPERATURE)


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 1])
    rungs = _rungs(rng)
    batch = TASK.sample(context.pick(20_000, 200_000), seed=int(rng.integers(2**31)))
    layer, erf = (
        Series(key, what, at, _exact_risks(kind, at), mean, error=error)
        for key, what, at, kind, loss in (
            (
                "softmax",
                "risk of a full softmax layer at (k*, v*)",
                SOFTMAX_AT,
                Softmax,
                _loss_of_layer,
            ),
            ("erf", "risk of the erf predictor at (k*, v*)", ERF_AT, Erf, _loss_of_erf),
        )
        for mean, error in [np.array([mean_and_error(loss(lam, batch)) for lam in at]).T]
    )
    at_common = mean_and_error(_loss_of_erf(COMMON_INVERSE_TEMPERATURE, batch))
    risks = (
        layer,
        erf,
        stated(
            "softmax-risk",
            f"risk of a full softmax layer at inverse temperature {COMMON_INVERSE_TEMPERATURE}, as stated",
            SOFTMAX_RISK,
            layer.measured[-1],
            1e-3,
            layer.error[-1],
        ),
        stated(
            "erf-risk",
            f"risk of the erf predictor at inverse temperature {COMMON_INVERSE_TEMPERATURE}, as stated",
            ERF_RISK,
            at_common[0],
            1e-2,
            at_common[1],
        ),
    )
    notes = "Replacing softmax by erf is a change of predictor, not a reduction."
    return Evidence((*rungs, *risks), _figure(layer, erf), notes)


def _exact_risks(kind: Callable[[float], Predictor], at: Sequence[float]) -> list[float]:
    """At (k*, v*) and these inverse temperatures."""
    return [risk(TASK, kind(lam), Overlaps.oracle()).value for lam in at]


def _rungs(rng: np.random.Generator) -> tuple[Comparison, ...]:
    """Every rung of a random layer on random sequences, against the loops."""
    d = 15
    L = 10
    p = 4
    o = 3
    lam = 0.3
    Q, K, V = (rng.standard_normal((d, p)) / math.sqrt(p) for _ in range(3))
    O = rng.standard_normal((o, p))
    X = rng.standard_normal((5, L, d))
    full = FullAttention(Q, K, V, O, lam)
    single = FullAttention(Q, K, V, O[:1], lam)
    cls = X[2, 0]  # [CLS] is a token of the sequence: its row is a row of the layer
    loops = np.array([_layer_by_loops(x, Q, K, V, O, lam) for x in X])  # (5, L, o)
    row = loops[2, 0]
    direct = np.array([_componentwise_by_loops(x, K @ Q.T @ cls, V @ O[0], lam) for x in X])
    softmax, k, v = single.reduced(cls)
    return (
        worst("all rows of the layer", loops, full.rows(X), ROUNDOFF, WHY, key="rows"),
        worst("[CLS] row", row, full.cls_row(X[2:3], cls)[0], ROUNDOFF, WHY, key="cls-row"),
        worst(
            "one output, as softmax(lam k.X) X.v",
            row[0],
            predict(softmax, k, v, X[2:3]),
            ROUNDOFF,
            WHY,
            key="one-output",
        ),
        worst(
            "componentwise, sigma = erf",
            direct,
            predict(Erf(lam), k, v, X),
            ROUNDOFF,
            WHY,
            key="componentwise",
        ),
    )


def _dot(x: Iterable[float], y: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(x, y))


def _layer_by_loops(
    X: np.ndarray, Q: np.ndarray, K: np.ndarray, V: np.ndarray, O: np.ndarray, lam: float
) -> np.ndarray:
    """The definition, entry by entry, in Python floats."""
    queries, keys, values = (
        [[_dot(x, column) for column in W.T.tolist()] for x in X.tolist()] for W in (Q, K, V)
    )
    out = []
    for query in queries:
        scores = [math.exp(lam * _dot(query, key)) for key in keys]
        mixed = [_dot(scores, value) / sum(scores) for value in zip(*values)]
        out.append([_dot(mixed, row) for row in O.tolist()])
    return np.array(out)


def _componentwise_by_loops(X: np.ndarray, k: np.ndarray, v: np.ndarray, lam: float) -> float:
    return sum(math.erf(lam * _dot(x, k)) * _dot(x, v) for x in X.tolist())


def _loss_of_erf(lam: float, batch: Batch) -> np.ndarray:
    return (predict(Erf(lam), TASK.key, TASK.value, batch.tokens) - batch.target) ** 2


def _loss_of_layer(lam: float, batch: Batch) -> np.ndarray:
    """Squared errors of the full layer whose reduction is (k*, v*):
    Q maps the [CLS] token to 1 and K maps 1 to k*.
    """
    cls = np.eye(TASK.dim)[0]
    Q = cls[:, None]
    K = TASK.key[:, None]
    V = TASK.value[:, None]
    O = np.ones((1, 1))
    return (
        FullAttention(Q, K, V, O, lam).cls_row(batch.tokens, cls)[:, 0] - batch.target
    ) ** 2


def _figure(layer: Series, erf: Series) -> Figure:
    grid = np.geomspace(0.01, 3, 60)
    risks = panel(
        f"risk at (k*, v*), d = {TASK.dim}, L = {TASK.length} (points: sampled)",
        "inverse temperature",
        "risk",
        *layer.marks("softmax", 0, (grid, _exact_risks(Softmax, grid.tolist()))),
        *erf.marks("erf", 1, (grid, _exact_risks(Erf, grid.tolist()))),
        log="xy",
    )
    return figure("From a full attention layer to the predictor", risks)


CLAIM = Claim(
    id="slr-01-attention-reduces",
    title="Attention reduces to the predictor, rung by rung",
    statement=(
        "[The class-token row of one attention head with one output is softmax(lam k.X) "
        "X.v](one-output).",
        "[Its query-key direction is k = K Q^T a, and its value direction is v = V "
        "O^T](one-output).",
        "[Taking the nonlinearity componentwise gives the predictor sum_l erf(lam X_l.k) "
        "X_l.v](componentwise).",
        "[All steps but the last are identities](rows, cls-row, one-output).",
        "[The last step gives another predictor with another risk](softmax-risk, erf-risk).",
        f"[At (k*, v*) and inverse temperature {COMMON_INVERSE_TEMPERATURE:g} the softmax layer "
        f"has risk {SOFTMAX_RISK:g}](softmax-risk), and [the erf predictor {ERF_RISK:g}](erf-risk).",
    ),
    headline="erf-risk",
    provenance=Provenance(
        "sharpened",
        ("A/equation-5",),
        "the gap between softmax and erf",
    ),
    hypotheses=(
        "any Q, K, V, O; the gap at k = k*, v = v*, d = 50, L = 10, gamma^2 = 1/2, signal "
        "sqrt(d/2)"
    ),
    routes=(
        "loops over the definition; exact risks by quadrature and closed form",
        "the library's layers and predictors, on sampled vectors",
    ),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "rng = np.random.default_rng(0)\n"
        "Q, K, V, O, X = (rng.standard_normal(shape) for shape in ((8, 3), (8, 3), (8, 3), (1, 3), "
        "(1, 6, 8)))\n"
        "layer = at.FullAttention(Q, K, V, O, inverse_temperature=0.3)\n"
        "softmax, k, v = layer.reduced(X[0, 0])\n"
        "print(layer.rows(X)[0, 0, 0], at.predict(softmax, k, v, X)[0])\n"
    ),
    rests_on=("slr-02-closed-form-risk",),
)
