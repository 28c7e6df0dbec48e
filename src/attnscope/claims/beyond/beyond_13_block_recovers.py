"""A trained Transformer block finds k* and v*, and its risk ends at a floor that layer norm sets.

notation: e = (1,..,1)/sqrt(d), P = I - e e', S the logit of a head, T the block's output;
directions as predictors.blocks.transformer defines them.

Predicted. Layer norm hides a token's mean and length. So a value direction is at most |P v*| =
sqrt(1 - (e.v*)^2) aligned with v*, and the risk is at least E Var(Y | direction of P X_J), whoever
finds the token (theory.risks.layer_norm). Before training a key direction is uniform in the centred
space: the mean squared cosine with k* is |P k*|^2/(d-1). Measured on trained blocks: alignments by
automatic differentiation, the risk on fresh sequences.

The derivatives have a second route without derivatives, Stein's lemma: for pairs of background
tokens the log ratio D of their weights has E[D (x_1 - x_2)]/2 = E[grad S], and E[T (X_J - s
k*)]/gam^2 = E[dT/dX_J]. The latter would be v* for a perfect predictor; the blocks' is shrunk.

With two heads training does not divide the work in one way (one head may idle, or both do the
same), so of these blocks the key of the head that looks at the informative token most is compared
with k*, and the sum of the value directions with v*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import Z, mean_and_error, sampled, worst
from attnscope.claims.panels import COUNT, spread
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.networks.blocks import BlockHistory, cosine, train_block
from attnscope.figures.figure import Figure, Line, Panel
from attnscope.predictors.blocks.sequence_model import Parameters
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import Batch, SingleLocation
from attnscope.theory.risks.layer_norm import layer_norm_floor

TASK = SingleLocation(dim=32, length=16)
ALIGNED = 0.9
READ = 0.003  # of the value's cosine: 16 blocks of other seeds were within .001 of |P v*|
# floors: blocks of other seeds were measured at 1.07 to 1.34 of them, scattered by rare misses in
# the test batch
NEAR = 1.4
ALL = "an exact count: one block less breaks it"
STARTS = 200
PAIRS = 20_000
SEQUENCES = 4096


class Ends(NamedTuple):
    """Of trained blocks, (runs,) each: cosines of the chosen head's key with k*,
    of the summed value with v*.
    """

    key: np.ndarray
    value: np.ndarray


def check(context: Context) -> Evidence:
    runs = context.pick(3, 10)
    steps = context.pick(1500, 5000)
    seeds = np.random.default_rng([context.seed, 713]).integers(2**31, size=8)
    models = [TransformerBlock(TASK.dim, heads) for heads in (1, 2)]
    trained = [
        train_block(TASK, m, steps, runs=runs, seed=int(s), progress=False)
        for m, s in zip(models, seeds)
    ]
    batch = TASK.sample(SEQUENCES, int(seeds[2]))
    ends = [_ends(history, batch) for history in trained]
    floor = layer_norm_floor(TASK)
    one = trained[0]
    ceiling = float(np.linalg.norm(TASK.value - TASK.value.mean()))
    lowest, highest = (int(f(one.excess[:, -1])) for f in (np.argmin, np.argmax))
    both = [int(((e.key > ALIGNED) & (e.value > ALIGNED)).sum()) for e in ends]
    at = lambda i: (float(one.excess[i, -1]), Z * float(one.error[i, -1]))
    comparisons = (
        Comparison(
            f"1 head: blocks with both cosines above {ALIGNED}", runs, both[0], COUNT, why=ALL
        ),
        Comparison(
            f"2 heads: blocks with both cosines above {ALIGNED}",
            runs,
            both[1],
            COUNT,
            why=ALL,
        ),
        worst(
            "1 head: cosine of the value direction with v*, |P v*| predicted",
            ceiling,
            ends[0].value,
            READ,
            why="three times the largest distance, .001, of 16 blocks of other seeds",
        ),
        Comparison(
            "1 head: excess risk, not below the floor",
            floor.excess,
            *at(lowest),
            "at least",
            why="5 standard errors of the test batch, one-sided: 3e-7 a block",
        ),
        Comparison(
            f"1 head: excess risk, at most {NEAR} floors",
            NEAR * floor.excess,
            *at(highest),
            "at most",
            why="5 standard errors (3e-7); blocks of other seeds were at 1.07 to 1.34 floors",
        ),
        _key_by_stein(one, int(seeds[3])),
        _sensitivity_by_stein(one, batch, int(seeds[4])),
        _random_starts(int(seeds[5])),
    )
    exact = one.references
    share = np.median(one.watched["concentration"][:, :, 0], axis=0)
    notes = (
        f"Floor of layer norm {floor.excess:.4f}, Bayes {exact['bayes']:.4f}, best linear "
        f"{exact['linear']:.3f}; a value cosine is at most {ceiling:.4f}. The query-key matrix "
        "concentrates: share of its largest singular value, squared, "
        f"{share[0]:.2f} -> {share[-1]:.2f}."
    )
    blocks = zip(one.excess[:, -1], trained[1].excess[:, -1], ends[0].key, ends[0].value)
    rows = tuple((f"run {i + 1}", *row) for i, row in enumerate(blocks))
    columns = ("", "excess, one head", "excess, two heads", "key cosine", "value cosine")
    table = Table(f"Blocks after {steps} steps (cosines: one head)", columns, rows)
    figure = _figure(trained, floor.excess, ceiling)
    return Evidence(comparisons, figure, notes, tables=(table,))


def _ends(history: BlockHistory, batch: Batch) -> Ends:
    rows = [_end(history.model, p, batch) for p in history.parameters]  # type: ignore[arg-type]
    return Ends(*np.array(rows).T)


def _end(model: TransformerBlock, p: Parameters, batch: Batch) -> tuple[float, float]:
    part = slice(0, 512)  # 8192 tokens determine a direction to a few thousandths
    weights = model.attention(p, batch.tokens[part])[
        np.arange(512), :, batch.location[part]
    ].mean(axis=0)
    key, value = model.directions(p, batch.tokens[part])
    return float(cosine(key, TASK.key)[np.argmax(weights)]), float(
        cosine(value.sum(0)[None], TASK.value)[0]
    )


def _key_by_stein(history: BlockHistory, seed: int) -> Comparison:
    """k*.E[grad S] of every run, by autodiff and from log ratios of attention weights."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, PAIRS, 2, TASK.dim))
    model: TransformerBlock = history.model  # type: ignore[assignment]
    rows = []
    for p in history.parameters:
        logs = np.log(model.attention(p, x)[:, 0])  # (pairs, 2)
        stein = mean_and_error(
            (logs[:, 0] - logs[:, 1]) * ((x[:, 0] - x[:, 1]) @ TASK.key) / 2
        )
        slope = mean_and_error(
            np.array(
                [model.directions(p, part).key[0] @ TASK.key for part in np.split(y, 20)]
            )
        )
        rows.append((slope[0], stein[0], np.hypot(slope[1], stein[1])))
    return sampled(
        "1 head: slope of the logit along k*, Stein against autodiff", *np.array(rows).T
    )


def _sensitivity_by_stein(history: BlockHistory, batch: Batch, seed: int) -> Comparison:
    """v*.E[dT/dX_J] of every run, by autodiff and from the covariance of output and token."""
    other = TASK.sample(SEQUENCES, seed)
    # s k*.v* = 0
    informative = other.tokens[np.arange(SEQUENCES), other.location] @ TASK.value
    parts = np.split(np.arange(SEQUENCES), 16)
    rows = []
    for p in history.parameters:
        stein = mean_and_error(
            history.model.predict(p, other.tokens) * informative / TASK.gamma**2
        )
        slopes = [
            history.model.sensitivity(p, batch.tokens[i], batch.location[i]) @ TASK.value
            for i in parts
        ]
        slope = mean_and_error(np.array(slopes))
        rows.append((slope[0], stein[0], np.hypot(slope[1], stein[1])))
    return sampled("1 head: sensitivity to X_J.v*, Stein against autodiff", *np.array(rows).T)


def _random_starts(seed: int) -> Comparison:
    """d - 1 times the mean squared cosine of untrained key directions with k*."""
    model = TransformerBlock(TASK.dim, hidden=0)
    tokens = TASK.sample(64, seed).tokens
    keys = np.array(
        [model.directions(model.init(seed + i), tokens).key[0] for i in range(STARTS)]
    )
    predicted = float(np.sum((TASK.key - TASK.key.mean()) ** 2))  # |P k*|^2
    squares = (TASK.dim - 1) * cosine(keys, TASK.key) ** 2
    return sampled(
        "untrained: mean squared cosine with k* times d - 1",
        predicted,
        *mean_and_error(squares),
    )


def _figure(trained: list[BlockHistory], floor: float, ceiling: float) -> Figure:
    one, two = trained
    ends = [0, int(one.step[-1])]
    exact = one.references
    level = lambda y, label, color: Line(ends, [y, y], label, color, dashed=True)
    best = lambda x: x.max(axis=2)
    panels = (
        Panel(
            "key with k* (of 2 heads the better)",
            "step",
            "cosine",
            (
                *spread(one.step, one.watched["key_alignment"][:, :, 0], "1 head", 0),
                *spread(
                    one.step,
                    one.watched["value_alignment"][:, :, 0],
                    "value with v*, 1 head",
                    1,
                ),
                *spread(two.step, best(two.watched["key_alignment"]), "2 heads", 2),
                level(ceiling, "|P v*|", 6),
                Line(ends, [TASK.dim**-0.5] * 2, "random, d^-1/2", 6, thin=True),
            ),
        ),
        Panel(
            "excess risk",
            "step",
            "excess risk",
            (
                *spread(one.step, one.excess, "1 head", 0),
                *spread(two.step, two.excess, "2 heads", 2),
                level(exact["linear"], "best linear", 5),
                level(floor, "floor of layer norm", 6),
                level(exact["bayes"], "Bayes", 3),
            ),
            log_y=True,
        ),
        Panel(
            "query-key matrix (of 2 heads the lower)",
            "step",
            "effective rank",
            (
                *spread(one.step, one.watched["effective_rank"][:, :, 0], "1 head", 0),
                *spread(two.step, two.watched["effective_rank"].min(axis=2), "2 heads", 2),
            ),
        ),
    )
    return Figure(
        f"Trained Transformer blocks, {one.runs} runs each (bands: 95 % of the runs)",
        panels,
        columns=3,
    )


CLAIM = Claim(
    id="beyond-13-block-recovers",
    title="A trained Transformer block recovers k* and v*",
    statement=(
        "A one-block Transformer (layer norm, residual, feed-forward, register token; one or two "
        "heads) trained by Adam on fresh sequences aligns "
        "its key direction with k* and its value direction with v* as far as layer norm lets it "
        "(|P v*|), while its query-key matrix concentrates "
        "on few singular values. Its risk ends within 40 % of a floor that layer norm sets, ten "
        "times the Bayes risk here: the block cannot see a "
        "token's mean and length."
    ),
    provenance=Provenance(
        "new here",
        ("A/blocks",),
        "directions read off a trained block",
    ),
    hypotheses=(
        "d = 32, L = 16, gamma^2 = 1/2, s^2 = d/2; pre-norm block read at its register; "
        "1500 Adam steps on batches of 64, float32"
    ),
    condition=(
        "directions are averages of gradients; two heads share the work in ways that differ "
        "between runs"
    ),
    routes=(
        "closed forms and conditional sampling; Stein's lemma",
        "trained blocks: autodiff and risk on fresh sequences",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "from attnscope.theory.risks.layer_norm import layer_norm_floor\n"
        "task = at.SingleLocation(dim=32, length=16)\n"
        "run = at.train_block(task, at.TransformerBlock(dim=32, heads=1), steps=300, "
        "progress=False)\n"
        "print(run.excess[0, -1], run.error[0, -1], layer_norm_floor(task).excess)\n"
        "print(run.watched['key_alignment'][0, -1], run.watched['value_alignment'][0, -1])\n"
    ),
)
