"""Positions restore order: attention cannot see the order of tokens, attention over (content,
position) pairs can.

notation: tokens are pairs (c_l, e_l), c_l the content and e_l the one-hot position; y the label.

Synthetic task (tasks.exchangeable.positions): of L tokens one is A, one is B; y = +1 if A comes
first, else -1, plus noise. The contents have the same law for both labels, so nothing that is
invariant to permutations of contents predicts y: risk 1 + noise^2, which regression on attention
features of the contents must reach and cannot beat. With positions two heads suffice: the query "A"
returns the position of A, the query "B" that of B, and the sign of the difference is y: risk
noise^2.

Routes: exact risks against sampled ones.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import Z, mean_and_error, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.tasks.exchangeable.positions import OrderTask, attach_positions
from attnscope_claims.drawing import figure, legend, panel

NOISE = 0.3
LENGTHS = (2, 4, 8, 16, 32, 64)
SHARP_BANDWIDTH = (
    0.02  # bandwidth: scores 50 apart, so that 64 other tokens together have weight 1e-20
)
HEADS = 12  # random queries on the contents
# What the statement says: squared errors at label noise 0.3, from contents alone and from pairs.
BLIND_RISK = 1.09
SEEING_RISK = 0.09
DIGIT_2 = 5e-3  # half a unit of the second decimal


def check(context: Context) -> Evidence:
    seeds = np.random.default_rng([context.seed, 2]).integers(2**31, size=40).tolist()
    n = context.pick(4000, 40_000)
    task = OrderTask(symbols=4, noise=NOISE)
    with_positions = np.array(
        [_read_positions(task, L, n, seed) for L, seed in zip(LENGTHS, seeds)]
    ).T
    without = np.array([_regress(task, L, n, seed) for L, seed in zip(LENGTHS, seeds[10:])]).T
    moved = max(_permutation_change(task, L, seed) for L, seed in zip(LENGTHS, seeds[20:]))
    exact = [[task.bayes_risk(L, positions=p).value for L in LENGTHS] for p in (True, False)]
    blind = Series(
        "blind",
        "risk of regression on attention without positions",
        LENGTHS,
        exact[1],
        without[0],
        Z * without[1] + 4 * HEADS / n,
        why="5 standard errors (6e-7 an entry) + p/n: least squares on p = 48 features overfits",
        error=without[1],
    )
    seeing = Series(
        "seeing",
        "risk of two heads over (content, position) pairs",
        LENGTHS,
        exact[0],
        with_positions[0],
        error=with_positions[1],
    )
    comparisons = (
        worst(
            "attention over pairs, tokens permuted: change",
            0.0,
            moved,
            1e-12,
            "roundoff of sums of 64 terms",
            key="permuted",
            scale=1.0,
        ),
        seeing,
        blind,
        *(
            _as_stated(series, stated)
            for series, stated in ((blind, BLIND_RISK), (seeing, SEEING_RISK))
        ),
    )
    notes = (
        f"At L = 64 the order is recovered with risk {seeing.measured[-1]:.3f}; without positions "
        f"{blind.measured[-1]:.3f}."
    )
    return Evidence(comparisons, _figure(seeing, blind), notes)


def _as_stated(series: Series, stated: float) -> Comparison:
    """The mean over the lengths, at which the risk is the same."""
    assert series.error is not None
    n = len(series.error)
    overfit = float(np.mean(series.tolerance - Z * series.error))
    return worst(
        f"{series.what}, mean over lengths, as stated",
        stated,
        series.measured.mean(),
        float(Z * np.sqrt(np.sum(series.error**2)) / n) + overfit + DIGIT_2,
        "5 standard errors (6e-7 of the seeds), overfitting as above, half a printed digit",
        key=f"{series.key}-mean",
    )


def _read_positions(task: OrderTask, L: int, n: int, seed: int) -> tuple[float, float]:
    """(risk, standard error) of sign(position of B - position of A),
    each read by one head over pairs.
    """
    b = task.sample(n, L, seed)
    pairs = attach_positions(b.content, b.positions, width=L)
    # a linear value map: the position as a number
    where = pairs[..., task.symbols :] @ np.arange(L)[:, None]
    query = np.eye(task.symbols + L)[:2]  # "content A", "content B", whatever the position
    a, c = softmax_attention(query[:, None], pairs, where, SHARP_BANDWIDTH)[..., 0]
    return mean_and_error((np.sign(c - a) - b.target) ** 2)


def _regress(task: OrderTask, L: int, n: int, seed: int) -> tuple[float, float]:
    """(risk, standard error) on new data of least squares from attention features of the contents
    alone.
    """
    query = np.random.default_rng(seed).standard_normal((HEADS, 1, task.symbols))

    def features(content: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [
                softmax_attention(query, content, content, 1.0)
                .transpose(1, 0, 2)
                .reshape(n, -1),
                np.ones((n, 1)),
            ],
            axis=1,
        )

    train = task.sample(n, L, seed)
    test = task.sample(n, L, seed + 1)
    weights = np.linalg.lstsq(features(train.content), train.target, rcond=1e-6)[0]
    return mean_and_error((features(test.content) @ weights - test.target) ** 2)


def _permutation_change(task: OrderTask, L: int, seed: int) -> float:
    """Largest change of attention over pairs when the tokens are listed in another order."""
    rng = np.random.default_rng(seed)
    b = task.sample(50, L, seed)
    pairs = attach_positions(b.content, b.positions, width=L)
    query, order = rng.standard_normal((50, pairs.shape[2])), rng.permutation(L)
    return float(
        np.abs(
            softmax_attention(query, pairs, pairs, 0.3)
            - softmax_attention(query, pairs[:, order], pairs[:, order], 0.3)
        ).max()
    )


def _figure(seeing: Series, blind: Series) -> Figure:
    return figure(
        "Order is lost without positions and recovered with them (lines exact, points sampled)",
        panel(
            "does A come before B?",
            "length L",
            "squared error",
            *blind.marks("without positions", 1, named=False),
            *seeing.marks("with positions", 0, named=False),
            legend("sampled"),
            log="x",
            y_range=(0.0, 1.3),
        ),
    )


CLAIM = Claim(
    id="exch-02-positions",
    title="Positions restore the order that attention cannot see",
    statement=(
        "[Attention is invariant to permutations of its tokens, also of (content, position) pairs]"
        "(permuted).",
        "[A label that depends on the order of the tokens cannot be predicted from contents alone]"
        "(blind).",
        f"[The squared error stays at {BLIND_RISK:g}, the variance of the label](blind-mean).",
        "[Two heads over (content, position) pairs recover the label at every length](seeing): "
        f"[the squared error is {SEEING_RISK:g}, the variance of the noise](seeing-mean).",
    ),
    headline="seeing-mean",
    provenance=Provenance(
        "same",
        ("B/positions",),
        "task and numbers",
    ),
    hypotheses="order task with L = 2 .. 64, label noise 0.3",
    routes=("exact Bayes risks", "attention heads on sampled sequences"),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "task = at.OrderTask()\n"
        "b = task.sample(1000, length=16, seed=0)\n"
        "a, c = (at.softmax_attention(np.eye(4)[i], b.content, b.positions[..., None], "
        "bandwidth=0.02)[:, 0] for i in (0, 1))\n"
        "print(np.mean((np.sign(c - a) - b.target) ** 2), np.mean((task.bayes_predict(b.content) - "
        "b.target) ** 2))\n"
    ),
)
